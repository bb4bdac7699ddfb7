"""Counts and winners equal brute force, ties and all, whatever the shape of the problem."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from conformix.kernels.host.engine import candidate_counts, smallest_count
from conformix.search import Candidates, GridSearch, SizeObjective, landscape, search_weights
from search.problems import (
    KINDS,
    LAYOUTS,
    RESOLUTIONS,
    brute_counts,
    brute_winner,
    compositions,
    problem,
)


def check(true: np.ndarray, parts: list[np.ndarray], k: int, m: int, threads: int = 1) -> None:
    """Compare all counts of a grid, and the winner, with brute force."""
    objective = SizeObjective(true, parts, k, threads=threads)
    g = compositions(true.shape[1], m)
    expected = brute_counts(true, parts, k, g / m)
    assert_array_equal(objective.counts(g / m), expected)
    best = brute_winner(expected, g)
    assert objective.smallest(g / m, g) == (best, expected[best])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.usefixtures("sizes")
def test_random_problems_equal_brute_force(kind: str, d: int) -> None:
    check_random_problems(kind, d, range(24))  # every remainder of 2, 3 and 4 below, twice


@pytest.mark.long(short="test_random_problems_equal_brute_force")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.usefixtures("sizes")
def test_more_random_problems_equal_brute_force(kind: str, d: int) -> None:
    check_random_problems(kind, d, range(24, 50))


def check_random_problems(kind: str, d: int, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, d, len(kind)])
        n, n_labels = int(rng.integers(1, 40)), int(rng.integers(1, 9))
        true, parts = problem(
            seed, kind, n, n_labels, d,
            layout=LAYOUTS[seed % 3], dtype=(np.float64, np.float32)[seed % 2],
            n_parts=1 + seed % 3, apart=seed % 4 == 3,
        )  # fmt: skip
        k = (1, n, int(rng.integers(1, n + 1)))[seed % 3]
        check(true, parts, k, RESOLUTIONS[d], threads=1 + seed % 3)


any_problem = given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(sorted(KINDS)),
    n=st.integers(1, 30),
    n_labels=st.integers(1, 6),
    d=st.integers(1, 4),
    quantile=st.floats(0, 1),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from([np.float64, np.float32]),
    apart=st.booleans(),
)


def check_problem(
    seed: int, kind: str, n: int, n_labels: int, d: int, quantile: float,
    layout: str, dtype: type, apart: bool,
) -> None:  # fmt: skip
    true, parts = problem(seed, kind, n, n_labels, d, layout=layout, dtype=dtype, apart=apart)
    check(true, parts, 1 + round(quantile * (n - 1)), RESOLUTIONS[d] // 2 + 1)


@settings(max_examples=200)
@any_problem
def test_any_problem_equals_brute_force(**drawn: Any) -> None:
    check_problem(**drawn)


@pytest.mark.long(short="test_any_problem_equals_brute_force")
@settings(max_examples=600)
@any_problem
def test_many_more_problems_equal_brute_force(**drawn: Any) -> None:
    check_problem(**drawn)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("sizes")
def test_both_doors_for_bare_arrays_equal_brute_force(kind: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, n_labels, d = int(rng.integers(20, 50)), (1, 2, 2, 5)[seed % 4], 1 + seed % 5
        alpha = Fraction(1 + seed % 4, 20)
        k = n + 1 - int((n + 1) * alpha)
        _, (scores,) = problem(seed, kind, n, n_labels, d, layout=LAYOUTS[seed % 3])
        y = rng.integers(n_labels, size=n)
        _, size = problem(seed, kind, 10, n_labels, d)
        rows = size if seed % 2 else [scores]
        given_rows = {"size_scores": size[0] if seed % 2 else None}
        m = RESOLUTIONS[d]
        g = compositions(d, m)
        expected = brute_counts(scores[np.arange(n), y], rows, k, g / m)
        weights, sizes = landscape(scores, y, alpha=float(alpha), resolution=m, **given_rows)
        assert_array_equal(weights, g / m)
        assert_array_equal(sizes, expected / len(rows[0]))
        found = search_weights(scores, y, alpha=float(alpha), resolution=m, **given_rows)
        best = brute_winner(expected, g)
        assert_array_equal(found.weights, g[best] / m)
        assert found.count == expected[best]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("sizes")
def test_candidates_of_any_sign_equal_brute_force(kind: str) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        d = 1 + seed % 4
        true, parts = problem(seed, kind, 25, 6, d)
        weights = rng.normal(size=(70, d)).round(seed % 3)
        weights[5:9] = weights[0]
        expected = brute_counts(true, parts, 20, weights)
        assert_array_equal(candidate_counts(true, parts, 20, weights, 2), expected)
        found = Candidates(weights)(SizeObjective(true, parts, 20))
        best = brute_winner(expected, weights)
        assert_array_equal(found.weights, weights[best])
        assert found.count == expected[best]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.usefixtures("sampled")
def test_what_a_sample_predicts_is_confirmed(kind: str, threads: int) -> None:
    true, parts = problem(3, kind, 2000, 12, 3)
    check(true, parts, 1900, 12, threads)


@pytest.mark.usefixtures("sampled")
def test_cells_that_cannot_win_are_not_counted() -> None:
    from conformix.kernels.host.engine import argmin

    rng = np.random.default_rng(5)
    fit, noise = rng.random((3000, 20)) ** 8, rng.random((3000, 20))
    scores = np.stack([fit, np.sqrt(fit) + 0.1 * noise, noise], axis=2)
    true = scores[np.arange(3000), fit.argmax(axis=1)]
    weights = compositions(3, 40) / 40
    found = []
    for threads in (1, 2, 3):
        posed = argmin.pose(true, [scores], 2700, weights, threads)
        found.append(argmin._search(posed, [scores], threads))
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], found[2])
    n_counted = (found[0] < argmin.UNKNOWN).sum()
    assert 0 < n_counted < len(weights) // 2


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e12, 1e140, 1e160, 1e305])
def test_scores_may_be_of_any_magnitude(scale: float) -> None:
    true, parts = problem(7, "plain", 30, 5, 3)
    check(true * scale, [part * scale for part in parts], 25, 10)


@pytest.mark.parametrize("factor", [1e9, 1e-9])
def test_true_scores_may_be_of_another_magnitude_than_the_others(factor: float) -> None:
    true, parts = problem(11, "plain", 40, 5, 3)
    check(true * factor, parts, 30, 10)


def test_a_large_offset_leaves_ties_exact() -> None:
    true, parts = problem(8, "tenths", 60, 5, 3)
    check(true + 1e9, [part + 1e9 for part in parts], 50, 10)


def test_without_size_rows_the_most_uniform_weights_win() -> None:
    true, _ = problem(9, "plain", 10, 4, 3)
    g = compositions(3, 6)
    nothing = [np.empty((0, 4, 3))]
    assert not candidate_counts(true, nothing, 5, g / 6).any()
    winner, count = smallest_count(true, nothing, 5, g / 6, g)
    assert (tuple(g[winner]), count) == ((2, 2, 2), 0)


def test_a_rank_above_the_number_of_rows_puts_every_label_in() -> None:
    true, parts = problem(9, "plain", 10, 4, 3)
    objective = SizeObjective(true, parts, 11)
    assert_array_equal(objective.counts(np.eye(3)), [40, 40, 40])
    found = GridSearch(6)(objective)
    assert_array_equal(found.weights, [1 / 3, 1 / 3, 1 / 3])
    assert found.count == 40


def test_arrays_are_untouched_and_may_be_read_only() -> None:
    true, parts = problem(10, "plain", 50, 5, 3)
    before = [part.copy() for part in parts]
    for array in (true, *parts):
        array.flags.writeable = False
    g = compositions(3, 10)
    smallest_count(true, parts, 40, g / 10, g, 2)
    candidate_counts(true, parts, 40, g / 10, 2)
    for part, old in zip(parts, before, strict=True):
        assert_array_equal(part, old)


def test_kernels_are_compiled_for_one_signature() -> None:
    from conformix.kernels.host.engine import brackets, cells, thresholds, walk

    for kind, dtype in (("plain", np.float64), ("ties", np.float32)):
        true, parts = problem(12, kind, 50, 5, 3, dtype=dtype)
        weights = np.eye(3)
        for array in (true, weights):
            array.flags.writeable = False
        smallest_count(true, parts, np.int64(40), weights, weights, 2)
        candidate_counts(true.astype(dtype), parts, 40, weights, 1)
    for kernel in (cells._grow, thresholds._walk, brackets._fit_all, walk.walk):
        assert len(kernel.signatures) == 1
