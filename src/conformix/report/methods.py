"""What other methods would have given, and in words how the model compares with the plain one.

Other methods are calibrated on one half of the rows and measured on the other, both ways round, on
the scale of the fitted model. So all are measured on the same rows, none of which set its own
threshold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix import metrics
from conformix.errors import ConformixWarning
from conformix.estimators.average import ScoreAverage
from conformix.experiments.compare import Comparison
from conformix.experiments.statistics import Estimate, interval
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.report.rows import AnyRows, Rows
from conformix.report.sections import SETS, Words
from conformix.scores.names import PAPER, Column, parse_score

Sizes = dict[str, tuple[Any, IntArray]]
"""Sizes (A, n) and covered rows (A,) by method."""
COLUMNS = (
    "coverage", "coverage_low", "coverage_high", "size", "size_low", "size_high",
    "gain", "gain_low", "gain_high",
)  # fmt: skip
MODEL, AGAIN = "this model", "its scores, recalibrated"
UNIFORM, AVERAGE = "uniform weights", "average of thr, aps, rank"


@dataclass(frozen=True, eq=False)
class MethodTable:
    """All methods at all levels."""

    names: tuple[str, ...]  # the methods; the first is ours
    guarantees: tuple[str, ...]
    # (A, number of methods), coverage and size with the ends of their intervals, and the gain over
    # the best single score: labels saved per set, or where `relative` the share of them
    columns: dict[str, FloatArray]
    baselines: tuple[str, ...]  # the best single score at every level
    relative: bool  # whether gains are shares
    # what the comparison says at every level: over splits, or beside the plain method
    sentences: tuple[str, ...]
    notes: tuple[str, ...]  # how to read the table


def measured_methods(rows: Any, others: Callable[[Any], Sizes]) -> Sizes:
    """Return the model and what it is compared with, on the rows `compared`.

    The model has the thresholds of its own calibration rows; the others are calibrated on one
    half of the rows and measured on the other, both ways round.
    """
    some = rows.compared
    sizes = np.stack([rows.sizes(alpha)[some] for alpha in rows.alphas])
    hits = np.array([rows.hits(alpha)[some].sum() for alpha in rows.alphas])
    measured: Sizes = {MODEL: (sizes, hits)}
    return measured | others(rows) if len(some) >= 4 else measured


def model_methods(rows: Any, measured: Sizes, *, relative: bool = False) -> MethodTable:
    """Return the model beside plain scores and averages, from what was measured of each."""
    n = len(rows.compared)
    names = tuple(measured)
    singles = [name for name in names[1:] if name not in (AGAIN, UNIFORM, AVERAGE)] or [MODEL]
    baselines = [
        min(singles, key=lambda name: float(measured[name][0][a].mean()))
        for a in range(len(rows.alphas))
    ]

    def values(a: int, name: str) -> tuple[float, ...]:
        sizes, hits = measured[name]
        base = measured[baselines[a]][0][a]
        size, gain = estimated(sizes[a]), estimated(less(base, sizes[a]))
        ends = metrics.share_interval(int(hits[a]), n)
        unit = float(base.mean()) if relative else 1.0
        gains = [one / unit if unit else np.nan for one in (gain.mean, gain.low, gain.high)]
        return (hits[a] / n, *ends, size.mean, size.low, size.high, *gains)

    kind = rows.predictor.fitted.ledger.kind
    # A fresh threshold promises nothing to rows whose features the fit saw; these may be those.
    facts = rows.predictor.fitted.ledger.facts
    again = "approximate" if facts.n_test or facts.n_batch else "exact"
    other = {AGAIN: again, AVERAGE: "approximate"}
    guarantees = (kind, *(other.get(name, "exact") for name in names[1:]))
    return MethodTable(
        names,
        guarantees,
        _columns(len(rows.alphas), names, values),
        tuple(baselines),
        relative,
        beside_plain(rows, {name: sizes for name, (sizes, _) in measured.items()}),
        tuple(_notes(rows, names, relative=relative)),
    )


def _notes(rows: Any, names: Sequence[str], *, relative: bool) -> list[str]:
    """Return how to read the table."""
    notes = [f"Measured on {len(rows.compared):,} rows of this file; 95 % intervals."]
    if len(names) > 1:
        notes.append(
            f"“{MODEL}” uses the thresholds of its own calibration rows; every other method is "
            "calibrated on one half of these rows and measured on the other, both ways round."
        )
        footing = f"“{AGAIN}” stands" if AGAIN in names else f"“{rows.names[0]}” is this model"
        gain = "labels per set fewer than the best single score"
        if relative:
            gain = "by how much intervals are narrower than those of the best single score"
        notes.append(
            f"Gain: {gain}, row by row. {rows.words.sizes.capitalize()} compare at "
            f"equal coverage only: {footing} on the footing of the others."
        )
    return notes


def estimated(values: Any) -> Estimate:
    """Return a mean with its interval; of numbers that are not all finite the mean alone."""
    if np.isfinite(values).all():
        return interval(values)
    return Estimate(float(np.mean(values)), np.nan, np.nan, np.nan, len(values))


def less(base: Any, sizes: Any) -> Any:
    """Return the differences row by row; NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return base - sizes


