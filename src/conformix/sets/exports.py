"""Prediction sets as tables: frames, csv and parquet, in three layouts.

``sets``
    One row per set: its size and its labels, best first. Ragged.
``long``
    One row per label of a set: which row, its rank within the set (1 is best), the label.
``wide``
    One column per class, 1 where the label is in. Fixed width.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from conformix.atomic import as_path, write_whole
from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray
from conformix.registry import unknown_name

Layout: TypeAlias = Literal["sets", "long", "wide"]
LAYOUTS = ("sets", "long", "wide")
# What makes a spreadsheet take a cell of text for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MIXED = "a column of parquet holds values of one type; make all class names (and ids) text."


def columns(
    mask: BoolArray,
    members: Callable[[], list[list[Any]]],
    classes: Sequence[Any],
    *,
    layout: Layout = "sets",
    ids: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return the columns of a table of sets, by name.

    Parameters
    ----------
    mask : boolean array of shape (n, K)
        The sets.
    members : function without arguments
        Gives the labels of every set, best first.
    classes : sequence of length K
        Names of the classes.
    layout : {"sets", "long", "wide"}
        What a row is; see the module.
    ids : sequence of length n, optional
        What the rows are called, as a first column ``id``.

    Examples
    --------
    >>> mask = np.array([[True, True], [False, True]])
    >>> columns(mask, lambda: [["b", "a"], ["b"]], ["a", "b"], layout="long")["label"]
    ['b', 'a', 'b']
    >>> list(columns(mask, list, ["a", "b"], layout="wide"))
    ['a', 'b']
    """
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, list(LAYOUTS))
    n = len(mask)
    if ids is not None and len(ids) != n:
        raise InvalidInput(f"ids must hold one value per set; got {len(ids)} for {n} sets.")
    named = None if ids is None else list(ids)
    if layout == "long":
        return _long(members(), named)
    first = {} if named is None else {"id": named}
    if layout == "sets":
        return first | {"size": mask.sum(axis=1), "labels": members()}
    names = [str(name) for name in classes]
    if len({*first, *names}) < len(first) + len(names):
        raise InvalidInput(
            'layout "wide" needs classes of different names (and none called "id" beside ids); '
            'use layout "long".'
        )
    return first | {name: mask[:, k] for k, name in enumerate(names)}


def _long(members: list[list[Any]], ids: list[Any] | None) -> dict[str, Any]:
    sizes = [len(own) for own in members]
    rows: Any = np.repeat(np.arange(len(members)), sizes)
    ranks = [rank for size in sizes for rank in range(1, size + 1)]
    flat = [label for own in members for label in own]
    where = {"row": rows} if ids is None else {"id": [ids[i] for i in rows]}
    return where | {"rank": np.array(ranks, dtype=np.int64), "label": flat}


def write_csv(
    path: str | os.PathLike[str],
    table: dict[str, Any],
    *,
    separator: str = "|",
    escape_formulas: bool = False,
) -> None:
    r"""Write the columns of a table as csv (RFC 4180, UTF-8), whole or not at all.

    Parameters
    ----------
    path : path
        The file.
    table : dict of columns
        From `columns`.
    separator : str
        Joins the labels of a set. A label that holds it is refused.
    escape_formulas : bool
        Put a ``'`` before text that a spreadsheet would take for a formula.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(f"{folder}/sets.csv", {"size": [2, 0], "labels": [["a", "b"], []]})
    ...     Path(f"{folder}/sets.csv").read_bytes()
    b'size,labels\r\n2,a|b\r\n0,\r\n'
    """

    def cell(value: Any) -> Any:
        if isinstance(value, list):
            value = _joined(value, separator)
        if isinstance(value, bool | np.bool_):
            return int(value)
        risky = escape_formulas and isinstance(value, str) and value.startswith(FORMULA_STARTS)
        return f"'{value}" if risky else value

    def fill(file: IO[bytes]) -> None:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(text)
        writer.writerow([cell(name) for name in table])
        writer.writerows([cell(value) for value in row] for row in _rows(table))
        text.flush()
        text.detach()

    write_whole(as_path(path), fill)


def _rows(table: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_plain(column) for column in table.values()), strict=True)


def _plain(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _joined(labels: list[Any], separator: str) -> str:
    texts = [str(label) for label in labels]
    clash = next((text for text in texts if separator in text), None)
    if clash is not None:
        raise InvalidInput(
            f"label {clash!r} holds the separator {separator!r}; give another separator, or use "
            'layout "long".'
        )
    return separator.join(texts)


def write_parquet(path: str | os.PathLike[str], table: dict[str, Any]) -> None:
    """Write the columns of a table as parquet, whole or not at all; labels stay lists.

    Examples
    --------
    >>> import tempfile, pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_parquet(f"{folder}/sets.parquet", {"size": [2], "labels": [["a", "b"]]})
    ...     pq.read_table(f"{folder}/sets.parquet").to_pylist()
    [{'size': 2, 'labels': ['a', 'b']}]
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, loaded where it is used
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            'parquet needs pyarrow: pip install "conformix[frames]"; to_csv needs nothing.'
        ) from None
    try:
        made = pa.table({name: pa.array(_column(column)) for name, column in table.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InvalidInput(MIXED) from None
    write_whole(as_path(path), lambda file: pq.write_table(made, file))


def _column(column: Any) -> Any:
    return np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column
