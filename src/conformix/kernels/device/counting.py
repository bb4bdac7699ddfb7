"""Counting for sets that are never empty, in plain PyTorch; `kernels.host.counting` on tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, to_host
from conformix.kernels.blocks import row_blocks
from conformix.kernels.combine import combine

ENTRIES = 2**24


def row_tops(scores: Any, weights: FloatArray) -> FloatArray:
    """Return the largest combined score of every row, under every weight vector, (m, n)."""
    tops = np.empty((len(weights), scores.shape[0]))
    for rows in row_blocks(scores.shape[0], scores.shape[1], ENTRIES):
        for i, w in enumerate(weights):
            tops[i, rows] = to_host(combine(scores[rows], w).max(dim=1).values)  # type: ignore[call-overload]
    return tops


def count_nonempty(tensors: Sequence[Any], weights: FloatArray, thresholds: FloatArray) -> IntArray:
    """Return the sizes of sets that always hold the row's best labels, summed, int64 (m,)."""
    counts = np.zeros(len(weights), dtype=np.int64)
    for tensor in tensors:
        for rows in row_blocks(tensor.shape[0], tensor.shape[1], ENTRIES):
            for i, w in enumerate(weights):
                values: Any = combine(tensor[rows], w)
                top = values.max(dim=1, keepdim=True).values
                tied = (values == top).sum(dim=1)
                counts[i] += int((values >= float(thresholds[i])).sum(dim=1).maximum(tied).sum())
    return counts
