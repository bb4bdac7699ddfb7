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
from conformix.kernels.host.compiled import compiled, inner, regrouped

LARGEST = float(np.finfo(np.float64).max)
SMALLEST_BITS, LARGEST_BITS = (
    int(np.float64(value).view(np.int64)) for value in (SMALLEST_NORMAL, LARGEST)
)
# Numbers whose entries of the tables are looked up before they are worked on: a processor gathers
# slowly, and multiplies meanwhile only where nothing waits for what it gathers.
AT_ONCE = 256


@inner
def _whole(x: float) -> Any:
    """Return k of the exponential, in its last bits."""
    return np.float64(x * PER_UNIT + SHIFT).view(np.int64)


@inner
def _scale(k: int, lift: int) -> Any:
    bits = ROOT_BITS[k & (SEGMENTS - 1)] + (((k & -SEGMENTS) + lift) << 45)
    return np.int64(bits).view(np.float64)


@inner
def _beyond(x: float, tail: float) -> float:
    """Return c of the exponential."""
    turns = (x * PER_UNIT + SHIFT) - SHIFT
    r = (x - turns * STEP) - turns * STEP_REST
    square = r * r
    series = (0.5 + r * E3) + square * ((E4 + r * E5) + square * E6)
    return r + (tail + square * series)


@inner
def _far(x: float) -> float:
    if math.isnan(x):
        return x
    near = min(max(x, EXP_LOW), EXP_HIGH)
    k = _whole(near)
    c = _beyond(near, TAILS[k & (SEGMENTS - 1)])
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
    if not NEAR_LOW <= x <= NEAR_HIGH:
        return _far(x)
    k = _whole(x)
    scale = _scale(k, 0)
    return scale + scale * _beyond(x, TAILS[k & (SEGMENTS - 1)])


@inner
def _centre(bits: Any) -> Any:
    """Return the place of a number in the tables of the logarithm."""
    return ((bits - FIRST_BITS) >> WITHIN) & (CENTRES - 1)


