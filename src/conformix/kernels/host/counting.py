"""Compiled counting row by row, for goals under which a row has to be seen whole.

Sets that are never empty, costs of a size, one threshold per label; all of it stands on
`combine_row`.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import allocating, inlined, inner
from conformix.kernels.host.engine.kth_largest import kth_largest


@allocating
def count_nonempty(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` (m,) the sizes of sets that always hold the row's best labels.

    Of a block ``planes`` (d, rows, K). A row's size is the larger of the labels that reach the
    threshold and those that tie at the top, as if the row's maximum were lifted to infinity.
    """
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        t = thresholds[i]
        total = 0
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            top = _largest(combined)
            reached = 0
            tied = 0
            for e in range(n_classes):
                reached += combined[e] >= t
                tied += combined[e] == top
            total += max(reached, tied)
        counts[i] += total


@allocating
def row_tops(planes: FloatArray, weights: FloatArray, tops: FloatArray) -> None:
    """Write to ``tops[i, r]`` the largest combined score of row r under weights i."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            tops[i, r] = _largest(combined)


@inner
def combine_row(planes: FloatArray, weights: FloatArray, row: int, combined: FloatArray) -> None:
    """Write the combined scores of one row, in the arithmetic of `conformix.kernels.combine`."""
    n_classes = planes.shape[2]
    for e in range(n_classes):
        combined[e] = weights[0] * planes[0, row, e]
    for j in range(1, planes.shape[0]):
        for e in range(n_classes):
            combined[e] += weights[j] * planes[j, row, e]


@inlined
def _largest(values: FloatArray) -> float:
    largest = values[0]
    for e in range(1, len(values)):
        largest = max(largest, values[e])
    return largest


@allocating
def row_costs(
    planes: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    of_size: IntArray,
    of_label: IntArray,
    costs: IntArray,
) -> None:
    """Add to ``costs[i]``, for every row, ``of_size[|C|] + sum of of_label[y] over y in C``."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        t = thresholds[i]
        total = 0
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            size = 0
            for e in range(n_classes):
                inside = combined[e] >= t
                size += inside
                total += of_label[e] * inside
            total += of_size[size]
        costs[i] += total


@allocating
def row_sizes(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, sizes: IntArray
) -> None:
    """Write to ``sizes[i, r]`` the size of the set of row r under weights i."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            size = 0
            for e in range(n_classes):
                size += combined[e] >= thresholds[i]
            sizes[i, r] = size


@allocating
def stratum_thresholds(
    true_scores: FloatArray,
    ends: IntArray,
    ranks: IntArray,
    weights: FloatArray,
    thresholds: FloatArray,
) -> None:
    """Write to ``thresholds[i, s]`` the k-th largest combined score of stratum s under weights i.

    ``true_scores`` (n, d) are ordered by stratum, those of s from ``ends[s]`` to ``ends[s + 1]``; a
    rank larger than its rows gives ``-inf``.
    """
    n, d = true_scores.shape
    combined = np.empty(n)
    for i in range(weights.shape[0]):
        for r in range(n):
            total = weights[i, 0] * true_scores[r, 0]
            for j in range(1, d):
                total += weights[i, j] * true_scores[r, j]
            combined[r] = total
        for s in range(len(ranks)):
            rows = ends[s + 1] - ends[s]
            if ranks[s] > rows:
                thresholds[i, s] = -np.inf
            else:
                thresholds[i, s] = kth_largest(combined[ends[s] : ends[s + 1]], ranks[s])


@allocating
def count_by_label(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the labels that reach their own threshold ``thresholds[i, label]``."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        total = 0
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            for e in range(n_classes):
                total += combined[e] >= thresholds[i, e]
        counts[i] += total
