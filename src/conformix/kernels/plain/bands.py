"""Intervals of averaged V-shaped scores, many rows at a time: `kernels.host.bands` in NumPy.

Its compiled twin says what is computed, and proves that intervals are rounded outward.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import row_blocks

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Numbers held at once.
ENTRIES = 2**16


def fill_bands(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> None:
    """Write the ends of ``{y : combined(y) <= thresholds[l, i]}``, outward, to (L, n) arrays."""
    d = centre.shape[1]
    size = np.minimum(np.abs(thresholds), FAR)
    empty = np.ones(thresholds.shape, dtype=bool)
    lower.fill(-np.inf)
    upper.fill(np.inf)
    shrink = 1.0 - (d + 6) * UNIT
    for k in range(d):
        knot = centre[:, k]
        zero = np.zeros(len(knot))
        value, reach = zero.copy(), zero.copy()
        left, left_size, right, right_size = zero.copy(), zero.copy(), zero.copy(), zero.copy()
        for j in range(d):
            w = weights[j]
            falling = below[:, j] * np.maximum(centre[:, j] - knot, 0.0)
            rising = above[:, j] * np.maximum(knot - centre[:, j], 0.0)
            score = offset[:, j] + falling + rising
            value = w * score if j == 0 else value + w * score
            reach += w * (np.abs(offset[:, j]) + falling + rising)
            down, up = w * below[:, j], w * above[:, j]
            before, until = centre[:, j] < knot, centre[:, j] <= knot
            left += np.where(before, up, -down)
            left_size += np.where(before, up, down)
            right += np.where(until, up, -down)
            right_size += np.where(until, up, down)
        slack = (2 * d + 12) * UNIT * reach + TINY
        room = (thresholds - value) + (slack + 2 * UNIT * size)
        empty &= room < 0
        for slopes, sizes, sign in ((-left, left_size, -1.0), (right, right_size, 1.0)):
            error = (d + 1) * UNIT * sizes
            least, most = (slopes - error) * shrink, slopes + error
            steep = least > FLAT
            least, most = np.where(steep, least, 1.0), np.where(steep, most, 1.0)
            step = np.maximum(room / np.where(room >= 0, least, most), -FAR)
            end = knot + sign * step
            end = end + sign * (4 * UNIT * (np.abs(end) + np.abs(step)))
            if sign < 0:
                np.maximum(lower, np.where(steep, end, -np.inf), out=lower)
            else:
                np.minimum(upper, np.where(steep, end, np.inf), out=upper)
    empty |= lower > upper
    lower[empty], upper[empty] = np.inf, -np.inf


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
    totals: FloatArray,
) -> None:
    """Add to ``totals[l, i]`` the widths of all rows under ``weights[:, i]``, row after row."""
    d, m = weights.shape
    for rows in row_blocks(len(order), m * (len(thresholds) + d), ENTRIES):
        for width in _widths(
            order[rows], centre[rows], first[rows], below[rows], above[rows],
            weights, thresholds, low, high,
        ):  # fmt: skip
            np.add(totals, width, out=totals)


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
    value = np.zeros((n, m))
    down = np.zeros((d + 1, n, m))
    for i in range(d):
        value = value + used[:, i] * first[:, i, None]
    for i in range(d - 1, -1, -1):
        down[i] = down[i + 1] + used[:, i] * below[:, i, None]
    lower, upper = np.full((n, len(thresholds), m), low), np.full((n, len(thresholds), m), high)
    slope, up = -down[0], np.zeros((n, m))
    lowest = value
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for i in range(d):
            knot = centre[:, i, None, None]
            falls = slope < -FLAT
            inverse = 1.0 / np.where(falls, slope, -1.0)
            ends = knot + (thresholds - value[:, None]) * inverse[:, None]
            np.maximum(lower, np.where(falls[:, None], ends, low), out=lower)
            lowest = np.minimum(lowest, value)
            up = up + used[:, i] * above[:, i, None]
            slope = up - down[i + 1]
            rises = slope > FLAT
            inverse = 1.0 / np.where(rises, slope, 1.0)
            ends = knot + (thresholds - value[:, None]) * inverse[:, None]
            np.minimum(upper, np.where(rises[:, None], ends, high), out=upper)
            if i + 1 < d:
                value = value + slope * (centre[:, i + 1, None] - centre[:, i, None])
        return np.where(lowest[:, None] <= thresholds, np.maximum(upper - lower, 0.0), 0.0)
