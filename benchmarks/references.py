"""What the search is compared with: three ways to go through the weights one after the other.

Each takes planes (d, n, K), the labels and alpha, times a few weights one by one, and returns the
seconds that all weights of the grid would take if each took as long as the fastest of them. So the
references get as many chances of a quiet moment as we do.
"""

from __future__ import annotations

import time

import numpy as np

FEW = 12
CHUNK = 64  # weights in one matrix product
ROWS = 2_000  # rows in one matrix product


def _some_weights(d: int, how_many: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(d), size=how_many)


def _fastest(work, items) -> float:
    times = []
    for item in items:
        start = time.perf_counter()
        work(item)
        times.append(time.perf_counter() - start)
    return min(times)


def released(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int, few: int = FEW):
    """Time the paper's released code, step for step: two contractions, percentile, integer sets."""
    rows = np.arange(len(y))

    def one(w):
        average = np.tensordot(w, planes, axes=(0, 0))
        cut = np.percentile(average[rows, y], 100 * alpha)  # noqa: TID251  as released
        average = np.tensordot(w, planes, axes=(0, 0))
        return (average >= cut).astype(int).sum(axis=1).mean()

    return n_weights * _fastest(one, _some_weights(len(planes), few))


def tensordot(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int, few: int = FEW):
    """Time one contraction per weight, the k-th largest by partition, one count."""
    rows = np.arange(len(y))
    place = int((len(y) + 1) * alpha) - 1

    def one(w):
        average = np.tensordot(w, planes, axes=(0, 0))
        cut = np.partition(average[rows, y], place)[place]
        return np.count_nonzero(average >= cut)

    return n_weights * _fastest(one, _some_weights(len(planes), few))


def matmul(planes: np.ndarray, y: np.ndarray, alpha: float, n_weights: int):
    """Time matrix products of many weights with blocks of rows."""
    d, n, _ = planes.shape
    place = int((n + 1) * alpha) - 1
    true = planes[:, np.arange(n), y]

    def chunk(weights):
        cuts = np.partition(weights @ true, place, axis=1)[:, place, None]
        counts = np.zeros(CHUNK, dtype=np.int64)
        for first in range(0, n, ROWS):
            pairs = planes[:, first : first + ROWS].reshape(d, -1)
            counts += np.count_nonzero(weights @ pairs >= cuts, axis=1)
        return counts

    return n_weights / CHUNK * _fastest(chunk, [_some_weights(d, CHUNK)] * 3)
