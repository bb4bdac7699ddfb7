"""What comes in: model outputs and labels, checked once at the edge.

Everything behind this module may rely on the shapes, ranges and types checked here. Arrays are
never modified and are converted to float64 one block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from conformix.arrays import FloatArray, IntArray
from conformix.errors import InvalidInput

Kind: TypeAlias = Literal["probs", "logits"]
KINDS = ("probs", "logits")

# Entries held at once while a block of rows is worked on (8 MiB of float64).
BLOCK_ENTRIES = 2**20
# How far a row of probabilities may sum from 1, by the width of its numbers: half precision
# rounds every entry by up to 2**-12 of its size and drops small ones altogether.
SUM_TOLERANCE = 1e-4
HALF_SUM_TOLERANCE = 5e-3


@dataclass(frozen=True)
class Outputs:
    """The checked outputs of one or several models on the same rows.

    Parameters
    ----------
    models : dict of str to array of shape (n, K)
        In the order given by the user; a single unnamed model is called ``""``.
    kind : {"probs", "logits"}
        What the numbers are.
    """

    models: dict[str, FloatArray]
    kind: Kind

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(next(iter(self.models.values())).shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(next(iter(self.models.values())).shape[1])

    def rows(self, rows: slice) -> Outputs:
        """Return the outputs on some of the rows."""
        return Outputs({model: values[rows] for model, values in self.models.items()}, self.kind)

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose (rows, K) block stays small."""
        yield from row_blocks(self.n, self.n_classes)


