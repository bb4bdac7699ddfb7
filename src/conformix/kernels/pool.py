"""Threads over blocks of work.

A pool lives for one call only: nothing is left behind for a forked child to stumble over, and two
callers never share one. The compiled kernels release the interpreter lock.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from conformix.errors import InvalidInput

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
        raise InvalidInput(f"threads must be a positive integer or None; got {threads!r}.")
    return int(threads)


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
