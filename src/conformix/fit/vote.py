"""The fit of a vote: all rows calibrate every score, and the middle rank of a label decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.vote import Ranks, Votes, middle
from conformix.fit.rule import Calibrated, Rule
from conformix.fit.scored import rising, true_scores
from conformix.guarantees import Ledger
from conformix.kernels.arrays import FloatArray, IntArray


class VoteRule(Rule):
    """How scores become one number per label: the rank that more than half of them reach.

    The weights, all equal, put the labels of a set in order and decide nothing.
    """

    # Sets as upper ends would order labels by the middle rank, which ties.
    rises: ClassVar[bool] = False  # type: ignore[assignment]

    def _weighted(self, scores: FloatArray) -> FloatArray:
        return middle(self.transform(scores))


@dataclass(frozen=True)
class Voted(Calibrated):
    """A vote with the scores (n, d) of the true labels of its calibration rows."""

    votes: Any = None

    additive: ClassVar[bool] = False


def true_label_scores(scores: Any, y: IntArray, d: int) -> FloatArray:
    """Return the scores (n, d) of the true labels, wherever the rows are."""
    true = true_scores(scores, y)
    return np.column_stack([true.combined(partial(_one_of, j)) for j in range(d)])


def _one_of(j: int, scores: FloatArray) -> FloatArray:
    return np.ascontiguousarray(scores[:, j])


def voted(votes: FloatArray, ledger: Ledger, alpha: float) -> Voted:
    """Return the vote that is calibrated by the scores (n, d) of true labels."""
    n, d = votes.shape
    rule = VoteRule(Ranks(tuple(rising(votes[:, j]) for j in range(d))), np.full(d, 1 / d))
    cuts = Votes(n)
    cuts.warn(alpha, ledger.facts.rank)
    return Voted(
        rule, rising(rule.of_single_labels(votes)), ledger.under(cuts.name, cuts.promise), "none",
        cuts=cuts, votes=votes,
    )  # fmt: skip
