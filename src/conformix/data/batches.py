"""Rows that do not fit in memory: batches of memory-mapped files, Parquet files and iterators.

`ScoreAverage.fit_batches` and `ScoreAverage.predict_batches` take what is made here, or any
iterable of batches. A fit reads every row once where that is enough, and once more for the
held-out size where the rows can be read again; docs/doors.md says what takes several passes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from conformix.data.checks import release_pages
from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput, pip_line, shown
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import row_blocks
from conformix.registry import takes

__all__ = [
    "Batches",
    "from_arrays",
    "from_iterable",
    "from_npy",
    "from_parquet",
]


# Numbers in a batch that a source cuts itself (32 MiB of float64).
BATCH_ENTRIES = 2**22

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of rows, in order, and what is known of them.

    A batch is a tuple ``(outputs, y)``, or ``(outputs, y, {"strata": ..., "groups": ...})`` where
    rows bring more along (``strata``, ``sample_weight`` and ``groups`` of `ScoreAverage.fit`).
    `outputs` is what `ScoreAverage.fit` takes, y is None where there are no labels.

    Parameters
    ----------
    begin : callable
        Returns the batches afresh: an iterator, or anything that can be iterated over.
    n : int or None
        The number of rows, where it is known beforehand.
    again : bool
        Whether `begin` may be called a second time.

    Examples
    --------
    >>> batches = Batches(lambda: iter([([[0.9, 0.1]], [0]), ([[0.3, 0.7]], [1])]))
    >>> [len(outputs) for outputs, y in batches]
    [1, 1]
    """

    begin: Callable[[], Iterable[Any]]
    n: int | None = None
    again: bool = True

    def __iter__(self) -> Iterator[Any]:
        batches = self.begin()
        if not hasattr(batches, "__iter__"):
            raise InvalidInput(
                "a function of batches must return an iterable of (outputs, y); got "
                f"{type(batches).__name__}."
            )
        return iter(batches)


def from_arrays(
    outputs: Any,
    y: Any = None,
    *,
    rows: int | None = None,
    strata: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
) -> Batches:
    """Return batches of arrays, in memory or mapped from files, whose pages are let go.

    Parameters
    ----------
    outputs : array of shape (n, K), or a mapping of such
        Of one or several models.
    y : array of shape (n,), optional
        True labels.
    rows : int, optional
        Rows of a batch; by default as many as make about four million numbers.
    strata, sample_weight, groups : array of shape (n,), optional
        What rows bring along, as in `ScoreAverage.fit`.

    Examples
    --------
    >>> batches = from_arrays(np.full((5, 4), 0.25), np.zeros(5, dtype=int), rows=2)
    >>> batches.n, [outputs.shape for outputs, y in batches]
    (5, [(2, 4), (2, 4), (1, 4)])
    """
    models = outputs if isinstance(outputs, Mapping) else {"": outputs}
    shapes = {name: np.shape(values) for name, values in models.items()}
    n, n_classes = _common_shape(shapes)
    if y is not None and len(y) != n:
        raise InvalidInput(f"y must hold one label per row; got {len(y)} for {n} rows.")
    extras = _brought(strata=strata, sample_weight=sample_weight, groups=groups)
    for name, values in extras.items():
        if len(values) != n:
            raise InvalidInput(
                f"{name} must hold one value per row; got {len(values)} for {n} rows."
            )
    cut = _rows_of(rows, n_classes * len(models))

    def begin() -> Iterator[Any]:
        for block in row_blocks(n, 1, cut):
            part = {name: values[block] for name, values in models.items()}
            given = part if isinstance(outputs, Mapping) else part[""]
            labels = None if y is None else y[block]
            row_data = {name: values[block] for name, values in extras.items()}
            yield (given, labels, row_data) if row_data else (given, labels)
            for values in models.values():
                release_pages(values)

    return Batches(begin, n)


def from_npy(
    outputs: PathLike | Mapping[str, PathLike],
    labels: PathLike | None = None,
    *,
    rows: int | None = None,
    strata: PathLike | None = None,
    sample_weight: PathLike | None = None,
    groups: PathLike | None = None,
) -> Batches:
    """Return batches of ``.npy`` files, which are mapped and never read whole.

    Parameters
    ----------
    outputs : path, or a mapping of such
        Files of arrays (n, K), one per model.
    labels : path, optional
        A file of true labels (n,).
    rows : int, optional
        Rows of a batch.
    strata, sample_weight, groups : path, optional
        Files of what rows bring along (n,).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/probs.npy", np.full((6, 2), 0.5, dtype=np.float32))
    ...     from_npy(f"{folder}/probs.npy").n
    6
    """
    if isinstance(outputs, Mapping):
        mapped: Any = {name: _mapped(path) for name, path in outputs.items()}
    else:
        mapped = _mapped(outputs)
    extras = _brought(strata=strata, sample_weight=sample_weight, groups=groups)
    return from_arrays(
        mapped, None if labels is None else _mapped(labels), rows=rows,
        **{name: _mapped(path) for name, path in extras.items()},
    )  # fmt: skip


