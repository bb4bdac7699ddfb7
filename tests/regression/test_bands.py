"""Intervals of averaged V-shaped scores: exact up to a few roundings, and those go outward."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conformix.errors import InvalidInput
from conformix.kernels.arrays import constant
from conformix.kernels.host import bands as compiled
from conformix.regression.bands import bands, lowest, widths
from conformix.regression.planes import Planes
from regression import oracle
from regression.cases import fractions, in_fractions, simple_weights, smooth, tied


@pytest.mark.parametrize("seed", range(40))
def test_intervals_are_those_of_loops_over_fractions(seed: int, by: Callable[[int], None]) -> None:
    by(seed // 5)
    rng = np.random.default_rng(seed)
    d = 1 + seed % 5
    planes, weights = tied(rng, 60, d), simple_weights(rng, d)
    cuts = rng.integers(-16, 40, 60) / 16
    cuts[seed % 60] = np.inf
    lower, upper = bands(planes, weights, cuts)
    rows, exact = in_fractions(planes), fractions(weights)
    for i, cut in enumerate(cuts):
        threshold = cut if np.isinf(cut) else Fraction(cut)
        ends = oracle.interval(rows[i], exact, threshold)
        if ends is None:
            assert (lower[i], upper[i]) == (np.inf, -np.inf)
        else:
            assert lower[i] <= ends[0]
            assert ends[1] <= upper[i]
            assert_allclose(
                [lower[i], upper[i]], [float(end) for end in ends], rtol=1e-13, atol=1e-13
            )


def around(ends: np.ndarray, steps: int) -> np.ndarray:
    """Return floats next to each end (steps either way, then further), (2 steps + 21, n)."""
    walks = [ends]
    for direction in (-np.inf, np.inf):
        at = ends
        for _ in range(steps):
            at = np.nextafter(at, direction)
            walks.append(at)
    size = np.maximum(np.abs(ends), 1e-300)
    walks += [ends + size * shift for shift in np.geomspace(1e-15, 1e-9, 10) * -1.0]
    walks += [ends + size * shift for shift in np.geomspace(1e-15, 1e-9, 10)]
    return np.array(walks)


def adversarial(seed: int) -> tuple[Planes, np.ndarray]:
    """Return planes and responses: scores far from zero, thirds and sevenths, huge and tiny."""
    rng = np.random.default_rng(seed)
    n, d = 40, 1 + seed % 6
    if seed % 3 == 0:
        planes, y = smooth(rng, n, d)
    else:
        planes = tied(rng, n, d, (3.0, 7.0, 10.0)[seed % 3])
        y = rng.integers(-9, 10, n) / 7
    if seed % 4 == 1:  # a response far from zero: gaps cancel
        planes, y = Planes(planes.centre + 1e6, *planes.parts[1:]), y + 1e6
    if seed % 4 == 2:  # offsets far from zero: scores cancel
        offset = planes.offset + np.where(np.arange(d) % 2, 1e5, -1e5)
        planes = Planes(planes.centre, offset, planes.below, planes.above)
    if seed % 7 == 3:
        tiny = 2.0**-280
        planes = Planes(planes.centre * tiny, planes.offset * tiny, planes.below, planes.above)
        y = y * tiny
    return planes, y


@pytest.mark.parametrize("seed", range(42))
def test_a_score_up_to_the_threshold_is_in_the_interval_whatever_the_float(
    seed: int, by: Callable[[int], None]
) -> None:
    by(seed // 6)
    planes, y = adversarial(seed)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(planes.d)) if seed % 2 else simple_weights(rng, planes.d)
    scores = planes.combined(weights, y)
    for threshold in (scores, np.sort(scores)[30], np.nextafter(scores, -np.inf)):
        lower, upper = bands(planes, weights, threshold)
        for ends in (lower, upper, y):
            for at in around(np.where(np.isfinite(ends), ends, y), 6):
                low = planes.combined(weights, at) <= threshold
                assert (lower[low] <= at[low]).all()
                assert (at[low] <= upper[low]).all()
    # The calibration row that sits at the threshold is in its own interval.
    lower, upper = bands(planes, weights, scores)
    assert ((lower <= y) & (y <= upper)).all()


def test_ends_are_a_few_units_from_those_of_a_single_score() -> None:
    rng = np.random.default_rng(0)
    mu, sigma = rng.standard_normal(200), np.exp(rng.standard_normal(200))
    one = (1 / sigma)[:, None]
    lower, upper = bands(Planes(mu[:, None], 0 * one, one, one), [1.0], 1.7)
    for ours, theirs in ((lower, mu - 1.7 * sigma), (upper, mu + 1.7 * sigma)):
        units = np.spacing(np.maximum(np.abs(mu), 1.7 * sigma))
        assert (np.abs(ours - theirs) <= 16 * units).all()


def test_numpy_and_compiled_kernels_give_the_same_bits(
    by: Callable[[int], None],
) -> None:
    for seed in range(30):
        planes, y = adversarial(seed)
        weights = np.random.default_rng(seed).dirichlet(np.ones(planes.d))
        cuts = np.vstack(
            [planes.combined(weights, y), np.full(len(y), 0.3), np.full(len(y), np.inf)]
        )
        ends = []
        for room in (0, 1):
            by(room)
            ends.append(bands(planes, weights, cuts))
        assert_array_equal(ends[0], ends[1])


def test_several_thresholds_at_once_are_those_one_by_one(room: None) -> None:
    planes = tied(np.random.default_rng(1), 30, 3)
    weights, cuts = np.array([0.25, 0.5, 0.25]), np.array([0.0, 0.5, 2.0])
    together = bands(planes, weights, cuts[:, None])
    for place, cut in enumerate(cuts):
        for ends, alone in zip(together, bands(planes, weights, cut), strict=True):
            assert_array_equal(ends[place], alone)
    each = bands(planes, weights, np.resize(cuts, 30))
    for i in range(30):
        for ends, alone in zip(each, bands(planes.rows([i]), weights, cuts[i % 3]), strict=True):
            assert ends[i] == alone[0]


@pytest.mark.parametrize("seed", range(12))
def test_constants_in_the_memory_of_one_number_give_the_bits_of_whole_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, weight = 70, (1.0, 0.3, 0.0)[seed % 3]
    centre, y = rng.normal(size=(2, n))
    offset, below, above = rng.integers(-1, 3, 3) * np.array([0.7, 1.0, 1.0])
    slopes = [constant(abs(below), n), constant(abs(above), n)]
    if seed % 2:
        slopes = [slopes[0]] * 2
    if seed % 4 == 0:
        slopes = [1 / rng.uniform(0.5, 2.0, n)] * 2
    parts = [part[:, None] for part in (centre, constant(offset, n), *slopes)]
    few, whole = Planes(*parts), Planes(*(np.array(part) for part in parts))
    some = rng.permutation(n)[:40]
    cuts = np.array([[0.4], [-0.6], [np.inf], [-np.inf]])
    for one, other in ((few, whole), (few.rows(some), whole.rows(some))):
        each = y[: len(one)]
        assert_array_equal(one.scores(each), other.scores(each))
        assert_array_equal(
            one.combined(np.array([weight]), each), weight * other.scores(each)[:, 0]
        )
        every = np.broadcast_to(cuts, (4, len(one)))
        found = np.empty((2, 4, len(one)))
        compiled.fill_bands(*other.arrays, np.array([weight]), cuts, *found)
        assert_array_equal(bands(one, [weight], cuts), found)
        assert_array_equal(bands(other, [weight], every), found)
        assert_array_equal(one.arrays, other.arrays)


def test_a_single_score_needs_nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformix.regression.bands.host_kernels", None)
    lower, upper = bands(smooth(np.random.default_rng(0), 50, 1)[0], [1.0], 2.0)
    assert (lower < upper).all()


def test_a_number_per_row_leaves_everything_or_nothing(room: None) -> None:
    zero = np.zeros((2, 1))
    planes = Planes(zero, np.array([[0.5], [1.5]]), zero, zero)
    lower, upper = bands(planes, [1.0], 1.0)
    assert_array_equal(lower, [-np.inf, np.inf])
    assert_array_equal(upper, [np.inf, -np.inf])
    assert_array_equal(widths(lower, upper), [np.inf, 0.0])


def test_a_flat_bottom_above_the_threshold_is_empty(room: None) -> None:
    planes = Planes([[0.0, 10.0]], [[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 1.0]])
    lower, upper = bands(planes, [0.5, 0.5], [5.75])
    assert (lower[0], upper[0]) == (np.inf, -np.inf)
    lower, upper = bands(planes, [0.5, 0.5], [6.0])
    assert_allclose([lower[0], upper[0]], [0.0, 10.0], atol=1e-13)


def test_widths_are_cut_to_the_range_of_the_response() -> None:
    lower, upper = np.array([-np.inf, 1.0, np.inf, 9.0]), np.array([2.0, np.inf, -np.inf, 11.0])
    assert_array_equal(widths(lower, upper, (0.0, 5.0)), [2.0, 4.0, 0.0, 0.0])


def test_the_lowest_point_of_an_average_is_a_knot_of_the_smallest_value() -> None:
    rng = np.random.default_rng(4)
    planes, weights = tied(rng, 50, 4), simple_weights(rng, 4)
    where, value = lowest(planes, weights)
    assert_array_equal(planes.combined(weights, where), value)
    for y in np.linspace(-3, 3, 49):
        assert (planes.combined(weights, np.full(50, y)) >= value - 1e-12).all()


def test_a_score_of_negative_slope_is_refused_because_its_averages_are_no_intervals() -> None:
    one = np.ones((3, 1))
    with pytest.raises(InvalidInput, match="not convex, and its averages need not be intervals"):
        Planes(one, one, -one, one)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: Planes(p.centre, p.offset[:, :1], p.below, p.above), "one shape"),
        (lambda p: Planes(p.centre * np.nan, p.offset, p.below, p.above), "finite"),
        (lambda p: Planes(p.centre[0], p.offset, p.below, p.above), r"shape \(n, d\)"),
        (lambda p: p.scaled(np.array([1.0, 0.0])), "2 positive numbers"),
        (lambda p: bands(p, [0.5, -0.5], 1.0), "must not be negative"),
        (lambda p: bands(p, [1.0], 1.0), "one for each of 2 scores"),
        (lambda p: bands(p, [0.5, 0.5], [1.0, 2.0]), "broadcast"),
        (lambda p: bands(p, [0.5, 0.5], np.nan), "broadcast"),
    ],
)
def test_what_makes_no_interval_is_refused(change: Callable[[Planes], object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        change(tied(np.random.default_rng(0), 5, 2))


def test_rows_columns_and_divisors_change_what_they_name() -> None:
    planes = tied(np.random.default_rng(2), 6, 3)
    y = np.linspace(-1, 1, 6)
    scores = planes.scores(y)
    assert_array_equal(planes.rows([4, 1]).scores(y[[4, 1]]), scores[[4, 1]])
    assert_array_equal(planes.columns([2, 0]).scores(y), scores[:, [2, 0]])
    assert_allclose(planes.scaled(np.array([1.0, 2.0, 4.0])).scores(y), scores / [1, 2, 4])
    assert (len(planes), planes.d) == (6, 3)
