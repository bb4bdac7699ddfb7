"""A fitted model of responses as a document, and back.

The codec, the arrays and the checks of the rooms that save classifications; the guarantee is worked
out from the numbers of the fit, never read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conformix import __version__
from conformix.atomic import as_path
from conformix.calibration.cuts import Single
from conformix.conformal import simple_fraction
from conformix.data.files.limits import Limits
from conformix.fit.fit import stated
from conformix.fit.rule import Calibrated
from conformix.fit.saved.checks import (
    agree,
    check_candidates,
    check_cuts,
    check_scores,
    check_seen,
    require,
)
from conformix.fit.saved.codec import Arrays, Codec, Form, check_type, field_of, refuse_unknown
from conformix.fit.saved.files import MAX_MEMORY, memory_limits, read_json
from conformix.fit.saved.folder import read_whole
from conformix.fit.saved.migrations import SCHEMA
from conformix.fit.saved.model import (
    CUTS,
    array_in,
    array_or_none,
    facts_in,
    plan_in,
    plan_out,
    reading,
    refuse_changed,
    rule_out,
    seen_in,
    seen_out,
    write_document,
)
from conformix.fit.saved.settings import CODECS, columns_in, columns_out, registered
from conformix.fit.settings import are_equal
from conformix.guarantees import EXACT, Ledger, ResponseFacts
from conformix.kernels.arrays import FloatArray
from conformix.regression.bins import (
    REGRESSION_CALIBRATIONS,
    Bins,
    resolve_regression_calibration,
)
from conformix.regression.exact import HullFitted
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import PARTS, Regressed, RegressedOutputs, Shape, check_range
from conformix.regression.rule import LineRule, Responses, span_of
from conformix.regression.scale import LineScale
from conformix.regression.scores import NOTATION, is_auto, regression_columns
from conformix.regression.search import WidthResult
from conformix.regression.settings import resolve_regression
from conformix.scores.names import Column
from conformix.splits import SPLITS

FORMAT = "conformix regression model"
_DOCUMENT = ("format", "schema", "version", "params", "predictor", "npz", "npz_sha256")
_PARAMS = {
    "scores": "list", "alpha": "float", "split": "str | dict", "search": "str | dict",
    "normalize": "str | list", "weights": "dict | None", "tune_alpha": "list | None",
    "allow_empty": "bool", "guarantee": "str", "delta": "float", "calibration": "str | dict",
    "y_range": "dict | None", "random_state": "int | None",
}  # fmt: skip
_PREDICTOR = ("columns", "models", "key", "alpha", "fitted", "bins", "seen")
_RULE = (
    "type", "weights", "transform", "allow_empty", "calibration", "guarantee", "facts",
    "normalizer", "search", "held_out_size", "cuts", "reference",
)  # fmt: skip
_HULL = (
    "type", "rows", "y", "weights", "transform", "alpha", "allow_empty", "grouped", "plan",
    "strata", "sample_weight",
)  # fmt: skip
_BINS = ("weights", "transform", "threshold", "edges")
_CALIBRATION = Codec(
    "calibration", registered(REGRESSION_CALIBRATIONS), "pair", resolve_regression_calibration
)
_CODECS = {"split": CODECS["split"], "search": CODECS["search"], "calibration": _CALIBRATION}


def write_regression(
    params: dict[str, Any], predictor: LinePredictor, path: str | os.PathLike[str]
) -> None:
    """Write a fitted model as JSON, with large arrays in an npz of the same name."""
    arrays = Arrays()
    params = in_numbers(params, predictor)
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "params": params_out(params, predictor, arrays),
        "predictor": predictor_out(predictor, arrays),
    }
    refuse_changed(lambda: check_settings(params, predictor))
    write_document(document, arrays, as_path(path))


def in_numbers(params: dict[str, Any], predictor: LinePredictor) -> dict[str, Any]:
    """Return settings with equal weights as the numbers that a file has."""
    if not are_equal(params["weights"]):
        return params
    return params | {"weights": predictor.fitted.rule.weights}


def read_regression(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> tuple[dict[str, Any], LinePredictor]:
    """Return the constructor parameters and the predictor of a saved model."""
    source, limits = as_path(path), memory_limits(max_memory)
    return read_whole(source, lambda: _in(source, read_json(source, limits, FORMAT), limits))


def _in(
    source: Path, document: dict[str, Any], limits: Limits
) -> tuple[dict[str, Any], LinePredictor]:
    with reading(source, document, limits, _DOCUMENT) as arrays:
        params = params_in(field_of(document, "params", "dict", "contents"), arrays)
        resolve_regression(**params)
        predictor = predictor_in(document["predictor"], arrays, params["y_range"])
        check_parts(predictor)
        check_settings(params, predictor)
        return params, predictor
    raise AssertionError  # `reading` returns or raises


def params_out(params: dict[str, Any], predictor: LinePredictor, arrays: Arrays) -> dict[str, Any]:
    """Return the settings of an average as a document."""
    state, normalize, weights = params["random_state"], params["normalize"], params["weights"]
    named = [text for _, text, *_ in columns_out(predictor.columns, arrays, NOTATION)]
    texts = [
        f"{column.model}.{text}" if column.model else text
        for column, text in zip(predictor.columns, named, strict=True)
    ]
    levels, ends = params["tune_alpha"], check_range(params["y_range"])
    return {
        "scores": ["auto"] if is_auto(params["scores"]) else texts,
        "alpha": float(params["alpha"]),
        "normalize": normalize if isinstance(normalize, str) else [float(x) for x in normalize],
        "weights": None if weights is None else arrays.put(np.array(weights, dtype=np.float64)),
        "tune_alpha": None if levels is None else [float(x) for x in np.atleast_1d(levels)],
        "allow_empty": bool(params["allow_empty"]),
        "guarantee": params["guarantee"],
        "delta": float(params["delta"]),
        "y_range": None if ends is None else arrays.put(np.array(ends)),
        "random_state": int(state) if isinstance(state, int | np.integer) else None,
    } | {name: codec.write(params[name], arrays) for name, codec in _CODECS.items()}  # fmt: skip


def params_in(document: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the settings of a document, checked."""
    refuse_unknown(document, _PARAMS, "params")
    params = {name: field_of(document, name, types, "params") for name, types in _PARAMS.items()}
    texts = tuple(check_type(text, "str", "params.scores") for text in params["scores"])
    params["scores"] = "auto" if texts == ("auto",) else texts
    for name, codec in _CODECS.items():
        params[name] = codec.read(document[name], arrays, f"params.{name}")
    for name in ("weights", "y_range"):
        if params[name] is not None:
            params[name] = array_in(document, name, arrays, "params")
    params["y_range"] = check_range(params["y_range"])
    for name in ("normalize", "tune_alpha"):
        if isinstance(params[name], list):
            params[name] = tuple(check_type(x, "float", f"params.{name}") for x in params[name])
    return params


