"""parquet: columns of plain numbers, one of labels, decoded in a process with bounded memory.

What the footer declares is checked first, and is a lie as easily said as any other. So decoding
runs in a child process (`conformix.data.files.decode`) to which the system gives no more memory
than allowed; whatever happens there ends in a sentence here. Where there are no such processes or
no such bounds (Windows, macOS), the same decoder runs with what is declared as the only check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol

import numpy as np

from conformix.data.files import decode
from conformix.data.files.contents import (
    LONGEST_LABEL,
    NO_OUTPUTS,
    Choice,
    Codebook,
    Columns,
    Contents,
    choose_columns,
)
from conformix.data.files.limits import Limits, size_text
from conformix.errors import InvalidInput, pip_line

# A message is one line: the names of all columns, or the different labels of a batch.
LONGEST_MESSAGE = 256 * 2**20
# Seconds that a child has to go once nobody listens.
PATIENCE = 10
# The plain allocator gives memory back and takes no address space in advance; a thread each.
ALONE = {
    "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "ARROW_IO_THREADS": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


class Decoder(Protocol):
    """Says what a file holds, then what the chosen columns hold."""

    def describe(self) -> dict[str, Any]:
        """Return names and types of the columns and the number of rows, or what went wrong."""

    def decode(self, wanted: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield messages, each with the numbers that belong to it."""


