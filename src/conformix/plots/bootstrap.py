"""Weights with the spread that resampled rows give them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.plots.numbers.bootstrap import WeightSpread, weight_spread_numbers
from conformix.plots.style import INK, PALETTE, axes_for, explain_above, plain, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def weight_spread(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Draw the weights of a fit with their bootstrap spread and return the axes.

    Parameters
    ----------
    cp, outputs, y, **options
        As in `weight_spread_numbers`: a fitted model, what ``fit`` was given, ``repetitions=``,
        ``random_state=`` and so on.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:400], data.labels[:400]
    >>> cp = cx.ScoreAverage(alpha=0.05, kind="logits", random_state=0).fit(logits, y)
    >>> ax = weight_spread(cp, logits, y, repetitions=5)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['thr', 'aps', 'rank']
    """
    return plot_weight_spread(weight_spread_numbers(cp, outputs, y, **options), title=title, ax=ax)


def plot_weight_spread(numbers: WeightSpread, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw weights and their spread from the numbers and return the axes.

    Parameters
    ----------
    numbers : WeightSpread
        What `weight_spread_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> one = np.array([0.4, 0.6])
    >>> numbers = WeightSpread(("thr", "rank"), one, one[None], one[:1], one, one)
    >>> plot_weight_spread(numbers).get_xlabel()
    'weight'
    """
    d = len(numbers.names)
    long = max(len(plain(name)) for name in numbers.names) > 12
    ax = axes_for(ax, 5.2 if long else 4.2, max(1.9, 1.2 + (0.34 if d <= 8 else 0.22) * d))
    tidy(ax, title=title, xlabel="weight")
    places = np.arange(d)
    spans = ax.barh(
        places, numbers.high - numbers.low, left=numbers.low, height=0.5,
        color="#cfe3f2", edgecolor=PALETTE[1], linewidth=0.7, zorder=1.5,
    )  # fmt: skip
    # Equal weights lie side by side, not on top of each other.
    shift = np.linspace(-0.2, 0.2, len(numbers.draws))
    dots = [
        ax.plot(numbers.draws[:, j], j + shift, ".", color=PALETTE[1], markersize=2.6, zorder=2)[0]
        for j in places
    ]
    halo: dict[str, Any] = {"marker": "D", "linestyle": "", "color": "white"}
    ax.plot(numbers.found, places, markersize=10, zorder=3, **halo)
    (found,) = ax.plot(
        numbers.found, places, "D", color=PALETTE[0], markeredgecolor=INK, markeredgewidth=1.1,
        markersize=6.5, linestyle="", zorder=4,
    )  # fmt: skip
    ax.set_yticks(places, [plain(name) for name in numbers.names])
    ax.set_ylim(d - 0.45, -0.55)
    ax.grid(visible=False, axis="y")
    ax.set_xlim(-0.02, min(1.02, 0.05 + max(numbers.draws.max(), numbers.found.max())))
    told = ["found", f"{len(numbers.draws)} bootstrap samples", "central 90 %"]
    explain_above(ax, [found, dots[0], spans], told, columns=1 if long else 3)
    return ax
