"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(target: Path, fill: Callable[[IO[bytes]], Any]) -> None:
    """Write under a temporary name in the same folder, then rename.

    Parameters
    ----------
    target : Path
        The file; one of that name is replaced, by all of the new one or by nothing.
    fill : function of an open binary file
        Writes the content.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "a.txt", lambda file: file.write(b"whole"))
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    handle, name = tempfile.mkstemp(dir=target.parent or ".", prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        # A temporary file is private; the result gets the mode that the user's mask gives.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
