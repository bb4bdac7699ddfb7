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
from conformix.kernels.host.compiled import compiled, inner

BUCKETS = 4  # per knot


@dataclass(frozen=True, eq=False)
class Lookup:
    """A rising, piecewise linear function with its table."""

    knots: FloatArray  # (m,), rising, finite
    levels: FloatArray  # (m,)
    before: IntArray  # per bucket, the last knot of an earlier one
    last: IntArray  # per bucket, its last knot, or that of an earlier one
    inverse: float  # buckets per unit; 0 where buckets are cut by bits
    shift: int

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return the function of float64 values of any shape."""
        flat = np.ascontiguousarray(values).reshape(-1)
        out = np.empty(flat.shape)
        line_into(
            flat, flat.view(np.int64), self.knots, self.levels, self.before, self.last,
            self.inverse, self.shift, out,
        )  # fmt: skip
        return out.reshape(values.shape)


def lookup(knots: FloatArray, levels: FloatArray) -> Lookup | None:
    """Return the table of a line, or None where bisection among all knots is as good."""
    knots, levels = np.ascontiguousarray(knots), np.ascontiguousarray(levels)
    span = float(knots[-1]) - float(knots[0])
    if len(knots) < 16 or not 0 < span < np.inf:
        return None
    mass = np.diff(levels, prepend=0.0)
    n_buckets = BUCKETS * len(knots)
    tables = []
    inverse = (n_buckets - 1) / span
    if inverse < np.inf:
        tables.append((_places(knots, knots, inverse, 0), inverse, 0))
    keys = _ordered_bits(knots)
    shift = max(0, int(keys[-1] - keys[0]).bit_length() - int(n_buckets).bit_length())
    tables.append((_places(knots, knots, 0.0, shift), 0.0, shift))
    # Comparisons to expect: numbers fall into buckets as the levels say.
    costs = [float(mass @ np.log2(1.0 + np.bincount(places)[places])) for places, _, _ in tables]
    places, inverse, shift = tables[int(np.argmin(costs))]
    counts = np.bincount(places)
    last = np.cumsum(counts) - 1
    before = np.maximum(last - counts, 0)
    return Lookup(knots, levels, before, np.maximum(last, 0), inverse, shift)


def _ordered_bits(values: FloatArray) -> np.ndarray:
    """Return unsigned integers in the order of the numbers; -0.0 and 0.0 are one."""
    bits = np.asarray(values).view(np.int64)
    signed = np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)
    return signed.astype(np.uint64) + np.uint64(2**63)


def _places(values: FloatArray, knots: FloatArray, inverse: float, shift: int) -> IntArray:
    """Return the buckets of numbers between the first and the last knot."""
    if inverse > 0:
        return ((values - knots[0]) * inverse).astype(np.intp)
    keys = _ordered_bits(values) - _ordered_bits(knots[:1])
    return (keys >> np.uint64(shift)).astype(np.intp)


class Lines(NamedTuple):
    """Several lines with their tables, one behind the other."""

    knots: FloatArray
    levels: FloatArray
    before: IntArray
    last: IntArray
    inverses: FloatArray  # (d,)
    shifts: IntArray  # (d,)
    ends: IntArray  # (d + 1, 2): where the knots and the buckets of every line begin


def joined_lines(lookups: Sequence[Lookup | None]) -> Lines | None:
    """Return several lines as one; None where one of them has no table."""
    lines = [line for line in lookups if line is not None and np.isfinite(line.levels).all()]
    if len(lines) < len(lookups):
        return None
    lengths = [(0, 0), *((len(line.knots), len(line.last)) for line in lines)]
    return Lines(
        np.concatenate([line.knots for line in lines]),
        np.concatenate([line.levels for line in lines]),
        np.concatenate([line.before for line in lines]),
        np.concatenate([line.last for line in lines]),
        np.array([line.inverse for line in lines]),
        np.array([line.shift for line in lines], dtype=np.int64),
        np.cumsum(lengths, axis=0),
    )


@inner
def _left(
    value: float,
    word: Any,
    knots: FloatArray,
    first: int,
    n_last: int,
    before: IntArray,
    last: IntArray,
    bucket: Any,
    inverse: float,
    shift: int,
) -> Any:
    """Return the knot to the left of a number, of those from `first` on, `n_last` at most.

    `word` are the bits of the number; `bucket` is where the table begins.
    """
    bottom = knots[first]
    if value <= bottom:
        return 0
    if value >= knots[first + n_last + 1]:
        return n_last
    if inverse > 0:
        bucket += np.int64((value - bottom) * inverse)
    else:
        sign, lowest = np.uint64(2**63), np.int64(-(2**63))
        low = knots[first : first + 1].view(np.int64)[0]
        origin = np.uint64(lowest - low if low < 0 else low) + sign
        key = np.uint64(lowest - word if word < 0 else word) + sign
        bucket += np.int64((key - origin) >> np.uint64(shift))
    left, high = before[bucket], last[bucket]
    while left < high:
        middle = (left + high + 1) >> 1
        if knots[first + middle] <= value:
            left = middle
        else:
            high = middle - 1
    return min(left, n_last)


@inner
def _line(value: float, left: int, knots: FloatArray, levels: FloatArray) -> float:
    """Return the line at a number between the knots `left` and the next."""
    width = knots[left + 1] - knots[left]
    way = max(value - knots[left], 0.0) / width
    rise = levels[left + 1] - levels[left]
    return min(levels[left] + min(way, 1.0) * rise, levels[left + 1])


@compiled
def line_into(
    values: FloatArray,
    bits: IntArray,
    knots: FloatArray,
    levels: FloatArray,
    before: IntArray,
    last: IntArray,
    inverse: float,
    shift: int,
    out: FloatArray,
) -> None:
    """Write the line at `values`, whose `bits` are the same memory as integers."""
    n_last, none = len(knots) - 2, len(knots) - len(knots)
    for i in range(len(values)):
        left = _left(values[i], bits[i], knots, none, n_last, before, last, none, inverse, shift)
        out[i] = _line(values[i], left, knots, levels)


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
    knots, levels, before, last = lines.knots, lines.levels, lines.before, lines.last
    inverses, shifts, ends = lines.inverses, lines.shifts, lines.ends
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
                value = planes[j, row, place]
                begin = ends[j, 0]
                left = begin + _left(
                    value, bits[j, row, place], knots, begin, ends[j + 1, 0] - begin - 2,
                    before, last, ends[j, 1], inverses[j], shifts[j],
                )  # fmt: skip
                total += weights[j] * _line(value, left, knots, levels)
            if not total >= cut:
                break
            alike[one] |= total == lowest
            lowest = total
            first[one] -= 1
        above[one] = lowest
