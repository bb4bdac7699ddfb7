"""Widths of averaged V-shaped scores, rows by weights at a time: `kernels.host.widths` in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import row_blocks

# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Numbers held at once.
ENTRIES = 2**16


def add_widths(
    order: IntArray,
    centre: FloatArray,
    first: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    low: float,
    high: float,
    start: int,
    stop: int,
    totals: FloatArray,
) -> None:
    """Add the widths of row r under ``weights[:, i]`` to ``totals[r % g, l, i]``, row after row."""
    used, cuts, sums = weights[:, start:stop], thresholds[:, start:stop], totals[..., start:stop]
    for rows in row_blocks(len(order), used.size + cuts.size, ENTRIES):
        parts = [part[rows] for part in (order, centre, first, below, above)]
        block: Any = (*parts, used, cuts, low, high)
        for r, width in enumerate(_widths(*block), start=rows.start):
            sums[r % len(sums)] += width


def _widths(
    order: IntArray,
    centre: FloatArray,
    first: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    low: float,
    high: float,
) -> FloatArray:
    """Return the widths (rows, L, m) of a block."""
    n, d = order.shape
    m = weights.shape[1]
    used = weights[order]  # (rows, d, m)
    value, up = np.zeros((2, n, m))
    down = np.zeros((d + 1, n, m))
    for i in range(d):
        value = value + used[:, i] * first[:, i, None]
    for i in range(d - 1, -1, -1):
        down[i] = down[i + 1] + used[:, i] * below[:, i, None]
    shape = (n, len(thresholds), m)
    lower, upper, lowest, slope = np.full(shape, low), np.full(shape, high), value, -down[0]
    with np.errstate(invalid="ignore", over="ignore"):
        for i in range(d + 1):
            knot = max(i - 1, 0)
            if i > 0:
                up = up + used[:, knot] * above[:, knot, None]
                slope = up - down[i]
            flat = np.abs(slope) <= FLAT
            inverse = (~flat / np.where(flat, 1.0, slope))[:, None]
            ends = centre[:, knot, None, None] + (thresholds - value[:, None]) * inverse
            np.maximum(lower, np.where(inverse < 0, ends, low), out=lower)
            np.minimum(upper, np.where(inverse > 0, ends, high), out=upper)
            if 0 < i < d:
                value = value + slope * (centre[:, i, None] - centre[:, knot, None])
                lowest = np.minimum(lowest, value)
        return np.where(lowest[:, None] <= thresholds, np.maximum(upper - lower, 0.0), 0.0)


def add_slopes(
    order: IntArray,
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    cuts: FloatArray,
    moves: FloatArray,
    low: float,
    high: float,
    totals: FloatArray,
    slopes: FloatArray,
) -> None:
    """Add widths to ``totals[l]``, and how they change with the weights to ``slopes[j]``."""
    n, d = order.shape
    values, pitches = _walk(order, centre, offset, below, above, weights)
    every = np.arange(n)
    gains = np.zeros((n, len(cuts), 2, d))
    sizes = np.zeros((n, len(cuts)))
    for s, t in enumerate(cuts.tolist()):
        inside = values <= t
        held = inside.any(axis=1)
        begin, end = inside.argmax(axis=1), d - 1 - inside[:, ::-1].argmax(axis=1)
        falling, rising = pitches[every, begin], pitches[every, end + 1]
        falls, rises = falling < -FLAT, rising > FLAT
        falling, rising = np.where(falls, falling, -1.0), np.where(rises, rising, 1.0)
        first, last = (centre[every, order[every, place]] for place in (begin, end))
        lower = np.where(falls, first + (t - values[every, begin]) / falling, low)
        upper = np.where(rises, last + (t - values[every, end]) / rising, high)
        with np.errstate(invalid="ignore"):  # of rows without an interval
            width = np.maximum(np.minimum(upper, high) - np.maximum(lower, low), 0.0)
        sizes[:, s] = np.where(held, width, 0.0)
        for place, (y, factor, moved) in enumerate(
            (
                (upper, 1.0 / rising, rises & (low < upper) & (upper < high)),
                (lower, -1.0 / falling, falls & (low < lower) & (lower < high)),
            )
        ):
            gap = np.where(moved, y, 0.0)[:, None] - centre
            score = offset + np.where(gap > 0.0, gap * above, -gap * below)
            gain = factor[:, None] * (moves[s] - score)
            gains[:, s, place] = np.where((held & moved)[:, None], gain, 0.0)
    # One after the other, as the compiled loops add.
    totals[:] = np.add.accumulate(np.vstack([totals, sizes]))[-1]
    slopes[:] = np.add.accumulate(np.vstack([slopes, gains.reshape(-1, d)]))[-1]


def _walk(
    order: IntArray,
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the values at the knots in rising order (n, d), and slopes between them (n, d + 1)."""
    n, d = order.shape
    parts = (np.take_along_axis(part, order, axis=1) for part in (centre, offset, below, above))
    knots, floor, falls, rises = parts
    used = weights[order]
    value, down, up = np.zeros((3, n))
    values, pitches = np.empty((n, d)), np.empty((n, d + 1))
    for i in range(d - 1, -1, -1):
        pitches[:, i + 1] = -down
        down = down + used[:, i] * falls[:, i]
        value = value + used[:, i] * (floor[:, i] + falls[:, i] * (knots[:, i] - knots[:, 0]))
    pitches[:, 0] = -down
    for i in range(d):
        if i > 0:
            value = value + pitches[:, i] * (knots[:, i] - knots[:, i - 1])
        values[:, i] = value
        up = up + used[:, i] * rises[:, i]
        pitches[:, i + 1] += up
    return values, pitches
