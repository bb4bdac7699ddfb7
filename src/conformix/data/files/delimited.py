"""csv and tsv: one line per row, a header that names the columns, UTF-8.

Numbers are parsed by NumPy, a few MiB of lines at a time, straight into one array whose size is
known and allowed beforehand; a line that NumPy refuses is looked at again, to say what is wrong
with it and where.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

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
from conformix.data.files.opening import size_of
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray

Converters = dict[int | str, Callable[[str], float]]

DELIMITERS = ",;\t"
# Text that is parsed at once.
CHUNK = 2**20
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_delimited(file: BinaryIO, path: Path, limits: Limits, choice: Choice) -> Contents:
    """Return outputs and labels of a csv file; the columns are the classes."""
    table = Delimited(file, path, limits)
    columns = choose_columns(path, table.header, choice)
    if not columns.numbers and columns.label is None:
        raise InvalidInput(f"{path} has no columns but those to drop.")
    label = None if columns.label is None else table.header[columns.label]
    book = Codebook(path, label or "", limits)
    kept: dict[str, list[Any]] = {name: [] for name in columns.kept}
    values, codes = table.values(columns, book, kept)
    models = {"": values} if columns.numbers else {}
    labels = None if label is None else book.numbers_or_labels(codes)
    return Contents(path, models, labels, label, columns.classes or None, columns.others, kept)


class Delimited:
    """An open csv file, its header read."""

    def __init__(self, file: BinaryIO, path: Path, limits: Limits) -> None:
        self.file, self.path, self.limits = file, path, limits
        self.line = self.kept = 0
        self.lines = self._lines()
        first = next(self.lines, "")
        self.delimiter = max(DELIMITERS, key=first.count)
        limits.check_columns(path, first.count(self.delimiter) + 1)
        try:
            self.header = [name.strip() for name in self._cells(first)]
        except csv.Error as error:
            raise InvalidInput(f"{path} line 1 cannot be read ({error}).") from None
        self._check_header()

    def _check_header(self) -> None:
        numbers = [name for name in self.header if _is_number(name)]
        if len(numbers) == len(self.header) and not all(name.isdigit() for name in numbers):
            raise InvalidInput(
                f"{self.path} has no header: its first line holds numbers only, and must name the "
                "columns, one per class."
            )
        if "" in self.header:
            place = self.header.index("") + 1
            raise InvalidInput(
                f"{self.path} has a column without a name (column {place} of "
                f"{len(self.header):,}); name every column (pandas: to_csv(path, index=False))."
            )

    def _cells(self, line: str) -> list[str]:
        return next(csv.reader([line], delimiter=self.delimiter), [])

    def _lines(self) -> Iterator[str]:
        """Yield the lines as text, bounded in length, or say which line is none."""
        start = self.file.read(4)
        if start.startswith(UTF16):
            raise InvalidInput(f"{self.path} is UTF-16 text; save it as UTF-8.")
        self.file.seek(3 if start.startswith(b"\xef\xbb\xbf") else 0)
        while raw := self.file.readline(self.limits.line + 1):
            self.line += 1
            if len(raw) > self.limits.line:
                raise InvalidInput(
                    f"{self.path} line {self.line} is longer than {size_text(self.limits.line)}; a "
                    "csv file has one row per line."
                )
            if b"\0" in raw:
                raise InvalidInput(
                    f"{self.path} line {self.line} holds NUL bytes: it is no text, or not UTF-8."
                )
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidInput(
                    f"{self.path} line {self.line} is not UTF-8 (byte 0x{raw[error.start]:02x}); "
                    "save the file as UTF-8."
                ) from None
            # Old line ends (a lone carriage return) would make one line of many.
            if "\r" in text.rstrip("\r\n"):
                raise InvalidInput(
                    f"{self.path} line {self.line} holds a carriage return inside; save the file "
                    "with line ends of Unix or Windows."
                )
            yield text

    def values(
        self, columns: Columns, book: Codebook, kept: dict[str, list[Any]]
    ) -> tuple[Any, IntArray]:
        """Return the outputs (n, K) as float64, and of the labels where they stand in `book`.

        The texts of columns to be kept go to `kept`, row after row.
        """
        n, width = self._count(), len(columns.numbers)
        taken = 8 * width + (0 if columns.label is None else 16)
        text = f"{n:,} rows of {len(self.header):,} columns"
        self.limits.check_memory(self.path, n * taken, text)
        values = np.empty((n, width))
        codes = np.empty(n if columns.label is not None else 0, dtype=np.intp)
        converters = self._converters(columns, book, kept)
        done = 0
        for numbers, chunk in self._chunks():
            part = self._parsed(chunk, numbers, converters)
            rows = slice(done, done + len(part))
            values[rows] = part[:, columns.numbers]
            if columns.label is not None:
                codes[rows] = part[:, columns.label]
            done += len(part)
        if not done:
            raise InvalidInput(f"{self.path} has a header and no rows.")
        return values[:done], codes[:done]

    def _count(self) -> int:
        """Return at least the number of rows: the line ends that are left."""
        place, count = self.file.tell(), 1
        while piece := self.file.read(CHUNK):
            count += piece.count(b"\n")
        self.file.seek(place)
        return min(count, size_of(self.file))

    def _chunks(self) -> Iterator[tuple[list[int], list[str]]]:
        """Yield some lines at a time with their numbers, without blank ones, as NumPy reads."""
        numbers: list[int] = []
        chunk: list[str] = []
        size = 0
        for text in self.lines:
            if text.strip("\r\n"):
                numbers.append(self.line)
                chunk.append(text)
            size += len(text)
            if size >= CHUNK and chunk:
                yield numbers, chunk
                numbers, chunk, size = [], [], 0
        if chunk:
            yield numbers, chunk

    def _converters(
        self, columns: Columns, book: Codebook, kept: dict[str, list[Any]]
    ) -> Converters:
        taken = {*columns.numbers, columns.label}
        converters: Converters = {
            place: _nothing for place in range(len(self.header)) if place not in taken
        }

        def code(text: str) -> float:
            text = text.strip()
            if not text or len(text) > LONGEST_LABEL:
                raise ValueError
            return book.code(text)

        if columns.label is not None:
            converters[columns.label] = code
        for name, place in columns.kept.items():
            converters[place] = self._keeping(kept[name])
        return converters

    def _keeping(self, texts: list[Any]) -> Callable[[str], float]:
        """Return what puts the cells of a column by, within the limits of the file."""

        def keep(text: str) -> float:
            if len(text) > LONGEST_LABEL:
                raise ValueError
            self.kept += sys.getsizeof(text) + 8
            self.limits.check_memory(self.path, self.kept, "the columns that are kept")
            texts.append(text)
            return 0.0

        return keep

    def _parsed(self, chunk: list[str], numbers: list[int], converters: Converters) -> Any:
        try:
            part = np.loadtxt(
                chunk, delimiter=self.delimiter, comments=None, quotechar='"', ndmin=2,
                encoding="utf-8", converters=converters,
            )  # fmt: skip
        except InvalidInput:
            raise
        except (ValueError, OverflowError):
            raise self._what_is_wrong(chunk, numbers, converters) from None
        if part.shape[1] != len(self.header) or len(part) != len(chunk):
            raise self._what_is_wrong(chunk, numbers, converters)
        return part

    def _what_is_wrong(
        self, chunk: list[str], numbers: list[int], converters: Converters
    ) -> InvalidInput:
        """Return the sentence about the first line that cannot be read."""
        for number, text in zip(numbers, chunk, strict=True):
            where = f"{self.path} line {number}"
            try:
                cells = self._cells(text)
            except csv.Error as error:
                return InvalidInput(f"{where} cannot be read ({error}).")
            if len(cells) != len(self.header):
                return InvalidInput(
                    f"{where} has {len(cells):,} cells, and the header names "
                    f"{len(self.header):,} columns."
                )
            for place, cell in enumerate(cells):
                problem = self._problem(cell, converters.get(place))
                if problem:
                    return InvalidInput(f"{where}, column {self.header[place][:40]!r} {problem}")
        return InvalidInput(
            f"{self.path} cannot be read near line {numbers[0]}; quotes must close on their line."
        )

    def _problem(self, cell: str, converter: Callable[[str], float] | None) -> str | None:
        if converter is not None:
            try:
                converter(cell)
            except InvalidInput:
                raise
            except ValueError:
                return "holds no label." if not cell.strip() else "holds a label that is too long."
            return None
        if _is_number(cell):
            return None
        text = f"holds {cell[:40]!r}, which is no number" if cell.strip() else "holds no number"
        return f"{text}; {NO_OUTPUTS}."


def _nothing(text: str) -> float:
    return 0.0


def _is_number(text: str) -> bool:
    # Python also reads 1_000, which no csv means.
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def line_of(path: Path, row: int) -> int:
    r"""Return the line of a file in which a row stands: one is the header, others may be blank.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.csv")
    ...     _ = path.write_text("A,B\n0.5,0.5\n\n0.25,0.75\n")
    ...     line_of(path, 0), line_of(path, 1)
    (2, 4)
    """
    seen = -1
    with path.open("rb") as file:
        next(file, b"")
        for number, line in enumerate(file, 2):
            seen += bool(line.strip(b"\r\n"))
            if seen == row:
                return number
    return row + 2
