"""From calibration scores to thresholds: what a calibration is, and one threshold for all.

A scheme (`Calibration`) holds the user's wish. `learn` lays down the strata from rows that may be
looked at, and returns a plan; the plan turns calibration scores into cuts, from which thresholds
and p-values are read off.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from conformix.conformal import pvalue_ranks, warn_if_trivial
from conformix.data.row_data import NO_DATA, RowData
from conformix.guarantees import Facts, Guarantee
from conformix.guarantees.verdict import Cell, Law, beta_binomial
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, quotient

Rank: TypeAlias = Callable[[int, float], int]


class Cuts(Protocol):
    """Calibration scores, arranged so that thresholds and p-values can be read off."""

    @property
    def name(self) -> str:
        """The name of the calibration."""

    @property
    def plan(self) -> Plan:
        """How other rows would be calibrated in the same way."""

    def table(self, alpha: float, rank: Rank) -> Any:
        """Return the thresholds that there are, for reading."""

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> Any:
        """Return the thresholds of some rows, broadcasting against their labels (r, K)."""

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return the p-values (r, K) of the combined scores (r, K)."""

    def promise(self, base: Guarantee) -> Guarantee:
        """Return what holds when `base` is what one marginal threshold would give."""

    def warn(self, alpha: float, rank: Rank) -> None:
        """Warn where a threshold is ``-inf`` because rows are too few."""

    # Cuts may also say how fresh labelled rows are judged: `law(hits, y, data, facts, alpha)`
    # returns the law of the covered rows; `no_law` says why none is known. Where they are
    # `threaded`, several threads may ask for thresholds and p-values at once.


class Plan(Protocol):
    """A calibration whose strata are laid down: all that is missing are calibration scores."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What every row must bring along."""

    @property
    def by_row(self) -> bool:
        """Whether it matters which row a score is of."""

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        """Return the cuts from combined true-label scores (n,), **sorted upwards**."""

    def afresh(self) -> Plan:
        """Return this plan for fresh rows, which had no part in laying down the strata."""


@dataclass(frozen=True)
class Seen:
    """Rows that a scheme may look at while it lays down its strata."""

    values: FloatArray  # combined scores (n,) of the true labels
    y: IntArray
    data: RowData  # what these rows bring along
    names: tuple[Any, ...]  # of all groups of the fit; empty without groups
    n_classes: int
    n_cal: int  # number of calibration rows
    alpha: float
    separate: bool  # whether these are tuning rows, apart from calibration; else they calibrate
    rng: np.random.Generator  # for schemes that draw
    with_candidate: bool = False  # whether the candidate is counted with them, as under ``exact``

    def expected(self, units: IntArray, n_units: int) -> FloatArray:
        """Return how many calibration rows each unit has, or is expected to have, (n_units,)."""
        return np.bincount(units, minlength=n_units) * (self.n_cal / max(len(units), 1))


class Calibration(Protocol):
    """What the pipeline asks of a scheme; write a class with these four to add one."""

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What every row must bring along: ``"strata"``, ``"sample_weight"`` or nothing."""

    @property
    def tune(self) -> bool:
        """Whether the weights are searched with class-wise thresholds."""

    # `learns`, where a scheme has it, says whether `learn` should see rows apart from calibration;
    # `counts_candidate`, that it can do with the calibration rows and the candidate, all alike.

    def learn(self, seen: Seen) -> Plan:
        """Return the plan by which calibration rows become thresholds."""


def laid_down_alike(
    scheme: Calibration,
    y: IntArray,
    data: RowData,
    names: tuple[Any, ...],
    *,
    n_classes: int,
    alpha: float,
    rng: np.random.Generator,
) -> Plan:
    """Return the plan that calibration rows lay down together with the candidate, all alike.

    The scheme sees the rows without their scores, which no one rule makes.
    """
    n = len(y)
    return scheme.learn(
        Seen(
            np.zeros(n), y, data, names, n_classes, n, alpha, separate=False, rng=rng,
            with_candidate=True,
        )
    )  # fmt: skip


@dataclass(frozen=True)
class SinglePlan:
    """One threshold for everything."""

    needs: tuple[str, ...] = ()
    by_row: ClassVar[bool] = False

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        return Single(values)

    def afresh(self) -> Plan:
        return self


@dataclass(frozen=True, eq=False)
class Single:
    """One threshold: the k-th largest of all calibration scores, which rise.

    Examples
    --------
    >>> from conformix.conformal import conformal_rank
    >>> Single(np.array([0.1, 0.4, 0.6, 0.8, 0.9])).at(0.4, conformal_rank)
    0.4
    """

    values: FloatArray

    name = "marginal"
    threaded: ClassVar[bool] = True

    @property
    def plan(self) -> Plan:
        return SinglePlan()

    def table(self, alpha: float, rank: Rank) -> float:
        n = len(self.values)
        k = rank(n, alpha)
        return -math.inf if k > n else float(self.values[n - k])

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> float:
        return self.table(alpha, rank)

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return ``(1 + #{c_i <= s}) / (n + 1)``, smoothed where `tau` is given."""
        ranks = pvalue_ranks(self.values, values, tau)
        return quotient(ranks, len(self.values) + 1)  # type: ignore[no-any-return]

    def up_to(self, values: FloatArray, data: RowData = NO_DATA) -> tuple[IntArray, int]:
        """Return how many calibration scores are at most each value, and of how many."""
        return np.searchsorted(self.values, values, side="right"), len(self.values)

    def promise(self, base: Guarantee) -> Guarantee:
        return base

    def warn(self, alpha: float, rank: Rank) -> None:
        warn_if_trivial(len(self.values), alpha, rank)

    def law(self, hits: BoolArray, y: IntArray, data: RowData, facts: Facts, alpha: float) -> Law:
        """Return the law of the covered rows: all are exchangeable with those that calibrate."""
        n = len(self.values)
        cell = Cell(n, facts.rank(n, alpha), len(hits))
        return beta_binomial(int(hits.sum()), [cell], n_weights=facts.n_chosen_among)


@dataclass(frozen=True)
class Marginal:
    """One threshold for all: ``P(y in set) >= 1 - alpha``.

    Examples
    --------
    >>> Marginal().name
    'marginal'
    """

    name: ClassVar[str] = "marginal"
    needs: ClassVar[tuple[str, ...]] = ()
    tune: ClassVar[bool] = False
    learns: ClassVar[bool] = False

    def learn(self, seen: Seen) -> Plan:
        """Return the plan of one threshold."""
        return SinglePlan()
