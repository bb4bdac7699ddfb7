"""Fit and predict on score tensors, as the paper's Algorithm 2 reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from conformix.calibration.cuts import Plan, SinglePlan
from conformix.calibration.objective import class_objective
from conformix.calibration.rc3p import RankedPerClass
from conformix.calibration.schemes import Calibration, Marginal, Seen
from conformix.data.row_data import NO_DATA, RowData, group_names
from conformix.errors import InvalidInput, SmallBatchWarning, warn
from conformix.fit.rule import Fitted as Fitted  # noqa: PLC0414  this is where others look
from conformix.fit.rule import Rule as Rule  # noqa: PLC0414
from conformix.fit.scored import Gathered, TuningRows, can_be_read, rows_in_place, summed
from conformix.guarantees import (
    EXACT,
    UNBOUNDED,
    Facts,
    Guarantee,
    Ledger,
    RankRule,
    pac_guarantee,
)
from conformix.guarantees.verdict import n_chosen_among
from conformix.kernels.arrays import FloatArray, IntArray, some_rows
from conformix.kernels.limits import RankLimits
from conformix.scores.names import Column
from conformix.scores.scale import Normalizer, Scaled, resolve_normalizer
from conformix.search.goals import bind
from conformix.search.nonempty import NonEmptyObjective
from conformix.search.objective import SizeObjective, tuning_rank
from conformix.search.weights import AutoSearch, Search, only_candidate
from conformix.splits import Roles, Split

# With fewer test rows than this a transductive split can fit its weights to the batch.
SMALL_BATCH = 100


def fit(
    scores: FloatArray,
    y: IntArray,
    columns: Sequence[Column],
    *,
    alpha: float,
    split: Split,
    search: Search,
    normalize: Any,
    rng: np.random.Generator,
    test: FloatArray | None = None,
    groups: IntArray | None = None,
    tune_alpha: float | None = None,
    allow_empty: bool = True,
    delta: float | None = None,
    goal: Any = "size",
    calibration: Calibration | None = None,
    data: RowData = NO_DATA,
    threads: int | None = None,
) -> Fitted:
    """Return weights and threshold: Algorithm 2 of the paper.

    Parameters
    ----------
    scores : array of shape (n, K, d), or Gathered
        Scores of all labels of the labelled rows; higher fits better. Those of the rows that
        only calibrate may be `conformix.fit.scored`; a fit uses up what was gathered for it, and
        normalises the scores of the tuning rows where they are.
    y : integer array of shape (n,)
        True labels, in integers of any width: those of many rows come in few bytes.
    columns : sequence of Column
        Which score of which model every plane holds.
    alpha, tune_alpha : float
        Allowed miscoverage, and the level used while searching (by default the same).
    split, search, normalize
        Who may see what, how weights are found, and on which scale scores are averaged.
    rng : Generator
        Where the split draws from.
    test : array of shape (m, K, d), optional
        Scores of the unlabelled test rows, for the transductive splits.
    groups : integer array of shape (n,), optional
        Rows of one group stay on one side of the split.
    allow_empty : bool
        Whether a set may be empty.
    delta : float, optional
        Take the PAC rank: coverage for all but a share delta of the calibration draws.
    goal : str or goal
        What the weights minimise; by default the mean set size.
    calibration : Calibration, optional
        How thresholds are taken from the calibration scores; by default one for all.
    data : RowData
        What the labelled rows bring along for it.
    threads : int or None
        Threads for the search.
    """
    roles = split.roles(len(y), check_test(split, test), rng, groups)  # who may see what
    separate = roles.separate
    if delta is not None and not separate and isinstance(search, AutoSearch):
        search = search.grid  # the union bound of a PAC rank needs weights that are counted
    rank = rank_rule(split, search, len(columns), delta, separate=separate, test=test)
    tune_level = alpha if tune_alpha is None else tune_alpha
    # Where the tuning rows calibrate too, they are searched with the rank that will be used.
    k = tuning_rank(len(roles.tune), tune_level, RankRule() if separate else rank)
    normalizer = resolve_normalizer(normalize, separate=separate)
    tune = _tuning_rows(scores, y, roles.tune, normalizer, columns)  # and their scale
    parts = _normalised_parts(scores, test, roles, tune)
    scheme = Marginal() if calibration is None else calibration
    objective = _objective(tune, parts, k, allow_empty=allow_empty, threads=threads)
    if scheme.tune:  # the sizes of sets with a threshold per class
        objective = class_objective(objective, scheme, tune.y, alpha=tune_level, rank=rank)
    objective = bind(objective, goal, lambda: tune.scores, tune.y, tune_level)
    found = objective.told(search(objective, rng))  # the weights with the smallest sets
    rule = Rule(tune.transform, found.weights, allow_empty)
    facts = Facts(
        split.name, float(alpha), float(tune_level), len(roles.tune), len(roles.calibrate),
        0 if test is None else len(test), scores.shape[1], len(columns),
        _n_candidates(search, len(columns)), separate, normalizer.learns and not separate, rank,
        grouped=groups is not None,
    )  # fmt: skip
    cal = rows_in_place(scores, y, roles.calibrate), y[roles.calibrate]
    ledger = Ledger(stated(split.guarantee, facts), facts)
    if isinstance(scheme, RankedPerClass):
        rule = replace(rule, limits=_limits(scheme, rule, tune, alpha=alpha, separate=separate))
    own = roles.tune if separate else roles.calibrate
    seen = tune.scores if separate else cal[0]
    early = _on_scale(rule) if separate else rule  # the tuning rows are normalised by now
    plan = lay_down(
        scheme, early, seen, y[own], data.take(own), alpha=alpha, rng=rng,
        names=group_names(data), n_cal=len(roles.calibrate), separate=separate,
    )  # fmt: skip
    fitted = calibrated(
        *cal, rule, alpha=alpha, ledger=ledger, normalizer=normalizer.name, plan=plan,
        data=data.take(roles.calibrate),
    )  # fmt: skip
    unseen = roles.unseen
    size = mean_size(rows_in_place(scores, y, unseen), fitted, alpha, data.take(unseen))
    return replace(fitted, search=found, held_out_size=size)


def _tuning_rows(
    scores: Any, y: IntArray, rows: IntArray, normalizer: Normalizer, columns: Sequence[Column]
) -> TuningRows:
    """Return the tuning rows: a copy of theirs, or what is gathered, is theirs to change."""
    own = _rows(scores, rows)
    labels = y[rows].astype(np.intp, copy=False)
    return TuningRows(own, labels, normalizer, columns, spare=own is not scores)


def _normalised_parts(
    scores: Any, test: FloatArray | None, roles: Roles, tune: TuningRows
) -> list[FloatArray]:
    """Return the normalised scores of the size rows, mostly those of the tuning rows."""
    if np.array_equal(roles.size, roles.tune):
        return [tune.scores]
    return [tune.transform(part) for part in size_parts(scores, test, roles)]


def _limits(
    scheme: RankedPerClass, rule: Rule, tune: TuningRows, *, alpha: float, separate: bool
) -> RankLimits:
    """Return the largest rank of every class, from tuning rows apart from calibration."""
    if not separate:
        raise InvalidInput(
            'calibration "rc3p" freezes its ranks on rows apart from calibration, and this split '
            'has none; say split="vfcp".'
        )
    plain = replace(_on_scale(rule), allow_empty=True)  # lifted scores have no range
    ranks, width = plain.true_ranks(tune.scores, tune.y)
    return RankLimits(scheme.limits(ranks, tune.y, tune.scores.shape[1], alpha), width + 1)


def _on_scale(rule: Rule) -> Rule:
    """Return a rule for scores that are normalised already."""
    return replace(rule, transform=Scaled((1.0,) * len(rule.weights)))


def _objective(
    tune: TuningRows, parts: list[FloatArray], k: int, *, allow_empty: bool, threads: int | None
) -> SizeObjective:
    """Return the sizes on `parts` (normalised) with the threshold set on the tuning rows."""
    if allow_empty:
        return SizeObjective(tune.true_scores, parts, k, threads=threads)
    return NonEmptyObjective(tune.scores, tune.y, parts, k, threads=threads)


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
) -> Fitted:
    """Return the calibration of a given rule on labelled rows (n, K, d)."""
    plan = plan or SinglePlan()
    if isinstance(plan, SinglePlan):  # whichever row a score is of
        rising = rule.rising(scores, y)
        cuts = plan.cut(rising, y, data)
    else:
        values = rule.of_true_labels(scores, y)
        order = np.argsort(values, kind="stable")
        rising = values[order]
        cuts = plan.cut(rising, y[order], data.take(order))
    cuts.warn(alpha, ledger.facts.rank)
    facts, reference = ledger.facts, None
    if n_chosen_among(facts) != 1 and not facts.learnt_scale:
        reference = rule.with_equal_weights.rising(scores, y)
    told = ledger.under(cuts.name, cuts.promise)
    return Fitted(rule, rising, told, normalizer, cuts=cuts, reference=reference)


def lay_down(
    scheme: Calibration,
    rule: Rule,
    scores: FloatArray,
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
    if isinstance(scheme, Marginal):
        return SinglePlan()
    values = rule.of_true_labels(scores, y)
    return scheme.learn(Seen(values, y, data, names, scores.shape[1], n_cal, alpha, separate, rng))


def settled_weights(search: Search, normalize: Any, d: int) -> FloatArray | None:
    """Return the weights (d,) that no tuning row has to choose, or None where one is needed.

    There must be one candidate, and no scale to learn. ``normalize="auto"`` learns one for several
    scores; one score has the same sets on every rising scale, and so takes one that learns nothing.
    """
    if resolve_normalizer(normalize, separate=d > 1).learns:
        return None
    return only_candidate(search, d)


def fixed_ledger(
    n: int,
    n_classes: int,
    d: int,
    *,
    alpha: float,
    delta: float | None = None,
    n_test: int = 0,
    grouped: bool = False,
) -> Ledger:
    """Return the ledger of weights that the calibration rows had no part in.

    The features of `n_test` test rows may have had one.
    """
    level, rank = float(alpha), RankRule(delta)
    facts = Facts(
        "fixed", level, level, 0, n, n_test, n_classes, d, 1, True, False, rank, grouped=grouped
    )
    return Ledger(stated(EXACT, facts), facts)


def _n_candidates(search: Search, d: int) -> int:
    """Return how many weights a search chooses among, fixed beforehand; 0 where it cannot say."""
    return int(search.n_candidates(d)) if hasattr(search, "n_candidates") else 0


def stated(guarantee: Guarantee, facts: Facts) -> Guarantee:
    """Return the statement that holds in the end: PAC where asked for, none where voided."""
    if facts.learnt_scale:
        return UNBOUNDED
    rank = facts.rank
    if rank.delta is not None:
        guarantee = pac_guarantee(rank.delta, n_weights=rank.n_weights, batch=rank.batch)
    if facts.split == "fixed" and facts.n_test:
        rows = f"{facts.n_test:,} row{'s' if facts.n_test > 1 else ''}"
        return guarantee.assuming(f"not for the {rows} whose features chose the weights")
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
    if not _n_candidates(search, d):
        raise InvalidInput(
            'guarantee="pac" with split "efcp", "dlcp" or "dlcp+" needs candidate weights that are '
            f"counted beforehand: a grid or an array; got {search!r}."
        )
    batch = len(test) if split.needs_test and test is not None else None
    return RankRule(delta, _n_candidates(search, d), batch)


def mean_size(
    scores: FloatArray, fitted: Fitted, alpha: float, data: RowData = NO_DATA
) -> float | None:
    """Return the mean set size on the rows of `scores`, or None where there are none to read."""
    if not len(scores) or not can_be_read(scores):
        return None
    rank = fitted.ledger.facts.rank
    # Thresholds that are the same for all rows travel alone: other machines may do the counting.
    cuts = fitted.cuts if fitted.cuts.plan.needs else fitted.at(alpha)
    count = partial(_n_members, fitted.rule, cuts, alpha, rank)
    return summed(scores, count, data.strata, data.weight) / len(scores)


def _n_members(
    rule: Rule, cuts: Any, alpha: float, rank: RankRule, scores: FloatArray, *own: Any
) -> int:
    """Return the labels in the sets of some rows (r, K, d)."""
    threshold = cuts.at(alpha, rank, RowData(*own)) if hasattr(cuts, "at") else cuts
    return int(rule.reaches(scores, threshold).sum())


def size_parts(scores: FloatArray, test: FloatArray | None, roles: Roles) -> list[FloatArray]:
    """Return the scores of the size rows, labelled and test rows apart (no copy where whole)."""
    n = len(scores)
    labelled, unlabelled = roles.size[roles.size < n], roles.size[roles.size >= n] - n
    parts = [_rows(scores, labelled)] if len(labelled) else []
    if test is not None and len(unlabelled):
        parts.append(_rows(test, unlabelled))
    return parts


def _rows(scores: FloatArray, rows: IntArray) -> FloatArray:
    """Return ``scores[rows]``, without a copy where that is all rows in order."""
    if isinstance(scores, Gathered):
        return scores.take(rows)  # type: ignore[no-any-return]
    whole = np.array_equal(rows, np.arange(len(scores)))
    return scores if whole else some_rows(scores, rows)


def check_test(split: Split, test: FloatArray | None) -> int:
    """Return the number of test rows that `split` will use."""
    if not split.needs_test:
        return 0
    if test is None:
        raise InvalidInput(
            f'split "{split.name}" counts sizes on the test rows; pass them: '
            "fit(outputs, y, test=test_outputs)."
        )
    if len(test) < SMALL_BATCH:
        warn(
            f'split "{split.name}" fits its weights to a test batch of only {len(test)} rows; '
            f'below {SMALL_BATCH} its coverage can fall well short, use "efcp" or "vfcp".',
            SmallBatchWarning,
        )
    return len(test)
