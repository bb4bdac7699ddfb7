"""Cross-conformal models as documents, and back: what predicts from outputs, never the models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.atomic import as_path
from conformix.calibration import resolve_calibration
from conformix.calibration.cuts import SinglePlan, laid_down_alike
from conformix.conformal import simple_fraction
from conformix.data.files.limits import Limits
from conformix.data.labels import check_classes
from conformix.data.row_data import NO_DATA, RowData
from conformix.fit.cross import CrossPredictor, FoldRule, rows_of_folds
from conformix.fit.rule import Rule
from conformix.fit.saved.checks import (
    agree,
    check_candidates,
    check_columns,
    check_limits,
    check_plan,
    check_rising,
    check_transform,
    require,
)
from conformix.fit.saved.codec import Arrays, check_type, field_of, refuse_unknown
from conformix.fit.saved.files import MAX_MEMORY, memory_limits, read_json
from conformix.fit.saved.folder import read_whole
from conformix.fit.saved.migrations import SCHEMA
from conformix.fit.saved.model import (
    PLANS,
    TRANSFORMS,
    array_in,
    array_or_none,
    limits_in,
    limits_out,
    reading,
    refuse_changed,
    write_document,
)
from conformix.fit.saved.settings import columns_in, columns_out, settings_in, settings_out
from conformix.scores import score_columns
from conformix.scores.scale import NORMALIZERS

FORMAT = "conformix cross model"
_DOCUMENT = ("format", "schema", "version", "params", "cross", "npz", "npz_sha256")
_CROSS = (
    "columns", "models", "n_classes", "kind", "key", "alpha", "arithmetic", "allow_empty", "folds",
    "plan", "classes",
)  # fmt: skip
_FOLD = ("weights", "transform", "calibration", "y", "strata", "limits")
# What a cross-conformal model has no choice in, as the settings of an average spell it.
_SETTLED: dict[str, Any] = {
    "split": "efcp", "tune_alpha": None, "guarantee": "marginal", "delta": 0.1, "objective": "size",
    "ensemble": None,
}  # fmt: skip


def write_cross(
    params: dict[str, Any], predictor: CrossPredictor, path: str | os.PathLike[str]
) -> None:
    """Write what predicts from the outputs of the fold models, as JSON."""
    arrays = Arrays()
    settings = settings_out(_SETTLED | params, predictor, arrays)
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "params": {name: value for name, value in settings.items() if name not in _SETTLED},
        "cross": _cross_out(predictor, arrays),
    }
    fitted_scores = params | {"scores": tuple(settings["scores"])}
    refuse_changed(lambda: _check_settings(fitted_scores, predictor))
    write_document(document, arrays, as_path(path))


def read_cross(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> tuple[dict[str, Any], CrossPredictor]:
    """Return the constructor parameters and what was fitted."""
    source, limits = as_path(path), memory_limits(max_memory)
    return read_whole(source, lambda: _in(source, read_json(source, limits, FORMAT), limits))


def _in(
    source: Path, document: dict[str, Any], limits: Limits
) -> tuple[dict[str, Any], CrossPredictor]:
    with reading(source, document, limits, _DOCUMENT) as arrays:
        given = field_of(document, "params", "dict", "contents")
        refuse_unknown(given, set(given) - set(_SETTLED), "params")
        params = settings_in(given | _SETTLED, arrays)
        predictor = _cross_in(field_of(document, "cross", "dict", "contents"), arrays)
        _check_cross(predictor)
        _check_settings(params, predictor)
        return {name: value for name, value in params.items() if name not in _SETTLED}, predictor
    raise AssertionError  # `reading` returns or raises


def _cross_out(predictor: CrossPredictor, arrays: Arrays) -> dict[str, Any]:
    plan: Any = predictor.plan
    return {
        "columns": columns_out(predictor.columns, arrays),
        "models": list(predictor.models),
        "n_classes": predictor.n_classes,
        "kind": predictor.kind,
        "key": predictor.key,
        "alpha": float(predictor.alpha),
        "arithmetic": predictor.arithmetic,
        "allow_empty": predictor.folds[0].rule.allow_empty,
        "folds": [_fold_out(fold, plan, arrays) for fold in predictor.folds],
        "plan": PLANS.write(plan, arrays) if plan.by_row else None,
        "classes": None if predictor.classes is None else list(predictor.classes),
    }


def _fold_out(fold: FoldRule, plan: Any, arrays: Arrays) -> dict[str, Any]:
    return {
        "weights": arrays.put(fold.rule.weights),
        "transform": TRANSFORMS.write(fold.rule.transform, arrays),
        "calibration": arrays.put(fold.values),
        "y": arrays.put(fold.y.astype(np.int64)),
        "strata": strata_out(fold.data, plan, arrays),
        "limits": limits_out(fold.rule.limits, arrays),
    }


def strata_out(data: RowData, plan: Any, arrays: Arrays) -> Any:
    """Return the groups of the rows of a fold, by their places among the names of a plan."""
    return None if data.strata is None else arrays.put(plan.groups_of(data))


def strata_in(
    document: dict[str, Any], plan: Any, arrays: Arrays, n_rows: int, n_classes: int
) -> RowData:
    """Return the groups of the rows of a fold."""
    groups = array_or_none(document, "strata", arrays, "folds")
    check_plan(plan, groups, None, n_rows, n_classes)
    return NO_DATA if groups is None else RowData(np.array(plan.names)[groups])


def _cross_in(document: dict[str, Any], arrays: Arrays) -> CrossPredictor:
    where = "cross"
    refuse_unknown(document, _CROSS, where)
    n_classes = field_of(document, "n_classes", "int", where)
    models = field_of(document, "models", "list", where)
    plan: Any = SinglePlan()
    if field_of(document, "plan", "dict | None", where) is not None:
        plan = PLANS.read(document["plan"], arrays, "plan")
    folds = field_of(document, "folds", "list", where)
    allow_empty = field_of(document, "allow_empty", "bool", where)
    return CrossPredictor(
        columns_in(
            field_of(document, "columns", "list", where), "cross.columns", arrays, n_classes
        ),
        tuple(check_type(model, "str", "cross.models") for model in models),
        n_classes,
        field_of(document, "kind", "str", where),
        field_of(document, "key", "int", where),
        field_of(document, "alpha", "float", where),
        tuple(_fold_in(fold, plan, arrays, n_classes, allow_empty) for fold in folds),
        plan,
        arithmetic=field_of(document, "arithmetic", "str", where),
        classes=check_classes(
            check_type(document.get("classes"), "list | None", "cross.classes"), n_classes
        ),
    )


def _fold_in(
    document: Any, plan: Any, arrays: Arrays, n_classes: int, allow_empty: bool
) -> FoldRule:
    where = "folds"
    check_type(document, "dict", where)
    refuse_unknown(document, _FOLD, where)
    values, y = (array_in(document, name, arrays, where) for name in ("calibration", "y"))
    fits = values.ndim == 1 and y.shape == values.shape and y.dtype == np.int64
    require(fits and ((y >= 0) & (y < n_classes)).all(), "its folds.y are not one label per score")
    data = strata_in(document, plan, arrays, len(y), n_classes)
    rule = Rule(
        TRANSFORMS.read(field_of(document, "transform", "dict", where), arrays, "transform"),
        array_in(document, "weights", arrays, where),
        allow_empty,
        limits_in(field_of(document, "limits", "dict | None", where), arrays),
    )
    return FoldRule(rule, values, y.astype(np.intp), data)


def _check_cross(predictor: CrossPredictor) -> None:
    """Refuse folds whose parts do not fit together."""
    check_columns(predictor, predictor.models)
    d, n_classes = len(predictor.columns), predictor.n_classes
    simple_fraction(predictor.alpha, "its cross.alpha")
    require(len(predictor.folds) >= 2, "its folds are fewer than two")
    for fold in predictor.folds:
        weights = fold.rule.weights
        proper = weights.shape == (d,) and weights.dtype == np.float64
        proper = bool(proper and np.isfinite(weights).all())
        require(proper, "its folds.weights are not one finite number per score")
        check_transform(fold.rule.transform, d, "")
        check_rising(fold.values, "folds.calibration", infinite=not fold.rule.allow_empty)
        if fold.rule.limits is not None:
            check_limits(fold.rule.limits, n_classes)


def _check_settings(params: dict[str, Any], predictor: CrossPredictor) -> None:
    """Refuse settings that are not those of the fit."""
    agree("params.alpha", float(params["alpha"]), "that of the fit is", float(predictor.alpha))
    agree("params.kind", params["kind"], "that of the fit is", predictor.kind)
    empty = predictor.folds[0].rule.allow_empty
    agree("params.allow_empty", bool(params["allow_empty"]), "that of the fit is", bool(empty))
    same = score_columns(predictor.models, params["scores"]) == predictor.columns
    require(same, "its params.scores are not its cross.columns")
    wish = params["normalize"]
    for fold in predictor.folds:
        if isinstance(wish, str) and wish in NORMALIZERS:
            check_transform(fold.rule.transform, len(predictor.columns), wish)
        check_candidates(params, fold.rule.weights[None, :])
    scheme: Any = resolve_calibration(params["calibration"])
    name = getattr(scheme, "what", scheme.name)
    agree("params.calibration", name, "that of the fit is", predictor.calibration)
    ranked = [fold.rule.limits is not None for fold in predictor.folds]
    agree(
        "params.calibration rc3p", [hasattr(scheme, "limits")] * len(ranked), "limits are", ranked
    )
    check_laid_down(scheme, predictor, predictor.n_classes)


def check_laid_down(scheme: Any, predictor: Any, n_classes: int) -> None:
    """Refuse cells of folds that their rows do not lay down."""
    plan: Any = predictor.plan
    if plan.by_row:
        y, data = rows_of_folds(predictor.folds)
        expected: Any = laid_down_alike(
            scheme, y, data, plan.names, n_classes=n_classes, alpha=predictor.alpha,
            rng=np.random.default_rng(0),
        )  # fmt: skip
        same = np.array_equal(plan.cells, expected.cells)
        for one in ("joins", "fixed", "fallback", "what", "n_rare"):
            same = same and getattr(plan, one) == getattr(expected, one)
        require(same, "its plan is not the one that its rows lay down")
