"""All measures together, and with the interval that the number of test rows allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import simple_fraction
from conformix.guarantees.verdict import Cell, shortfall_tail
from conformix.metrics.coverage import (
    are_intervals,
    as_mask,
    class_coverage_gap,
    coverage,
    coverage_interval,
    covered,
    share_interval,
    size_stratified_violation,
)
from conformix.metrics.intervals import (
    INTERVAL_METRICS,
    bin_coverage_gap,
    interval_score,
    mean_width,
    median_width,
)
from conformix.metrics.size import (
    empty_rate,
    mean_size,
    median_size,
    singleton_accuracy,
    singleton_rate,
    size_quantile,
)

Metric = Callable[..., float]

METRICS: dict[str, Metric] = {
    "coverage": coverage,
    "mean_size": mean_size,
    "median_size": median_size,
    "size_quantile": size_quantile,
    "singleton_rate": singleton_rate,
    "singleton_accuracy": singleton_accuracy,
    "empty_rate": empty_rate,
    "class_coverage_gap": class_coverage_gap,
    "size_stratified_violation": size_stratified_violation,
}
_NEED_ALPHA = (
    "class_coverage_gap",
    "size_stratified_violation",
    "interval_score",
    "bin_coverage_gap",
)


def evaluate(sets: Any, y: Any, *, alpha: float | None = None) -> dict[str, float]:
    """Return the usual measures of a batch of sets, or of intervals, by name.

    Parameters
    ----------
    sets : PredictionSets or boolean array of shape (n, K), or Intervals
        The sets.
    y : integer array of shape (n,)
        True labels; of intervals the responses.
    alpha : float, optional
        The miscoverage that was asked for; without it the measures that need it are left out.

    Examples
    --------
    >>> evaluate(np.array([[True, False], [True, True]]), [0, 1])["mean_size"]
    1.5
    """
    low, high = coverage_interval(sets, y)
    values = {"coverage": coverage(sets, y), "coverage_low": low, "coverage_high": high}
    listed = INTERVAL_METRICS if are_intervals(sets) else METRICS
    for name, metric in listed.items():
        if name in _NEED_ALPHA:
            if alpha is not None:
                values[name] = metric(sets, y, alpha=alpha)
        else:
            values[name] = metric(sets, y)
    return values


class Measure(NamedTuple):
    """A measure on some rows; ``low`` and ``high`` are None where no interval is honest.

    Examples
    --------
    >>> Measure("coverage", 0.91, 0.88, 0.93).value
    0.91
    """

    name: str
    value: float
    low: float | None
    high: float | None


def measures(sets: Any, y: Any, *, alpha: float, level: float = 0.95) -> list[Measure]:
    """Return the usual measures with intervals for new rows like these, given the fitted sets.

    Shares have Clopper-Pearson intervals, the mean size Student's, sizes at a quantile those of
    their order statistics. The measures of conditional coverage are largest deviations, which
    noise only raises: they have none.

    Parameters
    ----------
    sets : PredictionSets or boolean array of shape (n, K), or Intervals
        The sets.
    y : integer array of shape (n,)
        True labels; of intervals the responses.
    alpha : float
        The miscoverage that was asked for.
    level : float
        Of the intervals.

    Examples
    --------
    >>> sets = np.array([[True, False]] * 9 + [[True, True]])
    >>> for one in measures(sets, [0] * 10, alpha=0.1)[:2]:
    ...     print(one.name, one.value, round(one.low, 3), round(one.high, 3))
    coverage 1.0 0.692 1.0
    mean_size 1.1 0.874 1.326
    """

    def share(name: str, values: Any) -> Measure:
        if not len(values):
            return Measure(name, float("nan"), None, None)
        return Measure(
            name, float(values.mean()), *share_interval(int(values.sum()), len(values), level=level)
        )

    if are_intervals(sets):
        sets = sets.on_host()
        width, score = sets.width, interval_score(sets, y, alpha=alpha)
        return [
            share("coverage", covered(sets, y)),
            _mean(width, mean_width(sets), level, "mean_width"),
            _quantile("median_width", width, median_width(sets), 0.5, level=level),
            Measure("interval_score", score, None, None),
            share("empty_interval_rate", sets.is_empty),
            Measure("bin_coverage_gap", bin_coverage_gap(sets, y, alpha=alpha), None, None),
        ]
    sizes = as_mask(sets).sum(axis=1)
    hits, single = covered(sets, y), sizes == 1
    return [
        share("coverage", hits),
        _mean(sizes, mean_size(sets), level),
        _quantile("median_size", sizes, median_size(sets), 0.5, level=level),
        _quantile("size_quantile", sizes, size_quantile(sets), 0.9, level=level),
        share("singleton_rate", single),
        share("singleton_accuracy", hits[single]),
        share("empty_rate", sizes == 0),
        Measure("class_coverage_gap", class_coverage_gap(sets, y, alpha=alpha), None, None),
        Measure(
            "size_stratified_violation", size_stratified_violation(sets, y, alpha=alpha), None, None
        ),
    ]


def _mean(sizes: Any, value: float, level: float, name: str = "mean_size") -> Measure:
    from scipy.stats import t  # noqa: PLC0415  scipy loads late

    n = len(sizes)
    if n < 2 or not np.isfinite(value):
        return Measure(name, value, None, None)
    half = float(t.ppf((1 + float(simple_fraction(level, "level"))) / 2, n - 1))
    half *= float(sizes.std(ddof=1)) / np.sqrt(n)
    return Measure(name, value, max(value - half, 0.0), value + half)


def _quantile(name: str, sizes: Any, value: float, q: float, *, level: float) -> Measure:
    from scipy.stats import binom  # noqa: PLC0415  scipy loads late

    ordered, n = np.sort(sizes), len(sizes)
    tail = (1 - float(simple_fraction(level, "level"))) / 2
    low = int(binom.ppf(tail, n, q)) - 1
    high = int(binom.ppf(1 - tail, n, q))
    return Measure(name, value, float(ordered[max(low, 0)]), float(ordered[min(high, n - 1)]))


def shortfall_pvalue(hits: int, n_test: int, *, n_calibration: int, rank: int) -> float:
    """Return the probability of so few covered rows, were the promise kept and rows exchangeable.

    With the k-th largest of n calibration scores as the threshold, the number of covered rows
    among m is at least BetaBinomial(m, k, n + 1 - k) in the stochastic order.

    Parameters
    ----------
    hits, n_test : int
        Covered rows, and all rows.
    n_calibration, rank : int
        n and k; k > n means that every set holds all labels.

    Examples
    --------
    >>> round(shortfall_pvalue(880, 1000, n_calibration=500, rank=451), 3)
    0.118
    """
    return shortfall_tail(hits, [Cell(n_calibration, rank, n_test)])
