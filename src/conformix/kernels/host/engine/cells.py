"""A tree of cells over the weights: nested boxes, each holding a contiguous run of weights.

Everything that is decided for a whole cell is decided once instead of once per weight. A cell is
the bounding box of its weights, ``|w_j - centre_j| <= half_j``. It is halved across the axis along
which scores move most, ``half_j * spread_j``, until few weights are left; sizes of the boxes
shrink to their content, so the slanted border of the simplex costs nothing. How scores differ among
the pairs near the threshold of one weight is judged by a small sample; this shapes the cells and
nothing else: any numbers are valid, good ones make bounds tighter.

Weights that sum to one have d - 1 free coordinates: for any anchor a,
``<w, s> = s_a + sum_j w_j (s_j - s_a)``. A cell of such weights ignores the coordinate a and bounds
scores through the differences ``s_j - s_a``; it takes the anchor with the smallest
``sum_j half_j * spread_aj``. Other weights have no anchor, ``a = -1``, and use the scores
themselves.

Cells are numbered in pre-order, so a walk needs no stack: the cell after ``c`` is ``c + 1`` to
descend or ``skip[c]`` to pass over everything below it.

Bounds are moved outwards by how far they may be off. Every bound compares sums of at most d + 1
products ``w_j * s_j`` or ``w_j * r_j`` with each other. With unit roundoff u, each sum is off by at
most ``(d + 2) u`` times ``sum_j |w_j|`` times the largest ``|s_j| + |r_j|``; a comparison involves
fewer than ten such sums. Anchored bounds also assume that the weights sum to one, and are off by as
much as those do not. A little is added for products that underflow. Scores so large that
differences could overflow get NaN: every comparison with a NaN bound fails, so nothing is ever
decided by a bound, and all is counted exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.engine.kth_largest import kth_largest

# work arrays of `_grow`: spreads by level, integers by level, numbers and integers by place
Desk: TypeAlias = tuple[FloatArray, IntArray, FloatArray, IntArray]

MAX_DEPTH = 40  # a bound on the depth, whatever the weights; halving never needs it on grids
SHAPE_LEVELS = 3  # deeper cells take the shape of the cell above


class Cells(NamedTuple):
    """Pre-order tree over `weights`, which are permuted so that every cell owns a slice.

    Attributes
    ----------
    weights : (M, d) weights in tree order; ``weights[i]`` is the caller's weight ``order[i]``.
    order : (M,) int64.
    start, stop : (C,) slice of `weights` owned by each cell.
    skip, depth, parent : (C,) next cell outside this one; distance from the root; cell above.
    centre, half : (C, d) the box; at the anchor, ``half = 0`` and the centre sums to one.
    anchor : (C,) coordinate that the others are compared with, or -1.
    mass : largest ``sum_j |w_j|``, at least 1; it scales rounding errors.
    """

    weights: FloatArray
    order: IntArray
    start: IntArray
    stop: IntArray
    skip: IntArray
    depth: IntArray
    parent: IntArray
    centre: FloatArray
    half: FloatArray
    anchor: IntArray
    mass: float

    @property
    def levels(self) -> int:
        """Number of levels, root included."""
        return int(self.depth.max()) + 1

    @property
    def is_leaf(self) -> BoolArray:
        """Whether a cell has no cells below it, bool (C,)."""
        return self.skip == np.arange(len(self.skip)) + 1


def build_cells(weights: FloatArray, sample: Sample, leaf_size: int) -> Cells:
    """Return a tree over `weights` (M, d), its cells shaped by what lies near their thresholds."""
    m, d = weights.shape
    columns = np.ascontiguousarray(weights.T)  # NumPy adds long rows up, not many short ones
    # a sum of d rounded quotients g / m is one up to this; the rounding slack covers it
    on_simplex = bool(np.all(np.abs(columns.sum(axis=0) - 1.0) <= d * np.finfo(float).eps))
    order = np.arange(m, dtype=np.int64)
    integers = np.zeros((6, 2 * m), dtype=np.int64)
    boxes = np.empty((2, 2 * m, d))
    n_sample = len(sample.points)
    desk = (
        np.empty((SHAPE_LEVELS + 1, d if on_simplex else 1, d)),
        np.zeros((MAX_DEPTH + 2, 4), dtype=np.int64),
        np.empty((2, n_sample)),
        np.empty(max(m, n_sample), dtype=np.int64),
    )
    used = _grow(weights, *sample, leaf_size, order, integers, boxes, desk)
    start, stop, skip, depth, parent, anchor = integers[:, :used].copy()
    skip[skip == 0] = used  # those that no cell comes after
    centre, half = boxes[:, :used].copy()
    if on_simplex:  # the coordinate of the anchor is one less the others
        free = np.arange(used), anchor
        half[free] = centre[free] = 0.0
        centre[free] = 1.0 - centre.sum(axis=1)
    else:
        anchor[:] = -1
    mass = max(1.0, float(np.abs(columns).sum(axis=0).max()))
    weights = weights.take(order, axis=0)
    return Cells(weights, order, start, stop, skip, depth, parent, centre, half, anchor, mass)


@compiled
def _grow(
    weights: FloatArray,
    points: FloatArray,
    n_rows: int,
    rank: int,
    leaf_size: int,
    order: IntArray,
    integers: IntArray,
    boxes: FloatArray,
    desk: Desk,
) -> int:
    """Fill the tree arrays in pre-order; returns the number of cells.

    Boxes are those of all coordinates, and every cell has an anchor.
    """
    # Cells that are open (begin, end, level), and the path down to one; zeros, and so is what comes
    # before level 0, the last.
    spreads, stack, scratch, spare = desk
    stack[0, 1] = len(order)
    n_open = 1
    cell = 0
    before = -1  # level of the cell before
    while n_open > 0:
        n_open -= 1
        begin, end, level = stack[n_open, 0], stack[n_open, 1], stack[n_open, 2]
        for closed in range(level, before + 1):
            integers[2, stack[closed, 3]] = cell
        before = level
        centre, half = boxes[0, cell], boxes[1, cell]
        members = order[begin:end]
        _bound(weights, members, centre, half)
        spread = spreads[min(level, SHAPE_LEVELS)]
        if level <= SHAPE_LEVELS:
            measure_spread(points, n_rows, rank, centre, spread, scratch, spare)
        anchor, axis = _choose(half, spread)
        stack[level, 3] = cell
        integers[0, cell], integers[1, cell] = begin, end
        integers[3, cell], integers[4, cell] = level, stack[level - 1, 3]
        integers[5, cell] = anchor
        cell += 1
        if end - begin > leaf_size and level < MAX_DEPTH and half[axis] > 1e-12:
            middle = begin + _divide(weights, members, axis, centre[axis], spare)
            stack[n_open, 0], stack[n_open, 1], stack[n_open, 2] = middle, end, level + 1
            n_open += 1
            stack[n_open, 0], stack[n_open, 1], stack[n_open, 2] = begin, middle, level + 1
            n_open += 1
    return cell


@inlined
def _bound(weights: FloatArray, members: IntArray, centre: FloatArray, half: FloatArray) -> None:
    """Write the bounding box of `members`."""
    for j in range(len(centre)):
        low, high = np.inf, -np.inf
        for i in range(len(members)):
            value = weights[members[i], j]
            low, high = min(low, value), max(high, value)
        centre[j] = 0.5 * (low + high)
        half[j] = 0.5 * (high - low)


@inlined
def _choose(half: FloatArray, spread: FloatArray) -> tuple[int, int]:
    """Find the anchor under which scores move least over the box, and the axis that moves most."""
    anchor, least = 0, np.inf
    for a in range(len(spread)):
        total = 0.0
        for j in range(len(half)):
            total += half[j] * spread[a, j]
        if total < least:
            anchor, least = a, total
    axis, most = 0, -1.0
    for j in range(len(half)):
        # where nothing moves the scores, any wide axis will do
        reach = half[j] * (spread[anchor, j] + (1e-300 if least == 0.0 else 0.0))
        if reach > most:
            axis, most = j, reach
    return anchor, axis


@inlined
def _divide(weights: FloatArray, members: IntArray, axis: int, cut: float, spare: IntArray) -> int:
    """Stable partition of `members` into ``w_axis <= cut`` and the rest; returns the first's size.

    Neither side is empty: the cut is the middle of two different values, rounded towards one.
    """
    n_low, n_high = 0, 0
    for i in range(len(members)):
        member = members[i]
        if weights[member, axis] <= cut:
            members[n_low] = member
            n_low += 1
        else:
            spare[n_high] = member
            n_high += 1
    for i in range(n_high):
        members[n_low + i] = spare[i]
    return n_low


SAMPLE_ROWS = 96
SAMPLE_LABELS = 8
TRUE_ROWS = 384
NEAR_SHARE = 16
NEAR_PAIRS = 32


class Sample(NamedTuple):
    """Scores (P, d) of some labelled rows, `n_rows` of them, and of some pairs.

    The last `NEAR_PAIRS` of the labelled rows are pairs too. `rank` is that of the threshold among
    the labelled rows.
    """

    points: FloatArray
    n_rows: int
    rank: int


def draw_sample(true_scores: FloatArray, k: int, size_parts: Sequence[FloatArray]) -> Sample:
    """Evenly spaced labelled rows and, from evenly spaced rows, evenly spaced labels."""
    rows = true_scores[:: 1 + len(true_scores) // TRUE_ROWS].copy()
    rank = 1 + (k - 1) * len(rows) // len(true_scores)
    points = [rows[NEAR_PAIRS:], rows[:NEAR_PAIRS]]
    for part in size_parts:
        # Rows of few labels are more: parts of one label each give as many pairs.
        n_rows = SAMPLE_ROWS * SAMPLE_LABELS // min(SAMPLE_LABELS, part.shape[1])
        some = part[:: 1 + part.shape[0] // n_rows, :: 1 + part.shape[1] // SAMPLE_LABELS]
        points.append(some.reshape(-1, part.shape[2]))
    return Sample(np.ascontiguousarray(np.concatenate(points, dtype=np.float64)), len(rows), rank)


@inlined
def measure_spread(
    points: FloatArray,
    n_rows: int,
    rank: int,
    weights: FloatArray,
    spread: FloatArray,
    scratch: FloatArray,
    near: IntArray,
) -> None:
    """Write the mean absolute deviation of ``s_j - s_a`` over the points nearest the threshold.

    To ``spread[a, j]``, shape (d, d); or (1, d) for the scores ``s_j`` themselves. Combined scores
    are for judging only.
    """
    n, d = points.shape
    values, ordered = scratch[0], scratch[1]
    for i in range(n):
        total = 0.0
        for j in range(d):
            total += weights[j] * points[i, j]
        values[i] = ordered[i] = total
    threshold = kth_largest(ordered[:n_rows], rank)
    first = max(n_rows - NEAR_PAIRS, 0)
    for i in range(first, n):
        values[i] = ordered[i] = -abs(values[i] - threshold)
    reach = kth_largest(ordered[first:], min(n - first, NEAR_PAIRS + (n - first) // NEAR_SHARE))
    n_near = 0
    for i in range(first, n):
        near[n_near] = i
        n_near += values[i] >= reach
    for a in range(len(spread)):
        for j in range(d):
            mean = 0.0
            for i in range(n_near):
                point = near[i]
                ordered[i] = points[point, j] - (points[point, a] if len(spread) > 1 else 0.0)
                mean += ordered[i]
            mean /= n_near
            total = 0.0
            for i in range(n_near):
                total += abs(ordered[i] - mean)
            spread[a, j] = total / n_near


LARGE = 1e150
TINY = 1e-290


def rounding_slack(cells: Cells, scale: float) -> float:
    """Absolute slack for scores and recentring vectors with ``|s_j| + |r_j| <= scale``."""
    if not cells.mass * scale < LARGE:
        return float("nan")
    d = cells.weights.shape[1]
    return 32.0 * (d + 2) * np.finfo(np.float64).eps * cells.mass * scale + TINY
