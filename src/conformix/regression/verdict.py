"""Labelled responses that had no part in a fit, judged by the laws that judge labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.data.row_data import RowData
from conformix.fit.drift import DriftReport
from conformix.fit.verdict import LabelledRows, Pooled
from conformix.kernels.arrays import BoolArray, FloatArray, to_host
from conformix.kernels.cached import cached_property
from conformix.predictions.intervals import Intervals
from conformix.regression.regressed import check_responses
from conformix.regression.rule import LineRule, Responses
from conformix.regression.scale import LineScale
from conformix.regression.search import WidthObjective


@dataclass(frozen=True, eq=False)
class PooledResponses(Pooled):
    """Calibration rows of the exact split and test rows in one bag, in which all are alike."""

    rows: Responses | None = None
    y_range: tuple[float, float] | None = None
    scale: LineScale | None = None

    def selected(self, alpha: float) -> tuple[FloatArray, float]:
        """Return how well all responses fit (n + m,), and the threshold, chosen on all rows."""
        assert self.rows is not None
        assert self.scale is not None
        n_all = len(self.rows)
        k = min(conformal_rank(n_all, alpha), n_all)
        planes = self.scale(self.rows.outputs)
        objective = WidthObjective(planes, self.rows.y, [float(alpha)], self.y_range)
        best = int(np.argmin(objective(self.weights)))  # the first of equals
        values = -to_host(planes.combined(self.weights[best], self.rows.y))
        return values, kth_largest(values, k)


@dataclass(frozen=True, eq=False)
class LabelledResponses(LabelledRows):
    """Labelled rows that had no part in a fit, to be judged by it."""

    responses: Any = None

    @classmethod
    def of(cls, predictor: Any, outputs: Any, y: Any, **rows: Any) -> LabelledResponses:
        """Return the rows, checked; `rows` may hold ``strata`` and ``sample_weight``."""
        checked = predictor.check(outputs)
        responses = check_responses(y, checked.n)
        data = predictor.row_data(checked, **rows)
        labels = np.zeros(checked.n, dtype=np.intp)
        return cls(predictor, checked, labels, data, responses)

    @property
    def truth(self) -> FloatArray:
        """What the measures compare intervals with."""
        return self.responses  # type: ignore[no-any-return]

    def hits(self, sets: Any) -> BoolArray:
        """Return whether the responses lie in their intervals, (m,)."""
        found: Intervals = sets
        return found.contains(self.responses)

    def bare(self, sets: Any) -> Any:
        """Return intervals as measures take them."""
        return sets

    def sets(self, alpha: float) -> Intervals:  # type: ignore[override]
        """Return the intervals of these rows at a level."""
        predictor: Any = self.predictor
        return predictor.predict_at(self.outputs, alpha, self.data)  # type: ignore[no-any-return]

    def drift(self, level: float = 0.01) -> DriftReport:
        """Return whether these rows are exchangeable with the calibration rows."""
        return replace(super().drift(level), what="responses")

    def _data_blocks(self) -> list[RowData]:
        return [self.data]

    def _true_scores(self, rule: Any) -> FloatArray:
        line: LineRule = rule
        rows: Any = self._rows
        return line.of_true_labels(rows, self.y)

    @property
    def _rows(self) -> Responses:
        outputs: Any = self.outputs
        return Responses(outputs, self.responses, len(self.predictor.columns))

    @cached_property
    def pooled(self) -> Pooled:
        """These rows and the calibration rows of the exact split in one bag."""
        fitted: Any = self.predictor.fitted
        rows = fitted.rows.followed_by(self._rows)
        scale = fitted.fixed_scale
        if scale is None:  # that of all rows alike
            scale = replace(fitted, rows=rows, _hulls={}).scale_of_rows
        units = None
        if hasattr(fitted.plan, "units_of") and (not fitted.needs or self.data.strata is not None):
            units = fitted.plan.units_of(rows.labels, fitted.data.followed_by(self.data))
        return PooledResponses(
            np.empty(0), rows.labels, fitted.n, fitted.weights, units, fitted.threads, rows,
            fitted.y_range, scale,
        )  # fmt: skip