def predictor_out(predictor: LinePredictor, arrays: Arrays) -> dict[str, Any]:
    """Return what was fitted as a document."""
    bins = predictor.bins
    return {
        "columns": columns_out(predictor.columns, arrays, NOTATION),
        "models": [
            {"name": name, "has": list(shape.has), "levels": list(shape.levels)}
            for name, shape in predictor.shapes.items()
        ],
        "key": predictor.key,
        "alpha": float(predictor.alpha),
        "fitted": FITTED.write(predictor.fitted, arrays),
        **({} if bins is None else {"bins": _bins_out(bins, arrays)}),
        **({} if predictor.seen is None else {"seen": seen_out(predictor.seen, arrays)}),
    }


def predictor_in(document: Any, arrays: Arrays, y_range: Any) -> LinePredictor:
    """Return what a document says was fitted; `check_parts` is still to come."""
    where = "predictor"
    check_type(document, "dict", where)
    refuse_unknown(document, _PREDICTOR, where)
    columns = columns_in(
        field_of(document, "columns", "list", where), "predictor.columns", arrays, 1, NOTATION
    )
    shapes = dict(_shape_in(one) for one in field_of(document, "models", "list", where))
    known = all(column.model in shapes for column in columns)
    require(known, "its predictor.columns name a model that is not among predictor.models")
    fitted = FITTED.read(
        field_of(document, "fitted", "dict", where),
        arrays,
        "fitted",
        About(columns, shapes, y_range),
    )
    return LinePredictor(
        columns=columns,
        shapes=shapes,
        key=field_of(document, "key", "int", where),
        alpha=field_of(document, "alpha", "float", where),
        fitted=fitted,
        y_range=y_range,
        bins=_bins_in(document["bins"], arrays, columns) if "bins" in document else None,
        seen=seen_in(document["seen"], arrays) if "seen" in document else None,
    )


