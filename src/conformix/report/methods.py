"""What other methods would have given, and in words how the model compares with the plain one.

Other methods are calibrated on one half of the rows and measured on the other, both ways round, on
the scale of the fitted model. So all are measured on the same rows, none of which set its own
threshold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from conformix import metrics
from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import ConformixWarning
from conformix.estimators.average import ScoreAverage
from conformix.experiments.compare import Comparison
from conformix.experiments.statistics import interval
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.report.rows import Rows
from conformix.scores.names import PAPER, Column, parse_score

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


def model_methods(rows: Rows) -> MethodTable:
    """Return the model beside plain scores and averages.

    The model has the thresholds of its own calibration rows; the others are calibrated on one
    half of the rows and measured on the other, both ways round.
    """
    n = len(rows.compared)
    model_sizes = np.stack([rows.sets(alpha)[rows.compared].sum(axis=1) for alpha in rows.alphas])
    model_hits = np.array(
        [
            metrics.covered(rows.sets(a)[rows.compared], rows.y[rows.compared]).sum()
            for a in rows.alphas
        ]
    )
    measured = {MODEL: (model_sizes, model_hits)}
    if n >= 4:
        measured |= other_methods(rows)
    names = tuple(measured)
    singles = [name for name in names[1:] if name not in (AGAIN, UNIFORM, AVERAGE)] or [MODEL]
    baselines = [
        min(singles, key=lambda name: float(measured[name][0][a].mean()))
        for a in range(len(rows.alphas))
    ]

    def values(a: int, name: str) -> tuple[float, ...]:
        sizes, hits = measured[name]
        size, gain = interval(sizes[a]), interval(measured[baselines[a]][0][a] - sizes[a])
        ends = metrics.share_interval(int(hits[a]), n)
        return (
            hits[a] / n, *ends, size.mean, size.low, size.high, gain.mean, gain.low, gain.high
        )  # fmt: skip

    kind = rows.predictor.fitted.ledger.kind
    notes = [f"Measured on {n:,} rows of this file; 95 % intervals."]
    if len(names) > 1:
        notes.append(
            f"“{MODEL}” uses the thresholds of its own calibration rows; every other method is "
            "calibrated on one half of these rows and measured on the other, both ways round."
        )
        footing = f"“{AGAIN}” stands" if AGAIN in names else f"“{rows.names[0]}” is this model"
        notes.append(
            "Gain: labels per set fewer than the best single score, row by row. Sizes compare at "
            f"equal coverage only: {footing} on the footing of the others."
        )
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
        False,
        beside_plain(rows, {name: sizes for name, (sizes, _) in measured.items()}),
        tuple(notes),
    )


def other_methods(rows: Rows) -> dict[str, tuple[IntArray, IntArray]]:
    """Return sizes (A, n) and covered rows (A,) of what the model is compared with, by name."""
    d, blended, plain = len(rows.names), rows.predictor.blend is not None, plain_columns(rows)
    tried = {AGAIN: rows.weights} if d > 1 or blended else {}
    if not blended and (d > 1 or plain):
        tried |= {name: np.eye(d)[j] for j, name in enumerate(rows.names)}
    if d > 1:
        tried[UNIFORM] = np.full(d, 1 / d)
    found = {name: row_sizes(rows, combine(rows.scores, w)) for name, w in tried.items()}
    for column in plain:
        alone = replace(rows.predictor.scoring, columns=(column,))
        scores = alone.tensor(rows.outputs.rows(rows.compared))[..., 0]
        found[str(column)] = row_sizes(rows, scores)
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
    for half, test in both_ways(rows):
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


def beside_plain(rows: Rows, sizes: Mapping[str, IntArray]) -> tuple[str, ...]:
    """Return one sentence per level: by how much sets are smaller than those of ``thr`` alone."""
    plain = [name for name in sizes if name == "thr" or name.endswith(".thr")]
    ours = AGAIN if AGAIN in sizes else rows.names[0]
    if not plain or ours not in sizes:
        said = "This model is the plain method itself, the probability of a label alone (thr)."
        return (said if rows.names == ("thr",) else "",) * len(rows.alphas)
    sentences = []
    for a in range(len(rows.alphas)):
        name = min(plain, key=lambda one: float(sizes[one][a].mean()))
        later = rows.alphas[rows.fitted_place] if a != rows.fitted_place else None
        sentences.append(in_words(name, sizes[ours][a], sizes[name][a], later))
    return tuple(sentences)


def in_words(name: str, ours: IntArray, plain: IntArray, fitted: float | None) -> str:
    """Return who has the smaller sets, in words; `fitted` is the model's level where it differs."""
    saved, mean, base = interval(plain - ours), float(ours.mean()), float(plain.mean())
    method = f"the plain method ({name}, the probability of a label alone)"
    if base <= 0 or saved.low <= 0 <= saved.high:
        return (
            f"The sets are about as large as those of {method}: {mean:.2f} and {base:.2f} labels "
            "on average, both calibrated on these rows, a difference that chance allows."
        )
    share, ends = saved.mean / base, sorted((abs(saved.low) / base, abs(saved.high) / base))
    shares = f"{100 * abs(share):.1f} % (95 % interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f})"
    if share > 0:
        return (
            f"The sets are {shares} smaller than those of {method}: {mean:.2f} labels on average "
            f"in place of {base:.2f}, both calibrated on these rows."
        )
    advice = 'On these rows the model does not pay: fit scores="thr" instead.'
    if fitted is not None:
        advice = f"The model was fitted for alpha = {fitted:g}, not for this level."
    return (
        f"The plain method has the smaller sets here: {name}, the probability of a label alone, "
        f"needs {base:.2f} labels on average and this model {mean:.2f}, which is {shares} more, "
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


def halves(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the two halves of the rows `compared`, as places in it, drawn with the seed."""
    order = np.random.default_rng(rows.seed).permutation(len(rows.compared))
    cut = len(order) // 2
    return np.sort(order[:cut]), np.sort(order[cut:])


def both_ways(rows: Rows) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Return which half calibrates and which is measured, both ways round."""
    first, second = halves(rows)
    return (first, second), (second, first)


def row_sizes(rows: Rows, combined: FloatArray) -> tuple[IntArray, IntArray]:
    """Return set sizes (A, n) and covered rows (A,) of one score (n, K), both ways round."""
    y = rows.y[rows.compared]
    true_scores = combined[np.arange(len(y)), y]
    sizes = np.zeros((len(rows.alphas), len(y)), dtype=np.int64)
    hits = np.zeros(len(rows.alphas), dtype=np.int64)
    for calibrate, test in both_ways(rows):
        for a, alpha in enumerate(rows.alphas):
            k = conformal_rank(len(calibrate), alpha)
            threshold = kth_largest(true_scores[calibrate], k)
            sizes[a, test] = (combined[test] >= threshold).sum(axis=1)
            hits[a] += int((true_scores[test] >= threshold).sum())
    return sizes, hits
