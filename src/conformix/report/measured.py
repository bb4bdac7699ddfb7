"""What was promised and what was measured, at every level, and per class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix import metrics
from conformix.guarantees import Verdict
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.report.rows import Rows


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of the model's sets, or intervals; every column is (A, 1), a line per level."""

    # ``asked`` (``1 - alpha``), the measures of `conformix.metrics.evaluate`, and the ends of what
    # chance allows (``chance_low``, ``chance_high``)
    columns: dict[str, FloatArray]
    judged: tuple[Verdict, ...]  # what follows, per level

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdicts, one sentence per level."""
        return tuple(one.sentence for one in self.judged)

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts, one word per level."""
        return tuple(one.word for one in self.judged)

    @property
    def promised(self) -> bool:
        """Whether the guarantee of the fit promises the levels, or they were only asked for."""
        return self.judged[0].promised is not None


def measure(rows: Any) -> Measured:
    """Return the measures of the model's sets or intervals at every level."""
    values: dict[str, list[float]] = {}
    verdicts = []
    judged = rows.judged
    for alpha in rows.alphas:
        sets = rows.sets(alpha)
        verdict = judged.verdict(alpha, sets)
        if alpha != rows.alphas[rows.fitted_place]:
            verdict = replace(verdict, asked_later=True)
        low, high = verdict.law.chance or (np.nan, np.nan)
        measures = metrics.evaluate(sets, rows.y, alpha=alpha)
        measures |= {"asked": verdict.asked, "chance_low": low, "chance_high": high}
        for name, value in measures.items():
            values.setdefault(name, []).append(float(value))
        verdicts.append(verdict)
    columns = {name: np.array(column)[:, None] for name, column in values.items()}
    return Measured(columns, tuple(verdicts))


@dataclass(frozen=True, eq=False)
class ByClass:
    """Coverage and size per class."""

    names: tuple[str, ...]
    places: IntArray  # their numbers
    rows: IntArray  # rows per class
    # (A, number of classes), ``coverage``, ``low``, ``high`` (Clopper-Pearson) and ``size``; NaN
    # without rows
    columns: dict[str, FloatArray]


def by_class(rows: Rows, most: int) -> ByClass:
    """Return coverage with interval and mean size per class, of the `most` largest classes."""
    n_classes = len(rows.classes)
    counts = np.bincount(rows.y, minlength=n_classes)
    places = np.sort(np.argsort(-counts, kind="stable")[:most])
    columns = {name: np.full((len(rows.alphas), len(places)), np.nan) for name in
               ("coverage", "low", "high", "size")}  # fmt: skip
    for a, alpha in enumerate(rows.alphas):
        mask = rows.sets(alpha)
        _, shares = metrics.class_coverages(mask, rows.y)
        hits = np.bincount(rows.y, weights=metrics.covered(mask, rows.y), minlength=n_classes)
        sizes = np.bincount(rows.y, weights=mask.sum(axis=1), minlength=n_classes)
        columns["coverage"][a] = shares[places]
        for place, y in enumerate(places):
            if counts[y]:
                ends = metrics.share_interval(int(hits[y]), int(counts[y]))
                columns["low"][a, place], columns["high"][a, place] = ends
                columns["size"][a, place] = sizes[y] / counts[y]
    return ByClass(tuple(rows.classes[y] for y in places), places, counts[places], columns)
