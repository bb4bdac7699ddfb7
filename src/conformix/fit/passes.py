"""Passes over rows that are not all in memory: the scores of a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import IntArray, some_rows
from conformix.kernels.blocks import row_blocks
from conformix.scores.names import Column
from conformix.scores.tensor import fill_tensor


class Reader(Protocol):
    """Where the rows can be read once more.

    Both ways ask for ``function(scores, *parts)`` of blocks of rows: `scores` are the scores
    (r, K, d) of a block of `rows`, which rise, and `parts` the same places of `arrays` (each as
    long as `rows`, or None). Where rows are cut into blocks is the reader's own business.
    """

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places of every block and what the function says of it, in order."""

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of what the function says: integers, for which no cut matters."""


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Rows that this process reads: a function that begins again, and yields checked outputs.

    Parameters
    ----------
    blocks : callable
        Returns an iterator over the outputs of all rows, in order, block by block.
    columns : tuple of Column
        The scores.
    key : int
        Key of the row uniforms.
    threads : int or None
        Threads for the scores.
    """

    blocks: Callable[[], Iterable[Outputs]]
    columns: tuple[Column, ...]
    key: int
    threads: int | None = None

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places and the answers of blocks of some rows; see `Reader`."""
        first = 0
        for outputs in self.blocks():
            places, within = chosen(rows, first, outputs.n)
            first += outputs.n
            if len(within):
                scores = fill_tensor(outputs, self.columns, key=self.key, threads=self.threads)
                block = scores if len(within) == outputs.n else some_rows(scores, within)
                yield places, function(block, *cut(arrays, places))

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of the answers of blocks of some rows; see `Reader`."""
        return sum(found for _, found in self.map(function, rows, arrays))


@dataclass(frozen=True, eq=False)
class TensorReader:
    """Rows of a tensor (n, K, d) that is all in memory; one block of them is copied at a time.

    Examples
    --------
    >>> reader = TensorReader(np.arange(6.0).reshape(3, 2, 1))
    >>> list(reader.map(np.sum, np.array([0, 2]), ()))
    [(slice(0, 2, None), np.float64(10.0))]
    """

    tensor: Any

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places and the answers of blocks of some rows; see `Reader`."""
        for block in row_blocks(len(rows), self.tensor.shape[1] * self.tensor.shape[2]):
            yield block, function(some_rows(self.tensor, rows[block]), *cut(arrays, block))

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of the answers of blocks of some rows; see `Reader`."""
        return sum(found for _, found in self.map(function, rows, arrays))


def chosen(rows: IntArray, first: int, n: int) -> tuple[slice, IntArray]:
    """Return the places in rising `rows` of a block of n rows, and where in the block they are.

    Examples
    --------
    >>> chosen(np.array([1, 4, 5]), 3, 2)
    (slice(1, 2, None), array([1]))
    """
    start, stop = np.searchsorted(rows, [first, first + n])
    return slice(int(start), int(stop)), rows[start:stop] - first


def cut(arrays: tuple[Any, ...], rows: Any) -> list[Any]:
    """Return the same rows of several arrays, None where there is none.

    Examples
    --------
    >>> cut((np.arange(3), None), slice(1, 3))
    [array([1, 2]), None]
    """
    return [None if array is None else array[rows] for array in arrays]
