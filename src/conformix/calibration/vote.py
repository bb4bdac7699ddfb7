"""A vote of scores: each has a threshold of its own, and more than half must let a label in.

Every score by itself misses the truth with probability at most alpha, so the expected share of
scores that miss it is at most alpha, and by Markov's inequality more than half of them do so with
probability at most 2 alpha (Cherubin, 2019; Gasparin & Ramdas, 2024). In terms of p-values: a label
is in at level alpha where the middle one of its d p-values exceeds alpha, so that sets are nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from conformix.calibration.cuts import Cuts, Plan, Rank, Seen
from conformix.conformal import pvalue_ranks, warn_if_trivial
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray, to_host


@dataclass(frozen=True, eq=False)
class Ranks:
    """Scores as ranks among the calibration scores of their own: p-values times ``n + 1``."""

    rising: tuple[FloatArray, ...]  # d arrays (n,), the true-label scores of the calibration rows

    def __call__(self, scores: FloatArray) -> FloatArray:
        host = to_host(scores)
        ranks = np.empty(host.shape)
        for j, calibration in enumerate(self.rising):
            ranks[..., j] = pvalue_ranks(calibration, host[..., j])
        return ranks


def middle(ranks: FloatArray) -> FloatArray:
    """Return the rank (...) that more than half of d ranks (..., d) reach.

    Examples
    --------
    >>> middle(np.array([[3.0, 1.0, 2.0], [5.0, 5.0, 1.0]])), middle(np.array([[4.0, 2.0]]))
    (array([2., 5.]), array([2.]))
    """
    d = ranks.shape[-1]
    place = d - (d // 2 + 1)  # of the (floor(d/2) + 1)-th largest, counted from the smallest
    return np.partition(ranks, place, axis=-1)[..., place]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class VotePlan:
    """One threshold per score."""

    needs: tuple[str, ...] = ()
    by_row: ClassVar[bool] = False

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        return Votes(len(values))

    def afresh(self) -> Plan:
        raise InvalidInput(
            'calibration "vote" learns nothing but its thresholds, so there is nothing to keep; '
            "call fit on the fresh rows instead."
        )


@dataclass(frozen=True)
class Votes:
    """Which middle rank is in at a level, among n calibration rows."""

    n: int

    name: ClassVar[str] = "vote"
    no_law: ClassVar[str] = "the scores of a vote depend on each other in a way that nobody knows"

    @property
    def plan(self) -> Plan:
        return VotePlan()

    def table(self, alpha: float, rank: Rank) -> float:
        k = rank(self.n, alpha)
        # A score reaches the k-th largest of n where n + 1 - k of them are no larger.
        return -np.inf if k > self.n else float(self.n + 2 - k)

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> float:
        return self.table(alpha, rank)

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return the middle p-value of every label: valid where it is doubled."""
        if tau is not None:
            raise InvalidInput(
                "smoothed=True breaks the ties of one score, and a vote has the middle one of "
                "several p-values; leave smoothed=False."
            )
        return values / (self.n + 1)

    def promise(self, base: Guarantee) -> Guarantee:
        return replace(base, kind="approximate", statement="P(y in set) >= 1 - 2 alpha")

    def warn(self, alpha: float, rank: Rank) -> None:
        warn_if_trivial(self.n, alpha, rank)


@dataclass(frozen=True)
class Vote:
    """One threshold per score and a vote: ``P(y in set) >= 1 - 2 alpha``.

    Nothing is searched: all rows calibrate, and every score has one voice.

    Examples
    --------
    >>> import conformix as cx
    >>> P, y = [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 1]
    >>> cp = cx.ScoreAverage(("thr", "aps", "rank"), alpha=0.4, calibration="vote").fit(P, y)
    >>> cp.guarantee_.statement
    'P(y in set) >= 1 - 2 alpha'
    """

    name: ClassVar[str] = "vote"
    needs: ClassVar[tuple[str, ...]] = ()
    tune: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    has_pac: ClassVar[bool] = False
    votes: ClassVar[bool] = True

    def learn(self, seen: Seen) -> Plan:
        """Return the plan of one threshold per score."""
        return VotePlan()
