"""What it takes to get the same numbers again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from conformix import __version__
from conformix.report.rows import Rows

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")
GIVEN = (
    "scores", "alpha", "split", "search", "normalize", "kind", "weights", "tune_alpha",
    "allow_empty", "guarantee", "delta", "calibration", "random_state",
)  # fmt: skip


def settings(
    rows: Rows, params: Mapping[str, Any], given: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return names and values of everything that the numbers depend on.

    Parameters
    ----------
    rows : Rows
        Model and rows.
    params : mapping
        Constructor parameters of the model.
    given : mapping of str to str
        What the caller knows: the command, the files, their digests.
    """
    facts = rows.predictor.fitted.ledger.facts
    told = dict(given)
    told["rows"] = f"{rows.n:,} rows, {len(rows.classes):,} classes"
    told["rows and labels, sha256"] = rows_digest(rows)
    told["model"] = ", ".join(f"{name}={_plain(params[name])}" for name in GIVEN if name in params)
    told["normalisation in use"] = rows.predictor.fitted.normalizer
    told["fitted on"] = (
        f"{facts.n_tune:,} tuning and {facts.n_cal:,} calibration rows"
        + ("" if facts.separate else ", the same rows")
        if facts.n_tune
        else f"{facts.n_cal:,} calibration rows, weights given"
    )
    told["seed of this report"] = f"{rows.seed} (draws the halves on which weights are compared)"
    told["levels"] = ", ".join(f"{alpha:g}" for alpha in rows.alphas)
    told["conformix"] = __version__
    told["Python"] = platform.python_version()
    for name in PACKAGES:
        try:
            told[name] = version(name)
        except PackageNotFoundError:
            continue
    return tuple(told.items())


def rows_digest(rows: Rows) -> str:
    """Return the sha256 of the labels and of every model's outputs."""
    seen = hashlib.sha256(rows.outputs.kind.encode())
    arrays: list[tuple[str, Any]] = [("labels", rows.y)]
    for model, values in rows.outputs.models.items():
        kept: Any = values
        whole = not getattr(values, "is_truncated", False)
        arrays += [(model, kept)] if whole else [(model, kept.labels), (model, kept.values)]
    for name, values in arrays:
        array = np.ascontiguousarray(values)
        seen.update(f"{name} {array.dtype} {array.shape}".encode())
        seen.update(array.tobytes())
    return seen.hexdigest()


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        small = value.size <= 12
        return str(value.tolist()) if small else f"array of shape {value.shape}"
    if isinstance(value, np.random.Generator):
        return "a Generator"
    return repr(value)
