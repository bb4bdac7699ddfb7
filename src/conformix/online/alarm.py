"""An alarm for drift whose false-alarm rate is stated, and holds at all times at once.

The first n labelled rows are a reference: of the scores of their true labels, cuts at two ranks are
kept. Without drift the share of later rows below a cut of rank r lies under a quantile of
Beta(r, n + 1 - r), and that at or below it above one, except for a share ``delta / 2`` of all
streams. Within these ends a bet on more, or fewer, rows beyond a cut is unfair: its stake is a
nonnegative supermartingale. Bets with several odds, begun at every step with shares
``1 / (t (t + 1))`` of the money, are worth ``2 / delta`` at any time with a probability of at most
``delta / 2`` (Ville, 1939). So an alarm at that point is false on at most a share ``delta`` of all
streams without drift, however long one watches. Nothing grows with the stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.conformal import last_rank_out, simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray

# Odds against which bets are placed, in units of e, beyond the ends of the reference.
ODDS = (0.25, 0.5, 1.0, 2.0)
# Worth of a bet that is counted no further.
MOST = 1e250


class Alarm:
    """Watches the scores of true labels, in the order in which labels come.

    Parameters
    ----------
    alpha : float
        Where the first cut lies: as many of the reference score below it. The second is the median.
    delta : float
        The share of streams without drift on which the alarm is ever raised, at most.
    reference : int
        How many rows are the reference.

    Attributes
    ----------
    evidence_ : float
        What the bets are worth; the alarm is raised at ``2 / delta``.
    raised_at_ : int or None
        After how many labels it was raised.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> alarm = Alarm(alpha=0.1, delta=0.01, reference=300)
    >>> any(alarm.update(score) for score in rng.normal(size=2000))
    False
    >>> any(alarm.update(score) for score in rng.normal(-1, size=200))
    True
    >>> 2000 < alarm.raised_at_ < 2150
    True
    """

    def __init__(self, alpha: float = 0.1, delta: float = 0.01, reference: int = 500) -> None:
        self.alpha = float(simple_fraction(alpha))
        self.delta = float(simple_fraction(delta, "delta"))
        whole = isinstance(reference, int | np.integer) and not isinstance(reference, bool)
        if not whole or reference < 2:
            raise InvalidInput(f"reference must be two rows or more; got {reference!r}.")
        self.reference = int(reference)
        self._first: list[float] = []
        self._seen = 0  # since the reference
        self._worth: Any = np.zeros(0)
        self.raised_at_: int | None = None

    @property
    def labels(self) -> int:
        """Labels so far."""
        return len(self._first) + self._seen

    @property
    def threshold(self) -> float:
        """The evidence at which the alarm is raised."""
        return 2 / self.delta

    @property
    def evidence_(self) -> float:
        """What the bets are worth now, beginning with one."""
        return float(self._worth.mean()) + 1 / (self._seen + 1) if self._seen else 1.0

    def update(self, score: float) -> bool:
        """Take the score of a true label, and return whether the alarm is raised or was."""
        if not math.isfinite(score):
            raise InvalidInput(f"score must be a finite number; got {score!r}.")
        if len(self._first) < self.reference:
            self._first.append(float(score))
            if len(self._first) == self.reference:
                self._place_bets(np.sort(self._first))
            return False
        self._seen += 1
        # Cuts that a score lies beyond: below them on one side, at or below them on the other.
        beyond = [score < cut for cut in self._cuts] + [score <= cut for cut in self._cuts]
        factors = np.where(np.repeat(beyond, len(ODDS)), self._hit, self._miss)
        share = 1 / (self._seen * (self._seen + 1))
        self._worth = np.minimum((self._worth + share) * factors, MOST)
        if self.raised_at_ is None and self.evidence_ >= self.threshold:
            self.raised_at_ = self.labels
        return self.raised_at_ is not None

    def _place_bets(self, scores: FloatArray) -> None:
        n = len(scores)
        ranks = [min(max(last_rank_out(n, share), 1), n) for share in (self.alpha, 0.5)]
        self._cuts = [float(scores[rank - 1]) for rank in ranks]
        high, low = share_ends(ranks, n, self.delta / (4 * len(ranks)))
        nulls = np.repeat(np.concatenate([high, low]), len(ODDS))
        turns = np.concatenate([np.tile(ODDS, len(ranks)), -np.tile(ODDS, len(ranks))])
        odds = nulls / (1 - nulls) * np.exp(turns)
        bets = odds / (1 + odds)
        self._hit, self._miss = bets / nulls, (1 - bets) / (1 - nulls)
        self._worth = np.zeros(len(bets))

    def __str__(self) -> str:
        if self.labels <= self.reference:
            return f"no alarm yet: {self.labels:,} of {self.reference:,} reference labels"
        worth = f"evidence {at_most_a_million(self.evidence_)} of {self.threshold:g}"
        if self.raised_at_ is None:
            return f"no alarm after {self.labels:,} labels: {worth}"
        return f"drift: alarm after {self.raised_at_:,} labels ({worth})"

    @property
    def statement(self) -> str:
        """What the alarm promises."""
        return (
            f"on streams without drift an alarm is raised with a probability of at most "
            f"{self.delta:g}, at all times together (labelled rows independent, of one law)"
        )


def at_most_a_million(evidence: float) -> str:
    """Return evidence in three digits; beyond a million nobody counts.

    Examples
    --------
    >>> at_most_a_million(12.3456), at_most_a_million(1e80)
    ('12.3', '> 10^6')
    """
    return f"{evidence:.3g}" if evidence <= 1e6 else "> 10^6"


def share_ends(ranks: Sequence[int], n: int, error: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the shares below order statistics, each but for a probability `error`.

    Of n scores, ``P(score < s_(r)) <= high`` and ``P(score <= s_(r)) >= low``, ties or not.

    Examples
    --------
    >>> high, low = share_ends([50], 499, error=0.025)
    >>> high.round(3), low.round(3)
    (array([0.128]), array([0.075]))
    """
    from scipy.special import betaincinv  # noqa: PLC0415  scipy loads late

    r = np.asarray(ranks, dtype=np.float64)
    return betaincinv(r, n + 1 - r, 1 - error), betaincinv(r, n + 1 - r, error)


__all__ = ["Alarm"]
