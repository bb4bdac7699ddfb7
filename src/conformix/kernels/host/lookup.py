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
from conformix.kernels.blocks import rooms
from conformix.kernels.host.board import itself, run
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
    """Return the table of a line, or None where it does not rise, or has no ends."""
    knots, levels = np.ascontiguousarray(knots), np.ascontiguousarray(levels)
    span = float(knots[-1]) - float(knots[0])
    if len(knots) < 2 or not 0 < span < np.inf:
        return None
    n_buckets = BUCKETS * len(knots)
    origin, last = _ordered_bits(knots[[0, -1]]).tolist()
    shift = max(0, (last - origin).bit_length() - n_buckets.bit_length())
    maps = [(0.0, shift)]
    if (n_buckets - 1) / span < np.inf:
        maps.append(((n_buckets - 1) / span, 0))
    tables = [(_places(knots, *how), how) for how in maps]
    # Whichever leaves more knots a bucket of their own.
    places, (inverse, shift) = max(
        tables, key=lambda table: np.count_nonzero(table[0][1:] != table[0][:-1])
    )
    upto = np.empty(int(places[-1]) + 2, dtype=np.int64)
    upto[0] = 0
    np.cumsum(np.bincount(places), out=upto[1:])
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


# What a score of a place is: its probability, its mass, the entry of a table by how many labels are
# below or by rank, or, from here on, a number of a plane that holds what was computed.
PROB, MASS, BELOW, RANK, PLANE = range(5)


class Upper(NamedTuple):
    """The upper ends of sorted rows, and how the scores of their places are read off them."""

    probs: FloatArray  # (n, w), rising: those of the last w places
    mass: FloatArray  # (n, w): up to and with the tie group
    lowest: IntArray  # (n,): the first place of the tie group of the lowest one here
    planes: FloatArray  # (q, n, w): scores that were computed
    kinds: IntArray  # (d,)
    tables: FloatArray  # (d, K + 1), where scores are looked up


@inlined
def _values_into(
    upper: Upper, row: int, here: int, entered: bool, ends: IntArray, values: FloatArray
) -> None:
    """Write the scores of a place of a row, counted from the first that is held, to `values` (d,).

    `ends` (2,) are those of the tie group of the place above, unless the walk has just `entered`
    the row, and become those of its own.
    """
    probs, tables, width = upper.probs, upper.tables, upper.probs.shape[1]
    beyond = tables.shape[1] - 1 - width
    if entered or probs[row, here] != probs[row, here + 1]:
        first = last = here
        while first > 0 and probs[row, first - 1] == probs[row, here]:
            first -= 1
        while entered and last < width - 1 and probs[row, last + 1] == probs[row, here]:
            last += 1
        ends[0] = upper.lowest[row] if first == 0 else beyond + first
        ends[1] = beyond + last
    for j in range(len(values)):
        kind = upper.kinds[j]
        if kind == PROB:
            values[j] = probs[row, here]
        elif kind == MASS:
            values[j] = upper.mass[row, here]
        elif kind == BELOW:
            values[j] = tables[j, ends[0]]
        elif kind == RANK:
            values[j] = tables[j, tables.shape[1] - 1 - ends[1]]
        else:
            values[j] = upper.planes[kind - PLANE, row, here]


class Desk(NamedTuple):
    """Rows of a part, and room for the numbers of a place, for every worker."""

    step: int
    values: FloatArray  # (workers, d)
    bits: IntArray  # the same memory as integers
    ends: IntArray  # (workers, 2)


def desk(workers: int, d: int, step: int) -> Desk:
    """Return room for so many workers and scores."""
    values = rooms(workers, d)
    return Desk(step, values, values.view(np.int64), rooms(workers, 2, dtype=np.int64))


class Reaching(NamedTuple):
    """Where sets begin: combined scores that reach cuts."""

    upper: Upper
    rows: IntArray  # (m,) of the sorted rows
    lines: Lines
    weights: FloatArray  # (d,)
    floors: FloatArray  # (d,): scores up to these are out, whatever the others are
    cuts: FloatArray  # (m,)
    first: IntArray  # (m,): falls by the labels that are in
    alike: BoolArray  # (m,): whether two of these score alike
    desk: Desk


@compiled
def reach(board: IntArray, helpers: int, n: int, task: Reaching, part: int, worker: int) -> int:
    """Find where the sets of sorted rows begin."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    upper, rows, lines, weights, floors, cuts, first, alike, own = task
    d, width, step = len(upper.kinds), upper.probs.shape[1], own.step
    values, bits, ends = own.values[worker, :d], own.bits[worker], own.ends[worker]
    for i in range(part * step, min((part + 1) * step, len(rows))):
        row, cut, above = rows[i], cuts[i], np.nan
        for here in range(width - 1, -1, -1):
            _values_into(upper, row, here, here == width - 1, ends, values)
            short = False
            for j in range(d):
                short |= values[j] <= floors[j]
            if short:
                break
            total = 0.0
            for j in range(d):
                if weights[j] != 0.0:  # lines are finite
                    total += weights[j] * _on_line(values[j], bits[j], j, lines)
            if not total >= cut:
                break
            alike[i] |= total == above
            above = total
            first[i] -= 1
    return 0


class Within(NamedTuple):
    """Labels with a score above its floor, and their scores on their lines."""

    upper: Upper
    rows: IntArray  # (m,) of the sorted rows
    skipped: int  # so many places from the top are left out
    lines: Lines
    floors: FloatArray  # (d,)
    out: FloatArray  # (d, m w), a part's from its first row on
    bits: IntArray  # the same memory as integers
    deeper: BoolArray  # (m,): whether the lowest place is among them
    counts: IntArray  # (parts,): how many there are
    desk: Desk


@compiled
def within(board: IntArray, helpers: int, n: int, task: Within, part: int, worker: int) -> int:
    """Find the labels of sorted rows that have a score above its floor."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    upper, rows, skipped, lines, floors, out, bits, deeper, counts, own = task
    d, width, step = len(upper.kinds), upper.probs.shape[1], own.step
    values, ends = own.values[worker, :d], own.ends[worker]
    count = begin = part * step * max(width - skipped, 1)
    for i in range(part * step, min((part + 1) * step, len(rows))):
        deeper[i] = True
        for here in range(width - 1 - skipped, -1, -1):
            _values_into(upper, rows[i], here, here == width - 1 - skipped, ends, values)
            inside = False
            for j in range(d):
                out[j, count] = values[j]
                inside |= values[j] > floors[j]
            if not inside:
                deeper[i] = False
                break
            count += 1
    for j in range(d):
        for i in range(begin, count):
            out[j, i] = _on_line(out[j, i], bits[j, i], j, lines)
    counts[part] = count - begin
    return 0


class Reading(NamedTuple):
    """The scores of neighbouring places."""

    upper: Upper
    rows: IntArray  # (m,) of the sorted rows
    start: int  # the first place, counted from the first that is held
    planes: FloatArray  # (d, m, v)
    desk: Desk


@compiled
def scores_into(
    board: IntArray, helpers: int, n: int, task: Reading, part: int, worker: int
) -> int:
    """Write the scores of neighbouring places of sorted rows."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    upper, rows, start, planes, own = task
    values, ends, step = own.values[worker, : len(planes)], own.ends[worker], own.step
    for i in range(part * step, min((part + 1) * step, len(rows))):
        for k in range(planes.shape[2] - 1, -1, -1):
            entered = k == planes.shape[2] - 1
            _values_into(upper, rows[i], start + k, entered, ends, values)
            for j in range(len(planes)):
                planes[j, i, k] = values[j]
    return 0
