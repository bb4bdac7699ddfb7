"""Coverage: how often the true label is in the set."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.labels import label_indices
from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray, IntArray, host_array


def as_mask(sets: Any) -> BoolArray:
    """Return sets as a checked boolean array of shape (n, K)."""
    mask = host_array(sets, "sets")
    if mask.ndim != 2 or mask.dtype != bool or 0 in mask.shape:
        raise InvalidInput(
            "sets must be a non-empty boolean (n, K) array; got "
            f"{mask.dtype} of shape {mask.shape}."
        )
    return mask


def as_labels(sets: Any, y: Any) -> IntArray:
    """Return true labels as checked indices, shape (n,); names where the sets have them."""
    return label_indices(y, getattr(sets, "classes", None), *as_mask(sets).shape)


def covered(sets: Any, y: Any) -> BoolArray:
    """Return for every row whether its true label is in its set, shape (n,).

    Where the sets have class names, `y` may hold names.

    Examples
    --------
    >>> covered(np.array([[True, False], [True, False]]), [0, 1])
    array([ True, False])
    """
    mask, labels = as_mask(sets), as_labels(sets, y)
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
    hits = covered(sets, y)
    return share_interval(int(hits.sum()), len(hits), level=level)


def share_interval(hits: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a share, from `hits` among `n`.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(9, 10)]
    [0.555, 0.997]
    """
    from scipy.stats import beta  # noqa: PLC0415  scipy loads late

    tail = (1 - float(simple_fraction(level, "level"))) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high
