"""How much a file may ask for, and the sentence for a file that asks for more."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from conformix.errors import InvalidInput

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Limits:
    """Bounds on what a file may ask for, declared or not.

    Parameters
    ----------
    memory : int
        Bytes that the arrays of one file may take; labels count as indices of 8 bytes, however
        long their names are. Reading takes at most 200 MB more.
    columns : int
        Columns of a table.
    arrays : int
        Arrays in one file.
    line : int
        Bytes of one line of text.

    Examples
    --------
    >>> Limits(memory=parse_size("512M")).memory
    536870912
    """

    memory: int = 4 * 2**30
    columns: int = 100_000
    arrays: int = 1000
    line: int = 8 * 2**20

    def check_memory(self, path: Path, needed: int, what: str = "its arrays") -> None:
        """Refuse a file whose arrays would take more memory than allowed."""
        if needed > self.memory:
            raise InvalidInput(
                f"{path} asks for {size_text(needed)} of memory for {what}, and "
                f"{size_text(self.memory)} are allowed; if the file is to be trusted, say "
                "--max-memory."
            )

    def check_columns(self, path: Path, n: int) -> None:
        """Refuse a table that is wider than any set of classes."""
        if n > self.columns:
            raise InvalidInput(
                f"{path} has {n:,} columns, and at most {self.columns:,} are read; a file has one "
                "row per sample and one column per class."
            )


def parse_size(text: str) -> int:
    """Return a number of bytes from a text such as ``512M``, ``4G`` or ``1000000``.

    Examples
    --------
    >>> parse_size("1.5K")
    1536
    >>> parse_size("much")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: a size must be a number of bytes such as 512M or 4G; got 'much'.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", text.strip().upper())
    size = 0 if match is None else int(float(match[1]) * UNITS[match[2]])
    if size < 1:
        raise InvalidInput(f"a size must be a number of bytes such as 512M or 4G; got {text!r}.")
    return size


def size_text(n: int) -> str:
    """Return a number of bytes for people."""
    if n >= 10**9 * UNITS["T"]:
        return "more than 999,999,999 TiB"
    for unit in ("T", "G", "M", "K"):
        if n >= UNITS[unit]:
            return f"{n / UNITS[unit]:,.1f} {unit}iB"
    return f"{n} bytes"
