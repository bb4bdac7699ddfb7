"""Weights for other ends than the mean size: what each objective wins, and what it costs.

    python examples/objectives.py

CIFAR-100, DenseNet, scores thr, aps and rank on the ecdf scale, VFCP at alpha = 0.1. Weights are
searched on tuning rows, thresholds taken on calibration rows, and everything is measured on rows
that neither saw: one Markdown table, mean over the repetitions. ``--figure FOLDER`` draws the
trade-off of size and class coverage gap on the tuning rows.
"""

from __future__ import annotations

import argparse

import numpy as np

import conformix as cx
from conformix.search import CappedSize, ClassGap, GridSearch, LabelCosts, SizeStratified

ALPHA = 0.1
SCORES = ("thr", "aps", "rank")
# Labels of the second half of the classes are twice as dear.
COSTS = np.repeat([1.0, 2.0], 50)
OBJECTIVES = {
    "size": "size",
    "singletons": "singletons",
    "size up to 5": CappedSize(5),
    "label costs": LabelCosts(tuple(COSTS)),
    "class gap": ClassGap(20.0),
    "size-stratified": SizeStratified(20.0),
}
COLUMNS = ("coverage", "size", "singletons", "capped", "cost", "class gap", "stratified")


def measured(logits, y, objective, seed: int) -> list[float]:
    """Return the columns of the table for one split of the rows."""
    rows = np.random.default_rng(seed).permutation(len(y))
    fit, test = rows[:4000], rows[4000:]
    cp = cx.ScoreAverage(
        SCORES, alpha=ALPHA, kind="logits", objective=objective, search=GridSearch(20),
        random_state=seed,
    )  # fmt: skip
    sets = cp.fit(logits[fit], y[fit]).predict_set(logits[test])
    mask, truth = np.asarray(sets), y[test]
    return [
        cx.metrics.coverage(sets, truth),
        cx.metrics.mean_size(sets),
        cx.metrics.singleton_rate(sets),
        float(np.minimum(mask.sum(axis=1), 5).mean()),
        float((mask @ COSTS).mean()),
        cx.metrics.class_coverage_gap(sets, truth, alpha=ALPHA),
        cx.metrics.size_stratified_violation(sets, truth, alpha=ALPHA),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--figure", help="folder for the picture")
    args = parser.parse_args()
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["densenet_bc_100"], data.labels
    print(f"| objective | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for name, objective in OBJECTIVES.items():
        found = [measured(logits, y, objective, seed) for seed in range(args.repetitions)]
        cells = " | ".join(f"{value:.3f}" for value in np.mean(found, axis=0))
        print(f"| {name} | {cells} |", flush=True)
    if args.figure:
        scores = cx.score_tensor(logits[:4000], SCORES, kind="logits")
        scores = cx.normalize.Ecdf().fit(scores, ())(scores)
        ax = cx.plots.tradeoff(scores, y[:4000], alpha=ALPHA, title="CIFAR-100, alpha = 0.1")
        cx.plots.save_figure(ax.figure, args.figure, "tradeoff", formats=("png",))


if __name__ == "__main__":
    main()