def row_blocks(n: int, width: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Yield slices that cut `n` rows of `width` numbers into blocks of about `entries`.

    Examples
    --------
    >>> [(b.start, b.stop) for b in row_blocks(3, 2**19)]
    [(0, 2), (2, 3)]
    """
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


def check_outputs(outputs: Any, kind: Kind = "probs", *, name: str = "outputs") -> Outputs:
    """Return `outputs` as checked arrays by model name.

    Parameters
    ----------
    outputs : array of shape (n, K), or a mapping or sequence of such arrays
        Several models are given as ``{"vgg": P1, "resnet": P2}`` or ``[P1, P2]``.
    kind : {"probs", "logits"}
        What the numbers are.
    name : str
        What to call the argument in an error.

    Examples
    --------
    >>> check_outputs({"a": [[0.2, 0.8]], "b": [[0.5, 0.5]]}).models.keys()
    dict_keys(['a', 'b'])
    """
    if kind not in KINDS:
        raise InvalidInput(f'kind must be "probs" or "logits"; got {kind!r}.')
    named = _by_model(outputs, name)
    models = {key: _matrix(value, _called(name, key)) for key, value in named.items()}
    shapes = {value.shape for value in models.values()}
    if len(shapes) > 1:
        told = ", ".join(f"{key!r} {value.shape}" for key, value in models.items())
        raise InvalidInput(f"{name} of several models must share one shape (n, K); got {told}.")
    checked = Outputs(models, kind)
    for key, value in models.items():
        if _is_truncated(value):
            if kind != "probs":
                raise InvalidInput(
                    f'{_called(name, key)} is a TopK of probabilities; say kind="probs".'
                )
            continue
        for rows in checked.blocks():
            _check_values(value[rows], kind, _called(name, key), rows.start)
    return checked


def check_labels(y: Any, n: int, n_classes: int, *, name: str = "y") -> IntArray:
    """Return `y` as an integer array of shape (n,) with values in ``0 .. n_classes - 1``.

    Examples
    --------
    >>> check_labels([0, 2], n=2, n_classes=3)
    array([0, 2])
    """
    labels = _array(y, name)
    if labels.ndim != 1:
        raise InvalidInput(f"{name} must be one label per row, shape (n,); got {labels.shape}.")
    if len(labels) != n:
        raise InvalidInput(f"{name} must hold one label per row; got {len(labels)} for {n} rows.")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InvalidInput(
            f"{name} must hold integer class indices 0..{n_classes - 1}; got {labels.dtype} "
            "(map class names to indices, or convert with astype(int))."
        )
    wrong = (labels < 0) | (labels >= n_classes)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"{name} must hold class indices 0..{n_classes - 1}; row {row} holds {labels[row]}."
        )
    return labels.astype(np.intp)


def check_groups(groups: Any, n: int) -> IntArray | None:
    """Return group numbers ``0 .. G-1`` of shape (n,), or None where no groups are given.

    Examples
    --------
    >>> check_groups(["b", "a", "b"], n=3)
    array([1, 0, 1])
    """
    if groups is None:
        return None
    values = _array(groups, "groups")
    if values.shape != (n,):
        raise InvalidInput(f"groups must hold one value per row, shape ({n},); got {values.shape}.")
    try:
        return np.unique(values, return_inverse=True)[1].reshape(n)
    except TypeError:
        raise InvalidInput(
            "groups must hold values of one type, all text or all numbers."
        ) from None


def check_scores(scores: Any, *, name: str = "scores") -> FloatArray:
    """Return a bare score tensor of shape (n, K, d), finite and float32 or float64.

    Examples
    --------
    >>> check_scores(np.zeros((2, 3))).shape
    Traceback (most recent call last):
    conformix.errors.InvalidInput: scores must be an array of shape (n, K, d); got shape (2, 3).
    """
    tensor = _numeric(scores, name)
    if tensor.ndim != 3:
        raise InvalidInput(f"{name} must be an array of shape (n, K, d); got shape {tensor.shape}.")
    if 0 in tensor.shape:
        raise InvalidInput(f"{name} must not be empty; got shape {tensor.shape}.")
    if tensor.dtype not in (np.float32, np.float64):
        tensor = tensor.astype(np.float64)
    for rows in row_blocks(tensor.shape[0], tensor.shape[1] * tensor.shape[2]):
        block = tensor[rows]
        # One pass without temporaries: NaN and inf reach the sum. So may an overflow; look again.
        with np.errstate(all="ignore"):
            total = block.sum()
        if not np.isfinite(total) and not np.isfinite(block).all():
            bad = np.argwhere(~np.isfinite(block))[0]
            raise InvalidInput(
                f"{name} must be finite; row {rows.start + bad[0]}, label {bad[1]}, score {bad[2]} "
                f"is {block[tuple(bad)]}."
            )
    return tensor


def _by_model(outputs: Any, name: str) -> dict[str, Any]:
    if isinstance(outputs, Mapping):
        if not outputs:
            raise InvalidInput(f"{name} is an empty mapping; give at least one model.")
        named = {str(key): value for key, value in outputs.items()}
        if len(named) < len(outputs):
            raise InvalidInput(f"{name} must have models of different names; got {list(outputs)}.")
        return named
    several = isinstance(outputs, Sequence) and len(outputs) > 0 and not isinstance(outputs, str)
    if several and all(_is_matrix(part) for part in outputs):
        return {f"model{i}": part for i, part in enumerate(outputs)}
    return {"": outputs}


def _called(name: str, model: str) -> str:
    return f"{name}[{model!r}]" if model else name


def _is_matrix(values: Any) -> bool:
    """Whether these are rows of numbers, judged by the first row: a model of several."""
    if hasattr(values, "ndim"):
        return bool(values.ndim == 2)
    return isinstance(values, Sequence) and len(values) > 0 and isinstance(values[0], Sequence)


def _array(values: Any, name: str) -> Any:
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(
            f"{name} must be a rectangular array; got rows of unequal length."
        ) from None


def _is_truncated(values: Any) -> bool:
    """Whether these are truncated outputs (`conformix.topk`), which check themselves."""
    return bool(getattr(values, "is_truncated", False))


def _numeric(values: Any, name: str) -> FloatArray:
    array: FloatArray = _array(values, name)
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold real numbers; got dtype {array.dtype}.")
    return array


def _matrix(values: Any, name: str) -> FloatArray:
    if _is_truncated(values):
        return values  # type: ignore[no-any-return]
    array = _numeric(values, name)
    if array.ndim != 2:
        hint = "; for two classes stack [1 - p, p]" if array.ndim == 1 else ""
        raise InvalidInput(f"{name} must be a (n, K) matrix; got shape {array.shape}{hint}.")
    if 0 in array.shape:
        raise InvalidInput(f"{name} must not be empty; got shape {array.shape}.")
    return array


def _check_values(block: FloatArray, kind: Kind, name: str, first: int) -> None:
    if not np.isfinite(block).all():
        row, label = np.argwhere(~np.isfinite(block))[0]
        raise InvalidInput(
            f"{name} must be finite; row {first + row}, label {label} is {block[row, label]}."
        )
    if kind == "probs":
        _check_probabilities(block, name, first)


def _check_probabilities(block: FloatArray, name: str, first: int) -> None:
    tolerance = HALF_SUM_TOLERANCE if block.dtype == np.float16 else SUM_TOLERANCE
    way_out = 'if these are logits, say kind="logits"'
    outside = (block < 0) | (block > 1 + tolerance)
    if outside.any():
        row, label = np.argwhere(outside)[0]
        raise InvalidInput(
            f"{name} must hold probabilities between 0 and 1; row {first + row}, label {label} is "
            f"{block[row, label]:.6g}; {way_out}."
        )
    sums = block.sum(axis=1, dtype=np.float64)
    off = np.abs(sums - 1) > tolerance
    if off.any():
        row = int(np.argmax(off))
        raise InvalidInput(
            f"{name} must be a (n, K) matrix whose rows sum to 1; row {first + row} sums to "
            f"{sums[row]:.6g}; {way_out}."
        )
