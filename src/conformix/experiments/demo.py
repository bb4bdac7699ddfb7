"""The demo: averaged scores on CIFAR-100, as a table and a picture.

Run it with ``make demo`` or ``conformix demo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conformix import metrics
from conformix.data import bundled as datasets
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.plots import new_figure, plot_triangle
from conformix.scores import PAPER, named_scores, score_tensor
from conformix.search import landscape
from conformix.splits import in_plain_words, resolve_split
from conformix.tables import Table


@dataclass(frozen=True)
class Choices:
    """What the demo compares.

    Parameters
    ----------
    alphas : tuple of float
        Levels, a table each.
    scores : tuple of str
        Three scores: the picture has a corner for each.
    splits : tuple of str
        Under which splits they are averaged.
    seed : int
        Draws the rows that calibrate, and the splits.

    Examples
    --------
    >>> Choices(scores=("thr", "aps"))
    Traceback (most recent call last):
    conformix.errors.InvalidInput: the demo averages three scores, the corners of its picture; ...
    """

    alphas: tuple[float, ...] = (0.05, 0.01)
    scores: tuple[str, ...] = PAPER
    splits: tuple[str, ...] = ("vfcp", "efcp", "dlcp", "dlcp+")
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", named_scores(self.scores))
        if len(self.scores) != 3:
            raise InvalidInput(
                "the demo averages three scores, the corners of its picture; got "
                f"{len(self.scores)}."
            )


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


def methods(choices: Choices) -> Iterator[tuple[str, ScoreAverage]]:
    """Yield the compared methods: single scores, their averages by split, and the default."""
    scores = choices.scores
    for j, name in enumerate(scores):
        yield name, ScoreAverage(scores, kind="logits", weights=np.eye(3)[j])
    yield "uniform", ScoreAverage(scores, kind="logits", weights=np.full(3, 1 / 3))
    for split in choices.splits:
        yield (
            f"average, {split}",
            ScoreAverage(scores, kind="logits", split=split, random_state=choices.seed),
        )
    yield "auto, vfcp", ScoreAverage("auto", kind="logits", random_state=choices.seed)


def in_words(method: str) -> str:
    """Return a method whose split has its plain name first.

    Examples
    --------
    >>> in_words("average, vfcp"), in_words("thr")
    ('average, holdout (vfcp)', 'thr')
    """
    name, comma, split = method.partition(", ")
    return f"{name}, {in_plain_words(split)}" if comma else method


def table(title: str, rows: Iterable[Row]) -> Table:
    """Return the rows of one level as a table."""
    header = ("method", "coverage [95 % interval]", "size", "weights", "guarantee")
    cells = [
        (
            in_words(row.method),
            f"{row.coverage:.4f} [{row.low:.4f}, {row.high:.4f}]",
            f"{row.size:.2f}",
            " ".join(f"{w:.2f}" for w in row.weights) or "by likelihood",
            row.guarantee,
        )
        for row in rows
    ]
    return Table(title, header, tuple(cells))


@dataclass(frozen=True, eq=False)
class Demo:
    """The data of the demo: half of the rows calibrate, the other half are tested."""

    logits: FloatArray
    y: IntArray
    calibration: IntArray
    test: IntArray
    choices: Choices = Choices()

    @classmethod
    def load(cls, choices: Choices | None = None) -> Demo:
        """Return the demo on the bundled data."""
        chosen = choices or Choices()
        data = datasets.load("cifar100")
        rows = np.random.default_rng(chosen.seed).permutation(len(data.labels))
        return cls(data.outputs["wideresnet_16_4"], data.labels, rows[:5000], rows[5000:], chosen)

    @property
    def title(self) -> str:
        """What the rows are."""
        n, m = len(self.calibration), len(self.test)
        return f"CIFAR-100, WideResNet-16-4: {n:,} calibration rows, {m:,} test rows"

    def rows(self, alpha: float) -> Iterator[Row]:
        """Yield one row per method, calibrated and tested on the same rows."""
        fit, test = self.calibration, self.test
        for method, cp in methods(self.choices):
            unlabelled = self.logits[test] if resolve_split(cp.split).needs_test else None
            cp.set_params(alpha=alpha).fit(self.logits[fit], self.y[fit], test=unlabelled)
            measures = metrics.evaluate(cp.predict_set(self.logits[test]), self.y[test])
            yield Row(
                method,
                alpha,
                measures["coverage"],
                measures["coverage_low"],
                measures["coverage_high"],
                measures["mean_size"],
                () if cp.blend_ else tuple(float(w) for w in cp.weights_),
                cp.guarantee_.kind,
            )

    def draw(self, folder: Path) -> Path:
        """Write the landscape of set sizes over the weight triangle as a PNG."""
        names, alphas = self.choices.scores, self.choices.alphas
        fit = self.calibration
        scores = score_tensor(self.logits[fit], names, kind="logits")
        figure = new_figure(5.5 * len(alphas), 4.8)
        for place, alpha in enumerate(alphas, start=1):
            weights, sizes = landscape(scores, self.y[fit], alpha=alpha)
            title = f"CIFAR-100, WideResNet, alpha = {alpha:g}"
            ax = figure.add_subplot(1, len(alphas), place)
            plot_triangle(weights, sizes, names=names, title=title, ax=ax)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "triangle.png"
        figure.savefig(path, dpi=150)
        return path
