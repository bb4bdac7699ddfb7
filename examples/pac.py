"""PAC sets: how often a calibration draw falls short of its coverage, and how careful the rank is.

    python examples/pac.py --draws 500

CIFAR-100, DenseNet. Calibration rows are drawn with replacement from the 10,000 rows, so that those
rows are the population and the coverage of every draw is known exactly. For DLCP and DLCP+ the
statement is about a batch of 500 rows, drawn likewise. Prints the share of draws whose coverage is
below ``1 - alpha`` (promised: at most delta), with its standard error, and the mean coverage: where
it is far above ``1 - alpha`` the union over the candidates is conservative.
"""

from __future__ import annotations

import argparse

import numpy as np

import conformix as cx

ALPHA, DELTA, N, BATCH = 0.1, 0.1, 1000, 500


def main(draws: int) -> None:
    """Print the table."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["densenet_bc_100"], data.labels
    print(f"n = {N}, alpha = {ALPHA}, delta = {DELTA}, 231 weights, {draws} draws\n")
    print("| split | guarantee | share of draws below 1 - alpha | mean coverage | mean size |")
    print("|---|---|---|---|---|")
    for split in ("vfcp", "efcp", "dlcp", "dlcp+"):
        for guarantee in ("marginal", "pac"):
            rng, seen = np.random.default_rng(0), []
            for draw in range(draws):
                rows, batch = rng.integers(0, len(y), N), rng.integers(0, len(y), BATCH)
                cp = cx.ScoreAverage(
                    alpha=ALPHA,
                    kind="logits",
                    split=split,
                    guarantee=guarantee,
                    delta=DELTA,
                    normalize="none",
                    search=cx.search.GridSearch(20),
                    random_state=draw,
                ).fit(logits[rows], y[rows], test=logits[batch])
                about = batch if split.startswith("dlcp") else np.arange(len(y))
                sets = cp.predict_set(logits[about])
                seen.append((cx.metrics.coverage(sets, y[about]), cx.metrics.mean_size(sets)))
            coverage, size = np.array(seen).T
            share = (coverage < 1 - ALPHA).mean()
            error = np.sqrt(max(share * (1 - share), DELTA * (1 - DELTA)) / draws)
            print(
                f"| {split} | {guarantee} | {share:.3f} +- {error:.3f} | {coverage.mean():.4f} | "
                f"{size.mean():.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--draws", type=int, default=500)
    main(parser.parse_args().draws)
