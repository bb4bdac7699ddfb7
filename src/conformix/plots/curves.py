"""Size against coverage: one line per method, one point per level."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix import metrics
from conformix.conformal import rows_needed, simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.plots.fit_rows import refuse_responses
from conformix.plots.style import (
    MARKERS,
    PALETTE,
    axes_for,
    explain_with,
    few_ticks,
    plain_log_axis,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LEVELS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2)


@dataclass(frozen=True, eq=False)
class SizeCoverage:
    """Mean size and coverage of one or several models at several levels."""

    names: tuple[str, ...]
    alphas: FloatArray  # (A,), the levels, rising
    coverages: FloatArray  # (M, A), on the test rows
    sizes: FloatArray  # (M, A), means

    @property
    def curves(self) -> dict[str, tuple[FloatArray, FloatArray]]:
        """``{name: (coverages, sizes)}``, what `plot_size_coverage` draws."""
        both = zip(self.names, self.coverages, self.sizes, strict=True)
        return {name: (coverages, sizes) for name, coverages, sizes in both}


def size_coverage_numbers(
    cp: Any, outputs: Any, y: Any, *, alphas: Sequence[float] | None = None, **rows: Any
) -> SizeCoverage:
    """Return mean size and coverage on test rows over the levels, weights kept.

    Parameters
    ----------
    cp : ScoreAverage or mapping of str to ScoreAverage
        One fitted model or several to compare. Under split ``"exact"`` the weights are selected
        again at every level.
    outputs, y
        Labelled test rows.
    alphas : sequence of float, optional
        The levels; by default 0.01 to 0.2, those that the calibration rows allow.
    **rows
        ``strata`` or ``sample_weight``, as in ``predict_set``, where the calibration needs them.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:2000], data.labels[:2000]
    >>> cp = cx.ScoreAverage(weights=[1, 0, 0], kind="logits").fit(logits[:1000], y[:1000])
    >>> numbers = size_coverage_numbers(cp, logits[1000:], y[1000:], alphas=[0.05, 0.1])
    >>> numbers.sizes.shape, bool(numbers.sizes[0, 0] > numbers.sizes[0, 1])
    ((1, 2), True)
    """
    models = cp if isinstance(cp, Mapping) else {"ScoreAverage": cp}
    if not models:
        raise InvalidInput("size_coverage needs at least one fitted model; got none.")
    if alphas is None:
        n = min(model.guarantee_.facts.n_cal for model in models.values())
        alphas = [alpha for alpha in LEVELS if rows_needed(alpha) <= n]
    levels = sorted({float(simple_fraction(alpha)) for alpha in alphas})
    points = np.array([_points(model, outputs, y, levels, rows) for model in models.values()])
    return SizeCoverage(tuple(map(str, models)), np.array(levels), points[..., 0], points[..., 1])


def _points(
    cp: Any, outputs: Any, y: Any, levels: list[float], rows: dict[str, Any]
) -> list[tuple[float, float]]:
    refuse_responses(cp)
    nested = cp.predictor_.fitted.nested
    every = cp.predict_set(outputs, alpha=levels, **rows) if nested else None
    points = []
    for alpha in levels:
        sets = (
            every.at(alpha) if every is not None else cp.predict_set(outputs, alpha=alpha, **rows)
        )
        points.append((metrics.coverage(sets, y), metrics.mean_size(sets)))
    return points


# Beyond this ratio of the largest to the smallest size a linear axis hides the small ones.
LOG_BEYOND = 4.0


def size_coverage(
    cp: Any,
    outputs: Any,
    y: Any,
    *,
    alphas: Sequence[float] | None = None,
    title: str = "",
    ax: Axes | None = None,
    **rows: Any,
) -> Axes:
    """Draw mean size against coverage over the levels for fitted models; return the axes.

    Parameters
    ----------
    cp, outputs, y, alphas, **rows
        As in `size_coverage_numbers`: one fitted model, or a mapping of several, and test rows.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:2000], data.labels[:2000]
    >>> cp = cx.ScoreAverage(weights=[1, 0, 0], kind="logits").fit(logits[:1000], y[:1000])
    >>> ax = size_coverage({"thr": cp}, logits[1000:], y[1000:], alphas=[0.05, 0.1])
    >>> len(ax.lines)
    1
    """
    numbers = size_coverage_numbers(cp, outputs, y, alphas=alphas, **rows)
    several = len(numbers.names) > 1
    return plot_size_coverage(numbers.curves, title=title, legend=several, ax=ax)


def plot_size_coverage(
    curves: Mapping[str, tuple[Any, Any]],
    *,
    title: str = "",
    dashed: Collection[str] = (),
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw mean size against mean coverage and return the axes.

    Parameters
    ----------
    curves : mapping of str to (coverages, sizes)
        One point per level; the first method is ours and drawn on top.
    title : str
        Title of the axes.
    dashed : collection of str
        Methods to draw dashed, such as those that are tuned.
    legend : bool
        Whether to explain the lines here.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> ax = plot_size_coverage({"VFCP": ([0.95, 0.99], [4.0, 14.0]), "THR": ([0.95], [4.5])})
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('coverage', 'mean set size')
    """
    ax = axes_for(ax)
    lines = []
    tidy(ax, title=title, xlabel="coverage", ylabel="mean set size")
    for place, (name, (coverages, sizes)) in enumerate(curves.items()):
        order = np.argsort(coverages)
        ours = place == 0
        lines += ax.plot(
            np.asarray(coverages)[order],
            np.asarray(sizes)[order],
            label=name,
            color=PALETTE[place % len(PALETTE)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4.2 if ours else 3.4,
            markeredgewidth=0.0,
            linewidth=1.8 if ours else 1.0,
            linestyle=(0, (3, 2)) if name in dashed else "-",
            zorder=4 if ours else 3,
        )
    every = np.concatenate([np.atleast_1d(sizes) for _, sizes in curves.values()])
    if every.min() > 0 and every.max() / every.min() > LOG_BEYOND:
        plain_log_axis(ax)
    few_ticks(ax.xaxis)
    if legend:
        explain_with(ax, lines, list(curves), handlelength=2.2, labelspacing=0.3)
    return ax
