"""The state of a stream as a document, and back: what it needs to go on where it stopped."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from conformix import __version__
from conformix.atomic import as_path
from conformix.conformal import simple_fraction
from conformix.data.files.limits import Limits
from conformix.data.outputs import KINDS
from conformix.fit.saved.checks import require
from conformix.fit.saved.codec import Arrays, check_type, field_of, refuse_unknown
from conformix.fit.saved.files import MAX_MEMORY, memory_limits, read_json
from conformix.fit.saved.folder import read_whole
from conformix.fit.saved.migrations import SCHEMA
from conformix.fit.saved.model import array_in, reading, write_document
from conformix.fit.saved.settings import normalize_out, score_names, score_out
from conformix.regression.regressed import PARTS, Regressed, Shape, check_range
from conformix.regression.scores import NOTATION
from conformix.scores.learnt import RowSums

# No row has more classes: an array of its scores would not fit into any memory.
MOST_CLASSES = 2**40
_DOCUMENT = ("format", "schema", "version", "online", "npz", "npz_sha256")
_COMMON = ("true", "sizes", "waiting")
State = dict[str, Any]


class Kind(NamedTuple):
    """What the file of a stream holds beside what all of them do."""

    format: str
    fields: dict[str, str]  # all that its JSON has, with their types
    arrays: dict[str, Callable[[State], tuple[int, ...]]]  # their shapes, for one that is empty
    write: Callable[[State, Arrays], State]
    read: Callable[[State, State, Arrays], None]
    check: Callable[[State, int], None]
    needs: Callable[[State], int]  # bytes of a row that waits


def write_online(
    kind: Kind, state: State, path: str | os.PathLike[str], *, durable: bool = False
) -> None:
    """Write the state of a stream as JSON; scores of the user's own cannot be saved."""
    arrays = Arrays()
    candidates, alpha = state["candidates"], state["alpha"]
    whole = isinstance(candidates, int | np.integer)
    several = isinstance(alpha, list | tuple | np.ndarray)
    shapes = {name: shape(state) for name, shape in kind.arrays.items()}
    forms = {"waiting": np.int64, "waiting_depth": np.int64}
    kept = {name: np.asarray(state[name], dtype=forms.get(name)) for name in kind.arrays}
    online = {name: state[name] for name in kind.fields if name in state} | {
        "alpha": [float(one) for one in alpha] if several else float(alpha),
        "candidates": int(candidates) if whole else arrays.put(np.asarray(candidates, dtype=float)),
        "errors": [int(one) for one in state["errors"]] if several else int(state["errors"][0]),
        "state": state["state"] if several else state["state"][0],
        **kind.write(state, arrays),
        **{
            name: arrays.put(values.reshape(values.shape if values.size else shapes[name]))
            for name, values in kept.items()
        },
    }  # fmt: skip
    document = {"format": kind.format, "schema": SCHEMA, "version": __version__, "online": online}
    write_document(document, arrays, as_path(path), durable=durable)


