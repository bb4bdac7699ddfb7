"""What the parts of a model file must agree on before anything is computed with it.

Kernels trust their arrays, and people trust the ledger, so a file is trusted only after its parts
fit together, and its settings are those of its fit: it claims what it does, and no more. Every
refusal is one phrase that names the part. What is checked here holds for every model that `fit`
leaves behind.
"""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np

from conformix.calibration import resolve_calibration
from conformix.calibration.strata import FALLBACKS, Partition, stand_in
from conformix.conformal import simple_fraction
from conformix.data.outputs import ARITHMETICS, KINDS
from conformix.errors import InvalidInput
from conformix.fit.exact.split import laid_down
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Calibrated, Fitted
from conformix.fit.saved.codec import check_fields, check_type, shortened
from conformix.fit.settings import read_as
from conformix.guarantees import Facts
from conformix.guarantees.order import MOST
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.patterns import MOST_ROWS
from conformix.scores import Logit, score_columns
from conformix.scores.scale import NORMALIZERS, resolve_normalizer
from conformix.search import resolve_search
from conformix.splits import SPLITS, resolve_split

STRATA = ("class", "cluster", "group", "group and class", "bin of difficulty")
# Under which splits rows that tune also calibrate, and what their sizes were counted on.
SHARED = ("efcp", "dlcp", "dlcp+")
# How far weights may sum from one: they come from steps of a search in floating point.
SIMPLEX_ERROR = 1e-6


def require(holds: Any, what: str) -> None:
    """Refuse what does not hold."""
    if not bool(holds):
        raise InvalidInput(what)


def agree(what: str, value: Any, other: str, expected: Any) -> None:
    """Refuse two parts that say different things about one fact."""
    if type(value) is not type(expected) or value != expected:
        raise InvalidInput(f"its {what} is {shortened(value)}, but {other} {shortened(expected)}")


