"""Several levels in one call: what ten alphas cost beside one, taken in turns."""

from __future__ import annotations

import numpy as np

import conformix as cx
from benchmarks.measure import Report, fastest

SHAPES = ((10_000, 100), (5_000, 1_000))
ALPHAS = np.linspace(0.01, 0.1, 10)


def levels(report: Report) -> None:
    rng = np.random.default_rng(0)
    for n, n_classes in SHAPES:
        logits = 3 * rng.normal(size=(n, n_classes))
        y = logits.argmax(axis=1)
        cp = cx.ScoreAverage(kind="logits", weights=[0.8, 0.1, 0.1]).fit(logits[:1000], y[:1000])
        one = fastest(lambda cp=cp, logits=logits: cp.predict_set(logits, alpha=0.1))
        ten = fastest(lambda cp=cp, logits=logits: cp.predict_set(logits, alpha=ALPHAS))
        one = min(one, fastest(lambda cp=cp, logits=logits: cp.predict_set(logits, alpha=0.1)))
        told = f"levels: sets at ten alphas, n={n:,} K={n_classes:,}"
        report.add(told, ten, {"one alpha": one}, n=n, K=n_classes)
