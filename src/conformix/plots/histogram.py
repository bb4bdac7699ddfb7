"""Histogram of set sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.plots.numbers.sizes import SetSizes, set_sizes_numbers
from conformix.plots.style import INK, PALETTE, axes_for, explain_above, few_ticks, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    told = f"mean {numbers.mean:.2f}, median {numbers.median:g}"
    names = [f"sets ({told})"]
    if numbers.hits is not None:
        missed = (numbers.rows - numbers.hits) * share
        handles.append(
            ax.bar(places, missed, bottom=hits * share, color="white", hatch="/////", **look)
        )
        names = [f"hold the true label ({told})", "miss it"]
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
