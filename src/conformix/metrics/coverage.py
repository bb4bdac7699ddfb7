"""Coverage: how often the true label is in the set; by class, set size and region too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import check_matrix, check_numbers
from conformix.data.labels import label_indices
from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    RandomState,
    as_generator,
    host_array,
)

if TYPE_CHECKING:
    import pandas as pd


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

    Where the sets have class names, `y` may hold names. Of `Intervals` it is ``contains(y)``.

    Examples
    --------
    >>> covered(np.array([[True, False], [True, False]]), [0, 1])
    array([ True, False])
    """
    if are_intervals(sets):
        return covered_responses(sets, y)
    mask, labels = as_mask(sets), as_labels(sets, y)
    return mask[np.arange(len(labels)), labels]


def are_intervals(sets: Any) -> bool:
    """Whether these are intervals of responses, and no sets of labels."""
    return hasattr(sets, "contains") and hasattr(sets, "is_empty")


def covered_responses(intervals: Any, y: Any) -> BoolArray:
    """Return for every row whether its response lies in its interval, shape (n,)."""
    values = check_numbers(y, "y")
    if values.shape != (len(intervals),) or not len(values):
        raise InvalidInput(
            f"y must hold one number for each of {len(intervals)} intervals, and at least one; got "
            f"shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise InvalidInput("y must be finite; got NaN or inf.")
    return intervals.on_host().contains(values)  # type: ignore[no-any-return]


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


def class_coverages(sets: Any, y: Any) -> tuple[IntArray, FloatArray]:
    """Return the rows per class and the coverage per class (NaN without rows), shapes (K,).

    Examples
    --------
    >>> class_coverages(np.array([[True, False], [True, False]]), [0, 1])
    (array([1, 1]), array([1., 0.]))
    """
    hits, n_classes = covered(sets, y), as_mask(sets).shape[1]
    labels = as_labels(sets, y)
    rows = np.bincount(labels, minlength=n_classes)
    reached = np.bincount(labels, weights=hits, minlength=n_classes)
    return rows, np.divide(reached, rows, out=np.full(n_classes, np.nan), where=rows > 0)


def class_coverage_gap(sets: Any, y: Any, *, alpha: float) -> float:
    """Return the mean over classes of ``|coverage - (1 - alpha)|`` (CovGap), absent ones left out.

    Examples
    --------
    >>> round(class_coverage_gap(np.array([[True, False], [True, False]]), [0, 1], alpha=0.1), 3)
    0.5
    """
    rows, shares = class_coverages(sets, y)
    return float(np.abs(shares[rows > 0] - (1 - float(simple_fraction(alpha)))).mean())


def size_stratified_violation(
    sets: Any, y: Any, *, alpha: float, edges: tuple[int, ...] = (1, 3, 10, 100)
) -> float:
    """Return the largest ``|coverage - (1 - alpha)|`` over strata of set size (SSCV).

    Parameters
    ----------
    sets, y
        Sets and true labels.
    alpha : float
        The miscoverage that was asked for.
    edges : tuple of int
        Upper ends of the strata: sizes 0..1, 2..3, 4..10, 11..100, 101 and more.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True]])
    >>> round(size_stratified_violation(sets, [1, 1], alpha=0.1), 3)
    0.9
    """
    hits = covered(sets, y)
    stratum = np.searchsorted(np.asarray(edges), as_mask(sets).sum(axis=1), side="left")
    target = 1 - float(simple_fraction(alpha))
    return float(max(abs(hits[stratum == s].mean() - target) for s in np.unique(stratum)))


def worst_slab_coverage(
    sets: Any,
    y: Any,
    *,
    features: Any,
    share: float = 0.1,
    directions: int = 1000,
    random_state: RandomState = None,
) -> float:
    """Return the lowest coverage over slabs of the feature space (WSC, Cauchois et al., 2021).

    A slab holds the rows whose projection on a random direction lies in an interval, at least a
    share `share` of them. The worst slab is found on one half of the rows and measured on the
    other, so that it is no minimum over noise.

    Parameters
    ----------
    sets, y
        Sets and true labels.
    features : array of shape (n, p)
        What rows are described by.
    share : float
        Smallest share of the rows in a slab.
    directions : int
        Number of random directions.
    random_state : int, Generator or None
        Draws the halves and the directions.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> sets = np.column_stack([x[:, 0] < 0.8, np.ones(2000, dtype=bool)])
    >>> worst_slab_coverage(sets, np.zeros(2000, int), features=x, directions=2, random_state=0)
    0.0
    """
    from conformix.kernels.host.slabs import worst_window  # noqa: PLC0415  numba loads late

    hits = covered(sets, y)
    points = check_numbers(features, "features")
    if points.ndim != 2 or len(points) != len(hits):
        raise InvalidInput(
            f"features must have shape ({len(hits)}, p), one row per set; got {points.shape}."
        )
    points = check_matrix(points, "features")
    if not 0 < share <= 1:
        raise InvalidInput(f"share must lie in (0, 1]; got {share!r}.")
    if directions < 1:
        raise InvalidInput(f"directions must be a positive integer; got {directions!r}.")
    rng = as_generator(random_state)
    rows = rng.permutation(len(hits))
    half, other = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    least = max(1, int(np.ceil(share * len(half))))
    worst = (np.inf, np.zeros(points.shape[1]), -np.inf, np.inf)
    for direction in rng.normal(size=(directions, points.shape[1])):
        along = points[half] @ direction
        order = np.argsort(along, kind="stable")
        first, last, mean = worst_window(hits[half][order].astype(np.float64), least)
        if mean < worst[0]:
            worst = (mean, direction, along[order[first]], along[order[last]])
    along = points[other] @ worst[1]
    inside = (along >= worst[2]) & (along <= worst[3])
    return float(hits[other][inside].mean()) if inside.any() else float("nan")


def class_table(sets: Any, y: Any, *, classes: Any = None, level: float = 0.95) -> pd.DataFrame:
    """Return rows, coverage with interval and mean size per class, as a pandas frame.

    Examples
    --------
    >>> class_table(np.array([[True, False], [True, True]]), [0, 1])[["rows", "coverage"]]
           rows  coverage
    class
    0         1       1.0
    1         1       1.0
    """
    import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

    mask, labels = as_mask(sets), as_labels(sets, y)
    rows, shares = class_coverages(sets, y)
    hits = np.bincount(labels, weights=covered(sets, y), minlength=len(rows)).astype(int)
    ends = [share_interval(int(h), int(n), level=level) for h, n in zip(hits, rows, strict=True)]
    sizes = np.bincount(labels, weights=mask.sum(axis=1), minlength=len(rows))
    if classes is not None and len(classes) != len(rows):
        raise InvalidInput(f"classes must name all {len(rows)} classes; got {len(classes)}.")
    names = getattr(sets, "classes", None) if classes is None else classes
    index = pd.Index(range(len(rows)) if names is None else names, name="class")
    return pd.DataFrame(
        {
            "rows": rows,
            "coverage": shares,
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "mean_size": sizes / np.maximum(rows, 1),
        },
        index=index,
    )
