"""npy: one array behind a short header; npz: such arrays by name in a zip archive.

The header is believed only as far as the bytes reach.
"""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from conformix.data.files.contents import Choice, Contents, from_arrays
from conformix.data.files.limits import Limits, size_text
from conformix.data.files.opening import opened_zip, size_of
from conformix.errors import InvalidInput

# Bytes; a header names a type and a shape, and NumPy reads no longer one either.
LONGEST_HEADER = 10_000
# Every release of NumPy has as many.
MOST_AXES = 32
WAY_OUT = "write it with numpy.save or numpy.savez, from arrays of numbers or text"


def read_npy(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return the array of an npy file: outputs (n, K), or labels (n,)."""
    array = read_array(file, path, size_of(file), limits)
    name = "labels" if array.ndim == 1 else ""
    return from_arrays(path, {name: array}, Choice(keep=choice.keep), limits)


def read_array(file: IO[bytes], path: Path, size: int, limits: Limits, name: str = "") -> Any:
    """Return one array from a stream; a header that asks for more than `size` bytes takes none."""
    whose = f"{path} (array {name[:40]!r})" if name else str(path)
    shape, in_columns, dtype, start = _header(file, whose)
    if dtype.hasobject:
        raise InvalidInput(
            f"{whose} holds Python objects, which are stored as a pickle and never loaded; "
            f"{WAY_OUT}."
        )
    # Text of no characters takes no bytes, and memory as soon as anybody looks at it.
    if dtype.kind not in "biufUS" or dtype.shape or not dtype.itemsize:
        raise InvalidInput(f"{whose} holds {dtype}, neither numbers nor text; {WAY_OUT}.")
    data = math.prod(shape) * dtype.itemsize
    limits.check_memory(path, _needed(shape, dtype), f"an array of shape {shape}"[:80])
    if data != size - start:
        raise InvalidInput(
            f"{whose} is truncated or damaged: its header speaks of {size_text(data)}, and "
            f"{size_text(max(size - start, 0))} follow."
        )
    flat = read_numbers(file, math.prod(shape), dtype, whose)
    return flat.reshape(shape, order="F" if in_columns else "C")


def read_numbers(file: IO[bytes], count: int, dtype: np.dtype[Any], whose: str) -> Any:
    """Return so many numbers of a stream as an array, or say that it ends too early."""
    flat = np.empty(count, dtype)
    if _fill(file, flat) < flat.nbytes:
        raise InvalidInput(f"{whose} is truncated or damaged: it ends too early.")
    if flat.dtype.kind == "U" and flat.size:
        codes = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if codes.max(initial=0) > LAST_CHARACTER:
            raise InvalidInput(f"{whose} is truncated or damaged: it holds text of no characters.")
    return flat


# No character has a larger number; Python breaks off where one is made.
LAST_CHARACTER = 0x10FFFF


def _header(file: IO[bytes], whose: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, whether columns come first, type, and where the data begin.

    The header is a Python literal behind its length. It is parsed here and not by NumPy, which
    reads as much as the length says, up to 4 GiB, and mends old headers by tokenising them.
    """
    try:
        start = file.read(8)
        width = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}[start]
        length = int.from_bytes(file.read(width), "little")
        if not 0 < length <= LONGEST_HEADER:
            raise ValueError
        header = ast.literal_eval(file.read(length).decode("latin-1").strip())
        shape, in_columns, descr = header["shape"], header["fortran_order"], header["descr"]
        proper = isinstance(shape, tuple) and all(type(length) is int for length in shape)
        if not proper or not isinstance(in_columns, bool) or any(abs(x) >= 2**63 for x in shape):
            raise TypeError
        # Fields are listed where a type has any; such a type is refused by its kind.
        dtype = np.dtype(descr) if isinstance(descr, str) else np.dtype("V1")
    # Deep nesting ends in the last two.
    except (ValueError, KeyError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise InvalidInput(
            f"{whose} is no npy array, or its header is damaged; {WAY_OUT}."
        ) from None
    if any(length < 0 for length in shape):
        raise InvalidInput(f"{whose} has a header with the impossible shape {shape}.")
    if len(shape) > MOST_AXES:
        raise InvalidInput(
            f"{whose} has {len(shape)} axes; outputs have two, (n, K), and labels one, (n,)."
        )
    return shape, in_columns, dtype, len(start) + width + length


def _needed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Return the bytes that an array takes here: labels beside their codes and their indices.

    An axis of length 0 makes no other axis free of charge.
    """
    spread = math.prod(max(length, 1) for length in shape)
    return spread * (max(dtype.itemsize, 8) + 8 if len(shape) == 1 else dtype.itemsize)


def _fill(file: IO[bytes], array: Any) -> int:
    """Read bytes into an array, piece by piece, and return how many came."""
    view = memoryview(array.view(np.uint8) if array.size and array.itemsize else b"")
    done = 0
    while done < len(view):
        piece = file.read(min(len(view) - done, 2**22))
        if not piece:
            break
        view[done : done + len(piece)] = piece
        done += len(piece)
    return done


def read_npz(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return the arrays of an npz file."""
    return from_arrays(path, read_members(file, path, limits), choice, limits)


def read_members(file: BinaryIO, path: Path, limits: Limits) -> dict[str, Any]:
    """Return all arrays of an npz by name, as many bytes as the limits allow."""
    arrays = {}
    with opened_zip(file, path, limits, "npz file") as packed:
        for member in packed.infolist():
            name = member.filename.removesuffix(".npy")
            if name == member.filename:
                raise InvalidInput(f"{path} holds {name[:80]!r}, which is no npy array; {WAY_OUT}.")
            with packed.open(member) as stream:
                arrays[name] = read_array(stream, path, member.file_size, limits, name)
                stream.read(1)  # the end: here the checksum is compared
    return arrays
