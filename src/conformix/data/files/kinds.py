"""Whether outputs are probabilities or logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conformix.data.outputs import HALF_SUM_TOLERANCE, KINDS, SUM_TOLERANCE, Kind
from conformix.errors import InvalidInput
from conformix.kernels.blocks import row_blocks

# How far rounding to two digits takes the sum of a few dozen probabilities from one.
ROUNDED = 0.05


def check_kind(kind: str) -> None:
    """Refuse a kind that is neither ``auto`` nor one of the library's.

    Examples
    --------
    >>> check_kind("odds")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: kind must be "auto", "probs" or "logits"; got 'odds'.
    """
    if kind not in ("auto", *KINDS):
        raise InvalidInput(f'kind must be "auto", "probs" or "logits"; got {kind!r}.')


def guess_kind(models: Mapping[str, Any]) -> Kind:
    """Return ``probs`` where all numbers of all models lie between 0 and 1, else ``logits``.

    Rows need not sum to one here: probabilities that were rounded too much are still no logits,
    and the checks of the library say what is wrong with them.

    Examples
    --------
    >>> guess_kind({"a": np.array([[0.2, 0.8]])}), guess_kind({"a": np.array([[-1.0, 2.0]])})
    ('probs', 'logits')
    """
    return (
        "probs" if all(_are_probs(np.asarray(values)) for values in models.values()) else "logits"
    )


def _are_probs(values: Any) -> bool:
    if not values.size or values.dtype.kind not in "fiu":
        return False
    tolerance = HALF_SUM_TOLERANCE if values.dtype == np.float16 else SUM_TOLERANCE
    for rows in row_blocks(*values.shape):
        block = values[rows]
        if not ((block >= 0) & (block <= 1 + tolerance)).all():
            return False
    return True


def check_rounding(models: Mapping[str, Any]) -> None:
    """Refuse probabilities that were rounded so much that rows no longer sum to one.

    Rows that miss one by more than rounding does are left to the checks of the library.

    Examples
    --------
    >>> check_rounding({"": np.array([[0.333, 0.333, 0.333]])})
    Traceback (most recent call last):
    conformix.errors.InvalidInput: probabilities were rounded too much: row 0 sums to 0.999; ...
    """
    for values in map(np.asarray, models.values()):
        tolerance = HALF_SUM_TOLERANCE if values.dtype == np.float16 else SUM_TOLERANCE
        first, rounded = None, True
        for rows in row_blocks(*values.shape):
            off = np.abs(values[rows].sum(axis=1, dtype=np.float64) - 1)
            rounded = rounded and bool((off <= ROUNDED).all())
            if first is None and (off > tolerance).any():
                first = rows.start + int(np.argmax(off > tolerance))
        if first is not None and rounded:
            total = float(values[first].sum(dtype=np.float64))
            raise InvalidInput(
                f"probabilities were rounded too much: row {first} sums to {total:.6g}; write them "
                "with six digits or more."
            )
