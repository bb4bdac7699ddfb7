"""Threads that help with a call: started once, kept, and awake for a while after each call.

A fit asks for them dozens of times, for less than a millisecond each. To put a thread to sleep and
to wake it takes a tenth of one, and some systems let it share a core with whoever woke it, for as
long as a fit takes. So a helper that has done its share looks out for the next call before it
sleeps, without the interpreter lock; and so does whoever asked, for the helpers' last shares. Where
nothing is compiled, all of them sleep at once.

There are two kinds of calls. The shares of a `Call` are functions of Python. The parts of a
compiled one are taken from a board (`conformix.kernels.host.board`) that helpers look at as long as
they are awake, and need no interpreter at all. Where the system can (Linux), helpers nap at the
board before they sleep: to wake them all is one call of the system.

Whoever asks works too, and waits for those who have joined, not for those who have not: a call ends
while all helpers are busy with another, or with the one that it is part of.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from conformix.kernels.arrays import IntArray
from conformix.kernels.twins import MANY, loops

# Looks in vain before a thread sleeps: one or two milliseconds, what a fit does between calls.
LOOKS = 350
# How often whoever wakes others lets them run first: one that was woken on this core leaves it.
GIVE_WAY = 3
# Seconds for which a helper naps where a bell wakes it, before it sleeps as any thread of Python.
NAP = 10
# Numbers on a board, which ends with the last of its strips, and some places: see
# `conformix.kernels.host.board`. One on which nobody writes.
BOARD, ROUSED, ENDING, NAPPING = 608, 69, 71, 88
NO_BOARD = np.zeros(BOARD, dtype=np.int64)


class Call:
    """Work that helpers may join until it is closed.

    Parameters
    ----------
    share : callable
        What each of them does.

    Examples
    --------
    >>> done = []
    >>> call = Call(lambda: done.append(1))
    >>> call.join()
    >>> call.close(), done
    (1, [1])
    >>> call.join()
    >>> done
    [1]
    """

    def __init__(self, share: Callable[[], None]) -> None:
        self._share: Callable[[], None] | None = share
        self._lock = threading.Lock()
        self._joined = self._working = 0
        self._ended = Flag()

    def join(self) -> None:
        """Do a share, unless the call is closed."""
        with self._lock:
            share = self._share
            if share is None:
                return
            self._joined += 1
            self._working += 1
        try:
            share()
        finally:
            with self._lock:
                self._working -= 1
                last = self._share is None and not self._working
            if last:
                self._ended.raise_()

    def close(self) -> int:
        """Let nobody join any more, wait for those who have, and return how many they were."""
        with self._lock:
            self._share = None
            working = self._working
        if working:
            self._ended.wait()
        return self._joined


class Flag:
    """Raised once, and seen by the one thread that looks out for it, or sleeps.

    Parameters
    ----------
    board : int64 array
        From which whoever looks out takes parts meanwhile.
    seconds : int
        How long it naps before it sleeps.
    """

    def __init__(self, board: IntArray = NO_BOARD, seconds: int = 0) -> None:
        self._board, self._seconds = board, seconds
        self._raised = np.zeros(1, dtype=np.int64)
        self._lowered = threading.Lock()  # held until it is raised
        self._lowered.acquire()

    def raise_(self) -> None:
        """Be seen."""
        self._raised[0] = 1
        self._lowered.release()
        if self._board[NAPPING]:
            wake(self._board, int(self._board[NAPPING]))

    def is_seen(self) -> bool:
        """Look out for a while; returns whether it is raised."""
        kernel = loops("board", MANY)
        while kernel is not None:
            roused = kernel.serve(self._board, self._raised, LOOKS, self._seconds)
            if roused < 0:
                return True
            if roused == self._board[ROUSED]:  # else somebody counts on those who look
                return False
        return False

    def wait(self) -> None:
        """Look out for a while, then sleep, until it is raised."""
        if not self.is_seen():
            self._lowered.acquire()


def wake(board: IntArray, n: int) -> None:
    """Wake so many helpers of those that nap at a board."""
    kernel: Any = import_module("conformix.kernels.host.board")  # they nap there
    kernel.ring(board, n)
    kernel.let_others_run(GIVE_WAY)


class Helpers:
    """Threads that are started when first asked for, and kept."""

    def __init__(self) -> None:
        self.board: IntArray = np.zeros(BOARD, dtype=np.int64)
        self._size, self._pool = 0, ThreadPoolExecutor(1)
        self._up, self._lock = 0, threading.Lock()  # how many are awake, napping or being woken
        self._asked: deque[Call] = deque()  # as often as helpers were asked to join it
        self._awake: deque[Flag] = deque()  # what those look out for who have nothing to do

    def ask(self, call: Call, n: int) -> None:
        """Ask `n` of them to join a call, those first that are awake."""
        self._asked.extend([call] * n)
        asleep = 0
        for _ in range(n):
            try:
                self._awake.pop().raise_()  # who has been awake for the shortest time
            except IndexError:
                asleep += 1
        if asleep:
            self._start(n)

    def rouse(self, n: int) -> None:
        """See to it that about `n` of them look at the board."""
        self.board[ROUSED] += 1
        napping = int(self.board[NAPPING])
        if napping and n > self._up - napping:
            wake(self.board, n - self._up + napping)
        if n > self._up:
            with suppress(RuntimeError):  # no further thread can be had: others take all parts
                self._start(n)

    def _start(self, n: int) -> None:
        """Have threads that sleep look out, or new ones, so that `n` do."""
        kernel = loops("board", MANY)
        if kernel is not None:
            kernel.begin_to_wake(self.board)
        while True:
            with self._lock:
                if n > self._size:  # a smaller pool ends when its last caller lets go of it
                    self._size, self._pool = n, ThreadPoolExecutor(n, "conformix")
                if self._up >= n:
                    break
                self._pool.submit(self._serve)
                self._up += 1
        if kernel is not None:
            kernel.let_others_run(GIVE_WAY)

    def _serve(self) -> None:
        """Join calls until nobody has asked for a while."""
        kernel = loops("board", MANY)
        if kernel is not None:
            kernel.step_aside(self.board)
        try:
            while True:
                call = self._next()  # none where another helper was sooner, or for the board alone
                if call is not None:
                    call.join()
                    del call  # whatever it holds is let go before a nap
                elif not self._is_asked() and self._may_sleep():
                    return
        except BaseException:
            with self._lock:
                self._up -= 1
            raise

    def _may_sleep(self) -> bool:
        """Whether nobody has asked; who asks from now on starts another thread."""
        with self._lock:
            if self._asked:
                return False
            self._up -= 1
            return True

    def _next(self) -> Call | None:
        try:
            return self._asked.popleft()
        except IndexError:
            return None

    def _is_asked(self) -> bool:
        """Look out for a while; returns whether somebody asks."""
        flag = Flag(self.board, NAP)
        self._awake.append(flag)
        # Somebody may have asked since the last look at the calls, and found nobody awake.
        if not self._asked and flag.is_seen():
            return True
        with suppress(ValueError):  # where somebody has just taken it
            self._awake.remove(flag)
        return bool(self._asked)

    def end(self) -> None:
        """Let nobody nap any more: whoever ends the process waits for all threads."""
        self.board[ENDING] = 1
        if self.board[NAPPING]:
            wake(self.board, int(self.board[NAPPING]))

    def forget(self) -> None:
        """Start others when next asked for: a forked child has none of these."""
        self._size, self._up, self._lock = 0, 0, threading.Lock()
        self.board = np.zeros(BOARD, dtype=np.int64)  # a call may be on the other, for ever
        self._asked.clear()
        self._awake.clear()


HELPERS = Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELPERS.forget)
# Called before threads are waited for, as nothing of `atexit` is; where it is not, nobody naps.
if hasattr(threading, "_register_atexit"):
    threading._register_atexit(HELPERS.end)
else:
    NAP = 0
