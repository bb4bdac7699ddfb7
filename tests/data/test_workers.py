"""Dask arrays and workers: the same bits, whatever the chunks and whoever dies."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data.workers import work_of
from conformix.experiments import Spec, run
from conformix.splits import ValidityFirst

da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

SETTINGS = {
    "plain": {},
    "few tuning rows": {"split": ValidityFirst(max_rows=200)},
    "no empty sets": {"allow_empty": False},
    "a threshold per class": {"calibration": "class"},
    "given weights": {"weights": (0.5, 0.25, 0.25), "normalize": "scale"},
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    data = cx.datasets.load("cifar10")
    return data.outputs["vgg16"][:3000], data.labels[:3000]


def same_fit(one: cx.ScoreAverage, other: cx.ScoreAverage) -> None:
    np.testing.assert_array_equal(one.weights_, other.weights_)
    mine, its = one.predictor_.fitted, other.predictor_.fitted
    np.testing.assert_array_equal(mine.calibration, its.calibration)
    assert mine.held_out_size == its.held_out_size
    assert mine.ledger.facts == its.ledger.facts


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_fit_on_chunks_is_the_fit_in_memory_bit_for_bit(settings, rows) -> None:
    logits, y = rows
    options = {"kind": "logits", "random_state": 2, "threads": 1} | settings
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y)
    chunks = da.from_array(logits, chunks=(700, 3))
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
        chunks, da.from_array(y, chunks=450)
    )
    same_fit(parts, whole)
    sets = parts.predict_set(chunks)
    assert sets.chunks[0] == chunks.chunks[0]
    np.testing.assert_array_equal(sets.compute(), whole.predict_set(logits))


ELSEWHERE = SETTINGS | {
    "exact": {"split": "exact", "search": cx.search.GridSearch(2)},
    "pac": {"guarantee": "pac"},
}


@pytest.mark.parametrize("settings", ELSEWHERE.values(), ids=ELSEWHERE)
def test_sets_of_chunks_and_batches_at_another_level_are_those_in_memory(settings, rows) -> None:
    alpha, logits, y = 0.05, rows[0][:900], rows[1][:900]
    options = {"kind": "logits", "random_state": 2, "threads": 1} | settings
    cp = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits[:600], y[:600])
    fresh = logits[600:]
    expected = np.asarray(cp.predict_set(fresh, alpha=alpha))
    assert (expected != np.asarray(cp.predict_set(fresh))).any()
    chunks = da.from_array(fresh, chunks=(130, 4))
    np.testing.assert_array_equal(cp.predict_set(chunks, alpha=alpha).compute(), expected)
    batches = cp.predict_batches([fresh[:130], fresh[130:]], alpha=alpha)
    np.testing.assert_array_equal(np.concatenate([sets.mask for sets in batches]), expected)


GIVEN_NAMES = {
    "a Dask array": da.from_array,
    "an array of objects": lambda names: names.astype(object),
    "a Dask array of objects": lambda names: da.from_array(names.astype(object), chunks=700),
    "a list": np.ndarray.tolist,
}


@pytest.mark.parametrize("given", GIVEN_NAMES.values(), ids=GIVEN_NAMES)
def test_several_models_groups_and_class_names(given, rows) -> None:
    logits, y = rows
    names = [f"class {k}" for k in range(10)]
    both = {"a": logits, "b": logits[::-1]}
    options = {"scores": ("thr", "rank"), "kind": "logits", "random_state": 0, "threads": 1}
    groups = np.arange(len(y)) // 5
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
        both, y, classes=names, groups=groups
    )
    chunks = {"a": da.from_array(logits, chunks=(900, -1)), "b": logits[::-1]}
    parts = cx.ScoreAverage(**{"scores": "paper", **options}).fit(
        chunks, given(np.array(names)[y]), classes=names, groups=groups
    )
    same_fit(parts, whole)


def test_sets_of_several_models_come_by_name_whatever_their_order(rows) -> None:
    logits, y = rows
    weak = logits + np.random.default_rng(0).normal(scale=5.0, size=logits.shape)
    both = {"good": logits, "weak": weak}
    options = {"scores": "thr", "kind": "logits", "weights": (0.9, 0.1), "threads": 1}
    model = cx.ScoreAverage(**{"scores": "paper", **options}).fit(both, y)
    expected = np.asarray(model.predict_set(both))
    for names in (["good", "weak"], ["weak", "good"]):
        chunks = {name: da.from_array(both[name], chunks=(900, -1)) for name in names}
        np.testing.assert_array_equal(model.predict_set(chunks).compute(), expected)


def test_sets_are_computed_when_they_are_asked_for(rows) -> None:
    logits, y = rows
    cp = cx.ScoreAverage("paper", kind="logits", random_state=0).fit(logits, y)
    seen = []
    lazy = da.from_array(logits, chunks=(1000, -1)).map_blocks(
        lambda block: seen.append(len(block)) or block, dtype=float, meta=np.empty((0, 0))
    )
    sets = cp.predict_set(lazy)
    assert seen == []
    np.testing.assert_array_equal(sets[1000:1010].compute(), cp.predict_set(logits[1000:1010]))
    assert seen == [1000]


def test_counts_of_a_search_add_over_parts(rows) -> None:
    logits, y = rows[0][:400], rows[1][:400]
    scores = cx.score_tensor(logits, kind="logits")
    here = cx.search.landscape(scores, y, alpha=0.1, resolution=20)
    there = cx.search.spread.landscape(scores, y, alpha=0.1, resolution=20, parts=3)
    np.testing.assert_array_equal(there[1], here[1])
    options = {"kind": "logits", "random_state": 0}
    grid = cx.ScoreAverage(search=cx.search.GridSearch(20), **options).fit(logits, y)
    spread = cx.ScoreAverage(search=cx.search.SpreadGrid(20), **options).fit(logits, y)
    np.testing.assert_array_equal(spread.weights_, grid.weights_)
    assert spread.search_.count == grid.search_.count


BAD = {
    "dlcp": ({"split": "dlcp"}, {}, 'split "dlcp" counts sizes on the test rows; pass them'),
    "auto": ({"scores": "auto", "split": "efcp"}, {}, "learns from rows that do not calibrate"),
    "y": ({}, {"y": np.zeros(5, dtype=int)}, r"shape \(3000,\); got shape \(5,\)"),
    "a row": ({"kind": "probs"}, {}, 'if these are log-probabilities, say kind="logprobs"'),
    "sizes": ({}, {"unknown": True}, "call .compute_chunk_sizes"),
    "no rows": ({}, {"rows": slice(0)}, r"outputs must not be empty; got shape \(0, "),
    "a label": ({}, {"y": np.arange(3000) // 2500 * 99}, "row 2500 holds 99"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_what_cannot_be_is_said_in_one_sentence(case, rows) -> None:
    settings, change, sentence = case
    chunks = da.from_array(rows[0], chunks=(1000, -1))[change.get("rows", slice(None))]
    if change.get("unknown"):
        chunks = chunks[da.from_array(rows[1]) >= 0]
    options = {"kind": "logits", "random_state": 0} | settings
    with pytest.raises(cx.InvalidInput, match=sentence):
        cx.ScoreAverage(**{"scores": "paper", **options}).fit(
            chunks, change.get("y", rows[1]), test=rows[0] if change.get("test") else None
        )


def test_models_whose_names_are_one_text_are_refused(rows) -> None:
    chunks = da.from_array(rows[0], chunks=(1000, -1))
    with pytest.raises(cx.InvalidInput, match="models of different names"):
        cx.ScoreAverage("paper", kind="logits").fit({1: chunks, "1": chunks}, rows[1])


MORE = {
    "auto": {"scores": "auto"},
    "efcp": {"split": "efcp", "search": cx.search.GridSearch(10)},
}


def dying_once(flag: str):
    """Return a function of blocks: the first time that it sees the third one, its worker dies."""

    def same(block: np.ndarray, block_info=None) -> np.ndarray:  # workers cannot import tests
        if block_info and block_info[0]["chunk-location"][0] == 2 and not Path(flag).exists():
            Path(flag).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    return same


@pytest.mark.filterwarnings("default")  # what a killed process leaves open is not ours to close
def test_a_killed_worker_costs_time_and_not_the_result(rows, tmp_path, capsys) -> None:
    logits, y = rows
    options = {"kind": "logits", "random_state": 2, "threads": 1}
    whole = cx.ScoreAverage(**{"scores": "paper", **options}).fit(logits, y)
    spec = Spec("mmlu_llama13b", ("thr", "average"), models=("llama13b_prompt0",), runs=6)
    run(spec, tmp_path / "here.jsonl", workers=1)
    with cx.cluster.connected("local", workers=2, progress=True) as client:
        chunks = da.from_array(logits, chunks=(500, -1)).map_blocks(
            dying_once(str(tmp_path / "flag")), dtype=logits.dtype, meta=np.empty((0, 0))
        )
        same_fit(cx.ScoreAverage(**{"scores": "paper", **options}).fit(chunks, y), whole)
        assert (tmp_path / "flag").exists(), "a worker was killed in the middle"
        for name, settings in MORE.items():
            dying = dying_once(str(tmp_path / name))
            fragile = da.from_array(logits, chunks=(500, -1)).map_blocks(
                dying, dtype=logits.dtype, meta=np.empty((0, 0))
            )
            here = cx.ScoreAverage(**{"scores": "paper", **options, **settings}).fit(logits, y)
            same_fit(
                cx.ScoreAverage(**{"scores": "paper", **options, **settings}).fit(fragile, y), here
            )
            assert (tmp_path / name).exists()
        np.testing.assert_array_equal(
            whole.predict_set(chunks).compute(), whole.predict_set(logits)
        )

        def kill_one(done: int, total: int) -> None:
            if done == 1:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        run(spec, tmp_path / "there.jsonl", progress=kill_one)
        work = client.run_on_scheduler(work_of)
        assert (work.done > 20, work.left) == (True, 0)
    assert (tmp_path / "there.jsonl").read_bytes() == (tmp_path / "here.jsonl").read_bytes()
    assert re.search(r"\d+ tasks done, 0 left; \d workers? with \d", capsys.readouterr().err)


def test_an_address_where_nothing_answers_is_refused() -> None:
    with (
        pytest.raises(cx.InvalidInput, match='must be "local" or an address'),
        cx.cluster.connected("localhost"),
    ):
        pass


def test_more_classes_than_a_byte_holds_calibrate_as_in_memory() -> None:
    import dask.array as da

    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(400, 300)), rng.integers(0, 300, 400)
    logits[np.arange(400), y] += 4
    cp = cx.ScoreAverage(("thr", "rank"), kind="logits", random_state=0)
    here = cp.fit(logits, y).predictor_.fitted.calibration
    there = cp.fit(da.from_array(logits, chunks=(90, -1)), y).predictor_.fitted.calibration
    np.testing.assert_array_equal(there, here)


def test_a_search_spread_over_more_parts_than_rows_finds_the_same(cifar10) -> None:
    logits, labels = cifar10
    weights = [
        cx.ScoreAverage(kind="logits", search=search, allow_empty=False, random_state=0)
        .fit(logits[:60], labels[:60])
        .weights_
        for search in (cx.search.GridSearch(5), cx.search.SpreadGrid(5, parts=100))
    ]
    assert_array_equal(*weights)
