"""Intervals around regressors of folds (CV+): all rows train, and all calibrate.

With ``s_f(x, y)`` the averaged score of fold f's models, and f(i) the fold of row i, y is ranked
among all n rows: ``1 + #{i : s_f(i)(x, y) <= s_f(i)(x_i, y_i)}`` (lower fits better). It is in when
that exceeds ``alpha (n + 1)``: where it lies in enough of the n intervals
``{y : s_f(i)(x, y) <= s_f(i)(x_i, y_i)}``. These are nested within a fold and not across folds, so
that the y which are in may leave gaps; the interval is their hull. What is proven is that of
`conformix.fit.cross`, whose argument has no need of classes; a hull only covers more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conformix.calibration.cuts import Plan, SinglePlan
from conformix.conformal import last_rank_out, simple_fraction
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput
from conformix.fit.cross import CrossRows, Folds
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.regression.bands import bands, lowest
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import RegressedOutputs, check_responses
from conformix.regression.rule import LineRule, Range, clipped

# Ends of intervals that are held at once.
AT_ONCE = 2**20


class LineFold(NamedTuple):
    """The average of one fold, and how well the responses of its rows fit, which it has not seen.

    Values are larger where a response fits better, and rise.
    """

    predictor: LinePredictor
    values: FloatArray  # (n_f,)
    data: RowData = NO_DATA  # what these rows bring along

    @property
    def rule(self) -> LineRule:
        """How scores become one number."""
        return self.predictor.fitted.rule  # type: ignore[no-any-return]

    @property
    def scores(self) -> FloatArray:
        """The scores of the rows, (n_f,): lower fits better."""
        return -self.values

    @property
    def y(self) -> IntArray:
        """The label of every row: the only one that it has."""
        return np.zeros(len(self.values), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CrossLine(Folds):
    """The averages of all folds: all that prediction needs.

    Parameters
    ----------
    folds : tuple of LineFold
        One per fold.
    alpha : float
        The level.
    y_range : pair of float or None
        What every response is assumed to lie within.
    allow_empty : bool
        Whether an interval may be empty; else it holds at least a point where folds fit best.
    plan : Plan
        Among which rows a response is ranked: all, or those of its group.
    """

    folds: tuple[LineFold, ...]
    alpha: float
    y_range: Range | None = None
    allow_empty: bool = True
    plan: Plan = field(default_factory=SinglePlan)

    no_sum_of_parts: ClassVar[str] = (
        "a response of folds is in by its rank among the rows of every fold, whose averages have "
        "weights of their own, so that no scores of one average set its ends; explain(...) is for "
        "ConformalRegressor and RegressionAverage."
    )

    @property
    def n(self) -> int:
        """Number of calibration rows, over all folds."""
        return sum(len(fold.values) for fold in self.folds)

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for these folds."""
        return super().guarantee.of_responses(self.y_range)

    def check(self, outputs: Sequence[Any]) -> list[RegressedOutputs]:
        """Return what the members of every fold predict of the same rows, checked."""
        return [
            fold.predictor.check(one) for fold, one in zip(self.folds, outputs, strict=True)
        ]  # fmt: skip

    def cells(self, m: int, data: RowData) -> Iterator[tuple[IntArray, list[FloatArray]]]:
        """Yield which of m rows are ranked among which scores of every fold.

        Rows that are ranked among none are left out: whatever their response, it is in.
        """
        if not self.plan.by_row:
            yield np.arange(m), [fold.scores for fold in self.folds]
            return
        for rows, _, stratum in self.cuts[0].blocks(m, data):
            yield rows, [-cuts.scores_of(stratum) for cuts in self.cuts]

    def intervals(
        self, outputs: Sequence[RegressedOutputs], alpha: float, data: RowData = NO_DATA
    ) -> Intervals:
        """Return the intervals of rows at a level."""
        m = outputs[0].n
        lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
        for rows, scores in self.cells(m, data):
            n = sum(len(some) for some in scores)
            enough = last_rank_out(n, alpha)
            step = max(1, AT_ONCE // max(n, 1))
            for start in range(0, len(rows) if enough else 0, step):
                some = rows[start : start + step]
                lower[some], upper[some] = self._ends([one.rows(some) for one in outputs], scores,
                                                      enough)  # fmt: skip
        return Intervals(*clipped(lower, upper, self.y_range, allow_empty=self.allow_empty))

    def nested(
        self, outputs: Sequence[RegressedOutputs], alphas: Sequence[float], data: RowData = NO_DATA
    ) -> NestedIntervals:
        """Return the intervals of rows at several levels."""
        levels = sorted({float(simple_fraction(alpha)) for alpha in alphas})
        if not levels:
            raise InvalidInput("alpha must hold at least one level; got none.")
        made = [self.intervals(outputs, level, data) for level in levels]
        lower, upper = np.stack([one.lower for one in made]), np.stack([one.upper for one in made])
        if not self.allow_empty:
            # A point where an interval would be empty is taken inside that of the level before.
            for place in range(1, len(levels)):
                inside = lower[place - 1], upper[place - 1]
                lower[place] = np.clip(lower[place], *inside)
                upper[place] = np.clip(upper[place], *inside)
        return NestedIntervals(lower, upper, levels)

    def _ends(
        self, outputs: list[RegressedOutputs], scores: list[FloatArray], enough: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the hulls of what enough intervals of the rows of folds hold."""
        planes = [
            fold.rule.transform(one) for fold, one in zip(self.folds, outputs, strict=True)
        ]  # fmt: skip
        rules = [fold.rule.weights for fold in self.folds]
        ends = [
            bands(part, weights, some[:, None])
            for part, weights, some in zip(planes, rules, scores, strict=True)
            if len(some)
        ]
        lows, highs = (np.concatenate(side) for side in zip(*ends, strict=True))
        lower, upper = held_by(lows, highs, enough)
        empty = lower > upper
        if not self.allow_empty and empty.any():  # a point where folds fit best, in their middle
            best = [lowest(part, weights)[0] for part, weights in zip(planes, rules, strict=True)]
            lower[empty] = upper[empty] = np.median(best, axis=0)[empty]
        return lower, upper


def held_by(lower: FloatArray, upper: FloatArray, enough: int) -> tuple[FloatArray, FloatArray]:
    """Return the hull (m,) of what at least `enough` of n closed intervals hold, for m rows.

    Parameters
    ----------
    lower, upper : arrays of shape (n, m)
        The ends; an empty interval is ``(inf, -inf)``.
    enough : int
        How many, at least 1.

    Examples
    --------
    >>> held_by(np.array([[0.0], [1.0], [5.0]]), np.array([[2.0], [6.0], [7.0]]), 2)
    (array([1.]), array([6.]))
    """
    n, m = lower.shape
    full = (lower <= upper).sum(axis=0)
    lows, highs = np.sort(lower, axis=0), np.sort(upper, axis=0)  # empty ones at the ends
    found = np.full((2, m), [[np.inf], [-np.inf]])
    count = np.arange(1, n + 1)
    for row in range(m):
        k = int(full[row])
        starts, stops = lows[:k, row], highs[n - k :, row]
        # At the j-th start j intervals have begun, less those that ended before it; of starts that
        # tie the last counts them all, and has their place.
        begun = count[:k] - np.searchsorted(stops, starts, side="left")
        left = np.flatnonzero(begun >= enough)
        if len(left):
            ended = count[:k][::-1] - (k - np.searchsorted(starts, stops, side="right"))
            right = np.flatnonzero(ended >= enough)
            found[:, row] = starts[left[0]], stops[right[-1]]
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class CrossResponses(CrossRows):
    """Labelled responses that had no part in a fit by folds, to be judged by it."""

    @classmethod
    def of(cls, predictor: Any, outputs: Sequence[Any], y: Any, **rows: Any) -> CrossResponses:
        """Return the rows, checked; `rows` may hold ``strata``."""
        checked = predictor.check(outputs)
        responses: Any = check_responses(y, checked[0].n)
        predictor.row_data(checked[0].n, **rows)
        return cls(predictor, checked, responses, rows)

    def sets(self, alpha: float) -> Any:
        """Return the intervals of these rows at a level."""
        simple_fraction(alpha)
        predictor: Any = self.predictor
        return predictor.intervals(
            self.outputs, alpha, predictor.row_data(len(self.y), **self.data)
        )

    def bare(self, sets: Any) -> Any:
        """Return intervals as measures take them."""
        return sets

    def hits(self, sets: Any) -> BoolArray:
        """Return whether the responses lie in their intervals, (m,)."""
        return sets.contains(self.y)  # type: ignore[no-any-return]
