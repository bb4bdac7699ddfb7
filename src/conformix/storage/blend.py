"""A blend as JSON, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.blend.model import Blend
from conformix.scores import Column, parse_score
from conformix.storage.arrays import Arrays
from conformix.storage.migrations import refuse_unknown
from conformix.storage.settings import score_out

_BLEND = ("name", "columns", "coefficients")


def blend_out(blend: Blend, arrays: Arrays) -> dict[str, Any]:
    """Return a blend as JSON has it."""
    return {
        "name": blend.name,
        "columns": [[column.model, score_out(column.score)] for column in blend.columns],
        "coefficients": arrays.put(np.asarray(blend.coefficients, dtype=np.float64)),
    }


def blend_in(told: dict[str, Any], arrays: Arrays) -> Blend:
    """Return the blend that a file holds; it checks itself."""
    refuse_unknown(told, _BLEND, "blend")
    columns = tuple(Column(str(model), parse_score(text)) for model, text in told["columns"])
    return Blend(columns, arrays.get(told["coefficients"]), str(told["name"]))
