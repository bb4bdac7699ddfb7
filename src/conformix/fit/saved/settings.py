"""The settings of an estimator as JSON, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.outputs import KINDS
from conformix.errors import InvalidInput
from conformix.fit.predictor import Predictor
from conformix.fit.saved.arrays import Arrays
from conformix.fit.saved.cuts import calibration_in, calibration_out
from conformix.fit.saved.fields import check_fields, check_type, field_of, shortened
from conformix.fit.saved.migrations import refuse_unknown
from conformix.scores import SCORES, Column, Score, parse_score, score_columns
from conformix.scores.scale import NaturalScale
from conformix.search import (
    AutoSearch,
    Candidates,
    CappedSize,
    ClassGap,
    GradientSearch,
    GridSearch,
    LabelCosts,
    LineSearch,
    MeanSize,
    OneStandardError,
    Singletons,
    SizeStratified,
    resolve_objective,
    resolve_search,
)
from conformix.splits import SPLITS

# The types that they have in a file.
_PARAMS = {
    "scores": "list", "alpha": "float", "split": "str | dict", "search": "str | dict",
    "normalize": "str | list", "kind": "str", "weights": "dict | None",
    "tune_alpha": "float | None", "allow_empty": "bool", "guarantee": "str", "delta": "float",
    "calibration": "str | dict", "objective": "str | dict", "random_state": "int | None",
}  # fmt: skip

_STRATEGIES: dict[str, Any] = {
    "auto": AutoSearch,
    "gradient": GradientSearch,
    "line": LineSearch,
}
_GOALS: dict[str, Any] = {
    "size": MeanSize,
    "singletons": Singletons,
    "capped": CappedSize,
    "label_costs": LabelCosts,
    "class_gap": ClassGap,
    "size_stratified": SizeStratified,
}


def settings_out(params: dict[str, Any], predictor: Predictor, arrays: Arrays) -> dict[str, Any]:
    """Return the constructor parameters as JSON has them."""
    state, weights = params["random_state"], params["weights"]
    return {
        "scores": _scores_out(predictor),
        "alpha": float(params["alpha"]),
        "split": _split_out(params["split"]),
        "search": _search_out(params["search"], arrays),
        "normalize": _normalize_out(params["normalize"]),
        "kind": params["kind"],
        "weights": None if weights is None else arrays.put(np.asarray(weights, dtype=np.float64)),
        "tune_alpha": None if params["tune_alpha"] is None else float(params["tune_alpha"]),
        "allow_empty": bool(params["allow_empty"]),
        "guarantee": params["guarantee"],
        "delta": float(params["delta"]),
        "calibration": calibration_out(params.get("calibration", "marginal")),
        "objective": _objective_out(params.get("objective", "size")),
        "random_state": int(state) if isinstance(state, int | np.integer) else None,
    }


def settings_in(told: Any, arrays: Arrays) -> dict[str, Any]:
    """Return the constructor parameters that a file holds, each of its type."""
    check_type(told, "dict", "params")
    refuse_unknown(told, _PARAMS, "params")
    told = {
        "calibration": "marginal",
        "objective": "size",
    } | told  # files from before there was a choice
    params = {name: field_of(told, name, types, "params") for name, types in _PARAMS.items()}
    params["calibration"] = calibration_in(told["calibration"])
    params["objective"] = _objective_in(told["objective"])
    texts = [check_type(text, "str", "params.scores") for text in told["scores"]]
    params["scores"] = "auto" if texts == ["auto"] else tuple(texts)
    params["split"] = _split_in(told["split"])
    params["search"] = _search_in(told["search"], arrays)
    if told["weights"] is not None:
        params["weights"] = arrays.get(told["weights"], "params.weights")
    if isinstance(told["normalize"], list):
        widths = tuple(check_type(w, "float", "params.normalize") for w in told["normalize"])
        params["normalize"] = widths
    _check_values(params)
    return params


def _check_values(params: dict[str, Any]) -> None:
    """Refuse settings that `fit` would refuse, whatever they are read for."""
    for name in ("alpha", "delta", "tune_alpha"):
        if params[name] is not None:
            simple_fraction(params[name], f"its params.{name}")
    if params["kind"] not in KINDS:
        raise InvalidInput(f"its params.kind cannot be {shortened(params['kind'])}")
    if params["guarantee"] not in ("marginal", "pac"):
        raise InvalidInput(f"its params.guarantee cannot be {shortened(params['guarantee'])}")
    state = params["random_state"]
    if state is not None and state < 0:
        raise InvalidInput(f"its params.random_state cannot be {state}")
    resolve_search(params["search"])
    resolve_objective(params["objective"])


def columns_in(told: Any, where: str) -> tuple[Column, ...]:
    """Return scores of models from pairs of texts."""
    pairs = [check_type(pair, "list", where) for pair in check_type(told, "list", where)]
    if not all(len(pair) == 2 and all(type(text) is str for text in pair) for pair in pairs):
        raise InvalidInput(f"its {where} are not pairs of a model and a score")
    return tuple(Column(model, parse_score(text)) for model, text in pairs)


def _scores_out(predictor: Predictor) -> list[str]:
    return ["auto"] if predictor.blend is not None else score_names(predictor)


def score_names(predictor: Predictor) -> list[str]:
    """Return the scores as texts, once where every model has them all, else with their models."""
    texts = list(dict.fromkeys(score_out(column.score) for column in predictor.columns))
    if score_columns(predictor.models, texts) == predictor.columns:
        return texts
    return [str(column) for column in predictor.columns]


def score_out(score: Score) -> str:
    """Return a score as the text that names it."""
    if score.name not in SCORES:
        raise InvalidInput(
            f"score {score} is a function of your own, which a model file cannot hold; save the "
            "outputs and fit again, or pickle the model yourself."
        )
    return str(score)


def _split_out(split: Any) -> Any:
    if isinstance(split, str):
        return split
    known = type(SPLITS[split.name]) if split.name in SPLITS else None
    if type(split) is not known:
        raise InvalidInput(f"split {split!r} is not of this library, and cannot be saved.")
    plain = {name: getattr(v, "item", lambda v=v: v)() for name, v in vars(split).items()}
    return {"name": split.name, "options": plain}


def _split_in(told: Any) -> Any:
    if isinstance(told, str):
        return SPLITS[told].name
    refuse_unknown(told, ("name", "options"), "params.split")
    known = type(SPLITS[field_of(told, "name", "str", "params.split")])
    options = field_of(told, "options", "dict", "params.split")
    return check_fields(known(**options), "params.split")


def _search_out(search: Any, arrays: Arrays) -> Any:
    if isinstance(search, str):
        return search
    if isinstance(search, GridSearch):
        return {"resolution": None if search.resolution is None else int(search.resolution)}
    if isinstance(search, OneStandardError):
        inner = _search_out(search.search, arrays)
        return {"one_standard_error": vars(search) | {"search": inner}}
    for name, strategy in _STRATEGIES.items():
        if isinstance(search, strategy):
            return {name: vars(search)}
    given = search.weights if isinstance(search, Candidates) else search
    if callable(given):
        raise InvalidInput(f"search {search!r} is not of this library, and cannot be saved.")
    return {"candidates": arrays.put(np.asarray(given, dtype=np.float64))}


def _search_in(told: Any, arrays: Arrays) -> Any:
    where = "params.search"
    if isinstance(told, str):
        return told
    [(name, value)] = check_type(told, "dict", where).items()
    if name == "resolution":
        return check_fields(GridSearch(value), where)
    if name == "candidates":
        return Candidates(arrays.get(value, f"{where}.candidates"))
    if name == "one_standard_error":
        options = dict(check_type(value, "dict", where))
        inner = _search_in(field_of(options, "search", "str | dict", where), arrays)
        return check_fields(OneStandardError(**(options | {"search": inner})), where)
    if name not in _STRATEGIES:
        raise InvalidInput(f"its {where} cannot be {shortened(name)}")
    return check_fields(_STRATEGIES[name](**check_type(value, "dict", where)), where)


def _objective_out(objective: Any) -> Any:
    if isinstance(objective, str):
        return objective
    for name, goal in _GOALS.items():
        if isinstance(objective, goal):
            return {name: vars(objective)}
    raise InvalidInput(f"objective {objective!r} is not of this library, and cannot be saved.")


def _objective_in(told: Any) -> Any:
    if isinstance(told, str):
        return told
    where = "params.objective"
    [(name, options)] = told.items()
    if name not in _GOALS:
        raise InvalidInput(f"its {where} cannot be {shortened(name)}")
    # JSON has lists where goals have tuples
    given = {
        k: tuple(v) if isinstance(v, list) else v
        for k, v in check_type(options, "dict", where).items()
    }
    return check_fields(_GOALS[name](**given), where)


def _normalize_out(normalize: Any) -> Any:
    if isinstance(normalize, str):
        return normalize
    if isinstance(normalize, NaturalScale) and normalize.widths is not None:
        return [float(width) for width in normalize.widths]
    if hasattr(normalize, "fit"):
        return str(normalize.name)
    return [float(width) for width in normalize]
