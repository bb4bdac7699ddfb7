"""Running sums of weights: in floats where these decide, in integers where they do not.

A weighted rank compares two sums of weights, and sums of floats depend on their order and unit.
Every float is an integer times a power of two, so the sums can be had without rounding. Here they
are kept to about 32 digits; a comparison closer than single floats can tell is made in integers.
Which labels are in is thus a function of the weights as numbers: their order and a power of two as
common factor change nothing, and equal weights give the rank of unweighted rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray

# Sums and bounds of floats below are right to a few parts in 2**53; what is closer is not decided.
SLACK = 2.0**-49
# Rows whose mantissas are added at once: half a mantissa has 27 bits, and floats hold 53.
CHUNK = 2**24
# A point that outweighs all others by this much might as well do so by more.
HEAVIEST = 2.0**900


class RunningSums:
    """Sums of the first j of n weights, ``j = 0 .. n``.

    Parameters
    ----------
    weights : float64 array of shape (n,)
        Finite, not negative and not all 0.

    Examples
    --------
    >>> sums = RunningSums(np.full(9, 0.1))
    >>> sums.last_within(Fraction(1, 10), np.array([0.1, 0.3]))  # 0.1 of 1.0 is all of its share
    array([ 0, -1])
    >>> sums.shares(np.array([0, 4]), np.array([0.1, 0.1]))
    array([0.1, 0.5])
    """

    UNIT: ClassVar[Fraction] = Fraction(1, 2**1126)
    """What `exact` counts: no float is finer."""

    def __init__(self, weights: FloatArray) -> None:
        self._weights = weights
        # The power of two above the largest weight is taken out, so that no sum overflows.
        self._power = int(np.frexp(weights.max())[1])
        self._high, self._low = _running(np.ldexp(weights, -self._power))
        self._rising = np.maximum.accumulate(self._high)
        self._known: dict[int, int] = {}

    def last_within(self, level: Fraction, new_weights: FloatArray) -> IntArray:
        """Return the largest j with ``sum of the first j + w <= level (sum of all + w)``.

        Parameters
        ----------
        level : Fraction
            Between 0 and 1.
        new_weights : float64 array of any shape
            The weight w of each new point.

        Returns
        -------
        integer array of the shape of `new_weights`
            From 0 to n - 1; -1 where w alone is more.
        """
        new_weights = np.asarray(new_weights, dtype=np.float64)
        scaled = self._scaled(new_weights)
        whole = self._high[-1] + scaled
        bound, slack = float(level) * whole - scaled, SLACK * whole
        least, most = (
            np.asarray(np.searchsorted(self._rising, bound + move, side="right") - 1)
            for move in (-slack, slack)
        )
        undecided = least < most
        if undecided.any():
            for weight in np.unique(new_weights[undecided]):
                same = undecided & (new_weights == weight)
                ends = int(least[same].min()), int(most[same].max())
                most[same] = self._decided(level, float(weight), *ends)
        return most

    def _decided(self, level: Fraction, new_weight: float, least: int, most: int) -> int:
        """Return the largest j in ``least .. most`` that `last_within` asks for, exactly."""
        weight = _whole_sum(np.array([new_weight]))
        bound = math.floor(level * (self.exact(len(self._weights)) + weight)) - weight
        # The first of these is known to be within; -1 stands for none.
        return bisect_right(range(most + 1), bound, lo=max(least, 0), key=self.exact) - 1

    def exact(self, j: int) -> int:
        """Return the sum of the first j weights as a number of `UNIT`."""
        if j not in self._known:
            self._known[j] = _whole_sum(self._weights[:j])
        return self._known[j]

    def shares(self, j: IntArray, weight: FloatArray) -> FloatArray:
        """Return ``(sum of the first j + weight) / (sum of all + weight)``, rounded once.

        Parameters
        ----------
        j : integer array
            How many weights.
        weight : float64 array that broadcasts against it
            The weight of each new point.
        """
        scaled = self._scaled(weight)
        top, top_rest = _two_sum(self._high[j], scaled)
        all_, all_rest = _two_sum(self._high[-1], scaled)
        top_rest, all_rest = top_rest + self._low[j], all_rest + self._low[-1]
        quotient = top / all_
        product, error = _two_product(quotient, all_)
        left = ((top - product) - error) + (top_rest - quotient * all_rest)
        return quotient + left / all_

    def smoothed(self, below: IntArray, j: IntArray, weight: FloatArray, tau: Any) -> FloatArray:
        """Return ``(sum of the first below + tau (those up to j + w)) / (sum of all + w)``."""
        scaled = self._scaled(weight)
        tied = (self._high[j] - self._high[below]) + (self._low[j] - self._low[below])
        inside = self._high[below] + tau * (tied + scaled)
        return np.minimum(inside / (self._high[-1] + scaled), 1.0)

    def _scaled(self, weight: FloatArray) -> FloatArray:
        """Return weights of new points in the unit of the kept sums."""
        with np.errstate(over="ignore"):
            return np.minimum(
                np.ldexp(np.asarray(weight, dtype=np.float64), -self._power), HEAVIEST
            )


def _running(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the running sums (n + 1,) as pairs of floats, a sum and what its rounding left out.

    About sqrt(n) stretches of terms are added side by side, then one to the end of the other.
    """
    n = len(terms)
    width = math.isqrt(max(n - 1, 0)) + 1
    stretches = np.zeros((-(-n // width), width))
    stretches.ravel()[:n] = terms
    high, low = np.zeros_like(stretches), np.zeros_like(stretches)
    pair = np.zeros(len(stretches)), np.zeros(len(stretches))
    for place in range(width):
        pair = _add(*pair, stretches[:, place], 0.0)
        high[:, place], low[:, place] = pair
    before = np.zeros((2, len(stretches)))
    for stretch in range(1, len(stretches)):
        earlier, last = before[:, stretch - 1], (high[stretch - 1, -1], low[stretch - 1, -1])
        before[:, stretch] = _add(earlier[0], earlier[1], *last)
    high, low = _add(before[0][:, None], before[1][:, None], high, low)
    start = np.zeros(1)
    return np.append(start, high.ravel()[:n]), np.append(start, low.ravel()[:n])


def _add(high: Any, low: Any, term: Any, term_low: Any) -> tuple[Any, Any]:
    """Return the sum of two pairs of floats as a pair."""
    total, error = _two_sum(high, term)
    error = error + (low + term_low)
    rounded = total + error
    return rounded, error - (rounded - total)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded product and its rounding error (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _halves(a: Any) -> tuple[Any, Any]:
    """Return floats as sums of two of half the digits."""
    turned = a * 134217729.0  # 2**27 + 1
    high = turned - (turned - a)
    return high, a - high


def _whole_sum(weights: FloatArray) -> int:
    """Return the sum of floats that are not negative as a number of `RunningSums.UNIT`."""
    total = 0
    for start in range(0, len(weights), CHUNK):
        mantissa, exponent = np.frexp(weights[start : start + CHUNK])
        digits = (mantissa * 2.0**53).astype(np.int64)
        shift = exponent.astype(np.int64) + 1073
        for half, places in ((digits >> 26, 26), (digits & (2**26 - 1), 0)):
            sums = np.bincount(shift, weights=half)
            total += sum(int(sums[s]) << (int(s) + places) for s in np.flatnonzero(sums))
    return total
