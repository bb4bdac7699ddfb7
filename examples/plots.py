"""Every picture of the gallery (docs/plots.md), from real outputs, as PNG files.

python examples/plots.py --out docs/images/plots
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import conformix as cx

SCORES = ("thr", "aps", "rank")


@cache
def split(data: str, model: str) -> tuple[Any, Any, Any, Any, Any]:
    """Return outputs and labels of calibration and test rows, and the names of the classes."""
    loaded = cx.datasets.load(data)
    outputs, y = loaded.outputs[model], loaded.labels
    rows = np.random.default_rng(0).permutation(len(y))
    cal, test = rows[: len(y) // 2], rows[len(y) // 2 :]
    return outputs[cal], y[cal], outputs[test], y[test], loaded.class_names


def cifar(scores: tuple[str, ...] = SCORES, **options: Any) -> cx.ScoreAverage:
    """Return a model fitted on the calibration rows of CIFAR-100."""
    outputs, y, *_ = split("cifar100", "wideresnet_16_4")
    options = {"alpha": 0.05, "random_state": 0} | options
    return cx.ScoreAverage(scores, kind="logits", **options).fit(outputs, y)


def weights() -> Any:
    """Draw the weight triangle of three scores."""
    outputs, y, *_ = split("cifar100", "wideresnet_16_4")
    return cx.plots.weights(cifar(), outputs, y, title="CIFAR-100, alpha = 0.05")


def weights_of_two() -> Any:
    """Draw the size along the line between two scores."""
    outputs, y, *_ = split("cifar100", "wideresnet_16_4")
    return cx.plots.weights(cifar(("thr", "rank")), outputs, y)


def weights_of_six() -> Any:
    """Draw the near-optimal weights of six scores as lines."""
    outputs, y, *_ = split("cifar100", "wideresnet_16_4")
    names = ("thr", "aps", "rank", "logp", "margin", "-entropy")
    return cx.plots.weights(cifar(names), outputs, y)


def weight_spread() -> Any:
    """Draw the weights with their bootstrap spread."""
    outputs, y, *_ = split("cifar100", "wideresnet_16_4")
    return cx.plots.weight_spread(cifar(), outputs, y, repetitions=100)


def size_coverage() -> Any:
    """Draw size against coverage for the average and for single scores."""
    _, _, outputs, y, _ = split("cifar100", "wideresnet_16_4")
    models = {"average": cifar()} | {
        name: cifar(weights=row, normalize="none")
        for name, row in zip(SCORES, np.eye(3), strict=True)
    }
    return cx.plots.size_coverage(models, outputs, y)


def boxes() -> Any:
    """Draw mean sizes over twenty random splits of 4,000 rows."""
    loaded = cx.datasets.load("cifar100")
    outputs, y = loaded.outputs["wideresnet_16_4"], loaded.labels
    fixed = dict(zip(SCORES, np.eye(3), strict=True))
    seen: dict[str, list[float]] = {name: [] for name in ("average", *SCORES)}
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(len(y))
        cal, test = rows[:2000], rows[2000:4000]
        for name, values in seen.items():
            cp = cx.ScoreAverage(
                SCORES, alpha=0.05, kind="logits", random_state=seed, weights=fixed.get(name)
            )
            sets = cp.fit(outputs[cal], y[cal]).predict_set(outputs[test])
            values.append(cx.metrics.mean_size(sets))
    return cx.plots.plot_boxes(seen, ylabel="mean set size")


def set_sizes() -> Any:
    """Draw the histogram of set sizes."""
    _, _, outputs, y, _ = split("cifar100", "wideresnet_16_4")
    return cx.plots.set_sizes(cifar().predict_set(outputs), y)


def class_coverage() -> Any:
    """Draw the coverage of ten classes."""
    cal, y_cal, outputs, y, _ = split("cifar10", "wideresnet_16_4")
    cp = cx.ScoreAverage(SCORES, alpha=0.05, kind="logits", random_state=0).fit(cal, y_cal)
    names = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    return cx.plots.class_coverage(cp.predict_set(outputs), y, alpha=0.05, classes=names)


def class_coverage_of_many() -> Any:
    """Draw the coverage of two hundred classes as a band."""
    cal, y_cal, outputs, y, names = split("tinyimagenet_trio", "repvgg_a2")
    cp = cx.ScoreAverage(SCORES, alpha=0.1, kind="logits", random_state=0).fit(cal, y_cal)
    return cx.plots.class_coverage(cp.predict_set(outputs), y, alpha=0.1, classes=names)


def coverage_by_size() -> Any:
    """Draw the coverage by set size."""
    _, _, outputs, y, _ = split("cifar100", "wideresnet_16_4")
    return cx.plots.coverage_by_size(cifar().predict_set(outputs), y, alpha=0.05)


def banking(**options: Any) -> tuple[cx.ScoreAverage, Any, Any, Any]:
    """Return a model fitted on customers' questions, and its test rows with class names."""
    cal, y_cal, outputs, y, names = split("banking77", "logreg_word")
    cp = cx.ScoreAverage(SCORES, alpha=0.02, kind="logits", random_state=0, **options)
    return cp.fit(cal, y_cal), outputs, y, names


def explain() -> Any:
    """Draw why the labels of one row are in its set: contributions."""
    cp, outputs, y, names = banking(normalize="none")
    row = int(np.flatnonzero(cp.predict_set(outputs).sizes == 4)[0])
    return cx.plots.explain(cp, outputs, row, y=y, classes=names)


def explain_votes() -> Any:
    """Draw why the labels of one row are in its set: distances from the threshold."""
    cp, outputs, y, names = banking()
    row = int(np.flatnonzero(cp.predict_set(outputs).sizes == 4)[0])
    return cx.plots.explain(cp, outputs, row, y=y, classes=names, top=9)


GALLERY: tuple[Callable[[], Any], ...] = (
    weights, weights_of_two, weights_of_six, weight_spread, size_coverage, boxes, set_sizes,
    coverage_by_size, class_coverage, class_coverage_of_many, explain,
    explain_votes,
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Write the pictures of the gallery."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=Path("plots"), help="folder for the PNG files")
    parser.add_argument("--only", nargs="+", choices=[draw.__name__ for draw in GALLERY])
    options = parser.parse_args(arguments)
    for draw in GALLERY:
        if options.only is None or draw.__name__ in options.only:
            figure = draw().figure
            (path,) = cx.plots.save_figure(figure, options.out, draw.__name__, formats=("png",))
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
