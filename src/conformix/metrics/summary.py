"""All measures together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # noqa: F401  for the examples

from conformix.metrics.conditional import class_coverage_gap, size_stratified_violation
from conformix.metrics.coverage import coverage, coverage_interval
from conformix.metrics.size import (
    empty_rate,
    mean_size,
    median_size,
    singleton_accuracy,
    singleton_rate,
    size_quantile,
)

Metric = Callable[..., float]

METRICS: dict[str, Metric] = {
    "coverage": coverage,
    "mean_size": mean_size,
    "median_size": median_size,
    "size_quantile": size_quantile,
    "singleton_rate": singleton_rate,
    "singleton_accuracy": singleton_accuracy,
    "empty_rate": empty_rate,
    "class_coverage_gap": class_coverage_gap,
    "size_stratified_violation": size_stratified_violation,
}
_NEED_ALPHA = ("class_coverage_gap", "size_stratified_violation")


def evaluate(sets: Any, y: Any, *, alpha: float | None = None) -> dict[str, float]:
    """Return the usual measures of a batch of sets, by name.

    Parameters
    ----------
    sets : PredictionSets or boolean array of shape (n, K)
        The sets.
    y : integer array of shape (n,)
        True labels.
    alpha : float, optional
        The miscoverage that was asked for; without it the measures that need it are left out.

    Examples
    --------
    >>> evaluate(np.array([[True, False], [True, True]]), [0, 1])["mean_size"]
    1.5
    """
    low, high = coverage_interval(sets, y)
    found = {"coverage": coverage(sets, y), "coverage_low": low, "coverage_high": high}
    for name, metric in METRICS.items():
        if name in _NEED_ALPHA:
            if alpha is not None:
                found[name] = metric(sets, y, alpha=alpha)
        else:
            found[name] = metric(sets, y)
    return found
