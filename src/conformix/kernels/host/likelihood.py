"""The likelihood of labels under a blend, with its derivatives, in one pass over the scores."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, regrouped
from conformix.kernels.host.elementary import (
    AT_ONCE,
    _added_up,
    _exp_of_differences,
    _largest,
    log_of,
)


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


@compiled
def likelihood(
    planes: FloatArray,
    rows: tuple[int, int, int],
    c: FloatArray,
    columns: IntArray,
    first: FloatArray,
    second: FloatArray,
) -> float:
    """Return ``sum_i log sum_y exp(z_iy)`` over some rows of planes (p, n, K), ``z = c . planes``.

    `rows` are the first one, the end and the distance. The first derivatives are added to `first`
    (p,), the second ones of some columns to the lower triangle of `second` (p, p), four at a time:
    what is read of the weighted scores serves four sums. Columns whose coefficient is zero may be
    left out there.
    """
    p, _, n_classes = planes.shape
    z, shares, weighted = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    means = np.empty(p)
    room, value = np.empty((3, AT_ONCE)), 0.0
    for i in range(rows[0], rows[1], rows[2]):
        for k in range(n_classes):
            z[k] = c[0] * planes[0, i, k]
        for j in range(1, p):
            factor = c[j]
            if factor != 0.0:
                for k in range(n_classes):
                    z[k] += factor * planes[j, i, k]
        top = _largest(z)
        _exp_of_differences(z, top, shares, room)
        total = _added_up(shares)
        value += top + log_of(total)
        for k in range(n_classes):
            shares[k] /= total
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
    return value


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


@compiled
def logistic_sums(odds: FloatArray, u: FloatArray, first: FloatArray, second: FloatArray) -> None:
    """Write the sums over labels of ``v = u o / (1 + u o)`` and of ``v (1 - v)``, (n,) each.

    Of rows of odds o (n, K) and factors u (n,).

    Examples
    --------
    >>> first, second = np.empty(1), np.empty(1)
    >>> logistic_sums(np.array([[1.0, 3.0]]), np.ones(1), first, second)
    >>> float(first[0]), float(second[0])
    (1.25, 0.4375)
    """
    for i in range(len(u)):
        first[i], second[i] = _logistic_sums(odds[i], u[i])
