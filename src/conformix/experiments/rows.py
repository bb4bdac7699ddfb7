"""Rows of results in a file of JSON lines that survives a kill at any moment.

Every row is appended with one write, so a kill can tear at most the last line; on opening, what
follows the last line break is cut off and its case is computed again. A lock keeps two runs from
writing to one file.
"""

from __future__ import annotations

import json
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from conformix.errors import InvalidInput
from conformix.fit.saved.files import strict_json

Row = dict[str, Any]


class RowLog:
    r"""An open file of rows, by case key.

    Parameters
    ----------
    path : path
        The file; it is created with its folder where it does not exist.

    Attributes
    ----------
    rows : dict of str to dict
        All whole rows of the file, in its order.
    lines : dict of str to int
        In which line of the file each of them was found.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.jsonl"
    ...     _ = path.write_text('{"key": "a", "size": 1.5}\n{"key": "b", "si')  # torn by a kill
    ...     with RowLog(path) as log:
    ...         log.append({"key": "c", "size": 2.0})
    ...     [row["key"] for row in read_rows(path)]
    ['a', 'c']
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: dict[str, Row] = {}
        self.lines: dict[str, int] = {}
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = FileIO(self.path, "a+")
        try:
            _lock(file, self.path)
            file.seek(0)
            content = file.readall() or b""
            whole = content.rfind(b"\n") + 1
            rows = parse_rows(content[:whole], self.path)
            self.rows = {row["key"]: row for row in rows}
            self.lines = {row["key"]: number for number, row in enumerate(rows, start=1)}
            file.truncate(whole)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()  # which also gives up the lock
            self._file = None

    def append(self, row: Row) -> None:
        """Add one row: a single write, straight to the file."""
        if self._file is None:
            raise InvalidInput(f"{self.path} is not open; use it in a with statement.")
        line = json.dumps(row, sort_keys=True, allow_nan=False).encode() + b"\n"
        while line:  # a disk may take less than all at once
            line = line[self._file.write(line) :]
        self.rows[row["key"]] = row


def read_rows(path: str | Path) -> list[Row]:
    """Return the whole rows of a file; a torn last line is left out.

    Examples
    --------
    >>> read_rows("no/such/file.jsonl")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: no/such/file.jsonl does not exist or is no file.
    """
    source = Path(path)
    if not source.is_file():
        raise InvalidInput(f"{source} does not exist or is no file.")
    content = source.read_bytes()
    return parse_rows(content[: content.rfind(b"\n") + 1], source)


def parse_rows(content: bytes, path: Path) -> list[Row]:
    """Return the rows of whole lines, or say which line is none."""
    rows = []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            row = strict_json(line)
            if not isinstance(row["key"], str):
                raise TypeError
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InvalidInput(
                f"{path} line {number} is no row of results; move the file away, or name another "
                "folder."
            ) from None
        rows.append(row)
    return rows


def _lock(file: FileIO, path: Path) -> None:
    try:
        import fcntl  # noqa: PLC0415  not on every system; without it nothing is locked
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise InvalidInput(
            f"{path} is being written by another run; wait for it, or name another folder."
        ) from None
