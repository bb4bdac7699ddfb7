"""The demo: averaged scores on CIFAR-100, as a table and a picture.

Run it with ``make demo`` or ``python -m conformix.experiments.demo``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformix import datasets, metrics
from conformix.arrays import FloatArray, IntArray
from conformix.estimators import ScoreAverage
from conformix.plots import plot_triangle
from conformix.scores import score_tensor
from conformix.search import landscape

SCORES = ("thr", "aps", "rank")
SPLITS = ("vfcp", "efcp", "dlcp", "dlcp+")
ALPHAS = (0.05, 0.01)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    method: str
    alpha: float
    coverage: float
    low: float
    high: float
    size: float
    weights: tuple[float, ...]
    guarantee: str


def methods() -> Iterator[tuple[str, ScoreAverage]]:
    """Yield the compared methods: single scores, the uniform average, the average by split."""
    for j, name in enumerate(SCORES):
        yield name, ScoreAverage(SCORES, kind="logits", weights=np.eye(3)[j])
    yield "uniform", ScoreAverage(SCORES, kind="logits", weights=np.full(3, 1 / 3))
    for split in SPLITS:
        yield f"average, {split}", ScoreAverage(SCORES, kind="logits", split=split, random_state=0)


def compare(
    calibration: FloatArray, y: IntArray, test: FloatArray, y_test: IntArray
) -> Iterator[Row]:
    """Yield one row per level and method, calibrated and tested on the same rows."""
    for alpha in ALPHAS:
        for method, cp in methods():
            cp.set_params(alpha=alpha).fit(calibration, y, test=test)
            seen = metrics.evaluate(cp.predict_set(test), y_test)
            yield Row(
                method,
                alpha,
                seen["coverage"],
                seen["coverage_low"],
                seen["coverage_high"],
                seen["mean_size"],
                tuple(float(w) for w in cp.weights_),
                cp.guarantee_.kind,
            )


def table(rows: Iterator[Row]) -> Iterator[str]:
    """Yield the lines of the table, each as soon as its row is known."""
    alpha = None
    for row in rows:
        if row.alpha != alpha:
            alpha = row.alpha
            yield ""
            yield f"alpha = {alpha:g} (promised coverage {1 - alpha:g})"
            heads = ("coverage [95 % interval]", "size", "weights", "guarantee")
            yield f"  {'method':<15} {heads[0]:<25} {heads[1]:>6}   {heads[2]:<18} {heads[3]}"
        interval = f"{row.coverage:.4f} [{row.low:.4f}, {row.high:.4f}]"
        weights = " ".join(f"{w:.2f}" for w in row.weights)
        yield f"  {row.method:<15} {interval:<25} {row.size:>6.2f}   {weights:<18} {row.guarantee}"


def draw(logits: FloatArray, y: IntArray, folder: Path) -> Path:
    """Write the landscape of set sizes over the weight triangle as a PNG."""
    import matplotlib.pyplot as plt  # noqa: PLC0415  an extra, loaded where it is used

    scores = score_tensor(logits, SCORES, kind="logits")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    for ax, alpha in zip(axes, ALPHAS, strict=True):
        weights, sizes = landscape(scores, y, alpha=alpha)
        title = f"CIFAR-100, WideResNet, alpha = {alpha:g}"
        plot_triangle(weights, sizes, names=SCORES, title=title, ax=ax)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "triangle.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def main(arguments: list[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the picture")
    folder = parser.parse_args(arguments).out
    data = datasets.load("cifar100")
    logits, y = data.outputs["wideresnet_16_4"], data.labels
    rows = np.random.default_rng(0).permutation(len(y))
    calibration, test = rows[:5000], rows[5000:]
    sys.stdout.write("CIFAR-100, WideResNet-16-4: 5,000 calibration rows, 5,000 test rows\n")
    for line in table(compare(logits[calibration], y[calibration], logits[test], y[test])):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    path = draw(logits[calibration], y[calibration], folder)
    sys.stdout.write(f"\nset size over the weights of {', '.join(SCORES)}: {path}\n")


if __name__ == "__main__":
    main()
