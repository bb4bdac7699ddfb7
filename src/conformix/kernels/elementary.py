"""Exponential, logarithm and softmax made of exactly rounded operations: the same bits everywhere.

Libraries round `exp` and `log` as they like, and differently from one processor to the next. Here
both are tables, products, sums and shifts of bits, one operation after the other and never fused.
IEEE 754 fixes every bit of each, so NumPy, numba (`conformix.kernels.host.elementary`), PyTorch and
Triton (`conformix.kernels.device.elementary`) agree on every processor. The tables come out of
whole-number arithmetic. Assumed are rounding to nearest and subnormal numbers that are not flushed
to zero: what IEEE prescribes, and every one of these libraries does unless told otherwise.

**exp.** With N = 128 and k the whole number nearest to ``x N / ln 2``, ``x = k ln 2 / N + r`` and
``|r| < 0.0028``. The product of k and the upper part of ``ln 2 / N`` is exact, and so is its
difference from x. With ``k = N m + j`` and S the double nearest to ``2^(m + j/N) = S (1 + tail)``

    exp(x) = S + S c,    c = r + (tail + r^2 (1/2 + r/6 + ... + r^4/720)).

*Accuracy.* c is below 2^-8.5, so the roundings of r, of c and of S c are each at most 2^-9 units in
the last place of the result; with the last rounding the error is below 0.507 units, 0.5 being a
correctly rounded result. Below the normal numbers a power of two is taken out first, and the result
is rounded once, to a multiple of 2^-1074.

*Monotone.* Take one segment, one k. r is the rounded difference of x and a constant, and S + S c is
c times a constant plus a constant, rounded twice: both rise with their argument, as rounding does.
Between them, ``r^2 (...)`` is off by less than 2^-51 r^2 and the tail is added with an error below
2^-70, while two different r differ by at least 2^-62 (where k = 0 the tail is 0, and they differ by
at least 2^-53 |r|). So the sum rises with r before it is rounded, and after. k rises with x. What
remains are the 268,872 places where one segment meets the next: the tests compare the numbers at
every one of them. Below the normal numbers, the sum that is rounded is carried in two parts with an
error below 2^-106, and different S c differ by more than 2^-99 in the same units.

**log.** ``x = 2^e m`` with m in [0.707, 1.414), and c from a table of 256, a number of twelve bits
next to 1/m (1 itself around m = 1). ``m c - 1`` is exact as a sum r + r' of two floats, m being
multiplied in two pieces, and

    log(x) = e ln 2 - log c + log1p(r + r'),    log1p(r) = r + r^2 (-1/2 + r/3 - ... - r^6/8).

The upper parts of ``e ln 2 - log c`` add up exactly, to h; the rounding error of h + r is carried.

*Accuracy.* All but the last rounding together stay below 0.01 units in the last place: 0.51 in all.

*Monotone.* Before the last rounding the error is below 2^-66. From one double to the next x grows
by at least 2^-53 of itself, so log(x) grows by more than 2^-54, and the unrounded values rise.

**Sums of a row.** Each power is cut into a multiple of one power of two and a smaller multiple of
another, so coarse that sums of either are exact, hence the same in any order and on any number of
cores. The two sums are added: one rounding. Permuting the labels permutes the results bit for bit.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, as_float64
from conformix.kernels.blocks import row_blocks
from conformix.kernels.twins import loops

# --- whole-number arithmetic: multiples of 2^-DIGITS ---

DIGITS = 192


def _log_ratio(a: int, b: int) -> int:
    """Return ``log(a / b)`` times 2^DIGITS, from ``2 atanh((a - b) / (a + b))``."""
    power = t = ((a - b) << DIGITS) // (a + b)
    square = (t * t) >> DIGITS
    total, n = 0, 1
    while power not in (0, -1):
        total += power // n
        power = (power * square) >> DIGITS
        n += 2
    return 2 * total


def _split(number: int, places: int) -> tuple[float, float]:
    """Return a number as a multiple of 2^-places and the double nearest to the rest."""
    low = DIGITS - places
    upper = ((number + (1 << (low - 1))) >> low) << low
    return upper / (1 << DIGITS), (number - upper) / (1 << DIGITS)


# --- exp ---

SEGMENTS = 128
LN2 = _log_ratio(2, 1)
# Adding and taking away 1.5 * 2^52 rounds to whole numbers; its last bits are then the number.
SHIFT = 1.5 * 2.0**52
PER_UNIT = (SEGMENTS << DIGITS) / LN2
# The upper part has 35 bits: times k, of 18 bits, it is exact.
STEP, STEP_REST = _split(LN2 // SEGMENTS, 42)
# Outside, the result or a product on the way to it leaves the range of normal numbers.
NEAR_LOW, NEAR_HIGH = -690.0, 709.0
# Beyond, exp is 0 or infinite.
EXP_LOW, EXP_HIGH = -746.0, 710.0
SMALLEST_NORMAL = 2.0**-1022
LIFT = 1022
# One over the factorials of 3 to 6.
E3, E4, E5, E6 = 1 / 6, 1 / 24, 1 / 120, 1 / 720


def _roots() -> tuple[IntArray, FloatArray]:
    """Return the doubles nearest to ``2^(j/N)`` as bits, and what they lack, relative to them."""
    root = 2 << DIGITS
    for _ in range(SEGMENTS.bit_length() - 1):
        root = math.isqrt(root << DIGITS)
    exact = 1 << DIGITS
    nearest, rest = np.empty(SEGMENTS), np.empty(SEGMENTS)
    for j in range(SEGMENTS):
        nearest[j] = exact / (1 << DIGITS)
        double = int(nearest[j] * 2.0**52) << (DIGITS - 52)
        rest[j] = (exact - double) / double
        exact = (exact * root) >> DIGITS
    return nearest.view(np.int64), rest


ROOT_BITS, TAILS = _roots()

# --- log ---

CENTRES = 256
# m starts at 1.4140625 / 2, so that segments are those of the first eight bits of the fraction.
FIRST_BITS = 0x3FE6A00000000000
FRACTION = 52
WITHIN = FRACTION - 8
LOW_BITS = 0xFFF  # of m: without them, m times a number of twelve bits is exact
LN2_UPPER, LN2_REST = _split(LN2, 42)
SUBNORMAL_LIFT = 54
L3, L5, L7 = 1 / 3, 1 / 5, 1 / 7
L6 = 1 / 6


def _centres() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return numbers c of twelve bits next to 1/m, and ``-log c`` in two parts."""
    one = 1 << 11
    inverses, upper, rest = np.empty(CENTRES), np.empty(CENTRES), np.empty(CENTRES)
    starts = (FIRST_BITS + (np.arange(CENTRES + 1, dtype=np.int64) << WITHIN)).view(np.float64)
    for i, (start, stop) in enumerate(pairwise(starts)):
        touches_one = 1.0 in (start, stop)
        c = one if touches_one else round(2 * one / (start + stop))
        inverses[i] = c / one
        upper[i], rest[i] = _split(_log_ratio(one, c), 42)
    return inverses, upper, rest


