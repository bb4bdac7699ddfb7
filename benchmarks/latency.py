"""One row at a time: how long a loaded predictor takes to answer.

Serving asks for one row, waits, and asks again. Nothing here is averaged over a batch: every call
has one fresh row, and the median and the 99th percentile of the calls are noted.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

import conformix as cx

CLASSES = (10, 100, 1000)
N_CALIBRATION, CALLS, WARM_UP = 1000, 1000, 50
SPLITS = {"vfcp": CALLS, "exact": 300}


def outputs_and_labels(n: int, n_classes: int, seed: int = 0):
    """Return probabilities of a calibrated model of middling strength, and labels drawn from it."""
    rng = np.random.default_rng(seed)
    powers = np.exp(3 * rng.normal(size=(n, n_classes)))
    probs = powers / powers.sum(axis=1, keepdims=True)
    heights = rng.random(n)[:, None]
    return probs, np.minimum((probs.cumsum(axis=1) < heights).sum(axis=1), n_classes - 1)


def loaded(split: str, n_classes: int, folder: str):
    """Return a predictor fitted, saved and loaded again, and rows that it has not seen."""
    probs, y = outputs_and_labels(N_CALIBRATION + CALLS, n_classes)
    options = {"alpha": 0.1, "split": split, "random_state": 0, "normalize": "none"}
    model = cx.ScoreAverage(("thr", "aps", "rank"), **options)
    model.fit(probs[:N_CALIBRATION], y[:N_CALIBRATION])
    model.save(Path(folder) / "model.json")
    return cx.load_predictor(Path(folder) / "model.json"), probs[N_CALIBRATION:]


def microseconds(call, rows: np.ndarray) -> np.ndarray:
    """Return the time of every call, one row each, after a few that do not count."""
    for row in rows[:WARM_UP]:
        call(row[None])
    taken = []
    for row in rows:
        start = time.perf_counter_ns()
        call(row[None])
        taken.append(time.perf_counter_ns() - start)
    return np.array(taken) / 1000


def latency(report) -> None:
    for split, calls in SPLITS.items():
        for n_classes in CLASSES:
            with tempfile.TemporaryDirectory() as folder:
                served, rows = loaded(split, n_classes, folder)
            asked = {"predict_set": served.predict_set, "predict_pvalues": served.predict_pvalues}
            for name, call in asked.items():
                taken = np.sort(microseconds(call, rows[:calls]))
                middle, late = taken[len(taken) // 2], taken[(99 * len(taken)) // 100]
                report.add(
                    f"{name} of one row, {split}, K={n_classes}: {middle:.0f} us",
                    middle / 1e6,
                    microseconds_median=round(float(middle), 1),
                    microseconds_p99=round(float(late), 1),
                    n_calibration=N_CALIBRATION,
                )