class About(NamedTuple):
    """What the parts of a fit are read with."""

    columns: tuple[Column, ...]
    shapes: dict[str, Shape]
    y_range: Any


def _shape_in(document: Any) -> tuple[str, Shape]:
    where = "predictor.models"
    check_type(document, "dict", where)
    refuse_unknown(document, ("name", "has", "levels"), where)
    has = field_of(document, "has", "list", where)
    levels = field_of(document, "levels", "list", where)
    parts = tuple(check_type(part, "str", where) for part in has)
    require(parts and set(parts) <= set(PARTS[:3]), f"its {where} predict what no model does")
    numbers = tuple(float(check_type(level, "float", where)) for level in levels)
    require(bool(numbers) == ("quantiles" in parts), f"its {where} have no levels of quantiles")
    return field_of(document, "name", "str", where), Shape(parts, numbers)


def _scale_out(scale: LineScale, arrays: Arrays) -> dict[str, Any]:
    return {
        "means": arrays.put(np.array(scale.means)),
        "floors": arrays.put(np.array(scale.floors)),
    }


def _scale_in(document: Any, arrays: Arrays, where: str, columns: tuple[Column, ...]) -> LineScale:
    check_type(document, "dict", where)
    refuse_unknown(document, ("means", "floors"), where)
    means, floors = (array_in(document, name, arrays, where) for name in ("means", "floors"))
    for values, least in ((means, 0.0), (floors, -1.0)):
        proper = values.shape == (len(columns),) and values.dtype == np.float64
        require(
            proper and np.isfinite(values).all() and (values > least).all(),
            f"its {where} are not one positive number per score",
        )
    require((floors >= 0).all(), f"its {where}.floors are negative")
    return LineScale(columns, tuple(means.tolist()), tuple(floors.tolist()))


TRANSFORMS = Codec("transform", {"line": Form(LineScale, _scale_out, _scale_in)}, "key")


def _bins_out(bins: Bins, arrays: Arrays) -> dict[str, Any]:
    return {
        "weights": arrays.put(bins.rule.weights),
        "transform": TRANSFORMS.write(bins.rule.transform, arrays),
        "threshold": arrays.put(np.array([bins.threshold])),
        "edges": arrays.put(bins.edges),
    }


def _bins_in(document: Any, arrays: Arrays, columns: tuple[Column, ...]) -> Bins:
    check_type(document, "dict", "bins")
    refuse_unknown(document, _BINS, "bins")
    scale = TRANSFORMS.read(
        field_of(document, "transform", "dict", "bins"), arrays, "bins.transform", columns
    )
    weights = _weights(array_in(document, "weights", arrays, "bins")[None], len(columns), "bins")
    edges = array_in(document, "edges", arrays, "bins")
    rises = edges.ndim == 1 and not np.isnan(edges).any() and (edges[1:] > edges[:-1]).all()
    require(rises and edges.dtype == np.float64, "its bins.edges do not rise")
    return Bins(LineRule(scale, weights[0]), _number(document, "threshold", arrays, "bins"), edges)


def _number(document: dict[str, Any], name: str, arrays: Arrays, where: str) -> float:
    """Return a number that may be infinite, which JSON has as an array alone."""
    values = array_in(document, name, arrays, where)
    require(values.shape == (1,) and not np.isnan(values).any(), f"its {where}.{name} is no number")
    return float(values[0])


def _weights(weights: FloatArray, d: int, where: str) -> FloatArray:
    proper = weights.ndim == 2 and weights.shape[1] == d and len(weights) > 0
    proper = proper and weights.dtype == np.float64 and np.isfinite(weights).all()
    require(
        proper and (weights >= 0).all(), f"its {where}.weights are not finite numbers from 0 on"
    )
    return weights


def _rule_out(fitted: Calibrated, arrays: Arrays) -> dict[str, Any]:
    document = rule_out(fitted, arrays, TRANSFORMS)
    result: Any = fitted.search
    if result is not None:  # a width may be infinite
        document["search"]["width"] = arrays.put(np.array([result.width]))
    size = fitted.held_out_size
    document["held_out_size"] = None if size is None else arrays.put(np.array([size]))
    return document


