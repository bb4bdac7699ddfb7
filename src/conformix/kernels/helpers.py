"""Threads that help with a call: started once, kept, and awake for a while after each call.

A fit asks for them dozens of times, for less than a millisecond each. To put a thread to sleep and
to wake it takes a tenth of one, and some systems let it share a core with whoever woke it, for as
long as a fit takes. So a helper that has done its share looks out for the next call before it
sleeps, without the interpreter lock (`conformix.kernels.host.waiting`); and so does whoever asked,
for the helpers' last shares. Where nothing is compiled, all of them sleep at once.

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

import numpy as np

from conformix.kernels.twins import loops

# Looks at a flag before a thread sleeps: one or two milliseconds, what a fit does between calls.
LOOKS = 30_000


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
    """Raised once, and seen by the one thread that looks out for it, or sleeps."""

    def __init__(self) -> None:
        self._raised = np.zeros(1, dtype=np.int64)
        self._lowered = threading.Lock()  # held until it is raised
        self._lowered.acquire()

    def raise_(self) -> None:
        """Be seen."""
        self._raised[0] = 1
        self._lowered.release()

    def is_seen(self) -> bool:
        """Look out for a while; returns whether it is raised."""
        waiting = loops("waiting", LOOKS)
        return waiting is not None and waiting.is_set(self._raised, LOOKS)

    def wait(self) -> None:
        """Look out for a while, then sleep, until it is raised."""
        if not self.is_seen():
            self._lowered.acquire()


class Helpers:
    """Threads that are started when first asked for, and kept."""

    def __init__(self) -> None:
        self._size, self._pool = 0, ThreadPoolExecutor(1)
        self._asked: deque[Call] = deque()  # as often as helpers were asked to join it
        self._awake: deque[Flag] = deque()  # what those look out for who have nothing to do

    def ask(self, call: Call, n: int) -> None:
        """Ask `n` of them to join a call, those first that are awake."""
        if n > self._size:  # a smaller pool ends when its last caller lets go of it
            self._size, self._pool = n, ThreadPoolExecutor(n, "conformix")
        pool = self._pool
        self._asked.extend([call] * n)
        for _ in range(n):
            try:
                self._awake.pop().raise_()  # who has been awake for the shortest time
            except IndexError:
                pool.submit(self._serve)

    def _serve(self) -> None:
        """Join calls until nobody has asked for a while."""
        call = self._next()
        while call is not None:
            call.join()
            call = self._next()
            while call is None and self._is_asked():
                call = self._next()  # none where another helper was sooner

    def _next(self) -> Call | None:
        try:
            return self._asked.popleft()
        except IndexError:
            return None

    def _is_asked(self) -> bool:
        """Look out for a while; returns whether somebody asks."""
        flag = Flag()
        self._awake.append(flag)
        # Somebody may have asked since the last look at the calls, and found nobody awake.
        if not self._asked and flag.is_seen():
            return True
        with suppress(ValueError):  # where somebody has just taken it
            self._awake.remove(flag)
        return bool(self._asked)

    def forget(self) -> None:
        """Start others when next asked for: a forked child has none of these."""
        self._size = 0
        self._asked.clear()
        self._awake.clear()


HELPERS = Helpers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELPERS.forget)
