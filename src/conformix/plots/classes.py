"""Coverage class by class: names for a few classes, a band for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.labels import class_names
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.metrics import class_coverages, coverage, share_interval
from conformix.plots.sizes import promise_line
from conformix.plots.style import (
    INK,
    PALETTE,
    SMALL,
    axes_for,
    explain_above,
    few_ticks,
    plain,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class ClassCoverage:
    """Coverage of every class that has rows, sorted upwards (then by rows)."""

    labels: IntArray  # (c,), class indices, worst covered first
    names: tuple[str, ...]
    rows: IntArray  # (c,), rows per class
    coverage: FloatArray  # (c,)
    low: FloatArray  # (c,), ends of the Clopper-Pearson interval
    high: FloatArray
    overall: float  # coverage over all rows
    promise: float | None  # ``1 - alpha``; a marginal promise, which single classes need not keep
    level: float  # confidence of the intervals
    n_absent: int  # classes without rows


def class_coverage_numbers(
    sets: Any,
    y: Any,
    *,
    alpha: float | None = None,
    classes: Sequence[Any] | None = None,
    level: float = 0.95,
) -> ClassCoverage:
    """Return the coverage of every class with its Clopper-Pearson interval, worst first.

    Parameters
    ----------
    sets, y
        Sets and true labels.
    alpha : float, optional
        The miscoverage that was asked for.
    classes : sequence of length K, optional
        Names of the classes; by default those of the sets, or their numbers.
    level : float
        Confidence of each interval.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> numbers = class_coverage_numbers(sets, [0, 1, 1], classes=["cat", "dog"])
    >>> numbers.names, numbers.coverage.tolist()
    (('dog', 'cat'), [0.5, 1.0])
    """
    rows, shares = class_coverages(sets, y)
    names = class_names(len(rows), getattr(sets, "classes", None) if classes is None else classes)
    there = np.flatnonzero(rows)
    # Equal coverage: the classes with fewer rows, and wider intervals, first.
    order = there[np.lexsort((there, rows[there], shares[there]))]
    hits = np.rint(shares[order] * rows[order]).astype(np.int64)
    pairs = list(zip(hits.tolist(), rows[order].tolist(), strict=True))
    known = {pair: share_interval(*pair, level=level) for pair in set(pairs)}
    ends = np.array([known[pair] for pair in pairs])
    return ClassCoverage(
        order, tuple(names[label] for label in order), rows[order], shares[order],
        ends[:, 0], ends[:, 1], coverage(sets, y),
        None if alpha is None else 1 - float(simple_fraction(alpha)), level,
        len(rows) - len(there),
    )  # fmt: skip


# Up to so many classes every one is named.
NAMED = 40


def class_coverage(
    sets: Any,
    y: Any,
    *,
    alpha: float | None = None,
    classes: Sequence[Any] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draw the coverage of every class, worst first, and return the axes.

    Parameters
    ----------
    sets, y, alpha, classes
        As in `class_coverage_numbers`.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> ax = class_coverage(sets, [0, 1, 1], classes=["cat", "dog"], alpha=0.1)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['dog', 'cat']
    """
    numbers = class_coverage_numbers(sets, y, alpha=alpha, classes=classes)
    return plot_class_coverage(numbers, title=title, ax=ax)


def plot_class_coverage(numbers: ClassCoverage, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the coverage of every class from its numbers and return the axes.

    Up to forty classes are named, one line each; more are a band over their order, with the worst
    ones named.

    Parameters
    ----------
    numbers : ClassCoverage
        What `class_coverage_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> sets = np.ones((100, 50), dtype=bool)
    >>> ax = plot_class_coverage(class_coverage_numbers(sets, np.arange(100) % 50, alpha=0.1))
    >>> ax.get_xlabel()
    '50 classes, worst covered first'
    """
    few = len(numbers.labels) <= NAMED
    ax = axes_for(ax, 3.6, max(2.2, 0.9 + 0.16 * len(numbers.labels))) if few else axes_for(ax, 5)
    handles, names = (_named if few else _band)(ax, numbers)
    tidy(ax, title=title, xlabel=ax.get_xlabel(), ylabel=ax.get_ylabel())
    ax.grid(visible=False, axis="y" if few else "x")
    if numbers.promise is not None:
        handles.append(promise_line(ax, numbers.promise, vertical=few))
        names.append(f"asked for on average: {numbers.promise:g}")
    explain_above(ax, handles, names, columns=1 if few else 3)
    return ax


def _named(ax: Any, numbers: ClassCoverage) -> tuple[list[Any], list[str]]:
    places = np.arange(len(numbers.labels))
    ends = [numbers.coverage - numbers.low, numbers.high - numbers.coverage]
    points = ax.errorbar(
        numbers.coverage, places, xerr=ends, fmt="o", color=PALETTE[1], markersize=3.6,
        ecolor=INK, elinewidth=0.8, capsize=2,
    )  # fmt: skip
    ax.set_yticks(places, [plain(name) for name in numbers.names])
    ax.set_ylim(len(places) - 0.4, -0.6)
    ax.set_xlabel("coverage")
    few_ticks(ax.xaxis)
    return [points], [_interval(numbers)]


def _band(ax: Any, numbers: ClassCoverage) -> tuple[list[Any], list[str]]:
    places = np.arange(1, len(numbers.labels) + 1)
    band = ax.fill_between(
        places, numbers.low, numbers.high, color="#c9c9c9", linewidth=0, step="mid", zorder=1.5
    )
    many = len(places) > 200
    (line,) = ax.plot(
        places, numbers.coverage, color=PALETTE[1], linewidth=1.4 if many else 0.8,
        marker="" if many else "o", markersize=2.6, drawstyle="steps-mid" if many else "default",
        zorder=3,
    )  # fmt: skip
    worst = zip(numbers.names[:5], numbers.coverage[:5], strict=True)
    lines = "\n".join(f"{plain(name, 26)}  {share:.2f}" for name, share in worst)
    ax.text(
        0.985, 0.03, "worst:\n" + lines, transform=ax.transAxes, ha="right", va="bottom",
        fontsize=SMALL, color=INK, linespacing=1.25, zorder=5,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2},
    )  # fmt: skip
    ax.set(xlim=(0, len(places) + 1), ylabel="coverage")
    ax.set_xlabel(f"{len(places):,} classes, worst covered first")
    return [line, band], ["coverage", _interval(numbers)]


def _interval(numbers: ClassCoverage) -> str:
    return f"{100 * numbers.level:g} % interval of each"
