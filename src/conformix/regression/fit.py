"""Fit: from labelled rows to intervals: Algorithm 2 of the paper, with widths for sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.data.checks import place
from conformix.data.outputs import check_groups
from conformix.data.row_data import RowData, check_rows, group_names
from conformix.errors import InvalidInput, shown
from conformix.fit.fit import calibrated, fixed_ledger, lay_down, rank_rule, stated
from conformix.fit.rows import check_test
from conformix.fit.rule import Calibrated
from conformix.fit.seen import rows_of_fit, spread
from conformix.fit.settings import is_symmetric
from conformix.guarantees import Ledger, ResponseFacts
from conformix.guarantees.order import RankRule
from conformix.kernels.arrays import FloatArray, IntArray, as_generator, is_tensor, to_host
from conformix.regression.bands import check_weights, widths
from conformix.regression.bins import Bins
from conformix.regression.exact import fit_hull
from conformix.regression.planes import Planes
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import (
    RegressedOutputs,
    Shape,
    check_regressed,
    check_responses,
    matching,
)
from conformix.regression.rule import LineRule, Range, Responses, span_of
from conformix.regression.scale import LineScale, learnt_scale
from conformix.regression.scores import regression_columns
from conformix.regression.search import (
    WidthObjective,
    WidthResult,
    narrowest,
    search_objective,
)
from conformix.regression.settings import RegressionSettings
from conformix.scores.names import Column
from conformix.scores.tensor import draw_key
from conformix.search.objective import tuning_rank
from conformix.search.weights import counted, n_candidates
from conformix.splits import Roles

# Rows whose widths are measured once the fit is made.
MEASURED = 10_000


@dataclass(frozen=True, eq=False)
class ResponseRows:
    """Labelled rows as a user gives them, checked; test rows have no responses."""

    rows: Responses
    data: RowData
    groups: IntArray | None = None
    test: RegressedOutputs | None = None


def response_rows(
    outputs: Any,
    y: Any,
    settings: RegressionSettings,
    *,
    test: Any = None,
    groups: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
) -> ResponseRows:
    """Return labelled rows, checked."""
    checked = check_regressed(outputs)
    n, scheme = checked.n, settings.calibration
    responses = check_responses(y, n, settings.y_range)
    data = check_rows(strata, sample_weight, n, scheme.needs, scheme.name)
    others = None
    if test is not None and settings.weights is None:
        shapes = {name: Shape.of(model) for name, model in checked.by_name.items()}
        others = matching(check_regressed(test, "test"), shapes, "test")
        here, there = (next(iter(one.by_name.values())).some for one in (checked, others))
        if is_tensor(here) != is_tensor(there) or (is_tensor(here) and here.device != there.device):
            raise InvalidInput(
                "test must be where outputs are (move one with .to(device)); got outputs "
                f"{place(checked.home)} and test {place(others.home)}."
            )
    return ResponseRows(Responses(checked, responses, 0), data, check_groups(groups, n), others)


def fit(given: ResponseRows, settings: RegressionSettings) -> LinePredictor:
    """Return the predictor fitted on labelled rows."""
    rng = as_generator(settings.random_state)
    key = draw_key(rng)
    outputs = given.rows.outputs
    columns = regression_columns(outputs.by_name, settings.scores)
    d = len(columns)
    given = replace(given, rows=replace(given.rows, d=d))
    split = settings.split_for(d)
    weights = settings.settled(d)
    bins: Bins | None = None
    fitted: Any
    if split is None:  # no row tunes
        assert weights is not None
        fitted = with_settled_weights(weights, given, columns, settings, rng)
    else:
        n_test = None if given.test is None else given.test.n
        check_test(split, n_test)
        n_sized = n_test if split.needs_test and n_test is not None else 0
        roles = split.roles(outputs.n, n_sized, rng, given.groups)
        how = fit_hull if is_symmetric(settings.split) else with_searched_weights
        fitted, bins = how(given, columns, settings, roles, rng)
    shapes = {name: Shape.of(model) for name, model in outputs.by_name.items()}
    return LinePredictor(
        columns, shapes, key, settings.alpha, fitted, y_range=settings.y_range, bins=bins,
        seen=rows_of_fit(outputs, key),
    )  # fmt: skip


def with_searched_weights(
    given: ResponseRows,
    columns: tuple[Column, ...],
    settings: RegressionSettings,
    roles: Roles,
    rng: np.random.Generator,
) -> tuple[Calibrated, Bins | None]:
    """Return weights and threshold: Algorithm 2 of the paper."""
    rows, data, alpha, d = given.rows, given.data, settings.alpha, len(columns)
    split = settings.split
    separate, search = roles.separate, settings.search
    if settings.delta is not None and not separate:
        search = counted(search)  # the union bound of a PAC rank needs weights that are counted
    n_test = len(roles.size) - int((roles.size < len(rows)).sum())
    test: Any = None if given.test is None or not n_test else np.empty(n_test)
    rank = rank_rule(split, search, d, settings.delta, separate=separate, test=test)
    tune = rows.take(roles.tune)
    scale = learnt_scale(tune.outputs, columns) if settings.learns_scale else None
    scale = settings.given_scale(columns) if scale is None else scale
    planes = scale(tune.outputs)
    size = None if np.array_equal(roles.size, roles.tune) else size_planes(given, scale, roles)
    searched = Searched(planes, tune.y, size, settings, rank if not separate else RankRule())
    tuning_rank(len(roles.tune), alpha, searched.rank)  # which warns where they are too few
    result = searched.by(search, rng)
    rule = LineRule(scale, result.weights, settings.allow_empty)
    n_weights = n_candidates(search, d) if _says_how_many(search) else 0
    facts = ResponseFacts(
        split.name, float(alpha), float(alpha), len(roles.tune), len(roles.calibrate), n_test, 1, d,
        n_weights if separate or not settings.learns_scale else 0, separate, False, rank,
        grouped=given.groups is not None, span=span_of(settings.y_range),
    )  # fmt: skip
    ledger = Ledger(stated(split.guarantee, facts).of_responses(settings.y_range), facts)
    bins = None
    names = group_names(data)
    if getattr(settings.calibration, "by_difficulty", False):
        scheme: Any = settings.calibration
        threshold = searched.threshold(result.weights)
        bins = scheme.bins(rule, planes, threshold)
        data, names = bins.data(rows.outputs), bins.names
    seen = roles.tune if separate else roles.calibrate
    part = rows.take(seen)
    plan = lay_down(
        settings.calibration, rule, lambda: part, part.labels, data.take(seen), alpha=alpha,  # type: ignore[arg-type,return-value]
        rng=rng, names=names, n_cal=len(roles.calibrate), separate=separate,
    )  # fmt: skip
    cal = rows.take(roles.calibrate)
    fitted = calibrated(
        cal, cal.labels, rule, alpha=alpha, ledger=ledger,  # type: ignore[arg-type]
        normalizer="width" if settings.learns_scale else "none", plan=plan,
        data=data.take(roles.calibrate),
    )  # fmt: skip
    unseen = roles.unseen
    width = mean_width(rows.take(unseen), fitted, settings, data.take(unseen))
    return replace(fitted, search=result, held_out_size=width), bins  # type: ignore[arg-type]


def _says_how_many(search: Any) -> bool:
    """Whether the weights that a search finds are among candidates, and no mean of such."""
    return hasattr(search, "candidate_weights")


def with_settled_weights(
    weights: FloatArray,
    given: ResponseRows,
    columns: tuple[Column, ...],
    settings: RegressionSettings,
    rng: np.random.Generator,
) -> Calibrated:
    """Return the calibration of settled weights on all rows: nothing is left to tune."""
    rows, data, alpha = given.rows, given.data, settings.alpha
    rule = LineRule(settings.given_scale(columns), weights, settings.allow_empty)
    ledger = settled_ledger(
        len(rows), len(columns), settings.y_range, alpha=alpha, delta=settings.delta,
        grouped=given.groups is not None,
    )  # fmt: skip
    plan = lay_down(
        settings.calibration, rule, lambda: rows, rows.labels, data, alpha=alpha, rng=rng,  # type: ignore[arg-type,return-value]
        names=group_names(data), n_cal=len(rows), separate=False,
    )  # fmt: skip
    fitted = calibrated(
        rows, rows.labels, rule, alpha=alpha, ledger=ledger, plan=plan, data=data,  # type: ignore[arg-type]
    )  # fmt: skip
    if settings.weights is not None:
        return fitted
    return replace(fitted, held_out_size=mean_width(rows, fitted, settings, data))


def settled_ledger(n: int, d: int, y_range: Range | None, **facts: Any) -> Ledger:
    """Return the ledger of weights that the calibration rows had no part in."""
    ledger = fixed_ledger(n, 1, d, **facts)
    numbers = ResponseFacts(**vars(ledger.facts), span=span_of(y_range))
    return Ledger(ledger.guarantee.of_responses(y_range), numbers)


def size_planes(given: ResponseRows, scale: LineScale, roles: Roles) -> Planes:
    """Return the planes of the rows on which widths are measured."""
    n = len(given.rows)
    labelled, test = roles.size[roles.size < n], roles.size[roles.size >= n] - n
    parts = []
    if len(labelled):
        parts.append(given.rows.outputs.rows(labelled))
    if len(test) and given.test is not None:
        parts.append(given.test.rows(test))
    both = parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])
    return scale(both)


@dataclass(frozen=True, eq=False)
class Searched:
    """The search for weights on tuning rows, whichever search is asked for."""

    planes: Planes
    y: FloatArray
    size: Planes | None  # rows on which widths are measured, where others
    settings: RegressionSettings
    rank: RankRule

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels whose widths are added up."""
        return self.settings.levels(len(self.y))

    @property
    def objective(self) -> WidthObjective:
        """The mean width as a function of the weights."""
        settings = self.settings
        return WidthObjective(
            self.planes, self.y, self.levels, settings.y_range, settings.threads, size=self.size,
            rank=self.rank,
        )  # fmt: skip

    def threshold(self, weights: FloatArray) -> float:
        """Return the threshold of the tuning rows at alpha, as conformity."""
        values = -to_host(self.planes.combined(weights, self.y))
        k = min(RankRule()(len(self.y), self.settings.alpha), len(self.y))
        return float(np.sort(values)[len(values) - k])

    def by(self, search: Any, rng: np.random.Generator) -> WidthResult:
        """Return what a search finds."""
        objective = self.objective
        if hasattr(search, "counted"):  # left to the library
            return search_objective(objective, rng)
        if hasattr(search, "steps"):
            return narrowest(objective, search.steps(objective.d))
        if hasattr(search, "candidate_weights"):
            return _best_of(search.candidate_weights(objective.d), objective)
        return _checked(search(objective, rng), objective.d)


