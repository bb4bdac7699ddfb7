"""What even coverage of the classes costs: size against the class coverage gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.plots.style import PALETTE, SMALL, axes_for, tidy
from conformix.search import ClassGap, landscape

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """Mean size and class coverage gap of every weight vector, on the rows that were searched."""

    weights: FloatArray  # (M, d), the weights of the grid
    sizes: FloatArray  # (M,), means
    gaps: FloatArray  # (M,), mean over classes of ``|coverage - (1 - alpha)|``
    front: BoolArray  # (M,), which weights no other ones beat in both


def tradeoff_numbers(scores: Any, y: Any, *, alpha: float, resolution: int = 20) -> Tradeoff:
    """Return size and class coverage gap of all grid weights, and the best trade-offs.

    Parameters
    ----------
    scores, y, alpha, resolution
        As in `conformix.search.landscape`.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((60, 4, 2))
    >>> both = tradeoff_numbers(scores, np.arange(60) % 4, alpha=0.2, resolution=10)
    >>> both.weights.shape, bool(both.front[both.sizes.argmin()])
    ((11, 2), True)
    """
    weights, sizes = landscape(scores, y, alpha=alpha, resolution=resolution)
    both = landscape(scores, y, alpha=alpha, resolution=resolution, objective=ClassGap(1.0))[1]
    gaps = both - sizes
    return Tradeoff(weights, sizes, gaps, undominated(sizes, gaps))


def undominated(first: FloatArray, second: FloatArray) -> BoolArray:
    """Return which points no other point beats in one value without losing in the other.

    Examples
    --------
    >>> undominated(np.array([1.0, 2.0, 2.0]), np.array([3.0, 1.0, 4.0]))
    array([ True,  True, False])
    """
    order = np.lexsort((second, first))
    best = np.minimum.accumulate(np.concatenate([[np.inf], second[order]]))[:-1]
    front = np.zeros(len(first), dtype=bool)
    front[order] = second[order] < best
    return front


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
