"""What the exact split costs: tables, rows in a batch, one row alone; growth in n, K and |W|.

Prints one JSON line per case: seconds of the fit beside seconds of the landscape on the same rows
(best of five each, taken in turns), milliseconds per predicted row in a batch of 1,000, and of a
single row. CIFAR-100, DenseNet, two threads; Tiny-ImageNet for K = 200.
"""

from __future__ import annotations

import json
import time

import numpy as np

import conformix as cx
from conformix.fit.exact.split import FullFitted, candidate_weights
from conformix.search import GridSearch

CASES = (
    # data, model, n, alpha, resolution
    ("cifar100", "densenet_bc_100", 2000, 0.1, 100),
    ("cifar100", "densenet_bc_100", 2000, 0.05, 100),
    ("cifar100", "densenet_bc_100", 2000, 0.01, 100),
    ("cifar100", "densenet_bc_100", 500, 0.05, 100),
    ("cifar100", "densenet_bc_100", 5000, 0.05, 100),
    ("cifar100", "densenet_bc_100", 2000, 0.05, 20),
    ("cifar100", "densenet_bc_100", 2000, 0.05, 50),
    ("cifar10", "vgg16", 2000, 0.05, 100),
    ("tinyimagenet_trio", "repvgg_a2", 2000, 0.05, 100),
)


def timed(call):
    start = time.perf_counter()
    value = call()
    return time.perf_counter() - start, value


def case(name: str, model: str, n: int, alpha: float, resolution: int) -> dict[str, object]:
    data = cx.datasets.load(name)
    rows = np.random.default_rng(0).permutation(len(data.labels))
    logits, y = data.outputs[model][rows], data.labels[rows]
    scores = cx.score_tensor(logits[:n], kind="logits")
    test = cx.score_tensor(logits[n : n + 1000], kind="logits")
    weights = candidate_weights(GridSearch(resolution), 3)
    fits, landscapes, batches, ones = [], [], [], []
    for _ in range(5):
        landscapes.append(
            timed(lambda: cx.search.landscape(scores, y[:n], alpha=alpha, resolution=resolution))[0]
        )
        model_ = FullFitted(scores, y[:n], weights, lambda s: s, alpha)
        fits.append(timed(lambda m=model_: m.tables(alpha))[0])
        batches.append(timed(lambda m=model_: m.member(test, alpha))[0])
        ones += [
            timed(lambda m=model_, i=i: m.member(test[i : i + 1], alpha))[0] for i in range(40)
        ]
    return {
        "data": name,
        "n": n,
        "K": scores.shape[1],
        "alpha": alpha,
        "weights": len(weights),
        "plausible": len(model_.tables(alpha).weights),
        "landscape_s": round(min(landscapes), 4),
        "fit_s": round(min(fits), 4),
        "fit_over_landscape": round(min(fits) / min(landscapes), 2),
        "batch_ms_per_row": round(min(batches), 4),
        "one_row_ms": round(1e3 * float(np.median(ones)), 3),
    }


def main() -> None:
    case(*CASES[-2])  # compile first
    for options in CASES:
        print(json.dumps(case(*options)), flush=True)


if __name__ == "__main__":
    main()
