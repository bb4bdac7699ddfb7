"""The board: every part is done once, by whoever is there, and nobody waits for who is not."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.kernels import blocks, helpers, twins
from conformix.kernels.blocks import Parts, parts_of_rows, run_parts
from conformix.kernels.helpers import Call, Flag, Helpers

board = pytest.importorskip("conformix.kernels.host.board")
numba = pytest.importorskip("numba")
# Where this system has no bell, nobody naps.
needs_a_bell = pytest.mark.skipif(board.FUTEX is None, reason="this system has no bell")


@numba.njit(nogil=True)
def note(there, n_helpers, n, task, part, worker):
    """Count the part, note who does it, and see whether somebody else uses the same room."""
    if part < 0:
        return board.run(there, n_helpers, n, board.itself(there, n_helpers, n, task))
    done, workers, room, disturbed, length = task
    done[part] += 1
    room[worker, 0] = part
    total = 0.0
    for i in range(length):
        total += np.sqrt(i + part)
        if room[worker, 0] != part:
            disturbed[0] = 1
    room[worker, 1] = int(total)
    workers[part] = worker  # last: whoever waits finds it noted
    return 0


@numba.njit(nogil=True)
def fail(there, n_helpers, n, task, part, worker):
    if part < 0:
        return board.run(there, n_helpers, n, board.itself(there, n_helpers, n, task))
    if part % 3 == 1:
        raise ValueError
    task[0][part] = 1
    return 0


@numba.njit(nogil=True)
def meet(there, n_helpers, n, task, part, worker):
    """Note the first part of each of two workers, who wait for each other in it."""
    if part < 0:
        return board.run(there, n_helpers, n, board.itself(there, n_helpers, n, task))
    if task[0][worker] < 0:
        task[0][worker] = part
        looks = 0
        while board._read(task[0], 1 - worker) < 0 and looks < 10**9:
            looks += 1
    return 0


def notes(n: int, threads: int, length: int = 1):
    """Return a task of n parts, and what is noted of it."""
    done, workers = np.zeros(n, dtype=np.int64), np.full(n, -1)
    room, disturbed = np.zeros((threads, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)
    return done, workers, room, disturbed, length


def until(is_so: Callable[[], bool]) -> bool:
    """Return whether something is seen to be so: it may not last."""
    end = time.monotonic() + 6
    while time.monotonic() < end:
        if is_so():
            return True
        time.sleep(0.001)
    return False


@contextmanager
def looking(there: np.ndarray, n: int) -> Iterator[None]:
    """Have so many threads look at a board until the end of the block."""
    flag = np.zeros(1, dtype=np.int64)
    board.serve(helpers.NO_BOARD, np.ones(1, dtype=np.int64), 1, 0)  # compiled
    threads = [threading.Thread(target=board.serve, args=(there, flag, 10**9, 0)) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        flag[0] = 1
        for thread in threads:
            thread.join(20)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Helpers]:
    """Helpers of this test alone, who look out for no time and then nap."""
    monkeypatch.setitem(twins._loaded, "board", board)
    board.serve(helpers.NO_BOARD, np.ones(1, dtype=np.int64), 1, 0)
    board.ring(np.zeros(helpers.BOARD, dtype=np.int64), 1)
    monkeypatch.setattr(helpers, "LOOKS", 1)
    own = Helpers()
    monkeypatch.setattr(blocks, "HELPERS", own)
    yield own
    own.end()
    own._pool.shutdown(wait=True)


@pytest.mark.parametrize("n_looking", [0, 1, 3])
@pytest.mark.parametrize("n_helpers", [0, 1, 2])
def test_every_part_is_done_once_whoever_is_there(n_looking: int, n_helpers: int) -> None:
    there = np.zeros(helpers.BOARD, dtype=np.int64)
    with looking(there, n_looking):
        for n in [*range(12), 500]:
            for _ in range(30):
                task = notes(n, n_helpers + 1, length=20)
                assert note(there, n_helpers, n, task, -1, 0) == 0
                done, workers, _, disturbed, _ = task
                assert_array_equal(done, np.ones(n))
                assert not disturbed[0]
                assert set(workers.tolist()) <= set(range(n_helpers + 1))


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_those_who_look_take_parts_each_with_room_of_its_own(wanted: int) -> None:
    there, seen = np.zeros(helpers.BOARD, dtype=np.int64), set()

    def all_are_seen() -> bool:
        task = notes(12, wanted + 1, length=300_000)  # long enough to be interrupted
        note(there, wanted, 12, task, -1, 0)
        assert not task[3][0]
        seen.update(task[1].tolist())
        return len(seen) > wanted

    with looking(there, 4):
        assert until(all_are_seen)
    assert seen == set(range(wanted + 1))


@pytest.mark.parametrize("n", [2, 7, 12])
def test_every_thread_begins_with_a_strip_of_its_own(n: int) -> None:
    """In call after call the same rows: they are still in the memory nearest to its core."""
    there, first = np.zeros(helpers.BOARD, dtype=np.int64), np.full(2, -1)
    with looking(there, 1):
        assert meet(there, 1, n, (first,), -1, 0) == 0
    assert first.tolist() == [0, n // 2]


def test_more_threads_than_strips_do_every_part_once() -> None:
    there, threads = np.zeros(helpers.BOARD, dtype=np.int64), board.STRIPS + 5
    assert len(there) >= board.FIRST_STRIP + board.STRIPS * board.STRIP_LINE
    with looking(there, 2):
        for n in (2, board.STRIPS - 1, board.STRIPS + 1, 200):
            task = notes(n, threads, length=20)
            assert note(there, threads - 1, n, task, -1, 0) == 0
            assert_array_equal(task[0], np.ones(n))


def test_two_who_call_at_once_both_have_all_their_parts() -> None:
    there = np.zeros(helpers.BOARD, dtype=np.int64)
    note(there, 0, 1, notes(1, 1), -1, 0)  # compiled
    wrong = []

    def call() -> None:
        for _ in range(300):
            task = notes(40, 3, length=50)
            note(there, 2, 40, task, -1, 0)
            wrong.extend([bool((task[0] != 1).any()), bool(task[3][0])])

    with looking(there, 2):
        callers = [threading.Thread(target=call) for _ in range(3)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    assert len(wrong) == 3 * 300 * 2
    assert not any(wrong)


@pytest.mark.parametrize("n_looking", [0, 2])
def test_parts_that_fail_are_counted_and_the_board_is_free_again(n_looking, monkeypatch) -> None:
    own = SimpleNamespace(board=np.zeros(helpers.BOARD, dtype=np.int64), rouse=lambda n: None)
    monkeypatch.setattr(blocks, "HELPERS", own)
    with looking(own.board, n_looking):
        for _ in range(50):
            done = np.zeros(10)
            assert fail(own.board, 2, 10, (done,), -1, 0) == 3  # parts 1, 4 and 7
            assert_array_equal(np.flatnonzero(done == 0), [1, 4, 7])
            assert own.board[board.OWNER] == 0
        with pytest.raises(MemoryError, match="no room"):
            run_parts(fail, Parts(10, 1, 3), (np.zeros(10),))
        task = notes(10, 3)
        run_parts(note, Parts(10, 1, 3), task)
        assert_array_equal(task[0], np.ones(10))


@needs_a_bell
def test_one_who_naps_is_woken_for_parts(fresh: Helpers, monkeypatch) -> None:
    fresh.rouse(1)
    assert until(lambda: fresh.board[board.NAPPING] == 1)
    monkeypatch.setattr(fresh._pool, "submit", None)  # who sleeps cannot be woken any more
    helped = False
    for _ in range(300):
        assert until(lambda: fresh.board[board.NAPPING] == 1)
        task = notes(200, 2, length=5_000)
        run_parts(note, Parts(200, 1, 2), task)
        assert_array_equal(task[0], np.ones(200))
        helped |= bool((task[1] == 1).any())
        if helped:  # a busy machine may have no core for it for a while
            break
    assert helped


@needs_a_bell
def test_one_who_naps_is_woken_for_a_call_of_python(fresh: Helpers) -> None:
    fresh.rouse(2)
    assert until(lambda: fresh.board[board.NAPPING] == 2)
    for _ in range(20):
        done: list[int] = []
        call = Call(lambda done=done: done.append(threading.get_ident()))
        start = time.monotonic()
        fresh.ask(call, 2)
        assert until(lambda done=done: len(done) == 2)
        assert time.monotonic() - start < helpers.NAP / 2
        assert call.close() == 2
        assert threading.get_ident() not in done


@needs_a_bell
def test_naps_come_to_an_end(fresh: Helpers, monkeypatch) -> None:
    monkeypatch.setattr(helpers, "NAP", 1)
    fresh.rouse(1)
    assert until(lambda: fresh.board[board.NAPPING] == 1)
    assert fresh._up == 1
    assert until(lambda: fresh._up == 0)  # it sleeps as any thread of Python
    assert fresh.board[board.NAPPING] == 0
    assert not fresh._awake
    fresh.rouse(1)
    assert until(lambda: fresh.board[board.NAPPING] == 1)


def test_as_many_threads_are_started_as_are_wanted_at_once(fresh: Helpers) -> None:
    for wanted, there in ((2, 2), (1, 2), (2, 2), (3, 3)):
        for _ in range(5):
            fresh.rouse(wanted)
        assert fresh._up == there
        assert until(lambda there=there: fresh.board[board.NAPPING] == there or not fresh._up)


def test_whoever_gives_up_while_somebody_is_roused_looks_again(monkeypatch) -> None:
    """It has looked in vain, and waits for the interpreter to say so."""
    there, looks = np.zeros(helpers.BOARD, dtype=np.int64), []

    def serve(own, flag, n, seconds) -> int:
        looks.append(int(own[helpers.ROUSED]))
        if len(looks) < 3:
            own[helpers.ROUSED] += 1  # after the last look
        return looks[-1]

    monkeypatch.setitem(twins._loaded, "board", SimpleNamespace(serve=serve))
    assert not Flag(there).is_seen()
    assert looks == [0, 1, 2]


SCRIPT = """
import time
import numpy as np
import conformix as cx
from conformix.kernels.helpers import HELPERS, NAPPING
probs = np.random.default_rng(0).dirichlet(np.full(100, 0.2), 3000)
cp = cx.ScoreAverage(("thr", "aps"), threads=3, random_state=0).fit(probs, probs.argmax(axis=1))
end = time.monotonic() + 60
while HELPERS.board[NAPPING] < 2 and time.monotonic() < end:
    time.sleep(0.01)
