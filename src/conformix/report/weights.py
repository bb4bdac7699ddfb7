"""What other weights would have given: the weight map.

Every weighting is calibrated on one half of the rows and measured on the other, both ways round, on
the scale of the fitted model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.simplex import grid_size, simplex_grid
from conformix.report.methods import both_ways
from conformix.report.rows import Rows
from conformix.search.objective import SizeObjective

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
    for calibrate, test in both_ways(rows):
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
