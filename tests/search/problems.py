"""Random problems full of ties, and brute force in numpy, all weights alike.

Brute force is the definition: what the engine must equal, count by count and bit by bit.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

RESOLUTIONS = {1: 7, 2: 30, 3: 12, 4: 6, 5: 4}
LAYOUTS = ("planes", "rows", "strided")


def combine(weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Weighted sums, score after score: one more axis in front where weights are rows of many."""
    total = np.multiply.outer(weights[..., 0], scores[..., 0])
    for j in range(1, weights.shape[-1]):
        total = total + np.multiply.outer(weights[..., j], scores[..., j])
    return total


def compositions(d: int, m: int) -> np.ndarray:
    return np.array(_compositions(d, m))


@cache
def _compositions(d: int, m: int) -> list[tuple[int, ...]]:
    return [g for g in itertools.product(range(m + 1), repeat=d) if sum(g) == m]


def brute_counts(true: np.ndarray, parts: list, k: int, weights: np.ndarray) -> np.ndarray:
    true = np.asarray(true, dtype=np.float64)
    wide = [np.asarray(part, dtype=np.float64) for part in parts]
    out = np.zeros(len(weights), dtype=np.int64)
    at_once = 1 + 10**6 // (1 + max(part.size for part in wide))
    for start in range(0, len(weights), at_once):
        some = slice(start, start + at_once)
        t = np.sort(combine(weights[some], true), axis=1)[:, len(true) - k, None, None]
        for part in wide:
            out[some] += (combine(weights[some], part) >= t).sum(axis=(1, 2))
    return out


def brute_winner(counts: np.ndarray, keys: np.ndarray) -> int:
    listed = zip(counts.tolist(), (keys**2).sum(axis=1).tolist(), keys.tolist(), strict=True)
    order = list(listed)
    return order.index(min(order))


def _plain(rng: np.random.Generator, shape: tuple) -> np.ndarray:
    return rng.random(shape)


def _mixed(rng: np.random.Generator, shape: tuple) -> np.ndarray:
    x = rng.random(shape)
    x[..., 0] = np.round(x[..., 0] * 3) / 3
    x[..., -1] = 0.7
    return x


def _saturated(rng: np.random.Generator, shape: tuple) -> np.ndarray:
    return np.where(rng.random((*shape[:-1], 1)) < 0.6, -0.0, rng.random(shape).round(2))


KINDS = {
    "plain": _plain,
    "ties": lambda rng, shape: rng.integers(0, 4, shape) / 4,
    "constant": lambda rng, shape: np.full(shape, 0.3),
    "skewed": lambda rng, shape: rng.random(shape) ** 8,
    "signed": lambda rng, shape: rng.normal(0, 50, shape),
    "tenths": lambda rng, shape: rng.integers(0, 11, shape) * 0.1,
    "mixed": _mixed,
    "saturated": _saturated,
}


def laid_out(part: np.ndarray, layout: str) -> np.ndarray:
    """The same numbers in other places of memory."""
    if layout == "planes":
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(part, 2, 0)), 0, 2)
    if layout == "strided":
        return np.repeat(part, 2, axis=0)[::2][:, ::-1]
    return part


def problem(
    seed: int, kind: str, n: int, n_labels: int, d: int, *,
    layout: str = "planes", dtype: type = np.float64, n_parts: int = 1, apart: bool = False,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """True scores (n, d) and size parts; in a third of the cases half of the rows are copies."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(n_parts):
        cube = KINDS[kind](rng, (n, n_labels, d)).astype(dtype)
        if rng.random() < 0.3:
            cube[n // 2 :] = cube[: n - n // 2]
        parts.append(cube)
    true = parts[0][np.arange(n), rng.integers(n_labels, size=n)].astype(np.float64)
    if apart:
        rows = int(rng.integers(0, 2 * n + 1))
        parts = [KINDS[kind](rng, (rows, n_labels, d)).astype(dtype)]
    return true, [laid_out(part, layout) for part in parts]
