"""Rising lines by a table of buckets: where a number lies among knots, in a few comparisons.

The knots are cut into buckets by a map that rises with the number, so only the knots of its own
bucket, and the last one before, can be the one to its left: a bisection among those finds what
`numpy.searchsorted` finds among all. The map is the place between the ends, or the bits of the
number, whose order is that of the numbers and whose steps are those of its logarithm; whichever
spreads the knots better. The line itself is the arithmetic of `scores.scale.rising_line`, in the
same order, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inlined

BUCKETS = 4  # per knot


class Lines(NamedTuple):
    """Rising, piecewise linear functions with their tables, one behind the other."""

    knots: FloatArray  # rising within a line, finite
    levels: FloatArray
    last: IntArray  # zero, then per bucket of a line its last knot, or that of an earlier one
    inverses: FloatArray  # (d,) buckets per unit; 0 where buckets are cut by bits
    shifts: IntArray  # (d,)
    origins: IntArray  # (d,) what the first knots are as unsigned integers
    ends: IntArray  # (d + 1, 2): where the knots and the buckets of every line begin


@dataclass(frozen=True, eq=False)
class Lookup:
    """One such function."""

    line: Lines

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the function of float64 values of any shape."""
        flat = np.ascontiguousarray(values).reshape(-1)
        out = np.empty(flat.shape)
        line_into(flat, flat.view(np.int64), self.line, out)
        return out.reshape(values.shape)


def lookup(knots: FloatArray, levels: FloatArray) -> Lookup | None:
    """Return the table of a line, or None where bisection among all knots is as good."""
    knots, levels = np.ascontiguousarray(knots), np.ascontiguousarray(levels)
    span = float(knots[-1]) - float(knots[0])
    if len(knots) < 16 or not 0 < span < np.inf:
        return None
    n_buckets = BUCKETS * len(knots)
    tables = []
    inverse = (n_buckets - 1) / span
    if inverse < np.inf:
        tables.append((np.bincount(_places(knots, inverse, 0)), inverse, 0))
    origin, last = _ordered_bits(knots[[0, -1]]).tolist()
    shift = max(0, (last - origin).bit_length() - n_buckets.bit_length())
    tables.append((np.bincount(_places(knots, 0.0, shift)), 0.0, shift))
    # The sum over knots of how many are in their bucket.
    counts, inverse, shift = min(tables, key=lambda table: int(table[0] @ table[0]))
    upto = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=upto[1:])
    upto[1:] -= 1
    ends = np.array([[0, 0], [len(knots), len(upto)]])
    one = np.array([inverse]), np.array([shift]), np.array([origin], dtype=np.uint64)
    return Lookup(Lines(knots, levels, upto, *one, ends))


def _ordered_bits(values: FloatArray) -> np.ndarray:
    """Return unsigned integers in the order of the numbers; -0.0 and 0.0 are one."""
    bits = np.asarray(values).view(np.int64)
    signed = np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
    return signed.astype(np.uint64) + np.uint64(2**63)


def _places(knots: FloatArray, inverse: float, shift: int) -> IntArray:
    """Return the buckets of the knots."""
    if inverse > 0:
        return ((knots - knots[0]) * inverse).astype(np.intp)
    if knots[0] > 0:  # their bits are in order as they are
        bits = knots.view(np.int64)
        return (bits - bits[0]) >> shift
    keys = _ordered_bits(knots)
    return ((keys - keys[0]) >> np.uint64(shift)).astype(np.intp)


def joined_lines(lookups: Sequence[Lookup | None]) -> Lines | None:
    """Return several lines as one; None where one of them has no table."""
    lines = [one.line for one in lookups if one is not None and np.isfinite(one.line.levels).all()]
    if len(lines) < len(lookups):
        return None
    lengths = np.array([line.ends for line in lines])
    joined = Lines(*(np.concatenate(part) for part in zip(*lines, strict=True)))
    ends = np.concatenate([lengths[0, :1], np.cumsum(lengths[:, 1], axis=0)])
    return joined._replace(ends=ends)


