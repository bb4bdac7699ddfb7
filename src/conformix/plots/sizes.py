"""How large sets are, and how coverage goes with their size: numbers, then ink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.metrics import covered, share_interval
from conformix.metrics.coverage import as_mask
from conformix.plots.style import INK, PALETTE, axes_for, explain_above, few_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class SetSizes:
    """A histogram of set sizes."""

    low: IntArray  # (b,), smallest size of every bar
    high: IntArray  # (b,), largest size, included
    rows: IntArray  # (b,), sets in every bar
    # (b,), those among them that hold the true label, where labels were given
    hits: IntArray | None
    n: int
    mean: float
    median: float

    @property
    def labels(self) -> list[str]:
        """The bars in words: ``"3"`` or ``"4-7"``."""
        return _ranges(self.low, self.high)


def set_sizes_numbers(sets: Any, y: Any = None, *, bars: int = 24) -> SetSizes:
    """Return the histogram of set sizes: a bar per size, or doubling bars where sizes are many.

    Parameters
    ----------
    sets : PredictionSets or boolean array of shape (n, K)
        The sets.
    y : integer array of shape (n,), optional
        True labels, to tell the sets that hold the truth from those that miss it.
    bars : int
        With more sizes than this, bars are ``0, 1, 2-3, 4-7, 8-15, ...``.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True], [True, True]])
    >>> numbers = set_sizes_numbers(sets, [0, 0, 1])
    >>> numbers.labels, numbers.rows.tolist(), numbers.hits.tolist()
    (['1', '2'], [1, 2], [1, 2])
    """
    sizes = as_mask(sets).sum(axis=1)
    smallest, largest = int(sizes.min()), int(sizes.max())
    if largest - smallest < bars:
        low = np.arange(smallest, largest + 1)
    else:
        low = np.array([0, *(2 ** np.arange(largest.bit_length()))])
        low = low[np.searchsorted(low, smallest, side="right") - 1 :]
    high = np.append(low[1:] - 1, max(largest, int(low[-1])))
    place = np.searchsorted(low, sizes, side="right") - 1
    rows = np.bincount(place, minlength=len(low))
    hits = None
    if y is not None:
        hits = np.bincount(place[covered(sets, y)], minlength=len(low))
    return SetSizes(low, high, rows, hits, len(sizes), float(sizes.mean()), float(np.median(sizes)))


@dataclass(frozen=True, eq=False)
class CoverageBySize:
    """Coverage by stratum of set size; strata without rows are left out."""

    low: IntArray  # (s,), smallest size of every stratum
    high: IntArray  # (s,), largest size, included; the last reaches the largest of all
    rows: IntArray  # (s,), sets in it
    hits: IntArray  # (s,), those that hold the true label
    coverage: FloatArray  # (s,)
    interval_low: FloatArray  # (s,), ends of the Clopper-Pearson interval
    interval_high: FloatArray
    promise: float | None  # ``1 - alpha``

    @property
    def labels(self) -> list[str]:
        """The strata in words: ``"2-3"``."""
        return _ranges(self.low, self.high)


def coverage_by_size_numbers(
    sets: Any,
    y: Any,
    *,
    alpha: float | None = None,
    edges: Sequence[int] = (1, 3, 10, 100),
    level: float = 0.95,
) -> CoverageBySize:
    """Return coverage by stratum of set size.

    The largest distance from ``1 - alpha`` is `conformix.metrics.size_stratified_violation`.

    Parameters
    ----------
    sets, y
        Sets and true labels.
    alpha : float, optional
        The miscoverage that was asked for.
    edges : sequence of int
        Upper ends of the strata, as in the metric.
    level : float
        Confidence of the Clopper-Pearson intervals.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True]])
    >>> numbers = coverage_by_size_numbers(sets, [1, 1], alpha=0.1)
    >>> numbers.labels, numbers.coverage.tolist()
    (['1', '2'], [0.0, 1.0])
    """
    hit, sizes = covered(sets, y), as_mask(sets).sum(axis=1)
    ends = np.asarray(edges)
    if ends.ndim != 1 or not len(ends) or (np.diff(ends) <= 0).any():
        raise InvalidInput(f"edges must rise, such as (1, 3, 10, 100); got {edges!r}.")
    stratum = np.searchsorted(ends, sizes, side="left")
    there = np.unique(stratum)
    rows = np.bincount(stratum)[there]
    hits = np.bincount(stratum, weights=hit)[there].astype(np.int64)
    low = np.append(0, ends + 1)[there]
    low = np.maximum(low, int(sizes.min()))
    high = np.minimum(np.append(ends, int(sizes.max()))[there], int(sizes.max()))
    intervals = np.array(
        [share_interval(int(h), int(n), level=level) for h, n in zip(hits, rows, strict=True)]
    )
    return CoverageBySize(
        low, high, rows, hits, hits / rows, intervals[:, 0], intervals[:, 1],
        None if alpha is None else 1 - float(simple_fraction(alpha)),
    )  # fmt: skip


def _ranges(low: IntArray, high: IntArray) -> list[str]:
    both = zip(low.tolist(), high.tolist(), strict=True)
    return [str(a) if a == b else f"{a}-{b}" for a, b in both]


def set_sizes(
    sets: Any, y: Any = None, *, bars: int = 24, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw the histogram of set sizes and return the axes.

    Parameters
    ----------
    sets, y, bars
        As in `set_sizes_numbers`; with labels, the sets that miss the truth are told apart.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> ax = set_sizes(np.array([[True, False], [True, True], [True, True]]), [0, 0, 1])
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['1', '2']
    """
    return plot_set_sizes(set_sizes_numbers(sets, y, bars=bars), title=title, ax=ax)


