"""Compiled search for the window with the smallest mean, at least so long."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import allocating, inlined


@allocating
def worst_window(values: FloatArray, least: int) -> tuple[int, int, float]:
    """Return first and last place, and the mean, of the window with the smallest mean.

    Among all windows of at least `least` values. Prefix sums turn means into slopes between
    points of one curve; only points of the upper hull of the possible starts can give the
    smallest slope, and the hull is kept while the end moves on, so the cost is O(n log n).
    """
    n = values.shape[0]
    prefix = np.zeros(n + 1)
    for i in range(n):
        prefix[i + 1] = prefix[i] + values[i]
    hull = np.empty(n + 1, dtype=np.int64)
    size = 0
    best_first, best_last, best = 0, n - 1, np.inf
    for end in range(least, n + 1):
        new = end - least
        while size >= 2 and _rises(prefix, hull[size - 2], hull[size - 1], new):
            size -= 1
        hull[size] = new
        size += 1
        # Slopes from hull points to the end fall, then rise: find where they turn.
        low, high = 0, size - 1
        while low < high:
            middle = (low + high) // 2
            if _slope(prefix, hull[middle], end) <= _slope(prefix, hull[middle + 1], end):
                high = middle
            else:
                low = middle + 1
        mean = _slope(prefix, hull[low], end)
        if mean < best:
            best_first, best_last, best = hull[low], end - 1, mean
    return best_first, best_last, best


@inlined
def _slope(prefix: FloatArray, start: int, end: int) -> float:
    return (prefix[end] - prefix[start]) / (end - start)


@inlined
def _rises(prefix: FloatArray, a: int, b: int, c: int) -> bool:
    """Whether the middle point lies on or below the line from a to c: never the best start."""
    return (prefix[b] - prefix[a]) * (c - a) <= (prefix[c] - prefix[a]) * (b - a)
