"""Outputs in the chunks of Dask arrays: what is asked of them is worked out where they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from conformix.data.checks import by_model, is_chunked
from conformix.data.outputs import (
    KIND_OF,
    Form,
    Kind,
    Outputs,
    added,
    check_models,
    check_outputs,
    cut,
    over_blocks,
    two_columns,
)
from conformix.data.workers import computed, fold, persisted
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray

# Answers of so many chunks come here at once.
CHUNKS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Chunked:
    """Outputs in chunks of rows, the same for all models; see `conformix.data.outputs.Source`."""

    arrays: dict[str, Any]  # Dask arrays (n, K) by model
    form: Form  # what the numbers are as they come in
    # What becomes of the outputs of every block before anything is asked of them, the names of the
    # models then, and what the numbers are.
    through: Callable[[Outputs], Outputs] | None = None
    named: tuple[str, ...] | None = None
    becomes: Kind | None = None

    @property
    def kind(self) -> Kind:
        """What the numbers are to the arithmetic."""
        return self.becomes or KIND_OF[self.form]

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in order."""
        return tuple(self.arrays) if self.named is None else self.named

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every chunk."""
        return tuple(next(iter(self.arrays.values())).chunks[0])

    @property
    def starts(self) -> list[int]:
        """The first row of every chunk."""
        return [0, *np.cumsum(self.sizes).tolist()[:-1]]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        n, n_classes = next(iter(self.arrays.values())).shape
        return int(n), int(n_classes)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.shape[0]

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.shape[1]

    def matching(self, models: tuple[str, ...], n_classes: int, name: str) -> Chunked:
        """Return them in the order of the fitted models, or say how they differ from these."""
        check_models(self.models, self.n_classes, models, n_classes, name)
        return replace(self, arrays={model: self.arrays[model] for model in models})

    def delayed(self) -> list[list[Any]]:
        """Return the chunks that are still to be computed: one list of models per chunk."""
        columns = [values.to_delayed(optimize_graph=False)[:, 0] for values in self.arrays.values()]
        return [list(chunk) for chunk in zip(*columns, strict=True)]

    def read(self, chunk: list[Any], first: int) -> Outputs:
        """Return a chunk as outputs whose numbers are checked when they are read."""
        models = {name: np.asarray(values) for name, values in zip(self.arrays, chunk, strict=True)}
        return check_outputs(models, self.form, first=first, later=True)

    def blocks(self, chunk: list[Any], first: int) -> Iterator[Outputs]:
        """Yield small blocks of a chunk, checked."""
        outputs = self.read(chunk, first)
        for rows in outputs.blocks():
            part = outputs.read(rows)
            yield part if self.through is None else self.through(part)

    @property
    def light(self) -> Chunked:
        """What a task needs to read a chunk: no arrays, which would bring their graphs along."""
        return Chunked(dict.fromkeys(self.arrays), self.form, self.through, self.named)

    def map(
        self,
        function: Callable[..., Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Iterator[tuple[slice, Any]]:
        """Yield what a function says of blocks of rows; see `conformix.data.outputs.Source`.

        Workers keep their answers until they are fetched, some chunks at a time.
        """
        places, tasks = self._tasks(_answers, function, rows, arrays)
        there = list(persisted(*tasks))
        for start in range(0, len(places), CHUNKS_AT_ONCE):
            some = slice(start, start + CHUNKS_AT_ONCE)
            here = computed(*there[some])
            there[some] = [None] * len(here)  # let go
            for where, answers in zip(places[some], here, strict=True):
                for within, answer in answers:
                    yield slice(where.start + within.start, where.start + within.stop), answer

    def fold(
        self,
        function: Callable[..., Any],
        add: Callable[[Any, Any], Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Any:
        """Return the sum of what a function says, added up by the workers: one answer comes back.

        See `conformix.data.outputs.Source`.
        """
        from dask import delayed  # noqa: PLC0415  there already: outputs are its arrays

        _, tasks = self._tasks(partial(_total, add), function, rows, arrays)
        if not tasks:
            return None
        (total,) = computed(fold(tasks, delayed(partial(reduce, add), pure=False)))
        return total

    def _tasks(
        self,
        work: Any,
        function: Callable[..., Any],
        rows: IntArray | None,
        arrays: tuple[Any, ...],
    ) -> tuple[list[slice], list[Any]]:
        """Return for every chunk with some of the rows their places, and the task on them."""
        from dask import delayed  # noqa: PLC0415

        n, sizes = self.n, self.sizes
        task = delayed(work, pure=False)
        shared = delayed((self.light, function), pure=False, traverse=False)
        ends = np.cumsum(sizes) if rows is None else np.searchsorted(rows, np.cumsum(sizes))
        chosen: list[Any] = [None] * len(sizes) if rows is None else packed(rows, n, sizes)
        places, tasks = [], []
        for chunk, bits, first, start, stop in zip(
            self.delayed(), chosen, self.starts, [0, *ends.tolist()], ends.tolist(), strict=False
        ):
            if start < stop:
                places.append(slice(start, stop))
                tasks.append(task(shared, chunk, (bits, first), cut(arrays, places[-1])))
        return places, tasks


def _answers(shared: Any, chunk: list[Any], chosen: Any, arrays: Any) -> list[tuple[slice, Any]]:
    """Return what a function says of blocks of the chosen rows of a chunk, and their places."""
    light, function = shared
    bits, first = chosen
    n = len(chunk[0])
    rows = None if bits is None else unpacked(bits, n)
    return list(over_blocks(light.blocks(chunk, first), function, rows, tuple(arrays)))


def _total(add: Callable[[Any, Any], Any], *task: Any) -> Any:
    return added(_answers(*task), add)


def chunked(outputs: Any, kind: Form, name: str = "outputs") -> Chunked:
    """Return the outputs of one or several models in common chunks of rows, none of them empty."""
    import dask.array as da  # noqa: PLC0415  there already where an argument is chunked

    models = by_model(outputs, name) if isinstance(outputs, Mapping) else {"": outputs}
    arrays: dict[str, Any] = {}
    for model, values in models.items():
        array = values if isinstance(values, da.Array) else da.from_array(values)
        if kind == "binary":
            two_columns(np.empty((1, *array.shape[1:])), name)  # refuses another shape
            column = array if array.ndim == 2 else array[:, None]
            array = column.map_blocks(two_columns, name, chunks=(column.chunks[0], (2,)))
        if array.ndim != 2:
            raise InvalidInput(f"{name} must be a (n, K) matrix; got shape {array.shape}.")
        if any(math.isnan(size) for size in array.shape):
            raise InvalidInput(
                f"{name} must have chunks of known size; call .compute_chunk_sizes() first."
            )
        if 0 in array.shape:
            raise InvalidInput(f"{name} must not be empty; got shape {array.shape}.")
        rows = next(iter(arrays.values()), array).chunks[0]
        rows = tuple(size for size in rows if size)  # a filter may leave chunks empty
        if arrays and sum(rows) != array.shape[0]:
            raise InvalidInput(f"{name} of several models must share one shape (n, K).")
        arrays[model] = array.rechunk({0: rows, 1: -1})
    if len({array.shape for array in arrays.values()}) > 1:
        raise InvalidInput(f"{name} of several models must share one shape (n, K).")
    return Chunked(arrays, "probs" if kind == "binary" else kind)


def column_of(values: Any, sizes: tuple[int, ...], name: str = "y") -> Any:
    """Return one number per row as a Dask array in the same chunks."""
    import dask.array as da  # noqa: PLC0415

    there = isinstance(values, da.Array)
    column: Any = values if there else np.asarray(values)
    if column.ndim != 1 or column.shape[0] != sum(sizes):
        what = "label" if name == "y" else "value"
        raise InvalidInput(
            f"{name} must hold one {what} per row, shape ({sum(sizes)},); got shape {column.shape}."
        )
    # Names may be objects, for which Dask chooses no chunks by itself.
    return column.rechunk((sizes,)) if there else da.from_array(column, (sizes,))


def packed(rows: IntArray, n: int, sizes: tuple[int, ...]) -> list[Any]:
    """Return which rows of every chunk are among `rows`, one bit per row.

    A task carries these bits: an eighth of a byte for every row, and not eight bytes.

    Examples
    --------
    >>> packed(np.array([0, 4]), 5, (3, 2))
    [array([128], dtype=uint8), array([64], dtype=uint8)]
    """
    among = np.zeros(n, dtype=bool)
    among[rows] = True
    ends = np.cumsum(sizes)
    return [np.packbits(part) for part in np.split(among, ends[:-1])]


def unpacked(bits: Any, n: int) -> IntArray:
    """Return the rows of a chunk whose bits are set.

    Examples
    --------
    >>> unpacked(np.array([128], dtype=np.uint8), 3)
    array([0])
    """
    return np.flatnonzero(np.unpackbits(bits, count=n))


def here(values: Any) -> Any:
    """Return numbers of the rows in the memory of this process, computed where they are chunked."""
    return computed(values)[0] if is_chunked(values) else values
