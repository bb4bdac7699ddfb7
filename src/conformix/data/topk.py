"""Truncated outputs: only the top labels and their probabilities are known.

Interfaces of large models return the first few labels and log-probabilities. The rule for the
labels outside the list: the missing mass ``1 - sum of the listed`` is shared evenly among them,
but none gets more than the smallest listed probability. The rule looks at one row at a time, so it
keeps every guarantee; it can only cost size where the truth is often outside the list.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from conformix.data.outputs import SUM_TOLERANCE
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, host_array, refuse_missing, to_host
from conformix.kernels.elementary import exp


class TopK:
    """The top labels of every row with their probabilities; stands in for an (n, K) matrix.

    Parameters
    ----------
    labels : integer array of shape (n, m)
        Class indices, each at most once per row; -1 marks an empty place.
    values : array of shape (n, m)
        Probabilities or log-probabilities of those labels; ignored at empty places.
    n_classes : int
        K, the number of all classes.
    kind : {"probs", "logprobs"}
        What `values` holds.

    Examples
    --------
    >>> top = TopK([[2, 0]], [[0.5, 0.25]], n_classes=4)
    >>> top[0:1]
    array([[0.25 , 0.125, 0.5  , 0.125]])
    """

    def __init__(
        self,
        labels: Any,
        values: Any,
        n_classes: int,
        *,
        kind: Literal["probs", "logprobs"] = "probs",
    ) -> None:
        self.labels = _check_listed(labels, n_classes)
        self.listed = self.labels >= 0
        self.values = _check_values(values, self.labels.shape, self.listed, kind)
        self.shape = (len(self.labels), int(n_classes))

    ndim = 2
    dtype = np.dtype(np.float64)
    is_truncated = True

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> FloatArray:
        """Return the probabilities of all labels of some rows, dense."""
        labels, values, listed = self.labels[rows], self.values[rows], self.listed[rows]
        n_listed = listed.sum(axis=1)
        missing = np.maximum(1 - values.sum(axis=1), 0) / np.maximum(self.shape[1] - n_listed, 1)
        smallest = np.where(listed, values, np.inf).min(axis=1, initial=np.inf)
        dense = np.empty((len(labels), self.shape[1]))
        dense[:] = np.minimum(missing, smallest)[:, None]
        row, place = np.nonzero(listed)
        dense[row, labels[row, place]] = values[row, place]
        return dense

    def subset(self, rows: Any) -> TopK:
        """Return the rows that an index array, mask or slice names, still truncated."""
        part = object.__new__(TopK)
        part.labels, part.values = self.labels[rows], self.values[rows]
        part.listed = self.listed[rows]
        part.shape = (len(part.labels), self.shape[1])
        return part

    def __repr__(self) -> str:
        n, n_classes = self.shape
        return f"TopK({n:,} rows, the first {self.labels.shape[1]} of {n_classes:,} classes)"


def _check_listed(labels: Any, n_classes: int) -> IntArray:
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 1:
        raise InvalidInput(f"n_classes of TopK must be a positive integer; got {n_classes!r}.")
    try:
        listed = host_array(labels, "labels of TopK")
    except InvalidInput as error:
        if "rectangular" not in str(error):
            raise
        raise InvalidInput("labels of TopK must be rectangular, with -1 at empty places.") from None
    if listed.ndim != 2 or not np.issubdtype(listed.dtype, np.integer) or 0 in listed.shape:
        raise InvalidInput(
            "labels of TopK must be an integer array of shape (n, m); got "
            f"{listed.dtype} of shape {listed.shape}."
        )
    if listed.min() < -1 or listed.max() >= n_classes:
        raise InvalidInput(
            f"labels of TopK must lie in 0..{n_classes - 1}, or be -1 for an empty place; got "
            f"{listed.min()}..{listed.max()}."
        )
    rising = np.sort(listed, axis=1)
    twice = ((rising[:, 1:] == rising[:, :-1]) & (rising[:, 1:] >= 0)).any(axis=1)
    if twice.any():
        row = int(np.argmax(twice))
        raise InvalidInput(f"labels of TopK must differ within a row; row {row} repeats one.")
    return listed.astype(np.intp)


def _check_values(values: Any, shape: tuple[int, ...], listed: np.ndarray, kind: str) -> FloatArray:
    if kind not in ("probs", "logprobs"):
        raise InvalidInput(f'kind of TopK must be "probs" or "logprobs"; got {kind!r}.')
    refuse_missing(values, "values of TopK")
    values = to_host(values, "values of TopK")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("values of TopK must be a rectangular array of numbers.") from None
    if numbers.shape != shape:
        raise InvalidInput(
            f"values of TopK must match labels, shape {shape}; got shape {numbers.shape}."
        )
    numbers = np.where(listed, numbers, -np.inf if kind == "logprobs" else 0.0)
    probs = exp(numbers) if kind == "logprobs" else numbers
    sums = probs.sum(axis=1)
    if not (np.isfinite(probs).all() and (probs >= 0).all() and (sums <= 1 + SUM_TOLERANCE).all()):
        bad = ~np.isfinite(probs) | (probs < 0)
        row = int(np.argmax(bad.any(axis=1) | ~(sums <= 1 + SUM_TOLERANCE)))
        raise InvalidInput(
            f"values of TopK must be {kind} whose probabilities lie in [0, 1] and sum to at most 1 "
            f"in a row; row {row} does not (sum {sums[row]:.6g})."
        )
    return probs
