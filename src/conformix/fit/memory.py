"""How much memory the scores of a fit may take, and of how many rows they are held then."""

from __future__ import annotations

import os

from conformix.data.checks import mapping
from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput

# Scores of all rows are kept where they take no more than this; else they are gathered.
TENSOR_BYTES = 2**30
# The same for outputs that are mapped from files, as they are where memory is scarce.
MAPPED_BYTES = 2**29
# What the scores of the tuning rows may take, gathered or not: both draw the same rows.
HELD_BYTES = 2**29


def score_bytes(n: int, n_classes: int, d: int) -> int:
    """Return the memory of the scores of all labels of n rows.

    Examples
    --------
    >>> score_bytes(1000, 100, 3)
    2400000
    """
    return 8 * n * n_classes * d


def rows_held(n_classes: int, d: int) -> int:
    """Return of how many rows the search holds all scores by default, at least one.

    Examples
    --------
    >>> rows_held(100, 3), rows_held(1_000, 3), rows_held(20_000, 3)
    (223696, 22369, 1118)
    """
    return max(1, HELD_BYTES // score_bytes(1, n_classes, d))


def are_too_many(outputs: Outputs, d: int) -> bool:
    """Whether the scores of all rows are gathered, and not kept.

    Examples
    --------
    >>> import numpy as np
    >>> are_too_many(Outputs({"": np.zeros((10, 5))}, "logits"), 3)
    False
    """
    mapped = any(mapping(values) is not None for values in outputs.models.values())
    most = MAPPED_BYTES if mapped else TENSOR_BYTES
    return not outputs.on_device and score_bytes(outputs.n, outputs.n_classes, d) > most


def refuse_beyond_memory(split: str, needed: int) -> None:
    """Refuse a split that keeps the scores of all rows where the machine's memory is too small.

    Examples
    --------
    >>> refuse_beyond_memory("efcp", 10**6)
    """
    if not hasattr(os, "sysconf"):
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InvalidInput(
            f'split "{split}" keeps the scores of all rows, {needed / 1e9:.1f} GB, and this '
            f'machine has {there / 1e9:.1f} GB; say split="vfcp", which holds its tuning rows only.'
        )
