"""Counts for all weights of a batch, weight by weight: the arithmetic of `kernels.host.engine`.

No tree and no bounds: every comparison is made. The numbers are the same to the last bit, because
bounds decide only what a comparison would decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import row_blocks
from conformix.kernels.simplex import first_best

# Numbers of a block of pairs, or of combined true scores: they stay in a core's cache.
ENTRIES = 2**14


def smallest_count(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    keys: FloatArray | IntArray,
    threads: int = 1,
) -> tuple[int, int]:
    """Return the index and the count of the weights with the smallest sets; `keys` break ties."""
    counts = candidate_counts(true_scores, size_parts, k, weights, threads)
    winner = first_best(counts, keys)
    return winner, int(counts[winner])


def candidate_counts(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> IntArray:
    """Return the number of (row, label) pairs in the sets of every weight vector, (M,)."""
    return counts_and_thresholds(true_scores, size_parts, k, weights, threads)[0]


def counts_and_thresholds(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> tuple[IntArray, FloatArray]:
    """Return the counts and the thresholds t(w), each of shape (M,); one thread does it all."""
    weights = np.asarray(weights, dtype=np.float64)
    thresholds = all_thresholds(np.ascontiguousarray(true_scores.T, dtype=np.float64), k, weights)
    counts = np.zeros(len(weights), dtype=np.int64)
    for part in size_parts:
        for rows in row_blocks(part.shape[0], part.shape[1], ENTRIES):
            planes = np.ascontiguousarray(np.moveaxis(part[rows], -1, 0), dtype=np.float64)
            count_reached(planes.reshape(len(planes), -1), weights, thresholds, counts)
    return counts, thresholds


def all_thresholds(planes: FloatArray, k: int, weights: FloatArray) -> FloatArray:
    """Return the k-th largest combined score of the rows ``planes`` (d, n) per weight, (M,)."""
    n = planes.shape[1]
    thresholds = np.empty(len(weights))
    for some in row_blocks(len(weights), n, ENTRIES):
        combined = weights[some, :1] * planes[0]
        for j in range(1, len(planes)):
            combined += weights[some, j : j + 1] * planes[j]
        combined.partition(n - k, axis=1)
        thresholds[some] = combined[:, n - k]
    return thresholds


def count_reached(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the columns of ``planes`` (d, P) that reach ``thresholds[i]``."""
    combined, product = np.empty((2, planes.shape[1]))
    reached = np.empty(planes.shape[1], dtype=bool)
    for i, (w, threshold) in enumerate(zip(weights.tolist(), thresholds.tolist(), strict=True)):
        combine_into(planes, w, combined, product)
        counts[i] += np.count_nonzero(np.greater_equal(combined, threshold, out=reached))


def combine_into(
    planes: FloatArray, weights: Sequence[float], combined: FloatArray, product: FloatArray
) -> None:
    """Write ``combine(weights, s)`` of the columns of ``planes`` (d, P) to `combined`."""
    np.multiply(planes[0], weights[0], out=combined)
    for j in range(1, len(planes)):
        np.multiply(planes[j], weights[j], out=product)
        np.add(combined, product, out=combined)
