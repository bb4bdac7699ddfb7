"""``scores="auto"`` on few rows: how large its sets are, and how often they hold the truth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import conformix as cx

MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cifar100, one network": ("cifar100", ("wideresnet_16_4",)),
    "cifar100, three networks": ("cifar100", ("wideresnet_16_4", "densenet_bc_100", "lenet5")),
    "cifar10, one network": ("cifar10", ("vgg16",)),
}


class Measured(NamedTuple):
    """What some draws of n labelled rows have given."""

    n_tune: int
    n_cal: int
    size: float
    coverage: float
    error: float
    all_labels: int


def measure(
    name: str, n: int, *, scores: Any = "auto", split: Any = "vfcp", alpha: float = 0.01,
    draws: int = 100, n_test: int = 1000,
) -> Measured:  # fmt: skip
    """Fit on random draws of n rows of one pool and measure on others of it."""
    data_set, models = MODELS[name]
    data = cx.datasets.load(data_set)
    outputs, y = {model: data.outputs[model] for model in models}, data.labels
    coverage, sizes, whole = [], [], 0
    for seed in range(draws):
        rows = np.random.default_rng([n, seed]).permutation(len(y))
        fit, test = rows[:n], rows[n : n + n_test]
        cp = cx.ScoreAverage(
            scores, alpha=alpha, split=split, kind="logits", random_state=seed, threads=1
        )
        cp.fit({model: values[fit] for model, values in outputs.items()}, y[fit])
        sets = cp.predict_set({model: values[test] for model, values in outputs.items()})
        coverage.append(cx.metrics.coverage(sets, y[test]))
        sizes.append(sets.sizes.mean())
        whole += int(sets.sizes.min() == sets.shape[1])
    facts = cp.guarantee_.facts
    error = float(np.std(coverage, ddof=1) / np.sqrt(draws))
    return Measured(
        facts.n_tune, facts.n_cal, float(np.mean(sizes)), float(np.mean(coverage)), error, whole
    )
