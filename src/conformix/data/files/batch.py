"""From one or several files to rows: outputs by model, their kind, labels, classes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from conformix.data import bundled as datasets
from conformix.data.checks import ROUNDED
from conformix.data.files.contents import (
    LABEL_NAMES,
    Choice,
    Contents,
    Labels,
    a_few,
    common_prefix,
    indices_of,
    is_integer,
    missing,
    same_labels,
)
from conformix.data.files.delimited import line_of
from conformix.data.files.formats import READERS, read_contents
from conformix.data.files.limits import Limits
from conformix.data.labels import label_indices
from conformix.data.outputs import HALF_SUM_TOLERANCE, KINDS, SUM_TOLERANCE, Form
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray
from conformix.kernels.blocks import row_blocks
from conformix.registry import unknown_name


def check_kind(kind: str) -> None:
    """Refuse a kind that is neither ``auto`` nor one of the library's.

    Examples
    --------
    >>> check_kind("odds")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: kind must be "auto", "probs", "logits", "logprobs", "shares" ...
    """
    if kind not in ("auto", *KINDS):
        allowed = ", ".join(f'"{one}"' for one in ("auto", *KINDS[:-1]))
        raise InvalidInput(f'kind must be {allowed} or "{KINDS[-1]}"; got {kind!r}.')


def guess_kind(models: Mapping[str, Any]) -> Form:
    """Return ``probs`` where all numbers of all models lie between 0 and 1, else ``logits``.

    One such column is the probability of one of two classes, ``binary``. Rows need not sum to one
    here: probabilities that were rounded too much are still no logits, and the checks of the
    library say what is wrong with them.

    Examples
    --------
    >>> guess_kind({"a": np.array([[0.2, 0.8]])}), guess_kind({"a": np.array([[-1.0, 2.0]])})
    ('probs', 'logits')
    """
    if not all(_are_probs(np.asarray(values)) for values in models.values()):
        return "logits"
    return "binary" if all(np.shape(values)[1:] == (1,) for values in models.values()) else "probs"


def _are_probs(values: Any) -> bool:
    if not values.size or values.dtype.kind not in "fiu":
        return False
    tolerance = HALF_SUM_TOLERANCE if values.dtype == np.float16 else SUM_TOLERANCE
    for rows in row_blocks(*values.shape):
        block = values[rows]
        if not ((block >= 0) & (block <= 1 + tolerance)).all():
            return False
    return True


def check_rounding(models: Mapping[str, Any]) -> None:
    """Refuse probabilities that were rounded so much that rows no longer sum to one.

    Rows that miss one by more than rounding does are left to the checks of the library.
    """
    for values in map(np.asarray, models.values()):
        tolerance = HALF_SUM_TOLERANCE if values.dtype == np.float16 else SUM_TOLERANCE
        first, rounded = None, True
        for rows in row_blocks(*values.shape):
            off = np.abs(values[rows].sum(axis=1, dtype=np.float64) - 1)
            rounded = rounded and bool((off <= ROUNDED).all())
            if first is None and (off > tolerance).any():
                first = rows.start + int(np.argmax(off > tolerance))
        if first is not None and rounded:
            total = float(values[first].sum(dtype=np.float64))
            raise InvalidInput(
                f"probabilities were rounded too much: row {first} sums to {total:.6g}; write them "
                "with six digits or more, or have rows divided by their sums: --renormalize."
            )


@dataclass(frozen=True)
class Batch:
    """Outputs of models on some rows.

    Parameters
    ----------
    name : str
        For titles: the stem of the file, or the data set.
    outputs : dict of str to array of shape (n, K)
        By model; a single model without a name is called ``""``.
    labels : integer array of shape (n,) or None
        True class indices, where they were asked for.
    classes : tuple or None
        Names of the classes.
    kind : {"probs", "logits", "logprobs", "shares", "binary"}
        What the outputs are: as said, else as they look.
    kept : dict of str to list
        Columns that were to be kept, one value per row.

    Examples
    --------
    >>> batch = Sources("cifar10", only=("vgg16",), part=":100").read(labelled=True)
    >>> batch.n, batch.kind, batch.outputs["vgg16"].shape
    (100, 'logits', (100, 10))
    """

    name: str
    outputs: dict[str, Any]
    labels: IntArray | None
    classes: tuple[Any, ...] | None
    kind: Form
    kept: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(next(iter(self.outputs.values())))

    def labels_for(self, classes: tuple[Any, ...] | None) -> Any:
        """Return the labels as `fit`, metrics and predictors with these class names take them.

        Integers beside names that are numbers would be taken for names, so names they are.

        Examples
        --------
        >>> batch = Batch("", {"": np.eye(2)}, np.array([0, 1]), (7, 5), "probs")
        >>> batch.labels_for((7, 5)), batch.labels_for(("a", "b"))
        (array([7, 5]), array([0, 1]))
        """
        numbers = classes is not None and not any(isinstance(name, str) for name in classes)
        return np.asarray(classes)[self.labels] if numbers else self.labels


@dataclass(frozen=True)
class Sources:
    """Where the rows are.

    Parameters
    ----------
    file : str or None
        A file, or the name of a bundled data set.
    models : mapping of str to str
        One file per model, by the name of the model, instead of `file`.
    labels : str or None
        A file of labels, where the outputs have none beside them.
    choice : Choice
        What to take from the files.
    only : tuple of str
        Which models of the files; empty for all.
    part : str or None
        Which rows, as ``first:last`` counted from 0, the last one left out.
    kind : {"auto", "probs", "logits", "logprobs", "shares", "binary"}
        What the outputs are; ``auto`` looks whether all rows are distributions.
    limits : Limits
        How much memory all files together may ask for.
    renormalize : bool
        Whether probabilities are divided by the sum of their row.
    labels_from : {0, 1}
        What the first class is called where labels are numbers.

    Examples
    --------
    >>> Sources(models={"vgg": "vgg.csv", "resnet": "resnet.csv"}).read(labelled=True)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: vgg.csv does not exist or is no file.
    """

    file: str | None = None
    models: Mapping[str, str] | None = None
    labels: str | None = None
    choice: Choice = field(default_factory=Choice)
    only: tuple[str, ...] = ()
    part: str | None = None
    kind: str = "auto"
    limits: Limits = field(default_factory=Limits)
    renormalize: bool = False
    labels_from: int = 0

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        named = [self.file, *(self.models or {}).values(), self.labels]
        return [Path(name) for name in named if name is not None]

    def told_in_lines(self) -> AbstractContextManager[None]:
        """Return the context in which refusals of rows that were read name lines of their file."""
        first = int((self.part or "").strip().partition(":")[0] or 0)
        return told_in_lines(self.paths[0], first)

    def read(self, *, labelled: bool) -> Batch:
        """Return the rows; with labels where they are needed.

        Examples
        --------
        >>> Sources("cifar10", only=("vgg16",), part=":100").read(labelled=True).n
        100
        """
        check_kind(self.kind)
        if (self.file is None) == (not self.models):
            raise InvalidInput("give one file of outputs, or one --model NAME=FILE for each model.")
        contents = [_bundled(self.file)] if _is_bundled(self.file) else self._contents()
        outputs = _chosen(contents, self.only)
        source = self._label_source(contents) if labelled else None
        # A bundled data set says itself what it holds.
        asked = "logits" if _is_bundled(self.file) else self.kind
        kind = guess_kind(outputs) if asked == "auto" else asked
        if kind == "binary" and asked == "auto" and _has_a_lone_label(source):
            kind = "probs"  # a slip of the pen, and no second class
        n, n_classes = next(iter(outputs.values())).shape
        if kind == "binary":
            n_classes = 2
        classes = self._classes(contents, source, kind)
        if classes is not None and len(classes) != n_classes:
            raise InvalidInput(
                f"{contents[0].path} names {len(classes)} classes, and its outputs have "
                f"{n_classes} columns."
            )
        if self.labels_from and classes is None:
            classes = tuple(range(self.labels_from, self.labels_from + n_classes))
        labels = None
        if source is not None:
            found = self._counted(source, classes)
            with told_in_lines(source[1]):
                labels = _indices(*found, classes, n, n_classes)
        rows = parse_part(self.part, n)
        outputs = {name: values[rows] for name, values in outputs.items()}
        if kind == "probs" and self.renormalize:
            kind = "shares"
        if kind == "probs":
            with self.told_in_lines():
                check_rounding(outputs)
        name = Path(self.file or next(iter(self.models or {}), "")).stem
        labels = None if labels is None else labels[rows]
        kept = self._kept(contents, n, rows)
        return Batch(name, outputs, labels, classes, kind, kept)  # type: ignore[arg-type]

    def _kept(self, contents: list[Contents], n: int, rows: slice) -> dict[str, list[Any]]:
        """Return the columns to be kept, of the first file."""
        if self.choice.keep and not contents[0].kept:
            raise missing(contents[0].path, "column to keep", self.choice.keep[0], [])
        for name, values in contents[0].kept.items():
            if len(values) != n:
                raise InvalidInput(
                    f"{contents[0].path} holds {len(values):,} values of {name!r} for {n:,} rows "
                    "of outputs."
                )
        return {name: values[rows] for name, values in contents[0].kept.items()}

    def _classes(
        self, contents: list[Contents], source: tuple[Any, Path] | None, kind: str
    ) -> tuple[Any, ...] | None:
        """Return the names of the classes, as labels have them."""
        if self.choice.classes is not None:
            return self.choice.classes
        classes = next((one.classes for one in contents if one.classes is not None), None)
        if classes is None or source is None:
            return None if kind == "binary" else classes
        if kind == "binary":
            return _two_classes(classes, *source)
        return without_prefix(classes, source[0])

    def _counted(
        self, source: tuple[Any, Path], classes: tuple[Any, ...] | None
    ) -> tuple[Any, Path]:
        """Return labels that are positions counted from 0, wherever their count began."""
        labels, path = source
        positions = self.labels_from and not isinstance(labels, Labels)
        texts = any(isinstance(name, str) for name in classes or ())
        return (labels - self.labels_from, path) if positions and texts else source

    def _contents(self) -> list[Contents]:
        """Read every file once, the later ones in the class order of the first."""
        named = [("", self.file)] if self.file is not None else list((self.models or {}).items())
        contents: list[Contents] = []
        limits, choice = self.limits, self.choice
        if self.kind == "binary" and choice.classes is not None:
            # The probability of the second class; where classes are numbers, any one column.
            texts = all(isinstance(name, str) for name in choice.classes)
            choice = replace(choice, classes=choice.classes[1:] if texts else None)
        for name, file in named:
            one = aligned(read_contents(str(file), limits=limits, choice=choice), choice.classes)
            taken = sum(values.nbytes for values in one.models.values())
            limits = replace(limits, memory=max(limits.memory - taken, 1))
            if choice.classes is None:
                choice = replace(choice, classes=one.classes)
            choice = replace(choice, keep=())  # the first file says what its rows are called
            contents.append(_renamed(one, name) if name else one)
        return contents

    def _label_source(self, contents: list[Contents]) -> tuple[Any, Path]:
        """Return the labels as they stand in a file, and the file; all files must agree."""
        if self.labels is not None:
            choice = Choice(self.choice.label) if _is_table(self.labels) else Choice()
            contents = [read_contents(self.labels, limits=self.limits, choice=choice)]
        having = [one for one in contents if one.labels is not None]
        if not having:
            one = contents[0]
            listed = [*one.others, *one.models, *map(str, one.classes or ())]
            raise InvalidInput(
                f"{one.path} has no labels: none of {', '.join(map(repr, LABEL_NAMES))}; name "
                "them with --label-column, or give their file with --labels; it has "
                f"{a_few([name for name in listed if name])}."
            )
        first, *others = having
        for other in others:
            if not same_labels(first.labels, other.labels):
                raise InvalidInput(
                    f"{first.path} and {other.path} have different labels; their rows must be the "
                    "same, in the same order."
                )
        return first.labels, first.path


@contextmanager
def told_in_lines(path: Path, first: int = 0) -> Iterator[None]:
    """Say the line of a text file where a refusal speaks of a row, counted from `first` on."""
    try:
        yield
    except InvalidInput as error:
        row = re.search(r"\brow (\d{1,15})\b", str(error))
        if row is None or path.suffix.lower() not in (".csv", ".tsv") or not path.is_file():
            raise
        line = line_of(path, first + int(row[1]))
        before, after = str(error)[: row.start()], str(error)[row.end() :]
        raise InvalidInput(f"{before}line {line}{after}") from None


# What may stand before the name of the class whose probability a file holds.
BINARY_PREFIX = "p_"


def without_prefix(classes: tuple[Any, ...], labels: Any) -> tuple[Any, ...]:
    """Return names without what all of them begin with, where labels are named so: p_A, p_B.

    Examples
    --------
    >>> without_prefix(("p_A", "p_B"), Labels(["B", "A"], np.array([0, 1])))
    ('A', 'B')
    >>> without_prefix(("class_1", "class_2"), Labels(["class_2"], np.array([0])))
    ('class_1', 'class_2')
    """
    prefix = common_prefix(classes)
    if not prefix:
        return classes
    met = labels.names if isinstance(labels, Labels) else np.unique(labels).tolist()
    texts, bare = {str(one) for one in met}, [name[len(prefix) :] for name in classes]
    # Numbers beside names of text are positions; where both are the same, names stay what they are.
    positions = not isinstance(labels, Labels) and bare == [str(i) for i in range(len(bare))]
    if positions or not texts <= set(bare):
        return classes
    return tuple(int(one) for one in bare) if all(map(is_integer, bare)) else tuple(bare)


def _has_a_lone_label(source: tuple[Any, Path] | None) -> bool:
    """Whether labels are names of which one stands in a single row."""
    return source is not None and isinstance(source[0], Labels) and source[0].counts().min() < 2


def _two_classes(classes: tuple[Any, ...], labels: Any, path: Path) -> tuple[Any, ...] | None:
    """Return the names of two classes, the one whose probability a file holds last."""
    if not isinstance(labels, Labels):
        return None
    positive = str(classes[0])
    for name in (positive, positive.removeprefix(BINARY_PREFIX)):
        others = [one for one in labels.names if one != name]
        if name in labels.names and len(others) == 1:
            return (others[0], name)
    raise InvalidInput(
        f"{path} holds one column {positive[:40]!r}, which must be the probability of one of two "
        f"labels and have its name; labels are {a_few(labels.names)}; or write a column per class."
    )


def _is_table(file: str) -> bool:
    return Path(file).suffix.lower() in (".csv", ".tsv", ".parquet")


def _is_bundled(file: str | None) -> bool:
    if file is None or file in datasets.names():
        return file is not None
    if Path(file).suffix.lower() in READERS or Path(file).exists():
        return False
    if "/" not in file and "." not in file:
        raise unknown_name("data set or file", file, datasets.names())
    return False


def _bundled(name: str | None) -> Contents:
    data = datasets.load(str(name))
    return Contents(Path(str(name)), data.outputs, data.labels, "labels", data.class_names)


def aligned(contents: Contents, classes: tuple[Any, ...] | None) -> Contents:
    """Return the contents with their columns in the order of `classes`, where both have names.

    The columns change places where they are: a second array would double what reading takes.
    """
    if classes is None or contents.classes is None or contents.classes == classes:
        return contents
    names = [str(name) for name in contents.classes]
    if sorted(names) != sorted(map(str, classes)):
        raise InvalidInput(
            f"{contents.path} has other classes than expected: {a_few(names)} instead of "
            f"{a_few([str(name) for name in classes])}."
        )
    order = [names.index(str(name)) for name in classes]
    for values in contents.models.values():
        for rows in row_blocks(*values.shape):
            values[rows] = values[rows][:, order]
    return replace(contents, classes=classes)


def _renamed(contents: Contents, name: str) -> Contents:
    """Return the contents of a file of one model under the name that the user gave it."""
    if len(contents.models) > 1:
        raise InvalidInput(
            f"{contents.path} holds the models {a_few(list(contents.models))}; --model takes a "
            "file with one of them."
        )
    models = dict(zip([name], contents.models.values(), strict=False))
    return replace(contents, models=models)


def _chosen(contents: list[Contents], only: Sequence[str]) -> dict[str, Any]:
    outputs = {name: values for one in contents for name, values in one.models.items()}
    if not outputs:
        held = [*contents[0].others, *([contents[0].label_name] if contents[0].label_name else [])]
        raise InvalidInput(
            f"{contents[0].path} holds no outputs, an array of numbers (n, K); it has "
            f"{a_few(held)}."
        )
    for name in only:
        if name not in outputs:
            raise missing(contents[0].path, "model", name, list(outputs))
    return {name: outputs[name] for name in only} if only else outputs


def _indices(
    labels: Any, path: Path, classes: tuple[Any, ...] | None, n: int, n_classes: int
) -> IntArray:
    """Return labels as class indices, or say which label no class has."""
    if len(labels) != n:
        raise InvalidInput(f"{path} holds {len(labels):,} labels for {n:,} rows of outputs.")
    if isinstance(labels, Labels):
        return _named_indices(labels, path, classes)
    values = np.asarray(labels)
    blocks = list(row_blocks(n, 1))  # Python's integers take four times the room
    whole = values.dtype.kind == "f" and all(
        bool((values[rows] == np.floor(values[rows])).all()) for rows in blocks
    )
    by_name = _are_names(values, path, classes)
    indices = np.empty(n, dtype=np.intp)
    for rows in blocks:
        some = values[rows].astype(np.int64) if whole else values[rows]
        if by_name:
            numbers, codes = np.unique(some, return_inverse=True)
            texts = Labels([str(number) for number in numbers.tolist()], codes)
            indices[rows] = _named_indices(texts, path, classes)
            continue
        try:
            indices[rows] = label_indices(some, classes, len(some), n_classes, first=rows.start)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None
    return indices


def _named_indices(labels: Labels, path: Path, classes: tuple[Any, ...] | None) -> IntArray:
    """Return class indices of labels that are names, or say which label no class has."""
    if classes is None:
        raise InvalidInput(
            f"{path} holds labels such as {labels.names[labels.codes[0]][:40]!r}, and no class "
            "names; add an array 'class_names' in the order of the columns, or use integers."
        )
    names = tuple(map(str, classes))
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidInput(f"{path} has two classes {twice[:40]!r}; labels cannot tell them apart.")
    indices = indices_of(labels, names)
    if isinstance(indices, int):
        what = f"class for row {indices}, whose label is"
        raise missing(path, what, labels.names[labels.codes[indices]], names)
    return indices


def _are_names(values: Any, path: Path, classes: tuple[Any, ...] | None) -> bool:
    """Return whether integers are names of classes of which some are no numbers: 1, 2, other."""
    if values.dtype.kind not in "iu" or not any(isinstance(name, str) for name in classes or ()):
        return False
    known = set(map(str, classes or ()))
    some, every = False, True
    for rows in row_blocks(len(values), 1):
        named = [str(value) in known for value in np.unique(values[rows]).tolist()]
        some, every = some or any(named), every and all(named)
    if some and not every:
        raise InvalidInput(
            f"{path} holds labels of which some are names of classes and some are not; give the "
            "names of all, or name the classes otherwise."
        )
    return every


def parse_part(text: str | None, n: int) -> slice:
    """Return the rows of a text such as ``:5000`` or ``5000:``."""
    if text is None:
        return slice(0, n)
    match = re.fullmatch(r"(\d{0,15}):(\d{0,15})", text.strip())
    if match is None:
        raise InvalidInput(f"a part is FIRST:LAST, such as :5000 or 5000:; got {text!r}.")
    first, last = int(match[1] or 0), min(int(match[2] or n), n)
    if first >= last:
        raise InvalidInput(f"the part {text!r} holds none of the {n:,} rows.")
    return slice(first, last)
