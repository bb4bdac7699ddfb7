"""The likelihood of labels under a blend, with its derivatives, in one pass over the scores."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled, inner
from conformix.kernels.host.elementary import _exp_of_differences, _largest, log_of


@inner
def _product(left: FloatArray, right: FloatArray) -> float:
    """Return ``left . right``; in eight lanes, which need not wait for each other."""
    a = b = c = d = 0.0
    e = f = g = h = 0.0
    for k in range(0, left.size - 7, 8):
        a += left[k] * right[k]
        b += left[k + 1] * right[k + 1]
        c += left[k + 2] * right[k + 2]
        d += left[k + 3] * right[k + 3]
        e += left[k + 4] * right[k + 4]
        f += left[k + 5] * right[k + 5]
        g += left[k + 6] * right[k + 6]
        h += left[k + 7] * right[k + 7]
    for k in range(left.size - left.size % 8, left.size):
        a += left[k] * right[k]
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def likelihood(
    planes: FloatArray, rows: tuple[int, int], c: FloatArray, first: FloatArray, second: FloatArray
) -> float:
    """Return ``sum_i log sum_y exp(z_iy)`` over some rows of planes (p, n, K), ``z = c . planes``.

    Its first derivatives are added to `first` (p,), the second ones to the lower triangle of
    `second` (p, p).
    """
    p, _, n_classes = planes.shape
    ones = np.ones(n_classes)
    z, shares, weighted, means = np.empty(n_classes), ones.copy(), ones.copy(), np.empty(p)
    value = 0.0
    for i in range(rows[0], rows[1]):
        for k in range(n_classes):
            z[k] = c[0] * planes[0, i, k]
        for j in range(1, p):
            factor = c[j]
            if factor != 0.0:
                for k in range(n_classes):
                    z[k] += factor * planes[j, i, k]
        top = _largest(z)
        _exp_of_differences(z, top, shares)
        total = _product(shares, ones)
        value += top + log_of(total)
        for k in range(n_classes):
            shares[k] /= total
        for j in range(p):
            own = planes[j, i]
            for k in range(n_classes):
                weighted[k] = shares[k] * own[k]
            means[j] = _product(weighted, ones)
            first[j] += means[j]
            for other in range(j + 1):
                second[j, other] += _product(weighted, planes[other, i])
                second[j, other] -= means[j] * means[other]
    return value
