"""Helping threads: awake for the next call, asleep where there is none, and never waited for twice.

What `run_blocks` makes of them is in test_blocks.py.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import pytest

from conformix.kernels import blocks, helpers, twins
from conformix.kernels.blocks import run_blocks
from conformix.kernels.helpers import Call, Flag, Helpers

board = pytest.importorskip("conformix.kernels.host.board")

# Looks that take ten seconds or more, and looks that take no time.
LONG, SHORT = 4 * 10**6, 1


def look_out(flag: np.ndarray, looks: int, seconds: int = 0, at: np.ndarray | None = None) -> bool:
    """Whether a flag is raised within so many looks, or in a nap at a board."""
    there = helpers.NO_BOARD if at is None else at
    return board.serve(there, flag, looks, seconds) < 0


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Helpers]:
    """Helpers of this test alone, whose loops are compiled, and who look out until it ends."""
    monkeypatch.setitem(twins._loaded, "board", board)
    look_out(np.ones(1, dtype=np.int64), 1)
    monkeypatch.setattr(helpers, "LOOKS", LONG)
    monkeypatch.setattr(helpers, "NAP", 0)
    own = Helpers()
    monkeypatch.setattr(blocks, "HELPERS", own)
    yield own
    put_to_sleep(own, monkeypatch)


def put_to_sleep(awake: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    """End the threads of helpers who would look out for seconds."""
    monkeypatch.setattr(helpers, "LOOKS", SHORT)
    awake.end()
    awake._pool.shutdown(wait=False)
    while any(thread.is_alive() for thread in awake._pool._threads):
        with suppress(IndexError):
            awake._awake.pop().raise_()
    awake.forget()


def two_calls() -> tuple[Call, Call, list[str]]:
    """Two calls, and the names of those that were joined, in their order."""
    joined: list[str] = []
    first, second = (Call(lambda name=name: joined.append(name)) for name in ("one", "two"))
    return first, second, joined


def until(is_so: Callable[[], bool]) -> bool:
    """Whether something is so within some seconds."""
    end = time.monotonic() + 6
    while not is_so() and time.monotonic() < end:
        time.sleep(0.001)
    return is_so()


def test_an_awake_helper_takes_the_next_call_though_nobody_wakes_it(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> int:
        done: list[int] = []
        call = Call(lambda: done.append(threading.get_ident()))
        fresh.ask(call, 1)
        assert until(lambda: len(done) == 1)
        assert call.close() == 1
        return done[0]

    first = ask()
    assert first != threading.get_ident()
    assert until(lambda: len(fresh._awake) == 1)
    monkeypatch.setattr(fresh._pool, "submit", None)  # who sleeps cannot be woken any more
    for _ in range(5):
        assert until(lambda: len(fresh._awake) == 1)
        assert ask() == first


def test_a_helper_that_is_asked_in_vain_stays_awake(fresh: Helpers) -> None:
    """Another one was sooner, and has joined in its place."""
    fresh.ask(Call(lambda: None), 1)
    for _ in range(5):
        assert until(lambda: len(fresh._awake) == 1)
        fresh._awake.pop().raise_()


def test_a_helper_that_nobody_asks_sleeps(fresh: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helpers, "LOOKS", SHORT)
    fresh.ask(Call(lambda: None), 1)
    free = fresh._pool.submit(threading.get_ident)  # its thread does this once it is asleep
    assert free.result(20)
    assert not fresh._awake


def test_without_compiled_loops_helpers_sleep_at_once_and_calls_are_the_same(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(twins._loaded, "board")
    assert not Flag().is_seen()
    for _ in range(20):
        assert run_blocks(lambda i: i * i, range(7), 3) == [i * i for i in range(7)]


def test_a_call_that_comes_while_a_helper_gives_up_is_joined(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper has looked in vain; before it can say so, somebody takes it for awake."""
    first, second, joined = two_calls()
    in_vain = Flag.is_seen
    taken = threading.Event()

    def look(flag: Flag) -> bool:
        if not taken.is_set():
            taken.set()
            fresh.ask(second, 1)
            return False
        return in_vain(flag)

    monkeypatch.setattr(Flag, "is_seen", look)
    fresh.ask(first, 1)
    assert until(lambda: joined == ["one", "two"])
    assert (first.close(), second.close()) == (1, 1)


