"""How good are the sets? Every metric is ``metric(sets, y) -> float``, in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.arrays import BoolArray, IntArray
from conformix.errors import InvalidInput
from conformix.inputs import check_labels


def _checked(sets: Any, y: Any) -> tuple[BoolArray, IntArray]:
    mask = np.asarray(sets)
    if mask.ndim != 2 or mask.dtype != bool or 0 in mask.shape:
        raise InvalidInput(
            f"sets must be a non-empty boolean (n, K) array; got {mask.dtype} of shape {mask.shape}."
        )
    return mask, check_labels(y, *mask.shape)


def covered(sets: Any, y: Any) -> BoolArray:
    """Return for every row whether its true label is in its set, shape (n,).

    Examples
    --------
    >>> covered(np.array([[True, False], [True, False]]), [0, 1])
    array([ True, False])
    """
    mask, labels = _checked(sets, y)
    return mask[np.arange(len(labels)), labels]


def coverage(sets: Any, y: Any) -> float:
    """Return the share of rows whose true label is in the set.

    Examples
    --------
    >>> coverage(np.array([[True, False], [True, False]]), [0, 1])
    0.5
    """
    return float(covered(sets, y).mean())


def coverage_interval(sets: Any, y: Any, *, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of the coverage on these rows.

    It is exact for independent test rows given the fitted sets; for the transductive splits,
    whose weights have seen the test features, read it as an orientation only.

    Examples
    --------
    >>> sets = np.ones((10, 2), dtype=bool)
    >>> [round(float(end), 3) for end in coverage_interval(sets, np.zeros(10, dtype=int))]
    [0.692, 1.0]
    """
    from scipy.stats import beta  # noqa: PLC0415  scipy loads late

    hits = covered(sets, y)
    n, h = len(hits), int(hits.sum())
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, h, n - h + 1)) if h > 0 else 0.0
    high = float(beta.ppf(1 - tail, h + 1, n - h)) if h < n else 1.0
    return low, high


def mean_size(sets: Any, y: Any = None) -> float:
    """Return the mean number of labels per set.

    Examples
    --------
    >>> mean_size(np.array([[True, False], [True, True]]))
    1.5
    """
    mask = np.asarray(sets)
    return float(mask.sum(axis=1).mean())


def evaluate(sets: Any, y: Any) -> dict[str, float]:
    """Return the usual measures of a batch of sets, by name.

    Examples
    --------
    >>> evaluate(np.array([[True, False], [True, True]]), [0, 1])["mean_size"]
    1.5
    """
    low, high = coverage_interval(sets, y)
    return {
        "n": float(len(np.asarray(sets))),
        "coverage": coverage(sets, y),
        "coverage_low": low,
        "coverage_high": high,
        "mean_size": mean_size(sets),
    }
