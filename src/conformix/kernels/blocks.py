"""Work in blocks of rows: how many numbers at once, in which threads, in whose memory.

A pool lives for one call only: nothing is left behind for a forked child to stumble over, and two
callers never share one. The compiled kernels release the interpreter lock.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import FloatArray, on_device

# Entries held at once while a block of rows is worked on (8 MiB of float64).
BLOCK_ENTRIES = 2**20
# The same on a device, whose many cores want larger blocks.
DEVICE_ENTRIES = 2**24


def entries_for(values: Any) -> int:
    """Return how many entries of some scores are worked on at once, where these are.

    Examples
    --------
    >>> entries_for(np.zeros(3)) == BLOCK_ENTRIES
    True
    """
    return DEVICE_ENTRIES if on_device(values) else BLOCK_ENTRIES


def row_blocks(n: int, width: int, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Yield slices that cut `n` rows of `width` numbers into blocks of about `entries`."""
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step))


T = TypeVar("T")
R = TypeVar("R")


def available_threads(threads: int | None = None) -> int:
    """Return how many threads to use: `threads`, or the cores available to this process.

    Inside a worker process the default is 1, since the workers already share the cores.

    Examples
    --------
    >>> available_threads(3)
    3
    """
    if threads is None:
        if multiprocessing.parent_process() is not None:
            return 1
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    if isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise InvalidInput(f"threads must be a positive integer or None; got {shown(threads)}.")
    return int(threads)


# Outputs below which one thread sorts them sooner than several that wait for each other.
SMALL_WORK = 2**20


def threads_for(entries: int, threads: int | None) -> int:
    """Return how many threads pay off for rows with so many outputs.

    Examples
    --------
    >>> threads_for(1000, threads=3)
    1
    """
    asked = available_threads(threads)
    return asked if entries >= SMALL_WORK else 1


def batched(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def run_blocks(work: Callable[[T], R], blocks: Iterable[T], threads: int) -> list[R]:
    """Return ``[work(block) for block in blocks]``, computed by `threads` threads.

    Examples
    --------
    >>> run_blocks(lambda x: x * x, [1, 2, 3], threads=2)
    [1, 4, 9]
    """
    todo = list(blocks)
    if threads == 1 or len(todo) <= 1:
        return [work(block) for block in todo]
    with ThreadPoolExecutor(min(threads, len(todo))) as pool:
        return list(pool.map(work, todo))


class Buffers:
    """Work arrays of one shape, made when needed and handed from block to block.

    Fresh memory costs page faults at every touch; a block reuses what an earlier one touched.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        self._shape, self._dtype = shape, dtype
        self._idle: SimpleQueue[FloatArray] = SimpleQueue()

    @contextmanager
    def borrow(self) -> Iterator[FloatArray]:
        """Lend an uninitialised array until the end of the block."""
        try:
            buffer = self._idle.get_nowait()
        except Empty:
            buffer = np.empty(self._shape, self._dtype)
        yield buffer
        self._idle.put(buffer)
