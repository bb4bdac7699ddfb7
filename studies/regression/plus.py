"""CV+ and the jackknife+ (Barber et al., 2021), as MAPIE does them: all rows train and calibrate.

The interval of a row goes from the ``floor(alpha (n + 1))``-th smallest of ``mu_i - r_i`` to the
``ceil((1 - alpha)(n + 1))``-th smallest of ``mu_i + r_i``, with the prediction ``mu_i`` of the
models that did not see row i and its residual ``r_i`` under them; 1 - 2 alpha is proven. Training
rows and labelled rows together are the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.model_selection import KFold

from conformix.conformal import conformal_rank
from conformix.kernels.arrays import FloatArray, IntArray
from studies.regression.models import BOOSTING, FOREST, boosting, forest
from studies.regression.predictions import Draw
from studies.regression.tasks import Task, Verdict

# Test rows at a time.
AT_ONCE = 500


def _rows(draw: Draw, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    rows = np.concatenate([draw.train, draw.labelled[:n]])
    X, y = draw.data
    return X[rows], y[rows], X[draw.test]


def _ends(
    predictions: FloatArray, which: IntArray, residuals: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return the ends for predictions (m, models) and the model (n,) that left each row out."""
    n = len(residuals)
    k = conformal_rank(n, alpha)
    if k > n:
        return np.full(len(predictions), -np.inf), np.full(len(predictions), np.inf)
    ends = np.empty((2, len(predictions)))
    for start in range(0, len(predictions), AT_ONCE):
        some = predictions[start : start + AT_ONCE][:, which]
        ends[0, start : start + AT_ONCE] = np.partition(some - residuals, n - k, axis=1)[:, n - k]
        ends[1, start : start + AT_ONCE] = np.partition(some + residuals, k - 1, axis=1)[:, k - 1]
    return ends[0], ends[1]


@dataclass(frozen=True)
class CrossPlus:
    """CV+ of boosting with the options that were chosen for it.

    Parameters
    ----------
    folds : int
        How many.
    """

    folds: int = 5

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        said, which, residuals = _crossed(task.draw, task.n, self.folds)
        return task.verdict(*_ends(said, which, residuals, task.alpha))


@lru_cache(maxsize=1)
def _crossed(draw: Draw, n: int, folds: int) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return what the models of the folds say of test rows, and of rows that they did not see."""
    X, y, new = _rows(draw, n)
    which, own, said = np.empty(len(y), dtype=int), np.empty(len(y)), []
    for number, (train, rest) in enumerate(
        KFold(folds, shuffle=True, random_state=draw.run).split(X)
    ):
        model = boosting(draw.run, **BOOSTING[draw.known.boosting]).fit(X[train], y[train])
        which[rest], own[rest] = number, model.predict(X[rest])
        said.append(model.predict(new))
    return np.column_stack(said), which, np.abs(y - own)


@dataclass(frozen=True)
class JackknifePlus:
    """The jackknife+ after bootstrap of a forest: a row's models are the trees without it."""

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        said, absent, residuals = _bagged(task.draw, task.n)
        every = np.arange(len(residuals))
        ends = [
            _ends(said[start : start + AT_ONCE] @ absent, every, residuals, task.alpha)
            for start in range(0, len(said), AT_ONCE)
        ]
        lower, upper = (np.concatenate(part) for part in zip(*ends, strict=True))
        return task.verdict(lower, upper)


@lru_cache(maxsize=1)
def _bagged(draw: Draw, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what trees say of test rows, the share of each in a row's models, and residuals."""
    X, y, new = _rows(draw, n)
    model = forest(draw.run, **FOREST[draw.known.forest]).fit(X, y)
    absent = np.ones((len(model.estimators_), len(y)))
    for tree, rows in enumerate(model.estimators_samples_):
        absent[tree, rows] = 0
    absent /= np.maximum(absent.sum(axis=0), 1)
    trees = np.column_stack([tree.predict(new) for tree in model.estimators_])
    return trees, absent, np.abs(y - model.oob_prediction_)
