"""Patterns, and their correlations, row by row; see `conformix.kernels.patterns`.

The operations there, one by one; sums are exact, and hence those of any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.elementary import _added_up


@compiled
def patterns_into(
    log_probs: FloatArray, floor: float, shifts: tuple[float, float], out: Any
) -> None:
    """Write the patterns of rows of log-probabilities (n, K) to `out`, of float32.

    `shifts` are what is added and taken away to round to the bits of a norm, and to those of a
    factor.
    """
    n, n_classes = log_probs.shape
    rough_shift, fine_shift = shifts
    values, squares = np.empty(n_classes), np.empty(n_classes)
    for i in range(n):
        row, own = log_probs[i], out[i]
        for k in range(n_classes):
            values[k] = (max(row[k], floor) + rough_shift) - rough_shift
        mean = _added_up(values) / n_classes
        for k in range(n_classes):
            values[k] = ((values[k] - mean) + rough_shift) - rough_shift
            squares[k] = values[k] * values[k]
        square = _added_up(squares)
        norm = math.sqrt(square) if square > 0.0 else 1.0
        for k in range(n_classes):
            own[k] = (values[k] / norm + fine_shift) - fine_shift


@compiled
def spread_sums_into(
    log_probs: FloatArray, floor: float, shift: float, totals: FloatArray, squares: FloatArray
) -> None:
    """Write the sums of floored log-probabilities, and of their squares, of every row, (n,) each.

    `shift` is what is added and taken away to round.
    """
    n, n_classes = log_probs.shape
    values = np.empty(n_classes)
    for i in range(n):
        row = log_probs[i]
        for k in range(n_classes):
            values[k] = (max(row[k], floor) + shift) - shift
        totals[i] = _added_up(values)
        for k in range(n_classes):
            values[k] *= values[k]
        squares[i] = _added_up(values)


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
