"""The likelihood of labels under a blend, with its derivatives, in one pass over the scores."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled, regrouped
from conformix.kernels.host.elementary import AT_ONCE, _exp_of_differences, _largest, log_of


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
    planes: FloatArray, rows: tuple[int, int], c: FloatArray, first: FloatArray, second: FloatArray
) -> float:
    """Return ``sum_i log sum_y exp(z_iy)`` over some rows of planes (p, n, K), ``z = c . planes``.

    Its first derivatives are added to `first` (p,), the second ones to the lower triangle of
    `second` (p, p), four at a time: what is read of the weighted scores serves four sums.
    """
    p, _, n_classes = planes.shape
    z, shares, weighted = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    means, ones = np.empty(p), np.ones(n_classes)
    room, value = np.empty((3, AT_ONCE)), 0.0
    for i in range(rows[0], rows[1]):
        for k in range(n_classes):
            z[k] = c[0] * planes[0, i, k]
        for j in range(1, p):
            factor = c[j]
            if factor != 0.0:
                for k in range(n_classes):
                    z[k] += factor * planes[j, i, k]
        top = _largest(z)
        _exp_of_differences(z, top, shares, room)
        total = _sums(shares, ones, ones, ones, ones)[0]
        value += top + log_of(total)
        for k in range(n_classes):
            shares[k] /= total
        for j in range(p):
            for k in range(n_classes):
                weighted[k] = shares[k] * planes[j, i, k]
            mean = _sums(weighted, ones, ones, ones, ones)[0]
            means[j] = mean
            first[j] += mean
            for u in range(0, j + 1, 4):
                # Where fewer than four are left the last one comes again, and is not added.
                v, w, x = min(u + 1, j), min(u + 2, j), min(u + 3, j)
                sums = _sums(weighted, planes[u, i], planes[v, i], planes[w, i], planes[x, i])
                for other in range(u, min(u + 4, j + 1)):
                    second[j, other] += sums[other - u] - mean * means[other]
    return value
