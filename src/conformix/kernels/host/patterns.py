"""Patterns, and their correlations, row by row; see `conformix.kernels.patterns`.

The operations there, one by one; sums are exact, and hence those of any order.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import allocating, compiled, inner
from conformix.kernels.host.elementary import AT_ONCE, LINES, _added_up, _log_into


@allocating
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


@allocating
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
            values[k] = ((row[k] if row[k] > floor else floor) + shift) - shift
        totals[i] = _added_up(values)
        for k in range(n_classes):
            values[k] *= values[k]
        squares[i] = _added_up(values)


class Summing(NamedTuple):
    """Rows that are added up, rounded by what is added and taken away."""

    values: FloatArray  # (n, K)
    shift: float
    sums: FloatArray  # (workers, K), zeros before
    step: int  # rows of a part


@compiled
def add_rows(board: IntArray, helpers: int, n: int, task: Summing, part: int, worker: int) -> int:
    """Add the rows of a part to the sums of a worker."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    values, shift, sums, step = task
    own = sums[worker]
    for i in range(part * step, min((part + 1) * step, len(values))):
        for k in range(values.shape[1]):
            own[k] += (values[i, k] + shift) - shift
    return 0


@inner
def correlated(
    y: int,
    products: FloatArray,
    totals: FloatArray,
    spread: FloatArray,
    n: int,
    shift: float,
) -> float:
    """Turn the products (K,) of a label with all into positive correlations; returns their norm.

    The operations of `scores.learnt.Kin`.
    """
    for k in range(len(products)):
        covariance = products[k] - totals[y] * totals[k] / n
        products[k] = min(max(covariance / (spread[y] * spread[k]), 0.0), 1.0)
    products[y] = 1.0
    square = 0.0
    for k in range(len(products)):
        rough = (products[k] + shift) - shift
        square += rough * rough
    return math.sqrt(square)


@allocating
def correlations_into(
    products: IntArray,
    totals: FloatArray,
    spread: FloatArray,
    n: int,
    shifts: tuple[float, float],
    first: int,
    out: FloatArray,
) -> None:
    """Write the positive correlations of labels, scaled to norm one, to `out` (m, K).

    `shifts` as above. `products` (m, K) are those of the labels from the `first` on.
    """
    n_labels, n_classes = products.shape
    row = np.empty(n_classes)
    for i in range(n_labels):
        for k in range(n_classes):
            row[k] = np.float64(products[i, k])
        norm = correlated(first + i, row, totals, spread, n, shifts[0])
        for k in range(n_classes):
            out[i, k] = (row[k] / norm + shifts[1]) - shifts[1]


@allocating
def unit_rows_into(
    products: IntArray, shifts: tuple[float, float], units: FloatArray, norms: FloatArray
) -> None:
    """Write rows of a matrix (m, K) of whole numbers, scaled to norm one, and their norms (m,).

    The operations of `unit_rows` there; `shifts` as above.
    """
    n_rows, n_classes = products.shape
    rough_shift, fine_shift = shifts
    row = np.empty(n_classes)
    for y in range(n_rows):
        largest = 0.0
        for k in range(n_classes):
            row[k] = np.float64(products[y, k])
            largest = max(largest, abs(row[k]))
        unit = largest if largest > 0.0 else 1.0
        square = 0.0
        for k in range(n_classes):
            row[k] /= unit
            rough = (row[k] + rough_shift) - rough_shift
            square += rough * rough
        norm = math.sqrt(square)
        norms[y] = largest * norm
        divisor = norm if norm > 0.0 else 1.0
        for k in range(n_classes):
            units[y, k] = (row[k] / divisor + fine_shift) - fine_shift


class Shares(NamedTuple):
    """Rows of probabilities, and what their labels have over all rows."""

    probs: FloatArray  # (n, K)
    mass: FloatArray  # (K,) sums over all rows
    more: float  # what is added to a sum
    whole: float  # what a sum is divided by
    out: FloatArray  # (n, K)
    lines: FloatArray  # (workers, LINES, AT_ONCE)
    step: int  # rows of a part


def lines_for(workers: int) -> FloatArray:
    """Return room for so many workers."""
    return rooms(workers, LINES, AT_ONCE)


@compiled
def rarities(board: IntArray, helpers: int, n: int, task: Shares, part: int, worker: int) -> int:
    """Write ``-log`` of the shares of labels over all other rows: `scores.learnt.Rarity`."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    probs, mass, more, whole, out, lines, step = task
    first, last = part * step, min((part + 1) * step, len(probs))
    n_classes = probs.shape[1]
    for i in range(first, last):
        row, own = probs[i], out[i]
        for k in range(n_classes):
            rest = mass[k] - row[k]
            own[k] = ((rest if rest > 0.0 else 0.0) + more) / whole
    flat = out[first:last].reshape((last - first) * n_classes)
    _log_into(flat, -np.inf, 0.0, flat, lines[worker])
    for k in range(flat.size):
        flat[k] = 0.0 - flat[k]
    return 0
