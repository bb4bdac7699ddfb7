"""A fitted model as a document, and back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.exact.fitted import FullFitted
from conformix.guarantees import EXACT, Facts, Ledger, RankRule
from conformix.normalize import Interpolated, NaturalScale, Scaled, Transform
from conformix.pipeline import Fitted, Rule, stated
from conformix.predictor import Predictor
from conformix.scores import SCORES, Column, Score, parse_score, score_columns
from conformix.search import Candidates, GridSearch, SearchResult
from conformix.splits import SPLITS
from conformix.storage.arrays import Arrays
from conformix.storage.checks import check_predictor
from conformix.storage.files import SCHEMA, beside, read_json, read_npz, write

_PARAMS = (
    "scores", "alpha", "split", "search", "normalize", "kind", "weights", "tune_alpha",
    "allow_empty", "guarantee", "delta", "random_state",
)  # fmt: skip


def write_model(params: dict[str, Any], predictor: Predictor, path: str | os.PathLike[str]) -> None:
    """Write a fitted model as JSON, with large arrays in an npz of the same name.

    Parameters
    ----------
    params : dict
        Constructor parameters of the estimator.
    predictor : Predictor
        What was fitted. Scores that are functions of the user's own cannot be saved.
    path : path
        Usually ``model.json``.

    Examples
    --------
    >>> import tempfile
    >>> import conformix as cx
    >>> cp = cx.ScoreAverage(alpha=0.5, weights=[1, 0, 0]).fit([[0.2, 0.8], [0.7, 0.3]], [1, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(cp.get_params(), cp.predictor_, f"{folder}/model.json")
    ...     read_model(f"{folder}/model.json")[0]["alpha"]
    0.5
    """
    target = Path(path)
    arrays = Arrays()
    document = {
        "format": "conformix model",
        "schema": SCHEMA,
        "version": __version__,
        "params": _params_out(params, predictor, arrays),
        "predictor": _predictor_out(predictor, arrays),
    }
    earlier = beside(target)
    if arrays.stored:
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays.stored)
        digest = hashlib.sha256(buffer.getvalue()).hexdigest()
        # Named by its content and written first: whatever breaks, the JSON and its arrays agree.
        document["npz"], document["npz_sha256"] = f"{target.name}.{digest[:12]}.npz", digest
        write(target.with_name(str(document["npz"])), buffer.getvalue())
    write(target, json.dumps(document, indent=1, allow_nan=False).encode())
    if earlier is not None and earlier.name != document.get("npz"):
        earlier.unlink(missing_ok=True)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Predictor]:
    """Return the constructor parameters and the predictor of a saved model.

    Examples
    --------
    >>> read_model("nothing.json")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: nothing.json does not exist or is no file.
    """
    source = Path(path)
    document = read_json(source)
    try:
        arrays = Arrays(read_npz(source, document))
        params = _params_in(document["params"], arrays)
        return params, check_predictor(_predictor_in(document["predictor"], arrays))
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise InvalidInput(f"{source} is a damaged model file ({error!r}).") from None
    except ValueError as error:
        raise InvalidInput(f"{source} is a damaged model file ({error}).") from None


def _params_out(params: dict[str, Any], predictor: Predictor, arrays: Arrays) -> dict[str, Any]:
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
        "random_state": int(state) if isinstance(state, int | np.integer) else None,
    }


def _params_in(told: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    params = {name: told[name] for name in _PARAMS}
    params["scores"] = tuple(told["scores"])
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
    texts = list(dict.fromkeys(_score_out(column.score) for column in predictor.columns))
    if score_columns(predictor.models, texts) == predictor.columns:
        return texts
    return [str(column) for column in predictor.columns]


def _score_out(score: Score) -> str:
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
    given = search.weights if isinstance(search, Candidates) else search
    if callable(given):
        raise InvalidInput(f"search {search!r} is not of this library, and cannot be saved.")
    return {"candidates": arrays.put(np.asarray(given, dtype=np.float64))}


def _search_in(told: Any, arrays: Arrays) -> Any:
    if isinstance(told, str):
        return told
    if "resolution" in told:
        return GridSearch(told["resolution"])
    return Candidates(arrays.get(told["candidates"]))


def _normalize_out(normalize: Any) -> Any:
    if isinstance(normalize, str):
        return normalize
    if isinstance(normalize, NaturalScale) and normalize.widths is not None:
        return [float(width) for width in normalize.widths]
    if hasattr(normalize, "fit"):
        return str(normalize.name)
    return [float(width) for width in normalize]


def _predictor_out(predictor: Predictor, arrays: Arrays) -> dict[str, Any]:
    fitted = predictor.fitted
    out: Callable[..., dict[str, Any]] = _rule_out if isinstance(fitted, Fitted) else _exact_out
    return {
        "columns": [[column.model, _score_out(column.score)] for column in predictor.columns],
        "models": list(predictor.models),
        "n_classes": predictor.n_classes,
        "kind": predictor.kind,
        "key": predictor.key,
        "alpha": float(predictor.alpha),
        "fitted": out(fitted, arrays),
    }


def _predictor_in(told: dict[str, Any], arrays: Arrays) -> Predictor:
    readers: dict[str, Callable[..., Any]] = {"rule": _rule_in, "exact": _exact_in}
    return Predictor(
        columns=tuple(Column(str(model), parse_score(text)) for model, text in told["columns"]),
        models=tuple(str(model) for model in told["models"]),
        n_classes=int(told["n_classes"]),
        kind=told["kind"],
        key=int(told["key"]),
        alpha=float(told["alpha"]),
        fitted=readers[told["fitted"]["type"]](told["fitted"], arrays),
    )


def _rule_out(fitted: Fitted, arrays: Arrays) -> dict[str, Any]:
    found = fitted.search
    return {
        "type": "rule",
        "weights": arrays.put(fitted.rule.weights),
        "transform": _transform_out(fitted.rule.transform, arrays),
        "allow_empty": fitted.rule.allow_empty,
        "calibration": arrays.put(fitted.calibration),
        "guarantee": vars(fitted.ledger.guarantee),
        "facts": asdict(fitted.ledger.facts),
        "normalizer": fitted.normalizer,
        "search": None if found is None else vars(found) | {"weights": arrays.put(found.weights)},
        "held_out_size": fitted.held_out_size,
    }


def _rule_in(told: dict[str, Any], arrays: Arrays) -> Fitted:
    weights = arrays.get(told["weights"])
    found, facts = told["search"], told["facts"]
    if found is not None:
        found = SearchResult(**(found | {"weights": arrays.get(found["weights"])}))
    return Fitted(
        rule=Rule(_transform_in(told["transform"], arrays), weights, bool(told["allow_empty"])),
        calibration=np.sort(arrays.get(told["calibration"])),
        ledger=_ledger_in(Facts(**(facts | {"rank": RankRule(**facts["rank"])}))),
        normalizer=str(told["normalizer"]),
        search=found,
        held_out_size=told["held_out_size"],
    )


def _ledger_in(facts: Facts) -> Ledger:
    """Return the ledger that the numbers of the fit give; its text in the file is for people."""
    base = EXACT if facts.split == "fixed" else SPLITS[facts.split].guarantee
    return Ledger(stated(base, facts), facts)


def _exact_out(fitted: FullFitted, arrays: Arrays) -> dict[str, Any]:
    return {
        "type": "exact",
        "scores": arrays.put(fitted.scores),
        "y": arrays.put(fitted.y.astype(np.int64)),
        "weights": arrays.put(fitted.weights),
        "transform": _transform_out(fitted.transform, arrays),
        "alpha": float(fitted.alpha),
        "normalizer": fitted.normalizer,
    }


def _exact_in(told: dict[str, Any], arrays: Arrays) -> FullFitted:
    return FullFitted(
        scores=arrays.get(told["scores"]),
        y=arrays.get(told["y"]).astype(np.intp),
        weights=arrays.get(told["weights"]),
        transform=_transform_in(told["transform"], arrays),
        alpha=float(told["alpha"]),
        normalizer=str(told["normalizer"]),
    )


def _transform_out(transform: Transform, arrays: Arrays) -> dict[str, Any]:
    if isinstance(transform, Scaled):
        return {"factors": list(transform.factors)}
    if isinstance(transform, Interpolated):
        pairs = zip(transform.knots, transform.levels, strict=True)
        return {"curves": [[arrays.put(knots), arrays.put(levels)] for knots, levels in pairs]}
    raise InvalidInput("a normaliser of your own cannot be saved in a model file.")


def _transform_in(told: dict[str, Any], arrays: Arrays) -> Transform:
    if "factors" in told:
        return Scaled(tuple(float(factor) for factor in told["factors"]))
    curves = [(arrays.get(knots), arrays.get(levels)) for knots, levels in told["curves"]]
    return Interpolated(tuple(k for k, _ in curves), tuple(v for _, v in curves))
