"""Prediction sets: a boolean (n, K) array with manners, its tables, and its files.

Frames, csv and parquet have three layouts:

``sets``
    One row per set: its size and its labels, best first. Ragged.
``long``
    One row per label of a set: which row, its rank within the set (1 is best), the label.
``wide``
    One column per class, 1 where the label is in. Fixed width.
"""

from __future__ import annotations

import csv
import html
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from conformix.atomic import as_path, write_whole
from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput, pip_line
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    beside,
    host_array,
    is_tensor,
    n_true,
    plain_tensor,
    refuse_masked,
    to_device,
    to_host,
    torch_module,
)
from conformix.registry import unknown_name

__all__ = ["NestedSets", "PredictionSets", "write_sets"]


if TYPE_CHECKING:
    import pandas as pd


Layout: TypeAlias = Literal["sets", "long", "wide"]
LAYOUTS = ("sets", "long", "wide")
# Columns of our own, which no kept one may be called.
TAKEN = ("id", "row", "size", "labels", "rank", "label")
# Rows, and labels of a row, that a notebook shows.
SHOWN = 10
# Names up to this length are not broken in two.
SHORT = 24
# What makes a spreadsheet take a cell of text for a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MIXED = "a column of parquet holds values of one type; make all class names (and ids) text."


class PredictionSets(np.lib.mixins.NDArrayOperatorsMixin):
    """Prediction sets of n rows over K classes.

    Behaves as the boolean array ``mask``: operators, ufuncs, indexing and the methods of arrays
    work on it and give plain arrays; a slice, a list of numbers or a mask of rows gives sets again.
    Arrays are read-only, because the order of the labels belongs
    to the members: for other members, write into ``np.array(sets)`` or say ``sets &= allowed``,
    after which labels come in class order.

    Parameters
    ----------
    mask : boolean array or tensor of shape (n, K)
        ``mask[i, y]`` says whether label y is in the set of row i. The sets of a tensor are a
        tensor on the same device; ``np.asarray(sets)`` brings them to the host.
    classes : sequence of length K, optional
        Names of the classes; by default ``0 .. K-1``.
    order : integer array of shape (total size,), optional
        The labels in the sets, row after row, best first within a row: two bytes or fewer per
        label up to 65,536 classes, however many classes there are. Without it labels come in
        class order.
    ids : sequence of length n, optional
        What the rows are called: the index of a frame that was predicted. They go with the rows
        into slices, frames and files.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False], [True, True]]), classes=["cat", "dog"])
    >>> sets
    PredictionSets(2 sets over 2 classes, mean size 1.50)
    >>> sets.labels(1)
    ['cat', 'dog']
    >>> sets.sum(), (~sets)[0]
    (np.int64(3), array([False,  True]))
    >>> sets[1:]
    PredictionSets(1 sets over 2 classes, mean size 2.00)
    """

    def __init__(
        self,
        mask: Any,
        classes: Sequence[Any] | None = None,
        order: IntArray | None = None,
        *,
        ids: Sequence[Any] | None = None,
    ) -> None:
        mask = plain_tensor(mask, "mask") if is_tensor(mask) else host_array(mask, "mask")
        if mask.ndim != 2 or str(mask.dtype) not in ("bool", "torch.bool"):
            raise InvalidInput(
                f"mask must be a boolean (n, K) array; got {mask.dtype} of shape "
                f"{tuple(mask.shape)}."
            )
        check_names(classes, mask.shape[1])
        if order is not None and len(order) != n_true(mask):
            raise InvalidInput(
                f"order must hold every label of every set, {n_true(mask)} in all; got "
                f"{len(order)}."
            )
        check_ids(ids, len(mask))
        self._mask: BoolArray = mask
        self.classes = plain_names(classes)
        self.order = order
        self.ids = plain_names(ids)

    @property
    def mask(self) -> BoolArray:
        """Which labels are in, shape (n, K): a read-only view (of a tensor, the tensor itself)."""
        if is_tensor(self._mask):
            return self._mask
        view = self._mask.view()
        view.flags.writeable = False
        return view

    @property
    def shape(self) -> tuple[int, int]:
        """``(n, K)``."""
        return self.mask.shape[0], self.mask.shape[1]

    @property
    def sizes(self) -> IntArray:
        """Number of labels in every set, shape (n,)."""
        return self.mask.sum(axis=1)

    def labels(self, i: Any) -> list[Any]:
        """Return the labels in set i, best first, as class names where there are any.

        A row may be called by its text, where `ids` has it. Best is the highest combined score;
        sets made without scores list labels in class order.
        """
        i = self._place(i)
        row = np.asarray(self)[i]
        members = np.flatnonzero(row).tolist()
        if self.order is not None:
            stop = int(self._stops()[i])
            members = self.order[stop - len(members) : stop].tolist()
        return members if self.classes is None else [self.classes[y] for y in members]

    def _place(self, i: Any) -> int:
        """Return the place of a row, from its place or from what it is called."""
        if np.ndim(i) == 0 and np.asarray(i).dtype.kind in "iu":
            return int(i)
        called = "" if self.ids is None else ", or what the row is called in ids"
        if self.ids is None or i not in self.ids:
            last = len(self._mask) - 1
            raise InvalidInput(
                f"labels takes the place of one row, 0 to {last}{called}; got {i!r}."
            )
        return self.ids.index(i)

    def members(self) -> list[list[Any]]:
        """Return the labels of every set: ``labels(i)`` for all i, in one go."""
        flat = np.nonzero(np.asarray(self))[1] if self.order is None else self.order
        names = flat.tolist() if self.classes is None else [self.classes[y] for y in flat.tolist()]
        stops = self._stops().tolist()
        return [names[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]

    def _stops(self) -> IntArray:
        """Return where the labels of every row end in `order`, shape (n,)."""
        if "_ends" not in self.__dict__:
            self._ends = np.cumsum(np.asarray(self).sum(axis=1))
        return self._ends

    def to_frame(
        self,
        layout: Layout = "sets",
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
    ) -> pd.DataFrame:
        """Return a pandas frame; rows that have `ids` of their own are its index.

        Parameters
        ----------
        layout : {"sets", "long", "wide"}
            ``sets``: one row per set, its size and its labels, best first. ``long``: one row per
            label of a set, with its rank, 1 for the best. ``wide``: one boolean column per class.
        ids : sequence of length n, optional
            What the rows are called, as a first column ``id``.
        keep : mapping of str to sequence of length n, optional
            Further columns, one value per set, to stand before the sets.

        Examples
        --------
        >>> sets = PredictionSets(np.array([[True, True]]), ["cat", "dog"], np.array([1, 0]))
        >>> sets.to_frame()
           size      labels
        0     2  [dog, cat]
        """
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        if ids is None and self.ids is not None and layout != "long":
            return pd.DataFrame(self._columns(layout, None, keep), index=pd.Index(self.ids))
        return pd.DataFrame(self._columns(layout, self.ids if ids is None else ids, keep))

    def to_csv(
        self,
        path: str | os.PathLike[str],
        layout: Layout = "sets",
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
        separator: str = "|",
        escape_formulas: bool = False,
    ) -> None:
        """Write a csv file, whole or not at all; numpy is all that it needs.

        Parameters
        ----------
        path : path
            The file.
        layout, ids, keep
            As in `to_frame`; ``wide`` has 0 and 1, and `ids` of the rows are a column.
        separator : str
            Joins the labels of a set in the layout ``sets``.
        escape_formulas : bool
            Names are written as they are. A spreadsheet takes text that begins with ``= + - @``
            for a formula: where names come from strangers and people open the file in one, say
            True, and such text gets a ``'`` in front.
        """
        table = self._columns(layout, self.ids if ids is None else ids, keep)
        write_csv(path, table, separator=separator, escape_formulas=escape_formulas)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        layout: Layout = "sets",
        *,
        ids: Sequence[Any] | None = None,
        keep: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        """Write a parquet file, whole or not at all; labels are a list column (needs pyarrow).

        Parameters
        ----------
        path : path
            The file.
        layout, ids, keep
            As in `to_csv`.
        """
        write_parquet(path, self._columns(layout, self.ids if ids is None else ids, keep))

    def _columns(
        self,
        layout: Layout,
        ids: Sequence[Any] | None,
        keep: Mapping[str, Sequence[Any]] | None = None,
    ) -> dict[str, Any]:
        mask = np.asarray(self)
        names = range(mask.shape[1]) if self.classes is None else self.classes
        return columns(mask, self.members, names, layout=layout, ids=ids, keep=keep)

    def __len__(self) -> int:
        return len(self.mask)

    def __getitem__(self, key: Any) -> Any:
        """Return sets for a slice, numbers or a mask of rows; else what the array has there."""
        rows = row_numbers(key, len(self))
        return self.mask[key] if rows is None else self._take(rows)

    def _take(self, rows: IntArray) -> PredictionSets:
        """Return the sets of some rows, whose labels keep their order."""
        order = self.order
        if order is not None:
            stops = self._stops()
            sizes = np.diff(stops, prepend=0)[rows]
            # Where the labels of each row begin, less those that come before in the result.
            first = stops[rows] - np.cumsum(sizes)
            order = order[np.repeat(first, sizes) + np.arange(sizes.sum())]
        ids = None if self.ids is None else [self.ids[row] for row in rows.tolist()]
        mask = self._mask[to_device(rows, self._mask)]
        return PredictionSets(mask, self.classes, order, ids=ids)

    def __iter__(self) -> Iterator[BoolArray]:
        return iter(self.mask)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        mask = to_host(self.mask)
        return mask if dtype is None and not copy else np.array(mask, dtype=dtype)

    def __dlpack__(self, **options: Any) -> Any:
        # The array is read-only, which DLPack cannot say: others get a copy of it.
        mask: Any = self._mask if is_tensor(self._mask) else np.array(self._mask)
        return mask.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._mask.__dlpack_device__()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "at" and isinstance(inputs[0], PredictionSets):  # which NumPy does not ask
            raise ValueError("sets are read-only; write into np.array(sets).")
        plain = [np.asarray(x) if isinstance(x, PredictionSets) else x for x in inputs]
        out = options.pop("out", ())
        # Other members go into an array of their own: this one may be shared, or not to be written.
        fresh = [np.array(x) if isinstance(x, PredictionSets) else x for x in out]
        if out:
            options["out"] = tuple(fresh)
        result = getattr(ufunc, method)(*plain, **options)
        for target, members in zip(out, fresh, strict=True):
            if isinstance(target, PredictionSets):
                target._become(members)
        return out[0] if len(out) == 1 else result  # ``sets &= allowed`` are sets again

    def _become(self, members: BoolArray) -> None:
        """Take other members, whose order is not known."""
        self._mask, self.order = beside(members, self._mask), None
        self.__dict__.pop("_ends", None)

    def __getattr__(self, name: str) -> Any:
        # Private names are never the array's: copying and pickling ask for them early.
        if name.startswith("_") or name == "mask":
            raise AttributeError(name)
        return getattr(self.mask, name)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        n, n_classes = self.shape
        mean = f"{n_true(self.mask) / n:.2f}" if n else "-"
        return f"PredictionSets({n:,} sets over {n_classes:,} classes, mean size {mean})"

    def _repr_html_(self) -> str:
        """Return a table of the first sets for a notebook, in the colours of its page."""
        first = self[:SHOWN]
        named = range(len(first)) if first.ids is None else first.ids
        cell = "padding:.15em .9em .15em 0;vertical-align:top"
        left_cell, right_cell = f"{cell};text-align:left", f"{cell};text-align:right"
        rows = "".join(
            f'<tr><th style="{left_cell};white-space:nowrap">{as_html(name)}</th>'
            f'<td style="{right_cell}">{len(labels)}</td>'
            f'<td style="{left_cell}">{_html_labels(labels)}</td></tr>'
            for name, labels in zip(named, first.members(), strict=True)
        )
        told = "labels" if self.order is None else "labels, best first"
        head = (
            f'<th style="{left_cell}"></th><th style="{right_cell}">size</th>'
            f'<th style="{left_cell}">{told}</th>'
        )
        return html_table(repr(self), head, rows, left=len(self) - len(first))


def html_table(title: str, head: str, rows: str, *, left: int) -> str:
    """Return a table of the first rows for a notebook, in the colours of its page."""
    more = f"<p>{left:,} more rows; <code>to_frame()</code> has them all.</p>" if left else ""
    style = "color:inherit;background:transparent;border-collapse:collapse"
    line = "border-bottom:1px solid currentColor"
    return (
        f'<div style="color:inherit"><p>{as_html(title)}</p><table style="{style}"><thead>'
        f'<tr style="{line}">{head}</tr></thead><tbody>{rows}</tbody></table>{more}</div>'
    )


def as_html(value: Any) -> str:
    """Return a value as text of a page."""
    return html.escape(str(value))


def _html_labels(labels: list[Any]) -> str:
    if not labels:
        return "<i>empty</i>"
    left = len(labels) - SHOWN
    more = f", … {left:,} more" if left > 0 else ""
    return ", ".join(_whole(str(name)) for name in labels[:SHOWN]) + more


def _whole(name: str) -> str:
    """Return a name that stays on one line, unless it is long."""
    breaks = " " in name or "-" in name
    if not breaks or len(name) > SHORT:
        return as_html(name)
    return f'<span style="white-space:nowrap">{as_html(name)}</span>'


def row_numbers(key: Any, n: int) -> IntArray | None:
    """Return which rows a key takes, if it is a slice, a list of numbers or a mask of rows."""
    if isinstance(key, slice):
        return np.arange(n)[key]
    if isinstance(key, tuple) or not hasattr(key, "__len__"):
        return None
    key = to_host(key) if is_tensor(key) else np.asarray(key)
    if key.ndim != 1 or (key.dtype.kind not in "biu" and len(key)):
        return None
    return np.arange(n)[key if len(key) else slice(0)]


def check_names(classes: Any, n_classes: int) -> None:
    """Refuse names that are no sequence, or not one per column."""
    if classes is None:
        return
    refuse_masked(classes, "classes")
    if not hasattr(classes, "__len__") or isinstance(classes, bytes | type):
        raise InvalidInput(f"classes must be a sequence of names; got {type(classes).__name__}.")
    if len(classes) != n_classes:
        raise InvalidInput(f"classes must name all {n_classes} columns; got {len(classes)} names.")


def check_ids(ids: Any, n: int) -> None:
    """Refuse names of rows that are not one per row."""
    if ids is not None and len(ids) != n:
        raise InvalidInput(f"ids must hold one value per set; got {len(ids)} for {n} sets.")


def plain_names(classes: Any) -> list[Any] | None:
    """Return class names as a list of Python's own values."""
    if classes is None:
        return None
    return list(classes.tolist() if hasattr(classes, "tolist") else classes)


class NestedSets:
    """Prediction sets of the same rows at several levels, in one small array.

    Sets grow as alpha shrinks, so per label one number is enough: at how many of the levels it
    is in.

    Parameters
    ----------
    depth : integer array of shape (n, K)
        At how many levels, counted from the smallest alpha, the label is in the set.
    alphas : sequence of float
        The levels, rising.
    classes, order, ids
        As in `PredictionSets`, with the order of the largest sets: those of the smallest alpha.

    Examples
    --------
    >>> nested = NestedSets(np.array([[2, 1, 0]], dtype=np.uint8), [0.05, 0.1])
    >>> nested
    NestedSets(1 rows over 3 classes at alpha 0.05, 0.1)
    >>> nested.at(0.05).labels(0), nested.at(0.1).labels(0)
    ([0, 1], [0])
    >>> nested.sizes
    array([[2],
           [1]])
    >>> np.asarray(nested).shape
    (2, 1, 3)
    """

    def __init__(
        self,
        depth: IntArray,
        alphas: Sequence[float],
        classes: Sequence[Any] | None = None,
        order: IntArray | None = None,
        *,
        ids: Sequence[Any] | None = None,
    ) -> None:
        self.depth = depth
        self.alphas = tuple(float(simple_fraction(alpha)) for alpha in alphas)
        self.classes = plain_names(classes)
        self.order = order
        self.ids = plain_names(ids)

    def at(self, alpha: float) -> PredictionSets:
        """Return the sets at one of the levels; ``at(1 - 0.7)`` finds 0.3."""
        level = place_of_level(self.alphas, alpha)
        order = self.order
        if order is not None:
            depth = to_host(self.depth)
            rows = np.repeat(np.arange(len(depth)), (depth > 0).sum(axis=1))
            order = order[depth[rows, order] > level]
        return PredictionSets(self.depth > level, self.classes, order, ids=self.ids)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per level and set: its size and its labels."""
        import pandas as pd  # noqa: PLC0415  an extra, loaded where it is used

        frames = {alpha: self.at(alpha).to_frame() for alpha in self.alphas}
        return pd.concat(frames, names=["alpha", "row"]).reset_index()

    @property
    def sizes(self) -> IntArray:
        """Set sizes by level, shape (number of levels, n)."""
        rows = [(self.depth > i).sum(axis=1) for i in range(len(self.alphas))]
        return torch_module().stack(rows) if is_tensor(self.depth) else np.stack(rows)

    @property
    def mean_sizes(self) -> FloatArray:
        """Mean set size at every level."""
        return to_host(self.sizes).mean(axis=1)

    def __len__(self) -> int:
        return len(self.depth)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the sets of all levels, shape (number of levels, n, K), rising in alpha."""
        depth = to_host(self.depth)
        masks = depth > np.arange(len(self.alphas))[:, None, None]
        return masks if dtype is None else masks.astype(dtype)

    def __repr__(self) -> str:
        n, n_classes = self.depth.shape
        levels = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        return f"NestedSets({n:,} rows over {n_classes:,} classes at alpha {levels})"


def place_of_level(alphas: Sequence[float], alpha: float) -> int:
    """Return which of the predicted levels is asked for.

    Examples
    --------
    >>> place_of_level([0.1, 0.3], 1 - 0.7)
    1
    """
    wanted = float(simple_fraction(alpha))
    if wanted not in alphas:
        raise InvalidInput(
            f"alpha must be one of the predicted levels {list(alphas)}; got {alpha!r}."
        )
    return list(alphas).index(wanted)


def columns(
    mask: BoolArray,
    members: Callable[[], list[list[Any]]],
    classes: Sequence[Any],
    *,
    layout: Layout = "sets",
    ids: Sequence[Any] | None = None,
    keep: Mapping[str, Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """Return the columns of a table of sets, by name."""
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, list(LAYOUTS))
    named, kept = leading_columns(len(mask), ids, keep, TAKEN)
    if layout == "long":
        return _long(members(), named, kept)
    first = ({} if named is None else {"id": named}) | kept
    if layout == "sets":
        return first | {"size": mask.sum(axis=1), "labels": members()}
    names = [str(name) for name in classes]
    if len({*first, *names}) < len(first) + len(names):
        raise InvalidInput(
            'layout "wide" needs classes of different names (and none called "id" beside ids, or '
            "like a column that is kept); "
            'use layout "long".'
        )
    return first | {name: mask[:, k] for k, name in enumerate(names)}


def leading_columns(
    n: int,
    ids: Sequence[Any] | None,
    keep: Mapping[str, Sequence[Any]] | None,
    taken: Sequence[str],
) -> tuple[list[Any] | None, dict[str, list[Any]]]:
    """Return what n rows are called and the columns to keep, which no other column is called."""
    check_ids(ids, n)
    kept = {name: list(values) for name, values in (keep or {}).items()}
    for name, values in kept.items():
        if len(values) != n or name in taken:
            raise InvalidInput(
                f"keep must hold one value per set under names other than {', '.join(taken)}; got "
                f"{len(values)} for {n} sets under {name!r}."
            )
    return None if ids is None else list(ids), kept


def _long(
    members: list[list[Any]], ids: list[Any] | None, kept: dict[str, list[Any]]
) -> dict[str, Any]:
    sizes = [len(labels) for labels in members]
    rows: Any = np.repeat(np.arange(len(members)), sizes)
    ranks = [rank for size in sizes for rank in range(1, size + 1)]
    flat = [label for labels in members for label in labels]
    where = {"row": rows} if ids is None else {"id": [ids[i] for i in rows]}
    where |= {name: [values[i] for i in rows] for name, values in kept.items()}
    return where | {"rank": np.array(ranks, dtype=np.int64), "label": flat}


def write_csv(
    path: str | os.PathLike[str],
    table: dict[str, Any],
    *,
    separator: str = "|",
    escape_formulas: bool = False,
) -> None:
    r"""Write the columns of a table as csv (RFC 4180, UTF-8), whole or not at all."""

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
    return zip(*(_values(column) for column in table.values()), strict=True)


def _values(column: Any) -> list[Any]:
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
    """Write the columns of a table as parquet, whole or not at all; labels stay lists."""
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, loaded where it is used
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(
            f"parquet needs pyarrow: {pip_line('frames')}; to_csv needs nothing."
        ) from None
    try:
        made = pa.table({name: pa.array(_column(column)) for name, column in table.items()})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InvalidInput(MIXED) from None
    write_whole(as_path(path), lambda file: pq.write_table(made, file))


def _column(column: Any) -> Any:
    return np.ascontiguousarray(column) if isinstance(column, np.ndarray) else column


def write_sets(batches: Iterable[PredictionSets], path: str | os.PathLike[str]) -> int:
    """Write sets to a Parquet file, one batch in memory at a time; return the number of rows.

    The file has two columns: ``row``, counted from 0, and ``labels``, the members of the set as a
    list, best first; class names where the sets have them. Rows with names of their own have a
    column ``id`` between. It is there whole or not at all.

    Parameters
    ----------
    batches : iterable of PredictionSets
        Usually ``cp.predict_batches(...)``.
    path : path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow.parquet as pq
    >>> sets = [PredictionSets(np.array([[True, False]])), PredictionSets(np.array([[True, True]]))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sets(sets, f"{folder}/sets.parquet")
    ...     pq.read_table(f"{folder}/sets.parquet").to_pylist()
    2
    [{'row': 0, 'labels': [0]}, {'row': 1, 'labels': [0, 1]}]
    """
    try:
        import pyarrow as pa  # noqa: PLC0415  an extra, loaded where it is used
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise InvalidInput(f"parquet needs pyarrow: {pip_line('frames')}.") from None
    total = 0

    def fill(file: IO[bytes]) -> None:
        nonlocal total
        writer = None
        try:
            for sets in batches:
                table = _table(pa, sets, total)
                writer = writer or pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
                total += len(sets)
        finally:
            if writer is not None:
                writer.close()
        if writer is None:
            raise InvalidInput("there are no sets to write: the batches are empty.")

    write_whole(as_path(path), fill)
    return total


def _table(pa: Any, sets: PredictionSets, first: int) -> Any:
    mask = np.asarray(sets)
    flat = np.nonzero(mask)[1] if sets.order is None else sets.order
    members = pa.array(flat.astype(np.int32))
    try:
        values = members if sets.classes is None else pa.array(sets.classes).take(members)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise InvalidInput(MIXED) from None
    stops = pa.array(np.concatenate([[0], np.cumsum(mask.sum(axis=1))]), pa.int64())
    labels = pa.LargeListArray.from_arrays(stops, values)
    named = {} if sets.ids is None else {"id": pa.array(sets.ids)}
    row = pa.array(np.arange(first, first + len(mask)))
    return pa.table({"row": row, **named, "labels": labels})
