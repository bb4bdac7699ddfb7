"""The search for narrow intervals: the objective is the definition, the grid's winner is exact."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conformix.errors import InvalidInput
from conformix.kernels import twins
from conformix.kernels.simplex import simplex_grid
from conformix.regression.bands import bands, widths
from conformix.regression.hull import Hull
from conformix.regression.planes import Planes
from conformix.regression.search import (
    WidthObjective,
    WidthSlope,
    descend,
    exact_grid,
    levels_around,
    order_statistics,
    row_widths,
    search_objective,
    search_widths,
    total_widths,
)
from regression import oracle
from regression.cases import fractions, in_fractions, simple_weights, smooth, tied


@pytest.mark.parametrize("seed", range(16))
def test_the_objective_is_that_of_loops_over_fractions(
    seed: int, by: Callable[[int], None]
) -> None:
    by(seed // 4)
    rng = np.random.default_rng(seed)
    n, d = 12, 1 + seed % 4
    planes, y = tied(rng, n, d), rng.integers(-8, 9, n) / 4
    weights = np.array([simple_weights(rng, d) for _ in range(6)])
    y_range = (-1.0, 1.5) if seed % 3 == 0 else None
    levels = (0.1, 0.25, 0.05) if seed % 2 else (0.3,)
    values = WidthObjective(planes, y, levels, y_range)(weights)
    rows, ys = in_fractions(planes), fractions(y)
    limits = (-np.inf, np.inf) if y_range is None else tuple(fractions(y_range))
    for w, value in zip(weights, values, strict=True):
        exact = sum(
            oracle.total_width(rows, ys, fractions(w), Fraction(str(level)), limits)
            for level in levels
        )
        assert_allclose(value, float(exact) / n, rtol=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_numpy_and_compiled_kernels_give_the_same_bits(
    seed: int, by: Callable[[int], None]
) -> None:
    rng = np.random.default_rng(seed)
    d = 1 + seed % 5
    planes = tied(rng, 30, d, 7.0) if seed % 2 else smooth(rng, 30, d)[0]
    weights = rng.dirichlet(np.ones(d), 300) * (rng.random((300, d)) < 0.8)
    cuts = np.sort(rng.integers(-3, 9, (3, 300)) / 7, axis=0)
    cuts[2, ::7], cuts[0, ::5] = np.inf, -np.inf
    totals = []
    for room in (0, 1):
        by(room)
        totals.append(
            [
                total_widths(planes, weights, cuts),
                total_widths(planes, weights, cuts, (-0.5, 0.7), threads=2),
                row_widths(planes, weights, cuts).sum(axis=(1, 2)),
            ]
        )
    for mine, theirs in zip(*totals, strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.parametrize("seed", range(6))
def test_slopes_are_the_same_bits_and_those_of_differences(
    seed: int, by: Callable[[int], None]
) -> None:
    rng = np.random.default_rng(seed)
    d = 2 + seed % 4
    planes, y = smooth(rng, 60, d)
    objective = WidthObjective(planes, y, (0.1, 0.2), (-2.0, 2.0) if seed % 2 else None)
    weights = rng.dirichlet(np.full(d, 3.0))
    found = []
    for room in (0, 1):
        by(room)
        found.append(WidthSlope(objective)(weights))
    assert found[0][0] == found[1][0]
    assert_array_equal(found[0][1], found[1][1])
    assert_allclose(found[0][0], objective(weights[None])[0], rtol=1e-12)
    # At fixed thresholds the slope is a derivative.
    cuts = objective.thresholds(weights[None])[:, :1]
    order = np.argsort(planes.centre, axis=1, kind="stable")
    totals, slopes, moves = np.zeros(2), np.zeros(d), np.zeros((2, d))
    kernels = twins.host_kernels("widths", 1)
    kernels.add_slopes(
        order, *planes.parts, weights, cuts[:, 0], moves, *objective.y_range, totals, slopes
    )
    step = 1e-7 * np.eye(d)
    sides = [
        total_widths(planes, weights + shift, np.repeat(cuts, d, axis=1), objective.y_range)
        for shift in (step, -step)
    ]
    assert_allclose(slopes, (sides[0] - sides[1]).sum(axis=0) / 2e-7, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_widths_at_several_thresholds_are_those_one_by_one(seed: int, room: None) -> None:
    rng = np.random.default_rng(seed)
    d = 3 if seed < 6 else 4
    planes = tied(rng, 60, d) if seed % 2 else smooth(rng, 60, d)[0]
    weights = simplex_grid(d, 8) / 8
    cuts = rng.integers(-8, 24, (4, len(weights))) / 8
    cuts[3] = np.inf
    for inside in ((-np.inf, np.inf), (-0.8, 1.1)):
        together = row_widths(planes, weights, cuts, inside)
        for level, cut in enumerate(cuts):
            one = row_widths(planes, weights, cut[None], inside)
            assert_array_equal(one[:, 0], together[:, level])


def test_no_width_falls_when_its_threshold_rises_by_a_last_bit() -> None:
    rng = np.random.default_rng(3)
    for d in (1, 2, 3, 5):
        planes = tied(rng, 40, d, 7.0)
        weights = rng.dirichlet(np.ones(d), 20)
        cuts = rng.integers(-3, 9, 20) / 7
        before = np.zeros((40, 1, 20))
        for _ in range(12):
            now = row_widths(planes, weights, cuts[None])
            assert (now >= before).all() or not before.any()
            before, cuts = now, np.nextafter(cuts, np.inf)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_winner_of_the_grid_is_the_narrowest_of_all_its_weights(d: int) -> None:
    planes, y = smooth(np.random.default_rng(d), 80, d)
    found = exact_grid(planes, y, (0.1, 0.2), 12)
    grid = simplex_grid(d, 12) / 12
    values = WidthObjective(planes, y, (0.1, 0.2))(grid)
    assert found.width == values.min() == WidthObjective(planes, y, (0.1, 0.2))(found.weights[None])
    assert found.n_evaluated == len(grid)


def test_ties_go_to_the_most_even_weights_and_then_to_the_first() -> None:
    same = np.zeros((20, 3))
    planes, y = Planes(same, same, same + 1, same + 1), np.arange(20.0)
    assert_array_equal(exact_grid(planes, y, [0.1], 3).weights, np.full(3, 1 / 3))
    assert_array_equal(exact_grid(planes, y, [0.1], 4).weights, [0.25, 0.25, 0.5])


def test_too_few_rows_for_a_level_make_all_weights_infinite_and_the_even_ones_win() -> None:
    planes, y = smooth(np.random.default_rng(0), 8, 3)
    found = exact_grid(planes, y, [0.1], 3)
    assert found.width == np.inf
    assert_array_equal(found.weights, np.full(3, 1 / 3))
    assert_array_equal(descend(WidthObjective(planes, y, [0.1])).weights, np.full(3, 1 / 3))


def test_a_score_that_does_not_depend_on_y_never_stands_alone() -> None:
    planes, y = smooth(np.random.default_rng(1), 60, 2)
    flat = np.hstack([planes.below[:, :1], np.zeros((60, 1))])
    planes = Planes(planes.centre, planes.offset, flat, flat)
    values = WidthObjective(planes, y, [0.1])(np.array([[0.0, 1.0], [0.5, 0.5]]))
    assert values[0] == np.inf
    assert np.isfinite(values[1])
    assert np.isfinite(exact_grid(planes, y, [0.1], 10).width)
    assert WidthObjective(planes, y, [0.1], (-3.0, 3.0))(np.array([[0.0, 1.0]]))[0] < 6.0 + 1e-9


def test_the_rank_is_the_integer_of_conformal_and_no_quantile_of_floats() -> None:
    planes, y = smooth(np.random.default_rng(2), 199, 1)
    objective = WidthObjective(planes, y, (0.1, 0.07))
    ranks = [oracle.rank(199, Fraction(level)) for level in ("0.1", "0.07")]
    assert objective.ranks == ranks == [180, 186]
    scores = np.sort(planes.scores(y)[:, 0])
    assert_array_equal(objective.thresholds(np.ones((1, 1)))[:, 0], scores[[179, 185]])
    ends = order_statistics(planes.scores(y), np.ones((1, 1)), (0, 200))
    assert_array_equal(ends[:, 0], [-np.inf, np.inf])


def test_widths_may_be_measured_on_rows_that_set_no_threshold() -> None:
    planes, y = smooth(np.random.default_rng(3), 120, 6)
    tune, size = planes.rows(slice(50)), planes.rows(slice(50, 120))
    objective = WidthObjective(tune, y[:50], (0.1, 0.2), size=size, rank=lambda n, _: n - 3)
    assert objective.ranks == [47, 47]
    weights = np.random.default_rng(0).dirichlet(np.ones(6), 5)
    for w, value in zip(weights, objective(weights), strict=True):
        lower, upper = bands(size, w, np.sort(tune.combined(w, y[:50]))[46])
        assert_allclose(value, 2 * widths(lower, upper).mean(), rtol=1e-12)
    assert_allclose(WidthSlope(objective)(weights[0])[0], objective(weights[:1])[0], rtol=1e-12)
    part = objective.part(np.arange(30))
    assert (len(part.planes), len(part.size), part.ranks) == (30, 70, [27, 27])
    found = search_objective(objective, np.random.default_rng(0))
    assert found.width <= 1.02 * objective(np.eye(6)).min()


def test_descent_is_no_wider_than_any_score_and_close_to_the_grid() -> None:
    for seed in range(4):
        planes, y = smooth(np.random.default_rng(seed), 300, 3)
        objective = WidthObjective(planes, y, (0.05, 0.1, 0.15, 0.2))
        found, best = descend(objective), exact_grid(planes, y, objective.levels, 50)
        assert found.width <= objective(np.eye(3)).min()
        assert found.width <= 1.01 * best.width
        assert_allclose(found.weights.sum(), 1.0, rtol=1e-12)


def test_descent_ends_at_a_single_score_where_others_drown_it() -> None:
    rng = np.random.default_rng(0)
    y = rng.standard_normal(100)
    centre = y[:, None] + rng.standard_normal((100, 6)) * ([0.01] + [5.0] * 5)
    slope = np.ones((100, 6)) * ([1.0] + [1e3] * 5)
    objective = WidthObjective(Planes(centre, 0 * slope, slope, slope), y, [0.1])
    assert_array_equal(descend(objective).weights, np.eye(6)[0])


def test_searches_on_parts_are_averaged_and_the_draw_decides() -> None:
    planes, y = smooth(np.random.default_rng(5), 90, 6)
    once = search_widths(planes, y, (0.1, 0.2), random_state=7)
    again = search_widths(planes, y, (0.1, 0.2), random_state=7)
    assert_array_equal(once.weights, again.weights)
    other = search_widths(planes, y, (0.1, 0.2), random_state=8)
    assert (once.weights != other.weights).any()
    rng, parts = np.random.default_rng(7), []
    for _ in range(4):
        rows = np.sort(rng.permutation(90)[:60])
        parts.append(descend(WidthObjective(planes.rows(rows), y[rows], (0.1, 0.2))).weights)
    assert_allclose(once.weights, np.mean(parts, axis=0), rtol=1e-12)
    whole = search_widths(planes, y, (0.1, 0.2), bags=1)
    assert_array_equal(whole.weights, descend(WidthObjective(planes, y, (0.1, 0.2))).weights)
    with pytest.raises(InvalidInput, match="bags must be at least 1"):
        search_widths(planes, y, [0.1], bags=0)


@pytest.mark.parametrize(
    ("alpha", "n", "levels"),
    [
        (0.1, 1000, (0.05, 0.1, 0.15, 0.2)),
        (0.1, 9, (0.1, 0.15, 0.2)),
        (0.1, 3, (0.1,)),
        (0.5, 100, (0.25, 0.5, 0.75)),
        (0.9, 100, (0.45, 0.9)),
    ],
)
def test_levels_around_alpha_are_those_that_make_sense(
    alpha: float, n: int, levels: tuple[float, ...]
) -> None:
    assert levels_around(alpha, n) == levels


def test_whatever_comes_in_each_kernel_is_compiled_once(by: Callable[[int], None]) -> None:
    by(1)
    bands_of, widths_of = (
        import_module(f"conformix.kernels.host.{n}") for n in ("bands", "widths")
    )
    planes, y = smooth(np.random.default_rng(0), 30, 5)
    fixed = [part.copy() for part in planes.parts]
    for values in (*fixed, y):
        values.flags.writeable = False
    weights = np.eye(5)
    weights.flags.writeable = False
    for some in (planes, Planes(*fixed), planes.columns(slice(1, 4)), planes.rows(slice(3, 30, 2))):
        of_rows = y[:: len(y) // len(some)][: len(some)]
        search_widths(some, of_rows, (0.1, 0.2), resolution=3, y_range=(-9, 9), random_state=0)
        for w in (weights[0, : some.d], np.full(some.d, 0.2)):
            bands(some, w, 1.0)
            bands(some, w, of_rows)
        Hull.of(weights[: some.d, : some.d], some, of_rows, 3)(some)
    kernels: Any = (bands_of.fill_bands, widths_of.add_widths, widths_of.add_slopes)
    assert [len(kernel.signatures) for kernel in kernels] == [1, 1, 1]


def test_blocks_and_threads_change_no_bit() -> None:
    planes, y = smooth(np.random.default_rng(6), 50, 3)
    weights = simplex_grid(3, 40) / 40
    one = WidthObjective(planes, y, (0.1, 0.2), threads=1)(weights)
    assert_array_equal(WidthObjective(planes, y, (0.1, 0.2), threads=3)(weights), one)
    some = WidthObjective(planes, y, (0.1, 0.2))(weights[100:103])
    assert_array_equal(some, one[100:103])
