"""Compiled widths of averaged V-shaped scores, for many weights, and how they change with weights.

The supporting lines of `kernels.host.bands`, walked from knot to knot in rising order, as they come
out in floats. Line 0 lies left of all knots and goes through the first, line i + 1 lies right of
knot i and goes through it. With the value V at its knot c and slope p a line meets the threshold at
``c + (t - V) / p``, the lower end where p is negative, the upper end where it is positive.

All that a threshold goes through (a difference, a product with a number of known sign, a sum,
minima and maxima) is monotone in floats: no width falls when its threshold rises.

Weights run in the inner loops, so that one instruction serves several; their numbers lie in one
scratch array, `TOGETHER` apart, because the compiler gives up on many arrays that might overlap.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import allocating, inner

# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Weights that pass over a row together: their numbers stay in a core's first cache.
TOGETHER = 256


@allocating
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
    """Add the widths of row r under ``weights[:, i]`` to ``totals[r % g, l, i]``, row after row.

    Every row has its knots `centre` (n, d) in rising order, `order` says of which scores, `first`
    their scores at the first knot; weights are (d, m), thresholds (L, m), totals (g, L, m): one
    total for all rows, or one for each. Intervals are cut to ``[low, high]``. Of the weights, those
    from `start` to `stop`.
    """
    n, d = order.shape
    lines = np.empty((2 * d + 5) * TOGETHER)
    for begin in range(start, stop, TOGETHER):
        end = min(begin + TOGETHER, stop)
        for r in range(n):
            total = totals[r % len(totals)]
            if d == 3:
                _add_three(order[r], centre[r], first[r], below[r], above[r], weights, thresholds,
                           begin, end, low, high, lines, total)  # fmt: skip
                continue
            _draw(order[r], centre[r], first[r], below[r], above[r], weights, begin, end, lines)
            for s in range(len(thresholds)):
                cuts = thresholds[s, begin:end]
                _measure(centre[r], lines, cuts, low, high, total[s, begin:end])


@inner
def _draw(
    order: IntArray,
    centre: FloatArray,
    first: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    begin: int,
    end: int,
    lines: FloatArray,
) -> None:
    """Write values at knots (d), their minimum (1) and inverse slopes of lines (d + 1).

    A flat line has the inverse 0.
    """
    d, size = len(order), end - begin
    value = lines[:size]
    lowest = lines[d * TOGETHER : d * TOGETHER + size]
    up = lines[(2 * d + 2) * TOGETHER : (2 * d + 2) * TOGETHER + size]
    for e in range(size):
        value[e] = 0.0
        up[e] = 0.0
        lines[(2 * d + 1) * TOGETHER + e] = 0.0
    for i in range(d):
        w = weights[order[i], begin:end]
        for e in range(size):
            value[e] += w[e] * first[i]
    for i in range(d - 1, -1, -1):
        w = weights[order[i], begin:end]
        down = lines[(d + 1 + i) * TOGETHER : (d + 3 + i) * TOGETHER]
        for e in range(size):
            down[e] = down[e + TOGETHER] + w[e] * below[i]
    inverse = lines[(d + 1) * TOGETHER : (d + 1) * TOGETHER + size]
    for e in range(size):
        lowest[e] = value[e]
        steep = np.divide(-1.0, inverse[e])
        inverse[e] = steep if inverse[e] > FLAT else 0.0
    for i in range(d):
        w = weights[order[i], begin:end]
        gap = centre[i + 1] - centre[i] if i + 1 < d else 0.0
        value = lines[i * TOGETHER : i * TOGETHER + size]
        inverse = lines[(d + 2 + i) * TOGETHER : (d + 2 + i) * TOGETHER + size]
        for e in range(size):
            up[e] += w[e] * above[i]
            slope = up[e] - inverse[e]
            steep = np.divide(1.0, slope)
            inverse[e] = steep if abs(slope) > FLAT else 0.0
            if i + 1 < d:
                following = value[e] + slope * gap
                lines[(i + 1) * TOGETHER + e] = following
                lowest[e] = following if following < lowest[e] else lowest[e]


@inner
def _measure(
    centre: FloatArray,
    lines: FloatArray,
    cuts: FloatArray,
    low: float,
    high: float,
    totals: FloatArray,
) -> None:
    """Add widths at the thresholds `cuts`, line by line."""
    d, size = len(centre), len(cuts)
    ends = lines[(2 * d + 3) * TOGETHER : (2 * d + 5) * TOGETHER]
    for e in range(size):
        ends[e] = low
        ends[e + TOGETHER] = high
    for i in range(d + 1):
        knot = centre[max(i - 1, 0)]
        value = lines[max(i - 1, 0) * TOGETHER : max(i - 1, 0) * TOGETHER + size]
        inverse = lines[(d + 1 + i) * TOGETHER : (d + 1 + i) * TOGETHER + size]
        for e in range(size):
            end = knot + (cuts[e] - value[e]) * inverse[e]
            left = end if inverse[e] < 0.0 else low
            right = end if inverse[e] > 0.0 else high
            ends[e] = left if left > ends[e] else ends[e]
            ends[e + TOGETHER] = right if right < ends[e + TOGETHER] else ends[e + TOGETHER]
    for e in range(size):
        width = ends[e + TOGETHER] - ends[e]
        width = width if width > 0.0 else 0.0
        totals[e] += width if lines[d * TOGETHER + e] <= cuts[e] else 0.0


@inner
def _lines_of_three(
    w_1: float,
    w_2: float,
    w_3: float,
    first: tuple[float, float, float],
    below: tuple[float, float, float],
    above: tuple[float, float, float],
    gaps: tuple[float, float],
) -> tuple[float, float, float, float, float, float, float, float]:
    """Return what `_draw` writes of three scores, in its order: the same numbers."""
    value = w_1 * first[0] + w_2 * first[1] + w_3 * first[2]
    down_2 = w_3 * below[2]
    down_1 = down_2 + w_2 * below[1]
    down_0 = down_1 + w_1 * below[0]
    up_1 = w_1 * above[0]
    up_2 = up_1 + w_2 * above[1]
    up_3 = up_2 + w_3 * above[2]
    slope_1 = up_1 - down_1
    slope_2 = up_2 - down_2
    second = value + slope_1 * gaps[0]
    third = second + slope_2 * gaps[1]
    lowest = second if second < value else value
    lowest = third if third < lowest else lowest
    # Divided whether flat or not: a branch would cost more than a division.
    steep_0, steep_1 = np.divide(-1.0, down_0), np.divide(1.0, slope_1)
    steep_2, steep_3 = np.divide(1.0, slope_2), np.divide(1.0, up_3)
    return (
        value, second, third, lowest,
        steep_0 if down_0 > FLAT else 0.0, steep_1 if abs(slope_1) > FLAT else 0.0,
        steep_2 if abs(slope_2) > FLAT else 0.0, steep_3 if up_3 > FLAT else 0.0,
    )  # fmt: skip


@inner
def _width_of_three(
    knots: tuple[float, float, float],
    lines: tuple[float, float, float, float, float, float, float, float],
    cut: float,
    low: float,
    high: float,
) -> float:
    """Return what `_measure` adds for three scores: the same number."""
    value, second, third, lowest, falling, middle, next_middle, rising = lines
    room = cut - value
    end = knots[0] + room * falling
    left = end if falling < 0.0 else low
    lower = left if left > low else low
    end = knots[0] + room * middle
    left = end if middle < 0.0 else low
    right = end if middle > 0.0 else high
    lower = left if left > lower else lower
    upper = right if right < high else high
    end = knots[1] + (cut - second) * next_middle
    left = end if next_middle < 0.0 else low
    right = end if next_middle > 0.0 else high
    lower = left if left > lower else lower
    upper = right if right < upper else upper
    end = knots[2] + (cut - third) * rising
    right = end if rising > 0.0 else high
    upper = right if right < upper else upper
    width = upper - lower
    width = width if width > 0.0 else 0.0
    return width if lowest <= cut else 0.0


@inner
def _add_three(
    order: IntArray,
    centre: FloatArray,
    first: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    thresholds: FloatArray,
    begin: int,
    end: int,
    low: float,
    high: float,
    scratch: FloatArray,
    totals: FloatArray,
) -> None:
    """Add the widths of one row under three scores, in one pass over the weights for each level.

    Lines are drawn once and kept for several levels; for a single one they are not written down.
    """
    one = weights[order[0], begin:end]
    two = weights[order[1], begin:end]
    three = weights[order[2], begin:end]
    at_first = first[0], first[1], first[2]
    down = below[0], below[1], below[2]
    up = above[0], above[1], above[2]
    knots = centre[0], centre[1], centre[2]
    gaps = knots[1] - knots[0], knots[2] - knots[1]
    if len(thresholds) == 1:
        cuts, total = thresholds[0, begin:end], totals[0, begin:end]
        for e in range(end - begin):
            lines = _lines_of_three(one[e], two[e], three[e], at_first, down, up, gaps)
            total[e] += _width_of_three(knots, lines, cuts[e], low, high)
        return
    for e in range(end - begin):
        lines = _lines_of_three(one[e], two[e], three[e], at_first, down, up, gaps)
        scratch[e] = lines[0]
        scratch[e + TOGETHER] = lines[1]
        scratch[e + 2 * TOGETHER] = lines[2]
        scratch[e + 3 * TOGETHER] = lines[3]
        scratch[e + 4 * TOGETHER] = lines[4]
        scratch[e + 5 * TOGETHER] = lines[5]
        scratch[e + 6 * TOGETHER] = lines[6]
        scratch[e + 7 * TOGETHER] = lines[7]
    for s in range(len(thresholds)):
        cuts, total = thresholds[s, begin:end], totals[s, begin:end]
        for e in range(end - begin):
            lines = (
                scratch[e], scratch[e + TOGETHER], scratch[e + 2 * TOGETHER],
                scratch[e + 3 * TOGETHER], scratch[e + 4 * TOGETHER], scratch[e + 5 * TOGETHER],
                scratch[e + 6 * TOGETHER], scratch[e + 7 * TOGETHER],
            )  # fmt: skip
            total[e] += _width_of_three(knots, lines, cuts[e], low, high)


@allocating
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
    """Add widths to ``totals[l]``, and how they change with the weights to ``slopes[j]``.

    Of all rows under one weight vector (d,), at thresholds `cuts` (L,) that change by `moves`
    (L, d). An end y where the average has slope p moves by ``(move_j - s_j(y)) / p``; an end that
    is cut to ``[low, high]``, or infinite, does not move.
    """
    n, d = order.shape
    values = np.empty(d)
    pitches = np.empty(d + 1)
    for r in range(n):
        _walk(order[r], centre[r], offset[r], below[r], above[r], weights, values, pitches)
        knots = centre[r]
        for s in range(len(cuts)):
            t = cuts[s]
            begin = 0
            while begin < d and values[begin] > t:
                begin += 1
            if begin == d:
                continue
            end = d - 1
            while values[end] > t:
                end -= 1
            lower, upper = low, high
            falls = pitches[begin] < -FLAT
            if falls:
                lower = knots[order[r, begin]] + np.divide(t - values[begin], pitches[begin])
            rises = pitches[end + 1] > FLAT
            if rises:
                upper = knots[order[r, end]] + np.divide(t - values[end], pitches[end + 1])
            totals[s] += max(min(upper, high) - max(lower, low), 0.0)
            if rises and low < upper < high:
                _slide(knots, offset[r], below[r], above[r], upper, moves[s],
                       np.divide(1.0, pitches[end + 1]), slopes)  # fmt: skip
            if falls and low < lower < high:
                _slide(knots, offset[r], below[r], above[r], lower, moves[s],
                       np.divide(-1.0, pitches[begin]), slopes)  # fmt: skip


@inner
def _walk(
    order: IntArray,
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    values: FloatArray,
    pitches: FloatArray,
) -> None:
    """Write the values at the knots in rising order (d,), and the slopes between them (d + 1,)."""
    d = len(order)
    knot = centre[order[0]]
    value = 0.0
    down = 0.0
    for i in range(d - 1, -1, -1):
        j = order[i]
        pitches[i + 1] = -down
        down += weights[j] * below[j]
        value += weights[j] * (offset[j] + below[j] * (centre[j] - knot))
    pitches[0] = -down
    up = 0.0
    for i in range(d):
        j = order[i]
        if i > 0:
            value += pitches[i] * (centre[j] - knot)
        knot = centre[j]
        values[i] = value
        up += weights[j] * above[j]
        pitches[i + 1] += up


@inner
def _slide(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    y: float,
    moves: FloatArray,
    factor: float,
    slopes: FloatArray,
) -> None:
    """Add ``factor (move_j - s_j(y))`` to every slope."""
    for j in range(len(centre)):
        gap = y - centre[j]
        score = offset[j] + (gap * above[j] if gap > 0.0 else -gap * below[j])
        slopes[j] += factor * (moves[j] - score)
