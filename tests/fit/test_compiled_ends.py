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
from conformix.kernels.blocks import threads_for
from conformix.kernels.twins import compile_for
from conformix.scores import score_columns
from conformix.scores.scale import NORMALIZERS
from conformix.scores.sorted_rows import SortedRows, sorted_slices

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


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize(("digits", "spread"), [(None, 1.5), (0, 1.5), (None, 0.1)])
def test_first_places_and_labels_that_score_alike(
    monkeypatch, digits, spread, weights, allow_empty
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

    def answers() -> list[np.ndarray]:
        found = []
        for cuts, which in asked:
            block = SortedRows(logits, "logits")
            found += upper_ends.first_places(block, THREE, rule, cuts, which)
            held = block.upper(THREE, None)
            found += upper_ends.first_places(held, THREE, rule, cuts, which)
        return found

    compiled = answers()
    monkeypatch.setattr(upper_ends, "loops", lambda *_: None)
    plain = answers()
    for ours, theirs in zip(compiled, plain, strict=True):
        assert_array_equal(ours, theirs)
    assert not any(weights) or len({len(np.unique(first)) for first in compiled[::2]}) > 1


@pytest.mark.parametrize(
    ("n", "threads", "blocks"),
    [(5000, 1, 5), (10000, 16, 4), (5000, 2, 6), (5000, 16, 4), (100, 16, 2), (20, 16, 1)],
)
def test_a_few_threads_have_as_many_blocks_each(n, threads, blocks) -> None:
    outputs = check_outputs(np.full((n, 1000), 1e-3))
    slices = list(sorted_slices(outputs, threads_for(n * 1000, threads)))
    assert len(slices) == blocks
    assert_array_equal(np.concatenate([np.arange(n)[some] for some in slices]), np.arange(n))
    lengths = [some.stop - some.start for some in slices]
    assert max(lengths) - min(lengths) < blocks  # they end together


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
