"""Where the rows of an experiment come from: a bundled data set, or a file of the user's."""

from __future__ import annotations

import hashlib
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from conformix import datasets
from conformix.arrays import FloatArray
from conformix.datasets import Dataset
from conformix.errors import InvalidInput
from conformix.experiments.pool import Pool
from conformix.inputs import KINDS, SUM_TOLERANCE, Kind
from conformix.registry import unknown_name


def load_data(name: str, kind: str = "auto") -> Dataset:
    """Return a bundled data set by its name, or the arrays of an npz file by its path.

    Parameters
    ----------
    name : str
        A name of `conformix.datasets`, or a path that ends in ``.npz``. The file holds ``labels``
        (n,) and one array (n, K) per model.
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
    if kind not in ("auto", *KINDS):
        raise InvalidInput(f'kind must be "auto", "probs" or "logits"; got {kind!r}.')
    if name in datasets.names():
        return datasets.load(name)
    path = Path(name)
    if path.suffix != ".npz" and not path.is_file():
        raise unknown_name("data set or file", name, datasets.names())
    arrays = _read_npz(path)
    labels = arrays.pop("labels", None)
    models = {key: value for key, value in arrays.items() if value.ndim == 2}
    if labels is None or not models:
        raise InvalidInput(
            f"{path} must hold an array 'labels' of shape (n,) and one array of shape (n, K) per "
            f"model; it holds {', '.join(sorted(arrays)) or 'nothing else'}."
        )
    found = kind if kind != "auto" else _kind_of(models)
    return Dataset(path.stem, labels, models, kind=found)  # type: ignore[arg-type]


def _read_npz(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InvalidInput(f"{path} does not exist or is no file.")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError):
        raise InvalidInput(
            f"{path} is no npz file of plain arrays; write it with numpy.savez(path, labels=y, "
            "model=outputs)."
        ) from None


def _kind_of(models: dict[str, FloatArray]) -> Kind:
    def are_probs(values: FloatArray) -> bool:
        if values.dtype.kind != "f" or not values.size:
            return False
        tolerance = SUM_TOLERANCE if values.dtype != np.float16 else 5e-3
        sums = values.sum(axis=1, dtype=np.float64)
        return bool((values >= 0).all() and (np.abs(sums - 1) <= tolerance).all())

    return "probs" if all(are_probs(values) for values in models.values()) else "logits"


def digest(data: Dataset) -> str:
    """Return a short fingerprint of labels and outputs.

    Examples
    --------
    >>> from conformix.datasets import load
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