INVERSES, LOGS, LOGS_REST = _centres()


# --- one formula for arrays and tensors ---


class Tables(NamedTuple):
    """The tables where the numbers are, and how that library calls things."""

    xp: ModuleType
    whole: Any
    real: Any
    branches: bool  # whether a look at the numbers, to leave work out, costs little
    root_bits: Any
    tails: Any
    inverses: Any
    logs: Any
    logs_rest: Any


@cache
def host_tables() -> Tables:
    """Return the tables as NumPy arrays."""
    arrays = (ROOT_BITS, TAILS, INVERSES, LOGS, LOGS_REST)
    return Tables(np, np.int64, np.float64, True, *arrays)


def exponential(values: Any, tables: Tables) -> Any:
    """Return exp of a float64 array or tensor, operation by operation."""
    x = tables.xp.clip(values, EXP_LOW, EXP_HIGH)
    shifted = x * PER_UNIT + SHIFT
    k = shifted.view(tables.whole)
    turns = shifted - SHIFT
    r = (x - turns * STEP) - turns * STEP_REST
    place = k & (SEGMENTS - 1)
    square = r * r
    series = (0.5 + r * E3) + square * ((E4 + r * E5) + square * E6)
    c = r + (tables.tails[place] + square * series)
    base = tables.root_bits[place]
    turn = k & -SEGMENTS
    scale = (base + (turn << 45)).view(tables.real)
    near = scale + scale * c
    inside = (x >= NEAR_LOW) & (x <= NEAR_HIGH)
    if tables.branches and bool(inside.all()):
        return near
    return tables.xp.where(inside, near, _far(x, base, turn, c, tables))


