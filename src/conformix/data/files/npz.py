"""npz: arrays by name in a zip archive, each read through the checks of npy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from conformix.data.files.contents import Choice, Contents, from_arrays
from conformix.data.files.limits import Limits
from conformix.data.files.npy import WAY_OUT, read_array
from conformix.data.files.zips import opened_zip
from conformix.errors import InvalidInput


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
