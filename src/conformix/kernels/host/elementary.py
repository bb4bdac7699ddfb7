"""`conformix.kernels.elementary` as compiled loops: the same operations, number by number.

numba lets the compiler fuse products with sums only under ``fastmath``, which is off.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.elementary import (
    CENTRES,
    E3,
    E4,
    E5,
    E6,
    EXP_HIGH,
    EXP_LOW,
    FIRST_BITS,
    FRACTION,
    INVERSES,
    L3,
    L5,
    L6,
    L7,
    LIFT,
    LN2_REST,
    LN2_UPPER,
    LOGS,
    LOGS_REST,
    LOW_BITS,
    NEAR_HIGH,
    NEAR_LOW,
    PER_UNIT,
    ROOT_BITS,
    SEGMENTS,
    SHIFT,
    SMALLEST_NORMAL,
    STEP,
    STEP_REST,
    SUBNORMAL_LIFT,
    TAILS,
    WITHIN,
    cuts,
)
from conformix.kernels.host.compiled import compiled

LARGEST = float(np.finfo(np.float64).max)
# Numbers that are looked at once more, one by one, where any of them is out of the ordinary.
AT_ONCE = 512


@compiled
def _reduced(x: float) -> Any:
    """Return k and c of the exponential."""
    shifted = x * PER_UNIT + SHIFT
    k = np.float64(shifted).view(np.int64)
    turns = shifted - SHIFT
    r = (x - turns * STEP) - turns * STEP_REST
    square = r * r
    series = (0.5 + r * E3) + square * ((E4 + r * E5) + square * E6)
    return k, r + (TAILS[k & (SEGMENTS - 1)] + square * series)


@compiled
def _scale(k: int, lift: int) -> Any:
    bits = ROOT_BITS[k & (SEGMENTS - 1)] + (((k & -SEGMENTS) + lift) << 45)
    return np.int64(bits).view(np.float64)


@compiled
def _near(x: float) -> float:
    k, c = _reduced(x)
    scale = _scale(k, 0)
    return scale + scale * c


@compiled
def _far(x: float) -> float:
    if math.isnan(x):
        return x
    k, c = _reduced(min(max(x, EXP_LOW), EXP_HIGH))
    small = x < 0
    scale = _scale(k, LIFT * SEGMENTS if small else -SEGMENTS)
    more = scale * c
    total = scale + more
    if not small:
        return total * 2.0
    if total < 1.0:
        lost = (scale - total) + more
        above = 1.0 + total
        total = (above + (((1.0 - above) + total) + lost)) - 1.0
    return total * SMALLEST_NORMAL


@compiled
def exp_of(x: float) -> float:
    """Return exp of one number.

    Examples
    --------
    >>> exp_of(0.0)
    1.0
    """
    return _near(x) if NEAR_LOW <= x <= NEAR_HIGH else _far(x)


@compiled
def _log(x: float, lift: int) -> float:
    """Return ``log(x) - lift log 2`` of a normal number."""
    bits = np.float64(x).view(np.int64)
    offset = bits - FIRST_BITS
    place = (offset >> WITHIN) & (CENTRES - 1)
    exponent = offset >> FRACTION
    m_bits = bits - (exponent << FRACTION)
    m = np.int64(m_bits).view(np.float64)
    upper = np.int64(m_bits & ~LOW_BITS).view(np.float64)
    c = INVERSES[place]
    first, second = upper * c - 1.0, (m - upper) * c
    r = first + second
    r_rest = second - (r - first)
    e = float(exponent - lift)
    h = e * LN2_UPPER + LOGS[place]
    rest = e * LN2_REST + LOGS_REST[place]
    square = r * r
    series = (-0.5 + r * L3) + square * (
        (-0.25 + r * L5) + square * ((r * L7 - L6) - square * 0.125)
    )
    total = h + r
    lost = r - (total - h)
    return total + (lost + (rest + (r_rest + square * series)))


@compiled
def log_of(x: float) -> float:
    """Return log of one number.

    Examples
    --------
    >>> log_of(1.0), log_of(0.0)
    (0.0, -inf)
    """
    if SMALLEST_NORMAL <= x <= LARGEST:
        return _log(x, 0)
    if x > LARGEST:
        return x
    if x > 0:
        return _log(x * 2.0**SUBNORMAL_LIFT, SUBNORMAL_LIFT)
    return -math.inf if x == 0 else math.nan


@compiled
def _exp_of_differences(values: FloatArray, top: float, out: FloatArray) -> None:
    """Write ``exp(values - top)`` to `out`; twice as fast where that is another array."""
    for start in range(0, values.size, AT_ONCE):
        stop = min(values.size, start + AT_ONCE)
        near = True
        for i in range(start, stop):
            x = values[i] - top
            near &= (x >= NEAR_LOW) & (x <= NEAR_HIGH)
        if near:
            for i in range(start, stop):
                out[i] = _near(values[i] - top)
        else:
            for i in range(start, stop):
                out[i] = exp_of(values[i] - top)


@compiled
def exp_into(values: FloatArray, out: FloatArray) -> None:
    """Write exp of float64 `values` (n,) to `out`, which may be the same array.

    Examples
    --------
    >>> x = np.array([0.0, -np.inf])
    >>> exp_into(x, x)
    >>> x
    array([1., 0.])
    """
    _exp_of_differences(values, 0.0, out)


@compiled
def log_into(values: FloatArray, out: FloatArray) -> None:
    """Write log of float64 `values` (n,) to `out`, which may be the same array.

    Examples
    --------
    >>> x = np.array([1.0, 0.0])
    >>> log_into(x, x)
    >>> x
    array([  0., -inf])
    """
    for start in range(0, values.size, AT_ONCE):
        stop = min(values.size, start + AT_ONCE)
        normal = True
        for i in range(start, stop):
            normal &= (values[i] >= SMALLEST_NORMAL) & (values[i] <= LARGEST)
        if normal:
            for i in range(start, stop):
                out[i] = _log(values[i], 0)
        else:
            for i in range(start, stop):
                out[i] = log_of(values[i])


@compiled
def _largest(row: FloatArray) -> float:
    """Return the largest entry; in four lanes, which need not wait for each other."""
    a = b = c = d = row[0]
    for i in range(0, row.size - 3, 4):
        a = row[i] if row[i] > a else a
        b = row[i + 1] if row[i + 1] > b else b
        c = row[i + 2] if row[i + 2] > c else c
        d = row[i + 3] if row[i + 3] > d else d
    for i in range(row.size - row.size % 4, row.size):
        a = row[i] if row[i] > a else a
    return max(a, b, c, d)


@compiled
def _sum(powers: FloatArray, coarse: float, fine: float) -> float:
    """Return the sum of numbers in [0, 1]; it is exact but for its last rounding, in any order."""
    a = b = c = d = 0.0
    e = f = g = h = 0.0
    for i in range(0, powers.size - 3, 4):
        first = (powers[i] + coarse) - coarse
        second = (powers[i + 1] + coarse) - coarse
        third = (powers[i + 2] + coarse) - coarse
        fourth = (powers[i + 3] + coarse) - coarse
        a += first
        b += second
        c += third
        d += fourth
        e += ((powers[i] - first) + fine) - fine
        f += ((powers[i + 1] - second) + fine) - fine
        g += ((powers[i + 2] - third) + fine) - fine
        h += ((powers[i + 3] - fourth) + fine) - fine
    for i in range(powers.size - powers.size % 4, powers.size):
        first = (powers[i] + coarse) - coarse
        a += first
        e += ((powers[i] - first) + fine) - fine
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


@compiled
def _softmax(logits: FloatArray, out: FloatArray, coarse: float, fine: float) -> None:
    for row in range(logits.shape[0]):
        powers = out[row]
        _exp_of_differences(logits[row], _largest(logits[row]), powers)
        total = _sum(powers, coarse, fine)
        for label in range(logits.shape[1]):
            powers[label] /= total


def softmax_into(logits: FloatArray, out: FloatArray) -> None:
    """Write the softmax of every row of finite float64 `logits` (n, K) to `out`, also in place.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0]])
    >>> softmax_into(x, x)
    >>> x
    array([[0.5, 0.5]])
    """
    _softmax(logits, out, *cuts(logits.shape[1]))
