"""What even coverage of the classes costs: size against the class coverage gap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.plots.numbers.tradeoff import Tradeoff, tradeoff_numbers
from conformix.plots.style import PALETTE, SMALL, axes_for, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Weights with sets beyond this multiple of the smallest would only push the front into a corner.
LARGEST = 1.5


def tradeoff(
    scores: Any,
    y: Any,
    *,
    alpha: float,
    resolution: int = 20,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw size against class coverage gap for all grid weights and return the axes.

    Parameters
    ----------
    scores, y, alpha, resolution
        As in `conformix.search.landscape`.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((60, 4, 2))
    >>> tradeoff(scores, np.arange(60) % 4, alpha=0.2, resolution=10).get_xlabel()
    'mean set size'
    """
    numbers = tradeoff_numbers(scores, y, alpha=alpha, resolution=resolution)
    return plot_tradeoff(numbers, title=title, ax=ax)


def plot_tradeoff(numbers: Tradeoff, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the trade-off of size and class coverage gap from its numbers and return the axes.

    Parameters
    ----------
    numbers : Tradeoff
        What `tradeoff_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((60, 4, 2))
    >>> numbers = tradeoff_numbers(scores, np.arange(60) % 4, alpha=0.2, resolution=10)
    >>> plot_tradeoff(numbers).get_ylabel()
    'class coverage gap'
    """
    ax = axes_for(ax)
    tidy(ax, title=title, xlabel="mean set size", ylabel="class coverage gap")
    near = numbers.sizes <= LARGEST * numbers.sizes.min()
    ax.scatter(
        numbers.sizes[near], numbers.gaps[near], s=9, color=PALETTE[6], alpha=0.35, linewidths=0,
        label="weights of the grid",
    )  # fmt: skip
    front = np.flatnonzero(numbers.front & near)
    front = front[np.argsort(numbers.sizes[front], kind="stable")]
    ax.plot(
        numbers.sizes[front], numbers.gaps[front], color=PALETTE[0], marker="o", markersize=4,
        linewidth=1.4, drawstyle="steps-post", label="best trade-offs",
    )  # fmt: skip
    ax.legend(fontsize=SMALL, frameon=False)
    return ax
