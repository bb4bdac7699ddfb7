"""A fitted model as a document, and back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.atomic import as_path
from conformix.calibration import LabelShift, Marginal, Weighted
from conformix.calibration.cuts import Single, SinglePlan
from conformix.calibration.strata import Partition, Stratified
from conformix.calibration.weighted import Reweighted
from conformix.data.files.limits import Limits
from conformix.data.labels import check_classes
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput
from conformix.fit.exact.split import FullFitted
from conformix.fit.fit import stated
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Calibrated, Rule
from conformix.fit.saved.checks import (
    check_facts,
    check_importance,
    check_model,
    check_partition,
    check_plan,
    check_settings,
    check_strata,
    check_votes,
)
from conformix.fit.saved.codec import (
    Arrays,
    Codec,
    Form,
    check_type,
    field_of,
    refuse_unknown,
    shortened,
)
from conformix.fit.saved.files import (
    MAX_MEMORY,
    damaged,
    memory_limits,
    read_json,
    read_npz,
    write,
)
from conformix.fit.saved.folder import MissingArrays, arrays_name, read_whole, saving
from conformix.fit.saved.migrations import SCHEMA
from conformix.fit.saved.settings import (
    columns_in,
    columns_out,
    score_names,
    settings_in,
    settings_out,
)
from conformix.fit.seen import SeenRows
from conformix.fit.settings import are_equal
from conformix.fit.vote import Voted, voted
from conformix.guarantees import EXACT, Facts, Ledger, RankRule
from conformix.kernels.arrays import FloatArray, IntArray, to_host
from conformix.kernels.combine import RankLimits
from conformix.scores.blend import Blend
from conformix.scores.ensemble import resolve_ensemble
from conformix.scores.evidence import Evidence
from conformix.scores.scale import Interpolated, Scaled
from conformix.search import SearchResult
from conformix.splits import SPLITS

_DOCUMENT = ("format", "schema", "version", "params", "predictor", "npz", "npz_sha256")
_PREDICTOR = (
    "columns", "models", "n_classes", "kind", "key", "alpha", "classes", "fitted", "blend",
    "arithmetic", "ensemble", "seen",
)  # fmt: skip
_RULE = (
    "type", "weights", "transform", "allow_empty", "calibration", "guarantee", "facts",
    "normalizer", "search", "held_out_size", "cuts", "limits", "reference",
)  # fmt: skip
_VOTE = ("type", "votes", "facts", "held_out_size")
_EXACT = ("type", "scores", "y", "weights", "transform", "alpha", "normalizer", "grouped",
          "n_unlabelled", "plan", "strata", "sample_weight", "tuned", "allow_empty")  # fmt: skip
_PARTITION = ("cells", "names", "what", "fallback", "n_rare", "fixed")


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
    if predictor.fitted.ledger.each_row:
        raise InvalidInput(
            'test="each" predicts with the outputs of all calibration rows, '
            f"{predictor.fitted.n:,} x {predictor.n_classes:,} numbers for every model, which no "
            "model file holds; keep these rows and fit again."
        )
    arrays = Arrays()
    if are_equal(params["weights"]):  # a file has the numbers
        params = params | {"weights": predictor.fitted.rule.weights}
    document = {
        "format": "conformix model",
        "schema": SCHEMA,
        "version": __version__,
        "params": settings_out(params, predictor, arrays),
        "predictor": _predictor_out(predictor, arrays),
    }
    _refuse_other_settings(params, predictor)  # after what cannot be saved at all
    write_document(document, arrays, target)


def write_document(
    document: dict[str, Any], arrays: Arrays, target: Path, *, durable: bool = False
) -> None:
    """Write a document with its arrays, whole or not at all."""
    with saving(target):
        if arrays.stored:
            buffer = BytesIO()
            np.savez_compressed(buffer, **arrays.stored)
            digest = hashlib.sha256(buffer.getvalue()).hexdigest()
            document |= {"npz": arrays_name(target, digest), "npz_sha256": digest}
            write(target.with_name(str(document["npz"])), buffer.getvalue(), durable=durable)
        write(target, json.dumps(document, indent=1, allow_nan=False).encode(), durable=durable)


def _refuse_other_settings(params: dict[str, Any], predictor: Predictor) -> None:
    """Refuse to save settings that were changed since the fit: the file would contradict itself."""
    params = {"calibration": "marginal", "objective": "size"} | params
    if predictor.blend is None:  # a file has the scores of the fit
        params["scores"] = tuple(score_names(predictor))
    elif params["scores"] is None:  # left to the library
        params["scores"] = "auto"
    refuse_changed(lambda: check_settings(params, predictor))


def refuse_changed(check: Callable[[], None]) -> None:
    """Refuse to save what does not pass the check of settings against the fit."""
    try:
        check()
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
    with reading(source, document, limits, _DOCUMENT) as arrays:
        params = settings_in(field_of(document, "params", "dict", "contents"), arrays)
        predictor = _predictor_in(document["predictor"], arrays)
        check_model(params, predictor)
        return params, predictor
    raise AssertionError  # a block that reads returns or raises


@contextmanager
def reading(
    source: Path, document: dict[str, Any], limits: Limits, known: Collection[str]
) -> Iterator[Arrays]:
    """Give the arrays of a document; whatever then makes no sense is damage, in one sentence."""
    try:
        refuse_unknown(document, known, "contents")
        arrays = Arrays(read_npz(source, document, limits))
        field_of(document, "version", "str", "contents")
        yield arrays
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
    exact split, which searches at prediction, loads numba, once much has been asked of it.

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
    return {
        "columns": columns_out(predictor.columns, arrays),
        "models": list(predictor.models),
        "n_classes": predictor.n_classes,
        "kind": predictor.kind,
        "arithmetic": predictor.arithmetic,
        "key": predictor.key,
        "alpha": float(predictor.alpha),
        "classes": None if predictor.classes is None else list(predictor.classes),
        "fitted": FITTED.write(predictor.fitted, arrays),
        **({} if predictor.blend is None else {"blend": _blend_out(predictor.blend, arrays)}),
        **({} if predictor.ensemble is None else {"ensemble": predictor.ensemble.how}),
        **({} if predictor.seen is None else {"seen": seen_out(predictor.seen, arrays)}),
    }


def _predictor_in(document: Any, arrays: Arrays) -> Predictor:
    where = "predictor"
    check_type(document, "dict", where)
    refuse_unknown(document, _PREDICTOR, where)
    n_classes = field_of(document, "n_classes", "int", where)
    models = field_of(document, "models", "list", where)
    return Predictor(
        columns=columns_in(
            field_of(document, "columns", "list", where), "predictor.columns", arrays, n_classes
        ),
        models=tuple(check_type(model, "str", "predictor.models") for model in models),
        n_classes=n_classes,
        kind=field_of(document, "kind", "str", where),
        key=field_of(document, "key", "int", where),
        arithmetic=field_of(document, "arithmetic", "str", where),
        alpha=field_of(document, "alpha", "float", where),
        fitted=FITTED.read(field_of(document, "fitted", "dict", where), arrays, "fitted"),
        classes=check_classes(field_of(document, "classes", "list | None", where), n_classes),
        blend=_blend_in(document["blend"], arrays, n_classes) if "blend" in document else None,
        ensemble=resolve_ensemble(document.get("ensemble")),
        seen=seen_in(document["seen"], arrays) if "seen" in document else None,
    )


def seen_out(seen: SeenRows, arrays: Arrays) -> dict[str, Any]:
    """Return the digests of rows of a fit as JSON has them."""
    return {"digests": arrays.put(seen.digests), "n": seen.n}


def seen_in(document: Any, arrays: Arrays) -> SeenRows:
    """Return the digests that a file holds."""
    check_type(document, "dict", "seen")
    refuse_unknown(document, ("digests", "n"), "seen")
    return SeenRows(
        array_in(document, "digests", arrays, "seen"), field_of(document, "n", "int", "seen")
    )


def _blend_out(blend: Blend, arrays: Arrays) -> dict[str, Any]:
    return {
        "name": blend.name,
        "columns": columns_out(blend.columns, arrays),
        "coefficients": arrays.put(np.asarray(blend.coefficients, dtype=np.float64)),
        **({} if blend.evidence is None else {"evidence": asdict(blend.evidence)}),
    }


def _blend_in(document: Any, arrays: Arrays, n_classes: int) -> Blend:
    """Return the blend that a file holds; it checks itself."""
    check_type(document, "dict", "blend")
    refuse_unknown(document, ("name", "columns", "coefficients", "evidence"), "blend")
    coefficients = array_in(document, "coefficients", arrays, "blend")
    listed = field_of(document, "columns", "list", "blend")
    columns = columns_in(listed, "blend.columns", arrays, n_classes)
    name = field_of(document, "name", "str", "blend")
    return Blend(columns, coefficients, name, _evidence_in(document))


def _evidence_in(document: dict[str, Any]) -> Evidence | None:
    if "evidence" not in document:
        return None
    names, where = ("spread", "top", "narrowest", "widest"), "blend.evidence"
    evidence = field_of(document, "evidence", "dict", "blend")
    refuse_unknown(evidence, names, where)
    return Evidence(*(field_of(evidence, name, "float", where) for name in names))


def array_in(document: dict[str, Any], name: str, arrays: Arrays, where: str) -> Any:
    """Return the array that a field stands for."""
    return arrays.get(field_of(document, name, "dict", where), f"{where}.{name}")


def array_or_none(document: dict[str, Any], name: str, arrays: Arrays, where: str) -> Any:
    """Return the array that a field stands for, None for null."""
    there = field_of(document, name, "dict | None", where) is not None
    return array_in(document, name, arrays, where) if there else None


def rule_out(fitted: Calibrated, arrays: Arrays, transforms: Codec | None = None) -> dict[str, Any]:
    """Return a rule with its thresholds as JSON has it."""
    result, limits = fitted.search, fitted.limits
    document = {
        "weights": arrays.put(fitted.rule.weights),
        "transform": (transforms or TRANSFORMS).write(fitted.transform, arrays),
        "allow_empty": fitted.rule.allow_empty,
        "calibration": arrays.put(fitted.calibration),
        "guarantee": vars(fitted.ledger.guarantee),
        "facts": asdict(fitted.ledger.facts),
        "normalizer": fitted.normalizer,
        "search": None if result is None
        else vars(result) | {"weights": arrays.put(result.weights)},
        "held_out_size": fitted.held_out_size,
        "reference": None if fitted.reference is None else arrays.put(fitted.reference),
    }  # fmt: skip
    if fitted.cuts.name != Marginal.name:
        document["cuts"] = CUTS.write(fitted.cuts, arrays)
    if limits is not None:
        document["limits"] = limits_out(limits, arrays)
    return document


def _rule_in(document: dict[str, Any], arrays: Arrays, where: str) -> Calibrated:
    refuse_unknown(document, _RULE, "fitted rule")
    calibration = array_in(document, "calibration", arrays, where)
    facts = facts_in(field_of(document, "facts", "dict", where))
    guarantee = field_of(document, "guarantee", "dict", where)  # worked out again, never believed
    for name in ("kind", "statement", "assumption"):
        field_of(guarantee, name, "str", "guarantee")
    refuse_unknown(guarantee, ("kind", "statement", "assumption"), "guarantee")
    cuts: Any = Single(calibration)
    if document.get("cuts") is not None:
        cuts = CUTS.read(document["cuts"], arrays, "cuts", calibration, facts.n_classes)
    if facts.calibration != cuts.name:
        raise InvalidInput(f"its facts.calibration is {shortened(facts.calibration)}, but its cuts "
                           f"are {cuts.name}")  # fmt: skip
    base = EXACT if facts.split == "fixed" else SPLITS[facts.split].guarantee
    return Calibrated(
        rule=Rule(
            TRANSFORMS.read(field_of(document, "transform", "dict", where), arrays, "transform"),
            array_in(document, "weights", arrays, where),
            field_of(document, "allow_empty", "bool", where),
            limits_in(document.get("limits"), arrays),
        ),
        calibration=calibration,
        ledger=Ledger(stated(base, facts), facts).under(cuts.name, cuts.promise),
        normalizer=field_of(document, "normalizer", "str", where),
        search=_search_in(field_of(document, "search", "dict | None", where), arrays),
        held_out_size=field_of(document, "held_out_size", "float | None", where),
        cuts=cuts,
        reference=array_or_none(document, "reference", arrays, where),
    )


def _vote_out(fitted: Voted, arrays: Arrays) -> dict[str, Any]:
    facts, size = asdict(fitted.ledger.facts), fitted.held_out_size
    return {"votes": arrays.put(fitted.votes), "facts": facts, "held_out_size": size}


def _vote_in(document: dict[str, Any], arrays: Arrays, where: str) -> Voted:
    """Return the vote that a file holds: the scores of its calibration rows say all of it."""
    refuse_unknown(document, _VOTE, "vote")
    facts = facts_in(field_of(document, "facts", "dict", where))
    votes = array_in(document, "votes", arrays, where)
    check_votes(votes, facts)
    ledger = Ledger(stated(EXACT, facts), replace(facts, calibration=Marginal.name))
    size = field_of(document, "held_out_size", "float | None", where)
    return replace(voted(votes, ledger, facts.alpha), held_out_size=size)


def facts_in(document: dict[str, Any], kind: type[Facts] = Facts) -> Any:
    """Return the numbers of a fit that a file holds, checked."""
    rank = field_of(document, "rank", "dict", "facts")
    facts = kind(**(document | {"rank": RankRule(**rank)}))
    check_facts(facts)
    return facts


def _search_in(document: dict[str, Any] | None, arrays: Arrays) -> SearchResult | None:
    if document is None:
        return None
    weights = array_in(document, "weights", arrays, "search")
    return SearchResult(**(document | {"weights": weights}))


def limits_out(limits: RankLimits | None, arrays: Arrays) -> dict[str, Any] | None:
    """Return the largest rank of every class as JSON has it."""
    if limits is None:
        return None
    return {"ranks": arrays.put(limits.ranks.astype(np.int64)), "drop": limits.drop}


def limits_in(document: dict[str, Any] | None, arrays: Arrays) -> RankLimits | None:
    """Return the largest rank of every class that a file holds."""
    if document is None:
        return None
    ranks: IntArray = array_in(document, "ranks", arrays, "limits")
    refuse_unknown(document, ("ranks", "drop"), "limits")
    return RankLimits(ranks, float(field_of(document, "drop", "float", "limits")))


def _exact_out(fitted: FullFitted, arrays: Arrays) -> dict[str, Any]:
    document = {
        "scores": arrays.put(to_host(fitted.scores)),
        "y": arrays.put(fitted.y.astype(np.int64)),
        "weights": arrays.put(fitted.weights),
        "transform": TRANSFORMS.write(fitted.transform, arrays),
        "alpha": float(fitted.alpha),
        "normalizer": fitted.normalizer,
        "grouped": fitted.grouped,
        "n_unlabelled": fitted.n_unlabelled,
    }
    tuned = {"tuned": fitted.tuned} if fitted.plan.by_row else {}
    filled = {} if fitted.allow_empty else {"allow_empty": False}
    return document | plan_out(fitted, arrays) | tuned | filled


def plan_out(fitted: Any, arrays: Arrays) -> dict[str, Any]:
    """Return how the rows of an exact split are calibrated, and what they bring along for it."""
    if not fitted.plan.by_row:
        return {}
    plan: Any = fitted.plan
    strata, weight = fitted.data.strata, fitted.data.weight
    return {
        "plan": PLANS.write(plan, arrays),
        "strata": None if strata is None else arrays.put(plan.groups_of(fitted.data)),
        "sample_weight": None if weight is None else arrays.put(weight),
    }


def _exact_in(document: dict[str, Any], arrays: Arrays, where: str) -> FullFitted:
    refuse_unknown(document, _EXACT, "exact split")
    y = array_in(document, "y", arrays, where)
    if y.dtype != np.int64:
        raise InvalidInput("its fitted.y holds no labels")
    scores = array_in(document, "scores", arrays, where)
    if scores.ndim != 3 or y.shape != scores.shape[:1]:
        raise InvalidInput("its fitted.scores are not (n, K, d)")
    plan, data = plan_in(document, arrays, *scores.shape[:2])
    return FullFitted(
        scores=scores,
        y=y.astype(np.intp),
        weights=array_in(document, "weights", arrays, where),
        transform=TRANSFORMS.read(
            field_of(document, "transform", "dict", where), arrays, "transform"
        ),
        alpha=field_of(document, "alpha", "float", where),
        normalizer=field_of(document, "normalizer", "str", where),
        grouped=field_of(document, "grouped", "bool", where),
        n_unlabelled=field_of({"n_unlabelled": 0} | document, "n_unlabelled", "int", where),
        plan=plan,
        data=data,
        tuned="plan" in document and field_of(document, "tuned", "bool", where),
        allow_empty=field_of({"allow_empty": True} | document, "allow_empty", "bool", where),
    )


def plan_in(
    document: dict[str, Any], arrays: Arrays, n: int, n_classes: int
) -> tuple[Any, RowData]:
    """Return how the rows of the exact split are calibrated, and what they bring along for it."""
    if "plan" not in document:
        return SinglePlan(), NO_DATA
    plan = PLANS.read(document["plan"], arrays, "plan")
    groups = array_or_none(document, "strata", arrays, "fitted")
    weight = array_or_none(document, "sample_weight", arrays, "fitted")
    check_plan(plan, groups, weight, n, n_classes)
    return plan, RowData(None if groups is None else np.array(plan.names)[groups], weight)


FITTED = Codec(
    "fitted",
    {
        "rule": Form(Calibrated, rule_out, _rule_in),
        "exact": Form(FullFitted, _exact_out, _exact_in),
        "vote": Form(Voted, _vote_out, _vote_in),
    },
    "type",
)


def _factors_in(factors: Any, arrays: Arrays, where: str) -> Scaled:
    check_type(factors, "list", f"{where}.factors")
    return Scaled(tuple(float(check_type(f, "float", f"{where}.factors")) for f in factors))


def _curves_out(transform: Interpolated, arrays: Arrays) -> Any:
    pairs = zip(transform.knots, transform.levels, strict=True)
    return [[arrays.put(knots), arrays.put(levels)] for knots, levels in pairs]


def _curves_in(curves: Any, arrays: Arrays, where: str) -> Interpolated:
    where = f"{where}.curves"
    pairs = [check_type(pair, "list", where) for pair in check_type(curves, "list", where)]
    if not all(len(pair) == 2 for pair in pairs):
        raise InvalidInput(f"its {where} are not pairs of knots and levels")
    knots, levels = ([arrays.get(pair[end], where) for pair in pairs] for end in (0, 1))
    return Interpolated(tuple(knots), tuple(levels))


TRANSFORMS = Codec(
    "transform",
    {
        "factors": Form(Scaled, lambda scaled, arrays: list(scaled.factors), _factors_in),
        "curves": Form(Interpolated, _curves_out, _curves_in),
    },
    "key",
    refusal="a normaliser of your own cannot be saved in a model file.",
)


def _strata_out(cuts: Stratified, arrays: Arrays) -> dict[str, Any]:
    return {
        "stratum": arrays.put(cuts.stratum.astype(np.int64)),
        **_partition_out(cuts.partition, arrays),
    }


def _partition_out(part: Partition, arrays: Arrays) -> dict[str, Any]:
    return {
        "cells": arrays.put(part.cells.astype(np.int64)),
        "names": list(part.names),
        "what": part.what,
        "fallback": part.fallback,
        "n_rare": part.n_rare,
        "fixed": part.fixed,
    }


def _strata_in(
    document: dict[str, Any], arrays: Arrays, where: str, calibration: FloatArray, n_classes: int
) -> Stratified:
    refuse_unknown(document, ("type", "stratum", *_PARTITION), where)
    stratum = array_in(document, "stratum", arrays, where)
    partition = _partition_in(document, arrays, where)
    check_partition(partition, n_classes)
    check_strata(partition, stratum, calibration)
    return Stratified(partition, calibration, stratum)


def _partition_in(document: dict[str, Any], arrays: Arrays, where: str) -> Partition:
    return Partition(
        array_in(document, "cells", arrays, where),
        tuple(field_of(document, "names", "list", where)),
        field_of(document, "what", "str", where),
        field_of(document, "fallback", "str", where),
        field_of(document, "n_rare", "int", where),
        field_of(document, "fixed", "bool", where),
    )


def _weighted_out(cuts: Reweighted, arrays: Arrays) -> dict[str, Any]:
    ratios = getattr(cuts.plan, "by_class", None)  # under label shift alone
    return {
        "weight": arrays.put(cuts.weight),
        "ratios": None if ratios is None else arrays.put(ratios),
        "known": cuts.plan.known,
    }


def _weighted_in(
    document: dict[str, Any], arrays: Arrays, where: str, calibration: FloatArray, n_classes: int
) -> Reweighted:
    refuse_unknown(document, ("type", "weight", "ratios", "known"), where)
    weight = array_in(document, "weight", arrays, where)
    ratios = array_or_none(document, "ratios", arrays, where)
    check_importance(weight, ratios, len(calibration), n_classes)
    return Reweighted(_ratios_in(document, ratios, where), calibration, weight)


def _ratios_in(
    document: dict[str, Any], ratios: FloatArray | None, where: str
) -> Weighted | LabelShift:
    known = field_of(document, "known", "bool", where)
    return Weighted(known) if ratios is None else LabelShift(tuple(ratios.tolist()), known)


CUTS = Codec(
    "calibration",
    {
        "strata": Form(Stratified, _strata_out, _strata_in),
        "weighted": Form(Reweighted, _weighted_out, _weighted_in),
    },
    "type",
    refusal="{what} {value.name!r} is not of this library, and cannot be saved.",
)


def _partition_alone_in(document: dict[str, Any], arrays: Arrays, where: str) -> Partition:
    refuse_unknown(document, ("joins", *_PARTITION), where)
    joins = field_of(document, "joins", "list", where)
    units = tuple(check_type(unit, "int", f"{where}.joins") for unit in joins)
    return replace(_partition_in(document, arrays, where), joins=units)


PLANS = Codec(
    "calibration",
    {
        "strata": Form(
            Partition,
            lambda part, arrays: _partition_out(part, arrays) | {"joins": list(part.joins)},
            _partition_alone_in,
        ),
        Weighted.name: Weighted,
        LabelShift.name: LabelShift,
    },
    "pair",
    refusal="{what} {value.name!r} is not of this library, and cannot be saved.",
)
