"""Two threads and a forked child may search at the same time."""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from conformix.search import search_weights


def answer(threads: int | None = 2) -> tuple:
    rng = np.random.default_rng(0)
    scores = rng.random((3000, 20, 3)) ** 4
    found = search_weights(scores, np.zeros(3000, int), alpha=0.1, resolution=40, threads=threads)
    return tuple(found.weights.tolist()), found.count


def child(queue: multiprocessing.Queue) -> None:
    queue.put((answer(), answer(None)))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork, absent here"
)
def test_two_threads_and_a_forked_child_search_at_the_same_time() -> None:
    expected = answer(1)
    context = multiprocessing.get_context("fork")
    with ThreadPoolExecutor(2) as pool:
        here = [pool.submit(answer) for _ in range(4)]
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        with warnings.catch_warnings():
            # Python 3.12 warns of any fork beside threads; that it works is what is tested.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        there = queue.get(timeout=60)
        process.join(timeout=60)
    assert [f.result() for f in here] == [expected] * 4
    assert there == (expected, expected)
    assert process.exitcode == 0
