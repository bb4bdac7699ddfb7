"""Size against coverage, level by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix import metrics
from conformix.conformal import rows_needed, simple_fraction
from conformix.errors import InvalidInput
from conformix.fit.rule import Fitted
from conformix.kernels.arrays import FloatArray

LEVELS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2)


@dataclass(frozen=True, eq=False)
class SizeCoverage:
    """Mean size and coverage of one or several models at several levels.

    Parameters
    ----------
    names : tuple of str
        Names of the M models.
    alphas : float64 array of shape (A,)
        The levels, rising.
    coverages, sizes : float64 arrays of shape (M, A)
        Coverage and mean set size on the test rows.
    """

    names: tuple[str, ...]
    alphas: FloatArray
    coverages: FloatArray
    sizes: FloatArray

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
    found = np.array([_points(model, outputs, y, levels, rows) for model in models.values()])
    return SizeCoverage(tuple(map(str, models)), np.array(levels), found[..., 0], found[..., 1])


def _points(
    cp: Any, outputs: Any, y: Any, levels: list[float], rows: dict[str, Any]
) -> list[tuple[float, float]]:
    nested = isinstance(cp.predictor_.fitted, Fitted)
    every = cp.predict_set(outputs, alpha=levels, **rows) if nested else None
    points = []
    for alpha in levels:
        sets = (
            every.at(alpha) if every is not None else cp.predict_set(outputs, alpha=alpha, **rows)
        )
        points.append((metrics.coverage(sets, y), metrics.mean_size(sets)))
    return points
