"""Random problems full of ties, and brute force in numpy, one weight at a time.

Brute force is the definition: what the engine must equal, count by count and bit by bit.
"""

from __future__ import annotations

import itertools

import numpy as np

RESOLUTIONS = {1: 7, 2: 30, 3: 12, 4: 6, 5: 4}
LAYOUTS = ("planes", "rows", "strided")


def combine(weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    total = weights[0] * scores[..., 0]
    for j in range(1, len(weights)):
        total = total + weights[j] * scores[..., j]
    return total


def compositions(d: int, m: int) -> np.ndarray:
    return np.array([g for g in itertools.product(range(m + 1), repeat=d) if sum(g) == m])


def brute_counts(true: np.ndarray, parts: list, k: int, weights: np.ndarray) -> np.ndarray:
    true = np.asarray(true, dtype=np.float64)
    wide = [np.asarray(part, dtype=np.float64) for part in parts]
    out = []
    for w in weights:
        t = np.sort(combine(w, true))[len(true) - k]
        out.append(sum(int((combine(w, part) >= t).sum()) for part in wide))
    return np.array(out, dtype=np.int64)


def brute_winner(counts: np.ndarray, keys: np.ndarray) -> int:
    order = [(c, (g**2).sum(), tuple(g)) for c, g in zip(counts, keys, strict=True)]
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
