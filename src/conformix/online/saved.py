"""The state of a stream as a document, and back: what it needs to go on where it stopped."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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
from conformix.fit.saved.settings import normalize_out, score_names
from conformix.scores.learnt import RowSums

FORMAT = "conformix online model"
# No row has more classes: an array of its scores would not fit into any memory.
MOST_CLASSES = 2**40
_DOCUMENT = ("format", "schema", "version", "online", "npz", "npz_sha256")
_ARRAYS = ("true", "sizes", "waiting", "waiting_scores", "waiting_depth", "waiting_pvalues")
_ONLINE = {
    "scores": "list", "alpha": "float | list", "window": "int", "candidates": "int | dict",
    "adapt": "str | None", "normalize": "str | list", "kind": "str", "max_pending": "int",
    "key": "int", "models": "list", "n_classes": "int", "control": "str",
    "issued": "int", "steps": "int", "errors": "int | list", "late": "int", "forgotten": "int",
    "charged": "int", "state": "dict | list", "tickets": "list", "sums": "list", "due": "int",
    "place": "int", **dict.fromkeys(_ARRAYS, "dict"),
}  # fmt: skip


def write_online(
    state: dict[str, Any], path: str | os.PathLike[str], *, durable: bool = False
) -> None:
    """Write the state of a stream as JSON; scores of the user's own cannot be saved."""
    arrays = Arrays()
    named = SimpleNamespace(columns=state["columns"], scored_models=tuple(state["models"]))
    candidates = state["candidates"]
    whole = isinstance(candidates, int | np.integer)
    alpha, d, n_classes = state["alpha"], len(state["columns"]), state["n_classes"]
    several = isinstance(alpha, list | tuple | np.ndarray)
    shapes = {
        "true": (-1, d), "waiting": (-1, 2), "waiting_scores": (-1, n_classes, d),
        "waiting_depth": (-1, n_classes),
    }  # fmt: skip
    forms = {"waiting": np.int64, "waiting_depth": np.int64}
    kept = {name: np.asarray(state[name], dtype=forms.get(name)) for name in _ARRAYS}
    if not len(state["tickets"]):
        kept["waiting_pvalues"] = np.zeros((0, 0))
    online = {name: state[name] for name in _ONLINE if name in state} | {
        "scores": score_names(named),
        "alpha": [float(one) for one in alpha] if several else float(alpha),
        "candidates": int(candidates) if whole else arrays.put(np.asarray(candidates, dtype=float)),
        "normalize": normalize_out(state["normalize"]),
        "models": list(state["models"]),
        "errors": [int(one) for one in state["errors"]] if several else int(state["errors"][0]),
        "state": state["state"] if several else state["state"][0],
        "sums": [
            {"column": int(j), "n": int(sums.n), "products": arrays.put(sums.products),
             "totals": arrays.put(sums.totals),
             "factors": arrays.put(state["columns"][j].score.factors)}
            for j, sums in state["sums"].items()
        ],
        **{
            name: arrays.put(values.reshape(shapes.get(name, values.shape)))
            for name, values in kept.items()
        },
    }  # fmt: skip
    document = {"format": FORMAT, "schema": SCHEMA, "version": __version__, "online": online}
    write_document(document, arrays, as_path(path), durable=durable)


def read_online(
    path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY
) -> dict[str, Any]:
    """Return the state of a stream, every part of its type and within its range."""
    source, limits = as_path(path), memory_limits(max_memory)
    return read_whole(source, lambda: _in(source, read_json(source, limits, FORMAT), limits))


def _in(source: Path, document: dict[str, Any], limits: Limits) -> dict[str, Any]:
    with reading(source, document, limits, _DOCUMENT) as arrays:
        online = field_of(document, "online", "dict", "contents")
        refuse_unknown(online, _ONLINE, "online")
        state = {name: field_of(online, name, types, "online") for name, types in _ONLINE.items()}
        state["scores"] = tuple(check_type(s, "str", "online.scores") for s in state["scores"])
        state["models"] = tuple(check_type(m, "str", "online.models") for m in state["models"])
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
        n_classes = state["n_classes"]
        require(0 < n_classes <= MOST_CLASSES, "its online.n_classes ask for more memory than any")
        state["sums"] = dict(_learnt_in(one, arrays, n_classes) for one in state["sums"])
        state |= {name: array_in(online, name, arrays, "online") for name in _ARRAYS}
        _check(state)
        limits.check_memory(source, _needed(state), "its window of steps and candidates")
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


def _needed(state: dict[str, Any]) -> int:
    """Return the bytes of a stream: its window of scores and of the sizes of all candidates."""
    d, candidates = state["true"].shape[1], state["candidates"]
    grid = isinstance(candidates, int)
    many = math.comb(candidates + d - 1, d - 1) if grid else len(candidates)
    return 8 * (state["window"] * (many + d) + (many + state["n_classes"]) * d)


def _check(state: dict[str, Any]) -> None:
    """Refuse counts that contradict each other, and scores and sizes that cannot be."""
    alphas = state["alpha"] if isinstance(state["alpha"], tuple) else (state["alpha"],)
    require(len(alphas) > 0, "its online.alpha are none")
    levels = len({simple_fraction(alpha, "its online.alpha") for alpha in alphas})
    require(state["kind"] in KINDS, "its online.kind is none that outputs have")
    require(0 <= state["key"] < 2**63, "its online.key is out of range")
    require(len(set(state["models"])) == len(state["models"]) > 0, "its models are not distinct")
    grid = isinstance(state["candidates"], int)
    require(not grid or state["candidates"] >= 1, "its online.candidates are none")
    counts = ("window", "n_classes", "max_pending", "issued")
    least = {"issued": 0}
    require(
        all(state[name] >= least.get(name, 1) for name in counts),
        "its online counts are not positive",
    )
    numbers = ("steps", "late", "forgotten", "due", "place")
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
    most = state["n_classes"] * (window if fades else 1)
    in_range = charged and ((sizes >= 0) & (sizes <= most)).all()
    require(in_range, "its online.sizes are not one row of set sizes per step")
    _check_waiting(state, levels)


def _check_waiting(state: dict[str, Any], levels: int) -> None:
    """Refuse rows that wait for their labels and cannot."""
    n, K, d = len(state["tickets"]), state["n_classes"], state["true"].shape[1]
    wrong = "its online.waiting is not one row per ticket"
    require(len(set(state["tickets"])) == n <= state["max_pending"], wrong)
    shapes = {"waiting": (n, 2), "waiting_scores": (n, K, d), "waiting_depth": (n, K)}
    require(all(state[name].shape == shape for name, shape in shapes.items()), wrong)
    pvalues = state["waiting_pvalues"]
    require(pvalues.ndim == 2 and len(pvalues) == n and pvalues.shape[1] in (0, K), wrong)
    number, depth = state["waiting"], state["waiting_depth"]
    ends = np.array([state["issued"], state["steps"] + 1])
    require(bool(((number >= 0) & (number < ends)).all()), wrong)
    require(bool(((depth >= 0) & (depth <= levels)).all()), wrong)
    require(bool(np.isfinite(state["waiting_scores"]).all()), wrong)
    require(bool(((pvalues >= 0) & (pvalues <= 1)).all()), wrong)
    # JSON has whole numbers where arrays have their own.
    state["waiting"] = number.tolist()
