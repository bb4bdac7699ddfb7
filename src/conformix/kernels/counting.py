"""Compiled counting: how many label scores reach the threshold, for many weights at once."""

from __future__ import annotations

import numba
import numpy as np

from conformix.arrays import FloatArray, IntArray


@numba.njit(nogil=True, cache=True)  # type: ignore[untyped-decorator]
def count_reaching(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, counts: IntArray
) -> None:
    """Add to ``counts[i]`` the pairs whose combined score is ``>= thresholds[i]``.

    Parameters
    ----------
    planes : float64 array of shape (d, entries), C-contiguous
        One plane per score, so that the inner loops run over neighbours in memory.
    weights : float64 array of shape (m, d)
        Weight vectors.
    thresholds : float64 array of shape (m,)
        One threshold per weight vector.
    counts : int64 array of shape (m,)
        Added to in place.
    """
    d, entries = planes.shape
    combined = np.empty(entries)
    for i in range(weights.shape[0]):
        w = weights[i, 0]
        for e in range(entries):
            combined[e] = w * planes[0, e]
        for j in range(1, d):
            w = weights[i, j]
            for e in range(entries):
                combined[e] += w * planes[j, e]
        t = thresholds[i]
        reached = 0
        for e in range(entries):
            reached += combined[e] >= t
        counts[i] += reached
