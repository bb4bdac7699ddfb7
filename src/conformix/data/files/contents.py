"""What a file holds, whatever its format: models, labels, class names.

Labels are integers, or the different texts once and a number per row. An array of text gives every
row the room of the longest text: one label of 500 characters among three million rows would take
six gigabytes. Names with codes take eight bytes per row.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    """Gives every different text a number, within the limits of a file."""

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
    """Return whether two files have the same labels, row by row."""
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
    """Return the class index of every row, or the first row whose label no class has."""
    place = {name: index for index, name in enumerate(classes)}
    of_name = np.array([place.get(name, -1) for name in labels.names], dtype=np.intp)
    indices = of_name[labels.codes]
    return indices if (indices >= 0).all() else int(np.argmax(indices < 0))


# What labels are called where nobody says.
LABEL_NAMES = ("labels", "label", "y", "target", "class")
CLASS_NAMES = "class_names"
# The way out of a column that cannot be outputs.
NO_OUTPUTS = "labels are named with --label-column, other columns are left out with --drop"


@dataclass(frozen=True)
class Choice:
    """What to take from a file.

    Parameters
    ----------
    label : str or None
        Name of the label column or array; None looks for one of `LABEL_NAMES`.
    drop : tuple of str
        Columns or arrays to leave out.
    classes : tuple or None
        Class names of a fitted model: those columns of a table are taken, in that order.
    keep : tuple of str
        Columns or arrays that are no outputs, to be passed on as they are: ids, dates, texts.
    labelled : bool
        Whether a column may hold labels; if not, all columns are numbers: responses among them.

    Examples
    --------
    >>> Choice(label="truth", drop=("id",)).label
    'truth'
    """

    label: str | None = None
    drop: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None
    keep: tuple[str, ...] = ()
    labelled: bool = True


@dataclass(frozen=True)
class Contents:
    """The parts of one file.

    Parameters
    ----------
    path : Path
        The file.
    models : dict of str to array of shape (n, K)
        By name; a table or a bare array has the name ``""``.
    labels : array of shape (n,), Labels or None
        As they stand in the file: numbers, or text by codes.
    label_name : str or None
        What they are called there.
    classes : tuple or None
        Names of the classes: the columns of a table, or the array ``class_names``.
    others : dict of str to str
        What else there is, described.
    kept : dict of str to list
        The columns that were to be kept, one value per row, as they stand in the file.

    Examples
    --------
    >>> Contents(Path("a.csv"), {"": np.eye(2)}, classes=("cat", "dog")).labels is None
    True
    """

    path: Path
    models: dict[str, Any]
    labels: Any = None
    label_name: str | None = None
    classes: tuple[Any, ...] | None = None
    others: dict[str, str] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)


def find_label(path: Path, names: Sequence[str], choice: Choice) -> str | None:
    """Return the name of the labels among `names`: as asked for, else a usual one, else None."""
    if not choice.labelled:
        return None
    if choice.label is None:
        return next((name for name in LABEL_NAMES if name in names), None)
    if choice.label not in names:
        raise missing(path, "label column", choice.label, names)
    return choice.label


def check_dropped(path: Path, names: Sequence[str], choice: Choice) -> None:
    """Refuse to leave out what is not there: a slip of the pen would go unseen."""
    for name in choice.drop:
        if name not in names:
            raise missing(path, "column to drop", name, names)
    for name in choice.keep:
        if name not in names:
            raise missing(path, "column to keep", name, names)


def missing(path: Path, what: str, name: str, known: Sequence[str]) -> InvalidInput:
    """Return the error for a name that a file does not have; of many names, it shows a few."""
    close = difflib.get_close_matches(name[:100], known[:2000], n=1)
    hint = f"did you mean {close[0]!r}? it" if close else "it"
    return InvalidInput(f"{path} has no {what} {name[:40]!r}; {hint} has {a_few(known)}.")


def a_few(names: Sequence[str], most: int = 8) -> str:
    """Return names for a sentence, the first few of many."""
    text = ", ".join(repr(str(name)[:40]) for name in names[:most])
    return f"{text} and {len(names) - most:,} more" if len(names) > most else text or "nothing"


def from_arrays(path: Path, arrays: dict[str, Any], choice: Choice, limits: Limits) -> Contents:
    """Return the contents of named arrays: matrices are models, one vector holds the labels.

    Examples
    --------
    >>> arrays = {"y": np.array([1]), "vgg": np.eye(1)}
    >>> made = from_arrays(Path("a.npz"), arrays, Choice(), Limits())
    >>> list(made.models), made.label_name
    (['vgg'], 'y')
    """
    check_dropped(path, list(arrays), choice)
    left = {name: array for name, array in arrays.items() if name not in choice.drop}
    kept = {name: left.pop(name) for name in choice.keep}
    for name, array in kept.items():
        if array.ndim != 1:
            raise InvalidInput(
                f"{path} must hold one value per row in {name!r}, shape (n,); got {array.shape}."
            )
    label = find_label(path, list(left), choice)
    labels = None if label is None else left.pop(label)
    if labels is not None and labels.ndim != 1:
        raise InvalidInput(
            f"{path} must hold one label per row in {label!r}, shape (n,); got {labels.shape}."
        )
    if labels is not None and labels.dtype.kind in "US":
        labels = coded(labels, path, str(label), limits)
    classes = left.pop(CLASS_NAMES, None)
    if classes is not None and classes.ndim != 1:
        raise InvalidInput(f"{path} must hold {CLASS_NAMES!r} of shape (K,); got {classes.shape}.")
    models = {name: a for name, a in left.items() if a.ndim == 2 and a.dtype.kind in "fiu"}
    others = {
        name: f"{array.dtype.name} {array.shape}"
        for name, array in left.items()
        if name not in models
    }
    named = None if classes is None else _class_names(classes, path, limits)
    values = {name: array.tolist() for name, array in kept.items()}
    return Contents(path, models, labels, label, named, others, values)


def _class_names(classes: Any, path: Path, limits: Limits) -> tuple[Any, ...]:
    """Return the names of the classes, few enough and short enough to be names."""
    limits.check_columns(path, len(classes))
    names = tuple(classes.tolist())
    check_names(path, names)
    return names


def check_names(path: Path, names: Sequence[Any]) -> None:
    """Refuse a class name that is as long as a page."""
    long = next((name for name in names if isinstance(name, str | bytes) and
                 len(name) > LONGEST_LABEL), None)  # fmt: skip
    if long is not None:
        raise InvalidInput(
            f"{path} has a class whose name is {len(long):,} characters long, {str(long)[:20]!r}"
            f"...; names have at most {LONGEST_LABEL}."
        )


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are taken."""

    label: int | None
    numbers: list[int]
    classes: tuple[Any, ...]
    others: dict[str, str]
    kept: dict[str, int]


