"""Several levels in one call: what ten alphas cost beside one.

Prints one JSON line per shape; the ratio is taken within one process, best of five each.
"""

from __future__ import annotations

import json
import time

import numpy as np

import conformix as cx

SHAPES = ((10_000, 100), (5_000, 1_000))
ALPHAS = np.linspace(0.01, 0.1, 10)


def best(call, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    rng = np.random.default_rng(0)
    for n, n_classes in SHAPES:
        logits = 3 * rng.normal(size=(n, n_classes))
        y = logits.argmax(axis=1)
        cp = cx.ScoreAverage(kind="logits", weights=[0.8, 0.1, 0.1]).fit(logits[:1000], y[:1000])
        one = best(lambda cp=cp, logits=logits: cp.predict_set(logits, alpha=0.1))
        ten = best(lambda cp=cp, logits=logits: cp.predict_set(logits, alpha=ALPHAS))
        row = {"n": n, "K": n_classes, "one_alpha_s": one, "ten_alphas_s": ten, "ratio": ten / one}
        print(json.dumps({key: round(value, 4) for key, value in row.items()}))


if __name__ == "__main__":
    main()
