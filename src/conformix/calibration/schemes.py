"""How thresholds are taken from calibration scores: marginal, by class, by group.

A scheme holds the user's wish. `learn` lays down the strata from rows that may be looked at, and
returns a plan; the plan turns calibration scores into thresholds.

Classes or groups with too few rows need a **fallback**:

``all``
    Their labels are always in. Exact, and large.
``pooled``
    They share one threshold: exact for all of them together, where the rows that said which are
    rare are not the calibration rows; else approximate.
``marginal``
    They take the threshold of all rows: small, and no conditional statement holds for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from conformix.calibration.cuts import Plan, SinglePlan
from conformix.calibration.strata import ALWAYS, EVERY, Partition
from conformix.conformal import rows_needed
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.registry import unknown_name

FALLBACKS = ("all", "marginal", "pooled")
# No class or group has so many rows, and floats still hold the number.
MANY = 2**53


@dataclass(frozen=True)
class Seen:
    """Rows that a scheme may look at while it lays down its strata.

    Parameters
    ----------
    values : float64 array of shape (n,)
        Combined scores of the true labels.
    y : integer array of shape (n,)
        True labels.
    data : RowData
        What these rows bring along.
    names : tuple
        Names of all groups of the fit; empty without groups.
    n_classes : int
        K.
    n_cal : int
        Number of calibration rows.
    alpha : float
        The level.
    separate : bool
        Whether these are tuning rows, apart from calibration; else they are the calibration rows.
    rng : Generator
        For schemes that draw.
    """

    values: FloatArray
    y: IntArray
    data: RowData
    names: tuple[Any, ...]
    n_classes: int
    n_cal: int
    alpha: float
    separate: bool
    rng: np.random.Generator

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

    # `learns`, where a scheme has it, says whether `learn` should see rows apart from calibration.

    def learn(self, seen: Seen) -> Plan:
        """Return the plan by which calibration rows become thresholds."""


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


@dataclass(frozen=True)
class PerClass:
    """A threshold per class: ``P(y in set | y = c) >= 1 - alpha`` for every class c.

    Parameters
    ----------
    fallback : {"all", "pooled", "marginal"}
        What happens to classes with fewer than `min_rows` rows, see the module.
    min_rows : int, optional
        By default the smallest number of rows with a finite threshold, ``ceil(1/alpha) - 1``.
    tune : bool
        Whether the weights of the scores are those that make the sets *with thresholds per class*
        smallest; slower than the marginal search, counted weight by weight.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage(kind="logits", calibration=PerClass(), random_state=0)
    >>> cp.fit(logits[:2000], y[:2000]).threshold_.shape
    (10,)
    >>> print(cp.guarantee_.statement)
    P(y in set | class of y) >= 1 - alpha
    """

    name: ClassVar[str] = "class"
    needs: ClassVar[tuple[str, ...]] = ()

    fallback: str = "all"
    min_rows: int | None = None
    tune: bool = False

    @property
    def learns(self) -> bool:
        """Whether rows say which classes are rare in a way that matters to what is promised."""
        return self.fallback != "all"

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per class."""
        cells = np.arange(seen.n_classes)
        counts = seen.expected(seen.y, seen.n_classes)
        rare = rare_units(counts, self.min_rows, self.fallback, seen.alpha)
        cells[rare] = stand_in(self.fallback, pool=seen.n_classes)
        return Partition(
            cells[None, :],
            fallback=self.fallback,
            n_rare=int(rare.sum()),
            fixed=seen.separate,
        )


@dataclass(frozen=True)
class PerGroup:
    """A threshold per given group: ``P(y in set | group) >= 1 - alpha`` for every group.

    The groups of the rows are given to `fit` and to every prediction as ``strata=``.

    Parameters
    ----------
    fallback : {"all", "pooled", "marginal"}
        What happens to groups with fewer than `min_rows` rows, and to groups never seen in `fit`.
    min_rows : int, optional
        By default the smallest number of rows with a finite threshold, ``ceil(1/alpha) - 1``.
    by_class : bool
        A threshold for every pair of group and class.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("mmlu_llama13b")
    >>> outputs, y, subject = data.outputs["llama13b_prompt0"], data.labels, data.groups
    >>> cp = cx.ScoreAverage(kind="logits", calibration=PerGroup("pooled"), random_state=0)
    >>> sets = cp.fit(outputs, y, strata=subject).predict_set(outputs[:5], strata=subject[:5])
    >>> print(cp.guarantee_)
    exact: P(y in set | group of the row) >= 1 - alpha (within every group: ...)
    """

    name: ClassVar[str] = "group"
    needs: ClassVar[tuple[str, ...]] = ("strata",)
    tune: ClassVar[bool] = False

    fallback: str = "all"
    min_rows: int | None = None
    by_class: bool = False

    @property
    def learns(self) -> bool:
        """Whether rows say which groups are rare in a way that matters to what is promised."""
        return self.fallback != "all"

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per group, or per group and class."""
        n_groups, width = len(seen.names), seen.n_classes if self.by_class else 1
        own = np.arange(n_groups * width)
        units = np.searchsorted(np.array(seen.names), seen.data.strata) * width
        units += seen.y if self.by_class else 0
        counts = seen.expected(units, len(own))
        rare = rare_units(counts, self.min_rows, self.fallback, seen.alpha)
        other = stand_in(self.fallback, pool=len(own))
        own[rare] = other
        cells = np.full((n_groups + 1, seen.n_classes), other)
        cells[:-1] = own.reshape(n_groups, width)
        what = "group and class" if self.by_class else "group"
        return Partition(
            cells, seen.names, what, self.fallback, n_rare=int(rare.sum()), fixed=seen.separate
        )


def rare_units(
    counts: FloatArray, min_rows: int | None, fallback: str, alpha: float
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which classes or groups have too few rows for a threshold of their own."""
    check_fallback(fallback, min_rows)
    if min_rows is None and fallback == "all":
        return np.zeros(len(counts), dtype=bool)  # the rank itself lets their labels in
    least = rows_needed(alpha) if min_rows is None else min_rows
    return counts < min(least, MANY)


def check_fallback(fallback: str, min_rows: int | None) -> None:
    """Refuse a fallback that is not known, and a number of rows that is none."""
    if fallback not in FALLBACKS:
        raise unknown_name("fallback", fallback, list(FALLBACKS))
    counts = isinstance(min_rows, int | np.integer) and not isinstance(min_rows, bool)
    if min_rows is not None and not (counts and min_rows >= 0):
        raise InvalidInput(f"min_rows must be a number of rows or None; got {min_rows!r}.")


def stand_in(fallback: str, pool: int) -> int:
    """Return the stratum of rare classes or groups under a fallback."""
    return {"all": ALWAYS, "marginal": EVERY, "pooled": pool}[fallback]
