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
from conformix.kernels.host.compiled import compiled, inner

# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Weights that pass over a row together: their numbers stay in a core's first cache.
TOGETHER = 256


@compiled
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
            if d == 3 and len(thresholds) == 1:
                _three_once(order[r], centre[r], first[r], below[r], above[r], weights, begin, end,
                            thresholds[0, begin:end], low, high, total[0, begin:end])  # fmt: skip
                continue
            if d == 3:
                _draw_three(order[r], centre[r], first[r], below[r], above[r],
                            weights, begin, end, lines)  # fmt: skip
            else:
                _draw(order[r], centre[r], first[r], below[r], above[r],
                      weights, begin, end, lines)  # fmt: skip
            for s in range(len(thresholds)):
                cuts = thresholds[s, begin:end]
                if d == 3:
                    _measure_three(centre[r], lines, cuts, low, high, total[s, begin:end])
                else:
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
def _draw_three(
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
    """`_draw` for three scores, in one pass: the same numbers."""
    one = weights[order[0], begin:end]
    two = weights[order[1], begin:end]
    three = weights[order[2], begin:end]
    f_1, f_2, f_3 = first[0], first[1], first[2]
    a_1, a_2, a_3 = below[0], below[1], below[2]
    b_1, b_2, b_3 = above[0], above[1], above[2]
    gap_1, gap_2 = centre[1] - centre[0], centre[2] - centre[1]
    for e in range(end - begin):
        value = one[e] * f_1 + two[e] * f_2 + three[e] * f_3
        down_2 = three[e] * a_3
        down_1 = down_2 + two[e] * a_2
        down_0 = down_1 + one[e] * a_1
        up_1 = one[e] * b_1
        up_2 = up_1 + two[e] * b_2
        up_3 = up_2 + three[e] * b_3
        slope_1 = up_1 - down_1
        slope_2 = up_2 - down_2
        second = value + slope_1 * gap_1
        third = second + slope_2 * gap_2
        lowest = second if second < value else value
        inverses = (
            np.divide(-1.0, down_0), np.divide(1.0, slope_1),
            np.divide(1.0, slope_2), np.divide(1.0, up_3),
        )  # fmt: skip
        lines[e] = value
        lines[e + TOGETHER] = second
        lines[e + 2 * TOGETHER] = third
        lines[e + 3 * TOGETHER] = third if third < lowest else lowest
        lines[e + 4 * TOGETHER] = inverses[0] if down_0 > FLAT else 0.0
        lines[e + 5 * TOGETHER] = inverses[1] if abs(slope_1) > FLAT else 0.0
        lines[e + 6 * TOGETHER] = inverses[2] if abs(slope_2) > FLAT else 0.0
        lines[e + 7 * TOGETHER] = inverses[3] if up_3 > FLAT else 0.0


@inner
def _measure_three(
    centre: FloatArray,
    lines: FloatArray,
    cuts: FloatArray,
    low: float,
    high: float,
    totals: FloatArray,
) -> None:
    """`_measure` for three scores, in one pass: the same numbers."""
    knot_1, knot_2, knot_3 = centre[0], centre[1], centre[2]
    for e in range(len(cuts)):
        room = cuts[e] - lines[e]
        inverse = lines[e + 4 * TOGETHER]
        end = knot_1 + room * inverse
        left = end if inverse < 0.0 else low
        lower = left if left > low else low
        inverse = lines[e + 5 * TOGETHER]
        end = knot_1 + room * inverse
        left = end if inverse < 0.0 else low
        right = end if inverse > 0.0 else high
        lower = left if left > lower else lower
        upper = right if right < high else high
        inverse = lines[e + 6 * TOGETHER]
        end = knot_2 + (cuts[e] - lines[e + TOGETHER]) * inverse
        left = end if inverse < 0.0 else low
        right = end if inverse > 0.0 else high
        lower = left if left > lower else lower
        upper = right if right < upper else upper
        inverse = lines[e + 7 * TOGETHER]
        end = knot_3 + (cuts[e] - lines[e + 2 * TOGETHER]) * inverse
        right = end if inverse > 0.0 else high
        upper = right if right < upper else upper
        width = upper - lower
        width = width if width > 0.0 else 0.0
        totals[e] += width if lines[e + 3 * TOGETHER] <= cuts[e] else 0.0


@inner
def _three_once(
    order: IntArray,
    centre: FloatArray,
    first: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    begin: int,
    end: int,
    cuts: FloatArray,
    low: float,
    high: float,
    totals: FloatArray,
) -> None:
    """`_draw_three` and `_measure_three` for one threshold: the same numbers, none written down."""
    one = weights[order[0], begin:end]
    two = weights[order[1], begin:end]
    three = weights[order[2], begin:end]
    f_1, f_2, f_3 = first[0], first[1], first[2]
    a_1, a_2, a_3 = below[0], below[1], below[2]
    b_1, b_2, b_3 = above[0], above[1], above[2]
    knot_1, knot_2, knot_3 = centre[0], centre[1], centre[2]
    gap_1, gap_2 = knot_2 - knot_1, knot_3 - knot_2
    for e in range(end - begin):
        value = one[e] * f_1 + two[e] * f_2 + three[e] * f_3
        down_2 = three[e] * a_3
        down_1 = down_2 + two[e] * a_2
        down_0 = down_1 + one[e] * a_1
        up_1 = one[e] * b_1
        up_2 = up_1 + two[e] * b_2
        up_3 = up_2 + three[e] * b_3
        slope_1 = up_1 - down_1
        slope_2 = up_2 - down_2
        second = value + slope_1 * gap_1
        third = second + slope_2 * gap_2
        lowest = second if second < value else value
        lowest = third if third < lowest else lowest
        cut = cuts[e]
        room = cut - value
        reach = knot_1 + room * np.divide(-1.0, down_0)
        left = reach if down_0 > FLAT else low
        lower = left if left > low else low
        reach = knot_1 + room * np.divide(1.0, slope_1)
        left = reach if slope_1 < -FLAT else low
        right = reach if slope_1 > FLAT else high
        lower = left if left > lower else lower
        upper = right if right < high else high
        reach = knot_2 + (cut - second) * np.divide(1.0, slope_2)
        left = reach if slope_2 < -FLAT else low
        right = reach if slope_2 > FLAT else high
        lower = left if left > lower else lower
        upper = right if right < upper else upper
        reach = knot_3 + (cut - third) * np.divide(1.0, up_3)
        right = reach if up_3 > FLAT else high
        upper = right if right < upper else upper
        width = upper - lower
        width = width if width > 0.0 else 0.0
        totals[e] += width if lowest <= cut else 0.0


@compiled
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
