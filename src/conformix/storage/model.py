"""A fitted model as a document, and back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict
from io import BytesIO
from typing import Any

import numpy as np

from conformix import __version__
from conformix.arrays import to_host
from conformix.atomic import as_path
from conformix.classnames import check_classes
from conformix.errors import InvalidInput
from conformix.exact.fitted import FullFitted
from conformix.guarantees import EXACT, Facts, Ledger, RankRule
from conformix.normalize import Interpolated, Scaled, Transform
from conformix.pipeline import Fitted, Rule, stated
from conformix.predictor import Predictor
from conformix.scores import Column, parse_score
from conformix.search import SearchResult
from conformix.splits import SPLITS
from conformix.storage.arrays import Arrays
from conformix.storage.blend import blend_in, blend_out
from conformix.storage.checks import check_predictor
from conformix.storage.cuts import conditional_out, cuts_in, limits_in
from conformix.storage.files import (
    MAX_MEMORY,
    beside,
    damaged,
    memory_limits,
    read_json,
    read_npz,
    write,
)
from conformix.storage.migrations import SCHEMA, refuse_unknown
from conformix.storage.settings import score_out, settings_in, settings_out

_DOCUMENT = ("format", "schema", "version", "params", "predictor", "npz", "npz_sha256")
_PREDICTOR = (
    "columns", "models", "n_classes", "kind", "key", "alpha", "classes", "fitted", "blend",
)  # fmt: skip
_RULE = (
    "type", "weights", "transform", "allow_empty", "calibration", "guarantee", "facts",
    "normalizer", "search", "held_out_size", "cuts", "limits",
)  # fmt: skip
_EXACT = ("type", "scores", "y", "weights", "transform", "alpha", "normalizer")


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
    target = as_path(path)
    arrays = Arrays()
    document = {
        "format": "conformix model",
        "schema": SCHEMA,
        "version": __version__,
        "params": settings_out(params, predictor, arrays),
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


def read_model(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> tuple[dict[str, Any], Predictor]:
    """Return the constructor parameters and the predictor of a saved model.

    Examples
    --------
    >>> read_model("nothing.json")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: nothing.json does not exist or is no file.
    """
    source, limits = as_path(path), memory_limits(max_memory)
    document = read_json(source, limits)
    try:
        refuse_unknown(document, _DOCUMENT, "contents")
        arrays = Arrays(read_npz(source, document, limits))
        params = settings_in(document["params"], arrays)
        return params, check_predictor(_predictor_in(document["predictor"], arrays))
    except (
        ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, MemoryError
    ) as error:  # fmt: skip
        raise damaged(source, error) from None


def load_predictor(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> Predictor:
    """Return the predictor of a saved model: what serving needs, and nothing more.

    It has ``predict_set(outputs, alpha=None)`` and ``predict_pvalues(outputs)`` and answers bit for
    bit as `conformix.load` does, but loads numpy alone: no scikit-learn, scipy or numba. Only the
    exact split, which searches at prediction, loads numba.

    Parameters
    ----------
    path : path
        The JSON file; a large model has an npz of the same name beside it.
    max_memory : int or str
        Bytes that the files may ask for, as a number or a text such as ``"512M"``.

    Examples
    --------
    >>> import tempfile
    >>> import conformix as cx
    >>> cp = cx.ScoreAverage("thr", alpha=0.5, weights=[1]).fit([[0.2, 0.8], [0.7, 0.3]], [1, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cp.save(f"{folder}/model.json")
    ...     served = cx.load_predictor(f"{folder}/model.json")
    >>> served.predict_set([[0.9, 0.1]]).labels(0)
    [0]
    """
    return read_model(path, max_memory=max_memory)[1]


def _predictor_out(predictor: Predictor, arrays: Arrays) -> dict[str, Any]:
    fitted = predictor.fitted
    out: Callable[..., dict[str, Any]] = _rule_out if isinstance(fitted, Fitted) else _exact_out
    return {
        "columns": [[column.model, score_out(column.score)] for column in predictor.columns],
        "models": list(predictor.models),
        "n_classes": predictor.n_classes,
        "kind": predictor.kind,
        "key": predictor.key,
        "alpha": float(predictor.alpha),
        "classes": None if predictor.classes is None else list(predictor.classes),
        "fitted": out(fitted, arrays),
    } | ({} if predictor.blend is None else {"blend": blend_out(predictor.blend, arrays)})


def _predictor_in(told: dict[str, Any], arrays: Arrays) -> Predictor:
    refuse_unknown(told, _PREDICTOR, "predictor")
    readers: dict[str, Callable[..., Any]] = {"rule": _rule_in, "exact": _exact_in}
    return Predictor(
        columns=tuple(Column(str(model), parse_score(text)) for model, text in told["columns"]),
        models=tuple(str(model) for model in told["models"]),
        n_classes=int(told["n_classes"]),
        kind=told["kind"],
        key=int(told["key"]),
        alpha=float(told["alpha"]),
        fitted=readers[told["fitted"]["type"]](told["fitted"], arrays),
        classes=check_classes(told["classes"], int(told["n_classes"])),
        blend=blend_in(told["blend"], arrays) if "blend" in told else None,
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
    } | conditional_out(fitted, arrays)


def _rule_in(told: dict[str, Any], arrays: Arrays) -> Fitted:
    refuse_unknown(told, _RULE, "fitted rule")
    weights = arrays.get(told["weights"])
    found, facts = told["search"], told["facts"]
    if found is not None:
        found = SearchResult(**(found | {"weights": arrays.get(found["weights"])}))
    calibration = np.sort(arrays.get(told["calibration"]))
    numbers = Facts(**(facts | {"rank": RankRule(**facts["rank"])}))
    cuts = cuts_in(told.get("cuts"), calibration, numbers.n_classes, arrays)
    return Fitted(
        rule=Rule(
            _transform_in(told["transform"], arrays),
            weights,
            bool(told["allow_empty"]),
            limits_in(told.get("limits"), numbers.n_classes, arrays),
        ),
        calibration=calibration,
        ledger=_ledger_in(numbers).under(cuts.name, cuts.promise),
        normalizer=str(told["normalizer"]),
        search=found,
        held_out_size=told["held_out_size"],
        cuts=cuts,
    )


def _ledger_in(facts: Facts) -> Ledger:
    """Return the ledger that the numbers of the fit give; its text in the file is for people."""
    base = EXACT if facts.split == "fixed" else SPLITS[facts.split].guarantee
    return Ledger(stated(base, facts), facts)


def _exact_out(fitted: FullFitted, arrays: Arrays) -> dict[str, Any]:
    return {
        "type": "exact",
        "scores": arrays.put(to_host(fitted.scores)),
        "y": arrays.put(fitted.y.astype(np.int64)),
        "weights": arrays.put(fitted.weights),
        "transform": _transform_out(fitted.transform, arrays),
        "alpha": float(fitted.alpha),
        "normalizer": fitted.normalizer,
    }


def _exact_in(told: dict[str, Any], arrays: Arrays) -> FullFitted:
    refuse_unknown(told, _EXACT, "exact split")
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
