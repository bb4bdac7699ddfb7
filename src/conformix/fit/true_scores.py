"""Scores of the true labels, d numbers per row: all that a calibration row is asked for.

A rule makes one number of them, and one threshold for all needs these numbers sorted, whichever row
they are of. So scores of true labels answer two questions, wherever they are held: what a rule
makes of them in the order of the rows, and the same rising. Equal numbers keep the order of their
rows, and ``-0.0`` equals ``0.0``: a merge of sorted runs is the sort of all, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray

# From scores (r, d) to numbers (r,), each made of its own row alone.
Combination: TypeAlias = Callable[[FloatArray], FloatArray]


class TrueScores(Protocol):
    """The scores (n, d) of the true labels of n rows, held here or elsewhere."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def take(self, rows: IntArray) -> TrueScores:
        """Return those of some rows, whose numbers rise."""

    def combined(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, in the order of the rows, (n,)."""

    def rising(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, sorted upwards, equal ones as the rows are, (n,)."""


@dataclass(frozen=True, eq=False)
class HeldScores:
    """True-label scores in the memory of this process.

    Parameters
    ----------
    values : array of shape (n, d)
        The scores.

    Examples
    --------
    >>> own = HeldScores(np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]]))
    >>> own.combined(lambda scores: scores.sum(axis=1))
    array([4., 2., 2.])
    >>> own.take(np.array([0, 2])).rising(lambda scores: scores.sum(axis=1))
    array([2., 4.])
    """

    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: IntArray) -> HeldScores:
        """Return those of some rows."""
        return HeldScores(self.values[rows])

    def combined(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, in the order of the rows."""
        return combine(self.values)

    def rising(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, sorted upwards."""
        return rising(self.combined(combine))


def rising(values: FloatArray) -> FloatArray:
    """Return numbers sorted upwards, equal ones in their order.

    Examples
    --------
    >>> rising(np.array([0.5, 0.0, -0.0]))
    array([ 0. , -0. ,  0.5])
    """
    return np.sort(values, kind="stable")


def merged(runs: Sequence[FloatArray]) -> FloatArray:
    """Return rising runs as one, equal numbers in the order of the runs.

    A stable sort finds runs that rise already and merges them: linear time for a few of them.

    Examples
    --------
    >>> merged([np.array([0.0, 0.5]), np.array([-0.0, 0.2])])
    array([ 0. , -0. ,  0.2,  0.5])
    """
    found = np.concatenate(runs)
    found.sort(kind="stable")
    return found
