"""Every door has every capability: the same bits as memory, or the same refusal."""

from __future__ import annotations

import itertools
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data import passes
from conformix.data.batches import Batches
from conformix.fit import far, rows
from conformix.search import GridSearch
from conformix.splits import ValidityFirst
from doors.cells import N_CLASSES, SOURCES, Cell, cells, in_memory, outcome, rows_of, verdict
from doors.page import PAGE, plain, read, render

da = pytest.importorskip("dask.array")
pytest.importorskip("torch")
AXES = [field.name for field in fields(Cell)]


@cache
def page() -> dict[Cell, str]:
    return read(PAGE.read_text("utf-8"))


def paired(some: list[Cell], seed: int) -> list[Cell]:
    """Few of the cells in which every two values of two axes meet that meet in any of them."""

    values = {cell: [(axis, getattr(cell, axis)) for axis in AXES] for cell in some}
    pairs = {cell: set(itertools.combinations(values[cell], 2)) for cell in some}
    order = [some[i] for i in np.random.default_rng(seed).permutation(len(some))]
    missing, chosen = sorted(set().union(*pairs.values())), []
    while missing:
        wanted = set(missing)
        fits = [cell for cell in order if missing[0] in pairs[cell]]
        chosen.append(max(fits, key=lambda cell: len(pairs[cell] & wanted)))
        missing = [pair for pair in missing if pair not in pairs[chosen[-1]]]
    return chosen


def drawn() -> list[Cell]:
    works = [cell for cell, said in page().items() if said == "works"]
    return paired([cell for cell in works if cell.source != "memory"], 0)


def test_the_page_says_something_of_every_cell() -> None:
    assert len(page()) == len(list(cells()))
    assert set(page()) == set(cells())
    assert render(page().__getitem__) == PAGE.read_text("utf-8")


@pytest.mark.parametrize("cell", drawn(), ids=lambda cell: "-".join(vars(cell).values()))
def test_a_cell_that_works_gives_what_memory_gives_bit_for_bit(cell: Cell) -> None:
    assert verdict(cell) == "works"


@pytest.mark.parametrize("source", SOURCES)
def test_a_cell_that_is_refused_says_what_the_page_says(source: str) -> None:
    rng = np.random.default_rng(SOURCES.index(source))
    refused: dict[str, list[Cell]] = {}
    for cell, said in page().items():
        if said != "works" and cell.source == source:
            refused.setdefault(said, []).append(cell)
    for said, some in refused.items():
        found = outcome(some[rng.integers(len(some))])
        assert isinstance(found, str)
        assert plain(found) == said


@pytest.mark.parametrize("seed", range(12))
def test_no_cut_into_batches_or_chunks_and_no_number_of_workers_changes_a_bit(seed: int) -> None:
    import dask

    rng = np.random.default_rng([7, seed])
    works = [cell for cell, said in page().items() if said == "works"]
    for source in ("batches", "dask"):
        cell = works[rng.integers(len(works))].by(source)
        size, workers = int(rng.integers(1, 60)), int(rng.integers(1, 5))
        with dask.config.set(scheduler="threads", num_workers=workers):
            assert outcome(cell, size, seed) == in_memory(cell, seed), (cell, size, workers)


# Rows of all splits, whoever counts.

X, Y = rows_of("fit").outputs, rows_of("fit").y
TEST, OTHERS = rows_of("test").outputs, rows_of("fresh").outputs
CHUNKS = da.from_array(X, chunks=(31, 3))


def average(**options: Any) -> cx.ScoreAverage:
    settings: dict[str, Any] = {"alpha": 0.2, "random_state": 1, "threads": 1} | options
    return cx.ScoreAverage(**{"scores": "paper", **settings})


def batches(size: int = 13) -> Batches:
    return Batches(lambda: iter(cut(size)), len(Y))


def cut(size: int = 13) -> list[Any]:
    return [(X[i : i + size], Y[i : i + size]) for i in range(0, len(Y), size)]


def alike(one: cx.ScoreAverage, other: cx.ScoreAverage) -> None:
    assert_array_equal(one.weights_, other.weights_)
    assert_array_equal(one.predictor_.fitted.calibration, other.predictor_.fitted.calibration)
    assert repr(one.search_) == repr(other.search_)
    assert one.guarantee_.facts == other.guarantee_.facts
    assert one.held_out_size_ == other.held_out_size_
    new = rows_of("new").outputs
    assert_array_equal(one.predict_pvalues(new), other.predict_pvalues(new))


