"""Labels as files hold them: integers, or the different texts once and a number per row.

An array of text gives every row the room of the longest text: one label of 500 characters among
three million rows would take six gigabytes. Names with codes take eight bytes per row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformix.data.files.limits import Limits
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray
from conformix.kernels.blocks import row_blocks

# Characters of one label or class name.
LONGEST_LABEL = 500
# Integers that are floats too, without a gap.
WHOLE = 2**53


@dataclass(frozen=True, eq=False)
class Labels:
    """Text labels of n rows.

    Parameters
    ----------
    names : list of str
        The different labels, each once.
    codes : integer array of shape (n,)
        Which of the names every row has.

    Examples
    --------
    >>> Labels(["cat", "dog"], np.array([1, 0, 1])).tolist()
    ['dog', 'cat', 'dog']
    """

    names: list[str]
    codes: IntArray

    def __len__(self) -> int:
        return len(self.codes)

    def tolist(self) -> list[str]:
        """Return the label of every row."""
        return [self.names[code] for code in self.codes.tolist()]

    def counts(self) -> IntArray:
        """Return how many rows have each of the names."""
        return np.bincount(self.codes, minlength=len(self.names))


class Codebook:
    """Gives every different text a number, within the limits of a file.

    Parameters
    ----------
    path : Path
        For the error.
    column : str
        What the labels are called, for the error.
    limits : Limits
        How many different ones there may be, and how much memory they may take.
    """

    def __init__(self, path: Path, column: str, limits: Limits) -> None:
        self.path, self.column, self.limits = path, column, limits
        self.places: dict[str, int] = {}
        self.taken = 0

    def code(self, text: str) -> int:
        """Return the number of a text, a new one for one that has not come before."""
        place = self.places.get(text)
        if place is not None:
            return place
        if len(self.places) >= self.limits.columns:
            raise InvalidInput(
                f"{self.path} holds more than {self.limits.columns:,} different labels; is "
                f"{self.column[:40]!r} the label column?"
            )
        self.taken += sys.getsizeof(text) + 100  # its place in the dictionary
        self.limits.check_memory(self.path, self.taken, "its labels")
        self.places[text] = len(self.places)
        return len(self.places) - 1

    def labels(self, codes: IntArray) -> Labels:
        """Return the labels that these numbers stand for."""
        return Labels(list(self.places), codes)

    def numbers_or_labels(self, codes: IntArray) -> Labels | IntArray:
        """Return integers where all texts are; ``3.0`` is 3, as pandas writes it.

        The integers are written over the codes: there is room for one of them only.
        """
        numbers = _whole_numbers(list(self.places))
        if numbers is None:
            return self.labels(codes)
        for rows in row_blocks(len(codes), 1):
            codes[rows] = numbers[codes[rows]]
        return codes


def _whole_numbers(texts: list[str]) -> IntArray | None:
    """Return texts as integers, None where some are none; 1_000 is none, though Python reads it."""
    try:
        numbers = np.array([float(text) for text in texts])
    except ValueError:
        return None
    whole = np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()
    if not whole or (np.abs(numbers) >= WHOLE).any() or any("_" in text for text in texts):
        return None
    return numbers.astype(np.int64)


def coded(values: Any, path: Path, column: str, limits: Limits) -> Labels:
    """Return an array of text of shape (n,) as labels, a block of rows at a time."""
    book = Codebook(path, column, limits)
    codes = np.empty(len(values), dtype=np.intp)
    read: Callable[[Any], str] = str
    if values.dtype.kind == "S":
        read = _decoded
    width = max(1, values.dtype.itemsize // 4)
    try:
        for rows in row_blocks(len(values), width):
            codes[rows] = [book.code(read(text)) for text in values[rows].tolist()]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} holds labels in {column!r} that are not UTF-8 text.") from None
    return book.labels(codes)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8")


def same_labels(one: Any, other: Any) -> bool:
    """Return whether two files have the same labels, row by row.

    Examples
    --------
    >>> same_labels(Labels(["a", "b"], np.array([0, 1])), Labels(["b", "a"], np.array([1, 0])))
    True
    """
    texts = isinstance(one, Labels), isinstance(other, Labels)
    if len(one) != len(other) or texts[0] != texts[1]:
        return False
    if not texts[0]:
        return np.array_equal(one, other)
    place = {name: index for index, name in enumerate(one.names)}
    moved = np.array([place.get(name, -1) for name in other.names], dtype=np.intp)
    return all(
        np.array_equal(one.codes[rows], moved[other.codes[rows]])
        for rows in row_blocks(len(one), 1)
    )


def indices_of(labels: Labels, classes: Sequence[str]) -> IntArray | int:
    """Return the class index of every row, or the first row whose label no class has.

    Examples
    --------
    >>> indices_of(Labels(["dog", "cat"], np.array([0, 1])), ("cat", "dog"))
    array([1, 0])
    >>> indices_of(Labels(["dog", "emu"], np.array([0, 1])), ("cat", "dog"))
    1
    """
    place = {name: index for index, name in enumerate(classes)}
    found = np.array([place.get(name, -1) for name in labels.names], dtype=np.intp)
    indices = found[labels.codes]
    return indices if (indices >= 0).all() else int(np.argmax(indices < 0))
