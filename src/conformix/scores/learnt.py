"""Scores that learn without labels what the labels of a row say about each other.

When maple and oak are both likely, willow is likelier than its own probability says. Let f(x) be
the pattern of a row: its log-probabilities, floored at -12, centred over the labels, scaled to norm
one (`conformix.kernels.patterns`). Over the rows that a score learns from:

- ``likeness``: the prototype of a label is ``m_y = sum_i p_y(x_i) f(x_i)``, scaled to norm one, and
  the score ``4 f(x) . m_y``;
- ``kin``: R is the correlation matrix of the K columns of f; its negative entries count as zero and
  its diagonal is one; rows are scaled to norm one, and the score is ``4 f(x) . R_y``.

Each is one matrix (K, K), made of sums over rows that add up exactly, wherever the rows are. On the
rows that it learnt from, a score has the values of a matrix that those rows had no part in: each
row leaves itself out of the prototypes, and correlations come from the other nine of ten parts.

The matrix sees no label, but it must not be made of calibration rows alone, nor of rows to be
predicted alone: the scores of these rows would then differ in kind from those of the others.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels import patterns
from conformix.kernels.arrays import FloatArray, IntArray, to_host
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score

# The width of both scores: products of unit vectors are between -1 and 1.
WIDTH = 4.0
# Parts that the rows are cut into; a row's correlations come from the others.
N_PARTS = 10
# A squared norm, relative to what it is the difference of, below which nothing is left of it.
CANCELLED = 2.0**-16


class RowSums(NamedTuple):
    """Sums over rows, as whole numbers: those of several blocks add up."""

    n: int
    products: Any  # (K, K), in multiples of 2^-40
    totals: Any  # (K,), in multiples of 2^-20

    def plus(self, other: RowSums, sign: int = 1) -> RowSums:
        """Return the sums over the rows of both, or of those that the other has not."""
        return RowSums(
            self.n + sign * other.n,
            self.products + sign * other.products,
            self.totals + sign * other.totals,
        )


T = TypeVar("T", bound="LearningScore")


@dataclass(frozen=True)
class LearningScore(Score):
    """A score of patterns by a matrix that is learnt from rows without labels.

    Parameters
    ----------
    factors : float64 array of shape (K, K), optional
        What was learnt: rows of norm one. Left out of texts and comparisons.
    """

    sorts: ClassVar[bool] = False
    on_device: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    factors: Any = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factors is not None and not isinstance(self.factors, np.ndarray):
            raise TypeError("factors are learnt, not given")

    def unit(self, n_classes: int) -> float:
        """Return four: products of unit vectors, times four."""
        return WIDTH

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``4 f(x) . factors_y``."""
        if self.factors is None:
            raise InvalidInput(
                f'score "{self}" learns from rows before it scores any; name it among the scores '
                "of ScoreAverage, which keeps rows apart for that."
            )
        return WIDTH * patterns.products(ranked.patterns, self.factors)  # type: ignore[no-any-return]

    def learnt(self: T, sums: RowSums) -> T:
        """Return the score with the matrix that some rows make."""
        return replace(self, factors=self.matrix(sums)[0])

    @abstractmethod
    def sums(self, ranked: Ranked) -> RowSums:
        """Return what is added up over a block of rows."""

    @abstractmethod
    def matrix(self, sums: RowSums) -> tuple[FloatArray, FloatArray]:
        """Return the matrix (K, K) of some rows, of unit rows, and the norms that these had."""

    @abstractmethod
    def left_out(self, ranked: Ranked, sums: RowSums, parts: IntArray) -> FloatArray:
        """Return the scores (n, K) of rows that are in the sums, as if they were not.

        `parts` (n,) says which rows are left out together.
        """


