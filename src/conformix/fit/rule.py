"""What a fit leaves behind: the rule that combines scores, and the calibrated thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from conformix.calibration.cuts import Cuts, Marginal, Plan, Single
from conformix.conformal import warn_if_trivial
from conformix.data.row_data import NO_DATA, RowData
from conformix.fit.scored import in_blocks, rising, true_scores
from conformix.guarantees import Ledger
from conformix.kernels import combine, lift_best
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    as_float64,
    is_tensor,
    of_labels,
    to_device,
    to_host,
)
from conformix.kernels.blocks import row_blocks
from conformix.kernels.combine import RankLimits, true_ranks
from conformix.scores.scale import Transform
from conformix.search.objective import SearchResult

# Scores that are normalised sooner than those to leave out are found.
FEW_SCORES = 2**13


@dataclass(frozen=True)
class Rule:
    """How scores become one number per label; the same in calibration and prediction."""

    transform: Transform
    weights: FloatArray
    allow_empty: bool = True  # if not, the best labels of a row count as ``+inf``
    limits: RankLimits | None = None  # labels beyond a rank of their own fall to a lower tier

    @property
    def with_equal_weights(self) -> Rule:
        """The rule with weights that nobody chose."""
        return replace(self, weights=np.full(len(self.weights), 1 / len(self.weights)))

    def combined(self, scores: FloatArray) -> FloatArray:
        """Return the combined scores (n, K) of all labels of some rows (n, K, d)."""
        values = self._weighted(scores)
        if self.limits is not None:
            values = self.limits(values)
        return values if self.allow_empty else lift_best(values)

    def reaches(self, scores: FloatArray, threshold: Any) -> BoolArray:
        """Return where the combined scores (n, K) of some rows are at least a threshold.

        It is a number, or one per label. Labels that fall short by one of their scores alone are
        not normalised: with many classes nearly all of them.
        """
        floors = None
        if not self.looks_around and _are_many(scores):
            floors = self.floors(float(np.min(threshold)))
        maybe = _above(scores, floors)
        if maybe is None:
            values = self.combined(scores)
            cut = threshold if isinstance(threshold, float) else to_device(threshold, values)
            return values >= cut  # type: ignore[no-any-return]
        places = np.nonzero(maybe)
        if not isinstance(threshold, float):
            threshold = np.broadcast_to(threshold, maybe.shape)[places]
        maybe[places] = self.of_single_labels(scores[places]) >= threshold
        return maybe

    def floors(self, least: float) -> FloatArray | None:
        """Return the scores (d,) at or below which labels by themselves fall short of `least`.

        None where none are known.
        """
        if not hasattr(self.transform, "floors") or (self.weights < 0).any():
            return None
        floors: FloatArray = self.transform.floors(self.weights, least)
        return floors if (floors > -np.inf).any() else None

    @property
    def leaves_scores(self) -> bool:
        """Whether a label by itself counts for its only score, as that is."""
        as_they_are = getattr(self.transform, "leaves_scores", False)
        return as_they_are and self.weights.tolist() == [1.0]

    @property
    def counts_alone(self) -> bool:
        """Whether a label is in where its only score, as it is, reaches the threshold."""
        return self.leaves_scores and not self.looks_around

    @property
    def rises(self) -> bool:
        """Whether a label whose scores are all as large never counts for less, to the last bit.

        Labels beyond a rank of their own class do not, and a transform of the user's may not.
        """
        return (
            self.limits is None
            and getattr(self.transform, "rises", False)
            and not (self.weights < 0).any()
        )

    @property
    def looks_around(self) -> bool:
        """Whether the number of a label depends on the other labels of its row."""
        return not self.allow_empty or self.limits is not None

    def of_true_labels(self, scores: FloatArray, y: IntArray) -> FloatArray:
        """Return the combined scores (n,) of the true labels, in the order of the rows."""
        if not self.looks_around:
            return true_scores(scores, y).combined(self.of_single_labels)
        true_values = np.empty(len(y))
        for block, values in in_blocks(scores, self._of_labels, y):
            true_values[block] = values
        return true_values

    def rising(self, scores: FloatArray, y: IntArray) -> FloatArray:
        """Return the combined scores (n,) of the true labels, sorted upwards."""
        if self.looks_around:
            return rising(self.of_true_labels(scores, y))
        return true_scores(scores, y).rising(self.of_single_labels)

    def of_single_labels(self, scores: FloatArray, floors: FloatArray | None = None) -> FloatArray:
        """Return the combined scores (r,) of labels by themselves, from their scores (r, d).

        Those of labels that fall short by one of their scores alone may be ``-inf``.
        """
        maybe = _above(scores, floors)
        if maybe is None:
            return self._weighted(scores)
        values = np.full(maybe.shape, -np.inf)
        places = np.nonzero(maybe)
        values[places] = self._weighted(scores[places])
        return values

    def _weighted(self, scores: FloatArray) -> FloatArray:
        normalized = self.transform(scores)
        if is_tensor(normalized) or len(self.weights) > 1 or self.weights[0] != 1:
            return combine(normalized, self.weights)
        return as_float64(normalized[..., 0])  # type: ignore[no-any-return]

    def _of_labels(self, scores: FloatArray, y: IntArray) -> FloatArray:
        return of_labels(self.combined(scores), y)  # type: ignore[no-any-return]

    def true_ranks(self, scores: FloatArray, y: IntArray) -> tuple[IntArray, float]:
        """Return the ranks from the top of the true labels (n,), and the range of all scores."""
        ranks, ends = np.empty(len(y), dtype=np.int64), [np.inf, -np.inf]
        for block in row_blocks(*scores.shape[:2]):
            values = to_host(self.combined(scores[block]))
            ranks[block] = true_ranks(values, y[block])
            ends = [min(ends[0], values.min()), max(ends[1], values.max())]
        return ranks, float(ends[1] - ends[0])


def _are_many(scores: FloatArray) -> bool:
    """Whether it pays to look first which of the scores can be left out."""
    return not is_tensor(scores) and math.prod(scores.shape) >= FEW_SCORES


def _above(scores: FloatArray, floors: FloatArray | None) -> BoolArray | None:
    """Return which labels (..., d) lie above the floors (d,) of all scores; None if most do."""
    if floors is None or not _are_many(scores):
        return None
    known = np.flatnonzero(floors > -np.inf)
    above = scores[..., known[0]] > floors[known[0]]
    for j in known[1:]:
        above &= scores[..., j] > floors[j]
    return above if 2 * np.count_nonzero(above) < above.size else None


def cut_by(
    rule: Rule, plan: Plan, scores: Any, y: IntArray, data: RowData
) -> tuple[FloatArray, Cuts]:
    """Return the combined true-label scores of calibration rows, rising, and the cuts they make."""
    if not plan.by_row:  # whichever row a score is of
        values = rule.rising(scores, y)
        return values, plan.cut(values, y, data)
    values = rule.of_true_labels(scores, y)
    order = np.argsort(values, kind="stable")
    return values[order], plan.cut(values[order], y[order], data.take(order))


class Fitted(Protocol):
    """What is left of a fit: one rule with its thresholds, or the selection of the exact split."""

    @property
    def n(self) -> int:
        """Number of calibration rows."""

    @property
    def nested(self) -> bool:
        """Whether one rule gives the sets of all levels, which are then nested in alpha."""

    @property
    def additive(self) -> bool:
        """Whether a label is in where one weighted sum of its scores reaches a threshold."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What every row must bring along for its thresholds."""

    @property
    def ledger(self) -> Ledger:
        """What holds for the sets."""

    @property
    def normalizer(self) -> str:
        """Name of the normalisation in use."""

    @property
    def transform(self) -> Transform:
        """The fitted normalisation."""

    @property
    def rule(self) -> Rule:
        """The rule; under the exact split that of the weights for reading."""

    @property
    def all_weights(self) -> FloatArray:
        """The weights (M, d) that some label may be combined with."""

    @property
    def cuts(self) -> Cuts | None:
        """How thresholds are taken from the calibration scores; None where labels select them."""

    @property
    def plan(self) -> Plan:
        """How rows are calibrated: with one threshold, or by strata or weights."""

    @property
    def limits(self) -> RankLimits | None:
        """The largest rank of every class, where there is one."""

    @property
    def calibration(self) -> FloatArray:
        """Combined true-label scores (n,) of the calibration rows under `rule`, rising."""

    @property
    def reference(self) -> FloatArray | None:
        """The same under equal weights, where calibration rows chose the weights."""

    @property
    def search(self) -> SearchResult | None:
        """What the search found; None where the weights were given."""

    @property
    def held_out_size(self) -> float | None:
        """Mean set size on rows that chose neither weights nor size, where there are any."""

    def warn(self, alpha: float) -> None:
        """Warn where calibration rows are too few for a level."""

    def threshold(self, alpha: float) -> Any:
        """Return the threshold at level `alpha`, or the thresholds where there are several."""

    def at_level(self, alpha: float) -> Any:
        """Return what gives the sets at one level and no more: what travels to workers."""

    def at(self, alpha: float, data: RowData = NO_DATA) -> Any:
        """Return the thresholds of some rows, broadcasting against their labels (r, K).

        Under the exact split those of the first weights: ``-inf`` where they are under all.
        """

    def row_thresholds(self, alpha: float, data: RowData = NO_DATA) -> Any:
        """Return one threshold for all rows, or one per row (r, 1); None where labels differ."""

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        """Return the sets of some rows (r, K, d) as a boolean array (r, K)."""

    def pvalues(
        self, scores: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return the p-values of some rows, smoothed where `tau` is given, shape (r, K)."""


@dataclass(frozen=True)
class Calibrated:
    """A rule with calibrated thresholds: everything that prediction needs, and how it came about.

    Where calibration rows or test features chose the weights, fresh rows are judged by the
    `reference` scores, which nobody chose.
    """

    rule: Rule
    calibration: FloatArray
    ledger: Ledger
    normalizer: str
    search: SearchResult | None = None
    held_out_size: float | None = None
    cuts: Cuts = None  # type: ignore[assignment]  # filled in below
    reference: FloatArray | None = None

    def __post_init__(self) -> None:
        if self.cuts is None:
            object.__setattr__(self, "cuts", Single(self.calibration))

    nested: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    @property
    def n(self) -> int:
        return len(self.calibration)

    @property
    def plan(self) -> Plan:
        return self.cuts.plan

    @property
    def needs(self) -> tuple[str, ...]:
        return self.plan.needs

    @property
    def transform(self) -> Transform:
        return self.rule.transform

    @property
    def all_weights(self) -> FloatArray:
        return self.rule.weights[None, :]

    @property
    def limits(self) -> RankLimits | None:
        return self.rule.limits

    def warn(self, alpha: float) -> None:
        facts = self.ledger.facts
        if self.cuts.name != Marginal.name:
            self.cuts.warn(alpha, facts.rank)
        else:
            warn_if_trivial(self.n, alpha, facts.rank, all_in=facts.all_in)

    def at_level(self, alpha: float) -> AtLevel:
        return AtLevel(self.rule, self.at(alpha))

    def threshold(self, alpha: float) -> Any:
        return self.cuts.table(alpha, self.ledger.facts.rank)

    def at(self, alpha: float, data: RowData = NO_DATA) -> Any:
        """Return the thresholds of some rows, broadcasting against their labels (r, K)."""
        return self.cuts.at(alpha, self.ledger.facts.rank, data)

    def row_thresholds(self, alpha: float, data: RowData = NO_DATA) -> Any:
        thresholds = self.at(alpha, data)
        one = isinstance(thresholds, float) or thresholds.shape[-1:] == (1,)
        return thresholds if one else None

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        return self.rule.reaches(scores, self.at(alpha, data))

    def depth(
        self, scores: FloatArray, alphas: Sequence[float], data: RowData = NO_DATA
    ) -> IntArray:
        """Return at how many of the rising levels each label of some rows is in, (r, K).

        Thresholds rise with alpha, so a label is in at the levels whose threshold it reaches.
        """
        values = to_host(self.rule.combined(scores))
        thresholds = [self.at(alpha, data) for alpha in alphas]
        if isinstance(thresholds[0], float):
            return np.searchsorted(np.array(thresholds), values, side="right")
        return np.sum([values >= threshold for threshold in thresholds], axis=0)

    def pvalues(
        self, scores: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        values = self.rule.combined(scores)
        # One threshold is looked up where the scores are, strata on the host.
        values = to_host(values) if self.plan.by_row else values
        return self.cuts.pvalues(values, tau, data)


@dataclass(frozen=True, eq=False)
class AtLevel:
    """A rule with its thresholds at one level."""

    rule: Rule
    thresholds: Any

    def row_thresholds(self, alpha: float, data: RowData = NO_DATA) -> Any:
        return self.thresholds if isinstance(self.thresholds, float) else None

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        return self.rule.reaches(scores, self.thresholds)
