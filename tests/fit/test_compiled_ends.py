"""Upper ends that are walked by compiled loops are those that NumPy finds, window by window."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.fit import upper_ends
from conformix.fit.rule import Rule
from conformix.fit.scored import HeldOutputs, Scoring, with_order
from conformix.fit.tuning import TuningRows
from conformix.kernels.order import falling_labels
from conformix.kernels.twins import compile_for
from conformix.scores import score_columns
from conformix.scores.scale import NORMALIZERS
from conformix.scores.sorted_rows import HELD_PLACES, SortedRows
from conformix.scores.upper_rows import UpperRows, sorted_slices

THREE = score_columns(("",), ("thr", "aps", "rank"))
COMPILED = 2**17
WEIGHTS = {
    "mixed": [0.5, 0.2, 0.3], "zeros": [0.0, 0.0, 1.0], "two": [0.4, 0.6, 0.0], "none": [0.0] * 3,
}  # fmt: skip


def tuned(digits: int | None, spread: float) -> tuple[TuningRows, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    y = rng.integers(60, size=400)
    logits = rng.normal(0, spread, (400, 60)) + 3 * np.eye(60)[y]
    logits = logits if digits is None else logits.round(digits)
    scoring = Scoring(THREE, 0)
    held = with_order(HeldOutputs(check_outputs(logits, "logits"), scoring))
    return TuningRows(held, y, NORMALIZERS["ecdf"], THREE), logits, y


@pytest.fixture(autouse=True, params=[1, 3], ids=["one thread", "three threads"])
def threads(request, monkeypatch) -> int:
    """As many threads share the rows of every block, however few."""
    monkeypatch.setattr("conformix.kernels.blocks.PART_OUTPUTS", 64)
    return request.param


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize(("digits", "spread"), [(None, 1.5), (0, 1.5), (None, 0.1)])
def test_first_places_and_labels_that_score_alike(
    monkeypatch, digits, spread, weights, allow_empty, threads
) -> None:
    compile_for(COMPILED)
    rows, logits, _ = tuned(digits, spread)
    rule = Rule(rows.transform, np.array(weights), allow_empty)
    assert rows.transform.lines is not None
    levels = np.sort(rule.of_single_labels(rows.true_scores))[[8, 120, 360]]
    mixed = np.random.default_rng(0).choice([*levels, -np.inf, np.inf], (len(logits), 1))
    some = np.arange(1, len(logits), 3)
    asked = [
        *((cut, None) for cut in (*map(float, levels), -np.inf, np.inf, mixed)), (mixed[some], some)
    ]  # fmt: skip

    def answers(block: SortedRows | UpperRows) -> list[np.ndarray]:
        found = []
        for cuts, which in asked:
            found += upper_ends.first_places(block, THREE, rule, cuts, which)
        return found

    plain = answers(SortedRows(logits, "logits"))
    for width in (1, HELD_PLACES, 60):
        monkeypatch.setattr(UpperRows, "at_once", 60 * 7 + width)  # few deep rows at a time
        rows_of = SortedRows(logits, "logits")
        compiled = answers(UpperRows(rows_of, THREE, None, width, threads=threads).filled())
        for ours, theirs in zip(compiled, plain, strict=True):
            assert_array_equal(ours, theirs)
    assert not any(weights) or len({len(np.unique(first)) for first in compiled[::2]}) > 1


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("layout", ["float64", "float32", "by columns", "read only"])
@pytest.mark.parametrize("digits", [None, 1], ids=["no ties", "ties"])
def test_labels_of_sets_of_any_size(layout, digits, compiled, threads) -> None:
    if compiled:
        compile_for(COMPILED)
    outputs = np.random.default_rng(1).normal(0, 1, (202, 100))
    outputs = outputs if digits is None else outputs.round(digits)
    first = np.arange(202) // 2  # from all labels of a row to none
    outputs = outputs.astype(np.float32 if layout == "float32" else np.float64)
    rising = np.pad(np.sort(outputs, axis=1), ((0, 0), (0, 1)), constant_values=np.inf)
    lowest = rising[np.arange(202), first]
    if layout == "by columns":
        outputs = np.asfortranarray(outputs)
    outputs.flags.writeable = layout != "read only"
    mask = np.ones((202, 100), dtype=bool)
    reached = outputs >= lowest[:, None]
    found = falling_labels(outputs, mask, (lowest, reached.sum(axis=1)), threads)
    assert_array_equal(mask, reached)
    best_first = [
        label
        for row, inside in zip(outputs, mask, strict=True)
        for label in np.argsort(-row, kind="stable")
        if inside[label]
    ]
    assert_array_equal(found, best_first)
    assert_array_equal(falling_labels(outputs, mask), best_first)


@pytest.mark.parametrize("best", [True, False])
@pytest.mark.parametrize("scores", [("thr", "aps", "rank"), ("logrank", "logp", "invrank")])
@pytest.mark.parametrize(("digits", "spread"), [(None, 1.5), (0, 1.5), (None, 0.1)])
def test_labels_within_reach(digits, spread, scores, best: bool, threads) -> None:
    compile_for(COMPILED)
    rows, logits, y = tuned(digits, spread)
    columns = score_columns(("",), scores)
    scoring = Scoring(columns, 0)
    held = with_order(HeldOutputs(check_outputs(logits, "logits"), scoring))
    rows = TuningRows(held, y, NORMALIZERS["ecdf"], columns)
    every = np.sort(held.tensor, axis=1)  # scores rise together
    every = every if best else every[:, :-1]
    some = np.arange(0, 400, 3)
    for k in (1, 200, 399):
        reach = rows.reach(k)
        floors = np.array(rows.transform.raw_floors(reach.cuts))
        expected = rows.transform(every[some][(every[some] > floors).any(axis=2)])
        for width in (2, HELD_PLACES, 60):
            source = SortedRows(logits, "logits")
            block = UpperRows(source, columns, None, width, threads=threads).filled()
            found = block.within(some, rows.transform.lines, floors, 0 if best else 1)
            assert_array_equal(in_some_order(found.T), in_some_order(expected))


def in_some_order(labels: np.ndarray) -> np.ndarray:
    return labels[np.lexsort(labels.T)]


@pytest.mark.parametrize("start", [0, 3, 6])
@pytest.mark.parametrize("stop", [7, 9, 10])
def test_tie_groups_may_go_beyond_the_places_that_are_asked_for(start, stop) -> None:
    compile_for(COMPILED)
    counts = np.random.default_rng(6).integers(0, 4, (300, 10))
    counts[:100] = np.arange(10)  # no ties
    counts[100] = 1
    rising = np.sort(counts + 1, axis=1) / np.sum(counts + 1, axis=1, keepdims=True)
    below = (rising[:, None, :] < rising[:, :, None]).sum(axis=2) / 9
    upto = (rising[:, None, :] <= rising[:, :, None]).sum(axis=2)
    columns, some = score_columns(("",), ("rank", "invrank")), np.array([1, 100, 120, 299])
    for width in (10 - start, 10):
        block = UpperRows(SortedRows(rising), columns, None, width).filled()
        for which in (None, some):
            found = block.scores(columns, which, slice(start, stop))
            chosen = slice(None) if which is None else which
            assert_array_equal(found[..., 0], below[chosen, start:stop])
            assert_array_equal(found[..., 1], 1.0 / (11 - upto[chosen, start:stop]))


@pytest.mark.parametrize("start", [0, 1, 7, 11])
def test_masses_are_those_of_tie_groups_in_the_rows_that_have_some(start) -> None:
    compile_for(COMPILED)
    rows = np.random.default_rng(2).dirichlet(np.ones(12), 400)
    tied, at = np.arange(0, 400, 3), np.arange(0, 400, 3) % 11
    rising = np.sort(rows, axis=1)
    rising[tied, at] = rising[tied, at + 1]  # two places of every third row, each in turn
    rows = np.random.default_rng(3).permuted(rising, axis=1)
    y = np.arange(400) % 12
    upto = np.cumsum(rising, axis=1)
    last = (rising[:, None, :] <= rising[:, :, None]).sum(axis=2) - 1
    mass = np.take_along_axis(upto, last, axis=1)
    columns = score_columns(("",), ("aps", "invrank", "rank"))
    block = UpperRows(SortedRows(rows), columns, y, 12 - start).filled()
    found = block.scores(columns, None, slice(start, 12))
    assert_array_equal(found[..., 0], mass[:, start:])
    assert_array_equal(found[..., 1], 1.0 / (12 - last[:, start:]))
    own = rows[np.arange(400), y]
    ends = (rising <= own[:, None]).sum(axis=1) - 1
    assert block.true is not None
    assert_array_equal(block.true[:, 0], upto[np.arange(400), ends])
    assert_array_equal(block.true[:, 1], 1.0 / (12 - ends))
    assert_array_equal(block.true[:, 2], (rising < own[:, None]).sum(axis=1) / 11)


@pytest.mark.parametrize(
    ("n", "asked", "shared", "blocks"),
    [
        (5000, 1, 0, 5), (5000, 2, 0, 6), (5000, 16, 0, 16), (20, 16, 0, 10),
        (5000, 1, 2**23, 1), (10000, 1, 2**23, 2), (10000, 16, 2**20, 10), (20, 16, 2**20, 1),
    ],
)  # fmt: skip
def test_threads_share_blocks_or_have_as_many_each(n, asked, shared, blocks) -> None:
    outputs = check_outputs(np.full((n, 1000), 1e-3))
    slices = list(sorted_slices(outputs, asked, shared))
    assert_array_equal(np.concatenate([np.arange(n)[some] for some in slices]), np.arange(n))
    lengths = [some.stop - some.start for some in slices]
    assert max(lengths) - min(lengths) < blocks  # they end together
    assert len(slices) == blocks


def test_probabilities_that_are_the_only_score_are_read_where_they_are() -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    one, two = score_columns(("",), ("thr",)), score_columns(("",), ("thr", "rank"))
    tempered = score_columns(("",), ("thr(temperature=2.0)",))
    outputs = check_outputs(probs)
    assert np.shares_memory(Scoring(one, 0).view(outputs), probs)
    assert_array_equal(Scoring(one, 0).view(outputs), Scoring(one, 0).tensor(outputs))
    for columns in (two, tempered):
        copied = Scoring(columns, 0).view(outputs)
        assert not np.shares_memory(copied, probs)
        assert_array_equal(copied, Scoring(columns, 0).tensor(outputs))
    logits = check_outputs(np.log(probs), "logits")
    assert_array_equal(Scoring(one, 0).view(logits), Scoring(one, 0).tensor(logits))
    narrow = check_outputs(probs.astype(np.float32))
    assert Scoring(one, 0).view(narrow).dtype == np.float64


@pytest.mark.parametrize("options", [{}, {"allow_empty": False}, {"calibration": "class"}])
def test_sets_leave_the_outputs_as_they_are(options) -> None:
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(4), 200), rng.integers(4, size=200)
    before = probs.copy()
    probs.flags.writeable = False
    cp = cx.ScoreAverage("thr", random_state=0, **options).fit(probs, y)
    sets = cp.predict_set(probs)
    assert_array_equal(probs, before)
    assert sets.sizes.sum() > 0
