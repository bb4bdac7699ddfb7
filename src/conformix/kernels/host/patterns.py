"""Correlations of patterns in one pass over their sums; see `conformix.kernels.patterns`."""

from __future__ import annotations

import math

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled


@compiled
def correlations_into(
    products: IntArray,
    totals: FloatArray,
    spread: FloatArray,
    n: int,
    shifts: tuple[float, float],
    labels: tuple[int, int],
    out: FloatArray,
) -> None:
    """Write rows of the positive correlations, scaled to norm one, to `out` (K, K).

    The operations of `scores.learnt.Kin`, one by one; `shifts` are what is added and taken away to
    round to the bits of a norm, and to those of a factor.
    """
    n_classes = len(totals)
    row = np.empty(n_classes)
    rough_shift, fine_shift = shifts
    for y in range(labels[0], labels[1]):
        square = 0.0
        for k in range(n_classes):
            covariance = np.float64(products[y, k]) - totals[y] * totals[k] / n
            value = min(max(covariance / (spread[y] * spread[k]), 0.0), 1.0)
            row[k] = 1.0 if k == y else value
        for k in range(n_classes):
            rough = (row[k] + rough_shift) - rough_shift
            square += rough * rough
        norm = math.sqrt(square)
        for k in range(n_classes):
            out[y, k] = (row[k] / norm + fine_shift) - fine_shift
