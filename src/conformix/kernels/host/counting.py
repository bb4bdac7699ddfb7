"""Compiled counting for sets that are never empty, and the row-wise combination it stands on."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled


@compiled
def count_nonempty(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the sizes of sets that always hold the row's best labels.

    A row's size is the larger of the labels that reach the threshold and those that tie at the
    top, which is what lifting the row's maximum to infinity gives.

    Parameters
    ----------
    planes : float64 array of shape (d, rows, K), C-contiguous
        One plane per score.
    weights : float64 array of shape (m, d)
        Weight vectors.
    thresholds : float64 array of shape (m,)
        One threshold per weight vector.
    counts : int64 array of shape (m,)
        Added to in place.
    """
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        t = thresholds[i]
        total = 0
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            top = combined.max()
            reached = 0
            tied = 0
            for e in range(n_classes):
                reached += combined[e] >= t
                tied += combined[e] == top
            total += max(reached, tied)
        counts[i] += total


@compiled
def row_tops(planes: FloatArray, weights: FloatArray, tops: FloatArray) -> None:
    """Write to ``tops[i, r]`` the largest combined score of row r under weights i."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            tops[i, r] = combined.max()


@compiled
def combine_row(planes: FloatArray, weights: FloatArray, row: int, combined: FloatArray) -> None:
    """Write the combined scores of one row, in the arithmetic of `conformix.kernels.combine`."""
    n_classes = planes.shape[2]
    for e in range(n_classes):
        combined[e] = weights[0] * planes[0, row, e]
    for j in range(1, planes.shape[0]):
        for e in range(n_classes):
            combined[e] += weights[j] * planes[j, row, e]
