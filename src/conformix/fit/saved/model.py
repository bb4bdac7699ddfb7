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
from conformix.atomic import as_path
from conformix.data.files.limits import Limits
from conformix.data.labels import check_classes
from conformix.errors import InvalidInput
from conformix.fit.exact.split import FullFitted
from conformix.fit.fit import stated
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Fitted, Rule
from conformix.fit.saved.agreement import check_model, check_settings
from conformix.fit.saved.arrays import Arrays
from conformix.fit.saved.blend import blend_in, blend_out
from conformix.fit.saved.checks import check_facts
from conformix.fit.saved.cuts import conditional_out, cuts_in, limits_in
from conformix.fit.saved.fields import check_type, field_of, shortened
from conformix.fit.saved.files import (
    MAX_MEMORY,
    damaged,
    memory_limits,
    read_json,
    read_npz,
    write,
)
from conformix.fit.saved.folder import MissingArrays, arrays_name, read_whole, saving
from conformix.fit.saved.migrations import SCHEMA, refuse_unknown
from conformix.fit.saved.settings import (
    columns_in,
    score_names,
    score_out,
    settings_in,
    settings_out,
)
from conformix.guarantees import EXACT, Facts, Ledger, RankRule
from conformix.kernels.arrays import to_host
from conformix.scores.scale import Interpolated, Scaled, Transform
from conformix.search import SearchResult
from conformix.splits import SPLITS

_DOCUMENT = ("format", "schema", "version", "params", "predictor", "npz", "npz_sha256")
_PREDICTOR = (
    "columns", "models", "n_classes", "kind", "key", "alpha", "classes", "fitted", "blend",
)  # fmt: skip
_RULE = (
    "type", "weights", "transform", "allow_empty", "calibration", "guarantee", "facts",
    "normalizer", "search", "held_out_size", "cuts", "limits", "reference",
)  # fmt: skip
_EXACT = ("type", "scores", "y", "weights", "transform", "alpha", "normalizer", "grouped")


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
    _refuse_other_settings(params, predictor)  # after what cannot be saved at all
    with saving(target):
        if arrays.stored:
            buffer = BytesIO()
            np.savez_compressed(buffer, **arrays.stored)
            digest = hashlib.sha256(buffer.getvalue()).hexdigest()
            document |= {"npz": arrays_name(target, digest), "npz_sha256": digest}
            write(target.with_name(str(document["npz"])), buffer.getvalue())
        write(target, json.dumps(document, indent=1, allow_nan=False).encode())


