"""Everything that labelled rows say of a fitted model: measures, the verdict, drift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformix.fit.drift import DriftReport
from conformix.guarantees.verdict import Verdict
from conformix.metrics.summary import Measure, measures
from conformix.tables import Table

# What a measure is called in a table.
WORDS = {
    "coverage": "coverage",
    "mean_size": "mean size",
    "median_size": "median size",
    "size_quantile": "size, 90th percentile",
    "singleton_rate": "one-label sets",
    "singleton_accuracy": "accuracy of one-label sets",
    "empty_rate": "empty sets",
    "class_coverage_gap": "class coverage gap, mean",
    "size_stratified_violation": "coverage gap by size, largest",
    "mean_width": "mean width",
    "median_width": "median width",
    "interval_score": "interval score",
    "empty_interval_rate": "empty intervals",
    "bin_coverage_gap": "coverage gap by width, largest",
}


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Mapping[str, float]):
    """What labelled rows say of a fitted model: a mapping of measures, with what follows.

    Parameters
    ----------
    measures : tuple of Measure
        The usual measures, with 95 % intervals where one is honest.
    verdict : Verdict
        Whether the promise is kept, by which law.
    drift : DriftReport or None
        Whether the rows are like the calibration rows; None where no false-alarm level is known.
    alpha : float
        The level of the sets.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("thr", kind="logits", random_state=0).fit(logits[:2000], y[:2000])
    >>> found = cp.evaluate(logits[2000:], y[2000:])
    >>> found
    Evaluation(coverage 0.89..., mean size 0.9... on 8,000 rows at alpha 0.1: ...)
    >>> sorted(found)[:2], found["coverage"] > 0.88
    (['class_coverage_gap', 'coverage'], True)
    """

    measures: tuple[Measure, ...]
    verdict: Verdict
    drift: DriftReport | None
    alpha: float

    def __getitem__(self, name: str) -> float:
        return {one.name: one.value for one in self.measures}[name]

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences below the table."""
        drift = [] if self.drift is None else [self.drift.verdict]
        return (*(f"{text[0].upper()}{text[1:]}." for text in drift), self.verdict.sentence)

    def table(self) -> Table:
        """Return the measures with their intervals, and what follows, as a table."""
        title = f"{self.verdict.n_rows:,} rows, alpha = {self.alpha:g}"
        rows = tuple((WORDS[one.name], *cells(one)) for one in self.measures)
        return Table(title, ("measure", "value", "95 % interval"), rows, self.notes)

    def __str__(self) -> str:
        return self.table().text()

    def __repr__(self) -> str:
        size = next(one for one in self.measures if one.name in ("mean_size", "mean_width"))
        return (
            f"Evaluation(coverage {self['coverage']:.4f}, {WORDS[size.name]} {cells(size)[0]} on "
            f"{self.verdict.n_rows:,} rows at alpha {self.alpha:g}: {self.verdict.word})"
        )


def cells(one: Measure) -> tuple[str, str]:
    """Return the value of a measure and its interval, as text."""
    digits = ".2f" if "size" in one.name and "violation" not in one.name else ".4f"
    if one.name.endswith(("width", "_score")):  # in units of the response
        digits = ".4g"
    value = "-" if math.isnan(one.value) else f"{one.value:{digits}}"
    if one.low is None:
        return value, ""
    return value, f"{one.low:{digits}} to {one.high:{digits}}"


def evaluated(rows: Any, alpha: float | None = None, sets: Any = None) -> Evaluation:
    """Return what labelled rows say of the model that has them.

    Parameters
    ----------
    rows : LabelledRows or CrossRows
        Rows that had no part in the fit.
    alpha : float, optional
        Another level than the fitted one.
    sets : PredictionSets, optional
        The model's own sets at that level, where they are at hand.
    """
    level = rows.predictor.alpha if alpha is None else alpha
    sets = rows.sets(level) if sets is None else sets
    verdict = rows.verdict(level, sets)
    drift = rows.drift() if rows.no_law is None else None
    results = measures(rows.bare(sets), rows.truth, alpha=level)
    return Evaluation(tuple(results), verdict, drift, level)


__all__ = ["Evaluation", "evaluated"]
