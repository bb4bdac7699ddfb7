"""``scores="auto"`` on few rows: how large its sets are, and how often they hold the truth.

``cd tests && python -m scores.few_rows`` prints rows that tune and calibrate, mean size and
coverage with 99 to 200 rows at alpha = .01, under vfcp and exact, and beside them the sets of
``thr`` on all rows. The verdict: no fit returns all labels, and coverage is at least .99 less three
standard errors.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np

import conformix as cx
from conformix.errors import ConformixWarning

MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cifar100, one network": ("cifar100", ("wideresnet_16_4",)),
    "cifar100, three networks": ("cifar100", ("wideresnet_16_4", "densenet_bc_100", "lenet5")),
    "cifar10, one network": ("cifar10", ("vgg16",)),
}
ROWS = (99, 100, 110, 120, 148, 200)


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


def main() -> int:
    """Measure, print, and return 1 where a promise was not kept."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=100)
    options.add_argument("--rows", type=int, nargs="*", default=ROWS)
    options.add_argument("--data", nargs="*", default=list(MODELS))
    chosen = options.parse_args()
    warnings.simplefilter("ignore", ConformixWarning)
    broken = 0
    for name in chosen.data:
        for n in chosen.rows:
            for scores, split in (("auto", "vfcp"), ("auto", "exact"), ("thr", "vfcp")):
                if scores == "thr" and len(MODELS[name][1]) > 1:
                    continue
                result = measure(name, n, scores=scores, split=split, draws=chosen.draws)
                short = result.coverage < 0.99 - 3 * result.error
                broken += short or result.all_labels > 0
                sys.stdout.write(
                    f"{name}, n={n}, {scores}, {split}: {result.n_tune} tune, {result.n_cal} "
                    f"calibrate, size {result.size:.2f}, coverage {result.coverage:.4f} "
                    f"({result.error:.4f}), all labels in {result.all_labels} of {chosen.draws}"
                    f"{' SHORT' if short else ''}\n"
                )
                sys.stdout.flush()
    sys.stdout.write(f"{broken} promises broken\n")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