# A function of its own would be given every array again for every number, which takes longer.
@inlined
def _on_line(value: float, word: Any, j: int, lines: Lines) -> float:
    """Return line j at a number, whose bits are `word`."""
    knots, levels, begin = lines.knots, lines.levels, lines.ends[j, 0]
    end = lines.ends[j + 1, 0] - 2  # the last knot with another one behind it
    if value <= knots[begin]:
        left = begin
    elif not value < knots[end + 1]:  # nor is what is no number
        left = end
    else:
        if lines.inverses[j] > 0:
            bucket = lines.ends[j, 1] + np.int64((value - knots[begin]) * lines.inverses[j])
        else:
            lowest = np.int64(-(2**63))
            key = np.uint64(lowest - word if word < 0 else word) + np.uint64(2**63)
            far = (key - lines.origins[j]) >> np.uint64(lines.shifts[j])
            bucket = lines.ends[j, 1] + np.int64(far)
        left, high = begin + lines.last[bucket], begin + lines.last[bucket + 1]
        while high > left + 1:
            middle = (left + high + 1) >> 1
            if knots[middle] <= value:
                left = middle
            else:
                high = middle - 1
        # One knot is left, or none: the next is then beyond the number. A sum takes less time than
        # a jump that nobody can guess.
        left += knots[left + 1] <= value
        left = min(left, end)
    way = max(value - knots[left], 0.0) / (knots[left + 1] - knots[left])
    rise = levels[left + 1] - levels[left]
    return min(levels[left] + min(way, 1.0) * rise, levels[left + 1])


@compiled
def line_into(values: FloatArray, bits: IntArray, line: Lines, out: FloatArray) -> None:
    """Write a line at `values`, whose `bits` are the same memory as integers."""
    for i in range(len(values)):
        out[i] = _on_line(values[i], bits[i], 0, line)


@compiled
def reach(
    planes: FloatArray,
    bits: IntArray,
    rows: IntArray,
    which: IntArray,
    lines: Lines,
    weights: FloatArray,
    floors: FloatArray,
    cuts: FloatArray,
    first: IntArray,
    alike: BoolArray,
    above: FloatArray,
) -> None:
    """Walk down a window of sorted rows while combined scores on their lines reach the cuts.

    `planes` (d, n, w), whose memory as integers is `bits`, have the scores of the window, rising;
    `rows` (m,) says which of these rows, and `which` (m,) where each stands in `cuts`, `first`,
    `alike` and `above`. There `first` falls by the labels that are in, `alike` says that two of
    them score alike, and `above` is what the lowest so far scores. Scores up to `floors` (d,) are
    out whatever the others are.
    """
    d, width = planes.shape[0], planes.shape[2]
    for i in range(len(rows)):
        row, one = rows[i], which[i]
        cut, lowest = cuts[one], above[one]
        for down in range(width):
            place = width - 1 - down
            short = False
            for j in range(d):
                short |= planes[j, row, place] <= floors[j]
            if short:
                break
            total = 0.0
            for j in range(d):
                if weights[j] == 0.0:
                    continue  # lines are finite
                value, word = planes[j, row, place], bits[j, row, place]
                total += weights[j] * _on_line(value, word, j, lines)
            if not total >= cut:
                break
            alike[one] |= total == lowest
            lowest = total
            first[one] -= 1
        above[one] = lowest


@compiled
def above(
    planes: FloatArray,
    rows: IntArray,
    lines: Lines,
    floors: FloatArray,
    out: FloatArray,
    bits: IntArray,
    deeper: BoolArray,
) -> int:
    """Walk down a window of sorted rows while a score exceeds its floor; write these labels' lines.

    `planes` (d, n, w) have the scores of the window, rising, and `rows` (m,) says which of these
    rows. To `out` (d, m w), whose memory as integers is `bits`, the scores of the labels on their
    lines, whose number is returned. `deeper` (m,) says where the lowest label of the window is
    among them.
    """
    d, width, count = planes.shape[0], planes.shape[2], 0
    for i in range(len(rows)):
        row = rows[i]
        deeper[i] = True
        for down in range(width):
            place = width - 1 - down
            inside = False
            for j in range(d):
                out[j, count] = planes[j, row, place]
                inside |= planes[j, row, place] > floors[j]
            if not inside:
                deeper[i] = False
                break
            count += 1
    for j in range(d):
        for i in range(count):
            out[j, i] = _on_line(out[j, i], bits[j, i], j, lines)
    return count