def check_model(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse a model whose parts contradict each other."""
    check_predictor(predictor)
    check_settings(params, predictor)
    blended = predictor.blend is not None
    check_candidates(params, predictor.fitted.all_weights, blended=blended)
    if predictor.fitted.nested:
        _check_range(predictor.fitted)


def check_predictor(predictor: Predictor) -> None:
    """Refuse a predictor whose parts do not fit together."""
    blend = predictor.blend
    if blend is not None:
        require(blend.name not in predictor.models, "its blend.name is also that of a model")
        distinct = len(set(blend.columns)) == len(blend.columns) > 0
        require(distinct, "its blend.columns are not distinct")
        known = all(column.model in predictor.models for column in blend.columns)
        require(known, "its predictor.columns name a model that is not among predictor.models")
        evident = any(isinstance(column.score, Logit) for column in predictor.columns)
        fits = evident == (blend.evidence is not None)
        require(fits, "its blend.evidence and the score that reads it are not both there")
    both = blend is not None and predictor.ensemble is not None
    require(not both, "its blend averages the models, and so does its ensemble")
    check_columns(predictor, predictor.scored_models if blend is None else (blend.name,))
    simple_fraction(predictor.alpha, "its predictor.alpha")
    check_seen(predictor.seen, predictor.fitted.n)
    fitted: Any = predictor.fitted
    if fitted.additive:
        _check_rule(fitted, predictor)
    else:
        (_check_vote if fitted.nested else _check_exact)(fitted, predictor)


def check_seen(seen: Any, n_calibration: int) -> None:
    """Refuse digests that cannot be those of the rows of a fit."""
    if seen is not None:
        digests, n = seen.digests, seen.n
        proper = digests.ndim == 1 and digests.dtype == np.int64 and 0 < len(digests) <= n
        require(proper, "its seen.digests are not one int64 each of no more rows than seen.n")
        rising = proper and bool((digests[1:] >= digests[:-1]).all())  # differences overflow
        require(rising, "its seen.digests do not rise")
        require(n >= n_calibration, "its seen.n is less than its calibration rows")


def check_columns(predictor: Any, scored: tuple[str, ...]) -> None:
    """Refuse scores, models and inputs that cannot be; `scored` are what scores may be of."""
    d = len(predictor.columns)
    require(d > 0, "its predictor.columns name no score")
    require(len(set(predictor.columns)) == d, "its predictor.columns name a score twice")
    require(predictor.kind in KINDS, f"its predictor.kind is none of {', '.join(KINDS)}")
    known = predictor.arithmetic in ARITHMETICS
    require(known, "its predictor.arithmetic is neither exact nor numpy")
    require(0 < predictor.n_classes < MOST, "its predictor.n_classes cannot be")
    require(0 <= predictor.key < 2**63, "its predictor.key is out of range")
    distinct = len(set(predictor.models)) == len(predictor.models) > 0
    require(distinct, "its predictor.models are not distinct")
    known = all(column.model in scored for column in predictor.columns)
    require(known, "its predictor.columns name a model that is not among predictor.models")


def _check_rule(fitted: Any, predictor: Predictor) -> None:
    facts, rule = fitted.ledger.facts, fitted.rule
    d, n_classes = len(predictor.columns), predictor.n_classes
    check_facts(facts)
    agree("facts.alpha", facts.alpha, "predictor.alpha is", float(predictor.alpha))
    agree("facts.n_classes", facts.n_classes, "predictor.n_classes is", n_classes)
    agree("facts.d", facts.d, "the number of predictor.columns is", d)
    weights = rule.weights
    proper = weights.shape == (d,) and weights.dtype == np.float64 and np.isfinite(weights).all()
    require(proper, "its fitted.weights are not one finite number per score")
    check_transform(rule.transform, d, fitted.normalizer)
    if fitted.normalizer in NORMALIZERS:
        scores = any(column.score.learns for column in predictor.columns)
        learnt = (scores or NORMALIZERS[fitted.normalizer].learns) and not facts.separate
        agree("facts.learnt_scale", facts.learnt_scale, "normalizer and split say", learnt)
    require(not (facts.learnt_scale and facts.separate), "its facts.learnt_scale cannot be")
    _check_teachers(predictor, facts.n_batch, facts.n_unlabelled)
    check_scores(fitted)
    agree("facts.n_cal", facts.n_cal, "the number of calibration scores is", fitted.n)
    _check_search(fitted, n_classes)
    check_cuts(fitted, n_classes)


def _check_teachers(predictor: Predictor, n_batch: int, n_unlabelled: int) -> None:
    """Refuse rows that taught scores where no score learns."""
    blend = predictor.blend
    learnt = predictor.columns if blend is None else blend.columns
    learns = any(column.score.learns for column in learnt)
    require(n_batch + n_unlabelled <= MOST_ROWS, "more rows taught its scores than sums can hold")
    require(n_batch == 0 or learns, "its facts.n_batch is of scores that learn, and it has none")
    # Coefficients that such rows had a part in may have left no score that learns.
    possible = n_unlabelled == 0 or learns or blend is not None
    require(possible, "its n_unlabelled is of scores that learn, and it has none")


def check_facts(facts: Facts) -> None:
    """Refuse numbers of a fit that cannot be, or that contradict each other."""
    check_fields(facts, "facts")
    rank = check_fields(facts.rank, "facts.rank")
    counts = {
        name: getattr(facts, name)
        for name in ("n_tune", "n_test", "n_weights", "n_batch", "n_unlabelled")
    }
    sizes = {name: getattr(facts, name) for name in ("n_cal", "n_classes", "d")}
    for least, some in ((0, counts), (1, sizes), (1, {"rank.n_weights": rank.n_weights})):
        for name, value in some.items():
            require(least <= value < MOST, f"its facts.{name} cannot be {shortened(value)}")
    simple_fraction(facts.alpha, "its facts.alpha")
    simple_fraction(facts.tune_alpha, "its facts.tune_alpha")
    known = facts.split == "fixed" or (facts.split in SPLITS and facts.split != "exact")
    require(known, f"its facts.split cannot be {shortened(facts.split)} for one rule")
    agree("facts.separate", facts.separate, "the split says", facts.split not in SHARED)
    transductive = facts.split in ("dlcp", "dlcp+")
    # Weights that a test batch chose and `recalibrate` kept still name the batch.
    possible = facts.n_test > 0 if transductive else facts.n_test == 0 or facts.split == "fixed"
    require(possible, "its facts.n_test does not go with the split")
    if facts.split in SHARED:
        agree("facts.n_tune", facts.n_tune, "the same rows calibrate, and facts.n_cal is",
               facts.n_cal)  # fmt: skip
    if facts.split == "fixed":
        agree("facts.n_tune", facts.n_tune, "under fixed weights it is", 0)
        agree("facts.n_weights", facts.n_weights, "under fixed weights it is", 1)
        agree("facts.tune_alpha", float(facts.tune_alpha), "alpha is", float(facts.alpha))
    union = rank.delta is not None and not facts.separate
    agree("facts.rank.n_weights", rank.n_weights, "the rank has to pay for",
           facts.n_weights if union else 1)  # fmt: skip
    apart = facts.split in ("vfcp", "fixed")
    require(facts.n_batch == 0 or apart, "its facts.n_batch does not go with the split")
    require(facts.n_batch == 0 or facts.n_test == 0, "its facts.n_batch and facts.n_test cannot be "
             "both")  # fmt: skip
    batch = facts.n_test if union and transductive else None
    if facts.n_batch and facts.split == "vfcp" and rank.delta is not None:
        batch = facts.n_batch
    agree("facts.rank.batch", rank.batch, "the test rows of the fit are", batch)
    if rank.delta is not None:
        simple_fraction(rank.delta, "its facts.rank.delta")


def check_scores(fitted: Calibrated) -> None:
    """Refuse calibration scores that this rule cannot have given."""
    scores, rule = fitted.calibration, fitted.rule
    check_rising(scores, "fitted.calibration", infinite=True)
    equal = scores if fitted.reference is None else fitted.reference
    proper = equal.shape == scores.shape and equal.dtype == np.float64
    rises = proper and not np.isnan(equal).any() and (equal[1:] >= equal[:-1]).all()
    require(rises, "its fitted.reference is not one rising score per calibration row")
    check_rising(scores, "fitted.calibration", infinite=not rule.allow_empty)


def check_rising(scores: FloatArray, where: str, *, infinite: bool) -> None:
    """Refuse what are no rising scores; only lifted ones may be infinite."""
    proper = scores.ndim == 1 and scores.size > 0 and scores.dtype == np.float64
    require(proper and not np.isnan(scores).any(), f"its {where} holds no scores")
    require((scores[1:] >= scores[:-1]).all(), f"its {where} does not rise")
    require(scores[0] > -np.inf, f"its {where} holds minus infinity")
    finite = infinite or scores[-1] < np.inf
    require(finite, f"its {where} is infinite, which only allow_empty=false gives")


def _check_range(fitted: Fitted) -> None:
    """Refuse calibration scores beyond what curves between two levels can combine to."""
    scores, rule = fitted.calibration, fitted.rule
    if hasattr(rule.transform, "ends") and (rule.weights >= 0).all():
        low, high = (float(combine(end[None, :], rule.weights)[0]) for end in rule.transform.ends)
        low -= 0.0 if rule.limits is None else rule.limits.drop
        inside = (scores >= low) & ((scores <= high) | np.isinf(scores))
        require(inside.all(), "its fitted.calibration leaves the range of its scale")


def _check_search(fitted: Calibrated, n_classes: int) -> None:
    result, facts = fitted.search, fitted.ledger.facts
    size = fitted.held_out_size
    check_type(size, "float | None", "fitted.held_out_size")
    possible = size is None or (facts.split in ("vfcp", "fixed") and 0 <= size <= n_classes)
    require(possible, f"its fitted.held_out_size cannot be {shortened(size)}")
    require((result is None) == (facts.split == "fixed"), "its search does not go with the split")
    if result is None:
        return
    check_fields(result, "search")
    same = np.array_equal(result.weights, fitted.rule.weights)
    require(same, "its search.weights are not its fitted.weights")
    rows = {
        "vfcp": facts.n_tune, "efcp": facts.n_cal, "dlcp": facts.n_test,
        "dlcp+": facts.n_cal + facts.n_test,
    }  # fmt: skip
    agree("search.n_size", result.n_size, "the split counts sizes on", rows[facts.split])
    require(0 <= result.count <= result.n_size * n_classes, "its search.count cannot be")
    require(1 <= result.n_evaluated < MOST, "its search.n_evaluated cannot be")
    counted = facts.n_weights in (0, result.n_evaluated)
    require(counted, "its facts.n_weights is not the number of weights that the search says")


def check_votes(votes: FloatArray, facts: Facts) -> None:
    """Refuse scores of a vote that are not one finite number per calibration row and score."""
    proper = votes.shape == (facts.n_cal, facts.d) and votes.dtype == np.float64
    require(
        proper and np.isfinite(votes).all(), "its fitted.votes are not (n_cal, d) finite scores"
    )
    agree("facts.calibration", facts.calibration, "its fitted.type is", "vote")
    agree("facts.split", facts.split, "a vote has", "fixed")


def _check_vote(fitted: Any, predictor: Predictor) -> None:
    facts = fitted.ledger.facts
    agree("facts.alpha", facts.alpha, "predictor.alpha is", float(predictor.alpha))
    agree("facts.n_classes", facts.n_classes, "predictor.n_classes is", predictor.n_classes)
    agree("facts.d", facts.d, "the number of predictor.columns is", len(predictor.columns))
    _check_teachers(predictor, facts.n_batch, facts.n_unlabelled)
    _check_search(fitted, predictor.n_classes)


def _check_exact(fitted: Any, predictor: Predictor) -> None:
    d, n_classes, n = len(predictor.columns), predictor.n_classes, len(fitted.y)
    fits = n > 0 and fitted.scores.shape == (n, n_classes, d) and fitted.y.ndim == 1
    require(fits and fitted.scores.dtype == np.float64, "its fitted.scores are not (n, K, d)")
    require(np.isfinite(fitted.scores).all(), "its fitted.scores are not finite")
    inside = ((fitted.y >= 0) & (fitted.y < n_classes)).all()
    require(inside, "its fitted.y holds labels out of range")
    weights = fitted.weights
    proper = weights.ndim == 2 and weights.shape[1] == d and len(weights) > 0
    proper = proper and weights.dtype == np.float64 and np.isfinite(weights).all()
    require(proper, "its fitted.weights are not finite numbers of shape (M, d)")
    distinct = len(np.unique(weights, axis=0)) == len(weights)
    require(distinct, "its fitted.weights hold a candidate twice")
    agree("fitted.alpha", float(fitted.alpha), "predictor.alpha is", float(predictor.alpha))
    n_others = fitted.n_unlabelled
    require(0 <= n_others < MOST, f"its fitted.n_unlabelled cannot be {shortened(n_others)}")
    _check_teachers(predictor, 0, n_others)
    by_class = getattr(fitted.plan, "what", None) == "class"
    require(by_class or not fitted.tuned, "its fitted.tuned is of a threshold per class")
    check_transform(fitted.transform, d, fitted.normalizer)
    if hasattr(fitted.transform, "ends"):
        low, high = fitted.transform.ends
        inside = ((fitted.scores >= low) & (fitted.scores <= high)).all()
        require(inside, "its fitted.scores leave the range of their scale")


def check_transform(transform: Any, d: int, name: str) -> None:
    """Refuse a scale that is not one of d scores, or not what the name of a normaliser says."""
    if hasattr(transform, "factors"):
        factors = np.array(transform.factors)
        fits = factors.shape == (d,) and np.isfinite(factors).all() and (factors > 0).all()
        require(fits, "its transform.factors are not one positive number per score")
        require(name != "ecdf", "its transform is no ecdf, though normalizer says so")
        require(name != "none" or (factors == 1).all(), "its transform scales, though normalizer "
                 "is none")  # fmt: skip
    else:
        require(len(transform.knots) == len(transform.levels) == d, "its transform.curves do not "
                 "fit the scores")  # fmt: skip
        require(name not in ("none", "scale"), f"its transform bends, though normalizer is {name}")
        for knots, levels in zip(transform.knots, transform.levels, strict=True):
            same = knots.ndim == 1 and knots.shape == levels.shape and knots.size > 0
            rises = same and _rising(knots, strictly=True) and _rising(levels)
            require(rises, "a curve of its transform does not rise")
            if name == "ecdf":
                shares = levels[0] > 0 and levels[-1] == 1
                require(shares, "a curve of its transform does not end at 1, as an ecdf does")


def _rising(values: FloatArray, *, strictly: bool = False) -> bool:
    steps = np.diff(values)
    return bool(np.isfinite(values).all() and ((steps > 0) if strictly else (steps >= 0)).all())


def check_partition(part: Partition, n_classes: int) -> None:
    """Refuse cells that do not fit their scheme, before anything is looked up in them."""
    cells, names = part.cells, part.names
    whole = cells.dtype == np.int64
    require(whole and cells.shape == (len(names) + 1, n_classes), "its cuts.cells are not one "
             "stratum per group and class")  # fmt: skip
    kinds = {type(name) for name in names}
    proper = kinds <= {int} or kinds <= {str}
    rise = proper and all(a < b for a, b in pairwise(names))
    require(rise, "its cuts.names are not different texts or integers that rise")
    # They make up the statement of what holds, which no file may word.
    require(part.what in STRATA, f"its cuts.what cannot be {shortened(part.what)}")
    require(part.fallback in FALLBACKS, f"its cuts.fallback cannot be {shortened(part.fallback)}")
    require(
        bool(names) == part.what.startswith(("group", "bin")),
        "its cuts.names do not go with cuts.what",
    )
    n_rare = check_type(part.n_rare, "int", "cuts.n_rare")
    _check_cells(part, n_classes, n_rare)


def check_strata(part: Partition, stratum: IntArray, scores: FloatArray) -> None:
    """Refuse strata of calibration scores that are not those of the cells."""
    fits = stratum.dtype == np.int64 and stratum.shape == scores.shape
    require(fits, "its cuts.stratum is not one per calibration score")
    require(np.isin(stratum, part.cells).all(), "its cuts.stratum names strata that no cell has")


def check_plan(
    plan: Any, groups: IntArray | None, weight: FloatArray | None, n: int, n_classes: int
) -> None:
    """Refuse what the rows of the exact split cannot be calibrated by, or do not bring along."""
    needs = plan.needs
    require(
        (groups is not None) == ("strata" in needs), "its fitted.strata do not go with its plan"
    )
    require((weight is not None) == ("sample_weight" in needs), "its fitted.sample_weight does not "
             "go with its plan")  # fmt: skip
    if not plan.by_row:
        return
    if hasattr(plan, "cells"):
        check_partition(plan, n_classes)
        if groups is not None:
            fits = groups.dtype == np.int64 and groups.shape == (n,)
            known = fits and ((groups >= 0) & (groups < len(plan.names))).all()
            require(known, "its fitted.strata are not one group of its plan per row")
        return
    ratios = None
    if weight is None:
        ratios = np.array([check_type(r, "float", "plan.ratios") for r in plan.ratios], dtype=float)
        weight = ratios
    check_importance(weight, ratios, len(ratios) if ratios is not None else n, n_classes)


def _check_cells(part: Partition, n_classes: int, n_rare: int) -> None:
    """Refuse cells that this scheme does not lay down (`conformix.calibration`)."""
    cells = part.cells
    if part.what == "cluster":
        strata = np.unique(cells[cells >= 0])
        gapless = np.array_equal(strata, np.arange(len(strata)))  # not as many as a file says
        stand = stand_in(part.fallback, pool=int(cells.max()))
        negative = part.fallback != "pooled"
        rare = int((cells == stand).sum()) if negative or n_rare else 0
        apart = ((cells >= 0) | (negative & (cells == stand))).all()
        require(gapless and apart and rare == n_rare, "its cuts.cells are no clusters of classes")
        return
    groups = max(len(part.names), 1)
    width = 1 if part.what == "group" else n_classes
    expected = np.broadcast_to(
        np.arange(groups * width).reshape(groups, width), (groups, n_classes)
    )
    stand = stand_in(part.fallback, pool=groups * width)
    known = cells[:groups]
    rare = known == stand
    fits = (rare | (known == expected)).all() and (cells[groups:] == stand).all()
    require(fits, f"its cuts.cells are not those of one stratum per {part.what}")
    units = int(rare[:, :width].sum()) if width > 1 else int(rare.all(axis=1).sum())
    agree("cuts.n_rare", n_rare, "the number of cells without a stratum of their own is", units)


def check_importance(weight: FloatArray, ratios: FloatArray | None, n: int, n_classes: int) -> None:
    """Refuse importance weights of calibration rows that cannot be."""
    require(weight.shape == (n,) and _importances(weight), "its cuts.weight are not one "
             "finite number from 0 on per calibration score, some above 0")  # fmt: skip
    if ratios is not None:
        fits = ratios.shape == (n_classes,) and _importances(ratios)
        require(fits, "its cuts.ratios are not one finite number from 0 on per class")
        require(np.isin(weight, ratios).all(), "its cuts.weight are not among its cuts.ratios")


def _importances(values: FloatArray) -> bool:
    proper = values.dtype == np.float64 and np.isfinite(values).all() and (values >= 0).all()
    with np.errstate(over="ignore"):
        return bool(proper and 0 < values.sum() < np.inf)


def check_cuts(fitted: Calibrated, n_classes: int) -> None:
    """Refuse cuts that do not go with the facts of the fit."""
    cuts, facts, limits = fitted.cuts, fitted.ledger.facts, fitted.rule.limits
    fixed = getattr(cuts.plan, "fixed", None)  # of strata alone
    if fixed is not None and cuts.name == "cluster":
        agree("cuts.fixed", fixed, "for clusters it is", True)
    elif fixed is not None and facts.split != "fixed":
        agree("cuts.fixed", fixed, "facts.separate is", facts.separate)
    if limits is not None:
        require(cuts.name == "class", "its limits go with a threshold per class only")
        check_limits(limits, n_classes)


def check_limits(limits: Any, n_classes: int) -> None:
    """Refuse ranks that classes cannot have."""
    proper = limits.ranks.shape == (n_classes,) and limits.ranks.dtype == np.int64
    inside = proper and ((limits.ranks >= 1) & (limits.ranks <= n_classes)).all()
    require(inside, "its limits.ranks are not one rank from 1 to K per class")
    require(1 <= limits.drop < np.inf, "its limits.drop is no finite number from 1 on")


def check_settings(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse settings that are not those of the fit: the model would claim what it does not do."""
    fitted = predictor.fitted
    facts = fitted.ledger.facts
    alpha = float(params["alpha"])
    agree("params.alpha", alpha, "that of the fit is", float(predictor.alpha))
    kind = read_as(params["kind"], renormalize=params.get("renormalize", False))
    agree("params.kind", kind, "that of the fit is", predictor.kind)
    split = resolve_split(params["split"]).name
    by_hand = params["weights"] is not None
    allowed = ("fixed",) if by_hand else (split, "fixed")
    require(facts.split in allowed, f"its params.split is {split}, but that of the fit is "
             f"{facts.split}")  # fmt: skip
    allow_empty = bool(params["allow_empty"])
    agree("params.allow_empty", allow_empty, "that of the fit is", bool(fitted.rule.allow_empty))
    delta = float(params["delta"]) if params["guarantee"] == "pac" else None
    ranked = None if facts.rank.delta is None else float(facts.rank.delta)
    agree("params.guarantee at delta", delta, "that of the fit is", ranked)
    how = None if predictor.ensemble is None else predictor.ensemble.how
    agree("params.ensemble", params.get("ensemble"), "that of the fit is", how)
    blended = isinstance(params["scores"], str) and params["scores"] == "auto"
    agree("params.scores auto", blended, "a blend in the fit is", predictor.blend is not None)
    if not blended:
        same = score_columns(predictor.scored_models, params["scores"]) == predictor.columns
        require(same, "its params.scores are not its predictor.columns")
    if facts.split not in ("fixed", "exact") and not blended:
        level = params["tune_alpha"] if params["tune_alpha"] is not None else alpha
        agree("params.tune_alpha", float(level), "that of the fit is", float(facts.tune_alpha))
    _check_normalize(params, predictor)
    _check_calibration(params, fitted)


def _check_normalize(params: dict[str, Any], predictor: Predictor) -> None:
    fitted, wish = predictor.fitted, params["normalize"]
    if isinstance(wish, str) and wish in NORMALIZERS:
        agree("params.normalize", wish, "that of the fit is", fitted.normalizer)
    factors = getattr(fitted.transform, "factors", None)
    if fitted.normalizer != "scale" or factors is None:
        return
    scale = resolve_normalizer(wish, separate=False)
    if not hasattr(scale, "widths"):
        return  # a normaliser of the user's that calls itself scale
    empty = np.zeros((0, predictor.n_classes, len(predictor.columns)))
    expected: Any = scale.fit(empty, predictor.columns)
    same = np.array_equal(factors, expected.factors)
    require(same, "its transform.factors are not those of params.normalize")


def _check_calibration(params: dict[str, Any], fitted: Fitted) -> None:
    scheme: Any = resolve_calibration(params["calibration"])
    name = getattr(scheme, "what", scheme.name)
    agree("params.calibration", name, "that of the fit is", fitted.ledger.facts.calibration)
    agree("params.calibration rc3p", hasattr(scheme, "limits"), "limits of ranks are",
           fitted.limits is not None)  # fmt: skip
    # What the scheme and the plan that it has laid down both hold is the same.
    plan: Any = fitted.plan
    for name in {one.name for one in fields(scheme)} & {one.name for one in fields(plan)}:
        option, fixed = getattr(scheme, name), getattr(plan, name)
        require(np.array_equal(option, fixed), f"its params.calibration.{name} is "
                f"{shortened(option)}, but that of the fit is {shortened(fixed)}")  # fmt: skip
    if not fitted.nested:
        agree("params.calibration.tune", bool(scheme.tune), "that of the fit is",
              fitted.tuned)  # type: ignore[attr-defined]  # fmt: skip
    if not fitted.nested and getattr(scheme, "counts_candidate", False):
        _check_counted(scheme, fitted)


def _check_counted(scheme: Any, fitted: Any) -> None:
    """Refuse strata that are not those which the rows of the exact split lay down."""
    plan = fitted.plan
    expected: Any = laid_down(scheme, fitted, plan.names, np.random.default_rng(0))
    same = np.array_equal(plan.cells, expected.cells) and plan.joins == expected.joins
    require(same, "its plan is not the one that its rows lay down")
    agree("plan.fixed", plan.fixed, "under split exact it is", expected.fixed)


def check_candidates(params: dict[str, Any], rows: FloatArray, *, blended: bool = False) -> None:
    """Refuse weights (M, d) off the simplex, unless they are among candidates that were given."""
    search: Any = resolve_search(params["search"])
    listed = getattr(search, "listed", None)
    if params["weights"] is not None:
        same = np.array_equal(np.asarray(params["weights"], dtype=np.float64), rows[0])
        require(same, "its fitted.weights are not its params.weights")
    elif listed is not None and listed.ndim == 2 and listed.shape[1] == rows.shape[1]:
        if search.ends_among and not blended:
            candidates = {tuple(row) for row in listed.tolist()}
            among = all(tuple(row) in candidates for row in rows.tolist())
            require(among, "its fitted.weights are not among the candidates of params.search")
        return
    positive = (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= SIMPLEX_ERROR).all()
    require(positive, "its fitted.weights are not from 0 on and of sum 1")
