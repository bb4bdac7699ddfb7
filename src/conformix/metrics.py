"""How good are the sets? Every metric is ``metric(sets, y, **options) -> float``, in plain words.

`METRICS` lists those that need no option but perhaps ``alpha``; `evaluate` reports them together.
Acronyms of the literature are in the docstrings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.arrays import BoolArray, FloatArray, IntArray, RandomState, as_generator
from conformix.conformal import kth_largest, simple_fraction
from conformix.errors import InvalidInput
from conformix.inputs import check_labels

if TYPE_CHECKING:
    import pandas as pd

Metric = Callable[..., float]


def _mask(sets: Any) -> BoolArray:
    mask = np.asarray(sets)
    if mask.ndim != 2 or mask.dtype != bool or 0 in mask.shape:
        raise InvalidInput(
            "sets must be a non-empty boolean (n, K) array; got "
            f"{mask.dtype} of shape {mask.shape}."
        )
    return mask


def covered(sets: Any, y: Any) -> BoolArray:
    """Return for every row whether its true label is in its set, shape (n,).

    Examples
    --------
    >>> covered(np.array([[True, False], [True, False]]), [0, 1])
    array([ True, False])
    """
    mask = _mask(sets)
    labels = check_labels(y, *mask.shape)
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

    tail = (1 - level) / 2
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return low, high


def mean_size(sets: Any, y: Any = None) -> float:
    """Return the mean number of labels per set.

    Examples
    --------
    >>> mean_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return float(_mask(sets).sum(axis=1).mean())


def median_size(sets: Any, y: Any = None) -> float:
    """Return the median number of labels per set.

    Examples
    --------
    >>> median_size(np.array([[True, False], [True, True], [True, True]]))
    2.0
    """
    return float(np.median(_mask(sets).sum(axis=1)))


def size_quantile(sets: Any, y: Any = None, *, q: float = 0.9) -> float:
    """Return the smallest size that a share `q` of the sets does not exceed.

    Examples
    --------
    >>> size_quantile(np.array([[True, False], [True, True]]), q=0.5)
    1.0
    """
    share = simple_fraction(q)
    sizes = np.sort(_mask(sets).sum(axis=1))
    place = -(-len(sizes) * share.numerator // share.denominator)
    return float(sizes[max(place, 1) - 1])


def singleton_rate(sets: Any, y: Any = None) -> float:
    """Return the share of sets with exactly one label.

    Examples
    --------
    >>> singleton_rate(np.array([[True, False], [True, True]]))
    0.5
    """
    return float((_mask(sets).sum(axis=1) == 1).mean())


def singleton_accuracy(sets: Any, y: Any) -> float:
    """Return how often the label of a one-label set is the truth; NaN without such sets.

    Examples
    --------
    >>> singleton_accuracy(np.array([[True, False], [True, True]]), [0, 1])
    1.0
    """
    single = _mask(sets).sum(axis=1) == 1
    return float(covered(sets, y)[single].mean()) if single.any() else float("nan")


def empty_rate(sets: Any, y: Any = None) -> float:
    """Return the share of empty sets.

    Examples
    --------
    >>> empty_rate(np.array([[False, False], [True, True]]))
    0.5
    """
    return float((_mask(sets).sum(axis=1) == 0).mean())


def class_coverages(sets: Any, y: Any) -> tuple[IntArray, FloatArray]:
    """Return the rows per class and the coverage per class (NaN without rows), shapes (K,).

    Examples
    --------
    >>> class_coverages(np.array([[True, False], [True, False]]), [0, 1])
    (array([1, 1]), array([1., 0.]))
    """
    hits, n_classes = covered(sets, y), _mask(sets).shape[1]
    labels = np.asarray(y)
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
        The promised miscoverage.
    edges : tuple of int
        Upper ends of the strata: sizes 0..1, 2..3, 4..10, 11..100, 101 and more.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, True]])
    >>> round(size_stratified_violation(sets, [1, 1], alpha=0.1), 3)
    0.9
    """
    hits = covered(sets, y)
    stratum = np.searchsorted(np.asarray(edges), _mask(sets).sum(axis=1), side="left")
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
    from conformix.kernels.slabs import worst_window  # noqa: PLC0415  numba loads late

    hits = covered(sets, y)
    points = np.asarray(features, dtype=np.float64)
    if points.ndim != 2 or len(points) != len(hits):
        raise InvalidInput(
            f"features must have shape ({len(hits)}, p), one row per set; got {points.shape}."
        )
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


def size_at_coverage(scores: Any, y: Any, *, coverage: float) -> float:
    """Return the mean set size when the threshold makes the coverage on these rows just `coverage`.

    Sizes at different realised coverage do not compare; this puts methods on one coverage. The
    threshold reads the test labels: a measure, not a method.

    Parameters
    ----------
    scores : array of shape (n, K)
        Combined scores.
    y : integer array of shape (n,)
        True labels.
    coverage : float
        The coverage to match, strictly between 0 and 1.

    Examples
    --------
    >>> size_at_coverage(np.array([[0.9, 0.1], [0.6, 0.4]]), [0, 1], coverage=0.9)
    1.5
    """
    values = np.asarray(scores, dtype=np.float64)
    labels = check_labels(y, *values.shape)
    share = simple_fraction(coverage)
    rank = -(-len(labels) * share.numerator // share.denominator)
    threshold = kth_largest(values[np.arange(len(labels)), labels], max(rank, 1))
    return float((values >= threshold).sum(axis=1).mean())


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

    mask, labels = _mask(sets), np.asarray(y)
    rows, shares = class_coverages(sets, y)
    hits = np.bincount(labels, weights=covered(sets, y), minlength=len(rows)).astype(int)
    ends = [share_interval(int(h), int(n), level=level) for h, n in zip(hits, rows, strict=True)]
    sizes = np.bincount(labels, weights=mask.sum(axis=1), minlength=len(rows))
    index = pd.Index(range(len(rows)) if classes is None else classes, name="class")
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
        The promised miscoverage; without it the measures that need it are left out.

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
