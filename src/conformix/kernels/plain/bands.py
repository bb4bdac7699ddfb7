"""Intervals of averaged V-shaped scores, many rows at a time: `kernels.host.bands` in NumPy.

Its compiled twin says what is computed, and proves that intervals are rounded outward.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960


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
    sums = roundings(weights)
    empty = np.ones(thresholds.shape, dtype=bool)
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


def roundings(weights: FloatArray) -> int:
    """Return how many roundings a product with its weight and the sum of all products are."""
    used = int(np.count_nonzero(weights))
    return 0 if used == np.count_nonzero(weights == 1.0) == 1 else used


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


def _step(room: FloatArray, slope: FloatArray, error: FloatArray, sums: int) -> FloatArray:
    """Return how far from a knot the end may be, infinite where the slope may be flat."""
    least = (slope - error) * (1.0 - (sums + 6) * UNIT)
    steep = least > FLAT
    divisor = np.where(steep, np.where(room >= 0, least, slope + error), 1.0)
    with np.errstate(over="ignore"):  # further than any float
        return np.where(steep, np.maximum(room / divisor, -FAR), np.inf)
