"""Files are opened in one place: regular ones only, and never one that waits or speaks back.

A link is followed, as every command of a shell does, and what it leads to must be a regular file:
pipes, devices and folders are refused before a byte is read. Zip archives (npz, pt) are looked at
from outside before anything is unpacked: the directory of the archive is bounded before it is read;
names that point elsewhere, encryption, unusual compression, more bytes than allowed and the ratios
of a bomb are refused. Nothing is ever written to disk.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from conformix.data.files.limits import Limits, size_text
from conformix.errors import InvalidInput


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular, non-empty file for reading."""
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


def _check_regular(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InvalidInput(f"{path} is a folder; name a file.")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is no regular file (a pipe or a device?); name a file.")
    if status.st_size == 0:
        raise InvalidInput(f"{path} is empty.")


def size_of(file: BinaryIO) -> int:
    """Return the number of bytes of an open file."""
    return os.fstat(file.fileno()).st_size


# Deflate shrinks at most 1,032 times. Real outputs shrink a few times, labels some hundred times
# and are small; so more than this together with many bytes is no data.
MAX_RATIO = 200
SMALL = 64 * 2**20
# One entry of the directory takes 46 bytes and its name.
ENTRY_BYTES = 1024
END, END64, LOCATOR = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
ENCRYPTED = 0x1


@contextmanager
def opened_zip(file: BinaryIO, path: Path, limits: Limits, what: str) -> Iterator[zipfile.ZipFile]:
    """Open an archive whose directory and declared sizes are in order."""
    _check_directory(file, path, limits, what)
    try:
        with zipfile.ZipFile(file) as packed:
            _check_members(packed, path, limits)
            yield packed
    except InvalidInput:
        raise
    # What damage does to an archive shows in many ways; what they say may hold parts of the file.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, struct.error) as error:
        said = " ".join(str(error).split())[:60]
        raise InvalidInput(f"{path} is truncated or damaged ({said}); write it again.") from None
    except (NotImplementedError, RuntimeError, AssertionError, LookupError):
        raise InvalidInput(f"{path} is an archive of an unknown kind; write it again.") from None


def _check_directory(file: BinaryIO, path: Path, limits: Limits, what: str) -> None:
    """Refuse an archive without an end, or with a directory too large to be read."""
    if file.read(2) != b"PK":
        raise InvalidInput(f"{path} is no {what} (it does not begin as a zip archive).")
    size = size_of(file)
    file.seek(max(0, size - 2**16 - 128))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + 22:
        raise InvalidInput(f"{path} is truncated: the end of the archive is missing.")
    length = struct.unpack("<I", tail[at + 12 : at + 16])[0]
    # A large archive has a second end record and its locator, 56 and 20 bytes, just before. One
    # that stands elsewhere is read by some and not by others, so it is refused.
    if at >= 20 and tail[at - 20 : at - 16] == LOCATOR:
        if at < 76 or tail[at - 76 : at - 72] != END64:
            raise InvalidInput(f"{path} is an archive of an unknown kind; write it again.")
        length = struct.unpack("<Q", tail[at - 36 : at - 28])[0]
    if length > limits.arrays * ENTRY_BYTES:
        raise InvalidInput(
            f"{path} has a directory of {size_text(length)}, and at most {limits.arrays:,} arrays "
            "are read."
        )


def _check_members(packed: zipfile.ZipFile, path: Path, limits: Limits) -> None:
    members = packed.infolist()
    if len(members) > limits.arrays:
        raise InvalidInput(
            f"{path} holds {len(members):,} files, and at most {limits.arrays:,} are read."
        )
    if len({member.filename for member in members}) < len(members):
        raise InvalidInput(f"{path} holds two files of one name.")
    for member in members:
        _check_member(member, path)
    unpacked = sum(member.file_size for member in members)
    limits.check_memory(path, unpacked)
    stored = sum(member.compress_size for member in members)
    if unpacked > SMALL and unpacked > MAX_RATIO * max(stored, 1):
        raise InvalidInput(
            f"{path} would unpack to {size_text(unpacked)}, {unpacked // max(stored, 1):,} times "
            "its size, as a zip bomb does; if it is meant, write it without compression."
        )


def _check_member(member: zipfile.ZipInfo, path: Path) -> None:
    name = member.orig_filename
    steps = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in steps or ":" in steps[0] or "\0" in name:
        raise InvalidInput(
            f"{path} holds a file called {name[:80]!r}, a name that points elsewhere; it is not "
            "read."
        )
    if member.flag_bits & ENCRYPTED:
        raise InvalidInput(f"{path} is encrypted; write it without a password.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput(
            f"{path} is compressed in a way that numpy never writes; write it again."
        )
