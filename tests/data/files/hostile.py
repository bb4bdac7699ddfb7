"""Files that mean no good, and a way to see what reading one costs."""

from __future__ import annotations

import io
import pickle
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from conformix import InvalidInput
from conformix.data.files import Limits, Sources

MIB = 2**20


class Bomb:
    """Leaves a mark in the world if it is ever unpickled."""

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (open, (self.mark, "w"))


def refused(
    path: Path, *, memory: int = 64 * MIB, seconds: float = 5.0, limits: Limits | None = None
) -> str:
    """Return the sentence with which a file is refused, within bounds of memory and time."""
    tracemalloc.start()
    begun = time.perf_counter()
    try:
        Sources(str(path), limits=limits or Limits()).read(labelled=True)
    except InvalidInput as error:
        said = str(error)
    else:
        raise AssertionError(f"{path} was read")
    finally:
        took = time.perf_counter() - begun
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < memory, f"{peak / MIB:.1f} MiB"
    assert took < seconds
    assert "\n" not in said
    assert len(said) < 500
    assert said.endswith((".", "?"))
    return said.replace(str(path), "FILE")


def npy_header(shape: str, dtype: str = "'<f8'") -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def npy_bytes(array: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, array, allow_pickle=True)
    return held.getvalue()


def write_zip(path: Path, members: dict[str, bytes], **options: Any) -> None:
    with zipfile.ZipFile(path, "w", **{"compression": zipfile.ZIP_DEFLATED, **options}) as packed:
        for name, content in members.items():
            packed.writestr(name, content)


def good_npz(path: Path) -> None:
    np.savez(path, labels=np.array([0, 1]), model=np.array([[0.5, 0.5], [0.25, 0.75]]))


def pickled(value: Any) -> bytes:
    return pickle.dumps(value, protocol=2)
