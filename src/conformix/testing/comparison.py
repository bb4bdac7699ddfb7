"""Comparing sets in tests."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_same_sets(actual: Any, expected: Any) -> None:
    """Raise AssertionError unless both hold the same labels in every row.

    Parameters
    ----------
    actual, expected : PredictionSets or boolean arrays of shape (n, K)
        The sets to compare.

    Examples
    --------
    >>> assert_same_sets(np.array([[True, False]]), np.array([[True, True]]))
    Traceback (most recent call last):
    AssertionError: sets differ in 1 of 1 rows; first in row 0: labels [0] against [0, 1].
    """
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape:
        raise AssertionError(f"sets have shapes {left.shape} and {right.shape}.")
    rows = np.flatnonzero((left != right).any(axis=1))
    if len(rows):
        i = int(rows[0])
        told = [np.flatnonzero(side[i]).tolist() for side in (left, right)]
        raise AssertionError(
            f"sets differ in {len(rows)} of {len(left)} rows; first in row {i}: labels {told[0]} "
            f"against {told[1]}."
        )
