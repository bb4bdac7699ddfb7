"""Files are opened in one place: regular ones only, and never one that waits or speaks back.

A link is followed, as every command of a shell does, and what it leads to must be a regular file:
pipes, devices and folders are refused before a byte is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from conformix.errors import InvalidInput


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular, non-empty file for reading.

    Examples
    --------
    >>> with opened(Path("/")) as file:
    ...     pass
    Traceback (most recent call last):
    conformix.errors.InvalidInput: / is a folder; name a file.
    """
    try:
        # Without waiting: opening a pipe that nobody writes to would hang.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"{path} does not exist or is no file.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{path} cannot be opened: {reason}.") from None
    try:
        _check_regular(os.fstat(handle), path)
    except InvalidInput:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        yield file


def _check_regular(found: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise InvalidInput(f"{path} is a folder; name a file.")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidInput(f"{path} is no regular file (a pipe or a device?); name a file.")
    if found.st_size == 0:
        raise InvalidInput(f"{path} is empty.")


def size_of(file: BinaryIO) -> int:
    """Return the number of bytes of an open file."""
    return os.fstat(file.fileno()).st_size
