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
from conformix.kernels.host import tables
from conformix.kernels.host.compiled import allocating, compiled, inner, regrouped

LARGEST = float(np.finfo(np.float64).max)
MOST = np.iinfo(np.int64).max
SMALLEST_BITS, LARGEST_BITS = (
    int(np.float64(value).view(np.int64)) for value in (SMALLEST_NORMAL, LARGEST)
)
# Numbers that are worked on at once, pass by pass, and the rows of so many that need room for it:
# their entries of the tables are read before anybody waits for them.
AT_ONCE, LINES = 256, 4
# The tables by the bits that say which row of them a number asks for.
_read_roots = tables.reader(np.column_stack([ROOT_BITS.view(np.float64), TAILS]), 0)
_read_logs = tables.reader(
    np.roll(np.column_stack([INVERSES, LOGS, LOGS_REST]), FIRST_BITS >> WITHIN, axis=0), WITHIN
)


@inner
def _whole(x: float) -> Any:
    """Return k of the exponential, in its last bits."""
    return np.float64(x * PER_UNIT + SHIFT).view(np.int64)


@inner
def _scale(root: Any, k: Any, lift: int) -> Any:
    bits = root + (((k & -SEGMENTS) + lift) << 45)
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
    scale = _scale(ROOT_BITS[k & (SEGMENTS - 1)], k, LIFT * SEGMENTS if small else -SEGMENTS)
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
    scale = _scale(ROOT_BITS[k & (SEGMENTS - 1)], k, 0)
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

    `room` is for `LINES` rows of `AT_ONCE` numbers.
    """
    roots, tails, wholes, numbers = room[0], room[1], room[2], room[3]
    for start in range(0, values.size, AT_ONCE):
        n = min(AT_ONCE, values.size - start)
        some, powers = values[start : start + n], out[start : start + n]
        near = True
        for i in range(n):
            x = some[i] - top
            near &= (x >= NEAR_LOW) & (x <= NEAR_HIGH)
            wholes[i], numbers[i] = x * PER_UNIT + SHIFT, x
        if near:
            for i in range(0, n, tables.AT_ONCE):
                _read_roots(wholes, i, room)
            for i in range(n):
                k = np.float64(wholes[i]).view(np.int64)
                scale = _scale(np.float64(roots[i]).view(np.int64), k, 0)
                powers[i] = scale + scale * _beyond(numbers[i], tails[i])
        else:
            for i in range(n):
                powers[i] = exp_of(some[i] - top)


@allocating
def exp_into(values: FloatArray, out: FloatArray) -> None:
    """Write exp of float64 `values` (n,) to `out`, which may be the same array.

    Examples
    --------
    >>> x = np.array([0.0, -np.inf])
    >>> exp_into(x, x)
    >>> x
    array([1., 0.])
    """
    _exp_of_differences(values, 0.0, out, np.empty((LINES, AT_ONCE)))


@inner
def _log_into(
    values: FloatArray, least: float, more: float, out: FloatArray, room: FloatArray
) -> None:
    """Write ``log(max(values, least) + more)`` to `out`, which may be the same array.

    `room` is for `LINES` rows of `AT_ONCE` numbers.
    """
    inverses, logs, rests, numbers = room[0], room[1], room[2], room[3]
    for start in range(0, values.size, AT_ONCE):
        n = min(AT_ONCE, values.size - start)
        some, own = values[start : start + n], out[start : start + n]
        outside = np.int64(0)  # negative where one of these is: in their sign bits
        for i in range(n):
            x = (least if some[i] < least else some[i]) + more
            bits = np.float64(x).view(np.int64)
            numbers[i] = x
            outside |= bits | (bits - SMALLEST_BITS) | (LARGEST_BITS - bits)
        if outside >= 0:
            for i in range(0, n, tables.AT_ONCE):
                _read_logs(numbers, i, room)
            for i in range(n):
                own[i] = _log(numbers[i], 0, inverses[i], logs[i], rests[i])
        else:
            for i in range(n):
                own[i] = log_of(numbers[i])


@allocating
def _logs(values: FloatArray, least: float, out: FloatArray) -> None:
    _log_into(values, least, 0.0, out, np.empty((LINES, AT_ONCE)))


def log_into(values: FloatArray, out: FloatArray, least: float = -math.inf) -> None:
    """Write log of float64 `values` (n,) to `out`, which may be the same array.

    Of values below `least`, that of this one.

    Examples
    --------
    >>> x = np.array([1.0, 0.0])
    >>> log_into(x, x)
    >>> x
    array([  0., -inf])
    """
    _logs(values, least, out)


@inner
def _rising(bits: Any) -> Any:
    """Return the bits of a number as a whole number that rises with it, and the other way round."""
    return bits ^ ((bits >> 63) & MOST)


@inner
def _largest(row: FloatArray) -> float:
    """Return the largest entry; found among whole numbers, which are compared many at a time."""
    largest = -MOST
    for i in range(row.size):
        largest = max(largest, _rising(np.float64(row[i]).view(np.int64)))
    return np.int64(_rising(largest)).view(np.float64)  # type: ignore[no-any-return]


@regrouped
def _added_up(numbers: FloatArray) -> float:
    """Return the sum of numbers that has no rounding in any order."""
    total = 0.0
    for i in range(numbers.size):
        total += numbers[i]
    return total


@inner
def _sum(powers: FloatArray, coarse: float, fine: float) -> float:
    """Return the sum of numbers in [0, 1]; it is exact but for its last rounding, in any order.

    What is left of a number that is added to `coarse`, or `fine`, stands in the last bits: the two
    pieces of `cuts` add up as whole numbers, whose order is nobody's business.
    """
    first, second = np.float64(coarse).view(np.int64), np.float64(fine).view(np.int64)
    upper = lower = np.int64(0)
    for i in range(powers.size):
        above = powers[i] + coarse
        below = (powers[i] - (above - coarse)) + fine
        upper += np.float64(above).view(np.int64) - first
        lower += np.float64(below).view(np.int64) - second
    # Both starts are one and a half times a power of two, of which a last bit is the 2^52th part.
    return upper * (coarse / 1.5 * 2.0**-52) + lower * (fine / 1.5 * 2.0**-52)


@inner
def _powers(
    logits: FloatArray, n_classes: int, tops: FloatArray, out: FloatArray, room: FloatArray
) -> None:
    """Write ``exp(z - top)`` of rows, one after the other (n K,), to `out`, and their largest (n,).

    `out` may be the logits. Of all rows at once: short ones one by one would take longer.
    """
    for i in range(logits.size // n_classes):
        row = logits[i * n_classes : (i + 1) * n_classes]
        own, top = out[i * n_classes : (i + 1) * n_classes], _largest(row)
        for k in range(n_classes):
            own[k] = row[k] - top
        tops[i] = top
    _exp_of_differences(out, 0.0, out, room)


def rows_at_once(n_classes: int) -> int:
    """Return how many rows are worked on at once: four times `AT_ONCE` numbers, or one row."""
    return max(1, 4 * AT_ONCE // n_classes)


rows_together = inner(rows_at_once)


@allocating
def _softmax(
    logits: FloatArray, out: FloatArray, log_sums: FloatArray, coarse: float, fine: float
) -> None:
    n, n_classes = logits.shape
    room, step = np.empty((LINES, AT_ONCE)), rows_together(n_classes)
    tops, given, powers = np.empty(step), logits.ravel(), out.ravel()
    for start in range(0, n, step):
        stop = min(start + step, n)
        first, last = start * n_classes, stop * n_classes
        _powers(given[first:last], n_classes, tops, powers[first:last], room)
        for row in range(start, stop):
            total = _sum(out[row], coarse, fine)
            log_sums[row, 0] = tops[row - start] + log_of(total)
            for label in range(n_classes):
                out[row, label] /= total


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


@allocating
def _log_sums(logits: FloatArray, out: FloatArray, coarse: float, fine: float) -> None:
    n, n_classes = logits.shape
    room, step = np.empty((LINES, AT_ONCE)), rows_together(n_classes)
    tops, given, powers = np.empty(step), logits.ravel(), np.empty(step * n_classes)
    for start in range(0, n, step):
        some = min(step, n - start)
        first, numbers = start * n_classes, some * n_classes
        _powers(given[first : first + numbers], n_classes, tops, powers[:numbers], room)
        for i in range(some):
            own = powers[i * n_classes : (i + 1) * n_classes]
            out[start + i, 0] = tops[i] + log_of(_sum(own, coarse, fine))


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
