"""The places of labels in their sorted rows, ties together, in one walk each."""

from __future__ import annotations

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled


@compiled
def ranks_into(values: FloatArray, order: IntArray, below: IntArray, rank: IntArray) -> None:
    """Write, by label, how many of its row score lower (n, K), and its rank from the top.

    `order` (n, K) are the places of the rising values, counted through the whole block.
    """
    n, n_classes = values.shape
    flat, below_flat, rank_flat = values.reshape(-1), below.reshape(-1), rank.reshape(-1)
    for i in range(n):
        first = 0
        for j in range(1, n_classes + 1):
            if j == n_classes or flat[order[i, j]] != flat[order[i, j - 1]]:
                for k in range(first, j):
                    below_flat[order[i, k]] = first
                    rank_flat[order[i, k]] = n_classes - j + 1
                first = j
