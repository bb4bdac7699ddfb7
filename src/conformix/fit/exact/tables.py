"""The n rows as the selection sees them: per weight two thresholds, two counts, the gap."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, as_tensor, of_labels
from conformix.kernels.cached import cached_property
from conformix.search.certain import reach, surely_in
from conformix.search.objective import SizeObjective

# Labels that are combined in one loop.
TOGETHER = 2**8
# Scores of a gap that are looked at before the others.
MARKS = 32
# Sums of weights from which on labels are certain.
LEAST_TOTAL = 1e-6


@dataclass(frozen=True, eq=False)
class Gaps:
    """Scores of the n rows between the two cuts, for the weights that were asked for so far.

    Those of weights i are ``values[starts[i] : stops[i]]``, rising; ``starts[i] = -1`` while they
    are not known.
    """

    starts: IntArray
    stops: IntArray
    values: FloatArray
    marks: FloatArray  # (p, m): every so many of the values, evenly, then infinity


@dataclass(eq=False)
class Tables:
    """What the selection at one level needs of the n rows, for the plausible weights.

    Cuts, counts and order are those of `conformix.kernels.host.selection.select_weights`.
    """

    weights: FloatArray  # (p, d), by rising count at ``c_{k-1}``
    cuts: FloatArray
    counts: IntArray
    order: IntArray
    by_low: IntArray  # (p,) the same weights by rising count at ``c_k``, then in the tie order
    # (2, d): a label is at or above ``c_{k-1}`` where its scores reach the first numbers, below
    # ``c_k`` where none exceeds the second, under all weights; infinite where nothing is certain.
    certain: FloatArray
    best: int  # the winner among all candidates on the n rows alone
    best_count: int
    objective: SizeObjective  # the n rows, for the gaps that turn out to be needed
    gaps: Gaps = field(init=False)
    gaps_on_device: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = np.full(len(self.weights), -1, dtype=np.int64)
        self.gaps = Gaps(unknown, unknown, np.empty(0), np.empty((len(unknown), MARKS)))

    def gap_on_device(self, i: int) -> Any:
        """Return the scores between the two cuts of weights i, as a rising tensor."""
        if i not in self.gaps_on_device:
            from conformix.kernels.device.selection import gap_scores  # noqa: PLC0415  for tensors

            (scores,) = self.objective.size_parts
            high, low = self.cuts[i].tolist()
            self.gaps_on_device[i] = gap_scores(as_tensor(scores), self.weights[i], low, high)
        return self.gaps_on_device[i]

    @cached_property
    def _uncertain(self) -> SizeObjective:
        """The labels of the n rows that may lie between cuts, `TOGETHER` to a row, or all."""
        (scores,), (inside, outside) = self.objective.size_parts, self.certain
        sure = (scores >= inside).all(axis=2) | (scores <= outside).all(axis=2)
        if 2 * np.count_nonzero(sure) < sure.size:  # they would be held twice for little
            return self.objective
        labels = scores[~sure]
        rows = np.full((-(-len(labels) // TOGETHER), TOGETHER, scores.shape[2]), np.nan)
        rows.reshape(-1, scores.shape[2])[: len(labels)] = labels  # NaN lies between no cuts
        objective = copy(self.objective)
        objective.size_parts = (rows,)
        return objective

    def learn_gaps(self, wanted: BoolArray) -> None:
        """Collect the gaps of some weights; what is known stays."""
        known = self.gaps
        new = np.flatnonzero(wanted & (known.starts < 0))
        ends, values = ragged_gaps(self._uncertain, self.weights[new], self.cuts[new])
        starts, stops = known.starts.copy(), known.stops.copy()
        starts[new] = len(known.values) + ends[:-1]
        stops[new] = len(known.values) + ends[1:]
        marks = known.marks.copy()
        for i, first, end in zip(new, ends[:-1], ends[1:], strict=True):
            some = values[first : end : (end - first) // MARKS + 1]
            marks[i, : len(some)], marks[i, len(some) :] = some, np.inf
        self.gaps = Gaps(starts, stops, np.concatenate([known.values, values]), marks)


def make_tables(
    scores: FloatArray, y: IntArray, weights: FloatArray, k: int, threads: int | None = None
) -> Tables:
    """Return the tables of rank k (1 <= k <= n) for candidates in the order that breaks ties."""
    cuts, counts, objective = two_cuts(scores, y, weights, k, threads)
    at_high, at_low = counts.T
    can_win = np.minimum(at_high + 1, at_low) <= at_low.min() + scores.shape[1]
    plausible = np.flatnonzero(can_win)
    plausible = plausible[np.argsort(at_high[plausible], kind="stable")]
    best = int(np.argmin(at_low))  # the first of equals: candidates come in the tie order
    by_low = np.lexsort((plausible, at_low[plausible]))
    return Tables(
        weights[plausible],
        cuts[plausible],
        counts[plausible],
        plausible,
        by_low,
        _certain(objective.true_scores, weights, k),
        best,
        int(at_low[best]),
        objective,
    )


def _certain(true_scores: FloatArray, weights: FloatArray, k: int) -> FloatArray:
    """Return `Tables.certain` of rank k."""
    d = true_scores.shape[1]
    # Products of weights that vanish are rounded beyond any margin.
    if (weights < 0).any() or (weights.sum(axis=1) < LEAST_TOTAL).any():
        return np.array([np.full(d, np.inf), np.full(d, -np.inf)])
    inside = [np.inf] * d if k == 1 else surely_in(true_scores, k - 1)
    return np.array([inside, reach(true_scores, k)])


def two_cuts(
    scores: FloatArray, y: IntArray, weights: FloatArray, k: int, threads: int | None = None
) -> tuple[FloatArray, IntArray, SizeObjective]:
    """Return ``c_{k-1}`` and ``c_k`` of the n rows, and how many labels reach each.

    Parameters
    ----------
    scores, y, weights, k, threads
        As in `make_tables`.

    Returns
    -------
    cuts : float64 array of shape (M, 2)
        ``c_{k-1}`` and ``c_k`` under every weight vector; ``c_0`` is infinite.
    counts : int64 array of shape (M, 2)
        Labels of the n rows at these two thresholds.
    objective : SizeObjective
        The n rows at rank k.
    """
    true_scores = of_labels(scores, y)
    lower = SizeObjective(true_scores, [scores], k, threads=threads)
    at_low, low = lower.counts_and_thresholds(weights)
    at_high, high = np.zeros_like(at_low), np.full(len(weights), np.inf)
    if k > 1:
        upper = SizeObjective(true_scores, [scores], k - 1, threads=threads)
        at_high, high = upper.counts_and_thresholds(weights)
    return np.column_stack([high, low]), np.column_stack([at_high, at_low]), lower


def ragged_gaps(
    objective: SizeObjective, weights: FloatArray, cuts: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the label scores of the n rows between the two cuts of every weight vector.

    Returns
    -------
    ends : int64 array of shape (p + 1,)
        Where the scores of each weight vector begin, and the end.
    values : float64 array
        All scores, rising within each weight vector. There can be many (over a thousand for
        some weights), hence no cap.
    """
    kernels = objective.kernels("selection", weights)
    (scores,) = objective.size_parts
    high, low = np.ascontiguousarray(cuts.T)
    blocks = objective.row_blocks(scores)

    def count(rows: slice) -> IntArray:
        sizes = np.zeros(len(weights), dtype=np.int64)
        kernels.gap_sizes(objective.planes(scores[rows]), weights, low, high, sizes)
        return sizes

    by_block = np.array(objective.run(count, blocks))
    ends = np.concatenate([[0], np.cumsum(by_block.sum(axis=0))])
    values = np.empty(ends[-1])
    # Every block writes behind the blocks before it, so that threads never meet.
    places = ends[:-1] + np.cumsum(by_block, axis=0) - by_block

    def fill(job: tuple[slice, IntArray]) -> None:
        rows, place = job
        kernels.fill_gaps(objective.planes(scores[rows]), weights, low, high, place, values)

    objective.run(fill, zip(blocks, places, strict=True))
    for i in range(len(weights)):
        values[ends[i] : ends[i + 1]].sort()
    return ends, values
