"""The settings in a model file are those of its fit: it claims what it does, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.calibration import LabelShift, RankedPerClass, Weighted, resolve_calibration
from conformix.calibration.schemes import PerGroup
from conformix.calibration.strata import Stratified
from conformix.calibration.weighted import Reweighted
from conformix.fit.exact.split import FullFitted
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Fitted
from conformix.fit.saved.checks import agree, check_predictor, check_range, require
from conformix.kernels.arrays import FloatArray
from conformix.scores import score_columns
from conformix.scores.scale import NORMALIZERS, NaturalScale, Scaled
from conformix.search import Candidates, OneStandardError
from conformix.splits import resolve_split

# How far weights may sum from one: they come from steps of a search in floating point.
SIMPLEX_ERROR = 1e-6


def check_model(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse a model whose parts contradict each other."""
    check_predictor(predictor)
    check_settings(params, predictor)
    _check_weights(params, predictor)
    if isinstance(predictor.fitted, Fitted):
        check_range(predictor.fitted)


def check_settings(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse settings that are not those of the fit: the model would claim what it does not do."""
    fitted = predictor.fitted
    facts = fitted.ledger.facts
    alpha = float(params["alpha"])
    agree("params.alpha", alpha, "that of the fit is", float(predictor.alpha))
    agree("params.kind", params["kind"], "that of the fit is", predictor.kind)
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
    blended = isinstance(params["scores"], str) and params["scores"] == "auto"
    agree("params.scores auto", blended, "a blend in the fit is", predictor.blend is not None)
    if not blended:
        same = score_columns(predictor.models, params["scores"]) == predictor.columns
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
    transform = fitted.rule.transform if isinstance(fitted, Fitted) else fitted.transform
    if fitted.normalizer != "scale" or not isinstance(transform, Scaled):
        return
    if hasattr(wish, "fit"):
        wish = wish.widths if isinstance(wish, NaturalScale) else wish
        if wish is not None and hasattr(wish, "fit"):
            return  # a normaliser of the user's that calls itself scale
    given = None if wish is None or isinstance(wish, str) else tuple(float(w) for w in wish)
    empty = np.zeros((0, predictor.n_classes, len(predictor.columns)))
    expected: Any = NaturalScale(given).fit(empty, predictor.columns)
    same = np.array_equal(transform.factors, expected.factors)
    require(same, "its transform.factors are not those of params.normalize")


def _check_calibration(params: dict[str, Any], fitted: Fitted | FullFitted) -> None:
    scheme: Any = resolve_calibration(params["calibration"])
    cuts = fitted.cuts if isinstance(fitted, Fitted) else None
    name = "marginal" if cuts is None else cuts.name
    own = "class" if isinstance(scheme, RankedPerClass) else scheme.name
    if isinstance(scheme, PerGroup) and scheme.by_class:
        own = "group and class"
    agree("params.calibration", own, "that of the fit is", name)
    limited = isinstance(fitted, Fitted) and fitted.rule.limits is not None
    agree("params.calibration rc3p", isinstance(scheme, RankedPerClass), "limits of ranks are",
           limited)  # fmt: skip
    if isinstance(cuts, Stratified):
        agree("params.calibration.fallback", scheme.fallback, "that of the fit is",
               cuts.partition.fallback)  # fmt: skip
    if isinstance(cuts, Reweighted) and isinstance(scheme, Weighted | LabelShift):
        agree("params.calibration.known", bool(scheme.known), "that of the fit is",
               bool(cuts.plan.known))  # fmt: skip
    if isinstance(scheme, LabelShift) and cuts is not None:
        same = np.array_equal(scheme.by_class, cuts.plan.by_class)  # type: ignore[attr-defined]
        require(same, "its params.calibration.ratios are not those of the fit")


def _check_weights(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse weights off the simplex, unless they are among candidates that were given."""
    fitted = predictor.fitted
    rows = fitted.weights if isinstance(fitted, FullFitted) else fitted.rule.weights[None, :]
    given = _candidates(params["search"])
    if params["weights"] is not None:
        same = np.array_equal(np.asarray(params["weights"], dtype=np.float64), rows[0])
        require(same, "its fitted.weights are not its params.weights")
    elif given is not None and given.ndim == 2 and given.shape[1] == rows.shape[1]:
        if not isinstance(params["search"], OneStandardError) and predictor.blend is None:
            listed = {tuple(row) for row in given.tolist()}
            among = all(tuple(row) in listed for row in rows.tolist())
            require(among, "its fitted.weights are not among the candidates of params.search")
        return
    positive = (rows >= 0).all() and (np.abs(rows.sum(axis=1) - 1) <= SIMPLEX_ERROR).all()
    require(positive, "its fitted.weights are not from 0 on and of sum 1")


def _candidates(search: Any) -> FloatArray | None:
    """Return the candidates that a setting holds, wherever they stand in it."""
    if isinstance(search, OneStandardError):
        return _candidates(search.search)
    if isinstance(search, Candidates):
        search = search.weights
    if isinstance(search, str) or callable(search) or search is None:
        return None
    return np.asarray(search, dtype=np.float64)
