"""The places of labels in their sorted rows, ties together, in one walk each."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inner


@inner
def tie_groups(row: FloatArray, places: IntArray, below: IntArray, rank: IntArray) -> None:
    """Write how many values are lower, and the rank from the top, at every place of a sorted row.

    `places` (K,) are those of the rising values.
    """
    n_classes, first = len(row), 0
    for j in range(1, n_classes + 1):
        if j == n_classes or row[places[j]] != row[places[j - 1]]:
            for k in range(first, j):
                below[k], rank[k] = first, n_classes - j + 1
            first = j


@compiled
def ranks_into(values: FloatArray, order: IntArray, below: IntArray, rank: IntArray) -> None:
    """Write, by label, how many of its row score lower (n, K), and its rank from the top.

    `order` (n, K) are the places of the rising values of every row.
    """
    n, n_classes = values.shape
    lower, upper = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for i in range(n):
        tie_groups(values[i], order[i], lower, upper)
        for k in range(n_classes):
            below[i, order[i, k]] = lower[k]
            rank[i, order[i, k]] = upper[k]