def choose_columns(path: Path, names: Sequence[str], choice: Choice) -> Columns:
    """Return which columns of a table hold labels and outputs."""
    place = {name: position for position, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for position, name in enumerate(names) if place[name] != position)
        raise InvalidInput(
            f"{path} has two columns {twice[:40]!r}; columns need names of their own."
        )
    check_dropped(path, names, choice)
    fitted = set(map(str, choice.classes or ()))  # a class may be called y
    free = (
        [name for name in names if name not in fitted and name not in choice.keep]
        if choice.label is None
        else names
    )
    label = find_label(path, free, choice)
    if label in fitted:
        raise InvalidInput(
            f"{path} has {label!r} as one of the fitted classes, so it cannot be the label column."
        )
    if choice.classes is not None:
        wanted = _spelt(names, [str(name) for name in choice.classes])
        absent = [name for name in wanted if name not in place]
        if absent:
            raise InvalidInput(
                f"{path} lacks columns of the fitted classes: {a_few(absent)}; it has "
                f"{a_few(list(names))}."
            )
    else:
        apart = {label, *choice.drop, *choice.keep}
        wanted = [name for name in names if name not in apart]
    check_names(path, wanted)
    named: tuple[Any, ...] = choice.classes if choice.classes is not None else tuple(wanted)
    if named and choice.classes is None and all(is_integer(name) for name in wanted):
        named = tuple(int(name) for name in wanted)
    taken = {*wanted, label, *choice.keep}
    return Columns(
        None if label is None else place[label],
        [place[name] for name in wanted],
        named,
        {name: "column left out" for name in names if name not in taken},
        {name: place[name] for name in choice.keep},
    )


def _spelt(names: Sequence[str], wanted: list[str]) -> list[str]:
    """Return how a table spells some names: as they are, or each after one prefix, as in p_A."""
    there = set(names)
    if not wanted or all(name in there for name in wanted):
        return wanted
    for name in names:
        prefix = name.removesuffix(wanted[0])
        spelt = [prefix + one for one in wanted]
        if name.endswith(wanted[0]) and prefix[-1:] in PREFIX_ENDS and there.issuperset(spelt):
            return spelt
    return wanted


# What may stand between a prefix of all columns and the name of a class.
PREFIX_ENDS = ("_", ".", "-", ":", "=", " ", "/")


def common_prefix(names: Sequence[Any]) -> str:
    """Return what all of some names begin with, up to a mark that ends a prefix.

    Examples
    --------
    >>> common_prefix(("p_A", "p_B")), common_prefix(("cat", "cap")), common_prefix((1, 2))
    ('p_', '', '')
    """
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        return ""
    first, last = min(names), max(names)  # what these two share, all share
    same = (i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    shared = first[: next(same, min(len(first), len(last)))]
    end = max(shared.rfind(mark) for mark in PREFIX_ENDS)
    return shared[: end + 1] if end >= 0 and all(len(name) > end + 1 for name in names) else ""


def is_integer(name: str) -> bool:
    """Whether a text is a number as Python writes it, from 0 on."""
    return name.isascii() and name.isdigit() and name == str(int(name)) if len(name) < 19 else False
