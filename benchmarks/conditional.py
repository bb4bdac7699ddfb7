"""Thresholds per class beside the scores they rest on: n = 20,000 rows, K = 1,000 classes.

The score tensor of `thr, aps, rank` is timed before and after, in the same process, and the faster
time counts. Class-conditional calibration and prediction are what comes after it: combine the true
labels, sort by class, take 1,000 thresholds; combine all labels and compare.
"""

from __future__ import annotations

import warnings

import numpy as np

import conformix as cx
from benchmarks.aps import K, N, case
from benchmarks.measure import Report, fastest, interleaved
from conformix.calibration import Clustered, PerClass
from conformix.calibration.cuts import Seen
from conformix.data.row_data import NO_DATA
from conformix.fit.fit import calibrated, fixed_ledger
from conformix.fit.rule import Rule
from conformix.scores.scale import Scaled

ALPHA = 0.1
WEIGHTS = np.array([0.5, 0.3, 0.2])


def conditional(report: Report) -> None:
    probs, y = case()
    scores = cx.score_tensor(probs)  # compiles, and is what calibration starts from
    rule = Rule(Scaled((1.0, 1.0, 1.0)), WEIGHTS)
    ledger = fixed_ledger(N, K, 3, alpha=ALPHA)

    def tensor() -> float:
        return fastest(lambda: cx.score_tensor(probs), 3)

    rng = np.random.default_rng(0)
    plans = {}
    for scheme in (PerClass(), Clustered(20)):
        values = rule.of_true_labels(scores, y)
        plans[scheme.name] = scheme.learn(Seen(values, y, NO_DATA, (), K, N, ALPHA, True, rng))
    for name, plan in plans.items():

        def calibrate_and_predict(plan=plan) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", cx.TrivialSetsWarning)
                fitted = calibrated(scores, y, rule, alpha=ALPHA, ledger=ledger, plan=plan)
            fitted.member(scores, ALPHA)

        seconds, references = interleaved(calibrate_and_predict, {"score tensor": tensor}, 3)
        told = f"conditional: calibrate and predict by {name}, n={N:,} K={K:,}"
        row = report.add(told, seconds, references, n=N, K=K)
        tensor_s, ratio = references["score tensor"], row["times_faster"]["score tensor"]
        print(f"    the score tensor takes {tensor_s:.3f} s, {ratio:.1f} times as long")
