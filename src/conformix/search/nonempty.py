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
from conformix.kernels.simplex import preference
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


class BesideBestObjective(SizeObjective):
    """The same where rows have the same best labels whatever the weights: the others are counted.

    Parameters
    ----------
    true_scores : array of shape (n', d)
        Scores of the true labels of the tuning rows that are not among the best of their row.
    size_parts : sequence of arrays of shape (L, 1, d)
        Labels of the size rows that may be in a set beside the best ones.
    k : int
        The rank of the threshold among these true labels. Below one there is none: only the best
        labels are in; beyond their number all labels are.
    n_best : int
        How many labels of the size rows are among the best of their row.
    shape : pair of int
        Size rows and classes.
    threads
        As in `SizeObjective`.

    Examples
    --------
    >>> scores = np.array([[[0.9], [0.1]], [[0.4], [0.6]]])  # the second label of both is true
    >>> others = scores[[0, 1], [1, 0], None]
    >>> beside = BesideBestObjective(scores[:1, 1], [others], 1, n_best=2, shape=(2, 2))
    >>> beside.counts(np.ones((1, 1)))
    array([4])
    >>> NonEmptyObjective(scores, np.array([1, 1]), [scores], 2).counts(np.ones((1, 1)))
    array([4])
    """

    plain = False

    def __init__(
        self,
        true_scores: FloatArray,
        size_parts: Sequence[FloatArray],
        k: int,
        *,
        n_best: int,
        shape: tuple[int, int],
        threads: int | None = None,
    ) -> None:
        super().__init__(true_scores, size_parts, k, threads=threads, shape=shape)
        self.n_best = n_best

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the k-th largest combined score of these true labels, (m,)."""
        return np.full(len(weights), np.inf) if self.k < 1 else super().thresholds(weights)

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows, int64 (m,)."""
        known = self._known
        if known is not None:
            return np.full(len(weights), known)
        return self.n_best + super().counts(weights)

    def smallest(self, weights: FloatArray, keys: FloatArray | IntArray) -> tuple[int, int]:
        """Return index and count of the winner among weights (m, d); `keys` break ties."""
        known = self._known
        if known is not None:
            return int(preference(keys)[0]), known
        winner, count = self.engine(weights).smallest_count(
            self.true_scores, self.size_parts, self.k, weights, keys, self.threads_for(weights)
        )
        return winner, count + self.n_best

    @property
    def _known(self) -> int | None:
        """How many labels are in whatever the weights are; None where they decide."""
        if self.k > len(self.true_scores):
            return self.n_pairs
        none = self.k < 1 or not any(len(part) for part in self.size_parts)
        return self.n_best if none else None
