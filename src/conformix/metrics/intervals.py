"""How good intervals are: width, the interval score, and coverage by how wide they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import check_numbers
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.metrics.coverage import are_intervals, covered
from conformix.predictions.intervals import Intervals


def as_intervals(intervals: Any) -> Intervals:
    """Return intervals, also of a pair of arrays or of an array (n, 2)."""
    if not are_intervals(intervals):
        ends = check_numbers(intervals, "intervals")
        if ends.ndim != 2 or 2 not in ends.shape:
            raise InvalidInput(
                f"intervals must be Intervals or an array (n, 2); got shape {ends.shape}."
            )
        intervals = Intervals(*(ends.T if ends.shape[1] == 2 else ends))
    if not len(intervals):
        raise InvalidInput("intervals must not be empty; got no rows.")
    return intervals.on_host()  # type: ignore[no-any-return]


def mean_width(intervals: Any, y: Any = None) -> float:
    """Return the mean width; an empty interval has width 0.

    Examples
    --------
    >>> mean_width(Intervals([0.0, 1.0], [1.0, 4.0]))
    2.0
    """
    return float(as_intervals(intervals).width.mean())


def median_width(intervals: Any, y: Any = None) -> float:
    """Return the median width.

    Examples
    --------
    >>> median_width(Intervals([0.0, 1.0, 1.0], [1.0, 4.0, 6.0]))
    3.0
    """
    return float(np.median(as_intervals(intervals).width))


def empty_interval_rate(intervals: Any, y: Any = None) -> float:
    """Return the share of intervals that hold no number.

    Examples
    --------
    >>> empty_interval_rate(Intervals([0.0, 1.0], [1.0, 0.0]))
    0.5
    """
    return float(as_intervals(intervals).is_empty.mean())


def interval_score(intervals: Any, y: Any, *, alpha: float) -> float:
    """Return the mean of the width plus ``2/alpha`` times how far the response lies outside.

    The interval score (Winkler, 1972; Gneiting & Raftery, 2007); lower is better. An empty interval
    is nowhere, so that its score is infinite; ``allow_empty=False`` makes none.

    Examples
    --------
    >>> interval_score(Intervals([0.0, 0.0], [1.0, 1.0]), [0.5, 1.5], alpha=0.1)
    6.0
    """
    made = as_intervals(intervals)
    covered(made, y)  # which checks the responses
    values = check_numbers(y, "y")
    outside = np.maximum(made.lower - values, 0) + np.maximum(values - made.upper, 0)
    return float((made.width + 2 / float(simple_fraction(alpha)) * outside).mean())


class BinCoverage(NamedTuple):
    """Coverage of the rows of one bin.

    Examples
    --------
    >>> BinCoverage(0.0, 1.5, 20, 0.9, 1.1).coverage
    0.9
    """

    low: float
    high: float
    rows: int
    coverage: float
    mean_width: float


def coverage_by_bins(
    intervals: Any, y: Any, *, by: Any = None, n_bins: int = 3
) -> list[BinCoverage]:
    """Return the coverage of rows in bins of a number, from the smallest on.

    Narrow on average means uneven: intervals of hard rows may miss more often than those of easy
    ones, whatever holds on average (docs/regression.md).

    Parameters
    ----------
    intervals : Intervals or array of shape (n, 2)
        The intervals.
    y : array of shape (n,)
        The responses.
    by : array of shape (n,), optional
        The number that rows are binned by, not chosen by looking at `y`; by default the width.
    n_bins : int
        How many bins, of as many rows each where the numbers differ; equal numbers stay together.

    Examples
    --------
    >>> made = Intervals([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 5.0, 6.0])
    >>> [(one.rows, one.coverage) for one in coverage_by_bins(made, [0.5, 2.0, 1, 1], n_bins=2)]
    [(2, 0.5), (2, 1.0)]
    """
    made = as_intervals(intervals)
    hits = covered(made, y)
    numbers = made.width if by is None else check_numbers(by, "by")
    if numbers.shape != hits.shape or np.isnan(numbers).any():
        raise InvalidInput(
            f"by must hold one number per row, shape ({len(hits)},); got shape {numbers.shape}."
        )
    bins = _bins(numbers, n_bins)
    found = []
    for place in np.unique(bins):
        rows = bins == place
        some = numbers[rows]
        found.append(
            BinCoverage(
                float(some.min()), float(some.max()), int(rows.sum()), float(hits[rows].mean()),
                float(made.width[rows].mean()),
            )
        )  # fmt: skip
    return found


def _bins(numbers: FloatArray, n_bins: int) -> IntArray:
    whole = isinstance(n_bins, int | np.integer) and not isinstance(n_bins, bool)
    if not whole or n_bins < 1:
        raise InvalidInput(f"n_bins must be a positive number of bins; got {shown(n_bins)}.")
    ordered, n = np.sort(numbers), len(numbers)
    places = [-(-n * part // n_bins) - 1 for part in range(1, n_bins)]
    edges = np.unique(ordered[np.maximum(places, 0)]) if places else np.zeros(0)
    return np.searchsorted(edges, numbers, side="left")


def bin_coverage_gap(
    intervals: Any, y: Any, *, alpha: float, by: Any = None, n_bins: int = 3
) -> float:
    """Return the largest ``|coverage - (1 - alpha)|`` over bins of the width, or of a number.

    Examples
    --------
    >>> made = Intervals([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 5.0, 6.0])
    >>> round(bin_coverage_gap(made, [0.5, 2.0, 1.0, 1.0], alpha=0.1, n_bins=2), 3)
    0.4
    """
    asked = 1 - float(simple_fraction(alpha))
    bins = coverage_by_bins(intervals, y, by=by, n_bins=n_bins)
    return float(max(abs(one.coverage - asked) for one in bins))


def interval_coverage(intervals: Any, y: Any) -> float:
    """Return the share of rows whose response lies in its interval.

    Examples
    --------
    >>> interval_coverage(Intervals([0.0, 1.0], [1.0, 4.0]), [0.5, 5.0])
    0.5
    """
    return float(covered(as_intervals(intervals), y).mean())


IntervalMetric = Callable[..., float]

INTERVAL_METRICS: dict[str, IntervalMetric] = {
    "coverage": interval_coverage,
    "mean_width": mean_width,
    "median_width": median_width,
    "empty_interval_rate": empty_interval_rate,
    "interval_score": interval_score,
    "bin_coverage_gap": bin_coverage_gap,
}
