"""Fit: from labelled rows to a predictor, as Algorithm 2 of the paper reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.calibration.cuts import Calibration, Marginal, Plan, Seen, SinglePlan
from conformix.calibration.objective import class_objective
from conformix.conformal import warn_if_trivial
from conformix.data.checks import is_chunked
from conformix.data.chunks import chunked, here
from conformix.data.outputs import Outputs, chosen
from conformix.data.row_data import NO_DATA, RowData, group_names
from conformix.errors import InvalidInput
from conformix.fit.blend import learn_blend
from conformix.fit.chunks import ChunkRows
from conformix.fit.each_row import EachRow
from conformix.fit.exact.split import fit_exact
from conformix.fit.far import size_objective
from conformix.fit.learning import (
    learn,
    learn_columns,
    refuse_each_row,
    refuse_teachers,
    taught_by,
    with_left_out,
)
from conformix.fit.predictor import Predictor
from conformix.fit.rows import Rows, check_test, rows_held
from conformix.fit.rule import Calibrated, Fitted, Rule, cut_by
from conformix.fit.scored import (
    Scored,
    Scoring,
    can_be_read,
    no_roles,
    rows_in_place,
    rows_of,
    scores_of_tuning_rows,
    summed,
    with_known_rows,
)
from conformix.fit.seen import remembered
from conformix.fit.settings import Settings, is_symmetric
from conformix.fit.tuning import TuningRows
from conformix.fit.upper_ends import n_members, upper_ends
from conformix.fit.vote import true_label_scores, voted
from conformix.guarantees import (
    EXACT,
    UNBOUNDED,
    Facts,
    Guarantee,
    Ledger,
    RankRule,
    pac_guarantee,
)
from conformix.kernels.arrays import FloatArray, IntArray, as_generator, n_true
from conformix.kernels.blocks import row_blocks, wake_helpers
from conformix.kernels.combine import RankLimits
from conformix.scores.ensemble import scored_models
from conformix.scores.names import Column, score_columns
from conformix.scores.scale import Normalizer, Scaled
from conformix.scores.tensor import draw_key
from conformix.scores.upper_rows import SortedOutputs
from conformix.search.goals import bind, is_mean_size
from conformix.search.nonempty import BesideBestObjective, NonEmptyObjective
from conformix.search.objective import SizeObjective, tuning_rank
from conformix.search.weights import Search, counted, n_candidates
from conformix.splits import Roles, Split, bounded


def fit(rows: Rows, settings: Settings) -> Predictor:
    """Return the predictor fitted on labelled rows, wherever they live."""
    rng = as_generator(settings.random_state)
    key, models, blend = draw_key(rng), rows.models, None
    roles, known, learnt = None, None, None
    given, each_row = rows, rows.each_row
    if each_row:
        refuse_each_row(settings)
    if settings.blends:
        wake_helpers(rows.outputs, settings.threads)
        columns, rows, settings, blend, roles, known = learn_blend(rows, settings, rng)
    else:
        columns = score_columns(scored_models(models, settings.ensemble), settings.scores)
        if len(columns) > 1:  # one score is done before they are awake
            wake_helpers(rows.outputs, settings.threads)
        if learn(columns) and settings.ensemble is not None:
            raise InvalidInput(
                "scores that learn compare the labels of one model; name other scores of the "
                "ensemble, or leave ensemble out."
            )
        if learn(columns):
            learnt, settings, roles = learn_columns(rows, columns, settings, rng)
            columns = learnt.columns
        else:
            refuse_teachers(rows, columns)
    split = settings.split_for(len(columns))
    if split is not None and roles is None:
        # Roles that are drawn already stay: who has taught or tuned must not calibrate.
        split = bounded(split, rows_held(rows.n_classes, len(columns)))
    scoring = Scoring(columns, key, settings.threads, settings.ensemble)
    if roles is None or known is None:
        scored = with_left_out(rows.scored(scoring, split, rng, roles), learnt)
    else:  # scores of the rows that tune are known, and need not be gathered
        scored = rows.scored(scoring, split, rng, roles.untuned)
        scored = with_known_rows(scored, roles, scoring.view(known))
    taught = columns if blend is None else blend.columns
    scored = taught_by(rows, scored, taught, settings)
    fitted = fit_scored(scored, columns, settings, rng)
    seen = remembered(given.outputs, key, settings.threads)
    predictor = Predictor(
        columns, models, rows.n_classes, settings.kind, key, settings.alpha, fitted,
        threads=settings.threads, classes=rows.classes, blend=blend, ensemble=settings.ensemble,
        seen=seen,
    )  # fmt: skip
    if each_row and learn(taught):
        return EachRow.of(predictor, given, scored.roles)
    return predictor


def fit_scored(
    scored: Scored, columns: Sequence[Column], settings: Settings, rng: np.random.Generator
) -> Fitted:
    """Return what is fitted on scored rows: with settled weights, selected, or searched ones."""
    weights = settings.settled(len(columns))
    if weights is not None:
        return with_settled_weights(weights, scored, columns, settings, rng)
    how = fit_exact if is_symmetric(settings.split) else with_searched_weights
    return how(scored, columns, settings, rng)


def fit_scores(
    scores: FloatArray,
    y: IntArray,
    columns: Sequence[Column],
    settings: Settings,
    rng: np.random.Generator,
    *,
    test: FloatArray | None = None,
) -> Fitted:
    """Return what is fitted on bare scores (n, K, d) and labels, with roles drawn here."""
    split = settings.split_for(len(columns))
    roles = no_roles(len(y))
    if split is not None:
        check_test(split, None if test is None else len(test))
        roles = split.roles(len(y), 0 if test is None else len(test), rng)
    return fit_scored(Scored(scores, y, roles, test=test), columns, settings, rng)


def with_searched_weights(
    scored: Scored, columns: Sequence[Column], settings: Settings, rng: np.random.Generator
) -> Calibrated:
    """Return weights and threshold: Algorithm 2 of the paper."""
    scores, y, roles, data, test = scored.scores, scored.y, scored.roles, scored.data, scored.test
    alpha, split, scheme, d = settings.alpha, settings.split, settings.calibration, len(columns)
    separate = roles.separate
    search = settings.search
    if settings.delta is not None and not separate:
        search = counted(search)  # the union bound of a PAC rank needs weights that are counted
    rank = rank_rule(split, search, d, settings.delta, separate=separate, test=test)
    if scored.n_batch and settings.delta is not None:
        rank = RankRule(settings.delta, batch=scored.n_batch)
    # Where the tuning rows calibrate too, they are searched with the rank that will be used.
    k = tuning_rank(len(roles.tune), settings.tune_level, RankRule() if separate else rank)
    normalizer = settings.normalizer(separate=separate)
    tune = _tuning_rows(scores, y, roles.tune, normalizer, columns)  # and their scale
    objective = _objective(tune, scored, k, search, settings)
    if scheme.tune:  # the sizes of sets with a threshold per class
        objective = class_objective(objective, scheme, tune.y, alpha=settings.tune_level, rank=rank)
    objective = bind(objective, settings.goal, lambda: tune.scores, tune.y, settings.tune_level)
    result = objective.described(search(objective, rng))  # the weights with the smallest sets
    rule = Rule(tune.transform, result.weights, settings.allow_empty)
    facts = Facts(
        split.name, float(alpha), float(settings.tune_level), len(roles.tune),
        len(roles.calibrate), scored.n_test, scored.n_classes, d, n_candidates(search, d),
        separate, (normalizer.learns or learn(columns)) and not separate, rank,
        grouped=scored.grouped, n_batch=scored.n_batch, n_unlabelled=scored.n_unlabelled,
    )  # fmt: skip
    cal = rows_in_place(scores, y, roles.calibrate), y[roles.calibrate]
    ledger = Ledger(stated(split.guarantee, facts), facts)
    if hasattr(scheme, "limits"):
        rule = replace(rule, limits=_limits(scheme, rule, tune, alpha=alpha, separate=separate))
    rows = roles.tune if separate else roles.calibrate
    early = _on_scale(rule) if separate else rule  # the tuning rows are normalised by now
    plan = lay_down(
        scheme, early, lambda: tune.scores if separate else cal[0], y[rows], data.take(rows),
        alpha=alpha, rng=rng, names=group_names(data), n_cal=len(roles.calibrate),
        separate=separate,
    )  # fmt: skip
    fitted = calibrated(
        *cal, rule, alpha=alpha, ledger=ledger, normalizer=normalizer.name, plan=plan,
        data=data.take(roles.calibrate),
    )  # fmt: skip
    unseen = roles.unseen
    size = mean_size(rows_in_place(scores, y, unseen), fitted, alpha, data.take(unseen))
    return replace(fitted, search=result, held_out_size=size)


def with_settled_weights(
    weights: FloatArray,
    scored: Scored,
    columns: Sequence[Column],
    settings: Settings,
    rng: np.random.Generator,
) -> Calibrated:
    """Return the calibration of settled weights on all rows: nothing is left to tune."""
    scores, y, data, alpha = scored.scores, scored.y, scored.data, settings.alpha
    if settings.votes:
        return with_votes(scored, settings, len(columns))
    normalizer = settings.normalizer(separate=False)
    if normalizer.learns:
        raise InvalidInput(
            f'normalize="{normalizer.name}" learns from tuning rows, and fixed weights leave '
            'none; say normalize="scale", or search the weights.'
        )
    rule = Rule(normalizer.fit(scores, columns), weights, settings.allow_empty)
    ledger = fixed_ledger(
        *scores.shape, alpha=alpha, delta=settings.delta, grouped=scored.grouped,
        n_unlabelled=scored.n_unlabelled,
    )  # fmt: skip
    plan = lay_down(
        settings.calibration, rule, lambda: scores, y, data, alpha=alpha, rng=rng,
        names=group_names(data), n_cal=len(y), separate=False,
    )  # fmt: skip
    fitted = calibrated(
        scores, y, rule, alpha=alpha, ledger=ledger, normalizer=normalizer.name, plan=plan,
        data=data,
    )  # fmt: skip
    if settings.weights is not None:
        return fitted
    every = rows_in_place(scores, y, np.arange(len(y)))
    return replace(fitted, held_out_size=mean_size(every, fitted, alpha, data))


def with_votes(scored: Scored, settings: Settings, d: int) -> Calibrated:
    """Return the vote of d scores, each calibrated on all rows by itself."""
    scores, y, alpha = scored.scores, scored.y, settings.alpha
    ledger = fixed_ledger(
        *scores.shape, alpha=alpha, grouped=scored.grouped, n_unlabelled=scored.n_unlabelled
    )
    fitted = voted(true_label_scores(scores, y, d), ledger, alpha)
    every = rows_in_place(scores, y, np.arange(len(y)))
    return replace(fitted, held_out_size=mean_size(every, fitted, alpha, scored.data))


def recalibrated(predictor: Predictor, outputs: Any, y: Any, **rows: Any) -> Predictor:
    """Return the predictor with the same weights and a fresh threshold, from fresh rows."""
    fresh = predictor.afresh(
        lambda one: _with_fresh_rows(one, _fresh_rows(one, outputs, y, **rows)), outputs, y, rows
    )
    if predictor.seen is None or is_chunked(outputs):
        return fresh
    also = remembered(predictor.check(outputs), predictor.key)
    return replace(fresh, seen=None if also is None else predictor.seen.plus(also))


def _with_fresh_rows(predictor: Predictor, fresh: Scored) -> Calibrated:
    old: Any = predictor.fitted
    if not old.nested:
        raise InvalidInput(
            f'split "{old.ledger.facts.split}" has no single weights to keep; call fit on the '
            "fresh rows instead."
        )
    facts = old.ledger.facts
    ledger = fixed_ledger(
        len(fresh.y), predictor.n_classes, len(predictor.columns), alpha=predictor.alpha,
        delta=facts.rank.delta, n_test=facts.n_test, grouped=facts.grouped,
        n_batch=facts.n_batch, n_unlabelled=facts.n_unlabelled,
    )  # fmt: skip
    return calibrated(
        fresh.scores, fresh.y, old.rule, alpha=predictor.alpha, ledger=ledger,
        normalizer=old.normalizer, plan=old.plan.afresh(), data=fresh.data,
    )  # fmt: skip


def _fresh_rows(predictor: Predictor, outputs: Any, y: Any, **rows: Any) -> Scored:
    """Return labelled rows that had no part in a fit, scored where they are."""
    if is_chunked(outputs):
        there = chunked(outputs, predictor.kind)
        there = there.matching(predictor.models, predictor.n_classes, "outputs")
        data = predictor.row_data(there.n, **{name: here(values) for name, values in rows.items()})
        fresh = ChunkRows(there, y, data, classes=predictor.classes).as_fitted(predictor)
        return fresh.scored(predictor.scoring, None, np.random.default_rng(0))
    checked = predictor.check(outputs)
    labels = predictor.labels(y, checked.n)
    scores = predictor.labelled_scores(checked, labels)
    return Scored(scores, labels, no_roles(checked.n), predictor.row_data(checked.n, **rows))


def _tuning_rows(
    scores: Any, y: IntArray, rows: IntArray, normalizer: Normalizer, columns: Sequence[Column]
) -> TuningRows:
    """Return the tuning rows: a copy of theirs, or what is gathered, is theirs to change."""
    source = scores_of_tuning_rows(scores, rows)
    labels = y[rows].astype(np.intp, copy=False)
    return TuningRows(source, labels, normalizer, columns)


def _limits(
    scheme: Any, rule: Rule, tune: TuningRows, *, alpha: float, separate: bool
) -> RankLimits:
    """Return the largest rank of every class, from tuning rows apart from calibration."""
    if not separate:
        raise InvalidInput(
            'calibration "rc3p" freezes its ranks on rows apart from calibration, and this split '
            'has none; say split="holdout" (vfcp).'
        )
    plain = replace(_on_scale(rule), allow_empty=True)  # lifted scores have no range
    ranks, width = plain.true_ranks(tune.scores, tune.y)
    return RankLimits(scheme.limits(ranks, tune.y, tune.scores.shape[1], alpha), width + 1)


def _on_scale(rule: Rule) -> Rule:
    """Return a rule for scores that are normalised already."""
    return replace(rule, transform=Scaled((1.0,) * len(rule.weights)))


def _objective(
    tune: TuningRows, scored: Scored, k: int, search: Search, settings: Settings
) -> SizeObjective:
    """Return the sizes on the size rows with the threshold set on the tuning rows."""
    same_rows = np.array_equal(scored.roles.size, scored.roles.tune)
    d = tune.true_scores.shape[1]
    only_counts = _only_counts(search, settings, d)
    if only_counts and settings.allow_empty and not tune.here:
        parts = size_rows(scored.scores, scored.test, scored.roles)
        return size_objective(tune.true_scores, parts, tune.reach(k), k, threads=settings.threads)
    in_order = same_rows and tune.in_order and only_counts
    if in_order and not settings.allow_empty and getattr(search, "on_simplex", False):
        beside = tune.beside_best(k)
        if beside is not None:
            return BesideBestObjective(
                beside.true_scores, [beside.scores], beside.k, n_best=beside.n_best,
                shape=(beside.n_rows, beside.n_classes), threads=settings.threads,
            )  # fmt: skip
    if in_order and settings.allow_empty:
        labels = tune.within_reach(k)
        return SizeObjective(
            tune.true_scores, [labels.scores], k, threads=settings.threads,
            shape=(labels.n_rows, labels.n_classes),
        )  # fmt: skip
    if same_rows:
        size_scores = [tune.scores]
    else:
        parts = size_rows(scored.scores, scored.test, scored.roles)
        size_scores = [tune.transform(getattr(part, "tensor", part)) for part in parts]
    if settings.allow_empty:
        return SizeObjective(tune.true_scores, size_scores, k, threads=settings.threads)
    return NonEmptyObjective(tune.scores, tune.y, size_scores, k, threads=settings.threads)


def _only_counts(search: Search, settings: Settings, d: int) -> bool:
    """Whether a search asks for nothing but how many labels are in, with weights not negative."""
    plain = not settings.calibration.tune and is_mean_size(settings.goal)
    only_counts: Any = getattr(search, "only_counts", None)
    return plain and only_counts is not None and only_counts(d)


def calibrated(
    scores: FloatArray,
    y: IntArray,
    rule: Rule,
    *,
    alpha: float,
    ledger: Ledger,
    normalizer: str = "none",
    plan: Plan | None = None,
    data: RowData = NO_DATA,
) -> Calibrated:
    """Return the calibration of a given rule on labelled rows (n, K, d)."""
    rising, cuts = cut_by(rule, plan or SinglePlan(), scores, y, data)
    facts, reference = ledger.facts, None
    if cuts.name == Marginal.name:
        aside = facts.n_tune if facts.separate else 0
        warn_if_trivial(len(y), alpha, facts.rank, aside=aside, all_in=facts.all_in)
    else:
        cuts.warn(alpha, facts.rank)
    if facts.n_chosen_among != 1 and not facts.learnt_scale:
        reference = rule.with_equal_weights.rising(scores, y)
    ledger = ledger.under(cuts.name, cuts.promise)
    return Calibrated(rule, rising, ledger, normalizer, cuts=cuts, reference=reference)


def lay_down(
    scheme: Calibration,
    rule: Rule,
    scores: Callable[[], FloatArray],
    y: IntArray,
    data: RowData,
    *,
    alpha: float,
    rng: np.random.Generator,
    names: tuple[Any, ...],
    n_cal: int,
    separate: bool,
) -> Plan:
    """Return the plan of a calibration from rows that it may look at."""
    if scheme.name == Marginal.name:
        return SinglePlan()
    seen = scores()
    values = rule.of_true_labels(seen, y)
    return scheme.learn(Seen(values, y, data, names, seen.shape[1], n_cal, alpha, separate, rng))


def fixed_ledger(
    n: int,
    n_classes: int,
    d: int,
    *,
    alpha: float,
    delta: float | None = None,
    n_test: int = 0,
    grouped: bool = False,
    n_batch: int = 0,
    n_unlabelled: int = 0,
) -> Ledger:
    """Return the ledger of weights that the calibration rows had no part in.

    The features of `n_test` test rows may have had one, and those of `n_batch` test rows in scores.
    """
    level, rank = float(alpha), RankRule(delta)
    facts = Facts(
        "fixed", level, level, 0, n, n_test, n_classes, d, 1, True, False, rank, grouped=grouped,
        n_batch=n_batch, n_unlabelled=n_unlabelled,
    )  # fmt: skip
    return Ledger(stated(EXACT, facts), facts)


def stated(guarantee: Guarantee, facts: Facts) -> Guarantee:
    """Return the statement that holds in the end: PAC where asked for, none where voided."""
    if facts.learnt_scale:
        return UNBOUNDED
    rank = facts.rank
    if rank.delta is not None:
        guarantee = pac_guarantee(rank.delta, n_weights=rank.n_weights, batch=rank.batch)
    guarantee = guarantee.taught_apart(facts.n_unlabelled)
    if facts.split == "fixed" and facts.n_test:
        rows = f"{facts.n_test:,} row{'s' if facts.n_test > 1 else ''}"
        return guarantee.assuming(f"not for the {rows} whose features chose the weights")
    if facts.n_batch:
        rows = f"{facts.n_batch:,} test row{'s' if facts.n_batch > 1 else ''}"
        if facts.split == "fixed":
            return guarantee.assuming(
                f"calibrated on no row of the fit; not for its {rows}, which scores learnt from"
            )
        return guarantee.assuming(f"for the {rows} of the fit, which scores learnt from, alone")
    return guarantee


def rank_rule(
    split: Split,
    search: Search,
    d: int,
    delta: float | None,
    *,
    separate: bool,
    test: FloatArray | None,
) -> RankRule:
    """Return which order statistic is the threshold, with the union it has to pay for."""
    if delta is None or separate:
        return RankRule(delta)
    if not n_candidates(search, d):
        raise InvalidInput(
            'guarantee="pac" with split "all-rows" (efcp), "batch" (dlcp) or "batch+" (dlcp+) '
            "needs candidate weights that are counted beforehand: a grid or an array; got "
            f"{search!r}."
        )
    batch = len(test) if split.needs_test and test is not None else None
    return RankRule(delta, n_candidates(search, d), batch)


def mean_size(
    scores: FloatArray, fitted: Calibrated, alpha: float, data: RowData = NO_DATA
) -> float | None:
    """Return the mean set size on the rows of `scores`, or None where there are none to read."""
    if not len(scores) or not can_be_read(scores):
        return None
    ordered, thresholds = getattr(scores, "ordered", None), fitted.row_thresholds(alpha, data)
    if ordered is not None and thresholds is not None and fitted.rule.rises:
        rows: IntArray = scores.rows  # type: ignore[attr-defined]
        return n_members(ordered, fitted.rule, thresholds, rows) / len(rows)
    plane = getattr(scores, "plane", None)
    if plane is not None and thresholds is not None and fitted.rule.counts_alone:
        which: IntArray = scores.rows  # type: ignore[attr-defined]
        return n_reaching(plane, which, thresholds) / len(scores)
    rank = fitted.ledger.facts.rank
    # Thresholds that are the same for all rows travel alone: other machines may do the counting.
    cuts = fitted.cuts if fitted.needs else fitted.at(alpha)
    count = MemberCount(fitted.rule, cuts, alpha, rank)
    return summed(scores, count, data.strata, data.weight) / len(scores)


def n_reaching(values: FloatArray, rows: IntArray, thresholds: Any) -> int:
    """Return how many numbers of some rows (m,), which rise, of (n, K) reach thresholds (m, 1).

    Or one threshold. Rows are compared where they are: a copy of them would take longer.

    Examples
    --------
    >>> n_reaching(np.array([[3.0, 1.0], [2.0, 2.0], [4.0, 0.0]]), np.array([0, 1]), 2.0)
    3
    """
    total = 0
    if not isinstance(thresholds, float):
        thresholds = np.broadcast_to(thresholds, (len(rows), 1))
    for block in row_blocks(*values.shape):
        places, within = chosen(rows, block.start, block.stop - block.start)
        lowest = thresholds
        if not isinstance(thresholds, float):
            lowest = np.empty((block.stop - block.start, 1))
            lowest[within] = thresholds[places]
        total += n_true((values[block] >= lowest).take(within, axis=0))
    return total


@dataclass(frozen=True)
class MemberCount:
    """Counts the labels in the sets of some rows: from their scores (r, K, d), or their outputs."""

    rule: Rule
    cuts: Any  # one threshold, or what says one of every row
    alpha: float
    rank: RankRule

    def __call__(self, scores: FloatArray, *row_data: Any) -> int:
        threshold = self.cuts
        if hasattr(threshold, "at"):
            threshold = threshold.at(self.alpha, self.rank, RowData(*row_data))
        return n_true(self.rule.reaches(scores, threshold))

    def of_outputs(self, scoring: Scoring, outputs: Outputs, *row_data: Any) -> int:
        """Return the same from outputs: sets of sorted rows are their upper ends."""
        alone = isinstance(self.cuts, float) and scoring.ensemble is None and not outputs.on_device
        if not alone or upper_ends(scoring, self.rule, outputs) is None:
            return self(scoring.view(outputs), *row_data)
        ordered = SortedOutputs(outputs, scoring.columns, scoring.key, scoring.threads)
        return n_members(ordered, self.rule, self.cuts, np.arange(outputs.n))


def size_rows(scores: Any, test: Any, roles: Roles) -> list[Any]:
    """Return the scores of the size rows, labelled and test rows apart (no copy where whole).

    Those that are elsewhere are `FarOutputs`.
    """
    n = len(scores)
    labelled, unlabelled = roles.size[roles.size < n], roles.size[roles.size >= n] - n
    blocks = []
    if len(labelled):
        tuning: Any = getattr(scores, "tuning", None)
        far = tuning is not None and not tuning.here
        blocks.append(replace(tuning, rows=labelled) if far else rows_of(scores, labelled))
    if test is not None and len(unlabelled):
        far = not getattr(test, "here", True)
        blocks.append(replace(test, rows=unlabelled) if far else rows_of(test, unlabelled))
    return blocks
