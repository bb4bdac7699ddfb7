"""Calibrations as JSON, and back: the user's setting, and the fitted thresholds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from conformix.calibration import CALIBRATIONS, LabelShift, Weighted
from conformix.calibration.cuts import Cuts, Single
from conformix.calibration.strata import Partition, Stratified
from conformix.calibration.weighted import Reweighted
from conformix.errors import InvalidInput
from conformix.fit.rule import Fitted
from conformix.fit.saved.arrays import Arrays
from conformix.fit.saved.checks import check_importance, check_partition
from conformix.fit.saved.fields import check_fields, field_of, shortened
from conformix.fit.saved.migrations import refuse_unknown
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.combine import RankLimits

_KNOWN: dict[str, Any] = {
    scheme.name: type(scheme) for scheme in (CALIBRATIONS[name] for name in CALIBRATIONS)
}
_KNOWN |= {LabelShift.name: LabelShift}


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
    where = "params.calibration"
    name = field_of(told, "name", "str", where)
    refuse_unknown(told, ("name", "options"), where)
    if name not in _KNOWN:
        raise InvalidInput(f"its {where}.name cannot be {shortened(name)}")
    options = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in field_of(told, "options", "dict", where).items()
    }
    return check_fields(_KNOWN[name](**options), where)


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


def limits_in(told: dict[str, Any] | None, arrays: Arrays) -> RankLimits | None:
    """Return the largest ranks by class, where a file has them."""
    if told is None:
        return None
    ranks: IntArray = arrays.get(field_of(told, "ranks", "dict", "limits"), "limits.ranks")
    refuse_unknown(told, ("ranks", "drop"), "limits")
    return RankLimits(ranks, float(field_of(told, "drop", "float", "limits")))


def cuts_in(
    told: dict[str, Any] | None, calibration: FloatArray, n_classes: int, arrays: Arrays
) -> Cuts:
    """Return the cuts over calibration scores, sorted upwards, if all parts fit together."""
    if told is None:
        return Single(calibration)
    kind = field_of(told, "type", "str", "cuts")
    if kind not in ("weighted", "strata"):
        raise InvalidInput(f"its cuts.type cannot be {shortened(kind)}")
    return (_weighted_in if kind == "weighted" else _strata_in)(
        told, calibration, n_classes, arrays
    )


def _weighted_in(
    told: dict[str, Any], calibration: FloatArray, n_classes: int, arrays: Arrays
) -> Cuts:
    refuse_unknown(told, ("type", "weight", "ratios", "known"), "cuts")
    weight = arrays.get(field_of(told, "weight", "dict", "cuts"), "cuts.weight")
    given = field_of(told, "ratios", "dict | None", "cuts")
    ratios = None if given is None else arrays.get(given, "cuts.ratios")
    check_importance(weight, ratios, calibration, n_classes)
    known = field_of(told, "known", "bool", "cuts")
    plan = Weighted(known) if ratios is None else LabelShift(tuple(ratios.tolist()), known)
    return Reweighted(plan, calibration, weight)


def _strata_in(
    told: dict[str, Any], calibration: FloatArray, n_classes: int, arrays: Arrays
) -> Cuts:
    names = ("type", "stratum", "cells", "names", "what", "fallback", "n_rare", "fixed")
    refuse_unknown(told, names, "cuts")
    stratum = arrays.get(field_of(told, "stratum", "dict", "cuts"), "cuts.stratum")
    partition = Partition(
        arrays.get(field_of(told, "cells", "dict", "cuts"), "cuts.cells"),
        tuple(field_of(told, "names", "list", "cuts")),
        field_of(told, "what", "str", "cuts"),
        field_of(told, "fallback", "str", "cuts"),
        field_of(told, "n_rare", "int", "cuts"),
        field_of(told, "fixed", "bool", "cuts"),
    )
    check_partition(partition, stratum, calibration, n_classes)
    return Stratified(partition, calibration, stratum)
