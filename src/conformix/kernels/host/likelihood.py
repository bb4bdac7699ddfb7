"""The likelihood of labels under a blend, with its derivatives, in one pass over the scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.elementary import FRACTION, LN2_REST, LN2_UPPER, SHIFT
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, fused, inner, regrouped
from conformix.kernels.host.elementary import _largest, log_of


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
def _tile(
    shares: FloatArray,
    a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray,
    e: FloatArray, f: FloatArray, g: FloatArray, h: FloatArray,
    sums: FloatArray,
) -> None:  # fmt: skip
    """Write the sums of `shares` times any of four rows times any of four others, (4, 4)."""
    ae = af = ag = ah = be = bf = bg = bh = ce = cf = cg = ch = de = df = dg = dh = 0.0
    for k in range(shares.size):
        of_a, of_b = shares[k] * a[k], shares[k] * b[k]
        of_c, of_d = shares[k] * c[k], shares[k] * d[k]
        ae += of_a * e[k]
        af += of_a * f[k]
        ag += of_a * g[k]
        ah += of_a * h[k]
        be += of_b * e[k]
        bf += of_b * f[k]
        bg += of_b * g[k]
        bh += of_b * h[k]
        ce += of_c * e[k]
        cf += of_c * f[k]
        cg += of_c * g[k]
        ch += of_c * h[k]
        de += of_d * e[k]
        df += of_d * f[k]
        dg += of_d * g[k]
        dh += of_d * h[k]
    sums[0, 0], sums[0, 1], sums[0, 2], sums[0, 3] = ae, af, ag, ah
    sums[1, 0], sums[1, 1], sums[1, 2], sums[1, 3] = be, bf, bg, bh
    sums[2, 0], sums[2, 1], sums[2, 2], sums[2, 3] = ce, cf, cg, ch
    sums[3, 0], sums[3, 1], sums[3, 2], sums[3, 3] = de, df, dg, dh


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
def _powers(z: FloatArray, out: FloatArray) -> None:
    """Write ``exp(z)`` of z up to 0, to some units in the last place: sums are rounded to digits.

    ``z = k log 2 + r`` with a whole number k, and the series of the exponential of r. Other than
    the exponential that probabilities are made of, it looks up nothing.
    """
    for i in range(z.size):
        x = z[i] if z[i] > LOWEST else LOWEST
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

    planes: FloatArray  # (p, n K), row after row
    n_classes: int  # K
    every: int  # the distance between rows that count
    c: FloatArray  # (p,) coefficients: ``z = c . planes``
    columns: IntArray  # of the second derivatives; those whose coefficient is zero may be left out
    value: FloatArray  # (parts,) ``sum_i log sum_y exp(z_iy)``
    first: FloatArray  # (parts, p) first derivatives
    second: FloatArray  # (parts, p, p) second derivatives: the lower triangle, and zeros
    room: FloatArray  # (workers, 2, g K) for as many rows as are worked on at once, if neighbours
    means: FloatArray  # (workers, p + 4): room, for four factors, too
    sums: FloatArray  # (workers, 4, 4): room
    step: int  # rows of a part that count


# Labels of rows that are worked on at once: loops over one short row begin and end too often.
AT_ONCE = 2**12


def room_for(
    workers: int, p: int, n_classes: int, every: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return room for so many workers, scores and labels, and such a distance between rows."""
    together = max(1, AT_ONCE // n_classes) if every == 1 else 1
    return rooms(workers, 2, together * n_classes), rooms(workers, p + 4), rooms(workers, 4, 4)


@inner
def _take_means(
    shares: FloatArray, planes: FloatArray, begin: int, columns: IntArray, means: FloatArray,
    first: FloatArray, second: FloatArray,
) -> None:  # fmt: skip
    """Add the means of a row's scores to the first derivatives; take their products from second."""
    end, p = begin + shares.size, len(planes)
    for j in range(0, p, 4):
        # Where fewer than four are left the last one comes again, and is not added.
        a, b = planes[j, begin:end], planes[min(j + 1, p - 1), begin:end]
        c, d = planes[min(j + 2, p - 1), begin:end], planes[min(j + 3, p - 1), begin:end]
        sums = _sums(shares, a, b, c, d)
        for other in range(j, min(j + 4, p)):
            means[other] = sums[other - j]
            first[other] += sums[other - j]
    for i in range(len(columns)):
        own = columns[i]
        for j in range(i + 1):
            second[own, columns[j]] -= means[own] * means[columns[j]]


@inner
def _add_products(
    shares: FloatArray, planes: FloatArray, begin: int, columns: IntArray, sums: FloatArray,
    second: FloatArray,
) -> None:  # fmt: skip
    """Add the products of any two scores to the second derivatives, sixteen at a time."""
    end, last = begin + shares.size, len(columns) - 1
    for a in range(0, len(columns), 4):
        for b in range(0, a + 1, 4):
            # Where fewer than four are left the last one comes again, and is not added.
            _tile(
                shares,
                planes[columns[a], begin:end], planes[columns[min(a + 1, last)], begin:end],
                planes[columns[min(a + 2, last)], begin:end],
                planes[columns[min(a + 3, last)], begin:end],
                planes[columns[b], begin:end], planes[columns[min(b + 1, last)], begin:end],
                planes[columns[min(b + 2, last)], begin:end],
                planes[columns[min(b + 3, last)], begin:end],
                sums,
            )  # fmt: skip
            for i in range(a, min(a + 4, last + 1)):
                for j in range(b, min(b + 4, i + 1)):
                    second[columns[i], columns[j]] += sums[i - a, j - b]


@compiled
def likelihood(board: IntArray, helpers: int, n: int, task: Rows, part: int, worker: int) -> int:
    """Add up the likelihood of rows, and its derivatives.

    Rows that lie side by side are walked as one. Second derivatives are added up sixteen at a time:
    what is read of a score serves four sums.
    """
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    (
        planes, n_classes, every, c, columns, values, firsts, seconds, all_rows, all_means,
        all_sums, step,
    ) = task  # fmt: skip
    p, n_rows = len(planes), planes.shape[1] // n_classes
    first, second, value = firsts[part, :p], seconds[part, :p], 0.0
    first[:], second[:] = 0.0, 0.0
    means, factors = all_means[worker, :p], all_means[worker, p:]
    together = all_rows.shape[2] // n_classes
    stop = min((part + 1) * step * every, n_rows)
    for i in range(part * step * every, stop, together * every):
        begin, end = i * n_classes, min(i + together, stop) * n_classes
        z, shares = all_rows[worker, 0, : end - begin], all_rows[worker, 1, : end - begin]
        for k in range(z.size):
            z[k] = 0.0
        for j in range(0, p, 4):
            # Where fewer than four are left the last one comes again, with a factor of zero.
            u, v, w = min(j + 1, p - 1), min(j + 2, p - 1), min(j + 3, p - 1)
            some = False
            for other in range(4):
                factors[other] = c[j + other] if j + other < p else 0.0
                some |= factors[other] != 0.0
            if some:
                own, next_to = planes[j, begin:end], planes[u, begin:end]
                _add_planes(z, own, next_to, planes[v, begin:end], planes[w, begin:end], factors)
        for r in range(0, z.size, n_classes):
            top = _largest(z[r : r + n_classes])
            for k in range(r, r + n_classes):
                z[k] -= top
            value += top
        _powers(z, shares)
        for r in range(0, z.size, n_classes):
            value += log_of(_scaled(shares[r : r + n_classes]))
        if len(columns) == 0:  # the rows need not be told apart
            _take_means(shares, planes, begin, columns, means, first, second)
        else:
            for r in range(0, z.size, n_classes):
                row = shares[r : r + n_classes]
                _take_means(row, planes, begin + r, columns, means, first, second)
            _add_products(shares, planes, begin, columns, all_sums[worker], second)
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


class SummingOdds(NamedTuple):
    """Rows of odds o with factors u, and sums over their labels."""

    odds: FloatArray  # (n, K)
    u: FloatArray  # (n,)
    first: FloatArray  # (n,): of ``v = u o / (1 + u o)``
    second: FloatArray  # (n,): of ``v (1 - v)``
    step: int  # rows of a part


@compiled
def logistic_sums(
    board: IntArray, helpers: int, n: int, task: SummingOdds, part: int, worker: int
) -> int:
    """Add up logistic functions of all labels of rows, and their derivatives.

    Examples
    --------
    >>> from conformix.kernels.helpers import NO_BOARD
    >>> first, second = np.empty(1), np.empty(1)
    >>> task = SummingOdds(np.array([[1.0, 3.0]]), np.ones(1), first, second, 1)
    >>> logistic_sums(NO_BOARD, 0, 1, task, -1, 0), float(first[0]), float(second[0])
    (0, 1.25, 0.4375)
    """
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    odds, u, first, second, step = task
    for i in range(part * step, min((part + 1) * step, len(u))):
        first[i], second[i] = _logistic_sums(odds[i], u[i])
    return 0
