"""The objective with thresholds per class: weights that make class-conditional sets small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.calibration.cuts import Calibration, Rank, Seen
from conformix.data.row_data import NO_DATA
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.objective import SizeObjective

# Thresholds (m, K) are held for this many weight vectors at once.
WEIGHTS_AT_ONCE = 512


def class_objective(
    plain: SizeObjective, scheme: Calibration, y: IntArray, *, alpha: float, rank: Rank
) -> ClassObjective:
    """Return `plain` with thresholds per class, as a scheme that tunes lays them down."""
    plain = plain.on_host()
    n, n_classes = len(y), plain.size_parts[0].shape[1]
    seen = Seen(
        np.zeros(n), y, NO_DATA, (), n_classes, n, alpha, True, np.random.default_rng(0)
    )  # fmt: skip
    plan: Any = scheme.learn(seen)  # a partition: only such schemes tune
    return ClassObjective(
        plain.true_scores, plan.strata_of(y, NO_DATA), plan.cells[0], plain.size_parts,
        alpha=alpha, rank=rank, threads=plain.threads,
    )  # fmt: skip


class ClassObjective(SizeObjective):
    """Set sizes as a function of the weights, when every class has a threshold of its own.

    Parameters
    ----------
    true_scores : array of shape (n, d)
        Scores of the true labels of the tuning rows.
    strata : integer array of shape (n,)
        The stratum of each tuning row; negative ones set no threshold.
    cells : integer array of shape (K,)
        The stratum of every label; labels of negative strata are always in.
    size_parts, threads
        As in `SizeObjective`.
    alpha : float
        The level.
    rank : callable
        The rank for so many rows.

    Examples
    --------
    >>> scores = np.array([[[0.9], [0.1]], [[0.4], [0.6]]])  # two rows, two labels, one score
    >>> from conformix.conformal import conformal_rank
    >>> objective = ClassObjective(scores[[0, 1], [0, 1]], np.array([0, 1]), np.array([0, 1]),
    ...                            [scores], alpha=0.5, rank=conformal_rank)
    >>> objective(np.array([[1.0]]))
    array([1.])
    """

    plain = False

    def __init__(
        self,
        true_scores: FloatArray,
        strata: IntArray,
        cells: IntArray,
        size_parts: Sequence[FloatArray],
        *,
        alpha: float,
        rank: Rank,
        threads: int | None = None,
    ) -> None:
        order = np.argsort(strata, kind="stable")
        super().__init__(true_scores[order], size_parts, rank(len(strata), alpha), threads=threads)
        sorted_strata, n_strata = strata[order], max(int(cells.max()) + 1, 0)
        self.ends = np.searchsorted(sorted_strata, np.arange(n_strata + 1))
        ranks = [rank(int(n), alpha) for n in np.diff(self.ends)]
        self.ranks = np.array(ranks, dtype=np.int64)
        self.cells = cells.astype(np.int64)

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows for every weight vector, int64 (m,)."""
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        kernels = self.kernels("counting", weights)
        total = np.zeros(len(weights), dtype=np.int64)
        planes = [
            self.planes(part[rows]) for part in self.size_parts for rows in self.row_blocks(part)
        ]
        for start in range(0, len(weights), WEIGHTS_AT_ONCE):
            some = weights[start : start + WEIGHTS_AT_ONCE]
            by_stratum = np.full((len(some), len(self.ranks) + 1), -np.inf)

            def cut(
                part: slice, some: FloatArray = some, by_stratum: FloatArray = by_stratum
            ) -> None:
                own = by_stratum[part, :-1]
                kernels.stratum_thresholds(self.true_scores, self.ends, self.ranks, some[part], own)

            step = max(1, len(some) // (4 * self.threads))
            self.run(cut, [slice(i, i + step) for i in range(0, len(some), step)])
            by_label = np.ascontiguousarray(by_stratum[:, np.where(self.cells < 0, -1, self.cells)])

            def count(
                block: FloatArray, some: FloatArray = some, by_label: FloatArray = by_label
            ) -> IntArray:
                counts = np.zeros(len(some), dtype=np.int64)
                kernels.count_by_label(block, some, by_label, counts)
                return counts

            total[start : start + len(some)] = np.sum(self.run(count, planes), axis=0)
        return total