def read_online(
    kind: Kind, path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> State:
    """Return the state of a stream, every part of its type and within its range."""
    source, limits = as_path(path), memory_limits(max_memory)
    return read_whole(
        source, lambda: _in(kind, source, read_json(source, limits, kind.format), limits)
    )


def _in(kind: Kind, source: Path, document: State, limits: Limits) -> State:
    with reading(source, document, limits, _DOCUMENT) as arrays:
        online = field_of(document, "online", "dict", "contents")
        refuse_unknown(online, kind.fields, "online")
        state = {
            name: field_of(online, name, types, "online") for name, types in kind.fields.items()
        }
        state["scores"] = tuple(check_type(s, "str", "online.scores") for s in state["scores"])
        if isinstance(state["normalize"], list):
            widths = [check_type(w, "float", "online.normalize") for w in state["normalize"]]
            state["normalize"] = tuple(widths)
        if isinstance(state["candidates"], dict):
            state["candidates"] = array_in(online, "candidates", arrays, "online")
        if isinstance(state["alpha"], list):
            state["alpha"] = tuple(check_type(a, "float", "online.alpha") for a in state["alpha"])
        for name in ("errors", "state"):  # one of every level
            if not isinstance(state[name], list):
                state[name] = [state[name]]
        for one in state["errors"]:
            check_type(one, "int", "online.errors")
        for control in state["state"]:
            for name, value in check_type(control, "dict", "online.state").items():
                types = "float | None" if name == "room" else "float"  # a budget may have no end
                for number in value if isinstance(value, list) else [value]:
                    check_type(number, types, f"online.state.{name}")
        for one in state["tickets"]:
            check_type(one, "int | str | None", "online.tickets")
        kind.read(online, state, arrays)
        state |= {name: array_in(online, name, arrays, "online") for name in kind.arrays}
        _check(kind, state)
        limits.check_memory(source, _needed(kind, state), "its window of steps and candidates")
        return state
    raise AssertionError  # `reading` returns or raises


def _learnt_in(entry: Any, arrays: Arrays, K: int) -> tuple[int, tuple[RowSums, Any]]:
    """Return of a score that learns its column, its sums, and what it has learnt."""
    where, wrong = "online.sums", "its online.sums are not sums over rows of its classes"
    check_type(entry, "dict", where)
    refuse_unknown(entry, ("column", "n", "products", "totals", "factors"), where)
    parts = (array_in(entry, name, arrays, where) for name in ("products", "totals", "factors"))
    products, totals, factors = parts
    sums = RowSums(field_of(entry, "n", "int", where), products, totals)
    shapes = products.shape in ((1,), (K, K)) and totals.shape in ((1,), (K,))  # one: none
    require(shapes and products.dtype == totals.dtype == np.int64 and sums.n >= 0, wrong)
    return field_of(entry, "column", "int", where), (sums, factors)


def _needed(kind: Kind, state: State) -> int:
    """Return the bytes of a stream: its window of scores, combined and charged by candidate."""
    d, candidates = state["true"].shape[1], state["candidates"]
    grid = isinstance(candidates, int)
    many = math.comb(candidates + d - 1, d - 1) if grid else len(candidates)
    return 8 * (state["window"] * (2 * many + d) + many * d) + kind.needs(state)


def _check(kind: Kind, state: State) -> None:
    """Refuse counts that contradict each other, and scores and sizes that cannot be."""
    alphas = state["alpha"] if isinstance(state["alpha"], tuple) else (state["alpha"],)
    require(len(alphas) > 0, "its online.alpha are none")
    levels = len({simple_fraction(alpha, "its online.alpha") for alpha in alphas})
    grid = isinstance(state["candidates"], int)
    require(not grid or state["candidates"] >= 1, "its online.candidates are none")
    counts = ("window", "max_pending", "issued")
    least = {"issued": 0}
    require(
        all(state[name] >= least.get(name, 1) for name in counts),
        "its online counts are not positive",
    )
    numbers = ("steps", "late", "forgotten", "place")
    require(all(state[name] >= 0 for name in numbers), "its online counts are not positive")
    steps, window = state["steps"], state["window"]
    require(
        state["issued"] == steps + state["forgotten"] + len(state["tickets"]),
        "its online rows are not those with labels, those without and those that wait",
    )
    right = len(state["errors"]) == levels and all(0 <= one <= steps for one in state["errors"])
    require(right, "its online.errors are more than its steps, or not one number per level")
    require(len(state["state"]) == levels, "its online.state is not one of every level")
    require(0 <= state["charged"] <= steps, "its online.charged are more than its steps")
    true, sizes = state["true"], state["sizes"]
    filled = true.ndim == 2 and len(true) == min(steps, window) and true.dtype == np.float64
    require(
        filled and true.shape[1] > 0 and np.isfinite(true).all(),
        "its online.true are not one row per step",
    )
    fades = state["adapt"] == "fading"
    kept = 1 if fades else min(state["charged"], window)
    charged = sizes.ndim == 2 and len(sizes) == kept
    charged = charged and sizes.dtype == (np.float64 if fades else np.int64)
    require(charged and (sizes >= 0).all(), "its online.sizes are not one row of sizes per step")
    n, number = len(state["tickets"]), state["waiting"]
    require(len(set(state["tickets"])) == n <= state["max_pending"], WAITING)
    require(number.shape == (n, 2), WAITING)
    ends = np.array([state["issued"], state["steps"] + 1])
    require(bool(((number >= 0) & (number < ends)).all()), WAITING)
    kind.check(state, levels)
    # JSON has whole numbers where arrays have their own.
    state["waiting"] = number.tolist()


WAITING = "its online.waiting is not one row per ticket"


def most_charged(state: State, most: int) -> None:
    """Refuse sizes beyond the largest that there are, or as many of them as fade."""
    sizes = state["sizes"]
    largest = most * (state["window"] if state["adapt"] == "fading" else 1)
    require((sizes <= largest).all(), "its online.sizes are larger than any")


# Sets.


def _sets_out(state: State, arrays: Arrays) -> State:
    named = SimpleNamespace(columns=state["columns"], scored_models=tuple(state["models"]))
    return {
        "scores": score_names(named),
        "normalize": normalize_out(state["normalize"]),
        "models": list(state["models"]),
        "sums": [
            {"column": int(j), "n": int(sums.n), "products": arrays.put(sums.products),
             "totals": arrays.put(sums.totals),
             "factors": arrays.put(state["columns"][j].score.factors)}
            for j, sums in state["sums"].items()
        ],
    }  # fmt: skip


def _sets_in(online: State, state: State, arrays: Arrays) -> None:
    state["models"] = tuple(check_type(m, "str", "online.models") for m in state["models"])
    n_classes = state["n_classes"]
    require(0 < n_classes <= MOST_CLASSES, "its online.n_classes ask for more memory than any")
    state["sums"] = dict(_learnt_in(one, arrays, n_classes) for one in state["sums"])


def _check_sets(state: State, levels: int) -> None:
    require(state["kind"] in KINDS, "its online.kind is none that outputs have")
    require(0 <= state["key"] < 2**63, "its online.key is out of range")
    require(len(set(state["models"])) == len(state["models"]) > 0, "its models are not distinct")
    require(state["due"] >= 0, "its online counts are not positive")
    most_charged(state, state["n_classes"])
    n, K, d = len(state["tickets"]), state["n_classes"], state["true"].shape[1]
    shapes = {"waiting_scores": (n, K, d), "waiting_depth": (n, K)}
    require(all(state[name].shape == shape for name, shape in shapes.items()), WAITING)
    pvalues, depth = state["waiting_pvalues"], state["waiting_depth"]
    require(pvalues.ndim == 2 and len(pvalues) == n and pvalues.shape[1] in (0, K), WAITING)
    require(bool(((depth >= 0) & (depth <= levels)).all()), WAITING)
    require(bool(np.isfinite(state["waiting_scores"]).all()), WAITING)
    require(bool(((pvalues >= 0) & (pvalues <= 1)).all()), WAITING)


def _d(state: State) -> int:
    return len(state["columns"])


SETS = Kind(
    format="conformix online model",
    fields={
        "scores": "list", "alpha": "float | list", "window": "int", "candidates": "int | dict",
        "adapt": "str | None", "normalize": "str | list", "kind": "str", "max_pending": "int",
        "key": "int", "models": "list", "n_classes": "int", "control": "str",
        "issued": "int", "steps": "int", "errors": "int | list", "late": "int", "forgotten": "int",
        "charged": "int", "state": "dict | list", "tickets": "list", "sums": "list", "due": "int",
        "place": "int", **dict.fromkeys(_COMMON, "dict"), "waiting_scores": "dict",
        "waiting_depth": "dict", "waiting_pvalues": "dict",
    },
    arrays={
        "true": lambda state: (0, _d(state)),
        "sizes": lambda state: np.shape(state["sizes"]),
        "waiting": lambda state: (0, 2),
        "waiting_scores": lambda state: (0, state["n_classes"], _d(state)),
        "waiting_depth": lambda state: (0, state["n_classes"]),
        "waiting_pvalues": lambda state: (len(state["tickets"]), 0),
    },
    write=_sets_out,
    read=_sets_in,
    check=_check_sets,
    needs=lambda state: 8 * state["n_classes"] * state["true"].shape[1],
)  # fmt: skip


# Intervals.


def one_row(shape: Shape) -> Regressed:
    """Return some row of a model that predicts so much: what has a shape has columns."""
    return Regressed(
        mean=[0.0] if "mean" in shape.has else None,
        sigma=[1.0] if "sigma" in shape.has else None,
        quantiles=np.zeros((1, len(shape.levels))) if shape.levels else None,
        levels=shape.levels or None,
    )


def _intervals_out(state: State, arrays: Arrays) -> State:
    normalize, ends = state["normalize"], state["y_range"]
    texts = [
        f"{column.model}.{score_out(column.score, NOTATION)}" if column.model
        else score_out(column.score, NOTATION)
        for column in state["columns"]
    ]  # fmt: skip
    return {
        "scores": texts,
        "normalize": normalize if isinstance(normalize, str) else [float(x) for x in normalize],
        "y_range": None if ends is None else arrays.put(np.array(ends)),
        "models": [
            {"name": name, "has": list(shape.has), "levels": list(shape.levels)}
            for name, shape in state["models"].items()
        ],
        "spreads": arrays.put(state["spreads"]),
    }


def _intervals_in(online: State, state: State, arrays: Arrays) -> None:
    shapes = dict(_shape_in(one) for one in state["models"])
    require(len(shapes) == len(state["models"]) > 0, "its models are not distinct")
    state["models"] = shapes
    if state["y_range"] is not None:
        state["y_range"] = check_range(array_in(online, "y_range", arrays, "online"))
    state["spreads"] = array_in(online, "spreads", arrays, "online")


def _shape_in(document: Any) -> tuple[str, Shape]:
    where = "online.models"
    check_type(document, "dict", where)
    refuse_unknown(document, ("name", "has", "levels"), where)
    has = field_of(document, "has", "list", where)
    parts = tuple(check_type(part, "str", where) for part in has)
    require(bool(parts) and set(parts) <= set(PARTS[:3]), f"its {where} predict what no model does")
    levels = field_of(document, "levels", "list", where)
    numbers = tuple(float(check_type(level, "float", where)) for level in levels)
    require(bool(numbers) == ("quantiles" in parts), f"its {where} have no levels of quantiles")
    return field_of(document, "name", "str", where), Shape(parts, numbers)


def _check_intervals(state: State, levels: int) -> None:
    sums, unit = state["spreads"], state["unit"]
    fine = sums.ndim == 1 and sums.dtype == np.float64 and np.isfinite(sums).all()
    require(fine and (sums >= 0).all() and state["counted"] >= 0, "its online.spreads are no sums")
    require(unit is None or (math.isfinite(unit) and unit > 0), "its online.unit is no width")
    most_charged(state, 2**62 // state["window"])
    n, d, window = len(state["tickets"]), state["true"].shape[1], state["window"]
    shapes = {"planes": (n, 4, d), "ends": (n, 2, levels), "weights": (n, d)}
    require(all(state[f"waiting_{k}"].shape == shape for k, shape in shapes.items()), WAITING)
    past = state["waiting_past"]
    require(past.shape in ((n, 0), (n, window)), WAITING)
    planes, weights = state["waiting_planes"], state["waiting_weights"]
    require(bool(np.isfinite(planes).all() and (planes[:, 2:] >= 0).all()), WAITING)
    require(bool(np.isfinite(weights).all() and (weights >= 0).all()), WAITING)
    require(not np.isnan(state["waiting_ends"]).any(), WAITING)
    require(not np.isnan(past).any() and bool((np.diff(past) >= 0).all()), WAITING)


INTERVALS = Kind(
    format="conformix online regression",
    fields={
        "scores": "list", "alpha": "float | list", "window": "int", "candidates": "int | dict",
        "adapt": "str | None", "normalize": "str | list", "y_range": "dict | None",
        "max_pending": "int", "models": "list", "control": "str", "issued": "int", "steps": "int",
        "errors": "int | list", "late": "int", "forgotten": "int", "charged": "int",
        "state": "dict | list", "tickets": "list", "spreads": "dict", "counted": "int",
        "unit": "float | None", "place": "int", **dict.fromkeys(_COMMON, "dict"),
        "waiting_planes": "dict", "waiting_ends": "dict", "waiting_weights": "dict",
        "waiting_past": "dict",
    },
    arrays={
        "true": lambda state: (0, _d(state)),
        "sizes": lambda state: np.shape(state["sizes"]),
        "waiting": lambda state: (0, 2),
        "waiting_planes": lambda state: (0, 4, _d(state)),
        "waiting_ends": lambda state: (0, 2, len(state["errors"])),
        "waiting_weights": lambda state: (0, _d(state)),
        "waiting_past": lambda state: (len(state["tickets"]), 0),
    },
    write=_intervals_out,
    read=_intervals_in,
    check=_check_intervals,
    needs=lambda state: 8 * state["window"] * len(state["tickets"]),
)  # fmt: skip


__all__ = ["INTERVALS", "SETS", "Kind", "read_online", "write_online"]
