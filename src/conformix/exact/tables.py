"""The n rows as the selection sees them: per weight two thresholds, two counts, the gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.arrays import FloatArray, IntArray
from conformix.search.objective import SizeObjective


@dataclass(frozen=True, eq=False)
class Tables:
    """What the selection at one level needs of the n rows, for the plausible weights.

    Parameters
    ----------
    weights : float64 array of shape (p, d)
        Plausible weights, by rising count at ``c_{k-1}``.
    cuts, counts, order, starts, gaps
        See `conformix.kernels.selection.select_weights`.
    best, best_count : int
        The winner among all candidates on the n rows alone, and its count.
    """

    weights: FloatArray
    cuts: FloatArray
    counts: IntArray
    order: IntArray
    starts: IntArray
    gaps: FloatArray
    best: int
    best_count: int


def make_tables(
    scores: FloatArray, y: IntArray, weights: FloatArray, k: int, threads: int | None = None
) -> Tables:
    """Return the tables of rank k (1 <= k <= n) for candidates in the order that breaks ties.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of the calibration rows.
    y : integer array of shape (n,)
        Their labels.
    weights : array of shape (M, d)
        Candidates.
    k : int
        The conformal rank.
    threads : int or None
        Threads to use.
    """
    true_scores = scores[np.arange(len(y)), y]
    lower = SizeObjective(true_scores, [scores], k, threads=threads)
    upper = SizeObjective(true_scores, [scores], k - 1, threads=threads)
    at_low = lower.counts(weights)
    at_high = upper.counts(weights) if k > 1 else np.zeros_like(at_low)
    can_win = np.minimum(at_high + 1, at_low) <= at_low.min() + scores.shape[1]
    plausible = np.flatnonzero(can_win)
    plausible = plausible[np.argsort(at_high[plausible], kind="stable")]
    some = weights[plausible]
    high = upper.thresholds(some) if k > 1 else np.full(len(some), np.inf)
    cuts = np.column_stack([high, lower.thresholds(some)])
    starts, gaps = ragged_gaps(lower, some, cuts)
    counts = np.column_stack([at_high, at_low])[plausible]
    best = int(np.argmin(at_low))  # the first of equals: candidates come in the tie order
    return Tables(some, cuts, counts, plausible, starts, gaps, best, int(at_low[best]))


def ragged_gaps(
    objective: SizeObjective, weights: FloatArray, cuts: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the label scores of the n rows between the two cuts of every weight vector.

    Returns
    -------
    starts : int64 array of shape (p + 1,)
        Where the scores of each weight vector begin.
    gaps : float64 array
        All scores, rising within each weight vector. There can be many (over a thousand for
        some weights), hence no cap.
    """
    from conformix.kernels.selection import fill_gaps, gap_sizes  # noqa: PLC0415  numba late

    (scores,) = objective.size_parts
    high, low = np.ascontiguousarray(cuts.T)
    blocks = objective.row_blocks(scores)

    def count(rows: slice) -> IntArray:
        sizes = np.zeros(len(weights), dtype=np.int64)
        gap_sizes(objective.planes(scores[rows]), weights, low, high, sizes)
        return sizes

    by_block = np.array(objective.run(count, blocks))
    starts = np.concatenate([[0], np.cumsum(by_block.sum(axis=0))])
    gaps = np.empty(starts[-1])
    # Every block writes behind the blocks before it, so that threads never meet.
    places = starts[:-1] + np.cumsum(by_block, axis=0) - by_block

    def fill(job: tuple[slice, IntArray]) -> None:
        rows, place = job
        fill_gaps(objective.planes(scores[rows]), weights, low, high, place, gaps)

    objective.run(fill, zip(blocks, places, strict=True))
    for i in range(len(weights)):
        gaps[starts[i] : starts[i + 1]].sort()
    return starts, gaps
