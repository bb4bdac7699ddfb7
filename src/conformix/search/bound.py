"""The objective of a goal: integer costs of weights, for all searches to minimise.

A goal (`conformix.search.goals`) says what sets cost; bound to the scores and labels of the tuning
rows and the scores of the size rows it is an objective: integers, smaller is better, in
millionths of a label, so that ties are ties on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, Self

import numpy as np

from conformix.conformal import simple_fraction
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.simplex import first_best
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult

# Costs and penalties are counted in millionths of a label.
UNIT = 10**6
# Thresholds and row sizes are held for this many weight vectors at once.
WEIGHTS_AT_ONCE = 256


class Goal(Protocol):
    """What `objective=` takes: a name for tables, and costs of weights on a bound objective."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the total cost of every weight vector, int64 (m,), in millionths."""


class GoalObjective(SizeObjective):
    """The costs of a goal as a function of the weights.

    Parameters
    ----------
    plain : SizeObjective
        True-label scores of the tuning rows, and the size rows.
    goal : Goal
        What is minimised.
    tune_scores : array of shape (n, K, d)
        Scores of all labels of the tuning rows.
    y : integer array of shape (n,)
        Their true labels.
    alpha : float
        The level of the search.
    """

    follows_size = False  # a smooth size is no stand-in for it

    def __init__(
        self,
        plain: SizeObjective,
        goal: Goal,
        tune_scores: FloatArray,
        y: IntArray,
        alpha: float,
    ) -> None:
        super().__init__(plain.true_scores, plain.size_parts, plain.k, threads=plain.threads)
        self.goal = goal
        self.tune_scores = tune_scores
        self.y = y
        self.target = 1.0 - float(simple_fraction(alpha))

    def with_scores(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return this objective over other scores: ``change`` maps arrays (..., d) to (..., r)."""
        other = super().with_scores(change)
        if getattr(self.goal, "reads_tune_scores", False):
            other.tune_scores = change(self.tune_scores)
        return other

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the total cost of every weight vector, int64 (m,)."""
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        starts = range(0, len(weights), WEIGHTS_AT_ONCE)
        found = [self.goal.costs(self, weights[i : i + WEIGHTS_AT_ONCE]) for i in starts]
        return np.concatenate(found).astype(np.int64)

    def smallest(self, weights: FloatArray, keys: FloatArray | IntArray) -> tuple[int, int]:
        """Return index and cost of the winner among weights (m, d); `keys` break ties."""
        costs = self.counts(weights)
        winner = first_best(costs, keys)
        return winner, int(costs[winner])

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the mean cost per size row of every weight vector, shape (m,)."""
        return self.counts(weights) / (UNIT * self.n_size)

    def labels(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows, int64 (m,)."""
        return super().counts(weights)

    def told(self, found: SearchResult) -> SearchResult:
        """Return a search result that says what was minimised, beside the size."""
        value = found.count / (UNIT * self.n_size)
        count = int(self.labels(found.weights[None])[0])
        return replace(found, count=count, objective=self.goal.name, value=value)

    def covered(self, weights: FloatArray) -> BoolArray:
        """Return whether the true label of every tuning row is in its set, bool (m, n)."""
        thresholds = self.thresholds(weights)
        own = np.array([combine(self.true_scores, w) for w in weights])
        return own >= thresholds[:, None]

    def cost_of_rows(
        self, weights: FloatArray, of_size: IntArray, of_label: IntArray | None = None
    ) -> IntArray:
        """Return the costs of the size rows by set size and by label, int64 (m,)."""
        from conformix.kernels.host.rowcosts import row_costs  # noqa: PLC0415  numba loads late

        thresholds = self.thresholds(weights)

        def block_costs(block: FloatArray) -> IntArray:
            costs = np.zeros(len(weights), dtype=np.int64)
            each = np.zeros(block.shape[1], dtype=np.int64) if of_label is None else of_label
            row_costs(self.planes(block), weights, thresholds, of_size, each, costs)
            return costs

        blocks = [part[rows] for part in self.size_parts for rows in self.row_blocks(part)]
        return np.sum(self.run(block_costs, blocks), axis=0, dtype=np.int64)

    def tune_sizes(self, weights: FloatArray) -> IntArray:
        """Return the sizes of the sets of the tuning rows, int64 (m, n)."""
        from conformix.kernels.host.rowcosts import row_sizes  # noqa: PLC0415  numba loads late

        thresholds = self.thresholds(weights)
        sizes = np.empty((len(weights), len(self.tune_scores)), dtype=np.int64)

        def fill(rows: slice) -> None:
            part = np.empty((len(weights), rows.stop - rows.start), dtype=np.int64)
            row_sizes(self.planes(self.tune_scores[rows]), weights, thresholds, part)
            sizes[:, rows] = part

        self.run(fill, self.row_blocks(self.tune_scores))
        return sizes
