"""A blend as JSON, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.fit.saved.arrays import Arrays
from conformix.fit.saved.fields import check_type, field_of
from conformix.fit.saved.migrations import refuse_unknown
from conformix.fit.saved.settings import columns_in, score_out
from conformix.scores.blend import Blend

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
    check_type(told, "dict", "blend")
    refuse_unknown(told, _BLEND, "blend")
    coefficients = arrays.get(field_of(told, "coefficients", "dict", "blend"), "blend.coefficients")
    columns = columns_in(field_of(told, "columns", "list", "blend"), "blend.columns")
    return Blend(columns, coefficients, field_of(told, "name", "str", "blend"))