def test_a_call_that_comes_before_a_helper_sits_down_is_joined(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper has found no call, and is not awake yet in the eyes of whoever asks."""
    first, second, joined = two_calls()
    look = fresh._is_asked
    asked = threading.Event()

    def late() -> bool:
        if not asked.is_set():
            asked.set()
            fresh.ask(second, 1)
        return look()

    monkeypatch.setattr(fresh, "_is_asked", late)
    fresh.ask(first, 1)
    assert until(lambda: joined == ["one", "two"])


def test_a_call_that_comes_as_a_helper_goes_to_sleep_is_joined(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks counts on it, and starts no other thread."""
    monkeypatch.setattr(helpers, "LOOKS", SHORT)
    first, second, joined = two_calls()
    look, asked = fresh._is_asked, threading.Event()

    def in_vain() -> bool:
        found = look()
        if not found and not asked.is_set():
            asked.set()
            fresh._asked.append(second)
        return found

    monkeypatch.setattr(fresh, "_is_asked", in_vain)
    fresh.ask(first, 1)
    assert until(lambda: joined == ["one", "two"])


def test_a_helper_that_is_done_joins_a_call_that_found_it_busy(fresh: Helpers) -> None:
    go_on, joined = threading.Event(), threading.Event()
    first, second = Call(lambda: go_on.wait(20) and None), Call(joined.set)
    fresh.ask(first, 1)
    fresh.ask(second, 1)
    go_on.set()
    assert joined.wait(20)
    assert (first.close(), second.close()) == (1, 1)


@pytest.mark.parametrize("looks", [SHORT, LONG])
@pytest.mark.parametrize("n", [1, 2])
def test_whoever_closes_a_call_waits_for_those_who_have_joined(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch, n: int, looks: int
) -> None:
    monkeypatch.setattr(helpers, "LOOKS", looks)
    begun, done = threading.Barrier(n + 1), []

    def share() -> None:
        begun.wait(20)
        time.sleep(0.05)
        done.append(1)

    call = Call(share)
    fresh.ask(call, n)
    begun.wait(20)
    assert call.close() == n
    assert len(done) == n


def test_nobody_joins_a_call_that_is_closed(fresh: Helpers) -> None:
    done: list[int] = []
    call = Call(lambda: done.append(1))
    assert call.close() == 0
    fresh.ask(call, 2)
    assert until(lambda: not fresh._asked)
    call.join()
    assert not done


def test_what_a_call_holds_is_let_go_when_it_is_closed(fresh: Helpers) -> None:
    rows = np.zeros(3)
    gone = weakref.ref(rows)
    run_blocks(lambda _, rows=rows: rows.sum(), range(4), 3)
    del rows
    assert until(lambda: gone() is None), "an awake helper holds on to the rows of the last call"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_asks_nobody_who_is_awake_in_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(twins._loaded, "board", board)
    look_out(np.ones(1, dtype=np.int64), 1)
    monkeypatch.setattr(helpers, "LOOKS", LONG)
    run_blocks(lambda _: time.sleep(0.001), range(8), 4)
    assert until(lambda: len(helpers.HELPERS._awake) > 0)
    child = multiprocessing.get_context("fork").Process(target=_meet_in_a_child)
    child.start()
    child.join(30)
    code = child.exitcode
    child.kill()
    put_to_sleep(helpers.HELPERS, monkeypatch)
    assert code == 0


def _meet_in_a_child() -> None:
    met = threading.Barrier(4)
    run_blocks(lambda _: met.wait(10), range(4), 4)
    os._exit(0)


def test_a_flag_is_seen_as_it_is_raised_by_another_thread() -> None:
    flag, found = np.zeros(1, dtype=np.int64), []
    look_out(flag, 1)  # compiled
    thread = threading.Thread(target=lambda: found.append(look_out(flag, 10**12)))
    thread.start()
    time.sleep(0.05)  # the interpreter is free meanwhile
    assert not found
    flag[0] = 1
    thread.join(20)
    assert found == [True]


def test_nobody_works_on_where_no_further_helper_can_be_had(
    fresh: Helpers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has threads for one helper and refuses the next."""
    begun, done = threading.Event(), []

    def work(i: int) -> None:
        begun.set()
        time.sleep(0.02)
        done.append(i)

    ask = fresh.ask

    def refused(call: Call, n: int) -> None:
        ask(call, 1)
        assert begun.wait(6)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(fresh, "ask", refused)
    with pytest.raises(RuntimeError, match="new thread"):
        run_blocks(work, range(100), 3)
    n_done = len(done)
    time.sleep(0.06)
    assert len(done) == n_done < 10


def test_helpers_are_awake_for_milliseconds() -> None:
    def seconds() -> float:
        start = time.thread_time()  # others who want the core are let go first
        look_out(np.zeros(1, dtype=np.int64), helpers.LOOKS)
        return time.thread_time() - start

    look_out(np.zeros(1, dtype=np.int64), 1)  # compiled
    assert 1e-4 < min(seconds() for _ in range(5)) < 0.01


def test_looks_come_to_an_end() -> None:
    assert not look_out(np.zeros(1, dtype=np.int64), 1000)
    assert look_out(np.ones(1, dtype=np.int64), 1)
    assert look_out(np.ones(1, dtype=np.int64), 0)