@inner
def _log(x: float, lift: int, c: float, log_c: float, log_c_rest: float) -> float:
    """Return ``log(x) - lift log 2`` of a normal number, with the entries of its centre."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits - FIRST_BITS) >> FRACTION
    m_bits = bits - (exponent << FRACTION)
    m = np.int64(m_bits).view(np.float64)
    upper = np.int64(m_bits & ~LOW_BITS).view(np.float64)
    first, second = upper * c - 1.0, (m - upper) * c
    r = first + second
    r_rest = second - (r - first)
    e = float(exponent - lift)
    h = e * LN2_UPPER + log_c
    rest = e * LN2_REST + log_c_rest
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
    lift = 0
    if not SMALLEST_NORMAL <= x <= LARGEST:
        if x > LARGEST:
            return x
        if not x > 0:
            return -math.inf if x == 0 else math.nan
        x, lift = x * 2.0**SUBNORMAL_LIFT, SUBNORMAL_LIFT
    place = _centre(np.float64(x).view(np.int64))
    return _log(x, lift, INVERSES[place], LOGS[place], LOGS_REST[place])


@inner
def _exp_of_differences(values: FloatArray, top: float, out: FloatArray, room: FloatArray) -> None:
    """Write ``exp(values - top)`` to `out`, which may be the same array.

    `room` is for three rows of `AT_ONCE` numbers.
    """
    tails, scales, numbers = room[0], room[1], room[2]
    for start in range(0, values.size, AT_ONCE):
        n = min(AT_ONCE, values.size - start)
        some, powers = values[start : start + n], out[start : start + n]
        near = True
        for i in range(n):
            x = some[i] - top
            near &= (x >= NEAR_LOW) & (x <= NEAR_HIGH)
            k = _whole(x)
            tails[i], scales[i], numbers[i] = TAILS[k & (SEGMENTS - 1)], _scale(k, 0), x
        if near:
            for i in range(n):
                powers[i] = scales[i] + scales[i] * _beyond(numbers[i], tails[i])
        else:
            for i in range(n):
                powers[i] = exp_of(some[i] - top)


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
    _exp_of_differences(values, 0.0, out, np.empty((3, AT_ONCE)))


@inner
def _log_into(values: FloatArray, out: FloatArray, room: FloatArray) -> None:
    """Write log of `values` to `out`, with `room` for four rows of `AT_ONCE` numbers."""
    inverses, logs, rests, numbers = room[0], room[1], room[2], room[3]
    for start in range(0, values.size, AT_ONCE):
        n = min(AT_ONCE, values.size - start)
        some, own = values[start : start + n], out[start : start + n]
        outside = np.int64(0)  # negative where one of these is: in their sign bits
        for i in range(n):
            bits = np.float64(some[i]).view(np.int64)
            outside |= bits | (bits - SMALLEST_BITS) | (LARGEST_BITS - bits)
            place = _centre(bits)
            inverses[i], logs[i], rests[i] = INVERSES[place], LOGS[place], LOGS_REST[place]
            numbers[i] = some[i]
        if outside >= 0:
            for i in range(n):
                own[i] = _log(numbers[i], 0, inverses[i], logs[i], rests[i])
        else:
            for i in range(n):
                own[i] = log_of(some[i])


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
    _log_into(values, out, np.empty((4, AT_ONCE)))


@inner
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


@regrouped
def _added_up(numbers: FloatArray) -> float:
    """Return the sum of numbers that has no rounding in any order."""
    total = 0.0
    for i in range(numbers.size):
        total += numbers[i]
    return total


@inner
def _sum(powers: FloatArray, coarse: float, fine: float, room: FloatArray) -> float:
    """Return the sum of numbers in [0, 1]; it is exact but for its last rounding, in any order."""
    upper, lower = room[0], room[1]
    total = rest = 0.0
    for start in range(0, powers.size, AT_ONCE):
        n = min(AT_ONCE, powers.size - start)
        some = powers[start : start + n]
        for i in range(n):
            upper[i] = (some[i] + coarse) - coarse
            lower[i] = ((some[i] - upper[i]) + fine) - fine
        total += _added_up(upper[:n])
        rest += _added_up(lower[:n])
    return total + rest


@compiled
def _softmax(
    logits: FloatArray, out: FloatArray, log_sums: FloatArray, coarse: float, fine: float
) -> None:
    room = np.empty((3, AT_ONCE))
    for row in range(logits.shape[0]):
        powers, top = out[row], _largest(logits[row])
        _exp_of_differences(logits[row], top, powers, room)
        total = _sum(powers, coarse, fine, room)
        log_sums[row, 0] = top + log_of(total)
        for label in range(logits.shape[1]):
            powers[label] /= total


def softmax_into(logits: FloatArray, out: FloatArray, log_sums: FloatArray | None = None) -> None:
    """Write the softmax of every row of finite float64 `logits` (n, K) to `out`, also in place.

    And ``log sum exp`` of the row, which is had on the way, to `log_sums` (n, 1), if given.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0]])
    >>> softmax_into(x, x)
    >>> x
    array([[0.5, 0.5]])
    """
    sums = np.empty((len(logits), 1)) if log_sums is None else log_sums
    _softmax(logits, out, sums, *cuts(logits.shape[1]))


@compiled
def _log_sums(logits: FloatArray, out: FloatArray, coarse: float, fine: float) -> None:
    room, powers = np.empty((3, AT_ONCE)), np.empty(logits.shape[1])
    for row in range(logits.shape[0]):
        top = _largest(logits[row])
        _exp_of_differences(logits[row], top, powers, room)
        out[row, 0] = top + log_of(_sum(powers, coarse, fine, room))


def log_sum_exp_into(logits: FloatArray, out: FloatArray) -> None:
    """Write ``log sum exp`` of every row of finite float64 `logits` (n, K) to `out` (n, 1).

    Examples
    --------
    >>> out = np.empty((1, 1))
    >>> log_sum_exp_into(np.array([[0.0, -np.inf]]), out)
    >>> out
    array([[0.]])
    """
    _log_sums(logits, out, *cuts(logits.shape[1]))
