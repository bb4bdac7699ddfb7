"""The exact split against VFCP on small calibration sets: real data, many repetitions.

    python examples/exact_split.py --repetitions 400
    python examples/exact_split.py --repetitions 40 --by-class

CIFAR-100, DenseNet, scores thr, aps and rank, a grid of resolution 20 (231 weights) everywhere.
Calibration rows are drawn without replacement; sets are measured on 1,000 of the other rows. Prints
one Markdown table: mean coverage and size of every split, and the size of ``exact`` relative to the
better of VFCP with 25 % and with 50 % of the rows for tuning, with a 95 % interval (paired over the
repetitions, normal approximation). With ``--by-class`` every class has a threshold of its own:
CIFAR-10, LeNet-5.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import conformix as cx
from conformix.splits import ValidityFirst

CASES = ((100, 0.1), (200, 0.05), (500, 0.05))
CASES_BY_CLASS = ((250, 0.1), (500, 0.1), (1000, 0.1))
SPLITS = {
    "vfcp, 25 %": ValidityFirst(share=0.25),
    "vfcp, 50 %": ValidityFirst(share=0.5),
    "efcp": "efcp",
    "exact": "exact",
}


def run(logits, y, n: int, alpha: float, *, seed: int, calibration: str) -> np.ndarray:
    """Return coverage and size of every split on one draw, shape (splits, 2)."""
    rows = np.random.default_rng(seed).permutation(len(y))
    own, test = rows[:n], rows[n : n + 1000]
    found = []
    for split in SPLITS.values():
        cp = cx.ScoreAverage(
            alpha=alpha,
            kind="logits",
            split=split,
            search=cx.search.GridSearch(20),
            normalize="none",
            calibration=calibration,
            random_state=seed,
        ).fit(logits[own], y[own])
        sets = cp.predict_set(logits[test])
        found.append((cx.metrics.coverage(sets, y[test]), cx.metrics.mean_size(sets)))
    return np.array(found)


def main(repetitions: int, *, by_class: bool) -> None:
    """Print the table."""
    data = cx.datasets.load("cifar10" if by_class else "cifar100")
    logits, y = data.outputs["lenet5" if by_class else "densenet_bc_100"], data.labels
    calibration = "class" if by_class else "marginal"
    print(f"| n | alpha | {' | '.join(SPLITS)} | exact / better vfcp |")
    print("|---|---|" + "---|" * (len(SPLITS) + 1))
    for n, alpha in CASES_BY_CLASS if by_class else CASES:
        seen = np.array(
            [
                run(logits, y, n, alpha, seed=seed, calibration=calibration)
                for seed in range(repetitions)
            ]
        )
        mean = seen.mean(axis=0)
        cells = [f"{size:.2f} ({cover:.4f})" for cover, size in mean]
        better = int(np.argmin(mean[:2, 1]))
        ratio = mean[3, 1] / mean[better, 1]
        # Delta method for the ratio of two paired means.
        spread = (seen[:, 3, 1] - ratio * seen[:, better, 1]).std(ddof=1) / mean[better, 1]
        half = 1.96 * spread / np.sqrt(repetitions)
        told = f"{ratio:.3f} [{ratio - half:.3f}, {ratio + half:.3f}]"
        print(f"| {n} | {alpha:g} | {' | '.join(cells)} | {told} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--by-class", action="store_true")
    # With 25 % of 100 rows the tuning part is small, as it should be in this comparison.
    warnings.simplefilter("ignore", cx.TrivialSetsWarning)
    options = parser.parse_args()
    main(options.repetitions, by_class=options.by_class)
