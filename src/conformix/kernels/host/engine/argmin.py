"""The exact minimiser of the count over the grid, without counting for every weight.

For a cell of weights, the number of pairs that are certainly in for all of them is a lower bound on
their counts. A cell whose bound exceeds the best count can be dropped (strictly: a tie may still
win by the order among ties). Which cells will turn out to be like that is *predicted* from a sample
of the rows, on which everything is counted; then one pass over all rows bounds the cells that
should drop, and counts exactly in the others. Predictions that fail are descended into in another
pass, with a larger margin. The sample decides how long this takes, never what it finds; and all
numbers are sums over rows, so nothing depends on threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.engine.cells import Cells
from conformix.kernels.host.engine.landscape import pose
from conformix.kernels.host.engine.walk import (
    BOUND,
    COUNT,
    LAZY,
    SIFT,
    SKIP,
    Problem,
    Tally,
    run_pass,
)
from conformix.kernels.simplex import first_best

SAMPLE_SHARE = 30  # one row in so many is sampled,
SAMPLE_ROWS = 384  # but at least this many rows if that is no more than a quarter of them
FEW_COMPARISONS = 3 << 29  # pairs times weights below which counting everything is faster
MARGIN = 0.02  # by how much a bound on the sample must exceed the smallest count to be trusted
UNKNOWN = np.iinfo(np.int64).max


def smallest_count(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    keys: FloatArray | IntArray,
    threads: int = 1,
) -> tuple[int, int]:
    """Return the index and the count of the weights with the smallest sets.

    Parameters
    ----------
    true_scores : (n, d) scores of the true labels of the labelled rows.
    size_parts : arrays (n_i, K, d), float64 or float32, any strides; never copied as a whole.
    k : the threshold is the k-th largest combined true score, ``1 <= k <= n``.
    weights : (M, d), of any sign, on the simplex or not.
    keys : (M, d) what ties are broken by, usually the integers of the grid: smallest
        ``sum(g_j^2)``, then lexicographically first.
    threads : how many threads may run; the result does not depend on it.

    Examples
    --------
    >>> scores = np.array([[[0.9, 0.0], [0.1, 0.0]], [[0.4, 0.0], [0.6, 0.0]]])
    >>> weights = np.array([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    >>> smallest_count(scores[[0, 1], [0, 1]], [scores], 2, weights, 2 * weights)
    (1, 2)
    """
    problem = pose(true_scores, size_parts, k, weights, threads)
    counts = np.empty(len(weights), dtype=np.int64)
    counts[problem.cells.order] = _search(problem, size_parts, threads)
    winner = first_best(counts, keys)
    return winner, int(counts[winner])


def _search(problem: Problem, size_parts: Sequence[FloatArray], threads: int) -> IntArray:
    """Count (M,), in tree order, for every weight that could win; `UNKNOWN` for others."""
    leaf = problem.cells.is_leaf
    n_rows = sum(len(part) for part in size_parts)
    n_sample = max(n_rows // SAMPLE_SHARE, min(SAMPLE_ROWS, n_rows // 4))
    n_pairs = sum(part.shape[0] * part.shape[1] for part in size_parts)
    if n_sample == 0 or n_pairs * len(problem.cells.weights) < FEW_COMPARISONS:
        actions = np.where(leaf, COUNT, LAZY).astype(np.uint8)
        return run_pass(problem, actions, size_parts, threads).counts
    some_rows = [part[:: n_rows // n_sample] for part in size_parts]
    actions = np.where(leaf, COUNT, SIFT).astype(np.uint8)
    sample = run_pass(problem, actions, some_rows, threads)
    return _confirm(problem, sample, size_parts, threads)


def _confirm(
    problem: Problem, sample: Tally, size_parts: Sequence[FloatArray], threads: int
) -> IntArray:
    """Count wherever the bounds, predicted by `sample` or not, leave a choice."""
    cells = problem.cells
    n_members = np.where(cells.is_leaf, cells.stop - cells.start, 0)
    counts = np.full(len(cells.weights), UNKNOWN, dtype=np.int64)
    failed = np.array([0])
    margin = MARGIN
    while len(failed):
        droppable = sample.sure > sample.counts.min() * (1.0 + margin)
        actions = _plan(cells, failed, droppable)
        tally = run_pass(problem, actions, size_parts, threads)
        counted = np.repeat(actions == COUNT, n_members)
        counts[counted] = tally.counts[counted]
        bounded = np.flatnonzero(actions == BOUND)
        failed = bounded[tally.sure[bounded] <= counts.min()]
        margin *= 4.0
    return counts


def _plan(cells: Cells, entered: IntArray, droppable: BoolArray) -> IntArray:
    """Actions (C,): below the cells `entered`, bound what is droppable, count in other leaves."""
    descend = np.where(cells.is_leaf, COUNT, LAZY).astype(np.uint8)
    wanted = np.where(droppable, BOUND, descend).astype(np.uint8)
    wanted[entered] = descend[entered]
    actions = np.full(len(droppable), SKIP, dtype=np.uint8)
    actions[entered] = wanted[entered]
    for level in range(1, cells.levels):
        here = np.flatnonzero(cells.depth == level)
        below = here[actions[cells.parent[here]] == LAZY]
        actions[below] = wanted[below]
    while entered.any():
        entered = cells.parent[entered]
        actions[entered] = LAZY
    return actions
