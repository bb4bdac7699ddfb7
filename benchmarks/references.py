"""What the search is compared with: three ways to go through the weights one after the other.

Each takes planes (d, n, K), the labels and alpha, works on a few weights, and returns the seconds
that all weights of the grid would take.
"""

from __future__ import annotations

import time

import numpy as np

FEW = 12
CHUNK = 64  # weights in one matrix product
ROWS = 2_000  # rows in one matrix product


def _some_weights(d: int, how_many: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(d), size=how_many)


def released(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int, few: int = FEW):
    """Time the paper's released code, step for step: two contractions, percentile, integer sets."""
    rows = np.arange(len(y))
    weights = _some_weights(len(planes), few)
    start = time.perf_counter()
    for w in weights:
        average = np.tensordot(w, planes, axes=(0, 0))
        cut = np.percentile(average[rows, y], 100 * alpha)  # noqa: TID251  as released
        average = np.tensordot(w, planes, axes=(0, 0))
        (average >= cut).astype(int).sum(axis=1).mean()
    return (time.perf_counter() - start) * n_weights / few


def tensordot(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int, few: int = FEW):
    """Time one contraction per weight, the k-th largest by partition, one count."""
    rows = np.arange(len(y))
    place = int((len(y) + 1) * alpha) - 1
    weights = _some_weights(len(planes), few)
    start = time.perf_counter()
    for w in weights:
        average = np.tensordot(w, planes, axes=(0, 0))
        cut = np.partition(average[rows, y], place)[place]
        np.count_nonzero(average >= cut)
    return (time.perf_counter() - start) * n_weights / few


def matmul(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int):
    """Time matrix products of many weights with blocks of rows."""
    d, n, _ = planes.shape
    place = int((n + 1) * alpha) - 1
    weights = _some_weights(d, CHUNK)
    start = time.perf_counter()
    true = planes[:, np.arange(n), y]
    cuts = np.partition(weights @ true, place, axis=1)[:, place, None]
    counts = np.zeros(CHUNK, dtype=np.int64)
    for first in range(0, n, ROWS):
        pairs = planes[:, first : first + ROWS].reshape(d, -1)
        counts += np.count_nonzero(weights @ pairs >= cuts, axis=1)
    return (time.perf_counter() - start) * n_weights / CHUNK
