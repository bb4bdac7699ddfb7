"""Symmetric aggregation of models, SACP (Alami et al., arXiv 2512.06945), from its formula.

With the nonconformity ``s_m = 1 - p_y`` of model m, every one of n + 1 numbers, those of the n
calibration rows and of the candidate label, is divided by their sum, and the mean over the models
(SACP++: a p-norm) is one number per row. A label is in the set when its number is at most the k-th
smallest of the calibration rows. Sums have the candidate in them, so the rule is symmetric and
exact, and all rows calibrate. The authors pick p by the sizes of test sets, which is not; here p is
fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from conformix.conformal import conformal_rank
from conformix.experiments.pool import Pool
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.scores.ranked import Ranked

# Numbers that are held at once.
AT_ONCE = 2**20
CELLS = 256
# What rounding may do to a number, relative to it.
TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Candidates:
    """The nonconformity (r, K, M) of all labels of some rows, between 0 and 1."""

    values: FloatArray

    @cached_property
    def cells(self) -> tuple[FloatArray, IntArray]:
        """The multiples (c, M) of 1/256 below the numbers, and which one every label has."""
        whole = np.floor(self.values.reshape(-1, self.values.shape[-1]) * CELLS)
        cells, places = np.unique(whole, axis=0, return_inverse=True)
        return cells, places.ravel()


@dataclass(frozen=True)
class Symmetric:
    """SACP with one norm.

    Parameters
    ----------
    p : float
        Of the norm over the models; 1 is their mean.

    Examples
    --------
    >>> Symmetric().norm(np.array([[3.0, 4.0]]))
    array([7.])
    """

    p: float = 1.0

    def norm(self, shares: FloatArray) -> FloatArray:
        """Return one number for the shares (..., M) of all models."""
        if self.p == 1:
            return shares.sum(axis=-1)  # type: ignore[no-any-return]
        return np.linalg.norm(shares, ord=self.p, axis=-1)  # type: ignore[no-any-return]

    def all_sets(
        self, pool: Pool, rows: IntArray, test: IntArray, cases: Sequence[tuple[int, float]]
    ) -> Iterator[BoolArray]:
        """Yield the sets of test rows by the first n labelled rows, for every (n, alpha)."""
        own, other = np.empty((len(rows), len(pool.outputs.models))), []
        for j, values in enumerate(pool.outputs.models.values()):
            own[:, j] = (
                1
                - Ranked(values[rows], pool.outputs.kind).probs[
                    np.arange(len(rows)), pool.labels[rows]
                ]
            )
            other.append(1 - Ranked(values[test], pool.outputs.kind).probs)
        candidates = Candidates(np.stack(other, axis=-1))
        for n, alpha in cases:
            yield self.sets(own[:n], candidates, alpha)

    def sets(self, own: FloatArray, candidates: Candidates, alpha: float) -> BoolArray:
        """Return the sets (r, K) of labels by the true-label numbers (n, M).

        Sums hardly change with the candidate: labels whose numbers are alike to 1/256 are compared
        with the thresholds of the least and the largest sums among them, and only labels between
        these with sums of their own.

        Examples
        --------
        >>> own = np.array([[0.1], [0.2], [0.3], [0.9]])
        >>> labels = Candidates(np.array([[[0.25], [0.95]]]))
        >>> Symmetric().sets(own, labels, 0.4)  # of one model: as THR
        array([[ True, False]])
        """
        n, total = len(own), own.sum(axis=0)
        k = conformal_rank(n, alpha)
        if k > n:
            return np.ones(candidates.values.shape[:2], dtype=bool)
        flat = candidates.values.reshape(-1, own.shape[1])
        numbers = self.norm(flat / (total + flat))
        cells, cell_of = candidates.cells
        low = self._thresholds(own, total + (cells + 1) / CELLS, k)[cell_of]
        high = self._thresholds(own, total + cells / CELLS, k)[cell_of]
        inside: BoolArray = numbers <= low
        unsure = np.flatnonzero((numbers > low * (1 - TINY)) & (numbers <= high * (1 + TINY)))
        inside[unsure] = numbers[unsure] <= self._thresholds(own, total + flat[unsure], k)
        return inside.reshape(candidates.values.shape[:2])

    def _thresholds(self, own: FloatArray, sums: FloatArray, k: int) -> FloatArray:
        """Return the k-th smallest number of the rows (n, M) for every one of some sums (s, M)."""
        found = np.empty(len(sums))
        step = max(1, AT_ONCE // own.size)
        for start in range(0, len(sums), step):
            some = slice(start, start + step)
            values = self.norm(own[None] / sums[some, None])
            found[some] = np.partition(values, k - 1, axis=1)[:, k - 1]
        return found
