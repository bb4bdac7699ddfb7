"""Compiled intervals of averaged V-shaped scores: their ends, rounded outward, and their widths.

Row i has d scores ``s_j(y) = f_j + a_j (c_j - y)+ + b_j (y - c_j)+``; their average under weights
``w >= 0`` is convex and piecewise linear with knots c_j, and ``{y : average <= t}`` an interval.

**Supporting lines.** At every knot c the average lies above ``V + p (y - c)``, V its value and p
its slope on either side. Each line bounds the interval by itself: from below by ``c + (t - V) / p``
with the left slope where that is negative, from above with the right one where that is positive.
The largest lower and smallest upper bound are the ends, because every piece touches a knot. No knot
has to be found first and none sorted; a bound that is left out or made weaker widens, no more.

**Rounded outward.** Let ``u = 2^-53``, F the float evaluation of the average (`Planes.combined`)
and ``A(y) = sum w_j (|f_j| + slope_j |c_j - y|)``. In F an offset goes through at most d + 1
roundings and a slope through d + 3 (gap, product, sum, weight, d - 1 sums), so
``F(y) >= g(y) := average(y) - e A(y) - tiny`` with ``e <= (d + 3) u / (1 - (d + 3) u)``; `TINY`
stands for what underflow loses. The function g is convex with the same knots, and its slopes are
those of the average times (1 - e). So ``F(y) <= t`` implies ``g(y) <= t`` and, for every knot,
``g(c) + (1 - e) p (y - c) <= t``. With V = F(c), ``t - g(c) <= t - V + 2 e A(c) + tiny``; computed
as `room` with ``(2 d + 12) u A + 2 u |t| + TINY``, where 2 d + 7 would do for exact sums and the
rest covers the roundings of A, of ``t - V`` and of the sum. Slopes are sums of d products, off by
at most ``d u / (1 - d u)`` times the sum of their sizes: with (d + 1) u the exact slope lies
between `least` and `most`, and one that may be flat bounds nothing. Dividing by the smaller of the
two where `room` is positive and by the larger where it is negative, and moving the end by 4 u of
what was added, covers the quotient, its rounding and that of `room` (u each) and the last two
sums. Where `room` is negative at every knot, g exceeds t at all of them, hence everywhere: only
then is an interval empty, or where its ends have crossed.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960
# Weights that pass over a row together: their numbers stay in a core's first cache.
TOGETHER = 256


@compiled
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

    Planes are (n, d), weights (d,). An interval without an end on some side ends at ``-inf`` or
    ``inf`` there; an empty one is ``(inf, -inf)``.
    """
    n, d = centre.shape
    shrink = 1.0 - (d + 6) * UNIT
    empty = np.empty(thresholds.shape[0], dtype=np.bool_)
    for r in range(n):
        for s in range(thresholds.shape[0]):
            lower[s, r] = -np.inf
            upper[s, r] = np.inf
            empty[s] = True
        for k in range(d):
            knot = centre[r, k]
            value = 0.0
            reach = 0.0
            left = 0.0
            left_size = 0.0
            right = 0.0
            right_size = 0.0
            for j in range(d):
                w = weights[j]
                c = centre[r, j]
                falling = below[r, j] * max(c - knot, 0.0)
                rising = above[r, j] * max(knot - c, 0.0)
                part = w * (offset[r, j] + falling + rising)
                value = part if j == 0 else value + part
                reach += w * (abs(offset[r, j]) + falling + rising)
                down = w * below[r, j]
                up = w * above[r, j]
                left += up if c < knot else -down
                left_size += up if c < knot else down
                right += up if c <= knot else -down
                right_size += up if c <= knot else down
            slack = (2 * d + 12) * UNIT * reach + TINY
            error = (d + 1) * UNIT * left_size
            least_left = (-left - error) * shrink
            most_left = -left + error
            error = (d + 1) * UNIT * right_size
            least_right = (right - error) * shrink
            most_right = right + error
            for s in range(thresholds.shape[0]):
                t = thresholds[s, r]
                room = (t - value) + (slack + 2 * UNIT * min(abs(t), FAR))
                if room >= 0:
                    empty[s] = False
                if least_left > FLAT:
                    step = max(room / (least_left if room >= 0 else most_left), -FAR)
                    end = knot - step
                    end = end - 4 * UNIT * (abs(end) + abs(step))
                    lower[s, r] = max(lower[s, r], end)
                if least_right > FLAT:
                    step = max(room / (least_right if room >= 0 else most_right), -FAR)
                    end = knot + step
                    end = end + 4 * UNIT * (abs(end) + abs(step))
                    upper[s, r] = min(upper[s, r], end)
        for s in range(thresholds.shape[0]):
            if empty[s] or lower[s, r] > upper[s, r]:
                lower[s, r] = np.inf
                upper[s, r] = -np.inf


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
    totals: FloatArray,
) -> None:
    """Add to ``totals[l, i]`` the widths of all rows under ``weights[:, i]``, row after row.

    Every row has its knots `centre` in rising order, `order` says of which scores, `first` their
    scores at the first knot; weights are (d, m), thresholds (L, m). Intervals are cut to ``[low,
    high]``. The supporting lines again, walked from knot to knot, as they come out in floats: all
    that a threshold goes through is monotone, so that no width falls when its threshold rises.
    """
    n, d = order.shape
    m = weights.shape[1]
    levels = thresholds.shape[0]
    down = np.empty((d + 1, TOGETHER))
    value = np.empty(TOGETHER)
    lowest = np.empty(TOGETHER)
    up = np.empty(TOGETHER)
    fall = np.empty(TOGETHER)
    rise = np.empty(TOGETHER)
    lower = np.empty((levels, TOGETHER))
    upper = np.empty((levels, TOGETHER))
    for start in range(0, m, TOGETHER):
        size = min(TOGETHER, m - start)
        for r in range(n):
            for e in range(size):
                value[e] = 0.0
                up[e] = 0.0
                down[d, e] = 0.0
            for i in range(d):
                w = weights[order[r, i], start : start + size]
                f = first[r, i]
                for e in range(size):
                    value[e] += w[e] * f
            for i in range(d - 1, -1, -1):
                w = weights[order[r, i], start : start + size]
                a = below[r, i]
                for e in range(size):
                    down[i, e] = down[i + 1, e] + w[e] * a
            for e in range(size):
                lowest[e] = value[e]
                fall[e] = -1.0 / down[0, e] if down[0, e] > FLAT else 0.0
            for s in range(levels):
                for e in range(size):
                    lower[s, e] = low
                    upper[s, e] = high
            for i in range(d):
                w = weights[order[r, i], start : start + size]
                knot = centre[r, i]
                b = above[r, i]
                for e in range(size):
                    lowest[e] = min(lowest[e], value[e])
                    up[e] += w[e] * b
                    slope = up[e] - down[i + 1, e]
                    rise[e] = 1.0 / slope if slope > FLAT else 0.0
                for s in range(levels):
                    t = thresholds[s, start : start + size]
                    for e in range(size):
                        left = knot + (t[e] - value[e]) * fall[e]
                        right = knot + (t[e] - value[e]) * rise[e]
                        left = left if fall[e] < 0.0 else low
                        right = right if rise[e] > 0.0 else high
                        lower[s, e] = left if left > lower[s, e] else lower[s, e]
                        upper[s, e] = right if right < upper[s, e] else upper[s, e]
                if i + 1 < d:
                    gap = centre[r, i + 1] - knot
                    for e in range(size):
                        slope = up[e] - down[i + 1, e]
                        value[e] += slope * gap
                        fall[e] = 1.0 / slope if slope < -FLAT else 0.0
            for s in range(levels):
                t = thresholds[s, start : start + size]
                for e in range(size):
                    width = max(upper[s, e] - lower[s, e], 0.0)
                    totals[s, start + e] += width if lowest[e] <= t[e] else 0.0
