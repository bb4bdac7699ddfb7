"""Pictures of intervals: rows side by side, and coverage by how hard rows are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import check_numbers
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.metrics import coverage_by_bins, share_interval
from conformix.metrics.coverage import covered
from conformix.metrics.intervals import as_intervals
from conformix.plots.style import PALE, PALETTE, SMALL, axes_for, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class SortedIntervals:
    """Intervals of some rows, by their middles; empty ones are left out."""

    rows: IntArray  # (m,), which rows
    lower: FloatArray  # (m,)
    upper: FloatArray  # (m,)
    y: FloatArray | None  # (m,), the responses, where they are known
    covered: BoolArray | None  # (m,)


def sorted_intervals_numbers(intervals: Any, y: Any = None, *, rows: int = 150) -> SortedIntervals:
    """Return intervals in the order of their middles, of at most so many rows, evenly spread.

    Parameters
    ----------
    intervals : Intervals or array of shape (n, 2)
        The intervals.
    y : array of shape (n,), optional
        The responses.
    rows : int
        How many rows at most.

    Examples
    --------
    >>> from conformix import Intervals
    >>> sorted_intervals_numbers(Intervals([3.0, 0.0, 1.0], [4.0, 1.0, 0.0]), [9.0, 0.5, 1.0]).rows
    array([1, 0])
    """
    made = as_intervals(intervals)
    if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or rows < 1:
        raise InvalidInput(f"rows must be a positive number of rows; got {shown(rows)}.")
    hits = None if y is None else covered(made, y)
    some = np.flatnonzero(~made.is_empty)
    with np.errstate(invalid="ignore"):  # the middle of the whole line
        middle = np.nan_to_num(made.lower[some] / 2 + made.upper[some] / 2)
    some = some[np.argsort(middle, kind="stable")]
    if len(some) > rows:
        some = some[np.arange(rows) * len(some) // rows]
    return SortedIntervals(
        some, made.lower[some], made.upper[some],
        None if y is None else check_numbers(y, "y")[some],
        None if hits is None else hits[some],
    )  # fmt: skip


def sorted_intervals(
    intervals: Any, y: Any = None, *, rows: int = 150, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw intervals side by side, by their middles, with the responses, and return the axes.

    Parameters
    ----------
    intervals, y, rows
        As in `sorted_intervals_numbers`.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> from conformix import Intervals
    >>> sorted_intervals(Intervals([0.0, 1.0], [1.0, 3.0]), [0.5, 2.0]).get_ylabel()
    'response'
    """
    numbers = sorted_intervals_numbers(intervals, y, rows=rows)
    return plot_sorted_intervals(numbers, title=title, ax=ax)


