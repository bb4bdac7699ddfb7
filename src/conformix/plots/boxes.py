"""Box plots over random splits: one box per method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.plots.style import INK, PALETTE, SMALL, axes_for, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of several methods, Tukey's way."""

    names: tuple[str, ...]
    low: FloatArray  # (M,), the last values within 1.5 box lengths of the box
    q1: FloatArray
    median: FloatArray
    q3: FloatArray
    high: FloatArray
    mean: FloatArray
    outliers: tuple[FloatArray, ...]  # beyond low and high, by method


def boxes_numbers(values: Mapping[str, Any]) -> Boxes:
    """Return the box of every method from its values over the splits.

    Parameters
    ----------
    values : mapping of str to array of shape (J,)
        One number per split, by method.

    Examples
    --------
    >>> numbers = boxes_numbers({"VFCP": [1.0, 2.0, 3.0, 4.0, 20.0]})
    >>> numbers.q1.tolist(), numbers.q3.tolist(), numbers.high.tolist(), numbers.outliers[0]
    ([2.0], [4.0], [4.0], array([20.]))
    """
    columns = [np.asarray(column, dtype=np.float64) for column in values.values()]
    if not columns or any(c.ndim != 1 or not len(c) or not np.isfinite(c).all() for c in columns):
        raise InvalidInput("values must hold, by method, a non-empty list of finite numbers.")
    rows, outliers = [], []
    for column in columns:
        # One value is its own quartile; the inclusive rule needs two.
        cuts = quantiles(np.repeat(column, 2 if len(column) == 1 else 1), method="inclusive")
        reach = 1.5 * (cuts[2] - cuts[0])
        inside = column[(column >= cuts[0] - reach) & (column <= cuts[2] + reach)]
        rows.append([min(inside.min(), cuts[0]), *cuts, max(inside.max(), cuts[2]), column.mean()])
        outliers.append(np.sort(column[(column < rows[-1][0]) | (column > rows[-1][4])]))
    low, q1, median, q3, high, mean = np.array(rows, dtype=np.float64).T
    return Boxes(tuple(map(str, values)), low, q1, median, q3, high, mean, tuple(outliers))


def plot_boxes(
    values: Mapping[str, Any],
    *,
    ylabel: str = "",
    title: str = "",
    target: float | None = None,
    ours: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Draw one box per method, with the mean as a dot, and return the axes.

    Parameters
    ----------
    values : mapping of str to array of shape (J,)
        One number per split, by method.
    ylabel, title : str
        Texts.
    target : float, optional
        A level to mark, such as the promised coverage.
    ours : int
        How many of the first methods are drawn in our colour.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> ax = plot_boxes({"VFCP": [1.0, 2.0], "THR": [2.0, 3.0]}, ylabel="size")
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['VFCP', 'THR']
    """
    ax = axes_for(ax)
    tidy(ax, title=title, ylabel=ylabel)
    numbers = boxes_numbers(values)
    line = {"color": INK, "linewidth": 0.8}
    drawn = ax.bxp(
        _matplotlib_stats(numbers),
        patch_artist=True,
        showmeans=True,
        widths=0.62,
        medianprops={"color": INK, "linewidth": 1.1},
        whiskerprops=dict(line),
        capprops=dict(line),
        boxprops={"edgecolor": INK, "linewidth": 0.8},
        flierprops={"marker": ".", "markersize": 2.5, "markeredgecolor": "#7f7f7f"},
        meanprops={"marker": "o", "markersize": 2.6, "markerfacecolor": "white",
                   "markeredgecolor": INK, "markeredgewidth": 0.6},
    )  # fmt: skip
    for place, box in enumerate(drawn["boxes"]):
        box.set(facecolor=PALETTE[0] if place < ours else PALETTE[5], alpha=0.85)
    ax.set_xticks(range(1, len(numbers.names) + 1), [plain(name) for name in numbers.names])
    crowded = sum(len(name) for name in values) > 26
    for label in ax.get_xticklabels():
        label.set(fontsize=SMALL, rotation=35 if crowded else 0)
        label.set_horizontalalignment("right" if crowded else "center")
    ax.grid(visible=False, axis="x")
    if target is not None:
        ax.axhline(target, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0.5)
    return ax


def _matplotlib_stats(numbers: Boxes) -> list[dict[str, Any]]:
    """Return the boxes in matplotlib's own words."""
    keys = ("whislo", "q1", "med", "q3", "whishi", "mean")
    columns = (
        numbers.low, numbers.q1, numbers.median, numbers.q3, numbers.high, numbers.mean,
    )  # fmt: skip
    rows = zip(*columns, strict=True)
    return [
        dict(zip(keys, row, strict=True)) | {"fliers": beyond}
        for row, beyond in zip(rows, numbers.outliers, strict=True)
    ]