def from_parquet(
    paths: PathLike | Sequence[PathLike],
    outputs: str | Sequence[str] | Mapping[str, str | Sequence[str]],
    y: str | None = None,
    *,
    strata: str | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    rows: int | None = None,
) -> Batches:
    """Return batches of Parquet files, read one after the other.

    Parameters
    ----------
    paths : path or sequence of paths
        The files, in the order of the rows.
    outputs : str, sequence of str, or a mapping of such
        The columns of the outputs, one per class, or one column whose cells are lists of K
        numbers; by model where there are several.
    y, strata, sample_weight, groups : str, optional
        The columns of the true labels, and of what rows bring along.
    rows : int, optional
        Rows of a batch.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> table = pa.table({"cat": [0.9, 0.2], "dog": [0.1, 0.8], "true": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/rows.parquet")
    ...     batches = from_parquet(f"{folder}/rows.parquet", ["cat", "dog"], "true")
    ...     next(iter(batches))
    (array([[0.9, 0.1],
           [0.2, 0.8]]), array([0, 1]))
    """
    try:
        import pyarrow.parquet as pq  # noqa: PLC0415  an extra, loaded where it is used
    except ImportError:
        raise InvalidInput(f"parquet needs pyarrow: {pip_line('frames')}.") from None
    files = [Path(p) for p in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    models = outputs if isinstance(outputs, Mapping) else {"": outputs}
    extras = _brought(strata=strata, sample_weight=sample_weight, groups=groups)
    named = [c for columns in models.values() for c in _listed(columns)]
    named += [column for column in (y, *extras.values()) if column is not None]
    n = 0
    for file in files:
        if not file.is_file():
            raise InvalidInput(f"{file} does not exist or is no file.")
        whole = pq.ParquetFile(file)
        missing = [name for name in named if name not in whole.schema_arrow.names]
        if missing:
            raise InvalidInput(f"{file} has no column {missing[0]!r}.")
        n += whole.metadata.num_rows
    width = max(len(_listed(columns)) for columns in models.values())
    cut = _rows_of(rows, 1000 if width == 1 else width)

    def begin() -> Iterator[Any]:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=cut, columns=named):
                part = {name: _matrix(batch, columns) for name, columns in models.items()}
                values = part if isinstance(outputs, Mapping) else part[""]
                labels = None if y is None else _column(batch, y)
                row_data = {name: _column(batch, column) for name, column in extras.items()}
                yield (values, labels, row_data) if row_data else (values, labels)

    return Batches(begin, n)


def from_iterable(batches: Iterable[Any] | Callable[[], Iterable[Any]]) -> Batches:
    """Return batches that anything yields: a list, a generator, a function that returns one.

    An iterator is read once; a list or a function may be read again, as some settings need.

    Parameters
    ----------
    batches : iterable, or callable without arguments that returns one
        Yields ``(outputs, y)``.

    Examples
    --------
    >>> from_iterable([([[0.9, 0.1]], [0])]).again, from_iterable(iter([])).again
    (True, False)
    """
    if isinstance(batches, Batches):
        return batches
    if callable(batches):
        if not takes(batches, 0):
            raise InvalidInput(
                "a function of batches is called without arguments, and this one needs some; got "
                f"{shown(batches)}."
            )
        return Batches(batches)
    if not hasattr(batches, "__iter__"):
        raise InvalidInput(
            "batches must be an iterable of (outputs, y), a function that returns one, or a "
            f"source of conformix.data.batches; got {type(batches).__name__}."
        )
    fresh = not hasattr(batches, "__next__")
    return Batches(lambda: iter(batches), None, again=fresh)


def _brought(**columns: Any) -> dict[str, Any]:
    """Return what rows bring along, as far as it is given."""
    return {name: values for name, values in columns.items() if values is not None}


