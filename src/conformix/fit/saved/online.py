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

FORMAT = "conformix online model"
_DOCUMENT = ("format", "schema", "version", "online", "npz", "npz_sha256")
_ONLINE = {
    "scores": "list", "alpha": "float", "window": "int", "candidates": "int | dict",
    "adapt": "str | None", "normalize": "str | list", "kind": "str", "key": "int",
    "models": "list", "n_classes": "int", "control": "str", "steps": "int", "errors": "int",
    "charged": "int", "state": "dict", "true": "dict", "sizes": "dict",
}  # fmt: skip


def write_online(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the state of a stream as JSON; scores of the user's own cannot be saved."""
    arrays = Arrays()
    named = SimpleNamespace(columns=state["columns"], scored_models=tuple(state["models"]))
    candidates = state["candidates"]
    whole = isinstance(candidates, int | np.integer)
    online = {name: state[name] for name in _ONLINE if name in state} | {
        "scores": score_names(named),
        "alpha": float(state["alpha"]),
        "candidates": int(candidates) if whole else arrays.put(np.asarray(candidates, dtype=float)),
        "normalize": normalize_out(state["normalize"]),
        "models": list(state["models"]),
        "true": arrays.put(state["true"]),
        "sizes": arrays.put(state["sizes"]),
    }
    document = {"format": FORMAT, "schema": SCHEMA, "version": __version__, "online": online}
    write_document(document, arrays, as_path(path))


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
        for name, value in state["state"].items():
            check_type(value, "float", f"online.state.{name}")
        state["true"], state["sizes"] = (
            array_in(online, name, arrays, "online") for name in ("true", "sizes")
        )
        _check(state)
        limits.check_memory(source, _needed(state), "its window of steps and candidates")
        return state
    raise AssertionError  # `reading` returns or raises


def _needed(state: dict[str, Any]) -> int:
    """Return the bytes of a stream: its window of scores and of the sizes of all candidates."""
    d, candidates = state["true"].shape[1], state["candidates"]
    grid = isinstance(candidates, int)
    many = math.comb(candidates + d - 1, d - 1) if grid else len(candidates)
    return 8 * (state["window"] * (many + d) + (many + state["n_classes"]) * d)


def _check(state: dict[str, Any]) -> None:
    """Refuse counts that contradict each other, and scores and sizes that cannot be."""
    simple_fraction(state["alpha"], "its online.alpha")
    require(state["kind"] in KINDS, "its online.kind is none that outputs have")
    require(0 <= state["key"] < 2**63, "its online.key is out of range")
    require(len(set(state["models"])) == len(state["models"]) > 0, "its models are not distinct")
    grid = isinstance(state["candidates"], int)
    require(not grid or state["candidates"] >= 1, "its online.candidates are none")
    counts = ("window", "n_classes", "steps")
    require(all(state[name] >= 1 for name in counts), "its online counts are not positive")
    steps, window = state["steps"], state["window"]
    require(0 <= state["errors"] <= steps, "its online.errors are more than its steps")
    require(0 <= state["charged"] <= steps, "its online.charged are more than its steps")
    true, sizes = state["true"], state["sizes"]
    filled = true.ndim == 2 and len(true) == min(steps, window) and true.dtype == np.float64
    require(
        filled and true.shape[1] > 0 and np.isfinite(true).all(),
        "its online.true are not one row per step",
    )
    charged = sizes.ndim == 2 and len(sizes) == min(state["charged"], window)
    charged = charged and sizes.dtype == np.int64
    in_range = charged and ((sizes >= 0) & (sizes <= state["n_classes"])).all()
    require(in_range, "its online.sizes are not one row of set sizes per step")
