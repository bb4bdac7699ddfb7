"""What a report is about: a fitted model, labelled rows, and the levels at which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.labels import class_names
from conformix.data.outputs import Outputs
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.fit.predictor import Predictor
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.sets import NestedSets

ALPHAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
# Normalised scores held at once while weights are compared; beyond it rows are drawn.
MAX_SCORES = 2**26


@dataclass(frozen=True, eq=False)
class Rows:
    """A fitted model on labelled rows, at a fixed list of levels."""

    predictor: Predictor
    outputs: Outputs
    y: IntArray  # (n,), true labels
    data: RowData  # strata and importance of the rows, where the calibration needs them
    classes: tuple[str, ...]
    alphas: tuple[float, ...]  # the levels, rising; the fitted one is among them
    seed: int = 0  # draws the halves on which other weights are calibrated
    _masks: dict[float, BoolArray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        model: ScoreAverage,
        outputs: Any,
        y: Any,
        *,
        classes: Sequence[Any] | None = None,
        alphas: Sequence[float] | None = None,
        seed: int = 0,
        **row_data: Any,
    ) -> Rows:
        """Return the rows of a report, checked."""
        if not isinstance(model, ScoreAverage):
            say = f"a report is about a fitted ScoreAverage; got {model!r}."
            raise InvalidInput(getattr(model, "no_report", say))
        model.guarantee_.kind  # noqa: B018  refuses a model that is not fitted
        predictor = model.predictor_
        checked = predictor.check(outputs)
        n, n_classes = checked.n, checked.n_classes
        names = predictor.classes if classes is None else tuple(classes)
        return cls(
            predictor,
            checked,
            predictor.labels(y, n),
            predictor.row_data(n, **row_data),
            tuple(class_names(n_classes, names)),
            chosen_levels(predictor, alphas),
            seed,
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores."""
        return tuple(str(column) for column in self.predictor.columns)

    @property
    def weights(self) -> FloatArray:
        """The fitted weights (d,)."""
        return self.predictor.fitted.rule.weights

    @property
    def fitted_place(self) -> int:
        """Place of the fitted level among the levels."""
        return self.alphas.index(float(simple_fraction(self.predictor.alpha)))

    def sets(self, alpha: float) -> BoolArray:
        """Return the sets (n, K) of the model at one of the levels, by the library's own call."""
        if self.predictor.fitted.nested:
            return np.asarray(self.nested.at(alpha))
        if alpha not in self._masks:
            predicted = self.predictor.predict_at(self.outputs, alpha, **self._row_data)
            self._masks[alpha] = np.asarray(predicted)
        return self._masks[alpha]

    @cached_property
    def nested(self) -> NestedSets:
        """The sets at all levels: one pass over the rows, one small number per label."""
        return self.predictor.predict_nested(self.outputs, self.alphas, **self._row_data)

    @property
    def _row_data(self) -> dict[str, Any]:
        return {"strata": self.data.strata, "sample_weight": self.data.weight}

    def thresholds(self, rows: IntArray) -> FloatArray:
        """Return the thresholds (A, len(rows), K) of some rows; NaN where there is no one weight.

        Under split "exact" every label has weights and a threshold of its own, and in a vote every
        score has.
        """
        fitted: Any = self.predictor.fitted
        shape = (len(rows), len(self.classes))
        if not fitted.additive:
            return np.full((len(self.alphas), *shape), np.nan)
        data = self.data.take(rows)
        return np.stack([np.broadcast_to(fitted.at(a, data), shape) for a in self.alphas])

    @cached_property
    def compared(self) -> IntArray:
        """Rows on which weights are compared: all, or as many as fit in memory, drawn."""
        width = len(self.classes) * len(self.names)
        most = max(2, MAX_SCORES // width)
        if self.n <= most:
            return np.arange(self.n)
        drawn = np.random.default_rng(self.seed).permutation(self.n)[:most]
        return np.sort(drawn)

    @cached_property
    def scores(self) -> FloatArray:
        """Normalised scores of the rows `compared`, on the fitted scale."""
        return self.scores_of(self.compared)

    def scores_of(self, rows: IntArray) -> FloatArray:
        """Return the normalised scores (len(rows), K, d) of some rows."""
        return self.predictor.fitted.rule.transform(self.plain_scores(rows))

    def plain_scores(self, rows: IntArray) -> FloatArray:
        """Return the scores (len(rows), K, d) of some rows as they are."""
        models = {model: values[rows] for model, values in self.outputs.models.items()}
        return self.predictor.scores(replace(self.outputs, models=models))


def chosen_levels(predictor: Predictor, alphas: Sequence[float] | None) -> tuple[float, ...]:
    """Return the levels of a report, rising: those asked for and the fitted one.

    By default those of a fixed list at which the calibration rows give a finite threshold.
    """
    fitted = float(simple_fraction(predictor.alpha))
    n, rank = predictor.fitted.n, predictor.fitted.ledger.facts.rank
    if alphas is None:
        alphas = [alpha for alpha in ALPHAS if rank(n, alpha) <= n]
    return tuple(sorted({fitted, *(float(simple_fraction(alpha)) for alpha in alphas)}))
