"""Where the rows of an experiment come from: a bundled data set, or a file of the user's."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from conformix.data import bundled as datasets
from conformix.data.bundled import Dataset
from conformix.data.files import Sources, check_kind
from conformix.errors import InvalidInput
from conformix.experiments.pool import Pool


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
    """Return a short fingerprint of labels and outputs.

    Examples
    --------
    >>> from conformix.data.bundled import load
    >>> len(digest(load("mmlu_llama13b")))
    12
    """
    seen = hashlib.sha256(data.kind.encode())
    for name, values in [("labels", data.labels), *data.outputs.items()]:
        seen.update(f"{name} {values.dtype} {values.shape}".encode())
        seen.update(np.ascontiguousarray(values).tobytes())
    return seen.hexdigest()[:12]


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
    """Return the pool of an experiment, kept for the next case of the same process.

    Parameters
    ----------
    name, kind : str
        As in `load_data`.
    fingerprint : str
        What `digest` said when the experiment began.
    models : tuple of str
        Models that take part; empty for all.
    rows : int or None
        Draw so many rows instead of taking all.
    seed : int
        Draws the rows.

    Examples
    --------
    >>> data = load_data("mmlu_llama13b")
    >>> load_pool("mmlu_llama13b", "auto", digest(data), (), rows=100, seed=0).outputs.n
    100
    """
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