def _best_of(weights: FloatArray, objective: WidthObjective) -> WidthResult:
    """Return the candidate of the smallest mean width; of equals the first."""
    found = objective(check_weights(weights, objective.d))
    best = int(np.argmin(found))
    return WidthResult(weights[best], float(found[best]), len(weights), "candidates")


def _checked(result: Any, d: int) -> WidthResult:
    """Return what somebody else's search found, if it is weights of d scores."""
    weights = getattr(result, "weights", None)
    if weights is None or np.shape(weights) != (d,):
        raise InvalidInput(
            f"a search must return a result with weights of shape ({d},); got {shown(result)}."
        )
    width = float(getattr(result, "width", np.nan))
    counts = int(getattr(result, "n_evaluated", 1)), str(getattr(result, "strategy", "own search"))
    return WidthResult(check_weights(weights, d), width, *counts)


def mean_width(
    rows: Responses, fitted: Calibrated, settings: RegressionSettings, data: RowData
) -> float | None:
    """Return the mean width of the intervals of rows, None where there are none.

    Of many rows some are measured, evenly spread.
    """
    n = len(rows)
    if not n:
        return None
    rule: Any = fitted.rule
    planes = rows.on(rule.transform)
    if n > MEASURED:
        some = spread(n, MEASURED)
        planes, data = planes.rows(some), data.take(some)
    ends = rule.intervals(planes, fitted.at(settings.alpha, data), settings.y_range)
    return float(widths(*map(to_host, ends)).mean())


