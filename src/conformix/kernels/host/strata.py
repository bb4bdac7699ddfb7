"""Compiled counting with one threshold per label, and thresholds per stratum of rows."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.counting import combine_row


@compiled
def stratum_thresholds(
    true_scores: FloatArray,
    ends: IntArray,
    ranks: IntArray,
    weights: FloatArray,
    thresholds: FloatArray,
) -> None:
    """Write to ``thresholds[i, s]`` the k-th largest combined score of stratum s under weights i.

    Parameters
    ----------
    true_scores : float64 array of shape (n, d)
        Scores of the true labels, ordered by stratum.
    ends : int64 array of shape (S + 1,)
        Where the rows of every stratum begin, and the end.
    ranks : int64 array of shape (S,)
        The rank of every stratum; larger than its rows: ``-inf``.
    weights : float64 array of shape (m, d)
        Weight vectors.
    thresholds : float64 array of shape (m, S)
        Written in place.
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
                place = rows - ranks[s]
                thresholds[i, s] = np.partition(combined[ends[s] : ends[s + 1]], place)[place]


@compiled
def count_by_label(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the labels that reach their own threshold ``thresholds[i, label]``.

    Parameters
    ----------
    planes : float64 array of shape (d, rows, K), C-contiguous
        One plane per score.
    weights : float64 array of shape (m, d)
        Weight vectors.
    thresholds : float64 array of shape (m, K)
        A threshold per weight vector and label.
    counts : int64 array of shape (m,)
        Added to in place.
    """
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        total = 0
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            for e in range(n_classes):
                total += combined[e] >= thresholds[i, e]
        counts[i] += total
