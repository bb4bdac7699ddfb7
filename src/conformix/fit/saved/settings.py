"""The settings of an estimator as JSON, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformix.calibration import CALIBRATIONS, LabelShift, resolve_calibration
from conformix.conformal import simple_fraction
from conformix.data.outputs import KINDS
from conformix.errors import InvalidInput
from conformix.fit.saved.codec import (
    Arrays,
    Codec,
    Form,
    check_type,
    field_of,
    refuse_unknown,
    shortened,
)
from conformix.scores import Column, Score, score_columns
from conformix.scores.learnt import LearningScore
from conformix.scores.names import NOTATION, Notation
from conformix.scores.scale import resolve_normalizer
from conformix.search import Candidates, GridSearch, resolve_objective, resolve_search
from conformix.search.goals import GOALS
from conformix.search.weights import STRATEGIES
from conformix.splits import SPLITS, resolve_split

# The types that they have in a file.
_PARAMS = {
    "scores": "list", "alpha": "float", "split": "str | dict", "search": "str | dict",
    "normalize": "str | list", "kind": "str", "weights": "dict | None",
    "tune_alpha": "float | None", "allow_empty": "bool", "guarantee": "str", "delta": "float",
    "calibration": "str | dict", "objective": "str | dict", "random_state": "int | None",
    "ensemble": "str | None",
}  # fmt: skip
# What files hold that were written before there was a choice.
_DEFAULTS = {"calibration": "marginal", "objective": "size", "ensemble": None}


def registered(registry: Any, *others: Any) -> dict[str, type]:
    """Return the types of what a registry names, and of others that need options."""
    return {one.name: type(one) for one in map(registry.__getitem__, registry)} | {
        other.name: other for other in others
    }


# A grid and a list of candidates stand in a file by what they hold.
_GRID = Form(
    GridSearch,
    lambda search, arrays: None if search.resolution is None else int(search.resolution),
    lambda resolution, arrays, where: GridSearch(resolution),
)
_CANDIDATES = Form(
    Candidates,
    lambda search, arrays: arrays.put(search.listed),
    lambda weights, arrays, where: Candidates(arrays.get(weights, f"{where}.candidates")),
)
_SEARCHES: dict[str, Any] = {name: s for name, s in STRATEGIES.items() if name != "grid"}
_SEARCHES |= {"resolution": _GRID, "candidates": _CANDIDATES}

CODECS = {
    "split": Codec("split", registered(SPLITS), "pair", resolve_split, aliases=SPLITS.aliases),
    "search": Codec("search", _SEARCHES, "key", resolve_search),
    "calibration": Codec(
        "calibration", registered(CALIBRATIONS, LabelShift), "pair", resolve_calibration
    ),
    "objective": Codec("objective", GOALS, "key", resolve_objective),
}


def settings_out(params: dict[str, Any], predictor: Any, arrays: Arrays) -> dict[str, Any]:
    """Return the constructor parameters as JSON has them."""
    state, weights = params["random_state"], params["weights"]
    document = {
        "scores": ["auto"] if predictor.blend is not None else score_names(predictor),
        "alpha": float(params["alpha"]),
        "split": None,
        "search": None,
        "normalize": normalize_out(params["normalize"]),
        "kind": predictor.kind,
        "weights": None if weights is None else arrays.put(np.asarray(weights, dtype=np.float64)),
        "tune_alpha": None if params["tune_alpha"] is None else float(params["tune_alpha"]),
        "allow_empty": bool(params["allow_empty"]),
        "guarantee": params["guarantee"],
        "delta": float(params["delta"]),
        "calibration": None,
        "objective": None,
        "random_state": int(state) if isinstance(state, int | np.integer) else None,
    }
    params = _DEFAULTS | params
    if params["ensemble"] is not None:
        document["ensemble"] = params["ensemble"]
    return document | {name: codec.write(params[name], arrays) for name, codec in CODECS.items()}


def settings_in(document: Any, arrays: Arrays) -> dict[str, Any]:
    """Return the constructor parameters that a file holds, each of its type."""
    check_type(document, "dict", "params")
    refuse_unknown(document, _PARAMS, "params")
    document = _DEFAULTS | document
    params = {name: field_of(document, name, types, "params") for name, types in _PARAMS.items()}
    texts = [check_type(text, "str", "params.scores") for text in document["scores"]]
    params["scores"] = "auto" if texts == ["auto"] else tuple(texts)
    for name, codec in CODECS.items():
        params[name] = codec.read(document[name], arrays, f"params.{name}")
    if document["weights"] is not None:
        params["weights"] = arrays.get(document["weights"], "params.weights")
    if isinstance(document["normalize"], list):
        widths = tuple(check_type(w, "float", "params.normalize") for w in document["normalize"])
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


def columns_out(
    columns: tuple[Column, ...], arrays: Arrays, notation: Notation = NOTATION
) -> list[list[Any]]:
    """Return scores of models as pairs of texts, each with what the score has learnt, if it has."""
    entries: list[list[Any]] = []
    for model, score in columns:
        learnt = [arrays.put(score.factors)] if isinstance(score, LearningScore) else []
        entries.append([model, score_out(score, notation), *learnt])
    return entries


def columns_in(
    document: Any, where: str, arrays: Arrays, n_classes: int, notation: Notation = NOTATION
) -> tuple[Column, ...]:
    """Return scores of models, with what they have learnt."""
    listed = [check_type(entry, "list", where) for entry in check_type(document, "list", where)]
    columns, wrong = [], f"its {where} are not pairs of a model and a score"
    for entry in listed:
        if len(entry) < 2:
            raise InvalidInput(wrong)
        model, text, *learnt = entry
        check_type(model, "str", where)
        score: Any = notation.parse(check_type(text, "str", where))
        if len(learnt) != score.learns:
            raise InvalidInput(wrong)
        if learnt:
            score = replace(score, factors=arrays.get(learnt[0], where))
            score.check(n_classes)
        columns.append(Column(model, score))
    return tuple(columns)


def score_names(predictor: Any) -> list[str]:
    """Return the scores as texts, once where every model has them all, else with their models."""
    texts = list(dict.fromkeys(score_out(column.score) for column in predictor.columns))
    if score_columns(predictor.scored_models, texts) == predictor.columns:
        return texts
    return [str(column) for column in predictor.columns]


def score_out(score: Score, notation: Notation = NOTATION) -> str:
    """Return a score as the text that names it."""
    if score.name not in notation.registry:
        raise InvalidInput(
            f"score {score} is a function of your own, which a model file cannot hold; save the "
            "outputs and fit again, or pickle the model yourself."
        )
    return str(score)


def normalize_out(normalize: Any) -> Any:
    """Return a scale as the text that names it, or by its widths."""
    if isinstance(normalize, str):
        return normalize
    scale = resolve_normalizer(normalize, separate=False)
    widths = getattr(scale, "widths", None)
    return str(scale.name) if widths is None else [float(width) for width in widths]
