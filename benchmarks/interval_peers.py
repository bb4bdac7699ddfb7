"""Intervals of a single score against MAPIE's and crepes': the same ends, and how long they take.

Run by ``make bench WHAT=peers``. All get the same predictions of a mean and a spread; fit and
prediction take turns in one process, and the median of seven is told in milliseconds. "apart" is
the largest distance of two ends in units in the last place of the larger of end and prediction:
ours are rounded outward.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

N, ALPHA, ROUNDS = 100_000, 0.1, 7


def rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean, sigma = rng.normal(size=N), rng.uniform(0.5, 2.0, size=N)
    return mean, sigma, mean + sigma * rng.normal(size=N)


def ours(score, given, new):
    import conformix as cx

    (mean, sigma, y), (new_mean, new_sigma, _) = given, new
    told = cx.Regressed(mean=mean, sigma=sigma)
    cp = cx.RegressionAverage([score], alpha=ALPHA, random_state=0).fit(told, y)
    found = cp.predict_interval(cx.Regressed(mean=new_mean, sigma=new_sigma))
    return found.lower, found.upper


def by_mapie(score, given, new):
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Given(RegressorMixin, BaseEstimator):
        """A regressor whose one feature is its prediction."""

        def fit(self, X, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def predict(self, X):
            return X[:, 0]

    (mean, _, y), (new_mean, *_) = given, new
    mapie = SplitConformalRegressor(Given(), confidence_level=1 - ALPHA, prefit=True)
    mapie.conformalize(mean[:, None], y)
    found = mapie.predict_interval(new_mean[:, None])[1][:, :, 0]
    return found[:, 0], found[:, 1]


def by_crepes(score, given, new):
    from crepes import ConformalRegressor

    (mean, sigma, y), (new_mean, new_sigma, _) = given, new
    cr = ConformalRegressor()
    if score == "abs":
        cr.fit(residuals=y - mean)
        found = cr.predict_int(new_mean, confidence=1 - ALPHA)
    else:
        cr.fit(residuals=y - mean, sigmas=sigma)
        found = cr.predict_int(new_mean, sigmas=new_sigma, confidence=1 - ALPHA)
    return found[:, 0], found[:, 1]


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    given, new = rows(0), rows(1)
    for score, peers in {"abs": (by_mapie, by_crepes), "norm": (by_crepes,)}.items():
        told = (score, given, new)
        makers = {"conformix": ours, **{one.__name__[3:]: one for one in peers}}
        times: dict[str, list[float]] = {name: [] for name in makers}
        ends = {name: make(*told) for name, make in makers.items()}  # whatever loads late loads now
        for _ in range(ROUNDS):
            for name, make in makers.items():
                start = time.perf_counter()
                make(*told)
                times[name].append(time.perf_counter() - start)
        for name in makers:
            size = np.maximum(np.abs(ends[name]), np.abs(new[0]))
            apart = np.abs(np.subtract(ends["conformix"], ends[name])) / np.spacing(size)
            row = {
                "score": score, "n": N, "library": name,
                "ms": round(1000 * statistics.median(times[name]), 1), "apart": int(apart.max()),
            }  # fmt: skip
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
