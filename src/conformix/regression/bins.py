"""Bins of difficulty: a threshold for rows of narrow intervals, and others for wider ones.

Narrow on average means uneven: rows that models are sure of are covered more often than promised,
and rows that are hard less often. With a threshold per bin the promise holds within every bin. The
difficulty of a row is the width of its interval under the searched weights, at the threshold of the
tuning rows; it looks at no label of the row. The edges are order statistics of the difficulties of
the tuning rows, so that calibration rows have no part in them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from conformix.calibration import CALIBRATIONS
from conformix.calibration.cuts import Calibration, Plan, Seen
from conformix.calibration.strata import PerGroup
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, IntArray, to_host
from conformix.registry import Registry
from conformix.regression.bands import widths
from conformix.regression.planes import Planes
from conformix.regression.regressed import RegressedOutputs
from conformix.regression.rule import LineRule

BIN = "bin of difficulty"
# Widths that differ by less are one width: ends are rounded outward, each by its own bits.
ALIKE = 1e-9


@dataclass(frozen=True)
class PerBin:
    """A threshold per bin of difficulty: ``P(y in set | bin) >= 1 - alpha`` for every bin.

    Parameters
    ----------
    n_bins : int
        How many bins, of as many tuning rows each.

    Examples
    --------
    >>> import numpy as np
    >>> import conformix as cx
    >>> rng = np.random.default_rng(0)
    >>> mean, sigma = rng.normal(size=900), rng.uniform(0.5, 2, size=900)
    >>> outputs, y = cx.Regressed(mean, sigma), mean + sigma * rng.normal(size=900)
    >>> cp = cx.RegressionAverage(("abs", "norm"), calibration=PerBin(3), random_state=0)
    >>> print(cp.fit(outputs, y).guarantee_.statement)
    P(y in set | bin of difficulty of the row) >= 1 - alpha
    """

    name: ClassVar[str] = "bins"
    what: ClassVar[str] = BIN
    needs: ClassVar[tuple[str, ...]] = ()
    tune: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    by_difficulty: ClassVar[bool] = True

    n_bins: int = 3

    def __post_init__(self) -> None:
        whole = isinstance(self.n_bins, int | np.integer) and not isinstance(self.n_bins, bool)
        if not whole or self.n_bins < 1:
            raise InvalidInput(
                f"n_bins must be a positive number of bins; got {shown(self.n_bins)}."
            )

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per bin; the bins of the rows are their strata."""
        by_bin: Any = PerGroup().learn(seen)
        return replace(by_bin, what=BIN)  # type: ignore[no-any-return]

    def bins(self, rule: LineRule, planes: Planes, threshold: float) -> Bins:
        """Return the bins that the planes of tuning rows lay down, cut at their threshold."""
        hardest = np.sort(difficulty(rule, planes, threshold))
        n = len(hardest)
        places = [-(-n * part // self.n_bins) - 1 for part in range(1, self.n_bins)]
        edges = hardest[np.maximum(np.array(places, dtype=np.intp), 0)] * (1 + ALIKE)
        before = np.concatenate([np.full(1, -np.inf), edges[:-1]])[: len(edges)]
        apart = (edges - before > ALIKE * edges) & (edges < hardest[-1])
        return Bins(rule, float(threshold), edges[apart])


def difficulty(rule: LineRule, planes: Planes, threshold: float) -> FloatArray:
    """Return the widths (n,) of the intervals of rows at one threshold."""
    return widths(*map(to_host, rule.intervals(planes, threshold)))


@dataclass(frozen=True, eq=False)
class Bins:
    """Where one bin of difficulty ends and the next begins."""

    rule: LineRule  # whose intervals are measured
    threshold: float  # at which widths are measured
    edges: FloatArray  # the largest width of every bin but the last, rising

    @property
    def names(self) -> tuple[int, ...]:
        """The bins, from the easiest."""
        return tuple(range(len(self.edges) + 1))

    def of(self, outputs: RegressedOutputs) -> IntArray:
        """Return the bins (n,) of rows."""
        hard = difficulty(self.rule, self.rule.transform(outputs), self.threshold)
        return np.searchsorted(self.edges, hard, side="left").astype(np.int64)

    def data(self, outputs: RegressedOutputs) -> RowData:
        """Return the bins of rows as what their calibration needs."""
        return RowData(strata=self.of(outputs))


REGRESSION_CALIBRATIONS: Registry[Calibration] = Registry(
    "calibration",
    {
        "marginal": CALIBRATIONS["marginal"],
        "group": CALIBRATIONS["group"],
        "weighted": CALIBRATIONS["weighted"],
        "bins": PerBin(),
    },
    elsewhere={"mondrian": "bins", "class": "group", "difficulty": "bins"},
)
_OF_CLASSES = ("class", "cluster", "rc3p", "vote", "label shift", "group and class")


def resolve_regression_calibration(calibration: Any) -> Calibration:
    """Return a calibration for its name, or the calibration itself, if it is one of responses."""
    scheme = REGRESSION_CALIBRATIONS.resolve(calibration, needs="learn")
    if scheme.name in _OF_CLASSES or getattr(scheme, "by_class", False):
        raise InvalidInput(
            f'calibration "{getattr(scheme, "what", scheme.name)}" is about classes, and responses '
            f"have none; say one of {', '.join(REGRESSION_CALIBRATIONS)}."
        )
    return scheme
