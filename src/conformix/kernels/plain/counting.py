"""Counting row by row, weight by weight: `kernels.host.counting` in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.plain.engine import combine_into


def _each_weight(planes: FloatArray, weights: FloatArray) -> Iterator[FloatArray]:
    """Yield the combined scores (rows, K) under every weight, in memory that is used again."""
    combined, product = np.empty((2, *planes.shape[1:]))
    for w in weights.tolist():
        combine_into(planes, w, combined, product)
        yield combined


def count_nonempty(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` (m,) the sizes of sets that always hold the row's best labels."""
    for i, combined in enumerate(_each_weight(planes, weights)):
        reached = np.count_nonzero(combined >= thresholds[i], axis=1)
        tied = np.count_nonzero(combined == combined.max(axis=1, keepdims=True), axis=1)
        counts[i] += np.maximum(reached, tied).sum()


def row_tops(planes: FloatArray, weights: FloatArray, tops: FloatArray) -> None:
    """Write to ``tops[i, r]`` the largest combined score of row r under weights i."""
    for i, combined in enumerate(_each_weight(planes, weights)):
        combined.max(axis=1, out=tops[i])


def row_costs(
    planes: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    of_size: IntArray,
    of_label: IntArray,
    costs: IntArray,
) -> None:
    """Add to ``costs[i]``, for every row, ``of_size[|C|] + sum of of_label[y] over y in C``."""
    for i, combined in enumerate(_each_weight(planes, weights)):
        inside = combined >= thresholds[i]
        sizes = np.count_nonzero(inside, axis=1)
        costs[i] += of_size[sizes].sum() + (np.count_nonzero(inside, axis=0) * of_label).sum()


def row_sizes(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, sizes: IntArray
) -> None:
    """Write to ``sizes[i, r]`` the size of the set of row r under weights i."""
    for i, combined in enumerate(_each_weight(planes, weights)):
        sizes[i] = np.count_nonzero(combined >= thresholds[i], axis=1)


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
    for i, combined in enumerate(_each_weight(np.ascontiguousarray(true_scores.T), weights)):
        for s, rank in enumerate(ranks.tolist()):
            stratum = combined[ends[s] : ends[s + 1]]
            place = len(stratum) - rank
            thresholds[i, s] = -np.inf if place < 0 else np.partition(stratum, place)[place]


def count_by_label(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the labels that reach their own threshold ``thresholds[i, label]``."""
    for i, combined in enumerate(_each_weight(planes, weights)):
        counts[i] += np.count_nonzero(combined >= thresholds[i])
