"""Intervals of averaged V-shaped scores, many rows at a time: `kernels.host.bands` in NumPy.

Its compiled twin says what is computed, and proves that intervals are rounded outward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.kernels.blocks import row_blocks

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Rows of a single score that are worked on together: their numbers stay in a core's cache.
ROWS = 2**15


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
    """Write the ends of ``{y : combined(y) <= thresholds[l, i]}``, outward, to (L, n) arrays.

    Thresholds are (L, n), or (L, 1) for all rows alike.
    """
    if centre.shape[1] == 1:
        knots, floor, left, right = (part[:, 0] for part in (centre, offset, below, above))
        fill_single(knots, floor, left, right, float(weights[0]), thresholds, lower, upper)
        return
    sums = roundings(weights)
    empty = np.ones(lower.shape, dtype=bool)
    lower.fill(-np.inf)
    upper.fill(np.inf)
    for knot in centre.T:
        value, slack, left, left_error, right, right_error = _support(
            centre, offset, below, above, weights, knot, sums
        )
        room = (thresholds - value) + slack
        empty &= room < 0
        step = _step(room, -left, left_error, sums)
        end = knot - step
        np.maximum(lower, end - (4 * UNIT * np.abs(step) + 3 * UNIT * np.abs(end)), out=lower)
        step = _step(room, right, right_error, sums)
        end = knot + step
        np.minimum(upper, end + (4 * UNIT * np.abs(step) + 3 * UNIT * np.abs(end)), out=upper)
    empty |= lower > upper
    lower[empty], upper[empty] = np.inf, -np.inf


def fill_single(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weight: float,
    thresholds: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> None:
    """Do the same for one score, the same numbers in fewer steps: its own knot is the only one.

    Offset, below and above are (n,), or (1,) for all rows alike; where `below` is `above`, ends lie
    as far to either side. An interval that is not empty holds its knot.
    """
    sums = 0 if weight in (0.0, 1.0) else 1  # as `roundings`
    slopes = (offset, below, above)
    several = [part for part in (*slopes, thresholds.T) if len(part) > 1]
    if not several:
        steps = _single_steps(offset, below, above, weight, thresholds, sums)
    for rows in row_blocks(len(centre), len(thresholds), ROWS):
        if several:
            floor, left, right = (part if len(part) == 1 else part[rows] for part in slopes)
            right = left if above is below else right
            cuts = thresholds if thresholds.shape[1] == 1 else thresholds[:, rows]
            steps = _single_steps(floor, left, right, weight, cuts, sums)
        down, up, empty = steps
        low, high = lower[:, rows], upper[:, rows]
        far = 4 * UNIT * np.abs(down)
        np.subtract(centre[rows], down, out=low)
        low -= _outward(far, low)
        far = far if up is down else 4 * UNIT * np.abs(up)
        np.add(centre[rows], up, out=high)
        high += _outward(far, high)
        if empty.any():
            low[np.broadcast_to(empty, low.shape)] = np.inf
            high[np.broadcast_to(empty, high.shape)] = -np.inf


def _single_steps(
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weight: float,
    thresholds: FloatArray,
    sums: int,
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return how far the ends are from the knot, to its left and right, and where none are."""
    value, reach = weight * offset, weight * np.abs(offset)
    room = (thresholds - value) + ((2 * sums + 12) * UNIT * reach + TINY)
    share = (sums + 1) * UNIT if sums > 0 else 0.0

    def away(slope: FloatArray) -> FloatArray:
        slope = slope if weight == 1.0 else weight * slope
        return _step(room, slope, share * slope if share else 0.0, sums)

    down = away(below)
    return down, down if above is below else away(above), room < 0


def _outward(far: FloatArray, end: FloatArray) -> FloatArray:
    """Return by how much an end is moved: by the rounding of its step, and by its own."""
    shift = np.abs(end)
    shift *= 3 * UNIT
    shift += far
    return shift


def roundings(weights: FloatArray) -> int:
    """Return how many roundings a product with its weight and the sum of all products are."""
    used = [weight for weight in weights.tolist() if weight != 0.0]
    return 0 if used == [1.0] else len(used)


def _support(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    knot: FloatArray,
    sums: int,
) -> tuple[FloatArray, ...]:
    """Return the value at a knot and its slack, the slopes to its left and right and theirs."""
    n = len(centre)
    value, reach, left, left_size, right, right_size = np.zeros((6, n))
    for j, w in enumerate(weights.tolist()):
        c = centre[:, j]
        falling = below[:, j] * np.maximum(c - knot, 0.0)
        rising = above[:, j] * np.maximum(knot - c, 0.0)
        part = w * (offset[:, j] + falling + rising)
        value = part if j == 0 else value + part
        reach += w * (np.abs(offset[:, j]) + falling + rising)
        down, up = w * below[:, j], w * above[:, j]
        left += np.where(c < knot, up, -down)
        left_size += np.where(c < knot, up, down)
        right += np.where(c <= knot, up, -down)
        right_size += np.where(c <= knot, up, down)
    slack = (2 * sums + 12) * UNIT * reach + TINY
    share = (sums + 1) * UNIT if sums > 0 else 0.0
    return value, slack, left, share * left_size, right, share * right_size


def _step(room: FloatArray, slope: FloatArray, error: Any, sums: int) -> FloatArray:
    """Return how far from a knot the end may be, infinite where the slope may be flat."""
    exact = isinstance(error, float) and error == 0.0
    least = (slope if exact else slope - error) * (1.0 - (sums + 6) * UNIT)
    if least.size and room.min() >= 0 and least.min() > FLAT:  # as nearly always
        with np.errstate(over="ignore"):
            return room / least
    steep = least > FLAT
    divisor = np.where(steep, np.where(room >= 0, least, slope + error), 1.0)
    with np.errstate(over="ignore"):  # further than any float
        return np.where(steep, np.maximum(room / divisor, -FAR), np.inf)
