"""Size: how many labels the sets hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from conformix.conformal import kth_largest, simple_fraction
from conformix.data.checks import check_numbers
from conformix.data.outputs import check_labels
from conformix.errors import InvalidInput
from conformix.metrics.coverage import as_mask, covered


def mean_size(sets: Any, y: Any = None) -> float:
    """Return the mean number of labels per set.

    Examples
    --------
    >>> mean_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return float(as_mask(sets).sum(axis=1).mean())


def median_size(sets: Any, y: Any = None) -> float:
    """Return the median number of labels per set.

    Examples
    --------
    >>> median_size(np.array([[True, False], [True, True], [True, True]]))
    2.0
    """
    return float(np.median(as_mask(sets).sum(axis=1)))


def size_quantile(sets: Any, y: Any = None, *, q: float = 0.9) -> float:
    """Return the smallest size that a share `q` of the sets does not exceed.

    Examples
    --------
    >>> size_quantile(np.array([[True, False], [True, True]]), q=0.5)
    1.0
    """
    share = Fraction(1) if q == 1 else simple_fraction(q, "q")
    sizes = np.sort(as_mask(sets).sum(axis=1))
    place = -(-len(sizes) * share.numerator // share.denominator)
    return float(sizes[max(place, 1) - 1])


def singleton_rate(sets: Any, y: Any = None) -> float:
    """Return the share of sets with exactly one label.

    Examples
    --------
    >>> singleton_rate(np.array([[True, False], [True, True]]))
    0.5
    """
    return float((as_mask(sets).sum(axis=1) == 1).mean())


def singleton_accuracy(sets: Any, y: Any) -> float:
    """Return how often the label of a one-label set is the truth; NaN without such sets.

    Examples
    --------
    >>> singleton_accuracy(np.array([[True, False], [True, True]]), [0, 1])
    1.0
    """
    single = as_mask(sets).sum(axis=1) == 1
    return float(covered(sets, y)[single].mean()) if single.any() else float("nan")


def empty_rate(sets: Any, y: Any = None) -> float:
    """Return the share of empty sets.

    Examples
    --------
    >>> empty_rate(np.array([[False, False], [True, True]]))
    0.5
    """
    return float((as_mask(sets).sum(axis=1) == 0).mean())


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
    values = check_numbers(scores, "scores")
    if values.ndim != 2:
        raise InvalidInput(f"scores must have shape (n, K); got {values.shape}.")
    labels = check_labels(y, *values.shape)
    if not np.isfinite(values).all():
        raise InvalidInput("scores must be finite; got NaN or inf.")
    share = Fraction(1) if coverage == 1 else simple_fraction(coverage, "coverage")
    rank = -(-len(labels) * share.numerator // share.denominator)
    threshold = kth_largest(values[np.arange(len(labels)), labels], max(rank, 1))
    return float((values >= threshold).sum(axis=1).mean())
