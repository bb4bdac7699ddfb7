"""Lists of score vectors as planes, and the loops that everything else is made of.

A list is a slice ``planes[:, begin:end]`` of an array ``(d, capacity)``: one contiguous plane per
score, so that every inner loop is a SIMD loop over neighbouring entries. The loops work on runs of
`RUN` entries whose intermediate values stay in the first-level cache.

`combine_run` is the one arithmetic of the engine,
``((w[0]*s[0] + w[1]*s[1]) + w[2]*s[2]) + ...`` in float64 without contraction: it decides.
`bound_run` encloses it over a cell: ``<w, s>`` stays within `radius` of the `value` at the centre,
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
# centre, half, slope and witness of all cells, (C, d) each, see `mark`
Boxes: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]

RUN = 512


def make_desk() -> Desk:
    """Return the work arrays of a walk; made here, because `numpy.empty` takes long to compile."""
    words = np.empty(RUN // 8 + 1, dtype=np.uint64)
    return words, words.view(np.uint8), np.empty(RUN + 8, dtype=np.uint32), np.empty((2, RUN))


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
    centre: FloatArray,
    half: FloatArray,
    slope: FloatArray,
    anchor: int,
    value: FloatArray,
    radius: FloatArray,
) -> None:
    """Write ``<centre, s>`` into `value`, and ``sum_j half_j |s_j - slope_j|`` into `radius`.

    With an anchor a: ``s_a`` and the same of ``s_j - s_a``. There is one loop for both cases, for
    two would take twice as long to compile.
    """
    n = len(value)
    share = 1.0 if anchor >= 0 else 0.0
    origin = planes[anchor, begin : begin + n]  # any plane, if there is no anchor
    for i in range(n):
        value[i], radius[i] = share * origin[i], 0.0
    for j in range(len(half)):
        if j == anchor:
            continue
        w, h, c = centre[j], half[j], slope[j]
        x = planes[j, begin : begin + n]
        for i in range(n):
            right = x[i] - share * origin[i]
            value[i] += w * right
            radius[i] += h * abs(right - c)


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
    first: int,
    last: int,
    scratch: FloatArray,
) -> None:
    """Add the numbers of entries with ``combine(weights, s) >= thresholds`` to `counts` (M,).

    For the weights from `first` to `last`, out of all (M, d).
    """
    if weights.shape[1] == 3:
        x, y, z = planes[0, begin:end], planes[1, begin:end], planes[2, begin:end]
        for i in range(first, last, 2):  # two weights at once, without a pass through memory
            other = min(i + 1, last - 1)
            a, b, c, low = weights[i, 0], weights[i, 1], weights[i, 2], thresholds[i]
            p, q, r = weights[other, 0], weights[other, 1], weights[other, 2]
            high = thresholds[other]
            one, two = 0, 0
            for e in range(len(x)):
                one += (a * x[e] + b * y[e]) + c * z[e] >= low
                two += (p * x[e] + q * y[e]) + r * z[e] >= high
            counts[i] += one
            counts[other] += two if other > i else 0
        return
    for place in range(begin, end, RUN):
        value = scratch[: min(RUN, end - place)]
        for i in range(first, last):
            combine_run(planes, place, weights[i], value)
            inside = 0
            for e in range(len(value)):
                inside += value[e] >= thresholds[i]
            counts[i] += inside


@inlined
def mark(
    planes: FloatArray,
    begin: int,
    n: int,
    boxes: Boxes,
    cell: int,
    floor: float,
    ceiling: float,
    anchor: int,
    marks: IntArray,
    scratch: FloatArray,
) -> int:
    """Mark the undecided among `n` entries with 1, others with 0; returns how many are in.

    An entry is certainly in if its lowest value over the cell is at least `ceiling` or if it equals
    the witness, certainly out if its highest is below `floor`. Comparisons are written so that a
    NaN, the sign of a useless bound, leaves entries undecided.

    What equals the witness has the value of the threshold for every weight of the cell, to the last
    bit, which no bound can tell: without this, scores that all tie would all be counted weight by
    weight.
    """
    centre, half, slope, witness = boxes
    n_in = 0
    if len(planes) == 3 and anchor >= 0:  # without a pass through memory
        j, k = (anchor + 1) % 3, (anchor + 2) % 3
        x, y = planes[j, begin : begin + n], planes[k, begin : begin + n]
        origin = planes[anchor, begin : begin + n]
        for i in range(n):
            right = x[i] - origin[i]
            up = y[i] - origin[i]
            at = origin[i] + (centre[cell, j] * right + centre[cell, k] * up)
            off = half[cell, j] * abs(right - slope[cell, j])
            off += half[cell, k] * abs(up - slope[cell, k])
            n_in += at - off >= ceiling
            marks[i] = not (at + off < floor or at - off >= ceiling)
    else:
        value, radius = scratch[0, :n], scratch[1, :n]
        bound_run(planes, begin, centre[cell], half[cell], slope[cell], anchor, value, radius)
        for i in range(n):
            n_in += value[i] - radius[i] >= ceiling
            marks[i] = not (value[i] + radius[i] < floor or value[i] - radius[i] >= ceiling)
    if witness[cell, 0] == witness[cell, 0]:  # not NaN
        for i in range(n):
            equal = marks[i] == 1
            for j in range(len(planes)):
                equal &= planes[j, begin + i] == witness[cell, j]
            n_in += equal
            marks[i] &= not equal
    return n_in


_BYTES = np.arange(256)[:, None]
_BITS = (_BYTES >> np.arange(8)) & 1
POSITIONS = np.argsort(1 - _BITS, axis=1, kind="stable").astype(np.uint32)
ONES = _BITS.sum(axis=1)
# gathers the lowest bit of each of the eight bytes into the highest byte, first mark lowest
GATHER = np.uint64(0x0102040810204080)


@inner
def pack_marks(words: IntArray, picked: IntArray) -> int:
    """Write the positions of the ones among marks to `picked`; returns how many there are.

    The marks (uint8) come as `words` (uint64), eight in each; `picked` (uint32) has 8 places more
    than ones.
    """
    n_picked = 0
    for g in range(len(words)):
        byte = np.int64((words[g] * GATHER) >> np.uint64(56))
        positions = POSITIONS[byte]
        out = picked[n_picked : n_picked + 8]
        for q in range(8):
            out[q] = positions[q] + np.uint32(8 * g)
        n_picked += ONES[byte]
    return n_picked
