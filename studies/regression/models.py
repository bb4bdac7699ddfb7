"""Models as a careful user would tune them, trained on some rows, asked of others.

Five models of the mean (ridge, neighbours, network, forest, boosting) with small grids, chosen by
the squared error out of fold; their non-negative stack; of each a forest that predicts its absolute
residual out of fold (sigma); three models of quantiles (boosting, the leaves of a forest, the
responses of neighbours) with small grids, chosen by the pinball loss out of fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conformix.kernels.arrays import FloatArray

LEVELS = (0.025, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.975)
MEANS = ("ridge", "neighbours", "network", "forest", "boosting", "stack")
QUANTILES = ("quantile boosting", "quantile forest", "quantile neighbours")
FOLDS, TREES = 5, 200
RIDGE = ({"alpha": 0.1}, {"alpha": 1.0}, {"alpha": 10.0}, {"alpha": 100.0})
NETWORK = ({"alpha": 1.0}, {"alpha": 10.0})
FOREST = (
    {"max_features": 0.33, "min_samples_leaf": 1},
    {"max_features": 1.0, "min_samples_leaf": 1},
    {"max_features": 0.33, "min_samples_leaf": 5},
    {"max_features": 1.0, "min_samples_leaf": 5},
)
BOOSTING = (
    {"learning_rate": 0.1, "max_iter": 100, "max_leaf_nodes": 6},
    {"learning_rate": 0.05, "max_iter": 200, "max_leaf_nodes": 15},
    {"learning_rate": 0.03, "max_iter": 120, "max_leaf_nodes": 5},
)
NEIGHBOURS = (3, 5, 9, 15, 25)
QUANTILE_BOOSTING = (
    {"learning_rate": 0.1, "max_iter": 60, "max_leaf_nodes": 6, "min_samples_leaf": 15},
    {"learning_rate": 0.1, "max_iter": 100, "max_leaf_nodes": 12, "min_samples_leaf": 15},
)
QUANTILE_LEAVES = (5, 15, 40)
QUANTILE_NEIGHBOURS = (15, 30, 60, 100)
JUDGED = (1, 4, 7)
"""Levels by which quantile models are chosen: 0.05, the median, 0.95."""


@dataclass(frozen=True)
class Predictions:
    """What all models say of rows.

    Parameters
    ----------
    means, sigmas : arrays of shape (n, 6)
        By model of `MEANS`.
    quantiles : array of shape (n, 3, 9)
        By model of `QUANTILES` and level of `LEVELS`.
    forest, boosting : int
        Which options of the grids were chosen, for methods that train anew.
    """

    means: FloatArray
    sigmas: FloatArray
    quantiles: FloatArray
    forest: int
    boosting: int


def trained(X: FloatArray, y: FloatArray, others: FloatArray, seed: int) -> Predictions:
    """Return what models trained on (X, y) say of other rows."""
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    scaler = StandardScaler().fit(X)
    near = Near(scaler.transform(X), y, scaler.transform(others))
    new, own = near.means()
    said, held = {"neighbours": new}, {"neighbours": own}
    chosen = {}
    grids: tuple[tuple[str, Callable[..., Any], Sequence[Any]], ...] = (
        ("ridge", _ridge, RIDGE),
        ("network", _network, NETWORK),
        ("forest", forest, FOREST),
        ("boosting", boosting, BOOSTING),
    )
    for name, make, grid in grids:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of networks: they stop early
            chosen[name], held[name] = _tuned(partial(make, seed), grid, X, y, folds)
            said[name] = make(seed, **grid[chosen[name]]).fit(X, y).predict(others)
    new_means, own_means = ([some[name] for name in MEANS[:-1]] for some in (said, held))
    stack = LinearRegression(positive=True).fit(np.column_stack(own_means), y)
    new_means.append(stack.predict(np.column_stack(new_means)))
    own_means.append(stack.predict(np.column_stack(own_means)))
    sigmas = [_sigma(X, np.abs(y - own), others, seed) for own in own_means]
    quantiles = [
        _boosted_quantiles(X, y, others, folds[:3], seed),
        _leaf_quantiles(X, y, others, folds[:3], seed),
        near.quantiles(),
    ]
    return Predictions(
        np.column_stack(new_means), np.column_stack(sigmas), np.stack(quantiles, axis=1),
        chosen["forest"], chosen["boosting"],
    )  # fmt: skip


def _ridge(seed: int, **options: Any) -> Any:
    return make_pipeline(StandardScaler(), Ridge(**options))


def _network(seed: int, **options: Any) -> Any:
    network = MLPRegressor(
        hidden_layer_sizes=(64,), solver="lbfgs", max_iter=300, random_state=seed, **options
    )
    return TransformedTargetRegressor(
        make_pipeline(StandardScaler(), network), transformer=StandardScaler()
    )


def forest(seed: int, **options: Any) -> RandomForestRegressor:
    """Return an untrained forest."""
    return RandomForestRegressor(TREES, oob_score=True, random_state=seed, **options)


def boosting(seed: int, **options: Any) -> HistGradientBoostingRegressor:
    """Return untrained boosting."""
    return HistGradientBoostingRegressor(random_state=seed, **options)


def _tuned(
    make: Callable[..., Any], grid: Sequence[Any], X: FloatArray, y: FloatArray, folds: Any
) -> tuple[int, FloatArray]:
    """Return the place of the best options, and what they say of every row out of fold."""
    found = []
    for options in grid:
        model = make(**options)
        if hasattr(model, "oob_score"):
            own = model.fit(X, y).oob_prediction_
        else:
            own = np.empty(len(y))
            for train, rest in folds:
                own[rest] = make(**options).fit(X[train], y[train]).predict(X[rest])
        found.append(own)
    best = int(np.argmin([np.mean((y - own) ** 2) for own in found]))
    return best, found[best]


def _sigma(X: FloatArray, residuals: FloatArray, others: FloatArray, seed: int) -> FloatArray:
    """Return the predicted size of the residuals of other rows, never below a tenth of the mean."""
    model = RandomForestRegressor(100, min_samples_leaf=10, max_features=0.5, random_state=seed)
    said = model.fit(X, residuals).predict(others)
    return np.maximum(said, residuals.mean() / 10)


def pinball(y: FloatArray, quantiles: FloatArray, levels: Sequence[float]) -> float:
    """Return the mean pinball loss of quantiles (n, q)."""
    above = y[:, None] - quantiles
    each = np.asarray(levels)
    return float(np.maximum(each * above, (each - 1) * above).mean())


def _boosted_quantiles(
    X: FloatArray, y: FloatArray, others: FloatArray, folds: Any, seed: int
) -> FloatArray:
    def said(options: Any, level: float, X: Any, y: Any, new: Any) -> FloatArray:
        model = HistGradientBoostingRegressor(
            loss="quantile", quantile=level, random_state=seed, **options
        )
        return model.fit(X, y).predict(new)  # type: ignore[no-any-return]

    judged = [LEVELS[j] for j in JUDGED]
    losses = []
    for options in QUANTILE_BOOSTING:
        lost = 0.0
        for train, rest in folds:
            own = [said(options, level, X[train], y[train], X[rest]) for level in judged]
            lost += pinball(y[rest], np.column_stack(own), judged)
        losses.append(lost)
    best = QUANTILE_BOOSTING[int(np.argmin(losses))]
    return np.sort(np.column_stack([said(best, level, X, y, others) for level in LEVELS]), axis=1)


def _leaf_quantiles(
    X: FloatArray, y: FloatArray, others: FloatArray, folds: Any, seed: int
) -> FloatArray:
    def said(leaf: int, X: Any, y: Any, new: Any, trees: int) -> FloatArray:
        model = RandomForestRegressor(
            trees, min_samples_leaf=leaf, max_features=0.5, random_state=seed
        )
        return leaf_quantiles(model.fit(X, y), X, y, new)

    losses = []
    for leaf in QUANTILE_LEAVES:
        lost = 0.0
        for train, rest in folds:
            own = said(leaf, X[train], y[train], X[rest], 50)[:, JUDGED]
            lost += pinball(y[rest], own, [LEVELS[j] for j in JUDGED])
        losses.append(lost)
    return said(QUANTILE_LEAVES[int(np.argmin(losses))], X, y, others, TREES)


def leaf_quantiles(model: Any, X: FloatArray, y: FloatArray, new: FloatArray) -> FloatArray:
    """Return quantiles (m, q) of the responses in the leaves of a forest, each tree one vote.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 1))
    >>> model = RandomForestRegressor(5, min_samples_leaf=40, random_state=0).fit(X, X[:, 0])
    >>> bool((leaf_quantiles(model, X, X[:, 0], X[:2])[0, 4] == np.sort(X[:, 0])[19]))
    True
    """
    order = np.argsort(y, kind="stable")
    here, there = model.apply(X[order]), model.apply(new)
    n, trees = here.shape
    starts = np.concatenate([[0], np.cumsum(here.max(axis=0) + 1)])
    columns = (here + starts[:-1]).ravel()
    votes = csr_matrix((np.ones(n * trees), columns, np.arange(0, n * trees + 1, trees)),
                       shape=(n, starts[-1]))  # fmt: skip
    sizes = np.maximum(np.asarray(votes.sum(axis=0)).ravel(), 1)
    found = np.empty((len(new), len(LEVELS)))
    for start in range(0, len(new), 500):
        some = there[start : start + 500]
        places = (some + starts[:-1]).ravel()
        asked = csr_matrix((1 / sizes[places], places, np.arange(0, some.size + 1, trees)),
                           shape=(len(some), starts[-1]))  # fmt: skip
        found[start : start + 500] = _weighted(y[order], (asked @ votes.T).toarray())
    return found


def _weighted(y: FloatArray, weights: FloatArray) -> FloatArray:
    """Return quantiles (m, q) of rising responses (n,) under weights (m, n)."""
    sums = np.cumsum(weights, axis=1)
    goals = np.array(LEVELS) * sums[:, -1:] * (1 - 1e-12)
    places = [(sums < goals[:, [j]]).sum(axis=1) for j in range(len(LEVELS))]
    return y[np.minimum(np.stack(places, axis=1), len(y) - 1)]  # type: ignore[no-any-return]


class Near:
    """Responses of the nearest training rows, each training row without itself."""

    def __init__(self, X: FloatArray, y: FloatArray, others: FloatArray) -> None:
        self.y = y
        most = min(max(QUANTILE_NEIGHBOURS), len(X) - 1)
        index = NearestNeighbors(n_neighbors=most).fit(X)
        self.own, self.others = y[index.kneighbors(None)[1]], y[index.kneighbors(others)[1]]

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Return the means of others, and of training rows."""
        counts = [k for k in NEIGHBOURS if k <= self.own.shape[1]]
        lost = [np.mean((self.y - self.own[:, :k].mean(axis=1)) ** 2) for k in counts]
        k = counts[int(np.argmin(lost))]
        return self.others[:, :k].mean(axis=1), self.own[:, :k].mean(axis=1)

    def quantiles(self) -> FloatArray:
        """Return the quantiles of others."""
        counts = [k for k in QUANTILE_NEIGHBOURS if k <= self.own.shape[1]]
        judged = [LEVELS[j] for j in JUDGED]
        lost = [pinball(self.y, _of(self.own[:, :k], judged), judged) for k in counts]
        return _of(self.others[:, : counts[int(np.argmin(lost))]], LEVELS)


def _of(values: FloatArray, levels: Sequence[float]) -> FloatArray:
    """Return order statistics (m, q) of k values each (m, k)."""
    k = values.shape[1]
    places = np.ceil(np.asarray(levels) * k - 1e-9).astype(int) - 1
    return np.sort(values, axis=1)[:, places]  # type: ignore[no-any-return]
