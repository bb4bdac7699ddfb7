"""What comes in, looked at once: its form, its numbers, and the device it is on."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    host_array,
    is_tensor,
    on_device,
    plain_tensor,
    refuse_missing,
    to_host,
    torch_module,
)

# How far rounding to two digits takes the sum of a few dozen probabilities from one.
ROUNDED = 0.05
# Thousands of times what rounding does to the sum of a million numbers that add up to one.
SPARE = 1e-6


def common_home(named: Mapping[str, Any], name: str) -> Any:
    """Return the device that all tensors share; None where all are arrays."""
    homes = {key: value.device if is_tensor(value) else None for key, value in named.items()}
    if len(set(homes.values())) <= 1:
        return next(iter(homes.values()))
    text = ", ".join(f"{key!r} {place(home)}" for key, home in homes.items())
    raise InvalidInput(
        f"{name} of several models must be in one place; got {text} (move them with .to(device))."
    )


def on_host(outputs: Any) -> Any:
    """Return the outputs of one or several models with every tensor as an array of the host.

    For estimators that work row by row or fold by fold, where a device has nothing to gain.
    """
    if is_tensor(getattr(outputs, "logits", None)):
        outputs = outputs.logits
    if isinstance(outputs, Mapping):
        return {key: to_host(value) for key, value in outputs.items()}
    if isinstance(outputs, list | tuple):
        return [to_host(value) for value in outputs]
    return to_host(outputs)


def place(home: Any) -> str:
    """Return where something is, for people."""
    return "in a NumPy array" if home is None else f"on {home}"


def dense_and_real(tensor: Any, name: str) -> Any:
    """Return a tensor without its history, or say why it cannot be read as numbers."""
    plain = plain_tensor(tensor, name)
    if tensor.is_complex() or str(tensor.dtype) == "torch.bool":
        raise InvalidInput(f"{name} must hold real numbers; got dtype {tensor.dtype}.")
    return plain


def is_half(values: Any) -> bool:
    """Whether numbers are of half precision, whose sums are coarser."""
    if is_tensor(values):
        return bool(values.is_floating_point() and values.element_size() <= 2)
    return getattr(values, "dtype", None) == np.float16


def is_suspect(block: Any, *, form: str, tolerance: float) -> bool:
    """Whether a block (rows, K) on a device may be wrong: one answer, worked out there."""
    wide = block.double()
    fine = wide.isfinite().all()
    if form == "logprobs":
        return True  # looked at on the host
    if form == "probs":
        fine = fine & (wide >= 0).all() & (wide <= 1 + tolerance).all()
        fine = fine & ((wide.sum(dim=1) - 1).abs() <= tolerance).all()
    return not bool(fine)


def all_finite(tensor: Any) -> bool:
    """Whether all numbers on a device are finite: one pass, row by row where the sum overflows."""
    return bool(tensor.sum().isfinite()) or all(bool(row.isfinite().all()) for row in tensor)


def as_wide(tensor: Any) -> Any:
    """Return float32 and float64 tensors as they are, all others as float64."""
    torch = torch_module()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()


def by_model(outputs: Any, name: str) -> dict[str, Any]:
    """Return outputs by the names of their models; a single one without a name is called ``""``."""
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
    """Return what to call the outputs of a model in an error."""
    return f"{name}[{model!r}]" if model else name


def is_truncated(values: Any) -> bool:
    """Whether these are truncated outputs (`conformix.data.topk`), which check themselves."""
    return bool(getattr(values, "is_truncated", False))


def matrix(values: Any, name: str) -> FloatArray:
    """Return the outputs (n, K) of one model, as they are where they are truncated."""
    if is_truncated(values):
        return values  # type: ignore[no-any-return]
    array = numeric(values, name)
    if array.ndim != 2:
        hint = ""
        if array.ndim == 1:
            hint = (
                '; the probability of one of two classes is kind="binary", and one row is x[None]'
            )
        shape = tuple(array.shape)
        raise InvalidInput(f"{name} must be a (n, K) matrix; got shape {shape}{hint}.")
    if 0 in array.shape:
        raise InvalidInput(f"{name} must not be empty; got shape {tuple(array.shape)}.")
    return array


def numeric(values: Any, name: str) -> FloatArray:
    """Return real numbers of any shape: an array, or a tensor that is on a device."""
    _refuse_sparse(values, name)
    if is_tensor(values):
        values = dense_and_real(values, name)
        if on_device(values):
            return values  # type: ignore[no-any-return]
    array: FloatArray = host_array(values, name)
    if array.dtype.kind not in "fiu":
        records = array.ndim == 1 and len(array) and isinstance(array[0], Mapping)
        cure = "; records by class are a table, pandas.DataFrame(rows)" if records else ""
        raise InvalidInput(f"{name} must hold real numbers; got dtype {array.dtype}{cure}.")
    return array


def _is_matrix(values: Any) -> bool:
    """Return whether these are rows of numbers, judged by the first row: a model of several."""
    if hasattr(values, "ndim"):
        return bool(values.ndim == 2)
    return isinstance(values, Sequence) and len(values) > 0 and isinstance(values[0], Sequence)


def _refuse_sparse(values: Any, name: str) -> None:
    if hasattr(values, "tocsr"):
        raise InvalidInput(f"{name} must be dense, not a sparse matrix; call .toarray() first.")


def check_values(block: FloatArray, kind: str, name: str, first: int, tolerance: float) -> None:
    """Refuse a block (r, K) of outputs that are not finite, or no probabilities under "probs"."""
    if _are_fine(block, kind, tolerance):
        return
    rows = _wrong_rows(block, kind, tolerance)
    if not len(rows):
        return
    # The first one is told of, wherever somebody has cut the rows into blocks.
    row, first = block[rows[0]], first + int(rows[0])
    wrong = _is_wrong(row, kind)
    if wrong.any():
        label = int(np.argmax(wrong))
        raise InvalidInput(f"{name} must be finite; row {first}, label {label} is {row[label]}.")
    if kind == "probs":
        _refuse_probabilities(row, name, first, tolerance)
    if np.isneginf(row).all():
        raise InvalidInput(
            f"{name} must leave a class in every row; row {first} is -inf throughout."
        )
    _refuse_log_probabilities(row, name, first, tolerance)


def _is_wrong(numbers: FloatArray, kind: str) -> BoolArray:
    """Return which numbers no output can be."""
    # A logit of minus infinity rules a class out, which is no mistake where others are left.
    return ~np.isfinite(numbers) if kind == "probs" else np.isnan(numbers) | (numbers == np.inf)


def _wrong_rows(block: FloatArray, kind: str, tolerance: float) -> IntArray:
    """Return which rows of a block (r, K) are refused, in their order."""
    rows = _is_wrong(block, kind).any(axis=1)
    with np.errstate(all="ignore"):
        if kind == "probs":
            rows |= ((block < 0) | (block > 1 + tolerance)).any(axis=1)
            rows |= np.abs(block.sum(axis=1, dtype=np.float64) - 1) > tolerance
        else:
            rows |= np.isneginf(block).all(axis=1)
        if kind == "logprobs":
            rows |= (block > tolerance).any(axis=1)
            powers = np.exp(np.asarray(block, dtype=np.float64))
            rows |= np.abs(powers.sum(axis=1) - 1) > tolerance
    return np.flatnonzero(rows)


def _are_fine(block: FloatArray, kind: str, tolerance: float) -> bool:
    """Whether numbers are seen to be fine without temporaries; others are looked at one by one.

    NaN and infinity reach every sum. Sums of numbers that are not negative are no smaller than any
    of them, in floats too, so a sum that is not too large has no number that is.
    """
    if block.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        if kind == "logprobs":
            return False
        if kind == "logits":
            return bool(np.isfinite(block.sum()))
        if not block.min() >= 0:
            return False
        # Added one by one, which is sooner.
        if block.dtype == np.float64 and are_near_one(np.einsum("ij->i", block), tolerance):
            return True
        sums = block.sum(axis=1, dtype=np.float64)
        return bool((np.abs(sums - 1) <= tolerance).all())


def are_near_one(sums: FloatArray, tolerance: float) -> bool:
    """Whether sums of rows, of numbers added one by one in any order, are surely fine.

    They are off by less than what is left to spare.

    Examples
    --------
    >>> are_near_one(np.array([0.99995, 1.0]), 1e-4), are_near_one(np.array([0.9999, 1.0]), 1e-4)
    (True, False)
    """
    return bool((np.abs(sums - 1) <= tolerance - SPARE).all())


def _refuse_probabilities(row: FloatArray, name: str, first: int, tolerance: float) -> NoReturn:
    way_out = 'if these are logits, say kind="logits"'
    outside = (row < 0) | (row > 1 + tolerance)
    total = float(row.sum(dtype=np.float64))
    if outside.any():
        label = int(np.argmax(outside))
        if abs(total - 100) <= 100 * ROUNDED:
            way_out = 'if these are per cents, say kind="shares"'
        elif row.max() <= 0 and abs(float(np.exp(row).sum()) - 1) <= ROUNDED:
            way_out = 'if these are log-probabilities, say kind="logprobs"'
        raise InvalidInput(
            f"{name} must hold probabilities between 0 and 1; row {first}, label {label} is "
            f"{row[label]:.6g}; {way_out}."
        )
    if abs(total - 1) <= ROUNDED:
        way_out = "if they were rounded, say renormalize=True"
    raise InvalidInput(
        f"{name} must be a (n, K) matrix whose rows sum to 1; row {first} sums to "
        f"{total:.6g}; {way_out}."
    )


def _refuse_log_probabilities(row: FloatArray, name: str, first: int, tolerance: float) -> NoReturn:
    way_out = 'if these are logits, say kind="logits"'
    if (row > tolerance).any():
        label = int(np.argmax(row > tolerance))
        raise InvalidInput(
            f"{name} must hold log-probabilities, which are at most 0; row {first}, label "
            f"{label} is {row[label]:.6g}; {way_out}."
        )
    total = float(np.exp(np.asarray(row, dtype=np.float64)).sum())
    raise InvalidInput(
        f"{name} must hold log-probabilities whose exponentials sum to 1; those of row "
        f"{first} sum to {total:.6g}; {way_out}, which divides by the sum."
    )


def check_shares(block: FloatArray, name: str) -> None:
    """Refuse rows (n, K) that cannot be divided by their sums."""
    wrong = ~np.isfinite(block) | (block < 0)
    if wrong.any():
        row, label = np.argwhere(wrong)[0]
        raise InvalidInput(
            f"{name} must hold numbers from 0 on; row {row}, label {label} is "
            f'{block[row, label]:.6g}; logits are divided by nothing, say kind="logits".'
        )
    empty = ~(block.sum(axis=1) > 0)
    row = int(np.argmax(empty))
    raise InvalidInput(f"{name} must have a number above 0 in every row; row {row} has none.")


def check_matrix(values: Any, name: str) -> FloatArray:
    """Return finite float64 numbers of shape (n, p) with at least one row and one column."""
    matrix = check_numbers(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInput(f"{name} must be a non-empty matrix (n, p); got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InvalidInput(f"{name} must be finite; got NaN or inf.")
    return matrix


def check_numbers(values: Any, name: str) -> FloatArray:
    """Return a rectangular array of real numbers, as float64."""
    refuse_missing(values, name)
    values = to_host(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64)
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        pass
    raise InvalidInput(f"{name} must be a rectangular array of real numbers.")


def release_pages(values: Any) -> None:
    """Tell the system that the pages of a memory-mapped array have been read and are not needed.

    Mapped pages count as memory of the process until the system wants them back; after every
    block they are given up, and read from the file again should they be asked for again. Other
    arrays are left alone, and so is a mapping of mode "c", whose pages hold what was written.
    """
    mapped = mapping(values)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def mapping(values: Any) -> mmap.mmap | None:
    """Return the mapped file whose pages an array shows; None for other arrays, and mode "c"."""
    mapped = values
    while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    if not isinstance(mapped, np.memmap) or getattr(mapped, "mode", "c") == "c":
        return None
    while isinstance(mapped, np.ndarray):
        mapped = mapped.base
    return mapped if isinstance(mapped, mmap.mmap) else None


def is_chunked(outputs: Any) -> bool:
    """Whether outputs, or those of some model, are a Dask array; Dask is not imported.

    Examples
    --------
    >>> is_chunked(np.zeros((2, 2)))
    False
    """
    array = getattr(sys.modules.get("dask.array"), "Array", None)
    if array is None:
        return False
    listed = outputs.values() if isinstance(outputs, Mapping) else [outputs]
    return any(isinstance(values, array) for values in listed)
