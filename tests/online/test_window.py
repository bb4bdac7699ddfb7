"""Thresholds that are followed from step to step are those of all scores, sorted anew."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from conformix.online.window import Window

SCORES = st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0])  # many ties


@settings(max_examples=80)
@given(
    size=st.integers(1, 7),
    rows=st.lists(st.tuples(SCORES, SCORES, st.floats(0, 1), st.booleans()), max_size=40),
)
def test_thresholds_are_those_of_sorted_scores_at_every_step(size: int, rows) -> None:
    """Whatever place is asked for, as often or seldom as one likes, while scores come and go."""
    candidates = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.75, 0.25]])
    window, seen = Window(size, 2), []
    for one, other, share, asks in rows:
        window.add(np.array([one, other]))
        seen = [*seen, [one, other]][-size:]
        if asks:
            place = min(int(share * len(seen)), len(seen) - 1)
            past = np.array(seen)
            combined = past[:, :1] * candidates[:, 0] + past[:, 1:] * candidates[:, 1]
            found = window.thresholds(candidates, place)
            assert_array_equal(found, np.sort(combined, axis=0)[place])
            assert len(window) == len(seen)


@pytest.mark.parametrize("place", [0, 3, 19])
def test_thresholds_of_scores_without_ties_are_followed_for_long(place: int) -> None:
    rng = np.random.default_rng(0)
    candidates = rng.dirichlet(np.ones(3), size=12)
    window = Window(20, 3)
    looked_up = 0
    for t in range(300):
        window.add(rng.normal(size=3))
        if t >= 19:
            known = 0 if window._places is None else int((window._places == place).sum())
            looked_up += known < len(candidates)
            found = window.thresholds(candidates, place).copy()
            combined = np.array([window.combined(one) for one in candidates])
            assert_array_equal(found, np.sort(combined, axis=1)[:, place])
    assert looked_up < 240  # most of the time none has moved, or few


def test_other_candidates_and_copies_begin_anew() -> None:
    rng = np.random.default_rng(1)
    window, one, other = Window(5, 2), rng.dirichlet([1, 1], 3), rng.dirichlet([1, 1], 4)
    for _ in range(9):
        window.add(rng.normal(size=2))
        copied = pickle.loads(pickle.dumps(window))
        for candidates in (one, other, one):
            expected = np.sort([window.combined(w) for w in candidates], axis=1)[:, 0]
            assert_array_equal(window.thresholds(candidates, 0), expected)
            assert_array_equal(copied.thresholds(candidates, 0), expected)
    again = Window(5, 2)
    again.recall(window.scores, 9)
    again.add(np.array([0.5, 0.5]))
    window.add(np.array([0.5, 0.5]))
    assert_array_equal(again.scores, window.scores)
