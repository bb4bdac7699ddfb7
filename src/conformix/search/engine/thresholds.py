"""The threshold of every weight: t(w) = k-th largest of ``combine(w, true_scores[i])``.

The tree of cells is walked once. In a cell the value of labelled row i lies in
``[value_i - radius_i, value_i + radius_i]`` after the linear function ``<w, r>`` has been taken
out of all rows (which changes no comparison, and makes the radii several times smaller when r is
a typical row near the threshold: here the mean of the rows still undecided in the parent). The
k-th largest lower end and the k-th largest upper end enclose the threshold of the whole cell.
Rows strictly above are counted, rows strictly below are dropped, and only the undecided go down;
at a leaf a few rows are left per weight, and their exact combined values are selected from.
"""

import numpy as np
from numba import njit

from conformix.kernels.pool import Buffers, run_blocks
from conformix.search.engine.cells import MAX_DEPTH, Cells
from conformix.search.engine.lists import bound_run, combine_run, take
from conformix.search.engine.packing import pack_marks
from conformix.search.engine.rounding import rounding_slack
from conformix.search.engine.selection import kth_largest_near, kth_largest_sampled

TASKS_PER_THREAD = 4
TYPICAL_ROWS = 128


def all_thresholds(cells: Cells, true_scores: np.ndarray, k: int, threads: int) -> np.ndarray:
    """t(w), shape (M,), for the weights of the tree in tree order; `true_scores` is (n, d)."""
    n, d = true_scores.shape
    slack = rounding_slack(cells, 2.0 * float(np.abs(true_scores).max()))
    planes = np.ascontiguousarray(true_scores.T)
    out = np.empty(len(cells.weights))
    buffers = Buffers((d, (cells.levels + 1) * n))

    def below(root: int) -> None:
        with buffers.borrow() as lists:
            lists[:, :n] = planes
            _walk(cells, root, lists, n, k, slack, out)

    run_blocks(below, subtrees(cells, threads * TASKS_PER_THREAD if threads > 1 else 1), threads)
    return out


def subtrees(cells: Cells, wanted: int) -> list[int]:
    """Disjoint cells that together hold all weights: about `wanted` of them, largest first."""
    level = int(np.ceil(np.log2(max(wanted, 1))))
    roots = np.flatnonzero((cells.depth == level) | ((cells.depth < level) & cells.is_leaf))
    sizes = cells.stop[roots] - cells.start[roots]
    return [int(c) for c in roots[np.argsort(-sizes, kind="stable")]]


@njit(nogil=True, cache=True)
def _walk(cells, root, lists, n, k, slack, out):
    """Thresholds of all weights below `root`; ``lists[:, :n]`` holds the labelled rows."""
    top = cells.depth[root]
    ends = np.zeros(MAX_DEPTH + 3, dtype=np.int64)  # a parent's list: ends[level-1] to ends[level]
    ranks = np.zeros(len(ends), dtype=np.int64)
    ends[1] = n
    ranks[1] = k
    scratch = np.empty((4, n))
    room = (np.empty(n + 8, dtype=np.uint8), np.empty(n + 8, dtype=np.int32), np.empty(n + 8))
    for cell in range(root, cells.skip[root]):
        level = cells.depth[cell] - top + 1
        begin, end = ends[level - 1], ends[level]
        box = (cells.centre[cell], cells.half[cell], cells.anchor[cell])
        above, kept = _narrow(lists, begin, end, ranks[level], box, slack, scratch, room)
        ends[level + 1] = end + kept
        ranks[level + 1] = ranks[level] - above
        if cells.skip[cell] == cell + 1:
            own = slice(cells.start[cell], cells.stop[cell])
            value = scratch[0, :kept]
            _select(lists, end, ranks[level + 1], cells.weights[own], out[own], value, room)


@njit(nogil=True, cache=True)
def _select(lists, begin, rank, weights, out, value, room):
    """Thresholds `out` (m,) of `weights` (m, d) from the undecided rows of a leaf.

    From one weight to the next the threshold moves nearly as the mean row does; how far it strayed
    from that so far says how wide to look.
    """
    mean = _typical(lists, begin, begin + len(value), -1)
    shift, width = 0.0, -1.0
    for i in range(len(weights)):
        combine_run(lists, begin, weights[i], value)
        moved = 0.0
        for j in range(len(mean)):
            moved += weights[i, j] * mean[j]
        low, high = moved + shift - width, moved + shift + width
        out[i] = kth_largest_near(value, rank, low, high, room)
        strayed = abs(out[i] - moved - shift)
        shift = out[i] - moved
        if i > 0:
            width = max(0.0, 0.5 * width) + 1.5 * strayed


@njit(nogil=True, cache=True)
def _narrow(lists, begin, end, rank, box, slack, scratch, room):
    """Append the undecided rows of ``lists[:, begin:end]``; returns (rows above, rows kept)."""
    centre, half, anchor = box
    n = end - begin
    low, high = scratch[0, :n], scratch[1, :n]
    order_low, order_high = scratch[2, :n], scratch[3, :n]
    combine_run(lists, begin, centre, low)
    bound_run(lists, begin, half, _typical(lists, begin, end, anchor), anchor, order_high)
    for i in range(n):
        value, radius = low[i], order_high[i]
        low[i] = value - radius
        high[i] = value + radius
        order_low[i] = low[i]
        order_high[i] = high[i]
    floor = kth_largest_sampled(order_low, rank, room) - slack
    ceiling = kth_largest_sampled(order_high, rank, room) + slack
    marks, picked, _ = room
    above = 0
    for i in range(n):
        above += low[i] > ceiling
        marks[i] = not (low[i] > ceiling or high[i] < floor)
    padded = (n + 7) & ~7
    marks[n:padded] = 0
    kept = pack_marks(marks[:padded], picked)
    take(lists, begin, picked[:kept], lists, end)
    return above, kept


@njit(nogil=True, cache=True)
def _typical(lists, begin, end, anchor):
    """Mean of some rows of a list, as the slopes that `bound_run` subtracts."""
    d = len(lists)
    slope = np.empty(d)
    step = 1 + (end - begin) // TYPICAL_ROWS
    n_rows = (end - begin + step - 1) // step
    for j in range(d):
        total = 0.0
        for i in range(begin, end, step):
            total += lists[j, i]
        slope[j] = total / n_rows
    origin = slope[anchor] if anchor >= 0 else 0.0
    for j in range(d):
        slope[j] -= origin
    return slope
