"""Work in blocks of rows: how many numbers at once, in which threads, in whose memory.

Whoever asks for threads works too, beside helpers that are kept (`conformix.kernels.helpers`). The
compiled kernels release the interpreter lock. Some share their work by themselves (`run_parts`).
"""

from __future__ import annotations

import math
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import on_device
from conformix.kernels.helpers import HELPERS, Call
from conformix.kernels.twins import loops

# Entries held at once while a block of rows is worked on (8 MiB of float64).
BLOCK_ENTRIES = 2**20
# The same on a device, where every step costs a launch (256 MiB; `auto` holds ten such arrays).
DEVICE_ENTRIES = 2**25


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


def shares(n: int, parts: int) -> Iterator[slice]:
    """Yield slices that cut `n` rows into so many parts of about the same length, or fewer.

    Examples
    --------
    >>> list(shares(5, 2))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    return row_blocks(n, 1, -(-n // parts))


# Threads that wait for each other between short calls no longer than the calls take.
SHORT_CALLERS = 4
# Numbers that each of more threads works on at once, at most: its calls are few and long.
LONG_ENTRIES = 2**18


def entries_at_once(entries: int, n: int, width: int, threads: int) -> int:
    """Return of how many entries the blocks are into which threads cut `n` rows of `width` numbers.

    Of those that a cache holds, for a few threads; many have larger ones, two each or more.

    Examples
    --------
    >>> entries_at_once(2**15, 10_000, 1_000, threads=2)
    32768
    >>> entries_at_once(2**15, 3_000, 1_000, threads=16)
    94000
    """
    if threads <= SHORT_CALLERS:
        return entries
    return max(entries, min(LONG_ENTRIES, -(-n // (2 * threads)) * width))


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


# With each thread the others wait a little longer, for the interpreter and for memory: as long as
# so many outputs take. Two hardly wait for each other: from so many outputs on they are worth it.
OUTPUTS_PER_WAIT, FOR_TWO = 2**16, 2**15


def threads_for(entries: int, threads: int | None) -> int:
    """Return how many threads are done soonest with rows of so many outputs.

    ``W / t + c t``, the work shared and what t threads cost each other, is least at the root of
    ``W / c``. Two are worth it sooner.

    Examples
    --------
    >>> threads_for(1000, threads=3)
    1
    >>> threads_for(2**22, threads=16)
    8
    """
    asked = available_threads(threads)
    return min(asked, max(math.isqrt(entries // OUTPUTS_PER_WAIT), 2 if entries >= FOR_TWO else 1))


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
    n_helpers = min(threads, len(todo)) - 1
    if n_helpers < 1:
        return [work(block) for block in todo]
    left, done = deque(enumerate(todo)), {}
    errors: dict[int, BaseException] = {}

    def share() -> None:
        while left:
            try:
                which, block = left.popleft()
            except IndexError:  # another thread has taken the last one
                return
            try:
                done[which] = work(block)
            except BaseException as error:
                left.clear()
                errors[which] = error

    call = Call(share)
    try:
        HELPERS.ask(call, n_helpers)
        share()
    finally:
        left.clear()  # nothing is left, unless somebody has interrupted
        call.close()
    if errors:  # blocks are taken in their order, so that this is the error of one thread, too
        raise errors[min(errors)]
    return [done[which] for which in range(len(todo))]


# Outputs that are worth a thread of a kernel whose parts need no interpreter.
PART_OUTPUTS = 2**13
# Parts of a thread: whoever is held up leaves the others the rest.
PARTS_PER_THREAD = 8


class Parts(NamedTuple):
    """Rows cut into so many parts, of `step` rows each but for the last, for some threads."""

    n: int
    step: int
    threads: int


def parts_of_rows(n: int, width: float, threads: int | None, most: int | None = None) -> Parts:
    """Return the parts of `n` rows, each of which takes as long as `width` outputs.

    A part has `most` rows at the most: as many as it has room for.

    Examples
    --------
    >>> parts_of_rows(1_000, 100, threads=2)
    Parts(n=16, step=63, threads=2)
    >>> parts_of_rows(10, 100, threads=2)
    Parts(n=1, step=10, threads=1)
    >>> parts_of_rows(10, 100, threads=2, most=4)
    Parts(n=3, step=4, threads=1)
    """
    several = max(1, min(available_threads(threads), int(n * width) // PART_OUTPUTS))
    step = max(1, n if several == 1 else -(-n // (several * PARTS_PER_THREAD)))
    step = step if most is None else min(step, most)
    return Parts(-(-n // step), step, several)


def run_parts(kernel: Any, parts: Parts, task: Any) -> None:
    """Do all parts of a task by a kernel, in threads that take them from a board.

    The kernel is a door of `conformix.kernels.host`: compiled, with ``(board, helpers, n, task,
    part, worker)``. Its task has room for as many workers as there are threads.
    """
    helpers = min(parts.threads, parts.n) - 1
    if helpers > 0:
        HELPERS.rouse(helpers)
    if kernel(HELPERS.board, helpers, parts.n, task, -1, 0):
        raise MemoryError("a compiled loop found no room for its numbers.")


def wake_helpers(outputs: Any, threads: int | None) -> None:
    """Wake threads that a call with these outputs will ask for, while it does other things.

    Those of a device, or of rows that are elsewhere, are worked on there; and where nothing is
    compiled nobody is awake for long.
    """
    if getattr(outputs, "on_device", True) or loops("board", PART_OUTPUTS) is None:
        return
    helpers = parts_of_rows(outputs.n, outputs.n_classes, threads).threads - 1
    if helpers > 0:
        HELPERS.rouse(helpers)


# Bytes between what two threads write: memory goes from core to core in lines of 64, one or two.
APART = 128


def rooms(n: int, *shape: int, dtype: Any = np.float64) -> Any:
    """Return `n` uninitialised arrays in one, which threads write to without waiting for others.

    Each has more rows than it is asked for, which nobody uses: what lies in one line of a cache
    belongs to the core that has written to it last, and takes as long as a hundred sums to come.

    Examples
    --------
    >>> rooms(2, 4, 100).shape, rooms(2, 3).shape
    ((2, 5, 100), (2, 19))
    """
    row = max(1, math.prod(shape[1:]) * np.dtype(dtype).itemsize)
    return np.empty((n, shape[0] + -(-APART // row), *shape[1:]), dtype)


class Buffers:
    """Work arrays of one shape, made when needed and handed from block to block.

    Fresh memory costs page faults at every touch; a block reuses what an earlier one touched.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
        self._shape, self._dtype = shape, dtype
        self._idle: SimpleQueue[Any] = SimpleQueue()

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """Lend an uninitialised array until the end of the block."""
        try:
            buffer = self._idle.get_nowait()
        except Empty:
            buffer = np.empty(self._shape, self._dtype)
        yield buffer
        self._idle.put(buffer)
