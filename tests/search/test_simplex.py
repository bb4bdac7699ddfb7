from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import oracle
from conformix.search import GridSearch, first_best, grid_size, resolve_search, simplex_grid
from conformix.search.grid import AUTO_WEIGHTS, auto_resolution


@pytest.mark.parametrize(
    ("d", "m", "size"), [(1, 100, 1), (2, 100, 101), (3, 100, 5151), (4, 20, 1771), (5, 10, 1001)]
)
def test_the_grid_holds_every_composition_once(d: int, m: int, size: int) -> None:
    grid = simplex_grid(d, m)
    assert grid.shape == (size, d)
    assert grid_size(d, m) == size
    assert len({tuple(g) for g in grid.tolist()}) == size
    assert_array_equal(grid.sum(axis=1), np.full(size, m))
    assert grid.min() >= 0
    assert np.issubdtype(grid.dtype, np.integer)


@pytest.mark.parametrize(("d", "m"), [(1, 1), (2, 1), (3, 4), (4, 3)])
def test_the_grid_is_lexicographic(d: int, m: int) -> None:
    assert [tuple(g) for g in simplex_grid(d, m).tolist()] == oracle.grid(d, m)


def test_numpy_integers_are_resolutions_too() -> None:
    assert_array_equal(simplex_grid(2, np.int64(3)), simplex_grid(2, 3))


def test_the_smallest_count_wins_first() -> None:
    assert first_best(np.array([5, 4, 6]), np.array([[1, 1], [2, 0], [0, 2]])) == 1


def test_of_equal_counts_the_one_closest_to_uniform_wins() -> None:
    assert first_best(np.array([4, 4, 4]), np.array([[0, 4], [3, 1], [2, 2]])) == 2


def test_of_equal_counts_and_squares_the_lexicographically_first_wins() -> None:
    weights = np.array([[3, 0, 1], [1, 3, 0], [0, 3, 1], [0, 1, 3], [3, 1, 0]])
    assert first_best(np.full(5, 9), weights) == 3


def test_the_winner_does_not_depend_on_how_the_candidates_are_listed() -> None:
    rng = np.random.default_rng(0)
    grid = simplex_grid(3, 6)
    for _ in range(50):
        counts = rng.integers(0, 3, size=len(grid))
        best = tuple(grid[first_best(counts, grid)])
        order = rng.permutation(len(grid))
        assert tuple(grid[order][first_best(counts[order], grid[order])]) == best
        assert best == oracle.grid(3, 6)[oracle.winner(counts.tolist(), oracle.grid(3, 6))]


def test_a_counter_of_many_rows_does_not_overflow_or_round() -> None:
    counts = np.array([2**53 + 1, 2**53], dtype=np.int64)
    assert first_best(counts, np.array([[1, 1], [0, 2]])) == 1


@pytest.mark.parametrize("d", range(1, 13))
def test_auto_takes_the_finest_usual_grid_that_stays_small(d: int) -> None:
    m = auto_resolution(d)
    assert math.comb(m + d - 1, d - 1) <= AUTO_WEIGHTS


def test_auto_is_resolution_one_hundred_up_to_three_scores() -> None:
    assert [auto_resolution(d) for d in (1, 2, 3)] == [100, 100, 100]


def test_grid_and_a_resolution_resolve_to_a_grid_search() -> None:
    assert resolve_search("grid", resolution=7) == GridSearch(7)
