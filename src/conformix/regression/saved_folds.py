"""Folds of regressors as a document, and back: what predicts intervals, never the models.

A fold is written as the average that it is, by what writes averages, with the scores of its rows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformix import __version__
from conformix.atomic import as_path
from conformix.calibration.cuts import SinglePlan
from conformix.conformal import simple_fraction
from conformix.data.files.limits import Limits
from conformix.fit.saved.checks import agree, check_rising, require
from conformix.fit.saved.codec import Arrays, check_type, field_of, refuse_unknown
from conformix.fit.saved.cross import check_laid_down, strata_in, strata_out
from conformix.fit.saved.files import MAX_MEMORY, memory_limits, read_json
from conformix.fit.saved.folder import read_whole
from conformix.fit.saved.migrations import SCHEMA
from conformix.fit.saved.model import PLANS, array_in, reading, refuse_changed, write_document
from conformix.regression.bins import resolve_regression_calibration
from conformix.regression.folds import CrossLine, LineFold
from conformix.regression.regressed import check_range
from conformix.regression.saved import (
    check_parts,
    check_settings,
    in_numbers,
    params_in,
    params_out,
    predictor_in,
    predictor_out,
)

FORMAT = "conformix cross regression model"
_DOCUMENT = ("format", "schema", "version", "params", "cross", "npz", "npz_sha256")
_CROSS = ("alpha", "allow_empty", "plan", "folds")
_FOLD = ("predictor", "calibration", "strata")
# What folds have no choice in, as the settings of an average spell it; and what is that of all
# folds together, where the average of one has none.
_SETTLED: dict[str, Any] = {
    "split": "efcp", "guarantee": "marginal", "delta": 0.1, "random_state": None,
}  # fmt: skip
_TOGETHER: dict[str, Any] = {"allow_empty": True, "y_range": None, "calibration": "marginal"}


def write_folds(params: dict[str, Any], cross: CrossLine, path: str | os.PathLike[str]) -> None:
    """Write what predicts from the outputs of the fold models, as JSON."""
    arrays, first = Arrays(), cross.folds[0].predictor
    params = in_numbers(_SETTLED | params, first)
    settings = params_out(params, first, arrays)
    plan: Any = cross.plan
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "params": {name: value for name, value in settings.items() if name not in _SETTLED},
        "cross": {
            "alpha": float(cross.alpha),
            "allow_empty": bool(cross.allow_empty),
            "plan": PLANS.write(plan, arrays) if plan.by_row else None,
            "folds": [_fold_out(fold, plan, arrays) for fold in cross.folds],
        },
    }
    refuse_changed(lambda: _check_settings(params, cross))
    write_document(document, arrays, as_path(path))


def read_folds(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> tuple[dict[str, Any], CrossLine]:
    """Return the settings of `write_folds`, and what was fitted."""
    source, limits = as_path(path), memory_limits(max_memory)
    return read_whole(source, lambda: _in(source, read_json(source, limits, FORMAT), limits))


def _in(source: Path, document: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], CrossLine]:
    with reading(source, document, limits, _DOCUMENT) as arrays:
        given = field_of(document, "params", "dict", "contents")
        refuse_unknown(given, set(given) - set(_SETTLED), "params")
        params = params_in(given | _SETTLED, arrays)
        cross = _cross_in(
            field_of(document, "cross", "dict", "contents"), arrays, params["y_range"]
        )
        _check_folds(cross)
        _check_settings(params, cross)
        return {name: value for name, value in params.items() if name not in _SETTLED}, cross
    raise AssertionError  # `reading` returns or raises


def _fold_out(fold: LineFold, plan: Any, arrays: Arrays) -> dict[str, Any]:
    return {
        "predictor": predictor_out(replace(fold.predictor, seen=None), arrays),
        "calibration": arrays.put(fold.values),
        "strata": strata_out(fold.data, plan, arrays),
    }


def _cross_in(document: dict[str, Any], arrays: Arrays, y_range: Any) -> CrossLine:
    where = "cross"
    refuse_unknown(document, _CROSS, where)
    plan: Any = SinglePlan()
    if field_of(document, "plan", "dict | None", where) is not None:
        plan = PLANS.read(document["plan"], arrays, "plan")
    folds = field_of(document, "folds", "list", where)
    return CrossLine(
        tuple(_fold_in(fold, plan, arrays) for fold in folds),
        field_of(document, "alpha", "float", where),
        y_range,
        field_of(document, "allow_empty", "bool", where),
        plan,
    )


def _fold_in(document: Any, plan: Any, arrays: Arrays) -> LineFold:
    where = "folds"
    check_type(document, "dict", where)
    refuse_unknown(document, _FOLD, where)
    values = array_in(document, "calibration", arrays, where)
    require(values.ndim == 1, "its folds.calibration are not one score per row")
    predictor = predictor_in(field_of(document, "predictor", "dict", where), arrays, None)
    return LineFold(predictor, values, strata_in(document, plan, arrays, len(values), 1))


def _check_folds(cross: CrossLine) -> None:
    """Refuse folds whose parts do not fit together."""
    simple_fraction(cross.alpha, "its cross.alpha")
    require(len(cross.folds) >= 2, "its folds are fewer than two")
    first = cross.folds[0].predictor
    for fold in cross.folds:
        predictor = fold.predictor
        check_parts(predictor)
        require(predictor.fitted.nested, "its folds are no averages with one threshold")
        alike = predictor.columns == first.columns and predictor.shapes == first.shapes
        require(alike, "its folds are not averages of the same scores")
        check_rising(fold.values, "folds.calibration", infinite=False)


def _check_settings(params: dict[str, Any], cross: CrossLine) -> None:
    """Refuse settings that are not those of the fit."""
    agree("params.alpha", float(params["alpha"]), "that of the fit is", float(cross.alpha))
    empty = bool(params["allow_empty"])
    agree("params.allow_empty", empty, "that of the fit is", bool(cross.allow_empty))
    agree("params.y_range", check_range(params["y_range"]), "that of the fit is", cross.y_range)
    scheme: Any = resolve_regression_calibration(params["calibration"])
    name = getattr(scheme, "what", scheme.name)
    agree("params.calibration", name, "that of the fit is", cross.calibration)
    for fold in cross.folds:
        check_settings(params | _TOGETHER, fold.predictor)
    check_laid_down(scheme, cross, 1)
