"""How scores differ among the pairs near the threshold of one weight, judged by a small sample.

This shapes the cells and nothing else: any numbers are valid, good ones make bounds tighter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.engine.selection import kth_largest

SAMPLE_ROWS = 256
SAMPLE_LABELS = 8
TRUE_ROWS = 1024
NEAR_SHARE = 16
NEAR_PAIRS = 32


class Sample(NamedTuple):
    """Some labelled `rows` (n, d), the `rank` of the threshold among them, some `pairs` (P, d)."""

    rows: FloatArray
    rank: int
    pairs: FloatArray


def draw_sample(true_scores: FloatArray, k: int, size_parts: Sequence[FloatArray]) -> Sample:
    """Evenly spaced labelled rows and, from evenly spaced rows, evenly spaced labels."""
    rows = true_scores[:: 1 + len(true_scores) // TRUE_ROWS].copy()
    rank = 1 + (k - 1) * len(rows) // len(true_scores)
    pairs = [rows[:NEAR_PAIRS]]
    for part in size_parts:
        some = part[:: 1 + part.shape[0] // SAMPLE_ROWS, :: 1 + part.shape[1] // SAMPLE_LABELS]
        pairs.append(some.reshape(-1, part.shape[2]))
    return Sample(rows, rank, np.ascontiguousarray(np.concatenate(pairs, dtype=np.float64)))


@compiled
def measure_spread(sample: Sample, weights: FloatArray, spread: FloatArray) -> None:
    """Write the mean absolute deviation of ``s_j - s_a`` over the pairs nearest the threshold.

    Parameters
    ----------
    sample : Sample
    weights : (d,) where.
    spread : (d, d), ``[a, j]``; or (1, d) for the scores ``s_j`` themselves.
    """
    threshold = kth_largest(_combined(sample.rows, weights), sample.rank)
    distance = _combined(sample.pairs, weights)
    for i in range(len(distance)):
        distance[i] = -abs(distance[i] - threshold)
    n_near = min(len(distance), NEAR_PAIRS + len(distance) // NEAR_SHARE)
    reach = kth_largest(distance.copy(), n_near)
    near = np.empty(len(distance), dtype=np.int64)
    n_near = 0
    for i in range(len(distance)):
        near[n_near] = i
        n_near += distance[i] >= reach
    for a in range(len(spread)):
        for j in range(len(weights)):
            spread[a, j] = _deviation(sample.pairs, near[:n_near], j, a if len(spread) > 1 else -1)


@compiled
def _deviation(pairs: FloatArray, members: IntArray, j: int, a: int) -> float:
    """Mean absolute deviation of ``s_j - s_a`` (``s_j`` if a < 0) over some pairs."""
    mean = 0.0
    for i in members:
        mean += pairs[i, j] - (pairs[i, a] if a >= 0 else 0.0)
    mean /= len(members)
    total = 0.0
    for i in members:
        total += abs(pairs[i, j] - (pairs[i, a] if a >= 0 else 0.0) - mean)
    return total / len(members)


@compiled
def _combined(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """(n,) weighted sums of rows (n, d), for judging only."""
    out = np.zeros(len(rows))
    for i in range(len(rows)):
        for j in range(len(weights)):
            out[i] += weights[j] * rows[i, j]
    return out
