"""The exact split of responses: all rows calibrate, and the row to predict counts among them.

Candidate weights are fixed beforehand, or chosen on rows set aside. The interval of a row is the
hull of those that some y may select (`conformix.regression.hull`). Unless rows are set aside for
it, the scale is that of the labelled rows and the new one, all alike
(`conformix.regression.scale`). With a threshold per group, or importance weights, the selection
stays that of one threshold for all, which treats all rows alike, and the interval under every
weight that may be selected is cut as the calibration says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import Cuts, Marginal, Plan, Seen, SinglePlan, laid_down_alike
from conformix.conformal import conformal_rank, warn_if_trivial
from conformix.data.row_data import NO_DATA, RowData, group_names
from conformix.errors import InvalidInput
from conformix.fit.exact.split import fixed_candidates
from conformix.guarantees import EXACT_FULL, Ledger, ResponseFacts
from conformix.kernels.arrays import FloatArray, IntArray, to_device
from conformix.kernels.blocks import row_blocks
from conformix.kernels.cached import cached_property
from conformix.kernels.simplex import grid_size
from conformix.regression.bins import Bins
from conformix.regression.hull import Hull, no_ends, widen
from conformix.regression.planes import Planes
from conformix.regression.regressed import RegressedOutputs
from conformix.regression.rule import LineRule, Range, Responses, clipped, span_of
from conformix.regression.scale import LineScale, SymmetricScale, learnt_scale
from conformix.regression.search import WidthObjective, WidthResult
from conformix.regression.settings import RegressionSettings
from conformix.scores.names import Column
from conformix.search.grid import GridSearch
from conformix.splits import Roles

# Candidate weights where the search is left to the library, and the finest grid of these: every
# one of them is weighed against every row that is predicted.
FEW, FINEST = 300, 20
# Scales and levels of which hulls are kept for the next question.
MOST_HULLS = 64


@dataclass(frozen=True, eq=False)
class HullFitted:
    """What the exact split leaves: the calibration rows and the candidate weights."""

    rows: Responses
    columns: tuple[Column, ...]
    weights: FloatArray  # (M, d)
    alpha: float  # of the fit
    fixed_scale: LineScale | None = None  # of rows set aside, or given; None counts every new row
    y_range: Range | None = None
    allow_empty: bool = True
    grouped: bool = False
    plan: Plan = field(default_factory=SinglePlan)
    data: RowData = NO_DATA  # what the calibration rows bring along
    threads: int | None = None
    _hulls: dict[Any, Any] = field(default_factory=dict, repr=False)

    held_out_size: ClassVar[None] = None
    reference: ClassVar[None] = None
    cuts: ClassVar[None] = None
    limits: ClassVar[None] = None
    nested: ClassVar[bool] = False
    additive: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.rows)

    @property
    def needs(self) -> tuple[str, ...]:
        """What every row must bring along."""
        return self.plan.needs

    @property
    def normalizer(self) -> str:
        """Name of the scale in use."""
        return "width" if any(self.scale_of_rows.floors) else "none"

    @property
    def all_weights(self) -> FloatArray:
        """The weights (M, d) that some response may select."""
        return self.weights

    @cached_property
    def ledger(self) -> Ledger:
        """What holds for the intervals."""
        alpha, n, (m, d) = float(self.alpha), self.n, self.weights.shape
        facts = ResponseFacts(
            "exact", alpha, alpha, n, n, 0, 1, d, m, False, False, grouped=self.grouped,
            span=span_of(self.y_range),
        )  # fmt: skip
        cuts = self.cuts_under(self.weights[0])
        ledger = Ledger(EXACT_FULL.of_responses(self.y_range), facts)
        return ledger.under(cuts.name, cuts.promise)

    @cached_property
    def symmetric(self) -> SymmetricScale:
        """The scale of these rows and one more."""
        return SymmetricScale(self.rows.outputs, self.columns)

    @cached_property
    def scale_of_rows(self) -> LineScale:
        """The scale of these rows alone, for reading."""
        if self.fixed_scale is not None:
            return self.fixed_scale
        return learnt_scale(self.rows.outputs, self.columns)

    @cached_property
    def search(self) -> WidthResult:
        """The winner on the n rows alone (EFCP), for reading only."""
        planes = self.scale_of_rows(self.rows.outputs)
        objective = WidthObjective(planes, self.rows.y, [float(self.alpha)], self.y_range)
        found = objective(self.weights)
        best = int(np.argmin(found))
        strategy = "full-conformal selection"
        return WidthResult(self.weights[best], float(found[best]), len(found), strategy)

    @property
    def rule(self) -> LineRule:
        """The rule of the EFCP winner, for reading only."""
        return LineRule(self.scale_of_rows, self.search.weights, self.allow_empty)

    @property
    def calibration(self) -> FloatArray:
        """How well the responses fit under the EFCP winner, rising; for reading only."""
        return self.rule.rising(self.rows, self.rows.labels)

    def warn(self, alpha: float) -> None:
        """Warn where calibration rows are too few for a level."""
        if not self.plan.by_row:
            facts = self.ledger.facts
            warn_if_trivial(self.n, alpha, conformal_rank, all_in=facts.all_in)
            return
        self.cuts_under(self.weights[0]).warn(alpha, conformal_rank)

    def threshold(self, alpha: float) -> float:
        """Refuse: every response selects its own weights."""
        raise InvalidInput(
            'split "exact" has no single threshold: every response selects its own weights; use '
            "predict_interval."
        )

    def at(self, alpha: float, data: RowData = NO_DATA) -> Any:
        """Return the thresholds of rows under the first weights: ``-inf`` under all or none."""
        return self.cuts_under(self.weights[0]).at(alpha, conformal_rank, data)

    def cuts_under(self, weights: FloatArray, scale: LineScale | None = None) -> Cuts:
        """Return how thresholds are taken from the calibration rows under some weights (d,)."""
        scale = self.scale_of_rows if scale is None else scale
        rule = LineRule(scale, weights)
        values = rule.of_planes(self.planes_on(scale), self.rows.y)
        order = np.argsort(values, kind="stable")
        return self.plan.cut(values[order], self.rows.labels, self.data.take(order))

    def planes_on(self, scale: LineScale) -> Planes:
        """Return the planes of the calibration rows on a scale, kept for the next question."""
        found = self._hulls.get(scale)
        if found is None:
            found = self._hulls[scale] = scale(self.rows.outputs)
        return found  # type: ignore[no-any-return]

    def hull(self, scale: LineScale, alpha: float) -> Hull:
        """Return the hull of the calibration rows at a level, on a scale."""
        k = conformal_rank(self.n, alpha)
        key = scale, k
        if len(self._hulls) > MOST_HULLS:
            self._hulls.clear()
        found = self._hulls.get(key)
        if found is None:
            planes = self.planes_on(scale)
            found = self._hulls[key] = Hull.of(self.weights, planes, self.rows.y, k, self.y_range)
        return found  # type: ignore[no-any-return]

    def scales(self, outputs: RegressedOutputs) -> Iterator[tuple[LineScale, IntArray]]:
        """Yield the scales of new rows, each with the rows that have it."""
        if self.fixed_scale is not None:
            yield self.fixed_scale, np.arange(outputs.n)
            return
        means, which = np.unique(self.symmetric.of_rows(outputs), axis=0, return_inverse=True)
        for place, each in enumerate(means):
            yield self.symmetric.scale(each), np.flatnonzero(which.ravel() == place)

    def intervals(
        self, outputs: RegressedOutputs, alpha: float, data: RowData = NO_DATA
    ) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the intervals of new rows."""
        lower: Any = None
        upper: Any = None
        for scale, rows in self.scales(outputs):
            part = scale(outputs.rows(rows))
            hull = self.hull(scale, alpha)
            plain = not self.plan.by_row and self.allow_empty
            ends = (
                hull(part) if plain else self._hulls_of(hull, scale, part, alpha, data.take(rows))
            )
            if lower is None:
                lower, upper = no_ends(part, outputs.n)
            where = to_device(rows, lower)
            lower[where], upper[where] = ends
        return clipped(lower, upper, self.y_range, allow_empty=self.allow_empty)

    def _hulls_of(
        self, hull: Hull, scale: LineScale, planes: Planes, alpha: float, data: RowData
    ) -> tuple[FloatArray, FloatArray]:
        """Return the hulls of rows whose intervals are cut as the calibration says."""
        lower, upper = no_ends(planes)
        blocks = list(row_blocks(len(planes), hull.totals.size))
        selected = np.concatenate([hull.survivors(planes.rows(block)) for block in blocks])
        for i in np.flatnonzero(selected.any(axis=0)):
            rows = np.flatnonzero(selected[:, i])
            rule = LineRule(scale, self.weights[i], self.allow_empty)
            cuts = self.cuts_under(self.weights[i], scale)
            threshold = cuts.at(alpha, conformal_rank, data.take(rows))
            low, high = rule.intervals(planes.rows(rows), threshold)
            widen(lower, upper, rows, low, high)
        return lower, upper


