"""One row explained: labels by combined score, the threshold, what every score contributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.fit.explanation import Explanation, explain_numbers
from conformix.kernels.arrays import FloatArray
from conformix.plots.style import (
    HATCHES,
    INK,
    PALE,
    PALETTE,
    axes_for,
    explain_with,
    few_ticks,
    plain,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def explain(
    cp: Any,
    outputs: Any,
    i: int = 0,
    *,
    y: Any = None,
    classes: Sequence[Any] | None = None,
    top: int = 12,
    alpha: float | None = None,
    title: str | None = None,
    ax: Axes | None = None,
    **rows: Any,
) -> Axes:
    """Draw why the labels of row i are in its set or not, and return the axes.

    Parameters
    ----------
    cp, outputs, i, y, classes, top, alpha, **rows
        As in `explain_numbers`.
    title : str, optional
        Title of the axes; by default the row and the size of its set.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> P = np.array([[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    >>> cp = cx.ScoreAverage(("thr", "rank"), alpha=0.4, weights=[0.5, 0.5]).fit(P, [0, 1, 2, 0])
    >>> explain(cp, P, 1, classes=["cat", "dog", "eel"]).get_title()
    'row 1: 1 of 3 labels at alpha = 0.4'
    """
    numbers = explain_numbers(cp, outputs, i, y=y, classes=classes, top=top, alpha=alpha, **rows)
    return plot_explain(numbers, title=title, ax=ax)


def plot_explain(
    numbers: Explanation,
    *,
    relative: bool | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the explanation of a row from its numbers and return the axes.

    Parameters
    ----------
    numbers : Explanation
        What `explain_numbers` returns.
    relative : bool, optional
        Draw what every score says for or against a label, counted from the threshold, instead of
        what it contributes, counted from zero. By default where the combined scores lie so close
        together that bars from zero would all look alike.
    title : str, optional
        Title of the axes; by default the row and the size of its set.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> cp = cx.ScoreAverage(weights=[1, 0, 0], alpha=0.5).fit([[0.5, 0.5]], [0])
    >>> plot_explain(explain_numbers(cp, [[0.75, 0.25]], 0), title="a row").get_title()
    'a row'
    """
    m = len(numbers.labels)
    ax = axes_for(ax, 5.8, 1.2 + 0.22 * m)
    size = f"{numbers.set_size:,} of {numbers.n_classes:,} labels"
    heading = f"row {numbers.row}: {size} at alpha = {numbers.alpha:g}" if title is None else title
    finite = bool(np.isfinite(numbers.thresholds).all())
    relative = finite and (_close(numbers) if relative is None else relative)
    terms = numbers.votes if relative else numbers.contributions
    total = numbers.combined - numbers.thresholds if relative else numbers.combined
    what = "combined score minus threshold" if relative else "combined score"
    tidy(ax, title=heading, xlabel=what)
    handles, names = _stack(ax, numbers, terms, total)
    line = _thresholds(ax, np.zeros(m) if relative else numbers.thresholds)
    if line is not None:
        handles.append(line)
        names.append("threshold")
    _name_labels(ax, numbers)
    few_ticks(ax.xaxis, 5)
    ax.grid(visible=False, axis="y")
    explain_with(ax, handles, names, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.4)
    return ax


def _close(numbers: Explanation) -> bool:
    """Say whether bars from zero would all look alike."""
    every = np.append(numbers.combined, numbers.thresholds)
    return bool(np.ptp(every) < 0.4 * np.abs(every).max())


def _stack(
    ax: Any, numbers: Explanation, terms: FloatArray, total: FloatArray
) -> tuple[list[Any], list[str]]:
    """Draw positive terms to the right of zero and negative ones to the left."""
    places = np.arange(len(numbers.labels))
    right, left = np.zeros(len(places)), np.zeros(len(places))
    handles, names = [], []
    for j, name in enumerate(numbers.score_names):
        term = terms[:, j]
        if not term.any():
            continue  # a weight of zero explains nothing
        bars = ax.barh(
            places, term, left=np.where(term >= 0, right, left), height=0.66,
            color=PALETTE[(j + 1) % len(PALETTE)], edgecolor="white", linewidth=0.4,
            hatch=HATCHES[j % len(HATCHES)],
        )  # fmt: skip
        for bar, inside in zip(bars, numbers.included, strict=True):
            bar.set_alpha(1.0 if inside else 0.45)
        right, left = right + np.maximum(term, 0), left + np.minimum(term, 0)
        handles.append(bars[0])
        names.append(name)
    (dot,) = ax.plot(
        total, places, "D", color=INK, markeredgecolor="white", markeredgewidth=0.5,
        markersize=4.2, linestyle="", zorder=5,
    )  # fmt: skip
    return [*handles, dot], [*names, "combined"]


def _thresholds(ax: Any, thresholds: FloatArray) -> Any:
    finite = np.isfinite(thresholds)
    if not finite.any():
        return None  # every label is in, whatever its score
    look = {"color": INK, "linewidth": 1.3, "zorder": 4}
    if np.ptp(thresholds[finite]) == 0:
        return ax.axvline(thresholds[finite][0], linestyle=(0, (4, 2)), **look)
    places = np.flatnonzero(finite)
    return ax.vlines(thresholds[finite], places - 0.45, places + 0.45, **look)


def _name_labels(ax: Any, numbers: Explanation) -> None:
    places = np.arange(len(numbers.labels))
    true = numbers.labels == (-1 if numbers.true_label is None else numbers.true_label)
    named = zip(numbers.names, true, strict=True)
    texts = [plain(name, 28) + (" (true)" if truth else "") for name, truth in named]
    ax.set_yticks(places, texts)
    for text, truth, inside in zip(ax.get_yticklabels(), true, numbers.included, strict=True):
        text.set(weight="bold" if truth else "normal", color=INK if inside else PALE)
    ax.set_ylim(len(places) - 0.4, -0.6)
    if numbers.places[-1] > len(places) - 1:  # the truth comes far below the others
        ax.axhline(len(places) - 1.5, color=PALE, linewidth=0.7, linestyle=(0, (1, 2)))
