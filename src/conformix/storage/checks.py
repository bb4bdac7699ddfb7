"""What a model file must agree on before anything is computed with it.

Kernels trust their arrays, so a file is trusted only after its parts fit together.
"""

from __future__ import annotations

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.exact.fitted import FullFitted
from conformix.guarantees import Facts
from conformix.guarantees.order import MOST
from conformix.inputs import KINDS
from conformix.normalize import Interpolated, Scaled, Transform
from conformix.pipeline import Fitted
from conformix.predictor import Predictor


def check_predictor(predictor: Predictor) -> Predictor:
    """Return the predictor if its parts agree, else say in one sentence what does not."""
    d = len(predictor.columns)
    _require(d > 0, "it names no score")
    _require(predictor.kind in KINDS, "its kind is neither probs nor logits")
    _require(predictor.n_classes > 0, "it has no classes")
    _require(0 <= predictor.key < 2**63, "its key is out of range")
    _require(len(set(predictor.models)) == len(predictor.models) > 0, "its models are not distinct")
    blend = predictor.blend
    scored = predictor.models if blend is None else (blend.name,)
    known = all(column.model in scored for column in predictor.columns)
    if blend is not None:
        known = known and all(column.model in predictor.models for column in blend.columns)
    _require(known, "a score belongs to a model that is not listed")
    simple_fraction(predictor.alpha)
    if isinstance(predictor.fitted, Fitted):
        _check_rule(predictor.fitted, d)
        same = predictor.fitted.ledger.facts.n_classes == predictor.n_classes
        _require(same, "its numbers of classes differ")
    else:
        _check_exact(predictor.fitted, d, predictor.n_classes)
    return predictor


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidInput(what)


def _check_rule(fitted: Fitted, d: int) -> None:
    weights, calibration = fitted.rule.weights, fitted.calibration
    _require(weights.shape == (d,) and bool(np.isfinite(weights).all()), "its weights do not fit")
    proper = calibration.ndim == 1 and calibration.size > 0 and calibration.dtype == np.float64
    _require(proper and not np.isnan(calibration).any(), "its calibration scores do not fit")
    own = calibration if fitted.reference is None else fitted.reference
    proper = own.shape == calibration.shape and own.dtype == np.float64
    _require(proper and not np.isnan(own).any(), "its scores under equal weights do not fit")
    _check_transform(fitted.rule.transform, d)
    check_facts(fitted.ledger.facts)


def _check_exact(fitted: FullFitted, d: int, n_classes: int) -> None:
    n = len(fitted.y)
    _require(
        n > 0 and fitted.scores.shape == (n, n_classes, d), "its calibration scores do not fit"
    )
    _require(bool(np.isfinite(fitted.scores).all()), "its calibration scores are not finite")
    _require(bool(((fitted.y >= 0) & (fitted.y < n_classes)).all()), "its labels are out of range")
    weights = fitted.weights
    proper = weights.ndim == 2 and weights.shape[1] == d and len(weights) > 0
    _require(proper and bool(np.isfinite(weights).all()), "its candidate weights do not fit")
    simple_fraction(fitted.alpha)
    _check_transform(fitted.transform, d)


def _check_transform(transform: Transform, d: int) -> None:
    if isinstance(transform, Scaled):
        fits = len(transform.factors) == d and bool(np.isfinite(transform.factors).all())
        _require(fits, "the factors of its scale do not fit")
    elif isinstance(transform, Interpolated):
        _require(len(transform.knots) == len(transform.levels) == d, "its curves do not fit")
        for knots, levels in zip(transform.knots, transform.levels, strict=True):
            same = knots.ndim == 1 and knots.shape == levels.shape and knots.size > 0
            _require(same and _rising(knots) and _rising(levels), "a curve of its scale is not one")


def _rising(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all() and (np.diff(values) >= 0).all())


def check_facts(facts: Facts) -> None:
    """Refuse numbers of a fit that cannot be."""
    counts = (facts.n_tune, facts.n_test, facts.n_weights)
    sizes = (facts.n_cal, facts.n_classes, facts.d, facts.rank.n_weights)
    whole = all(type(value) is int for value in (*counts, *sizes))
    proper = whole and min(counts) >= 0 and min(sizes) >= 1 and max(*counts, *sizes) < MOST
    _require(proper, "the numbers of its fit cannot be")
    _require(type(facts.grouped) is bool, "whether its rows came in groups is not said")
    simple_fraction(facts.alpha)
    simple_fraction(facts.tune_alpha, "tune_alpha")
    if facts.rank.delta is not None:
        simple_fraction(facts.rank.delta, "delta")
    batch = facts.rank.batch
    possible = batch is None or (type(batch) is int and 1 <= batch < MOST)
    _require(possible, "its batch size cannot be")
