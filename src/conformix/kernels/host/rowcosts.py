"""Compiled set sizes row by row, for objectives that are no sum over labels."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.counting import combine_row


@compiled
def row_costs(
    planes: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    of_size: IntArray,
    of_label: IntArray,
    costs: IntArray,
) -> None:
    """Add to ``costs[i]``, for every row, ``of_size[|C|] + sum of of_label[y] over y in C``.

    Parameters
    ----------
    planes : float64 array of shape (d, rows, K), C-contiguous
        One plane per score.
    weights : float64 array of shape (m, d)
        Weight vectors.
    thresholds : float64 array of shape (m,)
        One threshold per weight vector.
    of_size : int64 array of shape (K + 1,)
        What a set of each size costs.
    of_label : int64 array of shape (K,)
        What each label in a set costs.
    costs : int64 array of shape (m,)
        Added to in place.
    """
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


@compiled
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
