"""The array types that signatures speak of, and which of two libraries an array belongs to.

The array chooses the backend. NumPy arrays, and tensors in the memory of the host, are computed
with NumPy; tensors on a CUDA device stay there and are computed with PyTorch. PyTorch is never
imported here: whoever holds a tensor has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from conformix.errors import InvalidInput, shown

FloatArray: TypeAlias = NDArray[np.floating[Any]]
IntArray: TypeAlias = NDArray[np.integer[Any]]
BoolArray: TypeAlias = NDArray[np.bool_]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
# Kinds of devices whose tensors are computed where they are. All others (the host, and devices
# without float64) go through NumPy, and the answer goes back to them.
COMPUTING_DEVICES = {"cuda"}


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator of its own: the one place where randomness enters."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InvalidInput(
            "random_state must be a non-negative integer, a NumPy generator or None; got "
            f"{shown(random_state)}."
        ) from None


def is_tensor(values: Any) -> bool:
    """Whether `values` is a PyTorch tensor, without importing PyTorch."""
    if type(values) is np.ndarray:  # what is asked most often; a tensor takes its time to say no
        return False
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(values, tensor)


def on_device(values: Any) -> bool:
    """Whether `values` is a tensor that is computed on its device."""
    return is_tensor(values) and values.device.type in COMPUTING_DEVICES


def torch_module() -> Any:
    """Return PyTorch, which is there because some argument is a tensor."""
    return sys.modules["torch"]


def to_host(values: Any, name: str = "the tensor") -> Any:
    """Return a tensor as a NumPy array, without a copy where it is in host memory already.

    Number types that NumPy does not have (bfloat16) become float32, which holds all their values.
    """
    if not is_tensor(values):
        return values
    plain = plain_tensor(values, name).resolve_conj().resolve_neg().cpu()
    torch = torch_module()
    unknown = plain.is_floating_point() and plain.dtype not in (
        torch.float16, torch.float32, torch.float64,
    )  # fmt: skip
    return (plain.float() if unknown else plain).numpy()


def host_array(values: Any, name: str) -> Any:
    """Return what a user gave as an array of the host, whatever its type; missing values refused.

    The one way in for arrays: `numpy.asarray` passes over the mask of a masked array, and over
    the gaps of other tables.
    """
    if is_tensor(values):
        return to_host(values, name)
    refuse_missing(values, name)
    try:
        return np.asarray(values)
    except ValueError:
        raise InvalidInput(
            f"{name} must be a rectangular array; got rows of unequal length (fill up outputs of "
            "labels that a row does not have with probability 0, or with logits of -inf)."
        ) from None
    except (TypeError, NotImplementedError, OverflowError) as error:
        said = " ".join(str(error).split())[:80]
        raise InvalidInput(f"{name} cannot be read as an array ({said}).") from None


def plain_tensor(tensor: Any, name: str) -> Any:
    """Return a tensor without its history, or say why it cannot be read as an array."""
    if tensor.is_nested:
        raise InvalidInput(f"{name} must be a dense tensor; a nested one has rows of many lengths.")
    if tensor.is_quantized:
        raise InvalidInput(f"{name} must hold plain numbers; call .dequantize() first.")
    if str(tensor.layout) != "torch.strided":
        raise InvalidInput(f"{name} must be a dense tensor; call .to_dense() first.")
    if tensor.is_meta:
        raise InvalidInput(f"{name} must hold numbers; a meta tensor has none.")
    return tensor.detach()


def refuse_missing(values: Any, name: str) -> None:
    """Refuse arrays with masked entries, also as rows of a list, and tables with null values."""
    refuse_masked(values, name)
    nulls = _nulls(values)
    if nulls:
        raise InvalidInput(
            f"{name} must have no missing values; {nulls:,} are null (fill them, or leave out "
            "their rows)."
        )


def refuse_masked(values: Any, name: str) -> None:
    """Refuse masked arrays with anything masked, also as rows of a list."""
    rows = values if isinstance(values, list | tuple) else (values,)
    for row in rows:
        if isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row):
            masked = np.ma.getmaskarray(row)
            if row.dtype.names:  # records have a mask per field
                raise InvalidInput(f"{name} must have no missing values; some are masked.")
            raise InvalidInput(
                f"{name} must have no missing values; {int(masked.sum()):,} of {row.size:,} are "
                "masked (fill them, or leave out their rows)."
            )


def unmasked(values: Any, name: str) -> Any:
    """Return values as they are, a tensor as an array, for checks that others make."""
    refuse_masked(values, name)
    return to_host(values, name)


def _nulls(values: Any) -> int:
    """Return how many values of a pyarrow, pandas or polars column or table are null."""
    if isinstance(values, np.ndarray | list | tuple | str | bytes) or values is None:
        return 0
    counts = getattr(values, "null_count", None)  # pyarrow, polars
    if callable(counts):
        counts = None if hasattr(values, "columns") else counts()
    if isinstance(counts, int):
        return counts
    columns = getattr(values, "columns", None)
    if type(values).__module__.partition(".")[0] in ("pyarrow", "polars") and columns is not None:
        return sum(_nulls(values[one] if isinstance(one, str) else one) for one in columns)
    missing = getattr(values, "isna", None)  # pandas
    return int(np.asarray(missing()).sum()) if callable(missing) else 0


def to_device(values: Any, like: Any) -> Any:
    """Return a NumPy array as a tensor on the device of the tensor `like`."""
    if not is_tensor(like) or is_tensor(values):
        return values
    return torch_module().as_tensor(np.ascontiguousarray(values), device=like.device)


def places(rising: FloatArray, values: Any, side: Literal["left", "right"]) -> Any:
    """Return ``numpy.searchsorted(rising, values, side)``, on a device where `values` is."""
    if not is_tensor(values):
        return np.searchsorted(rising, values, side=side)
    sought = values.contiguous()
    return torch_module().searchsorted(to_device(rising, values), sought, right=side == "right")


def constant(number: float, n: int) -> FloatArray:
    """Return n times one number, (n,), in the memory of one: to be read only."""
    values: FloatArray = np.ndarray((n,), np.float64, np.array([number], np.float64), strides=(0,))
    values.flags.writeable = False
    return values


def as_float64(values: Any) -> Any:
    """Return an array or a tensor as float64."""
    return values.double() if is_tensor(values) else values.astype(np.float64, copy=False)


def quotient(values: Any, divisor: float) -> Any:
    """Return ``values / divisor``, exactly rounded.

    PyTorch turns a division by a plain number on a CUDA device into a product with its inverse,
    which is off by a last bit; a division by a tensor stays one.
    """
    return values / (values.new_full((), divisor) if is_tensor(values) else divisor)


def root(values: Any) -> Any:
    """Return the square root, exactly rounded, as NumPy and CUDA have it.

    PyTorch's own for tensors in host memory is off by a last bit now and then.
    """
    if not is_tensor(values):
        return np.sqrt(values)
    if values.device.type == "cpu":
        return torch_module().from_numpy(np.sqrt(values.numpy()))
    return values.sqrt()


def of_labels(values: Any, y: IntArray) -> Any:
    """Return ``values[i, y[i]]`` of every row i, in host memory: one entry per row is little."""
    return to_host(values[to_device(np.arange(len(y)), values), to_device(y, values)])


def some_rows(scores: Any, rows: IntArray) -> Any:
    """Return ``scores[rows]`` of a tensor (n, K, d); on a device d planes stay d planes."""
    if not is_tensor(scores):
        return scores[rows]
    return scores.movedim(-1, 0)[:, to_device(rows, scores)].movedim(0, -1)


def n_true(mask: Any) -> int:
    """Return how many entries of a boolean array or tensor are true.

    Examples
    --------
    >>> n_true(np.array([[True, False], [True, True]]))
    3
    """
    return int(mask.sum()) if is_tensor(mask) else int(np.count_nonzero(mask))


def joined(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Return arrays, or tensors of one device, one after the other."""
    if is_tensor(arrays[0]):
        return torch_module().cat(list(arrays), dim=axis)
    return np.concatenate(arrays, axis=axis)


def stacked(arrays: Sequence[Any]) -> Any:
    """Return arrays, or tensors of one device, as the planes of one."""
    return torch_module().stack(list(arrays)) if is_tensor(arrays[0]) else np.array(arrays)


def beside(values: Any, like: Any) -> Any:
    """Return `values` where `like` is: on its device, or in host memory."""
    return to_device(values, like) if is_tensor(like) else to_host(values)


def torch_counts(values: Any) -> bool:
    """Whether PyTorch does the counting: for tensors, and for arrays where numba is absent."""
    return is_tensor(values) or (find_spec("numba") is None and find_spec("torch") is not None)


def as_tensor(values: Any) -> Any:
    """Return a tensor as it is, and an array as a tensor of the host, sharing its memory."""
    if is_tensor(values):
        return values
    import torch  # noqa: PLC0415  there already where any argument is a tensor

    # PyTorch takes no negative strides, and warns of arrays that may not be written to.
    fine = values.flags.writeable and all(stride >= 0 for stride in values.strides)
    return torch.from_numpy(values if fine else np.array(values))
