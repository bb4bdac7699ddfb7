"""The objective: weights to set sizes, exactly as integers; and what a search of it found.

``count(w)`` is the number of labels in the sets of the size rows, when the threshold is the k-th
largest combined score of the true labels of the tuning rows. It is piecewise constant in w.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self, TypeVar

import numpy as np

from conformix.conformal import conformal_rank, in_words, kth_largest, rows_needed
from conformix.errors import InvalidInput, TrivialSetsWarning, shown, warn
from conformix.kernels import available_threads, combine, run_blocks
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, to_host, torch_counts
from conformix.kernels.blocks import row_blocks
from conformix.kernels.simplex import first_best, preference
from conformix.kernels.twins import host_kernels
from conformix.search.certain import one_above, reach

R = TypeVar("R")

# Scores held by one thread at once: a block of d planes that stays in a core's cache while all
# weights pass over it.
CACHE_ENTRIES = 2**15
# Comparisons that one core does in the time that it takes to start a pool.
SMALL_WORK = 2**22


@dataclass(frozen=True)
class SearchResult:
    """The winning weights and what they cost.

    Parameters
    ----------
    weights : float64 array of shape (d,)
        The winner.
    count : int
        Labels in all sets of the size rows under the winner.
    n_size : int
        Number of size rows.
    n_evaluated : int
        Number of weight vectors among which the winner is the exact minimum.
    strategy : str
        What was searched, for people.
    reason : str
        Why this strategy, where ``search="auto"`` picked it.
    objective : str
        What was minimised.
    value : float or None
        Its mean per size row, where it is not the size.

    Examples
    --------
    >>> found = SearchResult(np.array([0.5, 0.5]), count=30, n_size=20, n_evaluated=101,
    ...                      strategy="grid of resolution 100")
    >>> found.size
    1.5
    """

    weights: FloatArray
    count: int
    n_size: int
    n_evaluated: int
    strategy: str
    reason: str = ""
    objective: str = "size"
    value: float | None = None

    @property
    def size(self) -> float:
        """Mean set size on the size rows: minimised over the weights, hence optimistic."""
        return self.count / self.n_size

    def __repr__(self) -> str:
        weights = np.array2string(np.asarray(self.weights), precision=3, separator=", ")
        why = f" (auto: {self.reason})" if self.reason else ""
        value = "" if self.value is None else f"{self.objective} {self.value:.3f}, "
        return (
            f"SearchResult(weights={weights}, searched (optimistic) {value}size {self.size:.3f}, "
            f"{self.strategy}{why}, {self.n_evaluated:,} weights)"
        )


class SizeObjective:
    """Set sizes as a function of the weights.

    Parameters
    ----------
    true_scores : array of shape (n, d)
        Scores of the true labels of the tuning rows.
    size_parts : sequence of arrays of shape (n_i, K, d)
        Scores of all labels of the size rows, in one or several pieces; no labels here.
    k : int
        The conformal rank; ``n + 1`` puts every label in.
    threads : int or None
        Threads to use; None takes the available cores.
    shape : pair of int, optional
        Rows and classes, where `size_parts` hold only labels that may be in a set, as rows of one
        label each.

    Examples
    --------
    >>> scores = np.array([[[0.9], [0.1]], [[0.4], [0.6]]])  # two rows, two labels, one score
    >>> objective = SizeObjective(scores[[0, 1], [0, 1]], [scores], k=2)
    >>> objective(np.array([[1.0]]))
    array([1.])
    """

    follows_size = True  # what is minimised falls with the size
    plain = True  # it is the size itself, with one threshold and sets that may be empty

    def __init__(
        self,
        true_scores: FloatArray,
        size_parts: Sequence[FloatArray],
        k: int,
        *,
        threads: int | None = None,
        shape: tuple[int, int] | None = None,
    ) -> None:
        self._shape = shape
        self.true_scores = np.ascontiguousarray(true_scores, dtype=np.float64)
        self.size_parts = tuple(size_parts)
        self.k = k
        self.threads = available_threads(threads)

    @property
    def d(self) -> int:
        """Number of scores."""
        return int(self.true_scores.shape[1])

    @property
    def n_size(self) -> int:
        """Number of size rows."""
        if self._shape is not None:
            return self._shape[0]
        return sum(part.shape[0] for part in self.size_parts)

    @property
    def n_pairs(self) -> int:
        """Number of (row, label) pairs of the size rows."""
        if self._shape is not None:
            return self._shape[0] * self._shape[1]
        return sum(part.shape[0] * part.shape[1] for part in self.size_parts)

    def engine(self, weights: FloatArray) -> Any:
        """Return the module that counts for weights (m, d): on their device for tensors.

        Where numba is absent and PyTorch is there, PyTorch counts arrays too.
        """
        if any(torch_counts(part) for part in self.size_parts):
            return import_module("conformix.kernels.device.engine")
        return host_kernels("engine", (self.n_pairs + len(self.true_scores)) * weights.size)

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the k-th largest combined true-label score for every weight vector, (m,)."""
        one = self.true_scores
        return np.array([kth_largest(combine(one, w), self.k) for w in weights])

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows for every weight vector, int64 (m,)."""
        if self.k > len(self.true_scores):
            return np.full(len(weights), self.n_pairs)
        return self.engine(weights).candidate_counts(  # type: ignore[no-any-return]
            self.true_scores, self.size_parts, self.k, weights, self.threads_for(weights)
        )

    def counts_and_thresholds(self, weights: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the counts and the thresholds of every weight vector, for ``k <= n``."""
        return self.engine(weights).counts_and_thresholds(  # type: ignore[no-any-return]
            self.true_scores, self.size_parts, self.k, weights, self.threads_for(weights)
        )

    def smallest(self, weights: FloatArray, keys: FloatArray | IntArray) -> tuple[int, int]:
        """Return index and count of the winner among weights (m, d); `keys` break ties."""
        if not self.plain:
            counts = self.counts(weights)
            winner = first_best(counts, keys)
            return winner, int(counts[winner])
        if self.k > len(self.true_scores):
            winner = int(preference(keys)[0])
            return winner, int(self.counts(weights[winner : winner + 1])[0])
        return self.engine(weights).smallest_count(  # type: ignore[no-any-return]
            self.true_scores, self.size_parts, self.k, weights, keys, self.threads_for(weights)
        )

    def kernels(self, name: str, weights: FloatArray) -> Any:
        """Return the kernels `name` of the host for a pass of weights (m, d) over the size rows."""
        return host_kernels(name, self.n_pairs * weights.size)

    def on_host(self) -> Self:
        """Return this objective with its scores in host memory: itself unless they are tensors."""
        if not any(is_tensor(part) for part in self.size_parts):
            return self
        other = copy(self)
        other.size_parts = tuple(to_host(part) for part in self.size_parts)
        return other

    def with_scores(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return this objective over other scores: ``change`` maps arrays (..., d) to (..., r)."""
        other = copy(self)
        other.true_scores = np.ascontiguousarray(change(self.true_scores), dtype=np.float64)
        other.size_parts = tuple(change(part) for part in self.size_parts)
        return other

    def with_size_rows(self, rows: Callable[[int], IntArray | slice]) -> Self:
        """Return this objective over some of its size rows: ``rows(n_i)`` of every part."""
        other = copy(self)
        other.size_parts = tuple(part[rows(len(part))] for part in self.size_parts)
        return other

    def within_reach(self) -> Self:
        """Return an objective of the same counts under all weights that are not negative.

        Without labels that are in no set then (`conformix.search.certain`), where these are most.
        """
        on_device = any(is_tensor(part) for part in self.size_parts)
        if on_device or not self.plain or self.k > len(self.true_scores):
            return self
        cuts = reach(self.true_scores, self.k)
        kept = [one_above(part, cuts) for part in self.size_parts]
        if 2 * sum(np.count_nonzero(inside) for inside in kept) > sum(map(np.size, kept)):
            return self  # they would be held twice for little
        other = copy(self)
        other._shape = (self.n_size, self.n_pairs // max(1, self.n_size))
        other.size_parts = tuple(
            np.stack([part[..., j][inside] for j in range(self.d)]).T[:, None, :]
            for part, inside in zip(self.size_parts, kept, strict=True)
        )
        return other

    def described(self, result: SearchResult) -> SearchResult:
        """Return what a search found, saying what was minimised: here the size, as it is."""
        if not isinstance(result, SearchResult):
            raise InvalidInput(
                "a search must take (objective, rng) and return a SearchResult; got "
                f"{shown(result)} from this one."
            )
        return result

    def threads_for(self, weights: FloatArray) -> int:
        """Return how many threads pay off: one where starting a pool would take longer."""
        return self.threads if self.n_pairs * len(weights) > SMALL_WORK else 1

    def run(self, work: Callable[[Any], R], blocks: Iterable[Any]) -> list[R]:
        """Return ``work(block)`` for all blocks, over this objective's threads."""
        return run_blocks(work, blocks, self.threads)

    def row_blocks(self, part: FloatArray) -> list[slice]:
        """Return slices of rows whose scores stay in a core's cache."""
        return list(row_blocks(part.shape[0], part.shape[1] * part.shape[2], CACHE_ENTRIES))

    @staticmethod
    def planes(block: FloatArray) -> FloatArray:
        """Return scores (rows, K, d) as contiguous float64 planes (d, rows, K)."""
        return np.ascontiguousarray(np.moveaxis(block, -1, 0), dtype=np.float64)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the mean set size on the size rows for every weight vector, shape (m,)."""
        return self.counts(weights) / self.n_size


def tuning_rank(n: int, alpha: float, rank: Callable[[int, float], int] = conformal_rank) -> int:
    """Return the rank used while searching, with a warning where it lets every label in.

    Examples
    --------
    >>> tuning_rank(99, 0.1)
    90
    """
    k = rank(n, alpha)
    if conformal_rank(n, alpha) > n:
        needed = rows_needed(alpha)
        warn(
            f"alpha={float(alpha):g} needs at least {in_words(needed)} tuning rows for a finite "
            f"threshold; got {n}, {in_words(needed - n)} too few: all weights tie, and the uniform "
            "ones are taken.",
            TrivialSetsWarning,
        )
    return k
