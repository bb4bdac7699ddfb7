"""The weight triangle: set size over all weights of three scores.

Numbers first (`triangle_points`, `near_optimal`), ink second (`plot_triangle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.arrays import BoolArray, FloatArray
from conformix.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Corners of an upright triangle: first score left, second right, third on top.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
INK = "#1a1a1a"


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
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from conformix.search import simplex_grid
    >>> weights = simplex_grid(3, 10) / 10
    >>> ax = plot_triangle(weights, 1 + weights[:, 0], names=("thr", "aps", "rank"))
    >>> ax.get_legend_handles_labels()[1]
    ['(0.00, 0.00, 1.00): 1.00']
    """
    import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it is used
    from matplotlib.colors import LogNorm  # noqa: PLC0415

    if ax is None:
        ax = plt.figure(figsize=(5.6, 4.8), layout="constrained").add_subplot()
    x, y = triangle_points(weights).T
    norm = LogNorm(float(sizes.min()), float(sizes.max()) * (1 + 1e-9))
    mesh = ax.tripcolor(
        x, y, sizes, shading="gouraud", cmap="viridis_r", norm=norm, rasterized=True
    )
    _outline_near_optimal(ax, x, y, sizes)
    _name_corners(ax, weights, sizes, names)
    winner = weights[np.argmin(sizes)] if best is None else np.asarray(best)
    nearest = np.abs(weights - winner).sum(axis=1).argmin()
    _mark_winner(ax, winner, float(sizes[nearest]))
    bar = ax.figure.colorbar(mesh, ax=ax, shrink=0.78, pad=0.02, label="mean set size")
    ticks = _log_ticks(float(sizes.min()), float(sizes.max()))
    bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    bar.ax.minorticks_off()
    ax.set(xlim=(-0.16, 1.16), ylim=(-0.17, 1.02), aspect="equal")
    ax.set_title(title, pad=2)
    ax.axis("off")
    return ax


def _outline_near_optimal(ax: Any, x: FloatArray, y: FloatArray, sizes: FloatArray) -> None:
    level = float(sizes.min()) * 1.05
    if level < float(sizes.max()):
        ax.tricontour(x, y, sizes, levels=[level], colors="white", linewidths=1.2)


def _name_corners(ax: Any, weights: FloatArray, sizes: FloatArray, names: Sequence[str]) -> None:
    edge = np.vstack([CORNERS, CORNERS[:1]])
    ax.plot(*edge.T, color=INK, lw=1.0, solid_joinstyle="round")
    places = [(-0.02, -0.03, "right", "top"), (1.02, -0.03, "left", "top")]
    places.append((0.5, 3**0.5 / 2 + 0.03, "center", "bottom"))
    for j, (px, py, ha, va) in enumerate(places):
        corner = sizes[np.argmax(weights[:, j])]
        ax.text(px, py, f"{names[j]}\n{corner:.2f}", ha=ha, va=va, color=INK, weight="bold")


def _mark_winner(ax: Any, winner: FloatArray, size: float) -> None:
    px, py = triangle_points(winner[None])[0]
    star = {"marker": "*", "ms": 15, "color": "#d55e00", "mec": "white", "mew": 1.0, "ls": ""}
    ax.plot(
        px, py, zorder=5, label=f"({', '.join(f'{w:.2f}' for w in winner)}): {size:.2f}", **star
    )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.04), frameon=False, handletextpad=0.2)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return four to nine round numbers between the ends of a logarithmic scale."""
    decades = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), tuple(np.arange(2, 20) / 2)):
        ticks = sorted({float(f"{s * t:.3g}") for t in decades for s in steps})
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 4:
            return inside[:: -(-len(inside) // 9)]
    return [float(f"{tick:.3g}") for tick in np.linspace(low, high, 5)]