def _rule_in(document: dict[str, Any], arrays: Arrays, where: str, about: About) -> Calibrated:
    columns, _, y_range = about
    refuse_unknown(document, _RULE, "fitted rule")
    calibration = array_in(document, "calibration", arrays, where)
    facts = facts_in(field_of(document, "facts", "dict", where), ResponseFacts)
    cuts: Any = Single(calibration)
    if document.get("cuts") is not None:
        cuts = CUTS.read(document["cuts"], arrays, "cuts", calibration, 1)
    agree("facts.calibration", facts.calibration, "its cuts are", cuts.name)
    base = EXACT if facts.split == "fixed" else SPLITS[facts.split].guarantee
    ledger = Ledger(stated(base, facts).of_responses(y_range), facts)
    scale = TRANSFORMS.read(
        field_of(document, "transform", "dict", where), arrays, "transform", columns
    )
    weights = _weights(array_in(document, "weights", arrays, where)[None], len(columns), where)
    size = field_of(document, "held_out_size", "dict | None", where)
    rule: Any = LineRule(scale, weights[0], field_of(document, "allow_empty", "bool", where))
    result: Any = _search_in(field_of(document, "search", "dict | None", where), arrays)
    return Calibrated(
        rule,
        calibration,
        ledger.under(cuts.name, cuts.promise),
        field_of(document, "normalizer", "str", where),
        search=result,
        held_out_size=None if size is None else _number(document, "held_out_size", arrays, where),
        cuts=cuts,
        reference=array_or_none(document, "reference", arrays, where),
    )


def _search_in(document: dict[str, Any] | None, arrays: Arrays) -> WidthResult | None:
    if document is None:
        return None
    refuse_unknown(document, ("weights", "width", "n_evaluated", "strategy"), "search")
    return WidthResult(
        array_in(document, "weights", arrays, "search"),
        _number(document, "width", arrays, "search"),
        field_of(document, "n_evaluated", "int", "search"),
        field_of(document, "strategy", "str", "search"),
    )


def _hull_out(fitted: HullFitted, arrays: Arrays) -> dict[str, Any]:
    scale = fitted.fixed_scale
    return {
        "rows": {
            name: {part: arrays.put(getattr(model, part)) for part in sorted(model.has)}
            for name, model in fitted.rows.outputs.by_name.items()
        },
        "y": arrays.put(fitted.rows.y),
        "weights": arrays.put(fitted.weights),
        "transform": None if scale is None else TRANSFORMS.write(scale, arrays),
        "alpha": float(fitted.alpha),
        "allow_empty": fitted.allow_empty,
        "grouped": fitted.grouped,
    } | plan_out(fitted, arrays)


def _hull_in(document: dict[str, Any], arrays: Arrays, where: str, about: About) -> HullFitted:
    columns, shapes, y_range = about
    refuse_unknown(document, _HULL, "exact split")
    y = array_in(document, "y", arrays, where)
    proper = y.ndim == 1 and y.dtype == np.float64 and len(y) > 0 and np.isfinite(y).all()
    require(proper, "its fitted.y are not finite responses")
    given = field_of(document, "rows", "dict", where)
    require(list(given) == list(shapes), "its fitted.rows are not those of its models")
    by_name = {name: _model_in(given[name], shapes[name], arrays) for name in shapes}
    outputs = RegressedOutputs(by_name)
    same = all(len(model) == len(y) for model in by_name.values())
    require(same, "its fitted.rows are not as many as its responses")
    plan, data = plan_in(document, arrays, len(y), 1)
    scale = None
    if field_of(document, "transform", "dict | None", where) is not None:
        scale = TRANSFORMS.read(document["transform"], arrays, "transform", columns)
    return HullFitted(
        Responses(outputs, y, len(columns)),
        columns,
        _weights(array_in(document, "weights", arrays, where), len(columns), where),
        field_of(document, "alpha", "float", where),
        scale,
        y_range,
        field_of(document, "allow_empty", "bool", where),
        field_of(document, "grouped", "bool", where),
        plan,
        data,
    )


