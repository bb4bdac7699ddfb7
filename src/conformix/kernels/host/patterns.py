"""Patterns, and their correlations, row by row; see `conformix.kernels.patterns`.

The operations there, one by one; sums are exact, and hence those of any order.
"""

from __future__ import annotations

import math

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled


@compiled
def patterns_into(
    log_probs: FloatArray, floor: float, shifts: tuple[float, float], out: FloatArray
) -> None:
    """Write the patterns of rows of log-probabilities (n, K) to `out`.

    `shifts` are what is added and taken away to round to the bits of a norm, and to those of a
    factor.
    """
    n, n_classes = log_probs.shape
    rough_shift, fine_shift = shifts
    for i in range(n):
        row, own = log_probs[i], out[i]
        a = b = c = d = 0.0
        for k in range(n_classes):
            own[k] = (max(row[k], floor) + rough_shift) - rough_shift
        for k in range(0, n_classes - 3, 4):
            a += own[k]
            b += own[k + 1]
            c += own[k + 2]
            d += own[k + 3]
        for k in range(n_classes - n_classes % 4, n_classes):
            a += own[k]
        mean = ((a + b) + (c + d)) / n_classes
        for k in range(n_classes):
            own[k] = ((own[k] - mean) + rough_shift) - rough_shift
        a = b = c = d = 0.0
        for k in range(0, n_classes - 3, 4):
            a += own[k] * own[k]
            b += own[k + 1] * own[k + 1]
            c += own[k + 2] * own[k + 2]
            d += own[k + 3] * own[k + 3]
        for k in range(n_classes - n_classes % 4, n_classes):
            a += own[k] * own[k]
        square = (a + b) + (c + d)
        norm = math.sqrt(square) if square > 0.0 else 1.0
        for k in range(n_classes):
            own[k] = (own[k] / norm + fine_shift) - fine_shift


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

    The operations of `scores.learnt.Kin`; `shifts` as above.
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
