"""What a method is given, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from conformix.experiments.pool import Pool
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.scores import Column


@dataclass(frozen=True, eq=False)
class Task:
    """One split of a pool at one level.

    Parameters
    ----------
    pool : Pool
        All rows.
    calibrate, test : integer arrays
        Rows with labels that a method may use, and rows on which it is judged.
    alpha : float
        Allowed miscoverage.
    seed : int
        Draws what a method draws. It belongs to the split: all methods that set tuning rows
        apart set the same rows apart.
    threads : int or None
        Threads of a search.
    """

    pool: Pool
    calibrate: IntArray
    test: IntArray
    alpha: float
    seed: int = 0
    threads: int | None = None

    @property
    def y(self) -> IntArray:
        """Labels of the calibration rows."""
        return self.pool.labels[self.calibrate]

    def rng(self) -> np.random.Generator:
        """Return a fresh generator, the same for every method."""
        return np.random.default_rng(self.seed)

    def calibration_scores(self, columns: Sequence[Column]) -> FloatArray:
        """Return the scores (n, K, d) of the calibration rows."""
        return self.pool.tensor(columns, self.calibrate)

    def test_scores(self, columns: Sequence[Column]) -> FloatArray:
        """Return the scores (m, K, d) of the test rows."""
        return self.pool.tensor(columns, self.test)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The sets of the test rows, and how they came about.

    Parameters
    ----------
    mask : boolean array of shape (m, K)
        The sets.
    guarantee : str
        ``exact``, ``approximate``, ``none`` or ``1 - 2 alpha``.
    combined : array of shape (m, K) or None
        Combined scores, where one number per label decides: for sizes at matched coverage.
    weights : dict of str to float
        Weight of every score that has one.
    normalizer : str
        On which scale scores were averaged.
    """

    mask: BoolArray
    guarantee: str
    combined: FloatArray | None = None
    weights: dict[str, float] = field(default_factory=dict)
    normalizer: str = "none"


class Method(Protocol):
    """A method: a frozen dataclass (its fields are its settings) that turns a task into sets."""

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
