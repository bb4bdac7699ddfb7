"""The numbers of a block of outputs: finite, and probabilities where they should be; mapped files.

Checks run on blocks, in the pass that uses the rows: nothing is read twice for being checked.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, refuse_missing, to_host


def check_values(block: FloatArray, kind: str, name: str, first: int, tolerance: float) -> None:
    """Refuse a block (r, K) of outputs that are not finite, or no probabilities under "probs".

    Parameters
    ----------
    block : array of shape (r, K)
        Rows `first` to ``first + r - 1`` of the outputs.
    kind : {"probs", "logits"}
        What the numbers are.
    name : str
        What to call the argument in an error.
    first : int
        Number of the first row.
    tolerance : float
        How far a row of probabilities may sum from 1.
    """
    if not np.isfinite(block).all():
        row, label = np.argwhere(~np.isfinite(block))[0]
        raise InvalidInput(
            f"{name} must be finite; row {first + row}, label {label} is {block[row, label]}."
        )
    if kind == "probs":
        _check_probabilities(block, name, first, tolerance)


def _check_probabilities(block: FloatArray, name: str, first: int, tolerance: float) -> None:
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


def check_matrix(values: Any, name: str) -> FloatArray:
    """Return finite float64 numbers of shape (n, p) with at least one row and one column.

    Examples
    --------
    >>> check_matrix([[1, 2]], "features")
    array([[1., 2.]])
    >>> check_matrix([1, 2], "features")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: features must be a non-empty matrix (n, p); got shape (2,).
    """
    matrix = check_numbers(values, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InvalidInput(f"{name} must be a non-empty matrix (n, p); got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InvalidInput(f"{name} must be finite; got NaN or inf.")
    return matrix


def check_numbers(values: Any, name: str) -> FloatArray:
    """Return a rectangular array of real numbers, as float64.

    Examples
    --------
    >>> check_numbers("abc", "pvalues")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: pvalues must be a rectangular array of real numbers.
    """
    refuse_missing(values, name)
    values = to_host(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "fiub":
            return array.astype(np.float64)
    except (TypeError, ValueError, NotImplementedError, OverflowError):
        pass
    raise InvalidInput(f"{name} must be a rectangular array of real numbers.")


def let_go(values: Any) -> None:
    """Tell the system that the pages of a memory-mapped array have been read and are not needed.

    Mapped pages count as memory of the process until the system wants them back; after every
    block they are given up, and read from the file again should they be asked for again. Other
    arrays are left alone, and so is a mapping of mode "c", whose pages hold what was written.

    Examples
    --------
    >>> let_go(np.zeros(3))
    """
    mapped = mapping(values)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def mapping(values: Any) -> mmap.mmap | None:
    """Return the mapped file whose pages an array shows; None for other arrays, and mode "c".

    Examples
    --------
    >>> mapping(np.zeros(3)) is None
    True
    """
    mapped = values
    while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
        mapped = mapped.base
    if not isinstance(mapped, np.memmap) or getattr(mapped, "mode", "c") == "c":
        return None
    while isinstance(mapped, np.ndarray):
        mapped = mapped.base
    return mapped if isinstance(mapped, mmap.mmap) else None
