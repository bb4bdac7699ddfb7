"""The threshold of every weight: t(w) = k-th largest of ``combine(w, true_scores[i])``.

The tree of cells is walked once. In a cell the value of labelled row i lies in
``[value_i - radius_i, value_i + radius_i]`` after the linear function ``<w, r>`` has been taken
out of all rows (which changes no comparison, and makes the radii several times smaller when r is
a typical row near the threshold: here the mean of the rows still undecided in the parent). The
k-th largest lower end and the k-th largest upper end enclose the threshold of the whole cell.
Rows strictly above are counted, rows strictly below are dropped, and only the undecided go down;
at a leaf a few rows are left per weight, and their exact combined values are selected from.

Scores with few different values tie in masses, and no bound can tell a tie from a hair's breadth.
A *witness* can: a row whose combined value is the threshold, to the last bit, for all weights of a
cell. Whatever has the same scores is in for all of them.
"""

from __future__ import annotations

import math

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import Buffers, run_blocks
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.engine.cells import MAX_DEPTH, Cells, rounding_slack
from conformix.kernels.host.engine.kth_largest import (
    Room,
    enclose_kth,
    kth_largest_near,
    neighbour,
    room_for,
)
from conformix.kernels.host.engine.lists import bound_run, combine_run, pack_marks, take

TASKS_PER_THREAD = 2
# Rows times weights that one thread walks sooner: every subtree begins with all rows.
SMALL_WALK = 2**23
TYPICAL_ROWS = 128
# Steps from one value to the next after which quickselect is faster.
STEPS = 8


