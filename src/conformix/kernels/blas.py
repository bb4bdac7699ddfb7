"""Matrix products beside threads of our own.

BLAS has threads, which wait for each other by asking all the time: where others have work for the
cores, a product takes many times as long as in one thread. So it has one while threads with blocks
of rows multiply (`run_products`), and else whoever multiplies with all of them does it alone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from conformix.kernels.blocks import run_blocks

T = TypeVar("T")
R = TypeVar("R")

# Products of numbers in a matrix product that is done before several threads have met.
SMALL = 2**27

_ALONE, _LIMIT = threading.Lock(), threading.Lock()


def _unlock() -> None:
    """Make new locks: a process that was forked while a thread multiplied would wait for ever."""
    global _ALONE, _LIMIT
    _ALONE, _LIMIT = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def run_products(work: Callable[[T], R], blocks: Iterable[T], threads: int) -> list[R]:
    """Return `run_blocks` of work that multiplies matrices: one thread is one thread then, too."""
    with _one_thread():
        return run_blocks(work, blocks, threads)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let BLAS have one thread, unless another caller is at it: who sets a limit must lift it."""
    libraries = _libraries()
    if libraries is None or not _LIMIT.acquire(blocking=False):
        yield
        return
    before = []
    try:  # as `limit` of threadpoolctl, without its report of every library: products are short
        for library in libraries:
            before.append((library, library.get_num_threads()))
            library.set_num_threads(1)
        yield
    finally:
        for library, number in before:
            library.set_num_threads(number)
        _LIMIT.release()


@cache
def _libraries() -> list[Any] | None:
    """Return what sets and tells the threads of each BLAS, or None where nothing does."""
    try:
        threads = import_module("threadpoolctl")  # late; it comes with scikit-learn
    except ImportError:
        return None
    found = threads.ThreadpoolController().select(user_api="blas").lib_controllers
    return list(found) or None


def several_products(work: int) -> AbstractContextManager[None]:
    """Let several matrix products, each of so many products of numbers, have one thread at once.

    Nothing where they are large: each of them may have several then.
    """
    return _one_thread() if work <= SMALL else nullcontext()


@contextmanager
def multiplying(work: int) -> Iterator[None]:
    """Let a matrix product of so many products of numbers have the threads that suit it.

    Small ones have one, and so have all while BLAS is limited; others have all, in turns.
    """
    if work <= SMALL or _LIMIT.locked():
        with _one_thread():
            yield
    else:
        with _ALONE:
            yield
