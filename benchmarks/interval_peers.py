"""Intervals of a single score against MAPIE's and crepes': the same ends, and how long they take.

Run by ``make bench WHAT=peers``. All get the same predictions of a mean and a spread. Every library
runs in processes of its own, which take turns: where several share one, what one frees another gets
without having to ask the system for pages. Told is the median of fits with their predictions, in
milliseconds of all cores, warm; "apart" is the largest distance of two ends in units in the last
place of the larger of end and prediction: ours are rounded outward.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SIZES, ALPHA, ROUNDS, TURNS = (1_000, 100_000), 0.1, 31, 3


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    mean, sigma = rng.normal(size=n), rng.uniform(0.5, 2.0, size=n)
    return mean, sigma, mean + sigma * rng.normal(size=n)


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


MAKERS = {"conformix": ours, "mapie": by_mapie, "crepes": by_crepes}
PEERS = {"abs": ("conformix", "mapie", "crepes"), "norm": ("conformix", "crepes")}


def timed(library: str, score: str, n: int) -> float:
    """Return the milliseconds of a fit and its prediction, in this process alone."""
    given, new = rows(0, n), rows(1, n)
    times = []
    for _ in range(ROUNDS + 3):  # the first load what loads late
        start = time.process_time()
        MAKERS[library](score, given, new)
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times[3:])


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
    if len(sys.argv) > 1:
        library, score, n = sys.argv[1:]
        print(timed(library, score, int(n)))
        return
    for n in SIZES:
        for score, libraries in PEERS.items():
            given, new = rows(0, n), rows(1, n)
            times: dict[str, list[float]] = {name: [] for name in libraries}
            for _ in range(TURNS):
                for name in libraries:
                    call = [sys.executable, "-W", "ignore", __file__, name, score, str(n)]
                    done = subprocess.run(call, capture_output=True, text=True, check=True)
                    times[name].append(float(done.stdout))
            ends = {name: MAKERS[name](score, given, new) for name in libraries}
            for name in libraries:
                size = np.maximum(np.abs(ends[name]), np.abs(new[0]))
                apart = np.abs(np.subtract(ends["conformix"], ends[name])) / np.spacing(size)
                row = {
                    "score": score, "n": n, "library": name,
                    "ms": round(statistics.median(times[name]), 2), "apart": int(apart.max()),
                }  # fmt: skip
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
