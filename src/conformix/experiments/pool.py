"""Labelled rows of one data set, bundled or a file of the user's, with every score computed once.

A score is a function of a row, so planes computed on all rows and cut by index are the scores of
the cut rows, bit for bit. An experiment of many splits sorts every row once.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from conformix.data import bundled as datasets
from conformix.data.bundled import Dataset
from conformix.data.files import Sources, check_kind
from conformix.data.outputs import Outputs, check_labels, check_outputs
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.registry import unknown_name
from conformix.scores import Column, ScoreLike, score_columns
from conformix.scores.ensemble import Ensemble, Ensembling
from conformix.scores.tensor import fill_tensor

# Score planes kept in memory; older ones are computed again when they are needed.
CACHE_BYTES = 2**30


class Pool:
    """Rows of some models of a data set, from which splits are drawn."""

    def __init__(self, data: Dataset, models: Sequence[str] = ()) -> None:
        for model in models:
            if model not in data.outputs:
                raise unknown_name(f"model of {data.name}", model, list(data.outputs))
        chosen = list(models) or list(data.outputs)
        named = {model: data.outputs[model] for model in chosen}
        if len(named) == 1:
            named = {"": named[chosen[0]]}
        self.outputs: Outputs = check_outputs(named, data.kind)
        self.labels: IntArray = check_labels(data.labels, self.outputs.n, self.outputs.n_classes)
        self.name = data.name
        self._planes: OrderedDict[Column, FloatArray] = OrderedDict()
        self._ensembles: dict[Ensembling, Pool] = {}
        # Some backends run cases in threads of one process.
        self._lock = threading.Lock()

    def columns(self, scores: ScoreLike | Sequence[ScoreLike]) -> tuple[Column, ...]:
        """Return which score of which model every plane holds."""
        return score_columns(tuple(self.outputs.models), scores)

    def prepare(self, columns: Sequence[Column]) -> list[FloatArray]:
        """Return the planes (n, K) of some scores; missing ones come from one sort per row."""
        with self._lock:
            missing = [column for column in columns if column not in self._planes]
            if missing:
                fresh = fill_tensor(self.outputs, missing)
                for j, column in enumerate(missing):
                    self._planes[column] = fresh[..., j]
            for column in columns:
                self._planes.move_to_end(column)
            planes = [self._planes[column] for column in columns]
            bytes_each = 8 * self.outputs.n * self.outputs.n_classes
            while len(self._planes) > max(len(columns), CACHE_BYTES // bytes_each):
                self._planes.popitem(last=False)
            return planes

    def tensor(self, columns: Sequence[Column], rows: IntArray) -> FloatArray:
        """Return the scores (len(rows), K, d) of some rows, stored as d planes."""
        out = np.empty((len(columns), len(rows), self.outputs.n_classes))
        for target, plane in zip(out, self.prepare(columns), strict=True):
            np.take(plane, rows, axis=0, out=target)
        return np.moveaxis(out, 0, -1)

    def plane(self, column: Column, rows: IntArray) -> FloatArray:
        """Return one score (len(rows), K) of all labels of some rows."""
        return self.prepare([column])[0][rows]

    def of_true_labels(self, column: Column, rows: IntArray) -> FloatArray:
        """Return one score (len(rows),) of the true labels of some rows."""
        return self.prepare([column])[0][rows, self.labels[rows]]

    def ensembled(self, how: Ensembling) -> Pool:
        """Return the pool of one model: the mean of the probabilities, or of the logits.

        The logits that are averaged are log-probabilities, so that a constant that one network
        adds to its logits carries no weight.
        """
        if how not in self._ensembles:
            if len(self.outputs.models) < 2:
                raise InvalidInput(
                    f"an ensemble needs at least two models; {self.name} gives one here."
                )
            blocks = [self.outputs.rows(rows) for rows in self.outputs.blocks()]
            mean = np.concatenate([Ensemble(how).mean(block) for block in blocks])
            ensemble = Dataset(self.name, self.labels, {how: mean}, kind=how)
            self._ensembles[how] = Pool(ensemble)
        return self._ensembles[how]


def load_data(name: str, kind: str = "auto") -> Dataset:
    """Return a bundled data set by its name, or the outputs and labels of a file by its path.

    Parameters
    ----------
    name : str
        A name of `conformix.data.bundled`, or a file that `conformix.data.files` reads: an npz with
        ``labels`` (n,) and one array (n, K) per model, a csv with one column per class, ...
    kind : {"auto", "probs", "logits"}
        What the arrays of a file hold; ``auto`` looks whether all rows sum to one.

    Examples
    --------
    >>> load_data("cifar10").kind
    'logits'
    >>> load_data("cifar1000")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: unknown data set or file 'cifar1000'; did you mean ...
    """
    if name in datasets.names():
        check_kind(kind)
        return datasets.load(name)
    batch = Sources(name, kind=kind).read(labelled=True)
    outputs = {model or batch.name: values for model, values in batch.outputs.items()}
    names = None if batch.classes is None else tuple(str(one) for one in batch.classes)
    labels = np.asarray(batch.labels)
    return Dataset(batch.name, labels, outputs, kind=batch.kind, class_names=names)


def digest(data: Dataset) -> str:
    """Return a short fingerprint of labels and outputs."""
    return sha256_of(data.kind, [("labels", data.labels), *data.outputs.items()])[:12]


def sha256_of(kind: str, arrays: Iterable[tuple[str, Any]]) -> str:
    """Return the sha256 of named arrays: names, types, shapes and bytes."""
    hasher = hashlib.sha256(kind.encode())
    for name, values in arrays:
        array = np.ascontiguousarray(values)
        hasher.update(f"{name} {array.dtype} {array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


@lru_cache(maxsize=2)
def load_pool(
    name: str,
    kind: str,
    fingerprint: str,
    models: tuple[str, ...],
    *,
    rows: int | None,
    seed: int,
) -> Pool:
    """Return the pool of an experiment, kept for the next case of the same process."""
    data = load_data(name, kind)
    if digest(data) != fingerprint:
        raise InvalidInput(f"{name} has changed since the experiment began; start a new one.")
    return Pool(drawn(data, rows, seed), models)


def drawn(data: Dataset, rows: int | None, seed: int) -> Dataset:
    """Return a data set of `rows` random rows, or the data set itself."""
    n = len(data.labels)
    if rows is None or rows >= n:
        return data
    some = np.sort(np.random.default_rng(seed).permutation(n)[:rows])
    outputs = {model: values[some] for model, values in data.outputs.items()}
    return Dataset(data.name, data.labels[some], outputs, kind=data.kind)
