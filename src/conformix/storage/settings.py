"""The settings of an estimator as JSON, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.normalize import NaturalScale
from conformix.predictor import Predictor
from conformix.scores import SCORES, Score, score_columns
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
)
from conformix.splits import SPLITS
from conformix.storage.arrays import Arrays
from conformix.storage.cuts import calibration_in, calibration_out
from conformix.storage.migrations import refuse_unknown

_PARAMS = (
    "scores", "alpha", "split", "search", "normalize", "kind", "weights", "tune_alpha",
    "allow_empty", "guarantee", "delta", "calibration", "objective", "random_state",
)  # fmt: skip

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


def settings_in(told: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the constructor parameters that a file holds."""
    refuse_unknown(told, _PARAMS, "params")
    told = {
        "calibration": "marginal",
        "objective": "size",
    } | told  # files from before there was a choice
    params = {name: told[name] for name in _PARAMS}
    params["calibration"] = calibration_in(told["calibration"])
    params["objective"] = _objective_in(told["objective"])
    params["scores"] = "auto" if told["scores"] == ["auto"] else tuple(told["scores"])
    params["split"] = _split_in(told["split"])
    params["search"] = _search_in(told["search"], arrays)
    params["weights"] = None if told["weights"] is None else arrays.get(told["weights"])
    if isinstance(told["normalize"], list):
        params["normalize"] = tuple(told["normalize"])
    simple_fraction(params["alpha"])
    simple_fraction(params["delta"], "delta")
    return params


def _scores_out(predictor: Predictor) -> list[str]:
    """Return the scores once where every model has them all, else with their models' names."""
    if predictor.blend is not None:
        return ["auto"]
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
    return type(SPLITS[told["name"]])(**told["options"])


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
    if isinstance(told, str):
        return told
    if "resolution" in told:
        return GridSearch(told["resolution"])
    if "one_standard_error" in told:
        inner = told["one_standard_error"]
        return OneStandardError(**(inner | {"search": _search_in(inner["search"], arrays)}))
    for name, strategy in _STRATEGIES.items():
        if name in told:
            return strategy(**told[name])
    return Candidates(arrays.get(told["candidates"]))


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
    [(name, given)] = told.items()
    # JSON has lists where goals have tuples
    return _GOALS[name](**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})


def _normalize_out(normalize: Any) -> Any:
    if isinstance(normalize, str):
        return normalize
    if isinstance(normalize, NaturalScale) and normalize.widths is not None:
        return [float(width) for width in normalize.widths]
    if hasattr(normalize, "fit"):
        return str(normalize.name)
    return [float(width) for width in normalize]