def all_thresholds(
    cells: Cells, true_scores: FloatArray, k: int, threads: int
) -> tuple[FloatArray, FloatArray]:
    """Return t(w) (M,) of the weights in tree order, and witnesses (C, d) of the cells or NaN."""
    n, d = true_scores.shape
    slack = rounding_slack(cells, 2.0 * float(np.abs(true_scores).max()))
    planes = np.ascontiguousarray(true_scores.T)
    out = np.empty(len(cells.weights))
    witness = np.full(cells.centre.shape, np.nan)
    buffers = Buffers((d, (cells.levels + 1) * n))
    with np.errstate(all="ignore"):  # any row will do
        typical = planes[:, :: 1 + n // TYPICAL_ROWS].mean(axis=1)

    def below(root: int) -> None:
        with buffers.borrow() as lists:
            lists[:, :n] = planes
            stack = np.zeros((2, MAX_DEPTH + 3), dtype=np.int64)
            scratch, means = np.empty((2, n)), np.empty((MAX_DEPTH + 3, d))
            means[1] = typical
            _walk(cells, root, lists, n, k, slack, out, witness, stack, scratch, means, room_for(n))

    # With every thread the others wait longer for memory and the interpreter.
    walks = n * len(out) // SMALL_WALK
    threads = min(threads, 2 + math.isqrt(walks)) if walks else 1
    run_blocks(below, subtrees(cells, threads * TASKS_PER_THREAD if threads > 1 else 1), threads)
    _hand_up(cells, witness)
    return out, witness


def subtrees(cells: Cells, wanted: int) -> list[int]:
    """Disjoint cells that together hold all weights: about `wanted` of them, largest first."""
    level = int(np.ceil(np.log2(max(wanted, 1))))
    roots = np.flatnonzero((cells.depth == level) | ((cells.depth < level) & cells.is_leaf))
    sizes = cells.stop[roots] - cells.start[roots]
    return [int(c) for c in roots[np.argsort(-sizes, kind="stable")]]


@compiled
def _walk(
    cells: Cells,
    root: int,
    lists: FloatArray,
    n: int,
    k: int,
    slack: float,
    out: FloatArray,
    witness: FloatArray,
    stack: IntArray,
    scratch: FloatArray,
    means: FloatArray,
    room: Room,
) -> None:
    """Find all thresholds and witnesses below `root`; ``lists[:, :n]`` are the labelled rows.

    `means` (levels, d) have typical rows of the lists, first that of all rows at 1.
    """
    start, stop, skip, depth, weights = (
        cells.start, cells.stop, cells.skip, cells.depth, cells.weights,
    )  # fmt: skip
    centre, half, anchor = cells.centre, cells.half, cells.anchor
    words, marks, picked, few = room
    top = depth[root]
    ends, ranks = stack[0], stack[1]  # zeros; a parent's list: ends[level - 1] to ends[level]
    ends[1] = n
    ranks[1] = k
    for cell in range(root, skip[root]):
        level = depth[cell] - top + 1
        begin, end = ends[level - 1], ends[level]
        low, high = scratch[0, : end - begin], scratch[1, : end - begin]
        _bound(
            lists, begin, centre[cell], half[cell], anchor[cell], means[level], means[0], low, high
        )
        floor, ceiling = 0.0, 0.0
        for side in range(2):  # the k-th largest lower end, then the k-th largest upper end
            values = scratch[side, : end - begin]
            least, most = enclose_kth(values, ranks[level], few)
            floor, ceiling = ceiling, kth_largest_near(values, ranks[level], least, most, room)
        floor, ceiling = floor - slack, ceiling + slack
        words[len(low) >> 3] = 0  # marks that follow the last
        above = 0
        for i in range(len(low)):
            above += low[i] > ceiling
            marks[i] = not (low[i] > ceiling or high[i] < floor)
        n_undecided = pack_marks(words[: (len(low) + 7) >> 3], picked)
        take(lists, begin, picked[:n_undecided], lists, end)
        ends[level + 1] = end + n_undecided
        ranks[level + 1] = ranks[level] - above
        _typical(lists, end, end + n_undecided, means[level + 1])
        if skip[cell] == cell + 1:
            row = _select(
                lists, end, ranks[level + 1], weights, start[cell], stop[cell], out,
                scratch[0, :n_undecided], means[level + 1], room,
            )  # fmt: skip
            if row >= 0:
                for j in range(len(lists)):
                    witness[cell, j] = lists[j, end + row]


@inlined
def _select(
    lists: FloatArray,
    begin: int,
    rank: int,
    weights: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
    value: FloatArray,
    mean: FloatArray,
    room: Room,
) -> int:
    """Write the thresholds `out` of the weights from `first` to `last`; returns a witness or -1.

    From one weight to the next the threshold moves nearly as the mean row does, and lies a value or
    two from there; whatever is found has been counted. The witness is a place of the list from
    `begin` on. `value` (n,) is room, too.
    """
    n, d, row, shift = len(value), len(mean), -1, 0.0
    x, y = lists[0, begin : begin + n], lists[1 % d, begin : begin + n]
    z = lists[2 % d, begin : begin + n]
    for i in range(first, last):
        if d == 3:  # without a pass through memory
            a, b, c = weights[i, 0], weights[i, 1], weights[i, 2]
            for e in range(n):
                value[e] = (a * x[e] + b * y[e]) + c * z[e]
        else:
            combine_run(lists, begin, weights[i], value)
        moved = 0.0
        for j in range(d):
            moved += weights[i, j] * mean[j]
        found = value[row] if row >= 0 else moved + shift
        steps = STEPS if math.isnan(found) else 0  # scores beyond all measure have no mean
        while True:
            above, reached = 0, 0
            for e in range(n):
                above += value[e] > found
                reached += value[e] >= found
            if above < rank <= reached:
                break
            if steps == STEPS:
                found = kth_largest_near(value, rank, np.inf, -np.inf, room)
                break
            found = neighbour(value, found, 1.0 if above >= rank else -1.0)
            steps += 1
            row = -1
        out[i] = found
        row = _shared(value, found) if i == first else row
        shift = found - moved
    return row


@inlined
def _shared(value: FloatArray, found: float) -> int:
    """Return a place of a value that others have too, or -1."""
    row, n_equal = -1, 0
    for e in range(len(value)):
        if value[e] == found:
            row = e
            n_equal += 1
    return row if n_equal > 1 else -1


def _hand_up(cells: Cells, witness: FloatArray) -> None:
    """Give a cell the witness that both halves agree on; `witness` (C, d) knows the leaves'."""
    if not (witness[:, 0] == witness[:, 0]).any():
        return
    divided = np.flatnonzero(~cells.is_leaf)
    for level in range(cells.levels - 2, -1, -1):
        above = divided[cells.depth[divided] == level]
        one = witness[above + 1]
        agree = (one == witness[cells.skip[above + 1]]).all(axis=1)
        witness[above[agree]] = one[agree]


@inlined
def _bound(
    lists: FloatArray,
    begin: int,
    centre: FloatArray,
    half: FloatArray,
    anchor: int,
    mean: FloatArray,
    slope: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> None:
    """Write the ends `low` and `high` (n,) of the values of the rows from `begin` on over a cell.

    Up to a linear function, which is taken out of all of them: `mean` (d,) is a typical row, and
    `slope` (d,) is room.
    """
    for j in range(len(slope)):
        slope[j] = mean[j] - (mean[anchor] if anchor >= 0 else 0.0)
    bound_run(lists, begin, centre, half, slope, anchor, low, high)
    for i in range(len(low)):
        value, radius = low[i], high[i]
        low[i], high[i] = value - radius, value + radius


@inlined
def _typical(lists: FloatArray, begin: int, end: int, mean: FloatArray) -> None:
    """Write the mean (d,) of some rows of a list."""
    step = 1 + (end - begin) // TYPICAL_ROWS
    n_rows = (end - begin + step - 1) // step
    for j in range(len(lists)):
        total = 0.0
        for i in range(begin, end, step):
            total += lists[j, i]
        mean[j] = total / n_rows
