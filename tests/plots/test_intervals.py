"""Pictures of intervals: their numbers, and that the ink is these."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix import plots

RNG = np.random.default_rng(0)
MIDDLE = RNG.normal(size=300)
Y = MIDDLE + RNG.normal(size=300)
MADE = cx.Intervals(MIDDLE - 1, np.where(np.arange(300) < 3, -9.0, MIDDLE + 1))


def test_rows_come_by_their_middles_without_empty_ones() -> None:
    numbers = plots.sorted_intervals_numbers(MADE, Y, rows=1000)
    assert set(numbers.rows.tolist()) == set(range(3, 300))
    assert (np.diff(MIDDLE[numbers.rows]) >= 0).all()
    assert_array_equal(numbers.covered, MADE.contains(Y)[numbers.rows])
    assert len(plots.sorted_intervals_numbers(MADE, rows=50).rows) == 50


def test_every_interval_and_response_is_drawn() -> None:
    ax = plots.sorted_intervals(MADE, Y, rows=40)
    numbers = plots.sorted_intervals_numbers(MADE, Y, rows=40)
    lines, inside, outside = ax.collections
    drawn = np.array([segment[:, 1] for segment in lines.get_segments()])
    assert_array_equal(drawn, np.column_stack([numbers.lower, numbers.upper]))
    assert len(inside.get_offsets()) == numbers.covered.sum()
    assert len(outside.get_offsets()) == (~numbers.covered).sum()


def test_unbounded_intervals_leave_the_picture() -> None:
    ax = plots.sorted_intervals(cx.Intervals([-np.inf, 0.0], [np.inf, 1.0]), [0.0, 5.0])
    (low, high) = ax.get_ylim()
    ends = [segment[:, 1].tolist() for segment in ax.collections[0].get_segments()]
    assert [low, high] in ends
    assert np.isfinite([low, high]).all()


def test_bins_show_their_coverage_and_what_was_asked_for() -> None:
    numbers = plots.coverage_by_difficulty_numbers(MADE, Y, alpha=0.2, by=MIDDLE, n_bins=4)
    expected = cx.metrics.coverage_by_bins(MADE, Y, by=MIDDLE, n_bins=4)
    assert_array_equal(numbers.coverage, [one.coverage for one in expected])
    assert ((numbers.low < numbers.coverage) & (numbers.coverage < numbers.high)).all()
    ax = plots.coverage_by_difficulty(MADE, Y, alpha=0.2, by=MIDDLE, n_bins=4)
    assert_array_equal(ax.lines[0].get_ydata(), [0.8, 0.8])
    assert_array_equal(ax.lines[1].get_ydata(), numbers.coverage)


def test_bad_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(cx.InvalidInput, match="rows must be a positive number"):
        plots.sorted_intervals_numbers(MADE, rows=0)
    with pytest.raises(cx.InvalidInput, match="one number for each of 300 intervals"):
        plots.sorted_intervals(MADE, Y[:3])


def test_pictures_that_count_labels_refuse_responses() -> None:
    model = cx.Regressed(mean=np.arange(20.0), sigma=np.ones(20))
    y = np.arange(20.0) + np.tile([0.5, -1.0], 10)
    cp = cx.RegressionAverage(("abs", "norm"), alpha=0.2, random_state=0).fit(model, y)
    for draw in (cx.plots.weights, cx.plots.weight_spread, cx.plots.size_coverage):
        with pytest.raises(cx.InvalidInput, match=r"plots\.sorted_intervals and plots\.coverage_"):
            draw(cp, model, y)
    with pytest.raises(cx.InvalidInput, match=r"responses have none; the model's own explain\("):
        cx.plots.explain(cp, model, 0)
