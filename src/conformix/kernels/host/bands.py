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

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled, inner

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960


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
    levels = len(thresholds)
    empty = np.empty(levels, dtype=np.bool_)
    for r in range(n):
        for s in range(levels):
            lower[s, r] = -np.inf
            upper[s, r] = np.inf
            empty[s] = True
        for k in range(d):
            knot = centre[r, k]
            value, slack, left, left_error, right, right_error = _support(
                centre[r], offset[r], below[r], above[r], weights, knot
            )
            for s in range(levels):
                t = thresholds[s, r]
                room = (t - value) + (slack + 2 * UNIT * min(abs(t), FAR))
                empty[s] &= room < 0
                step = _step(room, -left, left_error, d)
                end = knot - step
                lower[s, r] = max(lower[s, r], end - 4 * UNIT * (abs(end) + abs(step)))
                step = _step(room, right, right_error, d)
                end = knot + step
                upper[s, r] = min(upper[s, r], end + 4 * UNIT * (abs(end) + abs(step)))
        for s in range(levels):
            if empty[s] or lower[s, r] > upper[s, r]:
                lower[s, r] = np.inf
                upper[s, r] = -np.inf


@inner
def _support(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    knot: float,
) -> tuple[float, float, float, float, float, float]:
    """Return the value at a knot and its slack, the slopes to its left and right and theirs."""
    d = len(centre)
    value = 0.0
    reach = 0.0
    left = 0.0
    left_size = 0.0
    right = 0.0
    right_size = 0.0
    for j in range(d):
        w = weights[j]
        c = centre[j]
        falling = below[j] * max(c - knot, 0.0)
        rising = above[j] * max(knot - c, 0.0)
        part = w * (offset[j] + falling + rising)
        value = part if j == 0 else value + part
        reach += w * (abs(offset[j]) + falling + rising)
        down = w * below[j]
        up = w * above[j]
        left += up if c < knot else -down
        left_size += up if c < knot else down
        right += up if c <= knot else -down
        right_size += up if c <= knot else down
    slack = (2 * d + 12) * UNIT * reach + TINY
    return value, slack, left, (d + 1) * UNIT * left_size, right, (d + 1) * UNIT * right_size


@inner
def _step(room: float, slope: float, error: float, d: int) -> float:
    """Return how far from a knot the end may be, infinite where the slope may be flat."""
    least = (slope - error) * (1.0 - (d + 6) * UNIT)
    if not least > FLAT:
        return np.inf
    return max(np.divide(room, least if room >= 0 else slope + error), -FAR)
