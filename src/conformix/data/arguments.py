"""What users give, as arrays: models by name, and dense rectangles of real numbers.

Only the form is looked at here; `conformix.data.checks` looks at the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformix.data.devices import dense_and_real
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, host_array, is_tensor, on_device


def by_model(outputs: Any, name: str) -> dict[str, Any]:
    """Return outputs by the names of their models; a single one without a name is called ``""``.

    Examples
    --------
    >>> list(by_model({"vgg": [[0.2, 0.8]]}, "outputs")), list(by_model([[0.2, 0.8]], "outputs"))
    (['vgg'], [''])
    """
    _refuse_sparse(outputs, name)  # one kind of sparse matrix is a mapping
    if is_tensor(getattr(outputs, "logits", None)):
        outputs = outputs.logits
    if isinstance(outputs, Mapping):
        if not outputs:
            raise InvalidInput(f"{name} is an empty mapping; give at least one model.")
        named = {str(key): value for key, value in outputs.items()}
        if len(named) < len(outputs):
            raise InvalidInput(f"{name} must have models of different names; got {list(outputs)}.")
        return named
    several = isinstance(outputs, Sequence) and not isinstance(outputs, str | bytes | memoryview)
    if several and len(outputs) > 0 and all(_is_matrix(part) for part in outputs):
        return {f"model{i}": part for i, part in enumerate(outputs)}
    return {"": outputs}


def called(name: str, model: str) -> str:
    """Return what to call the outputs of a model in an error.

    Examples
    --------
    >>> called("outputs", "vgg"), called("outputs", "")
    ("outputs['vgg']", 'outputs')
    """
    return f"{name}[{model!r}]" if model else name


def is_truncated(values: Any) -> bool:
    """Whether these are truncated outputs (`conformix.data.topk`), which check themselves."""
    return bool(getattr(values, "is_truncated", False))


def matrix(values: Any, name: str) -> FloatArray:
    """Return the outputs (n, K) of one model, as they are where they are truncated.

    Examples
    --------
    >>> matrix([0.2, 0.8], "outputs")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: outputs must be a (n, K) matrix; got shape (2,); for two ...
    """
    if is_truncated(values):
        return values  # type: ignore[no-any-return]
    array = numeric(values, name)
    if array.ndim != 2:
        hint = "; for two classes stack [1 - p, p]" if array.ndim == 1 else ""
        shape = tuple(array.shape)
        raise InvalidInput(f"{name} must be a (n, K) matrix; got shape {shape}{hint}.")
    if 0 in array.shape:
        raise InvalidInput(f"{name} must not be empty; got shape {tuple(array.shape)}.")
    return array


def numeric(values: Any, name: str) -> FloatArray:
    """Return real numbers of any shape: an array, or a tensor that is on a device.

    Examples
    --------
    >>> numeric([[True]], "scores")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: scores must hold real numbers; got dtype bool.
    """
    _refuse_sparse(values, name)
    if is_tensor(values):
        values = dense_and_real(values, name)
        if on_device(values):
            return values  # type: ignore[no-any-return]
    array: FloatArray = host_array(values, name)
    if array.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold real numbers; got dtype {array.dtype}.")
    return array


def _is_matrix(values: Any) -> bool:
    """Return whether these are rows of numbers, judged by the first row: a model of several."""
    if hasattr(values, "ndim"):
        return bool(values.ndim == 2)
    return isinstance(values, Sequence) and len(values) > 0 and isinstance(values[0], Sequence)


def _refuse_sparse(values: Any, name: str) -> None:
    if hasattr(values, "tocsr"):
        raise InvalidInput(f"{name} must be dense, not a sparse matrix; call .toarray() first.")