print(int(HELPERS.board[NAPPING]), time.time(), flush=True)
"""


@needs_a_bell
def test_a_process_ends_though_its_helpers_nap() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    napping, at = done.stdout.split()
    assert int(napping) >= 2
    assert time.time() - float(at) < helpers.NAP / 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_board_of_its_own() -> None:
    helpers.HELPERS.board[board.OWNER] = 1  # somebody is calling
    try:
        child = multiprocessing.get_context("fork").Process(target=_use_the_board)
        child.start()
        child.join(30)
        code = child.exitcode
        child.kill()
    finally:
        helpers.HELPERS.board[board.OWNER] = 0
    assert code == 0


def _use_the_board() -> None:
    own = helpers.HELPERS
    os._exit(0 if own.board[board.OWNER] == 0 and own._up == 0 else 1)


@pytest.mark.skipif(sys.platform != "linux", reason="cores are told apart on Linux")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_a_helper_leaves_the_core_of_whoever_calls_and_may_come_back() -> None:
    core, found = ctypes.CDLL(None).sched_getcpu, []
    board.step_aside(np.zeros(helpers.BOARD, dtype=np.int64) - 1)  # compiled

    def leave() -> None:
        there, cores = np.zeros(helpers.BOARD, dtype=np.int64), os.sched_getaffinity(0)
        for _ in range(20):
            there[board.CORE] = before = core()
            board.step_aside(there)
            found.append((core() != before, os.sched_getaffinity(0) == cores))

    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this process may run on one core")
    thread = threading.Thread(target=leave)
    thread.start()
    thread.join(20)
    assert len(found) == 20
    assert all(same for _, same in found)
    assert sum(left for left, _ in found) >= 10  # another core may be taken away again at once


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_parts_hold_every_row_once(n: int, threads: int, monkeypatch) -> None:
    monkeypatch.setattr(blocks, "PART_OUTPUTS", 10)
    parts = parts_of_rows(n, 3, threads)
    held = [i for k in range(parts.n) for i in range(k * parts.step, min((k + 1) * parts.step, n))]
    assert held == list(range(n))
    assert parts.threads <= max(1, min(threads, 3 * n // 10))
