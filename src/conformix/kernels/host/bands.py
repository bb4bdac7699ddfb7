"""Compiled intervals of averaged V-shaped scores: their ends, rounded outward.

Row i has d scores ``s_j(y) = f_j + a_j (c_j - y)+ + b_j (y - c_j)+``; their average under weights
``w >= 0`` is convex and piecewise linear with knots c_j, and ``{y : average <= t}`` an interval.

**Supporting lines.** At every knot c the average lies above ``V + p (y - c)``, V its value and p
its slope on either side. Each line bounds the interval by itself: from below by ``c + (t - V) / p``
with the left slope where that is negative, from above with the right one where that is positive.
The largest lower and smallest upper bound are the ends, because every piece touches a knot. No knot
has to be found first and none sorted; a bound that is left out or made weaker widens, no more.

**Rounded outward.** Let ``u = 2^-53``, F the float evaluation of the average (`Planes.combined`)
and ``A(y) = sum w_j (|f_j| + slope_j |c_j - y|)``. With m weights other than zero, products with
them and sums of those are m roundings at most (none for one weight of one), and a slope goes
through three more (gap, product, sum with the offset), an offset through one. So
``F(y) >= g(y) := average(y) - e A(y) - tiny`` with ``e <= (m + 3) u / (1 - (m + 3) u)``; `TINY`
stands for what underflow loses. The function g is convex with the same knots, and its slopes are
those of the average times (1 - e). So ``F(y) <= t`` implies ``g(y) <= t`` and, for every knot,
``g(c) + (1 - e) p (y - c) <= t``, where ``t - g(c) <= t - V + 2 e A(c) + tiny`` with V = F(c). That
is computed as `room`, with a slack of ``(2 m + 12) u A + TINY``: 2 m + 7 would do if A were exact,
and the rest covers the roundings of A, of the slack, and of ``t - V`` as far as it is no larger
than the slack; what is left of the latter, and the rounding of the sum, is 2 u of `room`. Slopes
are off by at most ``m u / (1 - m u)`` times the sum of their sizes: with (m + 1) u the exact slope
lies within the error, and one that may be flat bounds nothing. The step
``room / ((1 - e) |p|)`` is taken with the least slope where `room` is positive and with the largest
where it is negative. It is off by 3 u (`room` and the quotient), the sum with the knot and the
last one by u each: the end is moved by 4 u of the step and 3 u of itself. Where `room` is negative
at every knot, g exceeds t at all of them, hence everywhere: only then is an interval empty, or
where its ends have crossed.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import allocating, inner

# Half a unit in the last place of one; what underflow may lose; a number beyond all endpoints.
UNIT, TINY, FAR = 2.0**-53, 2.0**-1000, 2.0**1000
# A slope no steeper than this is flat.
FLAT = 2.0**-960


@allocating
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

    Planes are (n, d), weights (d,), thresholds (L, n), or (L, 1) for all rows alike. An interval
    without an end on some side ends at ``-inf`` or ``inf`` there; an empty one is ``(inf, -inf)``.
    """
    n, d = centre.shape
    levels = len(thresholds)
    sums = _roundings(weights)
    each = thresholds.shape[1] > 1
    empty = np.empty(levels, dtype=np.bool_)
    for r in range(n):
        for s in range(levels):
            lower[s, r] = -np.inf
            upper[s, r] = np.inf
            empty[s] = True
        for k in range(d):
            knot = centre[r, k]
            value, slack, left, left_error, right, right_error = _support(
                centre[r], offset[r], below[r], above[r], weights, knot, sums
            )
            for s in range(levels):
                t = thresholds[s, r if each else 0]
                room = (t - value) + slack
                empty[s] &= room < 0
                step = _step(room, -left, left_error, sums)
                end = knot - step
                lower[s, r] = max(lower[s, r], end - (4 * UNIT * abs(step) + 3 * UNIT * abs(end)))
                step = _step(room, right, right_error, sums)
                end = knot + step
                upper[s, r] = min(upper[s, r], end + (4 * UNIT * abs(step) + 3 * UNIT * abs(end)))
        for s in range(levels):
            if empty[s] or lower[s, r] > upper[s, r]:
                lower[s, r] = np.inf
                upper[s, r] = -np.inf


@inner
def _roundings(weights: FloatArray) -> int:
    """Return how many roundings a product with its weight and the sum of all products are."""
    used = 0
    whole = 0
    for w in weights:
        used += w != 0.0
        whole += w == 1.0
    return 0 if used == whole == 1 else used


@inner
def _support(
    centre: FloatArray,
    offset: FloatArray,
    below: FloatArray,
    above: FloatArray,
    weights: FloatArray,
    knot: float,
    sums: int,
) -> tuple[float, float, float, float, float, float]:
    """Return the value at a knot and its slack, the slopes to its left and right and theirs."""
    value = 0.0
    reach = 0.0
    left = 0.0
    left_size = 0.0
    right = 0.0
    right_size = 0.0
    for j in range(len(centre)):
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
    slack = (2 * sums + 12) * UNIT * reach + TINY
    share = (sums + 1) * UNIT if sums > 0 else 0.0
    return value, slack, left, share * left_size, right, share * right_size


@inner
def _step(room: float, slope: float, error: float, sums: int) -> float:
    """Return how far from a knot the end may be, infinite where the slope may be flat."""
    least = (slope - error) * (1.0 - (sums + 6) * UNIT)
    if not least > FLAT:
        return np.inf
    return max(np.divide(room, least if room >= 0 else slope + error), -FAR)
