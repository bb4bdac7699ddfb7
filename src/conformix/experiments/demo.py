"""The demo: averaged scores on CIFAR-100, as a table and a picture.

Run it with ``make demo`` or ``conformix demo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformix import datasets, metrics
from conformix.arrays import FloatArray, IntArray
from conformix.estimators import ScoreAverage
from conformix.plots import new_figure, plot_triangle
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
    scores = score_tensor(logits, SCORES, kind="logits")
    figure = new_figure(11, 4.8)
    for place, alpha in enumerate(ALPHAS, start=1):
        weights, sizes = landscape(scores, y, alpha=alpha)
        title = f"CIFAR-100, WideResNet, alpha = {alpha:g}"
        ax = figure.add_subplot(1, 2, place)
        plot_triangle(weights, sizes, names=SCORES, title=title, ax=ax)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "triangle.png"
    figure.savefig(path, dpi=150)
    return path


@dataclass(frozen=True, eq=False)
class Demo:
    """The data of the demo: half of the rows calibrate, the other half are tested."""

    logits: FloatArray
    y: IntArray
    calibration: IntArray
    test: IntArray

    title = "CIFAR-100, WideResNet-16-4: 5,000 calibration rows, 5,000 test rows"

    @classmethod
    def load(cls) -> Demo:
        """Return the demo on the bundled data."""
        data = datasets.load("cifar100")
        rows = np.random.default_rng(0).permutation(len(data.labels))
        return cls(data.outputs["wideresnet_16_4"], data.labels, rows[:5000], rows[5000:])

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the table, each when it is known."""
        fit, test = self.calibration, self.test
        return compare(self.logits[fit], self.y[fit], self.logits[test], self.y[test])

    def draw(self, folder: Path) -> Path:
        """Write the picture and return its path."""
        return draw(self.logits[self.calibration], self.y[self.calibration], folder)
