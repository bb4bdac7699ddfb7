"""Files written whole or not at all.

What is being written has a name of its own in the same folder until it is whole:
``.NAME.HOST-PID-RANDOM.part``. A process that is killed leaves it behind. The next one that writes
the same file takes it away, where the process that it names was of this machine and is gone, or
after a day.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from conformix.errors import InvalidInput

# Seconds after which a part is stale even if some process has the number of its writer, or if the
# writer was of another machine, on a shared disk.
STALE = 24 * 3600
HOST = f"{zlib.crc32(platform.node().encode()):08x}"
# Bytes of a file name that leave room for the rest of the name of its part.
LONGEST_NAME = 200
# How often a name that is taken is drawn again.
TRIES = 100


def as_path(path: Any) -> Path:
    """Return a path, or say that there is none."""
    try:
        text = os.fspath(path)
        if isinstance(text, str) and "\0" not in text:
            return Path(text)
    except TypeError:
        pass
    got = type(path).__name__ if not isinstance(path, str) else "a text with a NUL character"
    raise InvalidInput(f"path must be a text or a path; got {got}.")


def check_writable(target: Path) -> None:
    """Refuse a target that is no place for a file: a folder, a pipe, a device.

    Replacing one would take it away from everybody, and a pipe waits for a reader.
    """
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{target} cannot be written: {reason}.") from None
    if mode is not None and stat.S_ISDIR(mode):
        raise InvalidInput(f"{target} is a folder; name a file in it.")
    if mode is not None and not stat.S_ISREG(mode):
        raise InvalidInput(f"{target} is no regular file (a pipe or a device?); name a file.")
    if not target.parent.is_dir():
        raise InvalidInput(f"{target.parent} is no folder; create it first.")
    # Names such as /dev/stdout are links, and may lead to a regular file today.
    if target.is_symlink() and target.parent.resolve().parts[1:2] in (("dev",), ("proc",)):
        raise InvalidInput(f"{target} is a link of the system; name a file.")


def write_whole(target: Path, fill: Callable[[IO[bytes]], Any], *, durable: bool = False) -> None:
    """Write under a temporary name in the same folder, then rename: all of the file or nothing.

    A `durable` file is on the disk, its name too, when this returns; what bears a name is whole
    even if the power fails in between.
    """
    target = as_path(target)
    check_writable(target)
    handle, part = _begun(target)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(target)
        if durable:
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _clear(target)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system opens folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows, which keeps names by itself
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _begun(target: Path) -> tuple[int, Path]:
    """Create the part of a file; the system gives it the mode that the user's mask allows."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    for _ in range(TRIES):
        owner = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"
        part = target.with_name(f".{_short_name(target)}.{owner}.part")
        try:
            return os.open(part, flags | getattr(os, "O_NOFOLLOW", 0), 0o666), part
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidInput(f"{target.name[:40]}... is too long for a file name.") from None
            raise
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _short_name(target: Path) -> str:
    name = os.fsencode(target.name)
    return target.name if len(name) <= LONGEST_NAME else f"{zlib.crc32(name):08x}"


def _clear(target: Path) -> None:
    """Take away the parts of this file whose writers are gone."""
    name = re.escape(_short_name(target))
    pattern = re.compile(rf"\.{name}\.([0-9a-f]{{8}})-(\d{{1,10}})-[0-9a-f]{{8}}\.part")
    with contextlib.suppress(OSError):
        for part in target.parent.iterdir():
            match = pattern.fullmatch(part.name)
            with contextlib.suppress(OSError):
                if match and _is_stale(part, match[1], int(match[2])):
                    part.unlink(missing_ok=True)


def _is_stale(part: Path, host: str, process: int) -> bool:
    gone = host == HOST and not _alive(process)
    return gone or time.time() - part.lstat().st_mtime > STALE


def _alive(process: int) -> bool:
    """Return whether a process of this number runs; where nobody can say, it does."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
