"""Compiled sums of a smooth stand-in for the set size: sigmoids instead of steps."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import allocating

# Beyond this many widths a sigmoid is a step to the last bit.
FAR = 36.0


@allocating
def sigmoid_sums(
    planes: FloatArray, weights: FloatArray, threshold: float, width: float, sums: FloatArray
) -> None:
    """Add to ``sums`` (d + 2,) what the smooth count of some values and its slopes are made of.

    With ``c = sum_j w_j s_j`` and ``p = 1 / (1 + exp(-(c - threshold) / width))``: ``sums[0]``
    gets ``sum p``, ``sums[1]`` gets ``sum p (1 - p) / width``, and ``sums[2 + j]`` the same
    sum with every term times ``s_j``; all in the order of the values ``planes`` (d, P).
    """
    d, size = planes.shape
    values = np.empty(size)
    for i in range(size):
        values[i] = weights[0] * planes[0, i]
    for j in range(1, d):
        for i in range(size):
            values[i] += weights[j] * planes[j, i]
    near = np.empty(size, dtype=np.int64)
    n_near = 0
    for i in range(size):
        z = (values[i] - threshold) / width
        if z > FAR:
            sums[0] += 1.0
        elif z > -FAR:
            p = 1.0 / (1.0 + np.exp(-z))
            sums[0] += p
            values[i] = p * (1.0 - p) / width
            near[n_near] = i
            n_near += 1
    for e in range(n_near):
        sums[1] += values[near[e]]
    for j in range(d):
        total = 0.0
        for e in range(n_near):
            i = near[e]
            total += values[i] * planes[j, i]
        sums[2 + j] += total
