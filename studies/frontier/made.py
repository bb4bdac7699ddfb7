"""Settings made of bundled outputs: forests, nearest neighbours, long tails.

Outputs with ties and zeros are what forests and neighbours give, and no bundled file has them as
probabilities. A random forest or 20 nearest neighbours are trained on 40 % of the rows, with a
model's log-probabilities as features; the other rows are the data set. Labels with a long tail are
rows of a balanced data set, of which the last class keeps a tenth. All of it is deterministic, and
kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from conformix.atomic import write_whole
from conformix.data.bundled import Dataset, load
from conformix.kernels.arrays import FloatArray

FOLDER = Path(__file__).parents[2] / "results" / "frontier"
TRAINED = 0.4
# Log-probabilities below it are alike as features.
FEATURE_FLOOR = -20.0
# What the last class of a long tail keeps of its rows.
LAST = 0.1


def made(maker: str, data: str, models: tuple[str, ...]) -> Dataset:
    """Return a data set that is made of another one, from disk where it was made before.

    Examples
    --------
    >>> made("long tail", "cifar100", ("lenet5",))
    Dataset(cifar100, long tail: 3,925 rows, 100 classes, models lenet5)
    """
    if maker == "long tail":
        return long_tail(load(data), models)
    path = FOLDER / f"{data}-{models[0]}-{len(models)}-{maker}.npz"
    if not path.is_file():
        labels, probs = trained(load(data), models, MAKERS[maker]())  # type: ignore[misc]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda file: np.savez(file, labels=labels, probs=probs))
    with np.load(path, allow_pickle=False) as file:
        return Dataset(f"{data}, {maker}", file["labels"], {maker: file["probs"]}, "probs")


def trained(data: Dataset, models: tuple[str, ...], classifier: Any) -> tuple[Any, FloatArray]:
    """Return labels and probabilities of the rows that the classifier was not trained on."""
    logits = [data.outputs[model].astype(np.float64) for model in models]
    features = np.concatenate(
        [np.maximum(z - z.max(axis=1, keepdims=True), FEATURE_FLOOR) for z in logits], axis=1
    )
    order = np.random.default_rng(0).permutation(len(features))
    cut = int(TRAINED * len(features))
    classifier.fit(features[order[:cut]], data.labels[order[:cut]])
    probs = classifier.predict_proba(features[order[cut:]])
    return data.labels[order[cut:]], probs / probs.sum(axis=1, keepdims=True)


def long_tail(data: Dataset, models: tuple[str, ...]) -> Dataset:
    """Return the rows of a balanced data set of which class y keeps ``LAST^(y / (K - 1))``."""
    n_classes = int(data.labels.max()) + 1
    place = np.empty(len(data.labels), dtype=np.intp)  # of a row among those of its class
    for y in range(n_classes):
        rows = np.flatnonzero(data.labels == y)
        place[rows] = np.arange(len(rows))
    counts = np.bincount(data.labels)
    keeps = np.round(counts * LAST ** (np.arange(n_classes) / (n_classes - 1)))
    rows = np.flatnonzero(place < keeps[data.labels])
    outputs = {model: data.outputs[model][rows] for model in models}
    return Dataset(f"{data.name}, long tail", data.labels[rows], outputs, data.kind)


def _forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415  loads late

    return RandomForestClassifier(100, min_samples_leaf=2, random_state=0)


def _neighbours() -> Any:
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415

    return KNeighborsClassifier(20)


MAKERS: dict[str, Callable[[], Any] | None] = {
    "forest": _forest,
    "neighbours": _neighbours,
    "long tail": None,
}
