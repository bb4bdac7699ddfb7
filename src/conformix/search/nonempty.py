"""The objective for sets that are never empty: the row's best labels are always in.

After `combine` the row's maximum, with all that tie with it, counts as ``+inf``: in the true-label
scores that set the threshold, and in the sets that are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Self

import numpy as np

from conformix.conformal import kth_largest
from conformix.kernels import combine
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    as_tensor,
    of_labels,
    to_host,
    torch_counts,
)
from conformix.kernels.twins import host_kernels
from conformix.search.objective import SizeObjective

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

    plain = False

    def __init__(
        self,
        scores: FloatArray,
        y: IntArray,
        size_parts: Sequence[FloatArray],
        k: int,
        *,
        threads: int | None = None,
    ) -> None:
        super().__init__(of_labels(scores, y), size_parts, k, threads=threads)
        self.tune_scores = scores

    def on_host(self) -> Self:
        other = super().on_host()
        other.tune_scores = to_host(self.tune_scores)
        return other

    def with_scores(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        other = super().with_scores(change)
        other.tune_scores = change(self.tune_scores)
        return other

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the k-th largest lifted true-label score for every weight vector, (m,)."""
        thresholds = []
        for start in range(0, len(weights), WEIGHTS_AT_ONCE):
            some = weights[start : start + WEIGHTS_AT_ONCE]
            for w, top in zip(some, self.row_tops(some), strict=True):
                combined = combine(self.true_scores, w)
                thresholds.append(kth_largest(np.where(combined == top, np.inf, combined), self.k))
        return np.array(thresholds)

    def row_tops(self, weights: FloatArray) -> FloatArray:
        """Return the largest combined score of every tuning row, under every weight, (m, n)."""
        if torch_counts(self.tune_scores):
            kernels = import_module("conformix.kernels.device.counting")
            return kernels.row_tops(as_tensor(self.tune_scores), weights)  # type: ignore[no-any-return]
        kernels = host_kernels("counting", self.tune_scores.size * len(weights))
        tops = np.empty((len(weights), len(self.tune_scores)))

        def fill(rows: slice) -> None:
            part = np.empty((len(weights), rows.stop - rows.start))
            kernels.row_tops(self.planes(self.tune_scores[rows]), weights, part)
            tops[:, rows] = part

        self.run(fill, self.row_blocks(self.tune_scores))
        return tops

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all non-empty sets of the size rows, int64 (m,)."""
        if any(torch_counts(part) for part in self.size_parts):
            kernels = import_module("conformix.kernels.device.counting")
            tensors = [as_tensor(part) for part in self.size_parts]
            return kernels.count_nonempty(tensors, weights, self.thresholds(weights))  # type: ignore[no-any-return]
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        kernels = self.kernels("counting", weights)
        thresholds = self.thresholds(weights)

        def count_rows(block: FloatArray) -> IntArray:
            counts = np.zeros(len(weights), dtype=np.int64)
            kernels.count_nonempty(self.planes(block), weights, thresholds, counts)
            return counts

        blocks = [part[rows] for part in self.size_parts for rows in self.row_blocks(part)]
        return np.sum(self.run(count_rows, blocks), axis=0, dtype=np.int64)