def recalibrated(predictor: LinePredictor, outputs: Any, y: Any, **rows: Any) -> LinePredictor:
    """Return the predictor with the same weights and a fresh threshold, from fresh rows."""
    old: Any = predictor.fitted
    if not old.nested:
        raise InvalidInput(
            f'split "{old.ledger.facts.split}" has no single weights to keep; call fit on the '
            "fresh rows instead."
        )
    checked = predictor.check(outputs)
    responses = check_responses(y, checked.n, predictor.y_range)
    data = predictor.row_data(checked, **rows)
    facts = old.ledger.facts
    ledger = settled_ledger(
        checked.n, len(predictor.columns), predictor.y_range, alpha=predictor.alpha,
        delta=facts.rank.delta, n_test=facts.n_test, grouped=facts.grouped,
    )  # fmt: skip
    fresh = Responses(checked, responses, len(predictor.columns))
    fitted = calibrated(
        fresh, fresh.labels, old.rule, alpha=predictor.alpha, ledger=ledger,  # type: ignore[arg-type]
        normalizer=old.normalizer, plan=old.plan.afresh(), data=data,
    )  # fmt: skip
    also = rows_of_fit(checked, predictor.key)
    seen = None if predictor.seen is None else predictor.seen.plus(also)
    return replace(predictor, fitted=fitted, seen=seen)
