"""Rising lines by a table of buckets: where a number lies among knots, in a few comparisons.

The knots are cut into buckets by a map that rises with the number, so only the knots of its own
bucket, and the last one before, can be the one to its left: a bisection among those finds what
`numpy.searchsorted` finds among all. The map is the place between the ends, or the bits of the
number, whose order is that of the numbers and whose steps are those of its logarithm; whichever
spreads the knots better. The line itself is the arithmetic of `scores.scale.rising_line`, in the
same order, so the bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled

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
    bottom, top, n_last = knots[0], knots[-1], len(knots) - 2
    sign = np.uint64(2**63)
    lowest = np.int64(-(2**63))
    first = knots[:1].view(np.int64)[0]
    origin = np.uint64(lowest - first if first < 0 else first) + sign
    for i in range(len(values)):
        value = values[i]
        if value <= bottom:
            left = 0
        elif value >= top:
            left = n_last
        else:
            if inverse > 0:
                bucket = np.int64((value - bottom) * inverse)
            else:
                word = bits[i]
                key = np.uint64(lowest - word if word < 0 else word) + sign
                bucket = np.int64((key - origin) >> np.uint64(shift))
            left, high = before[bucket], last[bucket]
            while left < high:
                middle = (left + high + 1) >> 1
                if knots[middle] <= value:
                    left = middle
                else:
                    high = middle - 1
            left = min(left, n_last)
        width = knots[left + 1] - knots[left]
        way = max(value - knots[left], 0.0) / width
        rise = levels[left + 1] - levels[left]
        out[i] = min(levels[left] + min(way, 1.0) * rise, levels[left + 1])
