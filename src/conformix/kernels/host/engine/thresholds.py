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
    kth_largest_near,
    kth_largest_sampled,
    room_for,
)
from conformix.kernels.host.engine.lists import bound_run, combine_run, pack_marks, take

TASKS_PER_THREAD = 2
# Rows times weights that one thread walks sooner: every subtree begins with all rows.
SMALL_WALK = 2**23
TYPICAL_ROWS = 128


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

    def below(root: int) -> None:
        with buffers.borrow() as lists:
            lists[:, :n] = planes
            stack = np.zeros((2, MAX_DEPTH + 3), dtype=np.int64)
            scratch, means = np.empty((4, n)), np.empty((2, d))
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
    """Find all thresholds and witnesses below `root`; ``lists[:, :n]`` are the labelled rows."""
    start, stop, skip, depth, weights = (
        cells.start, cells.stop, cells.skip, cells.depth, cells.weights,
    )  # fmt: skip
    centre, half, anchor = cells.centre, cells.half, cells.anchor
    top = depth[root]
    ends, ranks = stack[0], stack[1]  # zeros; a parent's list: ends[level - 1] to ends[level]
    ends[1] = n
    ranks[1] = k
    for cell in range(root, skip[root]):
        level = depth[cell] - top + 1
        begin, end = ends[level - 1], ends[level]
        box = (centre[cell], half[cell], anchor[cell])
        above, n_undecided = _narrow(
            lists, begin, end, ranks[level], box, slack, scratch, means[0], room
        )
        ends[level + 1] = end + n_undecided
        ranks[level + 1] = ranks[level] - above
        if skip[cell] == cell + 1:
            first, last = start[cell], stop[cell]
            value = scratch[0, :n_undecided]
            row = _select(
                lists, end, ranks[level + 1], weights[first:last], out[first:last], value, means[1],
                room,
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
    out: FloatArray,
    value: FloatArray,
    mean: FloatArray,
    room: Room,
) -> int:
    """Write the thresholds `out` (m,) of `weights` (m, d); returns the place of a witness or -1.

    From one weight to the next the threshold moves nearly as the mean row does; how far it strayed
    from that so far says how wide to look.
    """
    _typical(lists, begin, begin + len(value), mean)
    shift, width = 0.0, -1.0
    row = -1
    for i in range(len(weights)):
        combine_run(lists, begin, weights[i], value)
        if row >= 0 and _is_kth(value, rank, value[row]):
            out[i] = value[row]
            continue
        row = -1
        moved = 0.0
        for j in range(len(mean)):
            moved += weights[i, j] * mean[j]
        low, high = moved + shift - width, moved + shift + width
        out[i] = kth_largest_near(value, rank, low, high, room)
        strayed = abs(out[i] - moved - shift)
        shift = out[i] - moved
        if i > 0:
            width = max(0.0, 0.5 * width) + 1.5 * strayed
        else:
            combine_run(lists, begin, weights[0], value)  # selection has reordered them
            row = _find_tied(value, out[0])
    return row


@inlined
def _find_tied(values: FloatArray, wanted: float) -> int:
    """Return the first place of a value that occurs more than once, or -1."""
    first, n_equal = -1, 0
    for i in range(len(values)):
        if values[i] == wanted:
            n_equal += 1
            if n_equal > 1:
                return first
            first = i
    return -1


@inlined
def _is_kth(values: FloatArray, k: int, guess: float) -> bool:
    """Whether `guess`, one of `values`, is the k-th largest of them."""
    above = 0
    reached = 0
    for i in range(len(values)):
        above += values[i] > guess
        reached += values[i] >= guess
    return above < k <= reached


def _hand_up(cells: Cells, witness: FloatArray) -> None:
    """Give a cell the witness that both halves agree on; `witness` (C, d) knows the leaves'."""
    divided = np.flatnonzero(~cells.is_leaf)
    for level in range(cells.levels - 2, -1, -1):
        above = divided[cells.depth[divided] == level]
        one = witness[above + 1]
        agree = (one == witness[cells.skip[above + 1]]).all(axis=1)
        witness[above[agree]] = one[agree]


@inlined
def _narrow(
    lists: FloatArray,
    begin: int,
    end: int,
    rank: int,
    box: tuple[FloatArray, FloatArray, int],
    slack: float,
    scratch: FloatArray,
    slope: FloatArray,
    room: Room,
) -> tuple[int, int]:
    """Append the undecided rows of ``lists[:, begin:end]``; returns (above, undecided)."""
    centre, half, anchor = box
    n = end - begin
    low, high = scratch[0, :n], scratch[1, :n]
    order_low, order_high = scratch[2, :n], scratch[3, :n]
    combine_run(lists, begin, centre, low)
    _typical(lists, begin, end, slope)
    if anchor >= 0:
        origin = slope[anchor]
        for j in range(len(slope)):
            slope[j] -= origin
    bound_run(lists, begin, half, slope, anchor, order_high)
    for i in range(n):
        value, radius = low[i], order_high[i]
        low[i] = value - radius
        high[i] = value + radius
        order_low[i] = low[i]
        order_high[i] = high[i]
    floor = kth_largest_sampled(order_low, rank, room) - slack
    ceiling = kth_largest_sampled(order_high, rank, room) + slack
    words, marks, picked, _ = room
    above = 0
    for i in range(n):
        above += low[i] > ceiling
        marks[i] = not (low[i] > ceiling or high[i] < floor)
    padded = (n + 7) & ~7
    marks[n:padded] = 0
    n_undecided = pack_marks(words[: padded >> 3], picked)
    take(lists, begin, picked[:n_undecided], lists, end)
    return above, n_undecided


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
