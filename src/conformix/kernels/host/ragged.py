"""Sorting within rows of unequal length."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray


def falling_within_rows(values: FloatArray, sizes: IntArray) -> IntArray:
    """Return the permutation that sorts every row downwards; equal values keep their order.

    Parameters
    ----------
    values : array of shape (sum of sizes,)
        The rows, one after another.
    sizes : integer array of shape (n,)
        How many values every row has.

    Returns
    -------
    integer array of shape (sum of sizes,)
        ``values[order]`` falls within every row.

    Examples
    --------
    >>> falling_within_rows(np.array([0.1, 0.7, 0.5, 0.5]), np.array([2, 0, 2]))
    array([1, 0, 2, 3])
    """
    if len(sizes) == 1:
        return np.argsort(-values, kind="stable")
    order = np.arange(len(values))
    starts = np.cumsum(sizes) - sizes
    # Rows of like length are sorted as one matrix, padded to the next power of two: many times
    # faster than one long sort by two keys, and at most twice the memory.
    widths = 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    for width in np.unique(widths[sizes > 1]).tolist():
        rows = np.flatnonzero(widths == width)
        places = starts[rows, None] + np.arange(width)
        inside = np.arange(width) < sizes[rows, None]
        padded = np.full(places.shape, np.inf)
        padded[inside] = -values[places[inside]]
        within = np.argsort(padded, axis=1, kind="stable")
        order[places[inside]] = (starts[rows, None] + within)[inside]
    return order
