"""Rows that the tests of regression share: what models predict, and the responses."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

import conformix as cx
from conformix.kernels.elementary import exp  # NumPy's differs from one processor to the next

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
NORMAL = np.array([-1.5, -0.6, 0.1, 0.8, 1.8])  # with more room above


def model_and_responses(
    n: int, seed: int = 0, *, ties: bool = False
) -> tuple[cx.Regressed, np.ndarray]:
    """Return a model with mean, sigma and quantiles, and uneven responses; tied ones are whole."""
    rng = np.random.default_rng(seed)
    truth, spread = rng.normal(size=n), exp(0.6 * rng.normal(size=n))
    y = truth + spread * rng.standard_t(4, size=n)
    mean = truth + 0.2 * rng.normal(size=n)
    sigma = spread * exp(0.3 * rng.normal(size=n))
    quantiles = truth[:, None] + spread[:, None] * NORMAL
    if ties:
        mean, sigma, quantiles, y = (np.round(part) for part in (mean, sigma, quantiles, y))
    return cx.Regressed(mean, sigma, quantiles, LEVELS), y


def two_models(n: int, seed: int = 0) -> tuple[dict[str, cx.Regressed], np.ndarray]:
    """Return what two models predict of the same rows."""
    model, y = model_and_responses(n, seed)
    other = cx.Regressed(mean=model.mean + 0.5 * np.random.default_rng(seed + 1).normal(size=n))
    return {"net": model, "ridge": other}, y


def part(models: dict[str, cx.Regressed], rows: slice) -> dict[str, cx.Regressed]:
    """Return some rows of several models."""
    return {name: model[rows] for name, model in models.items()}


class Told(RegressorMixin, BaseEstimator):
    """A regressor whose mean and sigma are the first two features: nothing is learnt."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X, return_std=False):
        return (X[:, 0], X[:, 1]) if return_std else X[:, 0]


def told_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features for `Told`, responses and groups."""
    model, y = model_and_responses(n, seed)
    groups = np.where(np.arange(n) % 3, "often", "seldom")
    return np.column_stack([model.mean, model.sigma]), y, groups
