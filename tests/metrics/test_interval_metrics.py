"""Measures of intervals: coverage, width, the interval score, coverage by bins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import conformix as cx
from conformix import metrics

RNG = np.random.default_rng(0)
Y = RNG.normal(size=200)
LOWER = RNG.normal(size=200) - 1
MADE = cx.Intervals(LOWER, LOWER + RNG.exponential(2.0, size=200))


def test_coverage_and_widths_are_means_over_rows() -> None:
    inside = [low <= one <= high for (low, high), one in zip(MADE, Y, strict=True)]
    assert metrics.coverage(MADE, Y) == metrics.interval_coverage(MADE, Y) == np.mean(inside)
    assert_allclose(metrics.mean_width(MADE), np.mean([high - low for low, high in MADE]))
    assert_allclose(metrics.median_width(MADE), np.median([high - low for low, high in MADE]))
    assert metrics.coverage_interval(MADE, Y) == metrics.share_interval(sum(inside), 200)


def test_the_interval_score_charges_misses_by_how_far_they_are() -> None:
    expected = []
    for (low, high), one in zip(MADE, Y, strict=True):
        outside = low - one if one < low else one - high if one > high else 0.0
        expected.append(high - low + 2 / 0.1 * outside)
    assert_allclose(metrics.interval_score(MADE, Y, alpha=0.1), np.mean(expected))
    assert metrics.interval_score(cx.Intervals([1.0], [0.0]), [3.0], alpha=0.1) == np.inf


@pytest.mark.parametrize("by", [None, Y, np.zeros(200)], ids=["width", "a number", "ties"])
def test_bins_hold_every_row_once_and_keep_equal_numbers_together(by: Any) -> None:
    found = metrics.coverage_by_bins(MADE, Y, by=by, n_bins=4)
    assert sum(one.rows for one in found) == 200
    mean = sum(one.rows * one.coverage for one in found) / 200
    assert_allclose(mean, metrics.coverage(MADE, Y))
    assert all(a.high < b.low for a, b in pairwise(found))
    assert len(found) == (1 if by is not None and not by.any() else 4)
    gap = max(abs(one.coverage - 0.9) for one in found)
    assert metrics.bin_coverage_gap(MADE, Y, alpha=0.1, by=by, n_bins=4) == pytest.approx(gap)


def test_evaluate_and_measures_know_intervals() -> None:
    found = metrics.evaluate(MADE, Y, alpha=0.1)
    for name, metric in metrics.INTERVAL_METRICS.items():
        options = {"alpha": 0.1} if name in ("interval_score", "bin_coverage_gap") else {}
        assert found[name] == metric(MADE, Y, **options)
    assert "interval_score" not in metrics.evaluate(MADE, Y)
    listed = {one.name: one for one in metrics.measures(MADE, Y, alpha=0.1)}
    assert listed["mean_width"].low < listed["mean_width"].value < listed["mean_width"].high


def test_an_array_of_ends_is_taken() -> None:
    assert metrics.mean_width(np.asarray(MADE)) == metrics.mean_width(MADE)
    assert metrics.interval_coverage((MADE.lower, MADE.upper), Y) == metrics.coverage(MADE, Y)


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        (lambda: metrics.coverage(MADE, Y[:-1]), "one number for each of 200 intervals"),
        (lambda: metrics.coverage(MADE, np.full(200, np.nan)), "y must be finite"),
        (lambda: metrics.mean_width(Y), r"array \(n, 2\)"),
        (lambda: metrics.mean_width(MADE[:0]), "no rows"),
        (lambda: metrics.interval_score(MADE, Y, alpha=2), "alpha must be"),
        (lambda: metrics.coverage_by_bins(MADE, Y, n_bins=0), "n_bins must be"),
        (lambda: metrics.coverage_by_bins(MADE, Y, by=Y[:3]), "by must hold"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(measure: Any, sentence: str) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        measure()
