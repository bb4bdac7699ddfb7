"""What other methods and other weights would have given: the method table and the weight map.

Other weights are calibrated on one half of the rows and measured on the other, both ways round, on
the scale of the fitted model. So all are measured on the same rows, none of which set its own
threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from conformix import metrics
from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.compare import Comparison
from conformix.experiments.statistics import interval
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.simplex import grid_size, simplex_grid
from conformix.report.rows import Rows
from conformix.search.objective import SizeObjective

COLUMNS = (
    "coverage", "coverage_low", "coverage_high", "size", "size_low", "size_high",
    "gain", "gain_low", "gain_high",
)  # fmt: skip
MODEL, AGAIN = "this model", "its weights, recalibrated"


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
    # the verdict at every level, where methods were compared over splits
    sentences: tuple[str, ...]
    notes: tuple[str, ...]  # how to read the table


def model_methods(rows: Rows) -> MethodTable:
    """Return the model beside its single scores and their plain average.

    The model has the thresholds of its own calibration rows; the others are calibrated on one
    half of the rows and measured on the other, both ways round.
    """
    d, n = len(rows.names), len(rows.compared)
    tried = {name: np.eye(d)[j] for j, name in enumerate(rows.names)} if d > 1 else {}
    if d > 1:
        tried = {AGAIN: rows.weights, **tried, "uniform weights": np.full(d, 1 / d)}
    model_sizes = np.stack([rows.sets(alpha)[rows.compared].sum(axis=1) for alpha in rows.alphas])
    model_hits = np.array(
        [
            metrics.covered(rows.sets(a)[rows.compared], rows.y[rows.compared]).sum()
            for a in rows.alphas
        ]
    )
    measured = {MODEL: (model_sizes, model_hits)}
    if n >= 4:
        measured |= {name: row_sizes(rows, weights) for name, weights in tried.items()}
    names = tuple(measured)
    singles = [name for name in names if name in rows.names] or [MODEL]
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
        notes.append(
            "Gain: labels per set fewer than the best single score, row by row. Sizes compare at "
            f"equal coverage only: “{AGAIN}” stands on the footing of the others."
        )
    # A fresh threshold promises nothing to rows whose features the fit saw; these may be those.
    facts = rows.predictor.fitted.ledger.facts
    again = "approximate" if facts.n_test or facts.n_batch else "exact"
    guarantees = (kind, *(again if name == AGAIN else "exact" for name in names[1:]))
    columns = _columns(len(rows.alphas), names, values)
    return MethodTable(names, guarantees, columns, tuple(baselines), False, (), tuple(notes))


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


# A grid that can be seen and listed: three scores in steps of 0.02.
MOST_WEIGHTS = 1326
MOST_STEPS = 100
# Combined true-label scores held at once.
ENTRIES = 2**22


@dataclass(frozen=True, eq=False)
class WeightMap:
    """Sizes and coverages of all weights of a grid."""

    resolution: int  # weights are ``grid / resolution``
    grid: IntArray  # (M, d), the grid, lexicographically
    labels: IntArray  # (A, M), labels in all sets, by level
    hits: IntArray  # (A, M), covered rows, by level
    n: int


def halves(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the two halves of the rows `compared`, as places in it, drawn with the seed."""
    order = np.random.default_rng(rows.seed).permutation(len(rows.compared))
    cut = len(order) // 2
    return np.sort(order[:cut]), np.sort(order[cut:])


def weight_map(rows: Rows) -> WeightMap | None:
    """Return sizes and coverages over the grid of weights; None for a single score."""
    d = len(rows.names)
    if d < 2 or len(rows.compared) < 4:
        return None
    steps = [m for m in range(1, MOST_STEPS + 1) if grid_size(d, m) <= MOST_WEIGHTS]
    resolution = max(steps, default=1)
    grid = simplex_grid(d, resolution)
    labels, hits = cross_calibrated(rows, grid / resolution)
    return WeightMap(resolution, grid, labels, hits, len(rows.compared))


def cross_calibrated(rows: Rows, weights: FloatArray) -> tuple[IntArray, IntArray]:
    """Return labels in all sets and covered rows, (A, M) each, over both ways round."""
    y = rows.y[rows.compared]
    true_scores = np.ascontiguousarray(rows.scores[np.arange(len(y)), y])
    labels = np.zeros((len(rows.alphas), len(weights)), dtype=np.int64)
    hits = np.zeros_like(labels)
    first, second = halves(rows)
    for calibrate, test in ((first, second), (second, first)):
        part = rows.scores[test]
        thresholds = np.full(labels.shape, -np.inf)
        for a, alpha in enumerate(rows.alphas):
            k = conformal_rank(len(calibrate), alpha)
            objective = SizeObjective(true_scores[calibrate], [part], k)
            if k > len(calibrate):
                labels[a] += objective.counts(weights)
                continue
            counts, thresholds[a] = objective.counts_and_thresholds(weights)
            labels[a] += counts
        hits += _covered(true_scores[test], weights, thresholds)
    return labels, hits


def _covered(true_scores: FloatArray, weights: FloatArray, thresholds: FloatArray) -> IntArray:
    """Return how many true-label scores reach the thresholds (A, M) of their weights."""
    counts = np.zeros(thresholds.shape, dtype=np.int64)
    step = max(1, ENTRIES // len(true_scores))
    for start in range(0, len(weights), step):
        some = slice(start, start + step)
        values = combine(true_scores[None], weights[some, None, :])
        for a in range(len(thresholds)):
            counts[a, some] = (values >= thresholds[a, some, None]).sum(axis=1)
    return counts


def row_sizes(rows: Rows, weights: FloatArray) -> tuple[IntArray, IntArray]:
    """Return set sizes (A, n) and covered rows (A,) of one weight vector, both ways round."""
    y = rows.y[rows.compared]
    combined = combine(rows.scores, weights)
    true_scores = combined[np.arange(len(y)), y]
    sizes = np.zeros((len(rows.alphas), len(y)), dtype=np.int64)
    hits = np.zeros(len(rows.alphas), dtype=np.int64)
    first, second = halves(rows)
    for calibrate, test in ((first, second), (second, first)):
        for a, alpha in enumerate(rows.alphas):
            k = conformal_rank(len(calibrate), alpha)
            threshold = kth_largest(true_scores[calibrate], k)
            sizes[a, test] = (combined[test] >= threshold).sum(axis=1)
            hits[a] += int((true_scores[test] >= threshold).sum())
    return sizes, hits
