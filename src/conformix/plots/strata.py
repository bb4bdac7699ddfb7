"""Coverage by set size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.plots.numbers.sizes import CoverageBySize, coverage_by_size_numbers
from conformix.plots.style import INK, PALETTE, axes_for, explain_above, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        names.append(f"promised on average: {numbers.promise:g}")
    shares = 100 * numbers.rows / numbers.rows.sum()
    told = zip(numbers.labels, shares, strict=True)
    ax.set_xticks(places, [f"{name}\n{share:.{int(share < 1)}f} %" for name, share in told])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.grid(visible=False, axis="x")
    explain_above(ax, handles, names)
    return ax


def promise_line(ax: Any, promise: float, *, vertical: bool = False) -> Any:
    """Draw the promised coverage as a dashed line and return the line.

    Examples
    --------
    >>> promise_line(axes_for(None), 0.9).get_linestyle()
    '--'
    """
    look = {"color": PALETTE[0], "linewidth": 1.2, "linestyle": (0, (4, 2.5)), "zorder": 2.5}
    return ax.axvline(promise, **look) if vertical else ax.axhline(promise, **look)
