"""From what models predict to intervals, once everything is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.row_data import NO_DATA, RowData, check_rows
from conformix.errors import InvalidInput
from conformix.fit.seen import SeenRows
from conformix.kernels.arrays import FloatArray, is_tensor, stacked, to_host, torch_module
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.regression.bins import Bins
from conformix.regression.regressed import RegressedOutputs, Shape, check_regressed, matching
from conformix.regression.rule import Range
from conformix.scores.names import Column


@dataclass(frozen=True, eq=False)
class LinePredictor:
    """A fitted rule together with what its inputs must look like: all that serving needs.

    Parameters
    ----------
    columns : tuple of Column
        Which score of which model is averaged.
    shapes : dict of str to Shape
        What every model predicts.
    key : int
        Salt of the digests of the rows of the fit.
    alpha : float
        The level of the fit.
    fitted : Calibrated or HullFitted
        What was learnt.
    y_range : pair of float, optional
        What every response is assumed to lie within.
    bins : Bins, optional
        Where bins of difficulty end.
    seen : SeenRows, optional
        Digests of rows of the fit, by which they are recognised.
    """

    columns: tuple[Column, ...]
    shapes: dict[str, Shape]
    key: int
    alpha: float
    fitted: Any
    y_range: Range | None = None
    bins: Bins | None = None
    seen: SeenRows | None = None

    def __repr__(self) -> str:
        models = f" of {len(self.shapes)} models" if len(self.shapes) > 1 else ""
        scores = ", ".join(dict.fromkeys(str(column.score) for column in self.columns))
        return (
            f"{type(self).__name__}({scores}{models}, alpha {self.alpha:g}, guarantee "
            f"{self.fitted.ledger.kind})"
        )

    def check(self, outputs: Any, name: str = "outputs") -> RegressedOutputs:
        """Return checked outputs of the fitted models, in the fitted order."""
        return matching(check_regressed(outputs, name), self.shapes, name)

    @property
    def needs(self) -> tuple[str, ...]:
        """What a user must bring along for every row; bins are worked out here."""
        return () if self.bins is not None else self.fitted.needs

    def row_data(
        self, outputs: RegressedOutputs, strata: Any = None, sample_weight: Any = None
    ) -> RowData:
        """Return what rows bring along, checked against what the calibration needs."""
        name = self.fitted.ledger.facts.calibration
        data = check_rows(strata, sample_weight, outputs.n, self.needs, name)
        return data if self.bins is None else self.bins.data(outputs)

    @overload
    def predict_interval(
        self, outputs: Any, alpha: float | None = None, **rows: Any
    ) -> Intervals: ...
    @overload
    def predict_interval(
        self, outputs: Any, alpha: Sequence[float], **rows: Any
    ) -> NestedIntervals: ...

    def predict_interval(
        self, outputs: Any, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> Intervals | NestedIntervals:
        """Return the intervals at the level of the fit, at another one, or at several."""
        checked = self.check(outputs)
        data = self.row_data(checked, **rows)
        if np.ndim(alpha) == 1:  # type: ignore[arg-type]
            return self._nested(checked, alpha, data)  # type: ignore[arg-type]
        if alpha is not None:
            simple_fraction(alpha)  # type: ignore[arg-type]
            self.fitted.warn(alpha)
        level: Any = self.alpha if alpha is None else alpha
        lower, upper = map(checked.to_caller, self._ends(checked, level, data))
        return Intervals.made(lower, upper, checked.ids)

    def predict_at(
        self, outputs: RegressedOutputs, alpha: float, data: RowData = NO_DATA
    ) -> Intervals:
        """Return the intervals of checked rows at one level, in host memory."""
        lower, upper = map(to_host, self._ends(outputs, alpha, data))
        return Intervals.made(lower, upper, outputs.ids)

    def _ends(
        self, outputs: RegressedOutputs, alpha: float, data: RowData
    ) -> tuple[FloatArray, FloatArray]:
        fitted = self.fitted
        if not fitted.nested:
            return fitted.intervals(outputs, alpha, data)  # type: ignore[no-any-return]
        planes = fitted.rule.transform(outputs)
        return fitted.rule.intervals(planes, fitted.at(alpha, data), self.y_range)  # type: ignore[no-any-return]

    def _nested(
        self, outputs: RegressedOutputs, alphas: Sequence[float], data: RowData
    ) -> NestedIntervals:
        levels = sorted({float(simple_fraction(alpha)) for alpha in alphas})
        if not levels:
            raise InvalidInput("alpha must hold at least one level; got none.")
        if not self.fitted.nested:
            raise InvalidInput(
                'intervals of split "exact" need not be nested in alpha; predict one level at a '
                "time."
            )
        self.fitted.warn(levels[0])
        ends = [self._ends(outputs, level, data) for level in levels]
        lower, upper = (stacked([pair[end] for pair in ends]) for end in (0, 1))
        # Ends are rounded outward, each by its own bit: an interval holds those of larger levels.
        of: Any = torch_module() if is_tensor(lower) else np
        for level in range(len(levels) - 2, -1, -1):
            lower[level] = of.minimum(lower[level], lower[level + 1])
            upper[level] = of.maximum(upper[level], upper[level + 1])
        lower, upper = map(outputs.to_caller, (lower, upper))
        return NestedIntervals(lower, upper, levels, ids=outputs.ids)
