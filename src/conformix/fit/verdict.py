"""Labelled rows that had no part in a fit, judged: by their coverage, and for drift.

The one place that says by which law the sets of a fitted model are judged (the laws themselves are
in `conformix.guarantees.verdict`). Shell, report and `conformix.ScoreAverage` all ask here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.data.outputs import Outputs
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.fit.drift import DriftReport, drift_report
from conformix.fit.predictor import Predictor
from conformix.fit.rule import Calibrated, Rule
from conformix.fit.seen import Found
from conformix.guarantees.verdict import (
    Cell,
    Law,
    Verdict,
    beta_binomial,
    no_law,
    pooled_tails,
)
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, of_labels, to_host
from conformix.kernels.cached import cached_property
from conformix.metrics.coverage import share_interval
from conformix.predictions.sets import PredictionSets
from conformix.search.objective import SizeObjective

# Scores that the pooled test holds at once; beyond it some of the test rows are drawn.
MOST_SCORES = 2**26


@dataclass(frozen=True, eq=False)
class Pooled:
    """Calibration rows of the exact split and test rows in one bag, in which all are alike."""

    scores: FloatArray  # (n + m, K, d), normalised, those of the calibration rows first
    y: IntArray
    n: int
    weights: FloatArray  # (M, d), in the order that breaks ties
    units: IntArray | None = None  # the class or group of every row, where each has a threshold
    threads: int | None = None

    def selected(self, alpha: float) -> tuple[FloatArray, float]:
        """Return the true-label scores (n + m,) and the threshold under the weights chosen on all.

        The weights with the fewest labels in the sets of all rows, at the threshold that all rows
        set: a choice that does not see which rows are calibration rows.
        """
        n_all = len(self.y)
        k = min(conformal_rank(n_all, alpha), n_all)
        true_scores = of_labels(self.scores, self.y)
        objective = SizeObjective(true_scores, [self.scores], k, threads=self.threads)
        best = int(np.argmin(objective.counts(self.weights)))  # the first of equals
        values = combine(true_scores, self.weights[best])
        return values, kth_largest(values, k)

    def law(self, alpha: float) -> Law:
        """Return the pooled test at one level: with one threshold, or one per unit."""
        (values, _), n_all = self.selected(alpha), len(self.y)
        units = np.zeros(n_all, dtype=np.int64) if self.units is None else self.units
        missed_of_test, cells = 0, []
        for unit in np.unique(units):
            rows = np.flatnonzero(units == unit)
            k = min(conformal_rank(len(rows), alpha), len(rows))
            missed = values[rows] < kth_largest(values[rows], k)
            tested = rows >= self.n
            missed_of_test += int(missed[tested].sum())
            cells.append((int(missed.sum()), int(tested.sum()), len(rows)))
        tail = pooled_tails(missed_of_test, cells)
        counts = f"{self.n:,} calibration and {n_all - self.n:,} test rows"
        law = "law of" if self.units is None else f"laws of {len(cells):,} thresholds with"
        event = "with weights chosen on all rows alike, so few test rows are covered"
        return Law(f"the hypergeometric {law} {counts} (pooled test)", tail, event=event)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Labelled rows that had no part in a fit, to be judged by it.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("paper", kind="logits", random_state=0).fit(logits[:1000], y[:1000])
    >>> rows = LabelledRows.of(cp.predictor_, logits[1000:1500], (y[1000:1500] + 1) % 10)
    >>> rows.verdict().word
    'broken'
    """

    predictor: Predictor
    outputs: Outputs
    y: IntArray
    data: RowData

    @classmethod
    def of(cls, predictor: Predictor, outputs: Any, y: Any, **rows: Any) -> LabelledRows:
        """Return the rows, checked; `rows` may hold ``strata`` and ``sample_weight``."""
        checked = predictor.check(outputs)
        labels = predictor.labels(y, checked.n)
        return cls(predictor, checked, labels, predictor.row_data(checked.n, **rows))

    def verdict(self, alpha: float | None = None, sets: Any = None) -> Verdict:
        """Return the verdict on the sets of these rows at a level, by default that of the fit.

        `sets` are the model's own at that level, where they are at hand.
        """
        level = self.predictor.alpha if alpha is None else alpha
        exact_level = simple_fraction(level)
        sets = self.sets(level) if sets is None else sets
        hits = self.hits(sets)
        m, asked = len(hits), float(1 - exact_level)
        ledger = self.predictor.fitted.ledger
        law = self.law(hits, level)
        return Verdict(
            coverage=float(hits.mean()),
            n_rows=m,
            asked=asked,
            promised=asked if ledger.kind in ("exact", "pac") else None,
            law=law,
            interval=share_interval(int(hits.sum()), m),
            trivial=self._trivial(level),
            used=None if self.used is None else str(self.used),
            all_in=ledger.facts.all_in,
        )

    @property
    def truth(self) -> Any:
        """What the measures compare sets with."""
        return self.y

    def hits(self, sets: Any) -> BoolArray:
        """Return whether the true labels are in their sets, (m,)."""
        return np.asarray(of_labels(np.asarray(sets), self.y), dtype=bool)

    def bare(self, sets: Any) -> Any:
        """Return sets as measures take them: without names of classes, since labels are indices."""
        return np.asarray(sets)

    @cached_property
    def used(self) -> Found | None:
        """How many of these rows had a part in the fit after all; None where none is known."""
        seen = self.predictor.seen
        return None if seen is None else seen.among(self.outputs, self.predictor.key)

    def sets(self, alpha: float) -> PredictionSets:
        """Return the sets of these rows at a level."""
        row_data = {"strata": self.data.strata, "sample_weight": self.data.weight}
        return self.predictor.predict_at(self.outputs, alpha, **row_data)

    def law(self, hits: BoolArray, alpha: float) -> Law:
        """Return by which law the covered rows (m,) are judged."""
        fitted: Any = self.predictor.fitted
        why = self.no_law
        if why is not None:
            return Law(why, None)
        if fitted.nested:
            return self._law_of_rule(fitted, hits, alpha)
        cuts = fitted.cuts_under(fitted.weights[0])
        if hasattr(cuts, "no_law"):
            return Law(cuts.no_law, None)
        if fitted.plan.by_row and not hasattr(fitted.plan, "units_of"):
            return Law(f'calibration "{cuts.name}" is not of this library', None)
        return self.pooled.law(alpha)

    def _law_of_rule(self, fitted: Calibrated, hits: BoolArray, alpha: float) -> Law:
        facts, cuts = fitted.ledger.facts, fitted.cuts
        if hasattr(cuts, "no_law"):
            return Law(cuts.no_law, None)
        if fitted.reference is not None:
            k = facts.rank(fitted.n, alpha)
            covered = self.reference_scores >= kth_largest(fitted.reference, k)
            law = beta_binomial(int(covered.sum()), [Cell(fitted.n, k, len(hits))])
            event = "under equal weights, which no row chose, so few are covered"
            return law._replace(event=event, chance=None, chosen=True)
        if hasattr(cuts, "law"):
            return cuts.law(hits, self.y, self.data, facts, alpha)  # type: ignore[no-any-return]
        return Law(f'calibration "{cuts.name}" is not of this library', None)

    def _trivial(self, alpha: float) -> bool:
        """Return whether calibration rows are too few to keep any label out of these sets.

        Scores are never ``-inf``, so that a threshold is only for want of rows.
        """
        fitted: Any = self.predictor.fitted
        rank, cuts = fitted.ledger.facts.rank, fitted.cuts

        def thresholds(data: RowData) -> Any:  # of the plain cuts where every row has its own
            return fitted.at(alpha, data) if cuts is None else cuts.at(alpha, rank, data)

        return all(np.isneginf(thresholds(data)).all() for data in self._data_blocks())

    def _data_blocks(self) -> Iterable[RowData]:
        """Return what the rows bring along, block by block."""
        return (self.data.take(rows) for rows in self.outputs.blocks())

    @cached_property
    def pooled(self) -> Pooled:
        """These rows and the calibration rows of the exact split in one bag."""
        fitted: Any = self.predictor.fitted  # of the exact split: no other holds its rows
        outputs, y, data = self.outputs, self.y, self.data
        fitting = MOST_SCORES // math.prod(fitted.scores.shape[1:])
        most = max(1, fitting - fitted.n)
        if len(y) > most:  # drawn without a look at the rows
            some = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
            models = {name: values[some] for name, values in outputs.models.items()}
            outputs, y, data = replace(outputs, models=models), y[some], data.take(some)
        own = np.asarray(to_host(fitted.transform(self.predictor.scores(outputs))))
        scores = np.concatenate([to_host(fitted.scores), own])
        labels = np.concatenate([fitted.y, y])
        units = None
        if hasattr(fitted.plan, "units_of") and (not fitted.needs or data.strata is not None):
            units = fitted.plan.units_of(labels, fitted.data.followed_by(data))
        return Pooled(scores, labels, fitted.n, fitted.weights, units, fitted.threads)

    @property
    def no_law(self) -> str | None:
        """Why neither a law nor the false-alarm level of a drift check is known; None if it is."""
        fitted = self.predictor.fitted
        if fitted.ledger.each_row:
            return "every row has a threshold of its own, so that rows depend on each other"
        return no_law(fitted.ledger.facts, reference=fitted.reference is not None)

    @cached_property
    def reference_scores(self) -> FloatArray:
        """Combined true-label scores (m,) under equal weights."""
        return self._true_scores(self.predictor.fitted.rule.with_equal_weights)

    def _true_scores(self, rule: Rule) -> FloatArray:
        blocks = self.predictor.blocks(self.outputs)
        return np.concatenate(
            [rule.of_true_labels(scores, self.y[rows]) for rows, scores in blocks]
        )

    def drift(self, level: float = 0.01) -> DriftReport:
        """Return whether these rows are exchangeable with the calibration rows.

        `level` is the probability of a false alarm.
        """
        used = None if self.used is None else str(self.used)
        return replace(self._drift(level), used=used)

    def _drift(self, level: float) -> DriftReport:
        fitted: Any = self.predictor.fitted
        why = self.no_law
        if why is not None:
            raise InvalidInput(f"no false-alarm level of a drift check is known here: {why}.")
        if not fitted.nested:
            values, _ = self.pooled.selected(fitted.alpha)
            n = self.pooled.n
            return drift_report(values[:n], values[n:], level=level)
        if fitted.reference is not None:
            return drift_report(fitted.reference, self.reference_scores, level=level)
        own, n_weights = self._true_scores(fitted.rule), fitted.ledger.facts.n_chosen_among
        return drift_report(fitted.calibration, own, level=level, n_weights=n_weights)
