"""The objective for sets that are never empty: the row's best labels are always in.

After `combine` the row's maximum, with all that tie with it, counts as ``+inf``: in the true-label
scores that set the threshold, and in the sets that are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np

from conformix.arrays import FloatArray, IntArray
from conformix.conformal import kth_largest
from conformix.kernels import combine
from conformix.search.objective import SizeObjective
from conformix.search.simplex import first_best

# Row maxima are held for this many weight vectors at once.
WEIGHTS_AT_ONCE = 256


class NonEmptyObjective(SizeObjective):
    """Set sizes as a function of the weights, when no set may be empty.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of all labels of the tuning rows.
    y : integer array of shape (n,)
        Their true labels.
    size_parts, k, threads
        As in `SizeObjective`.
    """

    def __init__(
        self,
        scores: FloatArray,
        y: IntArray,
        size_parts: Sequence[FloatArray],
        k: int,
        *,
        threads: int | None = None,
    ) -> None:
        super().__init__(scores[np.arange(len(y)), y], size_parts, k, threads=threads)
        self.tune_scores = scores

    def with_scores(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return this objective over other scores: ``change`` maps arrays (..., d) to (..., r)."""
        other = super().with_scores(change)
        other.tune_scores = change(self.tune_scores)
        return other

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the k-th largest lifted true-label score for every weight vector, (m,)."""
        from conformix.kernels.counting import row_tops  # noqa: PLC0415  numba loads late

        found = []
        for start in range(0, len(weights), WEIGHTS_AT_ONCE):
            some = weights[start : start + WEIGHTS_AT_ONCE]
            tops = np.empty((len(some), len(self.tune_scores)))

            def fill(rows: slice, some: FloatArray = some, tops: FloatArray = tops) -> None:
                part = np.empty((len(some), rows.stop - rows.start))
                row_tops(self.planes(self.tune_scores[rows]), some, part)
                tops[:, rows] = part

            self.run(fill, self.row_blocks(self.tune_scores))
            for w, top in zip(some, tops, strict=True):
                own = combine(self.true_scores, w)
                found.append(kth_largest(np.where(own == top, np.inf, own), self.k))
        return np.array(found)

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all non-empty sets of the size rows, int64 (m,)."""
        from conformix.kernels.counting import count_nonempty  # noqa: PLC0415  numba loads late

        weights = np.ascontiguousarray(weights, dtype=np.float64)
        thresholds = self.thresholds(weights)

        def count_rows(block: FloatArray) -> IntArray:
            counts = np.zeros(len(weights), dtype=np.int64)
            count_nonempty(self.planes(block), weights, thresholds, counts)
            return counts

        blocks = [part[rows] for part in self.size_parts for rows in self.row_blocks(part)]
        return np.sum(self.run(count_rows, blocks), axis=0, dtype=np.int64)

    def smallest(self, weights: FloatArray, keys: FloatArray | IntArray) -> tuple[int, int]:
        """Return index and count of the winner among weights (m, d); `keys` break ties."""
        counts = self.counts(weights)
        winner = first_best(counts, keys)
        return winner, int(counts[winner])