def candidates(search: Any, d: int) -> FloatArray:
    """Return candidate weights (M, d) that are fixed beforehand: those of a search, or few of all.

    Where the search is left to the library, the finest grid of no more than `FEW` weights.
    """
    if not hasattr(search, "counted"):
        return fixed_candidates(search, d)
    finer = (steps for steps in range(1, FINEST) if grid_size(d, steps + 1) > FEW)
    return GridSearch(next(finer, FINEST)).candidate_weights(d)


def fit_hull(
    given: Any,
    columns: tuple[Column, ...],
    settings: RegressionSettings,
    roles: Roles,
    rng: np.random.Generator,
) -> tuple[HullFitted, Bins | None]:
    """Return the fitted exact split, and the bins of difficulty where there are any.

    Rows that tune are set aside, for a shortlist, the scale and bins; all others take part in the
    selection.
    """
    rows, data, alpha, d = given.rows, given.data, settings.alpha, len(columns)
    aside, rest = roles.tune, roles.calibrate
    only = settings.only_weights(d)
    weights = candidates(settings.search, d) if only is None else only[None, :]
    scale = None if settings.learns_scale and d > 1 else settings.given_scale(columns)
    bins, apart, names = None, None, group_names(data)
    if len(aside):
        tuning = rows.take(aside)
        scale = learnt_scale(tuning.outputs, columns) if settings.learns_scale else scale
        assert scale is not None
        planes = scale(tuning.outputs)
        objective = WidthObjective(planes, tuning.y, [float(alpha)], settings.y_range)
        found = objective(weights)
        shortlist = settings.split.shortlist  # type: ignore[attr-defined]
        # Stable, so that equal widths keep the order of the candidates.
        chosen = np.argsort(found, kind="stable")[:shortlist]
        best = LineRule(scale, weights[chosen[0]], settings.allow_empty)
        weights = weights[np.sort(chosen)]
        if getattr(settings.calibration, "by_difficulty", False):
            scheme: Any = settings.calibration
            values = np.sort(best.of_planes(planes, tuning.y))
            k = min(conformal_rank(len(aside), alpha), len(aside))
            bins = scheme.bins(best, planes, values[len(values) - k])
            data, names = bins.data(rows.outputs), bins.names
        if settings.calibration_apart:
            values = best.of_planes(planes, tuning.y)
            apart = Seen(
                values, tuning.labels, data.take(aside), names, 1, len(rest), alpha,
                separate=True, rng=rng,
            )  # fmt: skip
    fitted = HullFitted(
        rows.take(rest), columns, weights, alpha, scale, settings.y_range, settings.allow_empty,
        given.groups is not None, data=data.take(rest), threads=settings.threads,
    )  # fmt: skip
    if settings.calibration.name != Marginal.name:
        plan = (
            settings.calibration.learn(apart)
            if apart is not None
            else laid_down_alike(
                settings.calibration, fitted.rows.labels, fitted.data, names, n_classes=1,
                alpha=alpha, rng=rng,
            )
        )  # fmt: skip
        fitted = replace(fitted, plan=plan, _hulls={})
    fitted.warn(alpha)
    return fitted, bins