ALL_ROWS = {
    "efcp": {"split": "efcp"},
    "dlcp": {"split": "dlcp"},
    "dlcp+": {"split": "dlcp+"},
    "efcp, a learnt scale": {"split": "efcp", "normalize": "ecdf"},
    "efcp, two scores of one model": {"split": "efcp", "scores": ("thr", "rank")},
    "efcp, given weights": {"split": "efcp", "search": [[0.5, 0.2, 0.3], [0.0, 2.0, 1.0]]},
    "efcp, weights below zero": {"split": "efcp", "search": [[0.2, -1.0, 1.2], [-0.5, 1.5, -0.4]]},
    "efcp, lines": {"split": "efcp", "search": "line"},
    "efcp, another objective": {"split": "efcp", "objective": "singletons"},
    "efcp, scores that learn": {"split": "efcp", "scores": ("thr", "kin")},
}  # fmt: skip


@pytest.mark.parametrize(
    "reached", [2**31, 0], ids=["labels come here", "labels are counted there"]
)
@pytest.mark.parametrize("options", ALL_ROWS.values(), ids=ALL_ROWS)
def test_rows_that_all_tune_are_searched_where_they_are(
    options: dict[str, Any], reached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"search": GridSearch(12)} | options
    test = TEST if "dlcp" in options["split"] else None
    here = average(**options).fit(X, Y, test=test)
    monkeypatch.setattr(far, "REACHED_BYTES", reached)
    monkeypatch.setattr(far, "PART_BYTES", 500)  # several parts
    alike(average(**options).fit_batches(batches(), test=test), here)
    there = None if test is None else da.from_array(test, chunks=(17, 2))
    alike(average(**options).fit(CHUNKS, Y, test=there), here)
    monkeypatch.setattr(rows, "TENSOR_BYTES", 0)  # as if arrays were too large
    alike(average(**options).fit(X, Y, test=test), here)


def test_test_rows_without_a_label_within_reach_have_empty_sets_as_in_memory() -> None:
    sure = np.full((60, N_CLASSES), 0.002)
    sure[np.arange(60), Y[:60]] = 1 - 0.002 * (N_CLASSES - 1)
    test = np.full((100, N_CLASSES), 1 / N_CLASSES)
    cp = average(split="dlcp", scores=("thr", "margin"))
    here = average(split="dlcp", scores=("thr", "margin")).fit(sure, Y[:60], test=test)
    assert here.search_.count == 0
    alike(cp.fit_batches([(sure, Y[:60])], test=test), here)


@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+"])
def test_a_search_that_counts_never_holds_all_scores_of_rows_that_are_elsewhere(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any) -> None:
        raise AssertionError("all scores of all rows")

    monkeypatch.setattr(far.FarOutputs, "tensor", property(refuse))
    test = None if split == "efcp" else TEST
    average(split=split).fit_batches(batches(), test=test)
    average(split=split).fit(CHUNKS, Y, test=test)


def test_what_needs_all_scores_of_all_rows_is_refused_beyond_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(far, "score_bytes", lambda *shape: 10**15)
    learning = {"split": "efcp", "scores": ("thr", "kin")}
    with pytest.raises(cx.InvalidInput, match=r"bring the outputs of 96 rows here, 1000000\.0 GB"):
        average(**learning).fit(CHUNKS, Y)
    with pytest.raises(cx.InvalidInput, match=r"bring the outputs of 96 rows here, 1000000\.0 GB"):
        average(**learning).fit_batches(batches())
    for options in ({"split": "efcp", "allow_empty": False}, {"split": "exact"}):
        sentence = f'split "{options["split"]}" keeps the scores of all rows, 1000000'
        with pytest.raises(cx.InvalidInput, match=sentence):
            average(**options).fit(CHUNKS, Y)
        with pytest.raises(cx.InvalidInput, match=sentence):
            average(**options).fit_batches(batches())


# Iterators, which end.

TWICE = {
    "auto": {"scores": "auto"},
    "scores that learn": {"scores": ("thr", "likeness")},
    "efcp": {"split": "efcp"},
    "exact": {"split": "exact", "search": GridSearch(3)},
    "groups": {},
}


