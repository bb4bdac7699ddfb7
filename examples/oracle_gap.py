"""The oracle gap: how many labels each split needs beyond the best possible weights.

    python examples/oracle_gap.py --repetitions 100

CIFAR-100, DenseNet, scores thr, aps and rank. The 10,000 rows are the population: its optimum w* is
the oracle, and the regret of the weights that a split finds on n rows drawn with replacement is the
size that they need for the same coverage on the population, less the oracle's. The threshold plays
no part, so this is the cost of not knowing the weights, and nothing else. Prints one Markdown
table: mean regret (standard error) in labels.
"""

from __future__ import annotations

import argparse

import numpy as np

import conformix as cx
from conformix.guarantees.oracle import find_oracle, regrets

SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+")
CASES = ((300, 0.05), (1000, 0.05), (4000, 0.05), (1000, 0.01), (4000, 0.01))
BATCH = 1000


def main(repetitions: int) -> None:
    """Print the table."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["densenet_bc_100"], data.labels
    pool = cx.score_tensor(logits, kind="logits")
    print(f"| n | alpha | oracle size | {' | '.join(SPLITS)} |")
    print("|---|---|---|" + "---|" * len(SPLITS))
    for n, alpha in CASES:
        oracle = find_oracle(pool, y, alpha=alpha)
        cells = []
        for split in SPLITS:
            rng, weights = np.random.default_rng(0), []
            for seed in range(repetitions):
                rows, batch = rng.integers(0, len(y), n), rng.integers(0, len(y), BATCH)
                cp = cx.ScoreAverage(
                    alpha=alpha, kind="logits", split=split, normalize="none", random_state=seed
                ).fit(logits[rows], y[rows], test=logits[batch])
                weights.append(cp.weights_)
            gap = regrets(pool, y, weights, alpha=alpha, oracle=oracle)
            cells.append(f"{gap.mean():.3f} ({gap.std(ddof=1) / np.sqrt(repetitions):.3f})")
        print(f"| {n:,} | {alpha:g} | {oracle.size:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--repetitions", type=int, default=100)
    main(parser.parse_args().repetitions)