def _common_shape(shapes: dict[str, tuple[int, ...]]) -> tuple[int, int]:
    different = set(shapes.values())
    # One number per row is the probability of one of two classes, which `fit` is told.
    if len(different) != 1 or len(next(iter(different))) not in (1, 2):
        text = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items())
        raise InvalidInput(f"outputs must share one shape (n, K); got {text}.")
    n, *n_classes = next(iter(different))
    return n, n_classes[0] if n_classes else 1


def _rows_of(rows: int | None, width: int) -> int:
    if rows is None:
        return max(1, BATCH_ENTRIES // max(1, width))
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InvalidInput(f"rows must be a positive integer or None; got {rows!r}.")
    return int(rows)


def _mapped(path: PathLike) -> Any:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} is no .npy file that can be mapped: {error}.") from None


def _listed(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _column(batch: Any, name: str) -> Any:
    column = batch.column(name)
    if column.null_count:
        raise InvalidInput(f"column {name!r} must have a value in every row.")
    return column.to_numpy(zero_copy_only=False)


def _matrix(batch: Any, columns: str | Sequence[str]) -> Any:
    """Return the columns of a record batch side by side, or the lists of one column."""
    if not isinstance(columns, str):
        return np.column_stack([_column(batch, name) for name in columns])
    column = batch.column(columns)
    if column.null_count:
        raise InvalidInput(f"column {columns!r} must have a value in every row.")
    flat = column.flatten().to_numpy(zero_copy_only=False)
    if len(column) and len(flat) % len(column):
        raise InvalidInput(f"column {columns!r} must hold lists of one length.")
    lengths = np.asarray(column.value_lengths() if hasattr(column, "value_lengths") else [])
    if lengths.size and (lengths != lengths[0]).any():
        raise InvalidInput(f"column {columns!r} must hold lists of one length.")
    return flat.reshape(len(column), -1)


class RowSample:
    """The rows with the smallest of uniform numbers, one drawn per row: a uniform sample.

    The numbers follow the order of the rows, so that the sample does not depend on how the rows
    are cut into batches. A row that another one displaces leaves its place to it: memory is that
    of `size` rows.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        self.rng = rng
        self.numbers = np.empty(0)
        self.rows: IntArray = np.empty(0, dtype=np.int64)
        self.models: dict[str, FloatArray] = {}

    def offer(self, outputs: Outputs, first: int) -> None:
        """Let a block of rows take part, whose first row has the number `first`."""
        self._widen(outputs)
        drawn = self.rng.random(outputs.n)
        free = min(self.size - len(self.numbers), outputs.n)
        self._append(outputs, first, drawn, free)
        later = np.arange(free, outputs.n)
        if not len(later):
            return
        all_numbers = np.concatenate([self.numbers, drawn[later]])
        winners = np.zeros(len(all_numbers), dtype=bool)
        winners[np.argpartition(all_numbers, self.size - 1)[: self.size]] = True
        places = np.flatnonzero(~winners[: self.size])
        fresh = later[winners[self.size :]]
        self.numbers[places], self.rows[places] = drawn[fresh], first + fresh
        for name, values in outputs.models.items():
            self.models[name][places] = values[fresh]

    def _widen(self, outputs: Outputs) -> None:
        """Hold rows in a type that holds those of a block too, exactly."""
        for name, room in self.models.items():
            wide = np.promote_types(room.dtype, outputs.models[name].dtype)
            self.models[name] = room.astype(wide, copy=False)

    def _append(self, outputs: Outputs, first: int, drawn: FloatArray, n: int) -> None:
        """Take the first n rows of a block into free places."""
        held = len(self.numbers)
        self.numbers = np.concatenate([self.numbers, drawn[:n]])
        self.rows = np.concatenate([self.rows, np.arange(first, first + n)])
        for name, values in outputs.models.items():
            room = self.models.get(name)
            if room is None or len(room) < held + n:
                # Twice the room whenever it is too small, so that growing stays cheap.
                wanted = min(self.size, max(held + n, 2 * held))
                wider = np.empty((wanted, values.shape[1]), dtype=values.dtype)
                if room is not None:
                    wider[:held] = room[:held]
                self.models[name] = wider
            self.models[name][held : held + n] = values[:n]

    def smallest(self, n: int) -> tuple[IntArray, dict[str, FloatArray]]:
        """Return n of the rows held, those with the smallest numbers: rising, with outputs."""
        chosen = np.argsort(self.numbers, kind="stable")[:n]
        places = chosen[np.argsort(self.rows[chosen])]
        return self.rows[places], {name: room[places] for name, room in self.models.items()}