@pytest.mark.parametrize("name", TWICE)
def test_an_iterator_is_held_where_its_rows_are_needed_twice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {"groups": rows_of("fit").groups} if name == "groups" else {}
    parts = [
        (*part, {key: values[i * 13 : i * 13 + 13] for key, values in groups.items()})
        for i, part in enumerate(cut())
    ]
    cp = average(**TWICE[name])
    alike(cp.fit_batches(iter(parts)), average(**TWICE[name]).fit(X, Y, **groups))
    monkeypatch.setattr(passes, "ITERATOR_BYTES", X[:40].nbytes)
    with pytest.raises(cx.InvalidInput, match="an iterator ends: to hold all its outputs"):
        cp.fit_batches(iter(parts))
    cp.fit_batches(parts)  # can be read again, and nothing is held


def test_what_is_held_of_an_iterator_is_a_copy() -> None:
    room = np.empty_like(X[:13])

    def overwritten() -> Any:
        for outputs, y in cut():
            room[: len(y)] = outputs
            yield room[: len(y)], y

    alike(average(scores="auto").fit_batches(overwritten()), average(scores="auto").fit(X, Y))


def test_sets_that_are_never_empty_fit_from_an_iterator_as_from_a_list() -> None:
    cp = average(allow_empty=False, split=ValidityFirst(max_rows=20))
    expected = average(allow_empty=False, split=ValidityFirst(max_rows=20)).fit_batches(cut())
    alike(cp.fit_batches(iter(cut())), expected)


# Rows without labels, from anywhere.

ANYWHERE = {
    "arrays": lambda values: values,
    "Dask arrays": lambda values: da.from_array(values, chunks=(7, 2)),
    "batches": lambda values: Batches(lambda: iter([values[:9], values[9:]]), len(values)),
    "a function": lambda values: lambda: iter([(values[:9], None), (values[9:], None)]),
    "an iterator": lambda values: iter([values[:9], values[9:]]),
}


@pytest.mark.parametrize("place", ANYWHERE.values(), ids=ANYWHERE)
def test_rows_without_labels_teach_alike_wherever_they_live(place: Any) -> None:
    for scores in ("auto", ("thr", "kin", "rarity")):
        here = average(scores=scores).fit(X, Y, test=TEST, unlabelled=OTHERS)
        others = [
            average(scores=scores).fit(X, Y, test=place(TEST), unlabelled=place(OTHERS)),
            average(scores=scores).fit(CHUNKS, Y, test=place(TEST), unlabelled=place(OTHERS)),
            average(scores=scores).fit_batches(
                batches(), test=place(TEST), unlabelled=place(OTHERS)
            ),
        ]
        for other in others:
            alike(other, here)


WRONG = {
    "no rows": (lambda: iter([]), "unlabelled must hold some rows"),
    "other classes": ([[0.5, 0.5]], f"unlabelled must have the {N_CLASSES} fitted classes; got 2"),
    "other models": ({"a": OTHERS}, r"unlabelled must come from the fitted models one array"),
    "chunks of other classes": (
        da.from_array(OTHERS[:, :3]), f"unlabelled must have the {N_CLASSES} fitted classes; got 3",
    ),
    "no probabilities": (lambda: iter([OTHERS * 3]), "unlabelled must hold probabilities"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "sentence"), WRONG.values(), ids=WRONG)
def test_rows_without_labels_that_cannot_be_are_refused_in_one_sentence(
    given: Any, sentence: str
) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        average(scores="auto").fit_batches(batches(), unlabelled=given)


def test_rows_with_the_numbers_of_others_in_another_order_are_other_rows() -> None:
    turned = np.ascontiguousarray(X[:, ::-1])
    average(scores="auto").fit(CHUNKS, Y, unlabelled=turned)
    with pytest.raises(cx.InvalidInput, match="must hold other rows than those that calibrate"):
        average(scores="auto").fit(CHUNKS, Y, unlabelled=X)


def test_sets_of_several_levels_come_by_level_and_are_computed_together() -> None:
    cp, new = average().fit(X, Y), rows_of("new").outputs
    seen: list[int] = []
    lazy = da.from_array(new, chunks=(5, -1)).map_blocks(
        lambda block: seen.append(len(block)) or block, dtype=new.dtype, meta=np.empty((0, 0))
    )
    sets = cp.predict_set(lazy, alpha=[0.3, 0.1])
    assert seen == []
    assert list(sets) == [0.1, 0.3]
    import dask

    with dask.config.set(scheduler="synchronous"):
        found = dask.compute(sets)[0]
    assert sorted(seen) == [2, 5, 5]
    nested = cp.predict_set(new, alpha=[0.3, 0.1])
    for level, mask in found.items():
        assert_array_equal(mask, nested.at(level).mask)
