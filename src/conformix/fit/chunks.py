"""Dask arrays as chunks of rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.data.checks import by_model
from conformix.data.outputs import Kind, Outputs, check_outputs
from conformix.data.workers.tree import brought, fold
from conformix.errors import InvalidInput
from conformix.fit.scored import cut
from conformix.kernels.arrays import IntArray
from conformix.scores.names import Column
from conformix.scores.tensor import fill_tensor


def is_chunked(outputs: Any) -> bool:
    """Whether outputs, or those of some model, are a Dask array; Dask is not imported.

    Examples
    --------
    >>> is_chunked(np.zeros((2, 2)))
    False
    """
    array = getattr(sys.modules.get("dask.array"), "Array", None)
    if array is None:
        return False
    listed = outputs.values() if isinstance(outputs, Mapping) else [outputs]
    return any(isinstance(values, array) for values in listed)


@dataclass(frozen=True, eq=False)
class Chunked:
    """Outputs in chunks of rows, the same for all models.

    Parameters
    ----------
    models : dict of str to dask Array of shape (n, K)
        One chunk holds all labels of some rows.
    kind : {"probs", "logits"}
        What the numbers are.
    """

    models: dict[str, Any]
    kind: Kind

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every chunk."""
        return tuple(next(iter(self.models.values())).chunks[0])

    @property
    def starts(self) -> list[int]:
        """The first row of every chunk."""
        return [0, *np.cumsum(self.sizes).tolist()[:-1]]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        n, n_classes = next(iter(self.models.values())).shape
        return int(n), int(n_classes)

    def delayed(self) -> list[list[Any]]:
        """Return the chunks that are still to be computed: one list of models per chunk."""
        columns = [values.to_delayed(optimize_graph=False)[:, 0] for values in self.models.values()]
        return [list(chunk) for chunk in zip(*columns, strict=True)]


def chunked(outputs: Any, kind: Kind) -> Chunked:
    """Return the outputs of one or several models in common chunks of rows, none of them empty."""
    import dask.array as da  # noqa: PLC0415  there already where an argument is chunked

    models = by_model(outputs, "outputs") if isinstance(outputs, Mapping) else {"": outputs}
    found: dict[str, Any] = {}
    for name, values in models.items():
        array = values if isinstance(values, da.Array) else da.from_array(values)
        if array.ndim != 2:
            raise InvalidInput(f"outputs must be a (n, K) matrix; got shape {array.shape}.")
        if any(math.isnan(size) for size in array.shape):
            raise InvalidInput(
                "outputs must have chunks of known size; call .compute_chunk_sizes() first."
            )
        if 0 in array.shape:
            raise InvalidInput(f"outputs must not be empty; got shape {array.shape}.")
        rows = next(iter(found.values()), array).chunks[0]
        rows = tuple(size for size in rows if size)  # a filter may leave chunks empty
        if found and sum(rows) != array.shape[0]:
            raise InvalidInput("outputs of several models must share one shape (n, K).")
        found[name] = array.rechunk({0: rows, 1: -1})
    if len({array.shape for array in found.values()}) > 1:
        raise InvalidInput("outputs of several models must share one shape (n, K).")
    return Chunked(found, kind)


def column_of(values: Any, sizes: tuple[int, ...]) -> list[Any]:
    """Return one number per row in the same chunks, still to be computed."""
    import dask.array as da  # noqa: PLC0415

    there = isinstance(values, da.Array)
    given: Any = values if there else np.asarray(values)
    if given.ndim != 1 or given.shape[0] != sum(sizes):
        raise InvalidInput(
            f"y must hold one label per row, shape ({sum(sizes)},); got shape {given.shape}."
        )
    # Names may be objects, for which Dask chooses no chunks by itself.
    array = given.rechunk((sizes,)) if there else da.from_array(given, (sizes,))
    return list(array.to_delayed(optimize_graph=False))


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


def outputs_of(names: tuple[str, ...], kind: Kind, chunk: list[Any], first: int) -> Outputs:
    """Return a chunk as outputs whose numbers are checked when they are read."""
    models = {name: np.asarray(values) for name, values in zip(names, chunk, strict=True)}
    return check_outputs(models, kind, first=first, later=True)


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Rows that workers read once more; see `conformix.fit.scored.Reader`."""

    chunks: Chunked
    columns: tuple[Column, ...]
    key: int

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places and the answers of blocks of some rows, in order."""
        places, tasks = self._tasks(_answers, function, rows, arrays)
        for where, found in zip(places, brought(*tasks), strict=True):
            for within, answer in found:
                yield slice(where.start + within.start, where.start + within.stop), answer

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of the answers, added by the workers: one integer comes back."""
        from dask import delayed  # noqa: PLC0415

        _, tasks = self._tasks(_total, function, rows, arrays)
        (total,) = brought(fold(tasks, delayed(sum, pure=False))) if tasks else (0,)
        return int(total)

    def _tasks(
        self, work: Any, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> tuple[list[slice], list[Any]]:
        """Return for every chunk with some of the rows their places, and the task on them."""
        from dask import delayed  # noqa: PLC0415  there already

        sizes = self.chunks.sizes
        task = delayed(work, pure=False)
        shared = delayed((tuple(self.chunks.models), self.chunks.kind, self.columns, self.key))
        shared_function = delayed(function, pure=False, traverse=False)
        ends = np.searchsorted(rows, np.cumsum(sizes)).tolist()
        places, tasks = [], []
        for chunk, bits, first, start, stop in zip(
            self.chunks.delayed(), packed(rows, self.chunks.shape[0], sizes), self.chunks.starts,
            [0, *ends], ends,
            strict=False,
        ):  # fmt: skip
            if start < stop:
                places.append(slice(start, stop))
                parts = cut(arrays, places[-1])
                tasks.append(task(shared, shared_function, chunk, (bits, first), parts))
        return places, tasks


def _answers(
    shared: Any, function: Callable[..., Any], chunk: list[Any], chosen: Any, arrays: Any
) -> list[tuple[slice, Any]]:
    """Return ``function`` of blocks of the chosen rows of one chunk, and their places in these."""
    names, kind, columns, key = shared
    bits, first = chosen
    outputs = outputs_of(names, kind, chunk, first)
    rows = unpacked(bits, outputs.n)
    found, place = [], 0
    for block in outputs.blocks():
        begin, end = np.searchsorted(rows, [block.start, block.stop])
        if begin == end:
            continue
        part = outputs.read(block)
        scores = fill_tensor(part, columns, key=key, threads=1)[rows[begin:end] - block.start]
        where = slice(place, place + int(end - begin))
        place = where.stop
        found.append((where, function(scores, *cut(arrays, where))))
    return found


def _total(*task: Any) -> int:
    return sum(found for _, found in _answers(*task))
