"""The leave-one-out identity on the real line: it holds where weights are fixed, and for the hull.

In a bag of n + 1 exchangeable rows at least ``k = ceil((n + 1)(1 - alpha))`` must be covered by
what the other n leave for them; an expectation over the draw of the bag is then no smaller.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.kernels.simplex import simplex_grid
from conformix.regression.bands import bands
from conformix.regression.hull import Hull
from conformix.regression.planes import Planes
from conformix.regression.search import exact_grid, row_widths
from regression.cases import simple_weights, smooth, tied

ALPHAS = (0.1, 0.2, 0.35)


def bag(seed: int, n: int) -> tuple[Planes, np.ndarray]:
    """Return n rows; odd bags are full of ties."""
    rng = np.random.default_rng(seed)
    d = 1 + seed % 4
    if seed % 2:
        return tied(rng, n, d), rng.integers(-8, 9, n) / 4
    return smooth(rng, n, d)


def others(n: int, i: int) -> np.ndarray:
    return np.delete(np.arange(n), i)


def covered_by_fixed_weights(seed: int) -> tuple[int, int, int]:
    """Return how many rows of a bag are covered, how many by their scores, and how many must."""
    n = 5 + seed % 17
    planes, y = bag(seed, n)
    weights = simple_weights(np.random.default_rng(seed), planes.d)
    k = conformal_rank(n - 1, ALPHAS[seed % 3])
    scores = planes.combined(weights, y)
    cuts = np.array([-kth_largest(-scores[others(n, i)], k) for i in range(n)])
    lower, upper = bands(planes, weights, cuts)
    return int(((lower <= y) & (y <= upper)).sum()), int((scores <= cuts).sum()), k


def test_fixed_weights_cover_as_many_rows_of_every_bag_as_they_must() -> None:
    for seed in range(2000):
        covered, by_score, k = covered_by_fixed_weights(seed)
        assert covered == by_score
        assert covered >= k


def candidates(d: int) -> np.ndarray:
    steps = {1: 1, 2: 10, 3: 5, 4: 3}[d]
    return simplex_grid(d, steps) / steps


def covered_by_the_hull(seed: int) -> tuple[int, int]:
    n = 5 + seed % 17
    planes, y = bag(seed, n)
    k = conformal_rank(n - 1, ALPHAS[seed % 3])
    weights = candidates(planes.d)
    y_range = (-3.0, 3.0) if seed % 5 == 0 else None
    count = 0
    for i in range(n):
        rest = others(n, i)
        lower, upper = Hull.of(weights, planes.rows(rest), y[rest], k, y_range)(planes.rows([i]))
        count += bool(lower[0] <= y[i] <= upper[0])
    return count, k


def check_hull(bags: range) -> None:
    for seed in bags:
        covered, k = covered_by_the_hull(seed)
        assert covered >= k, seed


def test_the_hull_covers_as_many_rows_of_every_bag_as_it_must() -> None:
    check_hull(range(40))


@pytest.mark.long(short="test_the_hull_covers_as_many_rows_of_every_bag_as_it_must")
def test_the_hull_covers_as_many_rows_of_thousands_of_bags_as_it_must() -> None:
    check_hull(range(3000))


def test_weights_selected_on_the_rows_that_calibrate_break_the_identity() -> None:
    broken = 0
    for seed in range(0, 60, 2):  # without ties
        n = 21
        planes, y = smooth(np.random.default_rng(seed), n, 3)
        k = conformal_rank(n - 1, 0.1)
        count = 0
        for i in range(n):
            rest = others(n, i)
            weights = exact_grid(planes.rows(rest), y[rest], [0.1], 5).weights
            scores = planes.combined(weights, y)
            count += bool(scores[i] <= -kth_largest(-scores[rest], k))
        broken += count < k
    assert broken > 15


@pytest.mark.parametrize("seed", range(8))
def test_the_hull_holds_what_full_conformal_prediction_holds(seed: int) -> None:
    n = 12
    planes, y = bag(seed, n)
    weights, k = candidates(planes.d), conformal_rank(n - 1, 0.2)
    rest = planes.rows(slice(1, n))
    lower, upper = Hull.of(weights, rest, y[1:], k)(planes.rows(slice(1)))
    for at in np.linspace(-4.0, 4.0, 33):
        full = np.concatenate([[at], y[1:]])
        totals, inside = [], []
        for w in weights:
            scores = planes.combined(w, full)
            cut = np.sort(scores)[k - 1]
            totals.append(row_widths(planes, w[None], np.array([[cut]])).sum())
            inside.append(scores[0] <= cut)
        selected = np.array(totals) <= min(totals) * (1 + 1e-12)
        if np.array(inside)[selected].any():
            assert lower[0] <= at <= upper[0]


def test_many_rows_at_once_are_those_one_by_one() -> None:
    planes, y = smooth(np.random.default_rng(3), 60, 3)
    hull = Hull.of(candidates(3), planes.rows(slice(40)), y[:40], conformal_rank(40, 0.1))
    lower, upper = hull(planes.rows(slice(40, 60)))
    for i in range(20):
        alone = hull(planes.rows([40 + i]))
        assert (alone[0][0], alone[1][0]) == (lower[i], upper[i])
    assert hull.survivors(planes.rows(slice(40, 60))).any(axis=1).all()
    assert [len(ends) for ends in hull(planes.rows(slice(0)))] == [0, 0]


def test_few_weights_survive_and_the_best_always_does() -> None:
    planes, y = smooth(np.random.default_rng(8), 400, 3)
    hull = Hull.of(candidates(3), planes.rows(slice(300)), y[:300], conformal_rank(300, 0.1))
    survive = hull.survivors(planes.rows(slice(300, 400)))
    assert survive[:, hull.totals[1].argmin()].all()
    assert survive.sum(axis=1).mean() < 5


def test_one_candidate_gives_its_own_interval() -> None:
    planes, y = smooth(np.random.default_rng(9), 30, 2)
    weights, k = np.array([0.25, 0.75]), conformal_rank(20, 0.1)
    hull = Hull.of(weights, planes.rows(slice(20)), y[:20], k)
    scores = planes.rows(slice(20)).combined(weights, y[:20])
    alone = bands(planes.rows(slice(20, 30)), weights, np.sort(scores)[k - 1])
    assert_array_equal(hull(planes.rows(slice(20, 30))), alone)


def test_too_few_rows_leave_the_whole_line() -> None:
    planes, y = smooth(np.random.default_rng(9), 6, 2)
    hull = Hull.of(candidates(2), planes.rows(slice(5)), y[:5], conformal_rank(5, 0.1))
    assert_array_equal(hull(planes.rows([5])), [[-np.inf], [np.inf]])
    with pytest.raises(InvalidInput, match="rank from 1 to 6"):
        Hull.of(candidates(2), planes.rows(slice(5)), y[:5], 7)