def plot_sorted_intervals(
    numbers: SortedIntervals, *, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw sorted intervals from their numbers and return the axes; unbounded ones leave it.

    Parameters
    ----------
    numbers : SortedIntervals
        What `sorted_intervals_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> from conformix import Intervals
    >>> numbers = sorted_intervals_numbers(Intervals([0.0, 1.0], [1.0, 3.0]))
    >>> plot_sorted_intervals(numbers).get_xlabel()
    'rows, by the middle of their intervals'
    """
    ax = axes_for(ax, width=4.6)
    tidy(ax, title=title, xlabel="rows, by the middle of their intervals", ylabel="response")
    ends = [numbers.lower, numbers.upper, *([] if numbers.y is None else [numbers.y])]
    every = np.concatenate(ends)
    inside = every[np.isfinite(every)]
    low, high = (inside.min(), inside.max()) if len(inside) else (0.0, 1.0)
    room = 0.05 * (high - low) or 1.0
    low, high = low - room, high + room
    place = np.arange(len(numbers.rows))
    ax.vlines(
        place, np.maximum(numbers.lower, low), np.minimum(numbers.upper, high), color=PALETTE[5],
        linewidth=1.2, label="interval",
    )  # fmt: skip
    if numbers.y is not None and numbers.covered is not None:
        for hit, colour, marker, words in (
            (True, PALETTE[1], "o", "response inside"),
            (False, PALETTE[0], "X", "response outside"),
        ):
            rows = numbers.covered == hit
            ax.scatter(
                place[rows], numbers.y[rows], s=9, color=colour, marker=marker, linewidths=0,
                label=words, zorder=3,
            )  # fmt: skip
    ax.set_ylim(low, high)
    ax.legend(fontsize=SMALL, frameon=False)
    return ax


@dataclass(frozen=True, eq=False)
class CoverageByBins:
    """Coverage of the rows of bins of a number, with 95 % intervals."""

    middles: FloatArray  # (b,), of the numbers of a bin
    rows: IntArray  # (b,)
    coverage: FloatArray  # (b,)
    low: FloatArray  # (b,)
    high: FloatArray  # (b,)
    widths: FloatArray  # (b,), mean widths
    asked: float  # 1 - alpha


def coverage_by_difficulty_numbers(
    intervals: Any, y: Any, *, alpha: float, by: Any = None, n_bins: int = 5
) -> CoverageByBins:
    """Return the coverage of rows in bins of their widths, or of another number.

    Parameters
    ----------
    intervals, y, by, n_bins
        As in `conformix.metrics.coverage_by_bins`.
    alpha : float
        The miscoverage that was asked for.

    Examples
    --------
    >>> from conformix import Intervals
    >>> made = Intervals([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 5.0, 6.0])
    >>> coverage_by_difficulty_numbers(made, [0.5, 2.0, 1, 1], alpha=0.1, n_bins=2).coverage
    array([0.5, 1. ])
    """
    asked = 1 - float(simple_fraction(alpha))
    bins = coverage_by_bins(intervals, y, by=by, n_bins=n_bins)
    ends = [share_interval(round(one.coverage * one.rows), one.rows) for one in bins]
    return CoverageByBins(
        np.array([one.low / 2 + one.high / 2 for one in bins]),
        np.array([one.rows for one in bins]),
        np.array([one.coverage for one in bins]),
        np.array([low for low, _ in ends]),
        np.array([high for _, high in ends]),
        np.array([one.mean_width for one in bins]),
        asked,
    )


def coverage_by_difficulty(
    intervals: Any,
    y: Any,
    *,
    alpha: float,
    by: Any = None,
    n_bins: int = 5,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw coverage by how wide intervals are, or by another number, and return the axes.

    Parameters
    ----------
    intervals, y, alpha, by, n_bins
        As in `coverage_by_difficulty_numbers`.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> from conformix import Intervals
    >>> made = Intervals([0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 5.0, 6.0])
    >>> coverage_by_difficulty(made, [0.5, 2.0, 1, 1], alpha=0.1, n_bins=2).get_ylabel()
    'coverage'
    """
    numbers = coverage_by_difficulty_numbers(intervals, y, alpha=alpha, by=by, n_bins=n_bins)
    xlabel = "bins of width, from the narrowest" if by is None else "bins, from the smallest"
    ax = plot_coverage_by_difficulty(numbers, title=title, ax=ax)
    ax.set_xlabel(xlabel)
    return ax


def plot_coverage_by_difficulty(
    numbers: CoverageByBins, *, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw coverage by bins from its numbers and return the axes.

    Parameters
    ----------
    numbers : CoverageByBins
        What `coverage_by_difficulty_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> from conformix import Intervals
    >>> made = Intervals([0.0, 0.0], [1.0, 5.0])
    >>> numbers = coverage_by_difficulty_numbers(made, [0.5, 2.0], alpha=0.1, n_bins=2)
    >>> [text.get_text() for text in plot_coverage_by_difficulty(numbers).get_xticklabels()]
    ['1', '5']
    """
    ax = axes_for(ax)
    tidy(ax, title=title, xlabel="bins", ylabel="coverage")
    place = np.arange(len(numbers.rows))
    ax.axhline(numbers.asked, color=PALE, linewidth=1.0, linestyle="--", label="asked for")
    below, above = numbers.coverage - numbers.low, numbers.high - numbers.coverage
    ax.errorbar(
        place, numbers.coverage, yerr=np.stack([below, above]), fmt="o", color=PALETTE[0],
        markersize=4, linewidth=1.2, capsize=3, label="rows, 95 %",
    )  # fmt: skip
    ax.set_xticks(place, [f"{middle:.3g}" for middle in numbers.middles])
    ax.legend(fontsize=SMALL, frameon=False)
    return ax
