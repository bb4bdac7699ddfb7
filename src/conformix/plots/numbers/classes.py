"""Coverage class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.metrics import class_coverages, coverage, share_interval


@dataclass(frozen=True, eq=False)
class ClassCoverage:
    """Coverage of every class that has rows, sorted upwards (then by rows).

    Parameters
    ----------
    labels : integer array of shape (c,)
        Class indices, worst covered first.
    names : tuple of str
        Their names.
    rows : integer array of shape (c,)
        Rows per class.
    coverage, low, high : float64 arrays of shape (c,)
        Coverage with its Clopper-Pearson interval.
    overall : float
        Coverage over all rows.
    promise : float or None
        ``1 - alpha``; a marginal promise, which single classes need not keep.
    level : float
        Confidence of the intervals.
    n_absent : int
        Classes without rows.
    """

    labels: IntArray
    names: tuple[str, ...]
    rows: IntArray
    coverage: FloatArray
    low: FloatArray
    high: FloatArray
    overall: float
    promise: float | None
    level: float
    n_absent: int


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
        The promised miscoverage.
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


def class_names(n_classes: int, classes: Sequence[Any] | None) -> list[str]:
    """Return the names of all classes: those given, or their numbers.

    Examples
    --------
    >>> class_names(2, None)
    ['0', '1']
    """
    if classes is None:
        return [str(label) for label in range(n_classes)]
    if len(classes) != n_classes:
        raise InvalidInput(f"classes must name all {n_classes} classes; got {len(classes)}.")
    return [str(name) for name in classes]