def read_parquet(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return outputs and labels of a parquet file; the columns are the classes."""
    try:
        import pyarrow  # noqa: F401, PLC0415  an extra
    except ImportError:
        raise InvalidInput(
            f"{path}: parquet needs pyarrow; install it with: {pip_line('frames')}."
        ) from None
    if file.read(4) != b"PAR1":
        raise InvalidInput(f"{path} is no parquet file (it does not begin as one).")
    file.seek(0)
    with _decoder(file, limits) as decoder:
        contents = _read(decoder, path, limits, choice)
    for name in choice.keep:
        # A file may be long: one column at a time, by a decoder of its own.
        file.seek(0)
        with _decoder(file, limits) as decoder:
            contents.kept[name] = _kept(decoder, path, limits, name)
    return contents


def _kept(decoder: Decoder, path: Path, limits: Limits, name: str) -> list[Any]:
    """Return the values of one column: numbers or texts."""
    shape = _fine(decoder.describe(), path, limits)
    kind, dtype = next(one[1:] for one in shape["columns"] if one[0] == name)
    if kind not in ("number", "integer", "text"):
        raise InvalidInput(
            f"{path} column {name[:40]!r} holds {dtype}; columns that are kept hold numbers or "
            "text."
        )
    n, number, text = shape["rows"], kind == "number", kind == "text"
    limits.check_memory(path, 64 * n, f"column {name[:40]!r}")
    wanted = {"outputs": [name] if number else [], "label": None if number else name,
              "text": name if text else None, "taken": 64 * n,
              "tallest": shape["tallest"]}  # fmt: skip
    values, codes = np.empty((n, int(number))), np.empty(0 if number else n, dtype=np.int64)
    # Ids are as many as rows; what bounds them is memory.
    book = Codebook(path, name, replace(limits, columns=n + 1))
    filled = _Filled(path, values, codes, book)
    for message, numbers in decoder.decode(wanted):
        filled.take(_fine(message, path, limits), numbers)
    labels = filled.checked(int(number), None if number else name, coded=text)
    return values[:, 0].tolist() if number else labels.tolist()  # type: ignore[no-any-return]


def _read(decoder: Decoder, path: Path, limits: Limits, choice: Choice) -> Contents:
    shape = _fine(decoder.describe(), path, limits)
    listed = [one for one in shape["columns"] if not one[0].startswith("__index_level_")]
    names = [name for name, _, _ in listed]
    limits.check_columns(path, shape["leaves"])
    columns = choose_columns(path, names, choice)
    _check_types(path, listed, columns)
    n, width = shape["rows"], len(columns.numbers)
    if n < 1:
        raise InvalidInput(f"{path} has no rows.")
    taken = 8 * n * width + (0 if columns.label is None else 16 * n)
    limits.check_memory(path, taken, f"{n:,} rows of {len(names):,} columns")
    limits.check_memory(path, shape["declared"], "its columns")
    label = None if columns.label is None else names[columns.label]
    text = None if columns.label is None or "integer" in listed[columns.label][1] else label
    wanted = {"outputs": [names[place] for place in columns.numbers], "label": label,
              "text": text, "taken": taken, "tallest": shape["tallest"]}  # fmt: skip
    values = np.empty((n, width))
    codes = np.empty(0 if label is None else n, dtype=np.int64)
    book = Codebook(path, label or "", limits)
    filled = _Filled(path, values, codes, book)
    for message, numbers in decoder.decode(wanted):
        filled.take(_fine(message, path, limits), numbers)
    labels = filled.checked(width, label, coded=text is not None)
    models = {"": values} if width else {}
    return Contents(path, models, labels, label, columns.classes or None, columns.others)


def _check_types(path: Path, listed: list[Any], columns: Columns) -> None:
    for place in columns.numbers:
        name, kind, dtype = listed[place]
        if kind not in ("number", "integer"):
            raise InvalidInput(
                f"{path} column {name[:40]!r} holds {dtype}, no plain numbers; {NO_OUTPUTS}."
            )
    if columns.label is not None:
        name, kind, dtype = listed[columns.label]
        if kind not in ("integer", "text"):
            raise InvalidInput(
                f"{path} column {name[:40]!r} must hold labels, integers or text; it holds {dtype}."
            )


def _fine(message: dict[str, Any], path: Path, limits: Limits) -> dict[str, Any]:
    """Return a message that is good news, or raise the sentence about one that is not."""
    if "damaged" in message:
        raise InvalidInput(
            f"{path} is truncated or damaged ({message['damaged']}); write it again."
        )
    if "memory" in message:
        raise InvalidInput(
            f"{path} takes more memory to decode than the {size_text(limits.memory)} that are "
            "allowed; if the file is to be trusted, say --max-memory."
        )
    if "gap" in message:
        column, row = message["gap"]["column"], message["gap"]["row"]
        raise InvalidInput(f"{path} column {column[:40]!r} has no value in row {row}.")
    return message


class _Filled:
    """Arrays that are filled from messages, whose places are checked."""

    def __init__(self, path: Path, values: Any, codes: Any, book: Codebook) -> None:
        self.path, self.values, self.codes, self.book = path, values, codes, book
        self.entries = self.labelled = 0

    def take(self, message: dict[str, Any], numbers: Any) -> None:
        """Put the numbers of one message where they belong."""
        part = message.get("block") or message.get("labels")
        if part is None:
            return
        rows = slice(part["first"], part["first"] + part["rows"])
        if rows.stop > len(self.values):
            raise InvalidInput(f"{self.path} is damaged: it holds more rows than it declares.")
        if "block" in message:
            place = slice(part["column"], part["column"] + part["width"])
            self.values[rows, place] = numbers.reshape(part["rows"], part["width"])
            self.entries += numbers.size
            return
        codes = numbers
        if part["names"] is not None:
            self._check_labels(part["names"])
            codes = np.array([self.book.code(name) for name in part["names"]] or [0])[numbers]
        self.codes[rows] = codes
        self.labelled += len(codes)

    def _check_labels(self, names: list[Any]) -> None:
        if any(not isinstance(name, str) or len(name) > LONGEST_LABEL for name in names):
            raise InvalidInput(
                f"{self.path} column {self.book.column[:40]!r} holds a label that is too long."
            )

    def checked(self, width: int, label: str | None, *, coded: bool) -> Any:
        """Return the labels, after all rows have come."""
        n = len(self.values)
        done = n if label is None else self.labelled
        done = min(done, self.entries // width) if width else done
        if done < n:
            raise InvalidInput(
                f"{self.path} is damaged: it declares {n:,} rows and holds {done:,}."
            )
        if label is None:
            return None
        return self.book.labels(self.codes) if coded else self.codes


@contextmanager
def _decoder(file: BinaryIO, limits: Limits) -> Iterator[Decoder]:
    """Start a decoder in a process of its own where there can be one, else here."""
    if os.name != "posix" or not sys.executable:
        yield _Here(file)
        return
    command = [sys.executable, "-P", decode.__file__, str(file.fileno()), str(limits.memory)]
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        pass_fds=[file.fileno()], env={**os.environ, **ALONE, "PYTHONPATH": paths},
    ) as child:  # fmt: skip
        try:
            yield _Child(child)
        finally:
            child.kill()


class _Child:
    """The decoder in a process of its own."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self.child, self.out = child, child.stdout
        self.requests: IO[bytes] = child.stdin

    def describe(self) -> dict[str, Any]:
        """Return the first message."""
        return self._message()

    def decode(self, wanted: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Ask for some columns, and yield what comes."""
        try:
            self.requests.write(json.dumps(wanted).encode() + b"\n")
            self.requests.flush()
        except BrokenPipeError:
            yield self._ended(), None
            return
        while "done" not in (message := self._message()):
            part = message.get("block") or message.get("labels") or {"rows": 0}
            numbers = np.empty(
                part["rows"] * part.get("width", 1), dtype=float if "block" in message else np.int64
            )
            if not _filled_from(self.out, numbers):
                message = self._ended()
            yield message, numbers

    def _message(self) -> dict[str, Any]:
        line = self.out.readline(LONGEST_MESSAGE)
        if not line.endswith(b"\n"):
            return self._ended()
        message: dict[str, Any] = json.loads(line)
        return message

    def _ended(self) -> dict[str, Any]:
        """Say that the child is gone: some damage makes Arrow end its process."""
        self.child.wait(PATIENCE)
        return {"damaged": f"its decoder ended with code {self.child.returncode}"}


def _filled_from(stream: IO[bytes], numbers: Any) -> bool:
    view = memoryview(numbers).cast("B") if numbers.size else memoryview(b"")
    done = 0
    while done < len(view):
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            return False
        done += count
    return True


class _Here:
    """The decoder in this process, where there can be no other."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def describe(self) -> dict[str, Any]:
        """Return what the file holds."""
        try:
            return decode.described(decode.opened(self.file))
        except Exception as error:
            return decode.said(error)[0]

    def decode(self, wanted: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yield the messages of the decoder."""
        try:
            source = decode.opened(self.file, wanted["text"])
            messages = decode.decoded(source, wanted["outputs"], wanted["label"], wanted["tallest"])
            for message, content in messages:
                yield message, np.frombuffer(content, float if "block" in message else np.int64)
        except Exception as error:
            yield decode.said(error)[0], None