def _refuse_other_settings(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse to save settings that were changed since the fit: the file would contradict itself."""
    own = {"calibration": "marginal", "objective": "size"} | params
    if predictor.blend is None:  # a file has the scores of the fit
        own["scores"] = tuple(score_names(predictor))
    try:
        check_settings(own, predictor)
    except InvalidInput as error:
        what = str(error).removeprefix("its ").rstrip(".")
        raise InvalidInput(
            f"a setting was changed after fit and cannot be saved with it: {what}; fit again, or "
            "set it back."
        ) from None


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
    return read_whole(source, lambda: _model_in(source, read_json(source, limits), limits))


def _model_in(
    source: Path, document: dict[str, Any], limits: Limits
) -> tuple[dict[str, Any], Predictor]:
    try:
        refuse_unknown(document, _DOCUMENT, "contents")
        arrays = Arrays(read_npz(source, document, limits))
        field_of(document, "version", "str", "contents")
        params = settings_in(field_of(document, "params", "dict", "contents"), arrays)
        predictor = _predictor_in(document["predictor"], arrays)
        check_model(params, predictor)
        return params, predictor
    except MissingArrays:
        raise
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


def _predictor_in(told: Any, arrays: Arrays) -> Predictor:
    where = "predictor"
    check_type(told, "dict", where)
    refuse_unknown(told, _PREDICTOR, where)
    n_classes = field_of(told, "n_classes", "int", where)
    models = field_of(told, "models", "list", where)
    fitted = field_of(told, "fitted", "dict", where)
    readers: dict[str, Callable[..., Any]] = {"rule": _rule_in, "exact": _exact_in}
    kind = field_of(fitted, "type", "str", "fitted")
    if kind not in readers:
        raise InvalidInput(f"its fitted.type cannot be {shortened(kind)}")
    return Predictor(
        columns=columns_in(field_of(told, "columns", "list", where), "predictor.columns"),
        models=tuple(check_type(model, "str", "predictor.models") for model in models),
        n_classes=n_classes,
        kind=field_of(told, "kind", "str", where),
        key=field_of(told, "key", "int", where),
        alpha=field_of(told, "alpha", "float", where),
        fitted=readers[kind](fitted, arrays),
        classes=check_classes(field_of(told, "classes", "list | None", where), n_classes),
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
        "reference": None if fitted.reference is None else arrays.put(fitted.reference),
    } | conditional_out(fitted, arrays)


def _rule_in(told: dict[str, Any], arrays: Arrays) -> Fitted:
    where = "fitted"
    refuse_unknown(told, _RULE, "fitted rule")
    weights = arrays.get(field_of(told, "weights", "dict", where), "fitted.weights")
    found = field_of(told, "search", "dict | None", where)
    if found is not None:
        chosen = arrays.get(field_of(found, "weights", "dict", "search"), "search.weights")
        found = SearchResult(**(found | {"weights": chosen}))
    calibration = arrays.get(field_of(told, "calibration", "dict", where), "fitted.calibration")
    equal = field_of(told, "reference", "dict | None", where)
    facts = _facts_in(field_of(told, "facts", "dict", where))
    guarantee = field_of(told, "guarantee", "dict", where)  # worked out again, never believed
    for name in ("kind", "statement", "assumption"):
        field_of(guarantee, name, "str", "guarantee")
    refuse_unknown(guarantee, ("kind", "statement", "assumption"), "guarantee")
    cuts = cuts_in(told.get("cuts"), calibration, facts.n_classes, arrays)
    if facts.calibration != cuts.name:
        raise InvalidInput(f"its facts.calibration is {shortened(facts.calibration)}, but its cuts "
                           f"are {cuts.name}")  # fmt: skip
    return Fitted(
        rule=Rule(
            _transform_in(field_of(told, "transform", "dict", where), arrays),
            weights,
            field_of(told, "allow_empty", "bool", where),
            limits_in(told.get("limits"), arrays),
        ),
        calibration=calibration,
        ledger=_ledger_in(facts).under(cuts.name, cuts.promise),
        normalizer=field_of(told, "normalizer", "str", where),
        search=found,
        held_out_size=field_of(told, "held_out_size", "float | None", where),
        cuts=cuts,
        reference=None if equal is None else arrays.get(equal, "fitted.reference"),
    )


def _facts_in(told: dict[str, Any]) -> Facts:
    rank = field_of(told, "rank", "dict", "facts")
    facts = Facts(**(told | {"rank": RankRule(**rank)}))
    check_facts(facts)
    return facts


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
        "grouped": fitted.grouped,
    }


def _exact_in(told: dict[str, Any], arrays: Arrays) -> FullFitted:
    where = "fitted"
    refuse_unknown(told, _EXACT, "exact split")
    y = arrays.get(field_of(told, "y", "dict", where), "fitted.y")
    if y.dtype != np.int64:
        raise InvalidInput("its fitted.y holds no labels")
    return FullFitted(
        scores=arrays.get(field_of(told, "scores", "dict", where), "fitted.scores"),
        y=y.astype(np.intp),
        weights=arrays.get(field_of(told, "weights", "dict", where), "fitted.weights"),
        transform=_transform_in(field_of(told, "transform", "dict", where), arrays),
        alpha=field_of(told, "alpha", "float", where),
        normalizer=field_of(told, "normalizer", "str", where),
        grouped=field_of(told, "grouped", "bool", where),
    )


def _transform_out(transform: Transform, arrays: Arrays) -> dict[str, Any]:
    if isinstance(transform, Scaled):
        return {"factors": list(transform.factors)}
    if isinstance(transform, Interpolated):
        pairs = zip(transform.knots, transform.levels, strict=True)
        return {"curves": [[arrays.put(knots), arrays.put(levels)] for knots, levels in pairs]}
    raise InvalidInput("a normaliser of your own cannot be saved in a model file.")


def _transform_in(told: dict[str, Any], arrays: Arrays) -> Transform:
    where = "transform"
    if "factors" in told:
        refuse_unknown(told, ("factors",), where)
        factors = field_of(told, "factors", "list", where)
        return Scaled(tuple(float(check_type(f, "float", "transform.factors")) for f in factors))
    refuse_unknown(told, ("curves",), where)
    pairs = [check_type(pair, "list", "transform.curves") for pair in
             field_of(told, "curves", "list", where)]  # fmt: skip
    if not all(len(pair) == 2 for pair in pairs):
        raise InvalidInput("its transform.curves are not pairs of knots and levels")
    curves = [[arrays.get(part, "transform.curves") for part in pair] for pair in pairs]
    return Interpolated(tuple(knots for knots, _ in curves), tuple(levels for _, levels in curves))
