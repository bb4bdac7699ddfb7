"""What conditional coverage costs: one threshold, one per class, per cluster, per group.

    python examples/conditional.py classes --repetitions 40
    python examples/conditional.py groups --repetitions 40

CIFAR-100 (WideResNet, 5,000 rows to fit) by class and cluster, MMLU (one LLM, half of the rows to
fit) by subject; scores thr, aps and rank, split vfcp. Prints one Markdown table: mean coverage and
size, the mean over strata of |coverage - (1 - alpha)| where each stratum's coverage is taken over
all repetitions, and the lowest such coverage.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import conformix as cx
from conformix.calibration import Clustered, PerClass, PerGroup

ALPHA = 0.1
BY_CLASS = {
    "marginal": "marginal",
    "per class": PerClass(),
    "per class, tuned for it": PerClass(tune=True),
    "8 clusters": Clustered(8),
}
BY_GROUP = {"marginal": "marginal", "per group": PerGroup()}


def run(outputs, y, strata, calibrations: dict, *, n: int, repetitions: int) -> None:
    """Print one table."""
    print("| calibration | coverage | size | mean gap of a stratum | lowest coverage |")
    print("|---|---|---|---|---|")
    for name, calibration in calibrations.items():
        grouped = isinstance(calibration, PerGroup)
        hits, rows, sizes = np.zeros(strata.max() + 1), np.zeros(strata.max() + 1), []
        for seed in range(repetitions):
            order = np.random.default_rng(seed).permutation(len(y))
            fit, test = order[:n], order[n:]
            cp = cx.ScoreAverage(
                alpha=ALPHA, kind="logits", calibration=calibration, random_state=seed,
                search=cx.search.GridSearch(20),
            )  # fmt: skip
            cp.fit(outputs[fit], y[fit], **({"strata": strata[fit]} if grouped else {}))
            sets = cp.predict_set(outputs[test], **({"strata": strata[test]} if grouped else {}))
            inside = cx.metrics.covered(sets, y[test])
            hits += np.bincount(strata[test], weights=inside, minlength=len(hits))
            rows += np.bincount(strata[test], minlength=len(hits))
            sizes.append(sets.sizes.mean())
        share = hits / rows
        gap = np.abs(share - (1 - ALPHA)).mean()
        cells = [hits.sum() / rows.sum(), np.mean(sizes), gap, share.min()]
        print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


def classes(repetitions: int) -> None:
    """Print the table of CIFAR-100, whose strata are the 100 classes."""
    data = cx.datasets.load("cifar100")
    outputs, y = data.outputs["wideresnet_16_4"], data.labels
    run(outputs, y, y, BY_CLASS, n=5000, repetitions=repetitions)


def groups(repetitions: int) -> None:
    """Print the table of MMLU, whose strata are the 16 subjects."""
    data = cx.datasets.load("mmlu_llama13b")
    outputs, subject = data.outputs["llama13b_prompt0"], data.groups.astype(int)
    run(outputs, data.labels, subject, BY_GROUP, n=len(data.labels) // 2, repetitions=repetitions)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("strata", choices=["classes", "groups"])
    parser.add_argument("--repetitions", type=int, default=40)
    warnings.simplefilter("ignore", cx.TrivialSetsWarning)
    asked = parser.parse_args()
    {"classes": classes, "groups": groups}[asked.strata](asked.repetitions)
