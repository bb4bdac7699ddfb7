"""From calibration scores to thresholds and p-values: the interface, and one cut for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from conformix.conformal import kth_largest, pvalue_ranks, warn_if_trivial
from conformix.data.row_data import NO_DATA, RowData
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray, quotient

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
class SinglePlan:
    """One threshold for everything."""

    needs: tuple[str, ...] = ()
    by_row: ClassVar[bool] = False

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        """Return the single cut."""
        return Single(values)

    def afresh(self) -> Plan:
        """Return the same."""
        return self


@dataclass(frozen=True, eq=False)
class Single:
    """One threshold: the k-th largest of all calibration scores.

    Parameters
    ----------
    values : float64 array of shape (n,)
        Combined true-label scores, sorted upwards.

    Examples
    --------
    >>> import numpy as np
    >>> from conformix.conformal import conformal_rank
    >>> Single(np.array([0.1, 0.4, 0.6, 0.8, 0.9])).at(0.4, conformal_rank)
    0.4
    """

    values: FloatArray

    name = "marginal"

    @property
    def plan(self) -> Plan:
        """Return the plan of one threshold."""
        return SinglePlan()

    def table(self, alpha: float, rank: Rank) -> float:
        """Return the threshold."""
        return kth_largest(self.values, rank(len(self.values), alpha))

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> float:
        """Return the threshold."""
        return self.table(alpha, rank)

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return ``(1 + #{c_i <= s}) / (n + 1)``, smoothed where `tau` is given."""
        ranks = pvalue_ranks(self.values, values, tau)
        return quotient(ranks, len(self.values) + 1)  # type: ignore[no-any-return]

    def promise(self, base: Guarantee) -> Guarantee:
        """Return the marginal statement."""
        return base

    def warn(self, alpha: float, rank: Rank) -> None:
        """Warn where all labels are in every set."""
        warn_if_trivial(len(self.values), alpha, rank)
