"""Calibrations as JSON, and back: the user's setting, and the fitted thresholds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from conformix.arrays import FloatArray, IntArray
from conformix.calibration import CALIBRATIONS, LabelShift, Weighted
from conformix.calibration.cuts import Cuts, Single
from conformix.calibration.schemes import FALLBACKS
from conformix.calibration.strata import Partition, Stratified
from conformix.calibration.weighted import Reweighted
from conformix.errors import InvalidInput
from conformix.fitted import Fitted
from conformix.kernels.limits import RankLimits
from conformix.storage.arrays import Arrays

_KNOWN: dict[str, Any] = {
    scheme.name: type(scheme) for scheme in (CALIBRATIONS[name] for name in CALIBRATIONS)
}
_KNOWN |= {LabelShift.name: LabelShift}
_STRATA = ("class", "cluster", "group", "group and class")


def calibration_out(calibration: Any) -> Any:
    """Return the user's setting: a name, or the options of an object of this library."""
    if isinstance(calibration, str):
        return calibration
    if type(calibration) is not _KNOWN.get(calibration.name):
        raise InvalidInput(
            f"calibration {calibration!r} is not of this library, and cannot be saved."
        )
    options = {item.name: _plain(getattr(calibration, item.name)) for item in fields(calibration)}
    return {"name": calibration.name, "options": options}


def _plain(value: Any) -> Any:
    """Return numbers of NumPy as Python's, arrays as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def calibration_in(told: Any) -> Any:
    """Return the setting that a file holds."""
    if isinstance(told, str):
        return CALIBRATIONS[told].name
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in told["options"].items()
    }
    return _KNOWN[told["name"]](**options)


def cuts_out(cuts: Cuts, arrays: Arrays) -> dict[str, Any] | None:
    """Return what the thresholds rest on besides the calibration scores; None where nothing."""
    if isinstance(cuts, Stratified):
        part = cuts.partition
        return {
            "type": "strata",
            "stratum": arrays.put(cuts.stratum.astype(np.int64)),
            "cells": arrays.put(part.cells.astype(np.int64)),
            "names": list(part.names),
            "what": part.what,
            "fallback": part.fallback,
            "n_rare": part.n_rare,
            "fixed": part.fixed,
        }
    if isinstance(cuts, Reweighted):
        plan = cuts.plan
        ratios = arrays.put(plan.by_class) if isinstance(plan, LabelShift) else None
        weight = arrays.put(cuts.weight)
        return {"type": "weighted", "weight": weight, "ratios": ratios, "known": plan.known}
    if isinstance(cuts, Single):
        return None
    raise InvalidInput(f"calibration {cuts.name!r} is not of this library, and cannot be saved.")


def conditional_out(fitted: Fitted, arrays: Arrays) -> dict[str, Any]:
    """Return what a fit that is not marginal has besides: nothing for one that is."""
    cuts, limits = cuts_out(fitted.cuts, arrays), fitted.rule.limits
    told: dict[str, Any] = {} if cuts is None else {"cuts": cuts}
    if limits is None:
        return told
    ranks = arrays.put(limits.ranks.astype(np.int64))
    return told | {"limits": {"ranks": ranks, "drop": limits.drop}}


def limits_in(told: dict[str, Any] | None, n_classes: int, arrays: Arrays) -> RankLimits | None:
    """Return the largest ranks by class, where a file has them."""
    if told is None:
        return None
    ranks: IntArray = arrays.get(told["ranks"])
    _require(ranks.shape == (n_classes,) and ranks.dtype == np.int64)
    _require(bool(((ranks >= 1) & (ranks <= n_classes)).all()))
    _require(bool(0 < told["drop"] < np.inf))
    return RankLimits(ranks, float(told["drop"]))


def cuts_in(
    told: dict[str, Any] | None, calibration: FloatArray, n_classes: int, arrays: Arrays
) -> Cuts:
    """Return the cuts over calibration scores, sorted upwards, if all parts fit together."""
    if told is None:
        return Single(calibration)
    if told["type"] == "weighted":
        weight = arrays.get(told["weight"])
        _require(weight.shape == calibration.shape and _proper(weight))
        ratios = None if told["ratios"] is None else arrays.get(told["ratios"])
        _require(ratios is None or (ratios.shape == (n_classes,) and _proper(ratios)))
        known = bool(told["known"])
        plan = Weighted(known) if ratios is None else LabelShift(tuple(ratios.tolist()), known)
        return Reweighted(plan, calibration, weight)
    _require(told["type"] == "strata")
    return _strata_in(told, calibration, n_classes, arrays)


def _strata_in(
    told: dict[str, Any], calibration: FloatArray, n_classes: int, arrays: Arrays
) -> Cuts:
    stratum, cells = arrays.get(told["stratum"]), arrays.get(told["cells"])
    names = tuple(told["names"])
    _require(cells.shape == (len(names) + 1, n_classes) and stratum.shape == calibration.shape)
    _require(cells.dtype == stratum.dtype == np.int64)
    _require(bool(np.isin(stratum, cells).all() and (cells >= -2).all()))
    _require(len({type(name) for name in names} | {int, str}) == 2 and list(names) == sorted(names))
    what, fallback, n_rare = told["what"], told["fallback"], told["n_rare"]
    # They make up the statement of what holds, which no file may word.
    _require(what in _STRATA and fallback in FALLBACKS)
    _require(type(n_rare) is int and 0 <= n_rare <= cells.size)
    partition = Partition(cells, names, what, fallback, n_rare, bool(told["fixed"]))
    # One per cell, and one that rare ones share (it comes after those that they left unused).
    _require(partition.n_strata <= cells.size + 1)
    return Stratified(partition, calibration, stratum)


def _proper(weight: FloatArray) -> bool:
    return bool(np.isfinite(weight).all() and (weight >= 0).all())


def _require(holds: bool) -> None:
    if not holds:
        raise InvalidInput("the strata or weights of its calibration do not fit")
