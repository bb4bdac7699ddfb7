"""A model is one JSON file, and one file of arrays beside it where they are large.

Several processes may save and load one path at the same time. What keeps a model whole:

1. The arrays are written first, under a name that is made of their content; the JSON, which names
   them, is renamed into place last. So the JSON that is there always names arrays that are there.
2. Arrays that no JSON names any more are removed only while nobody is saving: every `save` holds a
   shared lock on the folder from before its arrays until after its JSON, and the one that removes
   needs the lock alone. A kill gives a lock back. Where a folder cannot be locked nothing is
   removed: arrays of old models stay behind, and no model breaks.
3. A reader that comes too late for the arrays (the model was saved again in between) finds another
   JSON, and reads that one.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from conformix.errors import InvalidInput

# How long a save waits for another one that is removing old arrays: moments, unless the lock is
# somebody else's.
LOCK_SECONDS = 5.0
# How often a reader begins again. Every time needs another save between two lines of code.
READ_AGAIN = 200
# After so many looks at the same JSON its arrays are missing for good.
LOOKED_THE_SAME = 10

T = TypeVar("T")

try:
    import fcntl
except ImportError:  # not on every system: nothing is locked there, and nothing removed
    fcntl = None  # type: ignore[assignment]


def arrays_name(target: Path, digest: str) -> str:
    """Return the name of the arrays beside a model file: by their content.

    Examples
    --------
    >>> arrays_name(Path("model.json"), "0123456789abcdef")
    'model.json.0123456789ab.npz'
    """
    return f"{target.name}.{digest[:12]}.npz"


def sibling(source: Path, name: Any) -> Path | None:
    """Return the file of that name beside the model: only one that belongs to it by name."""
    belongs = isinstance(name, str) and name.startswith(f"{source.name}.") and name.endswith(".npz")
    return source.with_name(name) if belongs and Path(name).name == name else None


@contextmanager
def saving(target: Path) -> Iterator[None]:
    """Hold arrays beside a model file in place until its JSON is written; then remove old ones."""
    with _opened(target.parent) as folder:
        _locked(folder, alone=False, patience=LOCK_SECONDS)
        yield
        # The lock of a save that goes on at the same time: that one will remove what is left.
        if _locked(folder, alone=True, patience=0):
            _remove_unnamed(target)


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    handle = None
    if fcntl is not None:
        try:
            handle = os.open(folder, os.O_RDONLY)
        except OSError:
            handle = None  # whatever is wrong with the folder, writing will say
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)  # which also gives the lock back


def _locked(folder: int | None, *, alone: bool, patience: float) -> bool:
    """Return whether the folder is locked now, together with others or alone."""
    if folder is None:
        return False
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(folder, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.001)
        except OSError:
            return False  # a file system without locks
        else:
            return True


def _remove_unnamed(target: Path) -> None:
    """Remove arrays beside a model that its JSON does not name; nobody else is saving now."""
    try:
        named = json.loads(target.read_bytes()).get("npz")
    except (OSError, ValueError, AttributeError, RecursionError):
        return
    written = re.compile(re.escape(target.name) + r"\.[0-9a-f]{12}\.npz")
    for path in target.parent.iterdir():
        if path.name != named and written.fullmatch(path.name):
            try:
                path.unlink()
            except OSError:
                continue  # gone already, or held by a reader where that keeps a file


class MissingArrays(InvalidInput):
    """The arrays that a model file names are not there: damage, or a save in between."""


def read_whole(source: Path, read: Callable[[], T]) -> T:
    """Return what `read` makes of a model file, read again while others save it.

    Arrays that stay away though the JSON stays the same are missing for good.
    """
    unchanged = 0
    for again in reversed(range(READ_AGAIN)):
        before = _fingerprint(source)
        try:
            return read()
        except MissingArrays:
            # A file that was replaced twice within one tick of the clock can look the same.
            unchanged += before == _fingerprint(source)
            if not again or unchanged == LOOKED_THE_SAME:
                raise
            time.sleep(0.002)
    raise AssertionError  # the last round returns or raises


def _fingerprint(source: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced by another."""
    try:
        status = source.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size
