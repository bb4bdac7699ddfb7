"""Lists of score vectors as planes, and the loops that everything else is made of.

A list is a slice ``planes[:, begin:end]`` of an array ``(d, capacity)``: one contiguous plane per
score, so that every inner loop is a SIMD loop over neighbouring entries. The loops work on runs of
`RUN` entries whose intermediate values stay in the first-level cache.

`combine_run` is the one arithmetic of the engine,
``((w[0]*s[0] + w[1]*s[1]) + w[2]*s[2]) + ...`` in float64 without contraction: it decides.
`bound_run` encloses it over a cell: ``<w, s>`` stays within `radius` of the value at the centre,
up to rounding, once the linear function ``<w, r>`` has been taken out of it.

What a loop marks with 0 and 1 becomes a list of positions, eight marks at a time: read as one
word, they become a byte with one multiplication, and a table of 256 rows knows the positions of
its set bits. All eight table entries are written and the pointer moves by as many as are valid:
no branch, whatever the marks.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import inlined, inner

# work arrays: marks as words and as bytes, see `pack_marks`, positions, and (2, RUN) numbers
Desk: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]
# centre, half, slope, floor, ceiling, anchor and witness of a cell, see `sift`
CellTest: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, float, float, int, FloatArray]

RUN = 512
PROBE = 32
PROBES = 32


def make_desk() -> Desk:
    """Return the work arrays of a walk; made here, because `numpy.empty` takes long to compile."""
    words = np.empty(RUN // 8, dtype=np.uint64)
    return words, words.view(np.uint8), np.empty(RUN + 8, dtype=np.int32), np.empty((2, RUN))


@inner
def combine_run(planes: FloatArray, begin: int, weights: FloatArray, value: FloatArray) -> None:
    """Write ``combine(weights, s)`` of the entries from `begin` on into `value`."""
    n = len(value)
    w = weights[0]
    x = planes[0, begin : begin + n]
    for i in range(n):
        value[i] = w * x[i]
    for j in range(1, len(weights)):
        w = weights[j]
        x = planes[j, begin : begin + n]
        for i in range(n):
            value[i] = value[i] + w * x[i]


@inner
def bound_run(
    planes: FloatArray,
    begin: int,
    half: FloatArray,
    slope: FloatArray,
    anchor: int,
    radius: FloatArray,
) -> None:
    """Write ``sum_j half_j |s_j - slope_j|`` into `radius`; with an anchor a: of ``s_j - s_a``."""
    n = len(radius)
    radius[:] = 0.0
    origin = planes[anchor, begin : begin + n]
    for j in range(len(half)):
        h = half[j]
        c = slope[j]
        x = planes[j, begin : begin + n]
        if anchor < 0:
            for i in range(n):
                radius[i] = radius[i] + h * abs(x[i] - c)
        elif j != anchor:
            for i in range(n):
                radius[i] = radius[i] + h * abs((x[i] - origin[i]) - c)


@inner
def take(source: FloatArray, begin: int, picked: IntArray, target: FloatArray, at: int) -> None:
    """Copy the entries ``begin + picked`` of `source` to `target` from `at` on."""
    n = len(picked)
    for j in range(len(source)):
        x = source[j, begin:]
        y = target[j, at : at + n]
        for i in range(n):
            y[i] = x[picked[i]]


@inlined
def count_in(
    planes: FloatArray,
    begin: int,
    end: int,
    weights: FloatArray,
    thresholds: FloatArray,
    counts: IntArray,
    scratch: FloatArray,
) -> None:
    """Add to `counts` (m,) the numbers of entries with ``combine(weights, s) >= thresholds``."""
    if weights.shape[1] == 3:
        for i in range(0, len(weights), 2):
            last = min(i + 1, len(weights) - 1)
            one, two = _count_two(planes[:, begin:end], weights, thresholds, i, last)
            counts[i] += one
            counts[last] += two if last > i else 0
        return
    for first in range(begin, end, RUN):
        value = scratch[: min(RUN, end - first)]
        for i in range(len(weights)):
            combine_run(planes, first, weights[i], value)
            inside = 0
            for q in range(len(value)):
                inside += value[q] >= thresholds[i]
            counts[i] += inside


@inlined
def _count_two(
    planes: FloatArray, weights: FloatArray, thresholds: FloatArray, first: int, second: int
) -> tuple[int, int]:
    """Count for two weights at once, d = 3, without a pass through memory."""
    x, y, z = planes[0], planes[1], planes[2]
    a, b, c = weights[first, 0], weights[first, 1], weights[first, 2]
    p, q, r = weights[second, 0], weights[second, 1], weights[second, 2]
    low, high = thresholds[first], thresholds[second]
    one = 0
    two = 0
    for i in range(len(x)):
        one += (a * x[i] + b * y[i]) + c * z[i] >= low
        two += (p * x[i] + q * y[i]) + r * z[i] >= high
    return one, two


@inlined
def sift(
    source: FloatArray,
    begin: int,
    end: int,
    test: CellTest,
    target: FloatArray,
    at: int,
    desk: Desk,
) -> tuple[int, int]:
    """Split a list by a cell: count what is certainly in, keep what is undecided.

    An entry is certainly in if its lowest value over the cell is at least `ceiling` or if it equals
    `witness`, certainly out if its highest is below `floor`; the undecided go to `target` from `at`
    on. Returns how many are in, and how many are undecided.
    """
    words, marks, picked, scratch = desk
    n_in = 0
    free = at
    for first in range(begin, end, RUN):
        n = min(RUN, end - first)
        marks[n:] = 0
        n_in += _mark(source, first, n, test, marks, scratch)
        n_undecided = pack_marks(words, picked)
        take(source, first, picked[:n_undecided], target, free)
        free += n_undecided
    return n_in, free - at


@inlined
def count_certain(planes: FloatArray, begin: int, end: int, test: CellTest, desk: Desk) -> int:
    """How many entries are certainly in: the first number of `sift`, without keeping anything."""
    _, marks, _, scratch = desk
    n_in = 0
    for first in range(begin, end, RUN):
        n_in += _mark(planes, first, min(RUN, end - first), test, marks, scratch)
    return n_in


@inlined
def share_undecided(planes: FloatArray, begin: int, end: int, test: CellTest, desk: Desk) -> float:
    """Estimate which share of a list `sift` would keep, by short probes spread over it.

    Rows differ more than the labels of a row, so that many short probes see more than few long.
    """
    if end - begin < 4 * PROBES * PROBE:
        return 0.0  # sifting a short list costs no more than probing it
    marks, scratch = desk[1][:PROBE], desk[3]
    step = (end - begin) // PROBES
    undecided = 0
    for probe in range(PROBES):
        # by its length: functions are compiled once more for a literal 32
        _mark(planes, begin + probe * step, len(marks), test, marks, scratch)
        for i in range(PROBE):
            undecided += marks[i]
    return undecided / (PROBES * PROBE)


@inner
def _mark(
    planes: FloatArray, begin: int, n: int, test: CellTest, marks: IntArray, scratch: FloatArray
) -> int:
    """Mark the undecided among `n` entries with 1, others with 0; returns how many are in."""
    anchor, witness = test[5], test[6]
    if len(witness) == 3 and anchor >= 0:
        n_in = _mark_three(planes, begin, n, test, marks)
    else:
        n_in = _mark_any(planes, begin, n, test, marks, scratch)
    if not np.isnan(witness[0]):
        n_in += _admit_equal(planes, begin, n, witness, marks)
    return n_in


@inlined
def _mark_any(
    planes: FloatArray, begin: int, n: int, test: CellTest, marks: IntArray, scratch: FloatArray
) -> int:
    """`_mark` without a witness.

    Comparisons are written so that a NaN, the sign of a useless bound, leaves entries undecided.
    """
    centre, half, slope, floor, ceiling, anchor, _ = test
    value = scratch[0, :n]
    radius = scratch[1, :n]
    combine_run(planes, begin, centre, value)
    bound_run(planes, begin, half, slope, anchor, radius)
    n_in = 0
    for i in range(n):
        n_in += value[i] - radius[i] >= ceiling
        marks[i] = not (value[i] + radius[i] < floor or value[i] - radius[i] >= ceiling)
    return n_in


@inlined
def _mark_three(planes: FloatArray, begin: int, n: int, test: CellTest, marks: IntArray) -> int:
    """`_mark_any` for d = 3 with an anchor, without a pass through memory."""
    centre, half, slope, floor, ceiling, anchor, _ = test
    j, k = (anchor + 1) % 3, (anchor + 2) % 3
    x, y = planes[j, begin : begin + n], planes[k, begin : begin + n]
    origin = planes[anchor, begin : begin + n]
    n_in = 0
    for i in range(n):
        right = x[i] - origin[i]
        up = y[i] - origin[i]
        value = origin[i] + (centre[j] * right + centre[k] * up)
        radius = half[j] * abs(right - slope[j]) + half[k] * abs(up - slope[k])
        n_in += value - radius >= ceiling
        marks[i] = not (value + radius < floor or value - radius >= ceiling)
    return n_in


@inlined
def _admit_equal(
    planes: FloatArray, begin: int, n: int, witness: FloatArray, marks: IntArray
) -> int:
    """Unmark the undecided entries that equal the witness; returns how many.

    They have the value of the threshold for every weight of the cell, to the last bit, which no
    bound can tell: without this, scores that all tie would all be counted weight by weight.
    """
    n_equal = 0
    for i in range(n):
        equal = marks[i] == 1
        for j in range(len(witness)):
            equal &= planes[j, begin + i] == witness[j]
        n_equal += equal
        marks[i] &= not equal
    return n_equal


_BYTES = np.arange(256)[:, None]
_BITS = (_BYTES >> np.arange(8)) & 1
POSITIONS = np.argsort(1 - _BITS, axis=1, kind="stable").astype(np.int32)
ONES = _BITS.sum(axis=1)
# gathers the lowest bit of each of the eight bytes into the highest byte, first mark lowest
GATHER = np.uint64(0x0102040810204080)


@inner
def pack_marks(words: IntArray, picked: IntArray) -> int:
    """Write the positions of the ones among marks to `picked`; returns how many there are.

    The marks (uint8) come as `words` (uint64), eight in each; `picked` (int32) has 8 places more
    than ones.
    """
    n_picked = 0
    for g in range(len(words)):
        byte = np.int64((words[g] * GATHER) >> np.uint64(56))
        positions = POSITIONS[byte]
        out = picked[n_picked : n_picked + 8]
        for q in range(8):
            out[q] = positions[q] + np.int32(8 * g)
        n_picked += ONES[byte]
    return n_picked
