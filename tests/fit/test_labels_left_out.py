"""Labels that cannot reach the threshold are left out before scores are normalised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from cases import UNEVEN
from conformix.fit import rule as fitted
from conformix.fit.rule import Rule
from conformix.scores.scale import Ecdf, Interpolated, Scaled

K = 4


@pytest.fixture(autouse=True, scope="module")
def whatever_the_size() -> None:
    """Look for labels to leave out among the fewest scores."""
    patch = pytest.MonkeyPatch()
    patch.setattr(fitted, "FEW_SCORES", 0)
    yield
    patch.undo()


@st.composite
def rules(draw: st.DrawFn) -> tuple[Rule, np.ndarray]:
    """A rule with an ecdf of rows full of ties, and other rows, some beyond its ends."""
    d = draw(st.integers(1, 3))
    numbers = st.sampled_from(UNEVEN)
    size = 6 * K * d
    fit = np.array(draw(st.lists(numbers, min_size=size, max_size=size))).reshape(6, K, d)
    wider = st.one_of(numbers, st.floats(-0.5, 1.5))
    new = np.array(draw(st.lists(wider, min_size=size, max_size=size))).reshape(6, K, d)
    parts = draw(st.lists(st.integers(0, 5), min_size=d, max_size=d).filter(any))
    weights = np.array(parts) / sum(parts)
    return Rule(Ecdf().fit(fit, ()), weights), new


@given(case=rules(), data=st.data())
def test_a_threshold_that_labels_reach_exactly(case, data) -> None:
    rule, scores = case
    values = rule.combined(scores)
    reached = float(data.draw(st.sampled_from(values.ravel().tolist())))
    for threshold in (
        reached,
        np.nextafter(reached, 2),
        np.nextafter(reached, -2),
        -np.inf,
        np.inf,
    ):
        assert_array_equal(rule.reaches(scores, float(threshold)), values >= threshold)


@given(case=rules(), data=st.data())
def test_a_threshold_of_its_own_for_every_label_or_row(case, data) -> None:
    rule, scores = case
    values = rule.combined(scores)
    for shape in ((K,), (len(scores), 1), (len(scores), K)):
        drawn = st.sampled_from([*values.ravel().tolist(), np.inf])
        size = int(np.prod(shape))
        thresholds = np.array(data.draw(st.lists(drawn, min_size=size, max_size=size)))
        thresholds = thresholds.reshape(shape)
        assert_array_equal(rule.reaches(scores, thresholds), values >= thresholds)


@given(case=rules(), least=st.floats(-0.5, 1.5))
def test_no_label_at_a_floor_reaches_what_the_floor_is_for(case, least) -> None:
    rule, scores = case
    floors = rule.transform.floors(rule.weights, least)
    low = (scores <= floors).any(axis=-1)
    assert (rule.combined(scores)[low] < least).all()


@pytest.mark.parametrize(
    "other",
    [{"allow_empty": False}, {"weights": np.array([1.5, -0.5])}, {"transform": Scaled((2.0, 3.0))}],
)
def test_rules_for_which_no_label_can_be_left_out(other) -> None:
    scores = np.random.default_rng(0).random((50, K, 2))
    rule = Rule(**{"transform": Ecdf().fit(scores, ()), "weights": np.array([0.5, 0.5])} | other)
    values = rule.combined(scores)
    assert_array_equal(rule.reaches(scores, 0.9), values >= 0.9)


def test_of_many_labels_few_are_normalised(monkeypatch) -> None:
    seen = []
    whole = Interpolated.__call__
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 500))
    y = rng.integers(500, size=200)
    logits[np.arange(200), y] += 6
    cp = cx.ScoreAverage("paper", kind="logits", random_state=0, threads=1).fit(logits, y)
    monkeypatch.setattr(
        Interpolated, "__call__", lambda self, s: seen.append(s.size) or whole(self, s)
    )
    mean = cp.predict_set(logits).sizes.mean()
    assert mean < 10
    assert sum(seen) < 0.1 * 3 * logits.size