def _far(x: Any, base: Any, turn: Any, c: Any, tables: Tables) -> Any:
    """Return ``S + S c`` where a power of two is taken out first and multiplied in at last."""
    where = tables.xp.where
    small = x < 0
    lift = where(small, turn + LIFT * SEGMENTS, turn - SEGMENTS)
    scale = (base + (lift << 45)).view(tables.real)
    more = scale * c
    total = scale + more
    # Below the normal numbers: rounded once, to a multiple of 2^-1074, by way of 1 + total.
    lost = (scale - total) + more
    above = 1.0 + total
    once = (above + (((1.0 - above) + total) + lost)) - 1.0
    low = where(total < 1.0, once, total) * SMALLEST_NORMAL
    return where(small, low, total * 2.0)


def logarithm(values: Any, tables: Tables) -> Any:
    """Return log of a float64 array or tensor, operation by operation."""
    where = tables.xp.where
    subnormal = values < SMALLEST_NORMAL
    x = where(subnormal, values * 2.0**SUBNORMAL_LIFT, values)
    bits = x.view(tables.whole)
    offset = bits - FIRST_BITS
    place = (offset >> WITHIN) & (CENTRES - 1)
    exponent = offset >> FRACTION
    m_bits = bits - (exponent << FRACTION)
    m = m_bits.view(tables.real)
    upper = (m_bits & ~LOW_BITS).view(tables.real)
    c = tables.inverses[place]
    first, second = upper * c - 1.0, (m - upper) * c
    r = first + second
    r_rest = second - (r - first)
    e = as_float64(where(subnormal, exponent - SUBNORMAL_LIFT, exponent))
    h = e * LN2_UPPER + tables.logs[place]
    rest = e * LN2_REST + tables.logs_rest[place]
    square = r * r
    series = (-0.5 + r * L3) + square * (
        (-0.25 + r * L5) + square * ((r * L7 - L6) - square * 0.125)
    )
    total = h + r
    lost = r - (total - h)
    y = total + (lost + (rest + (r_rest + square * series)))
    positive = (values > 0) & (values < math.inf)
    if tables.branches and bool(positive.all()):
        return y
    # log(0) is -inf, log(inf) is inf, and of negative numbers and nan it is nan.
    outside = where(values == 0, -math.inf, where(values > 0, values, math.nan))
    return where(positive, y, outside)


def cuts(n_classes: int) -> tuple[float, float]:
    """Return what is added and taken away to cut a power into two exactly addable pieces.

    With b bits in K, pieces are multiples of 2^(b-52) up to 1, then of 2^(2b-106) up to 2^(b-53):
    a sum of K of either has at most 53 bits. What is left out is less than K 2^(2b-107).
    """
    b = n_classes.bit_length()
    return 1.5 * 2.0**b, 1.5 * 2.0 ** (2 * b - 54)


def pieces(powers: Any) -> tuple[Any, Any]:
    """Return rows of numbers in [0, 1] as two pieces each, whose sums are exact in any order."""
    coarse, fine = cuts(powers.shape[1])
    upper = (powers + coarse) - coarse
    return upper, ((powers - upper) + fine) - fine


def sums_of(powers: Any) -> Any:
    """Return the sums (n, 1) of rows of numbers in [0, 1], the same bits in any order."""
    upper, lower = pieces(powers)
    return upper.sum(1)[:, None] + lower.sum(1)[:, None]


def running_sums_of(powers: Any) -> Any:
    """Return the sums up to every place of rows of numbers in [0, 1]; they never fall.

    The same bits from a sum one by one and from the parallel scan of a device. The accuracy is
    absolute: numbers below 2^(2b-107) count as 0 (`cuts`), which is 1e-26 for K = 1,000.
    """
    upper, lower = pieces(powers)
    return upper.cumsum(1) + lower.cumsum(1)


# --- arrays: NumPy, or the compiled loops where they are loaded ---