def other_methods(rows: Rows) -> Sizes:
    """Return sizes (A, n) and covered rows (A,) of what the model is compared with, by name."""
    d, blended, plain = len(rows.names), rows.predictor.blend is not None, plain_columns(rows)
    tried = {AGAIN: rows.weights} if d > 1 or blended else {}
    if not blended and (d > 1 or plain):
        tried |= {name: np.eye(d)[j] for j, name in enumerate(rows.names)}
    if d > 1:
        tried[UNIFORM] = np.full(d, 1 / d)
    found = {name: rows.under(w) for name, w in tried.items()}
    for column in plain:
        alone = replace(rows.predictor.scoring, columns=(column,))
        scores = alone.tensor(rows.outputs.rows(rows.compared))[..., 0]
        found[str(column)] = rows.under_scores(scores)
    if blended:
        found[AVERAGE] = averaged_sizes(rows)
    return found


def plain_columns(rows: Rows) -> list[Column]:
    """Return the plain scores that the model does not name: ``thr``, for a blend the paper's."""
    names = ("thr",) if rows.predictor.blend is None else PAPER
    columns = [Column(m, parse_score(name)) for m in rows.predictor.scored_models for name in names]
    return [column for column in columns if str(column) not in rows.names]


def averaged_sizes(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the same for the average of the paper, fitted on one half as the library fits it."""
    y = rows.y[rows.compared]
    sizes = np.zeros((len(rows.alphas), len(y)), dtype=np.int64)
    hits = np.zeros(len(rows.alphas), dtype=np.int64)
    outputs = rows.outputs.rows(rows.compared)
    for half, test in rows.both_ways():
        model = ScoreAverage(PAPER, alpha=rows.predictor.alpha, split="all-rows",
                             kind=outputs.kind, random_state=rows.seed)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConformixWarning)  # of halves, not of the model
            model.fit(outputs.rows(half).models, y[half])
            nested = model.predict_set(outputs.rows(test).models, alpha=list(rows.alphas))
        for a, alpha in enumerate(rows.alphas):
            mask = np.asarray(nested.at(alpha))
            sizes[a, test] = mask.sum(axis=1)
            hits[a] += int(metrics.covered(mask, y[test]).sum())
    return sizes, hits


def beside_plain(rows: AnyRows, sizes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one sentence per level: by how much the model is better than the plain method."""
    score = rows.plain

    def is_plain(name: str) -> bool:
        return name == score or name.endswith(f".{score}")

    plain = [name for name in sizes if is_plain(name)]
    ours = AGAIN if AGAIN in sizes else rows.names[0]
    if not plain or ours not in sizes:
        said = f"This model is the plain method itself, {rows.words.plain} ({score})."
        itself = len(rows.names) == 1 and is_plain(rows.names[0])
        return (said if itself else "",) * len(rows.alphas)
    sentences = []
    for a in range(len(rows.alphas)):
        name = min(plain, key=lambda one: float(sizes[one][a].mean()))
        later = rows.alphas[rows.fitted_place] if a != rows.fitted_place else None
        both = sizes[ours][a], sizes[name][a]
        sentences.append(in_words(name, *both, later, words=rows.words, digits=rows.digits))
    return tuple(sentences)


def in_words(
    name: str, ours: Any, plain: Any, fitted: float | None, *, words: Words = SETS, digits: int = 2
) -> str:
    """Return who is better, in words; `fitted` is the model's level where it differs."""
    mean, base = float(ours.mean()), float(plain.mean())
    if not np.isfinite(mean) or not np.isfinite(base):
        return ""
    saved = interval(plain - ours)
    method = f"the plain method ({name}, {words.plain})"
    few, many = f"{mean:.{digits}f}", f"{base:.{digits}f}"
    if base <= 0 or saved.low <= 0 <= saved.high:
        return (
            f"The {words.many} are about {words.as_large} as those of {method}: {few} and "
            f"{many}{words.unit} on average, both calibrated on these rows, a difference that "
            "chance allows."
        )
    share, ends = saved.mean / base, sorted((abs(saved.low) / base, abs(saved.high) / base))
    shares = f"{100 * abs(share):.1f} % (95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f})"
    if share > 0:
        return (
            f"The {words.many} are {shares} {words.smaller} than those of {method}: "
            f"{few}{words.unit} on average in place of {many}, both calibrated on these rows."
        )
    advice = f"On these rows the model does not pay: fit {words.instead} instead."
    if fitted is not None:
        advice = f"The model was fitted for alpha = {fitted:g}, not for this level."
    return (
        f"The plain method has the {words.smaller} {words.many} here: {name}, {words.plain}, "
        f"needs {many}{words.unit} on average and this model {few}, which is {shares} more, "
        f"both calibrated on these rows. {advice}"
    )


def compared_methods(comparisons: Sequence[Comparison], average: str) -> MethodTable:
    """Return the methods of `conformix.experiments.compare`, run once per level."""
    listed = comparisons[0].results.methods
    names = (average, *(name for name in listed if name != average))
    records = [{record["method"]: record for record in one.summary()} for one in comparisons]

    def values(a: int, name: str) -> tuple[float, ...]:
        record = records[a][name]
        size = comparisons[a].results.estimate(name, alpha=comparisons[a].alpha)
        return (
            record["coverage"], record["coverage_low"], record["coverage_high"],
            size.mean, size.low, size.high,
            record["saved"], record["saved_low"], record["saved_high"],
        )  # fmt: skip

    first = comparisons[0]
    splits = first.summary()[0]["splits"]
    means = (
        f"Means over {splits} random splits of this file. Intervals of coverage and gain are for "
        "new rows like these, those of size for the mean over splits of these rows; 95 %."
    )
    notes = (
        means,
        "Gain: by how much sets are smaller than those of the best single score at that level.",
    )
    return MethodTable(
        names,
        tuple(first.results.guarantee(name, first.alpha) for name in names),
        _columns(len(comparisons), names, values),
        tuple(one.verdict.baseline for one in comparisons),
        True,
        tuple(_sentence(one.verdict.sentence) for one in comparisons),
        notes,
    )


def _columns(
    n_levels: int, names: Sequence[str], values: Callable[[int, str], tuple[float, ...]]
) -> dict[str, FloatArray]:
    """Return every column (A, methods), from the values of each method at each level."""
    table = np.array([[values(a, name) for name in names] for a in range(n_levels)], dtype=float)
    return {column: table[..., place] for place, column in enumerate(COLUMNS)}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
