"""Averaged scores on CIFAR-100 (WideResNet), over repeated splits: a Markdown table.

Every repetition cuts the 10,000 test images into 5,000 calibration and 5,000 test rows. Single
scores and the uniform average calibrate on all 5,000 rows; the weights of the average are searched
under each split. Cells are the mean (standard deviation) over the repetitions of one pool.

    python examples/score_averaging.py --repetitions 20
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np

import conformix as cx

SCORES = ("thr", "aps", "rank")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+")


def methods(seed: int) -> dict[str, cx.ScoreAverage]:
    """Return what is compared, by name."""
    fixed = dict(zip(SCORES, np.eye(3), strict=True)) | {"uniform": np.full(3, 1 / 3)}
    return {
        name: cx.ScoreAverage(SCORES, kind="logits", weights=weights)
        for name, weights in fixed.items()
    } | {
        f"average, {split}": cx.ScoreAverage(SCORES, kind="logits", split=split, random_state=seed)
        for split in SPLITS
    }


def repetition(
    logits: np.ndarray, y: np.ndarray, alpha: float, seed: int
) -> dict[str, tuple[float, float]]:
    """Return coverage and mean size of every method on one random split of the rows."""
    rows = np.random.default_rng(seed).permutation(len(y))
    cal, test = rows[: len(y) // 2], rows[len(y) // 2 :]
    seen = {}
    for name, cp in methods(seed).items():
        cp.set_params(alpha=alpha).fit(logits[cal], y[cal], test=logits[test])
        sets = cp.predict_set(logits[test])
        seen[name] = (cx.metrics.coverage(sets, y[test]), cx.metrics.mean_size(sets))
    return seen


def table(alphas: list[float], repetitions: int) -> Iterator[str]:
    """Yield the lines of the table."""
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["wideresnet_16_4"], data.labels
    yield "| alpha | method | coverage | size |"
    yield "|---|---|---|---|"
    for alpha in alphas:
        runs = [repetition(logits, y, alpha, seed) for seed in range(repetitions)]
        for name in runs[0]:
            values = np.array([run[name] for run in runs])
            mean, sd = values.mean(axis=0), values.std(axis=0, ddof=min(1, repetitions - 1))
            coverage, size = f"{mean[0]:.4f} ({sd[0]:.4f})", f"{mean[1]:.2f} ({sd[1]:.2f})"
            yield f"| {alpha:g} | {name} | {coverage} | {size} |"


def main(arguments: list[str] | None = None) -> None:
    """Print coverage and size of single and averaged scores on CIFAR-100."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--repetitions", type=int, default=20, help="random splits")
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.05, 0.01], help="levels")
    options = parser.parse_args(arguments)
    if options.repetitions < 1:
        parser.error("--repetitions must be at least 1")
    for line in table(options.alpha, options.repetitions):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
