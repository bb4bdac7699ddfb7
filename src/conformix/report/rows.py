"""What a report is about: a fitted model, labelled rows, and the levels at which it is read.

`Rows` are those of labels, `conformix.report.responses.ResponseRows` those of responses. What both
answer is what the parts of a page are made of that every model has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conformix import metrics
from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.data.labels import class_names
from conformix.data.outputs import Outputs
from conformix.data.row_data import RowData
from conformix.estimators.average import ScoreAverage
from conformix.fit.predictor import Predictor
from conformix.fit.verdict import LabelledRows
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.cached import cached_property
from conformix.predictions.sets import NestedSets
from conformix.report.sections import SETS, Words
from conformix.search.objective import SizeObjective

ALPHAS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
# Normalised scores held at once while weights are compared; beyond it rows are drawn.
MAX_SCORES = 2**26


# Combined true-label scores held at once.
ENTRIES = 2**22


class AnyRows:
    """What can be asked of labelled rows, whatever their labels are."""

    predictor: Any
    outputs: Any
    y: Any  # (n,), true labels, or responses
    data: RowData
    alphas: tuple[float, ...]  # the levels, rising; the fitted one is among them
    seed: int  # draws the halves on which other weights are calibrated

    words: ClassVar[Words]
    plain: ClassVar[str]
    digits: int
    described: str  # how many rows of what
    kind: str  # of the outputs
    arrays: list[tuple[str, Any]]  # labels and outputs by name, whose digest tells rows apart
    compared: IntArray  # rows on which weights are compared: all, or as many as fit, drawn

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
        return self.predictor.fitted.rule.weights  # type: ignore[no-any-return]

    @property
    def fitted_place(self) -> int:
        """Place of the fitted level among the levels."""
        return self.alphas.index(float(simple_fraction(self.predictor.alpha)))

    def drawn(self, most: int) -> IntArray:
        """Return all rows, or so many of them, drawn with the seed."""
        if self.n <= most:
            return np.arange(self.n)
        return np.sort(np.random.default_rng(self.seed).permutation(self.n)[:most])

    def halves(self) -> tuple[IntArray, IntArray]:
        """Return the two halves of the rows `compared`, as places in it, drawn with the seed."""
        order = np.random.default_rng(self.seed).permutation(len(self.compared))
        cut = len(order) // 2
        return np.sort(order[:cut]), np.sort(order[cut:])

    def both_ways(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        """Return which half calibrates and which is measured, both ways round."""
        first, second = self.halves()
        return (first, second), (second, first)

    def covered(self, weights: FloatArray, thresholds: FloatArray, scores: FloatArray) -> IntArray:
        """Return how many true scores (n, d) reach the thresholds (A, M) of weights (M, d)."""
        counts = np.zeros(thresholds.shape, dtype=np.int64)
        step = max(1, ENTRIES // len(scores))
        for start in range(0, len(weights), step):
            some = slice(start, start + step)
            values = combine(scores[None], weights[some, None, :])
            for a in range(len(thresholds)):
                counts[a, some] = (values >= thresholds[a, some, None]).sum(axis=1)
        return counts


@dataclass(frozen=True, eq=False)
class Rows(AnyRows):
    """A fitted model on labelled rows, at a fixed list of levels."""

    predictor: Predictor
    outputs: Outputs
    y: IntArray  # (n,), true labels
    data: RowData  # strata and importance of the rows, where the calibration needs them
    classes: tuple[str, ...]
    alphas: tuple[float, ...]  # the levels, rising; the fitted one is among them
    seed: int = 0  # draws the halves on which other weights are calibrated
    _masks: dict[float, BoolArray] = field(default_factory=dict, repr=False)

    words: ClassVar[Words] = SETS
    plain: ClassVar[str] = "thr"  # the score of the plain method

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
        predictor = model._check_fitted()
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
    def digits(self) -> int:  # type: ignore[override]
        """Digits after the point of sizes."""
        return 2

    @property
    def described(self) -> str:  # type: ignore[override]
        """How many rows of what."""
        return f"{self.n:,} rows, {len(self.classes):,} classes"

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What the outputs are."""
        return self.outputs.kind

    @property
    def arrays(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        """Labels and every model's outputs, by name."""
        found: list[tuple[str, Any]] = [("labels", self.y)]
        for model, values in self.outputs.models.items():
            outputs: Any = values
            truncated = getattr(values, "is_truncated", False)
            found += [
                (model, a) for a in ((outputs.labels, outputs.values) if truncated else (outputs,))
            ]
        return found

    @property
    def judged(self) -> LabelledRows:
        """These rows, to be judged by the model."""
        return LabelledRows(self.predictor, self.outputs, self.y, self.data)

    def sizes(self, alpha: float) -> IntArray:
        """Return the sizes (n,) of the sets at one of the levels."""
        return self.sets(alpha).sum(axis=1)  # type: ignore[no-any-return]

    def hits(self, alpha: float) -> BoolArray:
        """Return whether the labels are in their sets, (n,)."""
        return metrics.covered(self.sets(alpha), self.y)

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
    def compared(self) -> IntArray:  # type: ignore[override]
        """Rows on which weights are compared: all, or as many as fit in memory, drawn."""
        width = len(self.classes) * len(self.names)
        return self.drawn(max(2, MAX_SCORES // width))

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

    def under(self, weights: FloatArray) -> tuple[IntArray, IntArray]:
        """Return set sizes (A, n) and covered rows (A,) under weights (d,), both ways round."""
        return self.under_scores(combine(self.scores, weights))

    def under_scores(self, combined: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the same of one score (n, K)."""
        y = self.y[self.compared]
        true_scores = combined[np.arange(len(y)), y]
        sizes = np.zeros((len(self.alphas), len(y)), dtype=np.int64)
        hits = np.zeros(len(self.alphas), dtype=np.int64)
        for calibrate, test in self.both_ways():
            for a, alpha in enumerate(self.alphas):
                k = conformal_rank(len(calibrate), alpha)
                threshold = kth_largest(true_scores[calibrate], k)
                sizes[a, test] = (combined[test] >= threshold).sum(axis=1)
                hits[a] += int((true_scores[test] >= threshold).sum())
        return sizes, hits

    def crossed(self, weights: FloatArray) -> tuple[IntArray, IntArray]:
        """Return labels in all sets and covered rows, (A, M) each, over both ways round."""
        y = self.y[self.compared]
        true_scores = np.ascontiguousarray(self.scores[np.arange(len(y)), y])
        labels = np.zeros((len(self.alphas), len(weights)), dtype=np.int64)
        hits = np.zeros_like(labels)
        for calibrate, test in self.both_ways():
            part = self.scores[test]
            thresholds = np.full(labels.shape, -np.inf)
            for a, alpha in enumerate(self.alphas):
                k = conformal_rank(len(calibrate), alpha)
                objective = SizeObjective(true_scores[calibrate], [part], k)
                if k > len(calibrate):
                    labels[a] += objective.counts(weights)
                    continue
                counts, thresholds[a] = objective.counts_and_thresholds(weights)
                labels[a] += counts
            hits += self.covered(weights, thresholds, true_scores[test])
        return labels, hits


def chosen_levels(predictor: Any, alphas: Sequence[float] | None) -> tuple[float, ...]:
    """Return the levels of a report, rising: those asked for and the fitted one.

    By default those of a fixed list at which the calibration rows give a finite threshold.
    """
    fitted = float(simple_fraction(predictor.alpha))
    n, rank = predictor.fitted.n, predictor.fitted.ledger.facts.rank
    if alphas is None:
        alphas = [alpha for alpha in ALPHAS if rank(n, alpha) <= n]
    return tuple(sorted({fitted, *(float(simple_fraction(alpha)) for alpha in alphas)}))
