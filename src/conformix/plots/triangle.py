"""The weight triangle: set size over all weights of three scores.

Numbers first (`triangle_points`, `near_optimal`), ink second (`plot_triangle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.plots.style import INK, NORMAL, PALETTE, axes_for, explain_with, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Corners of an upright triangle: first score left, second right, third on top.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
TITLE = 9.5


def triangle_points(weights: FloatArray) -> FloatArray:
    """Return the place of every weight vector in the triangle, shape (m, 2).

    Examples
    --------
    >>> triangle_points(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    array([[0., 0.],
           [1., 0.]])
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim != 2 or weights.shape[1] != 3:
        raise InvalidInput(f"a triangle needs weights of shape (m, 3); got {weights.shape}.")
    return weights @ CORNERS


def near_optimal(sizes: FloatArray, within: float = 0.01) -> BoolArray:
    """Return which weights have a size within a share `within` of the smallest one.

    Examples
    --------
    >>> near_optimal(np.array([2.0, 2.01, 2.5]))
    array([ True,  True, False])
    """
    return np.asarray(sizes) <= np.min(sizes) * (1 + within)


def plot_triangle(
    weights: FloatArray,
    sizes: FloatArray,
    *,
    names: Sequence[str],
    best: FloatArray | None = None,
    best_size: float | None = None,
    level: float | None = None,
    within: str = "within 5 %",
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the landscape of set sizes over the weight triangle and return the axes.

    Parameters
    ----------
    weights : array of shape (m, 3)
        All weights, as `conformix.search.landscape` returns them.
    sizes : array of shape (m,)
        Mean set size of every weight vector.
    names : sequence of three str
        Names of the scores, for the corners.
    best : array of shape (3,), optional
        The weights to mark; by default the smallest size of the landscape.
    best_size : float, optional
        Their mean set size; by default that of the nearest weights of the landscape.
    level : float, optional
        Outline the weights with a size up to this; by default 5 % above the smallest.
    within : str
        What the level is, in words.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> from conformix.search import simplex_grid
    >>> weights = simplex_grid(3, 10) / 10
    >>> ax = plot_triangle(weights, 1 + weights[:, 0], names=("thr", "aps", "rank"))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['(0.00, 0.00, 1.00): 1.00', 'within 5 % (up to 1.05)']
    """
    from matplotlib.colors import LogNorm  # noqa: PLC0415  an extra, loaded where it is used

    ax = axes_for(ax, 5.2, 4.4)
    x, y = triangle_points(weights).T
    norm = LogNorm(float(sizes.min()), float(sizes.max()) * (1 + 1e-9))
    mesh = ax.tripcolor(
        x, y, sizes, shading="gouraud", cmap="viridis_r", norm=norm, rasterized=True
    )
    level = float(sizes.min()) * 1.05 if level is None else level
    handles = [_mark_winner(ax, best := _winner(weights, sizes, best))]
    nearest = sizes[np.abs(weights - best).sum(axis=1).argmin()]
    size = float(nearest if best_size is None else best_size)
    texts = [f"({', '.join(f'{w:.2f}' for w in best)}): {size:.2f}"]
    if level < float(sizes.max()):
        ax.tricontour(x, y, sizes, levels=[level], colors=INK, linewidths=0.8)
        handles.append(ax.plot([], [], color=INK, linewidth=0.8)[0])
        texts.append(f"{within} (up to {level:.2f})")
    _name_corners(ax, weights, sizes, names)
    _size_bar(ax, mesh, sizes)
    ax.set(xlim=(-0.16, 1.16), ylim=(-0.17, 1.02), aspect="equal")
    ax.set_title(title, pad=2, fontsize=TITLE, color=INK)
    ax.axis("off")
    explain_with(
        ax, handles, texts, loc="upper center", bbox_to_anchor=(0.5, 0.07), fontsize=NORMAL,
        handletextpad=0.5,
    )  # fmt: skip
    return ax


def _winner(weights: FloatArray, sizes: FloatArray, best: FloatArray | None) -> FloatArray:
    return weights[np.argmin(sizes)] if best is None else np.asarray(best)


def _size_bar(ax: Any, mesh: Any, sizes: FloatArray) -> None:
    bar = ax.figure.colorbar(mesh, ax=ax, shrink=0.78, pad=0.02)
    bar.set_label("mean set size", fontsize=NORMAL, color=INK)
    ticks = _log_ticks(float(sizes.min()), float(sizes.max()))
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.ax.minorticks_off()
    bar.ax.tick_params(labelsize=NORMAL, width=0.7, length=3)
    bar.outline.set_linewidth(0.6)


def _name_corners(ax: Any, weights: FloatArray, sizes: FloatArray, names: Sequence[str]) -> None:
    edge = np.vstack([CORNERS, CORNERS[:1]])
    ax.plot(*edge.T, color=INK, linewidth=1.0, solid_joinstyle="round")
    places = [(-0.03, -0.03, "center", "top"), (1.03, -0.03, "center", "top")]
    places.append((0.5, 3**0.5 / 2 + 0.03, "center", "bottom"))
    for j, (px, py, ha, va) in enumerate(places):
        corner = sizes[np.argmax(weights[:, j])]
        text = f"{plain(names[j], 24)}\n{corner:.2f}"
        ax.text(px, py, text, ha=ha, va=va, color=INK, weight="bold", fontsize=TITLE)


def _mark_winner(ax: Any, winner: FloatArray) -> Any:
    px, py = triangle_points(winner[None])[0]
    star = {"marker": "*", "markersize": 14, "color": PALETTE[0], "markeredgecolor": INK}
    return ax.plot(px, py, zorder=5, linestyle="", markeredgewidth=0.9, **star)[0]


def _log_ticks(low: float, high: float) -> list[float]:
    """Return four to nine round numbers between the ends of a logarithmic scale."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(np.arange(2, 20) / 2)):
        ticks = sorted({float(f"{s * t:.3g}") for t in decades for s in steps})
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 4:
            return inside[:: -(-len(inside) // 9)]
    return [float(f"{tick:.3g}") for tick in np.linspace(low, high, 5)]