# Numbers that the many passes of a function work on at once: their arrays stay in the cache.
AT_ONCE = 2**12


def exp(values: Any) -> FloatArray:
    """Return exp of an array as float64, the same bits everywhere; no overflow warns.

    Examples
    --------
    >>> exp([0.0, 1.0, -np.inf])
    array([1.        , 2.71828183, 0.        ])
    """
    return _elementwise(
        exponential, lambda loop, numbers, out: loop.exp_into(numbers, out), "exp_into", values
    )


def log(values: Any, least: float = -math.inf) -> FloatArray:
    """Return log of an array as float64, the same bits everywhere; log(0) is -inf, silently.

    Of values below `least`, that of this one.

    Examples
    --------
    >>> log([1.0, 10.0, 0.0])
    array([0.        , 2.30258509,       -inf])
    """
    return _elementwise(
        lambda block, tables: logarithm(np.maximum(block, least), tables),
        lambda loop, numbers, out: loop.log_into(numbers, out, least),
        "log_into",
        values,
    )


def softmax(logits: Any, out: FloatArray | None = None) -> FloatArray:
    """Return rows (n, K) of logits as probabilities, the same bits everywhere.

    In `out`, where there is one, which may be the logits.

    Permuting the labels of a row permutes the result, and of two logits in a row the larger one has
    no smaller a probability.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [1e308, -1e308]])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    numbers = np.asarray(logits, dtype=np.float64)
    compiled = loops("elementary", numbers.size, "softmax_into")
    if compiled is not None:
        out = np.empty(numbers.shape) if out is None else out
        compiled.softmax_into(_for_loops(numbers), out)
        return out
    powers, _ = _powers(numbers)
    return np.divide(powers, sums_of(powers), out=out)


def softmax_and_log_sums(logits: Any) -> tuple[FloatArray, FloatArray]:
    """Return the `softmax` of rows (n, K), and their `log_sum_exp` (n, 1), by one exponential.

    Examples
    --------
    >>> softmax_and_log_sums([[0.0, 0.0]])
    (array([[0.5, 0.5]]), array([[0.69314718]]))
    """
    numbers = np.asarray(logits, dtype=np.float64)
    compiled = loops("elementary", numbers.size, "softmax_into")
    if compiled is not None:
        out, log_sums = np.empty(numbers.shape), np.empty((len(numbers), 1))
        compiled.softmax_into(_for_loops(numbers), out, log_sums)
        return out, log_sums
    powers, top = _powers(numbers)
    sums = sums_of(powers)
    return powers / sums, top + log(sums)


def log_sum_exp(logits: Any) -> FloatArray:
    """Return ``log sum exp`` of rows (n, K) of logits, shape (n, 1).

    Examples
    --------
    >>> log_sum_exp([[0.0, 0.0]])
    array([[0.69314718]])
    """
    numbers = np.asarray(logits, dtype=np.float64)
    compiled = loops("elementary", numbers.size, "log_sum_exp_into")
    if compiled is not None:
        out = np.empty((len(numbers), 1))
        compiled.log_sum_exp_into(_for_loops(numbers), out)
        return out
    powers, top = _powers(numbers)
    return top + log(sums_of(powers))


def _for_loops(numbers: FloatArray) -> FloatArray:
    """Return numbers one after the other, in memory that may be written.

    Code for other memory would be compiled apart.
    """
    numbers = np.ascontiguousarray(numbers)
    return numbers if numbers.flags.writeable else numbers.copy()


def _powers(logits: Any) -> tuple[FloatArray, FloatArray]:
    numbers = np.asarray(logits, dtype=np.float64)
    top = numbers.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # the difference is -inf then, whose exp is 0
        return exp(numbers - top), top


def _elementwise(plain: Any, compiled: Any, name: str, values: Any) -> FloatArray:
    numbers = np.asarray(values, dtype=np.float64)
    flat = np.ascontiguousarray(numbers).reshape(-1)
    out = np.empty(flat.shape)
    loop = loops("elementary", flat.size, name)
    if loop is not None:
        compiled(loop, _for_loops(flat), out)
    else:
        with np.errstate(all="ignore"):
            for block in row_blocks(len(flat), 1, AT_ONCE):
                out[block] = plain(flat[block], host_tables())
    return out.reshape(numbers.shape)