def plot_set_sizes(numbers: SetSizes, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw a histogram from its numbers and return the axes.

    Parameters
    ----------
    numbers : SetSizes
        What `set_sizes_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> numbers = set_sizes_numbers(np.array([[True, False], [True, True]]))
    >>> plot_set_sizes(numbers).get_xlabel()
    'labels in the set'
    """
    ax = axes_for(ax)
    tidy(ax, title=title, xlabel="labels in the set", ylabel="share of sets, %")
    places, share = np.arange(len(numbers.rows)), 100 / numbers.n
    hits = numbers.rows if numbers.hits is None else numbers.hits
    look: dict[str, Any] = {"width": 0.8, "edgecolor": INK, "linewidth": 0.6}
    handles = [ax.bar(places, hits * share, color=PALETTE[5], **look)]
    averages = f"mean {numbers.mean:.2f}, median {numbers.median:g}"
    names = [f"sets ({averages})"]
    if numbers.hits is not None:
        missed = (numbers.rows - numbers.hits) * share
        handles.append(
            ax.bar(places, missed, bottom=hits * share, color="white", hatch="/////", **look)
        )
        names = [f"hold the true label ({averages})", "miss it"]
    explain_above(ax, handles, names)
    # With many bars every second or third size is named.
    step = -(-len(places) // 13)
    ax.set_xticks(places[::step], numbers.labels[::step])
    if sum(map(len, numbers.labels[::step])) > 32:
        for text in ax.get_xticklabels():
            text.set(rotation=35, ha="right", rotation_mode="anchor")
    few_ticks(ax.yaxis)
    ax.grid(visible=False, axis="x")
    return ax


def coverage_by_size(
    sets: Any,
    y: Any,
    *,
    alpha: float | None = None,
    edges: Sequence[int] = (1, 3, 10, 100),
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the coverage by stratum of set size and return the axes.

    Parameters
    ----------
    sets, y, alpha, edges
        As in `coverage_by_size_numbers`.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> ax = coverage_by_size(np.array([[True, False], [True, True]]), [1, 1], alpha=0.1)
    >>> print(ax.get_xticklabels()[1].get_text())
    2
    50 %
    """
    numbers = coverage_by_size_numbers(sets, y, alpha=alpha, edges=edges)
    return plot_coverage_by_size(numbers, title=title, ax=ax)


def plot_coverage_by_size(
    numbers: CoverageBySize, *, title: str = "", ax: Axes | None = None
) -> Axes:
    """Draw coverage by set size from its numbers and return the axes.

    Parameters
    ----------
    numbers : CoverageBySize
        What `coverage_by_size_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> numbers = coverage_by_size_numbers(np.array([[True, False], [True, True]]), [1, 1])
    >>> plot_coverage_by_size(numbers).get_ylabel()
    'coverage'
    """
    ax = axes_for(ax)
    tidy(ax, title=title, xlabel="labels in the set, and share of the sets", ylabel="coverage")
    places = np.arange(len(numbers.rows))
    below = numbers.coverage - numbers.interval_low
    above = numbers.interval_high - numbers.coverage
    points = ax.errorbar(
        places, numbers.coverage, yerr=[below, above], fmt="o", color=PALETTE[1], markersize=5,
        ecolor=INK, elinewidth=0.9, capsize=3,
    )  # fmt: skip
    handles, names = [points], ["coverage, 95 % interval"]
    if numbers.promise is not None:
        handles.append(promise_line(ax, numbers.promise))
        names.append(f"asked for on average: {numbers.promise:g}")
    shares = 100 * numbers.rows / numbers.rows.sum()
    pairs = zip(numbers.labels, shares, strict=True)
    ax.set_xticks(places, [f"{name}\n{share:.{int(share < 1)}f} %" for name, share in pairs])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.grid(visible=False, axis="x")
    explain_above(ax, handles, names)
    return ax


def promise_line(ax: Any, promise: float, *, vertical: bool = False) -> Any:
    """Draw the promised coverage as a dashed line and return the line."""
    look = {"color": PALETTE[0], "linewidth": 1.2, "linestyle": (0, (4, 2.5)), "zorder": 2.5}
    return ax.axvline(promise, **look) if vertical else ax.axhline(promise, **look)
