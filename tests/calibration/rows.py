"""Synthetic rows whose law is known, for the tests of conditional and shifted sets."""

from __future__ import annotations

import numpy as np

import conformix as cx

Z = 4.5
NAMES = ("thr", "aps", "rank")
WEIGHTS = (0.5, 0.25, 0.25)


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def uneven_classes(
    rng: np.random.Generator, n: int, priors: tuple[float, ...] = (0.6, 0.3, 0.1)
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, K) and labels; later classes are rarer and harder."""
    k = len(priors)
    y = rng.choice(k, size=n, p=np.array(priors))
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), y] += 2.5 - 1.2 * y  # the last class is nearly guesswork
    return softmax(logits), y


def covered(sets: object, y: np.ndarray) -> np.ndarray:
    return np.asarray(sets)[np.arange(len(y)), y]


def fixed(alpha: float, calibration: object) -> cx.ScoreAverage:
    """The average of three scores with given weights: all rows calibrate."""
    return cx.ScoreAverage(NAMES, alpha=alpha, weights=WEIGHTS, calibration=calibration)