@dataclass(frozen=True)
class Likeness(LearningScore):
    """How like a row's pattern is to that of the rows in which a label is likely.

    Examples
    --------
    >>> rows = Ranked(np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]]))
    >>> score = Likeness().learnt(Likeness().sums(rows))
    >>> score(rows).round(1)
    array([[ 4. ,  4. , -3.6],
           [ 3.9,  4. , -3.9],
           [-3.8, -3.8,  4. ]])
    """

    name: ClassVar[str] = "likeness"

    def sums(self, ranked: Ranked) -> RowSums:
        """Return ``sum_i p_y(x_i) f(x_i)``."""
        products = patterns.summed_products(ranked.probs, ranked.patterns)
        return RowSums(len(ranked.probs), to_host(products), 0)

    def matrix(self, sums: RowSums) -> tuple[FloatArray, FloatArray]:
        """Return the prototypes, and their norms."""
        units, norms = patterns.unit_rows(np.asarray(sums.products, dtype=np.float64))
        return units, norms * 2.0 ** (-2 * patterns.SUM_BITS)

    def left_out(self, ranked: Ranked, sums: RowSums, parts: IntArray) -> FloatArray:
        """Return the scores of rows that leave themselves out of the prototypes.

        With ``d = f . m`` the product with ``m - p f`` is ``d - p f.f``, and the square of its norm
        ``m.m - 2 p d + p^2 f.f``. Where nothing is left of a prototype the score is zero.
        """
        units, norms = self.matrix(sums)
        rows = ranked.patterns
        own = (rows != 0).any(axis=1)[:, None]  # f.f is one, or zero
        p = np.where(own, ranked.probs, 0.0)
        along = norms * patterns.products(rows, units)
        square = norms * norms - 2.0 * p * along + p * p
        there = square > CANCELLED * norms * norms
        root = np.sqrt(np.where(there, square, 1.0))
        return np.where(there, WIDTH * ((along - p) / root), 0.0)


@dataclass(frozen=True)
class Kin(LearningScore):
    """How high the labels score that go with a label, by their correlations over rows.

    Examples
    --------
    >>> rows = Ranked(np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]]))
    >>> score = Kin().learnt(Kin().sums(rows))
    >>> score.factors.round(2)  # the first two labels go together
    array([[0.74, 0.67, 0.  ],
           [0.67, 0.74, 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    name: ClassVar[str] = "kin"

    def sums(self, ranked: Ranked) -> RowSums:
        """Return the sums of products of two columns of f, and of the columns."""
        return _correlated(ranked.patterns)

    def matrix(self, sums: RowSums) -> tuple[FloatArray, FloatArray]:
        """Return the positive correlations, one on the diagonal; a label that never varies has 0.

        Row and column of an entry play the same part, so the matrix is symmetric before its rows
        are scaled, to the last bit.
        """
        totals = np.asarray(sums.totals, dtype=np.float64)
        products = np.asarray(sums.products, dtype=np.float64)
        covariance = products - totals[:, None] * totals[None, :] / max(sums.n, 1)
        variance = np.diagonal(covariance)
        varies = variance > CANCELLED * np.diagonal(products)
        spread = np.sqrt(np.where(varies, variance, np.inf))
        correlation = covariance / (spread[:, None] * spread[None, :])
        positive = np.clip(correlation, 0.0, 1.0)
        np.fill_diagonal(positive, 1.0)
        return patterns.unit_rows(positive)

    def left_out(self, ranked: Ranked, sums: RowSums, parts: IntArray) -> FloatArray:
        """Return the scores of rows by the correlations over the other parts."""
        scores = np.empty(ranked.patterns.shape)
        for part in np.unique(parts):
            rows = np.flatnonzero(parts == part)
            some = ranked.patterns[rows]
            units, _ = self.matrix(sums.plus(_correlated(some), -1))
            scores[rows] = WIDTH * patterns.products(some, units)
        return scores


def _correlated(rows: FloatArray) -> RowSums:
    products = patterns.summed_products(rows, rows)
    return RowSums(len(rows), to_host(products), to_host(patterns.summed(rows)))
