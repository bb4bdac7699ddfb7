"""Work shared by threads: the answers, the order and the errors of one thread, and no deadlock."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from conformix.kernels import blocks
from conformix.kernels.blocks import row_blocks, run_blocks, threads_for
from conformix.kernels.helpers import Helpers


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_the_answers_are_those_of_one_thread_in_its_order(n: int, threads: int) -> None:
    def work(i: int) -> int:
        time.sleep(1e-4 * (i % 3))  # later ones are done sooner
        return i * i

    assert run_blocks(work, range(n), threads) == [i * i for i in range(n)]


def test_every_block_is_worked_on_once() -> None:
    seen = np.zeros(1000, dtype=int)

    def work(rows: slice) -> None:
        seen[rows] += 1

    run_blocks(work, row_blocks(1000, 1, 3), 4)
    assert (seen == 1).all()


def test_no_more_threads_work_than_asked_for() -> None:
    run_blocks(lambda _: time.sleep(0.001), range(16), 8)  # as many helpers exist from here on
    lock, now, most = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1

    run_blocks(work, range(30), 3)
    assert most == 3


def test_helpers_are_started_once_and_whoever_asks_works_too(monkeypatch) -> None:
    monkeypatch.setattr(blocks, "HELPERS", Helpers())

    def workers() -> set[int]:
        met = threading.Barrier(3)

        def work(_: int) -> int:
            met.wait(10)  # each thread has one
            return threading.get_ident()

        return set(run_blocks(work, range(3), 3))

    first = workers()
    assert len(first) == 3
    assert threading.get_ident() in first
    assert all(workers() == first for _ in range(5))


@pytest.mark.parametrize("threads", [1, 4])
def test_the_error_is_that_of_the_first_block_that_fails(threads: int) -> None:
    def work(i: int) -> int:
        if i == 3:
            time.sleep(0.01)  # block 5 has failed by then
        if i in {3, 5}:
            raise ValueError(f"block {i}")
        return i

    with pytest.raises(ValueError, match="block 3"):
        run_blocks(work, range(12), threads)


def test_nobody_works_on_after_an_error() -> None:
    started = []

    def work(i: int) -> None:
        started.append(i)
        if i == 0:
            raise ValueError("no more")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="no more"):
        run_blocks(work, range(1000), 2)
    n_started = len(started)
    assert n_started < 10
    time.sleep(0.05)
    assert len(started) == n_started, "a helper still works after the call has ended"


def test_work_that_shares_its_own_work_ends() -> None:
    def outer(i: int) -> int:
        return sum(run_blocks(lambda j: i * j, range(5), 3))

    assert run_blocks(outer, range(20), 3) == [10 * i for i in range(20)]


def test_callers_that_share_helpers_get_their_own_answers() -> None:
    answers: dict[int, list[int]] = {}

    def caller(k: int) -> None:
        answers[k] = run_blocks(lambda i: k * i, range(50), 2 + k % 3)

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(12)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(30)
    assert answers == {k: [k * i for i in range(50)] for k in range(12)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_helpers_of_its_own() -> None:
    run_blocks(lambda i: i, range(4), 4)
    child = multiprocessing.get_context("fork").Process(target=_answers_in_a_child)
    child.start()
    child.join(30)
    ended, code = not child.is_alive(), child.exitcode
    child.kill()
    assert ended, "the child waits for threads that it does not have"
    assert code == 0


def _answers_in_a_child() -> None:
    met = threading.Barrier(4)
    run_blocks(lambda _: met.wait(10), range(4), 4)  # all four are there
    os._exit(0)


def test_a_process_ends_with_its_helpers() -> None:
    code = (
        "from conformix.kernels.blocks import run_blocks; print(run_blocks(abs, [-1, 2, -3, 4], 3))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[1, 2, 3, 4]"


def test_more_work_has_more_threads_and_never_more_than_asked_for() -> None:
    entries = [2**k for k in range(10, 31)]
    found = [threads_for(n, 16) for n in entries]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (1, 16)
    assert all(threads_for(n, asked) <= asked for n in entries for asked in (1, 2, 5))
    # The root of the work: four times as much of it, twice as many threads.
    assert threads_for(64 * blocks.OUTPUTS_PER_WAIT, 99) == 8
    assert threads_for(256 * blocks.OUTPUTS_PER_WAIT, 99) == 16
    # Two threads hardly wait for each other.
    assert [threads_for(blocks.FOR_TWO - less, 99) for less in (0, 1)] == [2, 1]
