"""Averaged V-shaped scores by their definitions: loops over fractions, sharing nothing.

A row is a list of scores ``(centre, offset, below, above)``; weights, thresholds and responses are
fractions, so that every comparison is exact. The ends of an interval are fractions or infinite.
"""

from __future__ import annotations

import math
from fractions import Fraction

Score = tuple[Fraction, Fraction, Fraction, Fraction]
Number = Fraction | float


def average(row: list[Score], weights: list[Fraction], y: Fraction) -> Fraction:
    """The averaged score at y."""
    total = Fraction(0)
    for (centre, offset, below, above), weight in zip(row, weights, strict=True):
        rise = below * (centre - y) if y < centre else above * (y - centre)
        total += weight * (offset + rise)
    return total


def interval(
    row: list[Score], weights: list[Fraction], threshold: Number
) -> tuple[Number, Number] | None:
    """The interval of all y whose average is at most the threshold, or None where there is none."""
    knots = sorted({score[0] for score in row})
    values = [average(row, weights, knot) for knot in knots]
    inside = [i for i, value in enumerate(values) if value <= threshold]
    if not inside:
        return None
    if threshold == math.inf:
        return -math.inf, math.inf
    first, last = inside[0], inside[-1]
    if first == 0:
        steep = sum((w * s[2] for w, s in zip(weights, row, strict=True)), Fraction(0))
        lower = knots[0] - (threshold - values[0]) / steep if steep else -math.inf
    else:
        fall = (values[first - 1] - values[first]) / (knots[first] - knots[first - 1])
        lower = knots[first] - (threshold - values[first]) / fall
    if last == len(knots) - 1:
        steep = sum((w * s[3] for w, s in zip(weights, row, strict=True)), Fraction(0))
        upper = knots[-1] + (threshold - values[-1]) / steep if steep else math.inf
    else:
        rise = (values[last + 1] - values[last]) / (knots[last + 1] - knots[last])
        upper = knots[last] + (threshold - values[last]) / rise
    return lower, upper


def rank(n: int, alpha: Fraction) -> int:
    """The smallest integer that is at least ``(n + 1)(1 - alpha)``, found by counting up."""
    k = 1
    while k < (n + 1) * (1 - alpha):
        k += 1
    return k


def kth_smallest(values: list[Fraction], k: int) -> Number:
    """The k-th smallest, infinite where there are fewer."""
    return math.inf if k > len(values) else sorted(values)[k - 1]


def total_width(
    rows: list[list[Score]],
    y: list[Fraction],
    weights: list[Fraction],
    alpha: Fraction,
    y_range: tuple[Number, Number] = (-math.inf, math.inf),
) -> Number:
    """The widths of all rows at their own threshold, added up."""
    scores = [average(row, weights, at) for row, at in zip(rows, y, strict=True)]
    threshold = kth_smallest(scores, rank(len(rows), alpha))
    total: Number = Fraction(0)
    for row in rows:
        ends = interval(row, weights, threshold)
        if ends is not None:
            lower, upper = max(ends[0], y_range[0]), min(ends[1], y_range[1])
            total += max(upper - lower, Fraction(0))
    return total
