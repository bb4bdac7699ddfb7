"""The likelihood of labels under a blend, with its derivatives, in one pass over the scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.elementary import FRACTION, LN2_REST, LN2_UPPER, SHIFT
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, fused, regrouped, without_nan
from conformix.kernels.host.elementary import log_of


@regrouped
def _sums(
    weighted: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray
) -> tuple[float, float, float, float]:
    """Return the products of `weighted` with four rows."""
    at_a = at_b = at_c = at_d = 0.0
    for k in range(weighted.size):
        at_a += weighted[k] * a[k]
        at_b += weighted[k] * b[k]
        at_c += weighted[k] * c[k]
        at_d += weighted[k] * d[k]
    return at_a, at_b, at_c, at_d


@regrouped
def _add_planes(
    z: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray, factors: FloatArray
) -> None:
    """Add four rows with their factors to `z`."""
    of_a, of_b, of_c, of_d = factors[0], factors[1], factors[2], factors[3]
    for k in range(z.size):
        z[k] += (of_a * a[k] + of_b * b[k]) + (of_c * c[k] + of_d * d[k])


# Turns of log 2 in one, and the exponent of one among the bits of a number.
TURNS, ONE = 1 / math.log(2), 1023
# Numbers below this one have a power that no sum beside one sees.
LOWEST = -700.0


@fused
def _powers(z: FloatArray, top: float, out: FloatArray) -> None:
    """Write ``exp(z - top)``, to some units in the last place: sums of it are rounded to digits.

    ``z - top = k log 2 + r`` with a whole number k, and the series of the exponential of r. Other
    than the exponential that probabilities are made of, it looks up nothing.
    """
    for i in range(z.size):
        x = z[i] - top
        x = x if x > LOWEST else LOWEST
        turns = x * TURNS + SHIFT
        k = turns - SHIFT
        r = (x - k * LN2_UPPER) - k * LN2_REST
        square = r * r
        even = 1.0 + square * (1 / 2 + square * (1 / 24 + square * (1 / 720 + square * (
            1 / 40320 + square * (1 / 3628800 + square * (1 / 479001600))))))  # fmt: skip
        odd = 1.0 + square * (1 / 6 + square * (1 / 120 + square * (1 / 5040 + square * (
            1 / 362880 + square * (1 / 39916800)))))  # fmt: skip
        bits = (np.float64(turns).view(np.int64) + ONE) << FRACTION
        out[i] = (even + r * odd) * np.int64(bits).view(np.float64)


@without_nan
def _largest(values: FloatArray) -> float:
    """Return the largest of some numbers."""
    largest = values[0]
    for k in range(values.size):
        largest = max(largest, values[k])
    return largest


@regrouped
def _scaled(values: FloatArray) -> float:
    """Divide positive numbers by their sum, and return it."""
    total = 0.0
    for k in range(values.size):
        total += values[k]
    share = 1.0 / total
    for k in range(values.size):
        values[k] *= share
    return total


class Rows(NamedTuple):
    """Rows of scores whose likelihood is added up, part by part."""

    planes: FloatArray  # (p, n, K)
    every: int  # the distance between rows that count
    c: FloatArray  # (p,) coefficients: ``z = c . planes``
    columns: IntArray  # of the second derivatives; those whose coefficient is zero may be left out
    value: FloatArray  # (parts,) ``sum_i log sum_y exp(z_iy)``
    first: FloatArray  # (parts, p) first derivatives
    second: FloatArray  # (parts, p, p) second derivatives: the lower triangle
    room: FloatArray  # (workers, 3, K)
    means: FloatArray  # (workers, p + 4): room, for four factors, too
    step: int  # rows of a part that count


def room(workers: int, p: int, n_classes: int) -> tuple[FloatArray, FloatArray]:
    """Return room for so many workers, scores and labels."""
    return np.empty((workers, 3, n_classes)), np.empty((workers, p + 4))


@compiled
def likelihood(board: IntArray, helpers: int, n: int, task: Rows, part: int, worker: int) -> int:
    """Add up the likelihood of rows, and its derivatives.

    Second derivatives are added up four at a time: what is read of the weighted scores serves four
    sums.
    """
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    planes, every, c, columns, values, firsts, seconds, rooms, all_means, step = task
    first, second, value = firsts[part], seconds[part], 0.0
    p, n_rows, n_classes = planes.shape
    z, shares, weighted = rooms[worker, 0], rooms[worker, 1], rooms[worker, 2]
    means, factors = all_means[worker, :p], all_means[worker, p:]
    for i in range(part * step * every, min((part + 1) * step * every, n_rows), every):
        for k in range(n_classes):
            z[k] = 0.0
        for j in range(0, p, 4):
            # Where fewer than four are left the last one comes again, with a factor of zero.
            u, v, w = min(j + 1, p - 1), min(j + 2, p - 1), min(j + 3, p - 1)
            some = False
            for other in range(4):
                factors[other] = c[j + other] if j + other < p else 0.0
                some |= factors[other] != 0.0
            if some:
                _add_planes(z, planes[j, i], planes[u, i], planes[v, i], planes[w, i], factors)
        top = _largest(z)
        _powers(z, top, shares)
        value += top + log_of(_scaled(shares))
        for j in range(0, p, 4):
            # Where fewer than four are left the last one comes again, and is not added.
            u, v, w = min(j + 1, p - 1), min(j + 2, p - 1), min(j + 3, p - 1)
            sums = _sums(shares, planes[j, i], planes[u, i], planes[v, i], planes[w, i])
            for other in range(j, min(j + 4, p)):
                means[other] = sums[other - j]
                first[other] += sums[other - j]
        for a in range(len(columns)):
            j = columns[a]
            for k in range(n_classes):
                weighted[k] = shares[k] * planes[j, i, k]
            for b in range(0, a + 1, 4):
                u, v = columns[b], columns[min(b + 1, a)]
                w, x = columns[min(b + 2, a)], columns[min(b + 3, a)]
                sums = _sums(weighted, planes[u, i], planes[v, i], planes[w, i], planes[x, i])
                for d in range(b, min(b + 4, a + 1)):
                    second[j, columns[d]] += sums[d - b] - means[j] * means[columns[d]]
    values[part] = value
    return 0


@regrouped
def _logistic_sums(odds: FloatArray, u: float) -> tuple[float, float]:
    first = second = 0.0
    for k in range(odds.size):
        here = u * odds[k]
        rest = 1.0 / (1.0 + here)
        value = here * rest
        first += value
        second += value * rest
    return first, second


class Odds(NamedTuple):
    """Rows of odds o with factors u, and sums over their labels."""

    odds: FloatArray  # (n, K)
    u: FloatArray  # (n,)
    first: FloatArray  # (n,): of ``v = u o / (1 + u o)``
    second: FloatArray  # (n,): of ``v (1 - v)``
    step: int  # rows of a part


@compiled
def logistic_sums(board: IntArray, helpers: int, n: int, task: Odds, part: int, worker: int) -> int:
    """Add up logistic functions of all labels of rows, and their derivatives.

    Examples
    --------
    >>> board, first, second = np.zeros(80, dtype=np.int64), np.empty(1), np.empty(1)
    >>> task = Odds(np.array([[1.0, 3.0]]), np.ones(1), first, second, 1)
    >>> logistic_sums(board, 0, 1, task, -1, 0), float(first[0]), float(second[0])
    (0, 1.25, 0.4375)
    """
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    odds, u, first, second, step = task
    for i in range(part * step, min((part + 1) * step, len(u))):
        first[i], second[i] = _logistic_sums(odds[i], u[i])
    return 0