def _model_in(document: Any, shape: Shape, arrays: Arrays) -> Regressed:
    where = "fitted.rows"
    check_type(document, "dict", where)
    refuse_unknown(document, shape.has, where)
    parts = {part: array_in(document, part, arrays, where) for part in shape.has}
    levels = {"levels": shape.levels} if shape.levels else {}
    return Regressed(**parts, **levels, name=where)


FITTED = Codec(
    "fitted",
    {
        "rule": Form(Calibrated, _rule_out, _rule_in),
        "hull": Form(HullFitted, _hull_out, _hull_in),
    },
    "type",
)


def check_parts(predictor: LinePredictor) -> None:
    """Refuse a model whose parts contradict each other."""
    fitted, d = predictor.fitted, len(predictor.columns)
    require(d > 0, "its predictor.columns name no score")
    require(len(set(predictor.columns)) == d, "its predictor.columns name a score twice")
    require(0 <= predictor.key < 2**63, "its predictor.key is out of range")
    simple_fraction(predictor.alpha, "its predictor.alpha")
    check_seen(predictor.seen, fitted.n)
    by_bin = getattr(fitted.plan, "what", None) == "bin of difficulty"
    require(by_bin == (predictor.bins is not None), "its bins do not go with its calibration")
    if predictor.bins is not None:
        agree("cuts.names", tuple(fitted.plan.names), "its bins are", predictor.bins.names)
    if not fitted.nested:
        agree("fitted.alpha", float(fitted.alpha), "predictor.alpha is", float(predictor.alpha))
        return
    facts = fitted.ledger.facts
    agree("facts.alpha", facts.alpha, "predictor.alpha is", float(predictor.alpha))
    agree("facts.d", facts.d, "the number of predictor.columns is", d)
    agree("facts.n_classes", facts.n_classes, "of responses it is", 1)
    agree("facts.learnt_scale", facts.learnt_scale, "of responses it is", False)
    agree("facts.span", facts.span, "that of params.y_range is", span_of(predictor.y_range))
    check_scores(fitted)
    agree("facts.n_cal", facts.n_cal, "the number of calibration scores is", fitted.n)
    check_cuts(fitted, 1)
    result = fitted.search
    require((result is None) == (facts.split == "fixed"), "its search does not go with the split")
    if result is not None:
        same = np.array_equal(result.weights, fitted.rule.weights)
        require(same, "its search.weights are not its fitted.weights")


def check_settings(params: dict[str, Any], predictor: LinePredictor) -> None:
    """Refuse settings that are not those of the fit: the model would claim what it does not do."""
    settings = resolve_regression(**params)
    fitted, facts = predictor.fitted, predictor.fitted.ledger.facts
    agree("params.alpha", float(settings.alpha), "that of the fit is", float(predictor.alpha))
    by_hand = settings.weights is not None
    allowed = ("fixed",) if by_hand else (settings.split.name, "fixed")
    require(facts.split in allowed, f"its params.split is {settings.split.name}, but that of the "
            f"fit is {facts.split}")  # fmt: skip
    empty = bool(fitted.rule.allow_empty if fitted.nested else fitted.allow_empty)
    agree("params.allow_empty", settings.allow_empty, "that of the fit is", empty)
    ranked = None if facts.rank.delta is None else float(facts.rank.delta)
    delta = None if settings.delta is None else float(settings.delta)
    agree("params.guarantee at delta", delta, "that of the fit is", ranked)
    agree("params.y_range", settings.y_range, "that of the fit is", predictor.y_range)
    scheme: Any = settings.calibration
    name = getattr(scheme, "what", scheme.name)
    agree("params.calibration", name, "that of the fit is", facts.calibration)
    outputs = {name: _like(shape) for name, shape in predictor.shapes.items()}
    same = regression_columns(outputs, params["scores"]) == predictor.columns
    require(same, "its params.scores are not its predictor.columns")
    check_candidates(params, fitted.all_weights)


def _like(shape: Shape) -> Regressed:
    """Return one row of a model that predicts what a shape says."""
    parts: dict[str, Any] = {part: [1.0] for part in shape.has if part != "quantiles"}
    if shape.levels:
        parts |= {"quantiles": [list(shape.levels)], "levels": shape.levels}
    return Regressed(**parts)
