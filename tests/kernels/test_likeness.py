"""Prototypes of labels by 16-bit numbers: whole numbers throughout, whoever adds them up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.kernels import patterns
from conformix.kernels.host import likeness, products
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import learnt
from conformix.scores.learnt import Likeness, parts_of
from conformix.scores.ranked import Ranked

pytestmark = pytest.mark.skipif(not likeness.are_quick(), reason="no quick step on this machine")


@pytest.fixture(autouse=True)
def loaded() -> None:
    compile_for(WORTHWHILE)


def rows_of(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and patterns, the largest and the smallest that there are among them."""
    rng = np.random.default_rng(n + n_classes)
    probs = rng.dirichlet(np.full(n_classes, 0.2), n)
    probs[::3] = np.eye(n_classes)[rng.integers(n_classes, size=len(probs[::3]))]
    found = patterns.patterns(np.log(np.maximum(probs, 1e-12)))
    found[1::4] = 0.0
    found[1::4, 0] = rng.choice([-1.0, 1.0], size=len(found[1::4]))
    return probs, found


def exactly(probs: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the sums of products in multiples of 2^-40, by whole numbers."""
    units = np.rint(probs * 2**20).astype(np.int64), (some.astype(float) * 2**12).astype(np.int64)
    return (units[0].T @ units[1]) * 2**8


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5, 64, 127, 128])
def test_sums_over_rows_are_those_of_whole_numbers(n_classes: int, threads: int) -> None:
    step = likeness.MOST_ROWS
    for n in (1, 33, step - 1, step, step + 1, 3 * step + 17):
        if n * n_classes < 2**10:
            continue  # so few are left to NumPy
        probs, some = rows_of(n, n_classes)
        assert_array_equal(patterns.prototype_sums(probs, some, threads), exactly(probs, some))


def test_sums_have_room_for_rows_that_all_say_the_same() -> None:
    """The largest sum that there is: every product is one."""
    n = 4 * likeness.MOST_ROWS
    probs, some = np.ones((n, 3)), np.ones((n, 3), dtype=np.float32)
    for sign in (1, -1):
        found = patterns.prototype_sums(probs, sign * some)
        assert_array_equal(found, np.full((3, 3), sign * n * 2**40))


def test_many_labels_are_left_to_matrix_products(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, some = rows_of(50, patterns.FEW_LABELS + 1)
    monkeypatch.setattr(likeness, "adding", None)
    assert_array_equal(patterns.prototype_sums(probs, some), exactly(probs, some))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [2, 3, 17, 100, 300])
def test_rows_that_leave_themselves_out_score_as_without_the_loop(
    n_classes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = max(6_000 // n_classes, 40)
    ranked = Ranked(rows_of(n, n_classes)[0])
    sums, parts = Likeness().sums(ranked), parts_of(n, None, n_classes)
    found = Likeness().left_out(ranked, sums, parts, threads)
    room = np.full((n, n_classes), np.nan)
    assert Likeness().left_out(ranked, sums, parts, threads, out=room) is room
    monkeypatch.setattr(learnt, "loops", lambda *_: None)
    expected = Likeness().left_out(ranked, sums, parts, threads)
    assert_array_equal(found, expected)
    assert_array_equal(room, expected)
    assert (expected != 0).any()


@pytest.mark.parametrize("threads", [1, 2, 7, 16])
def test_rows_are_cut_evenly_into_parts_that_32_bits_hold(threads: int) -> None:
    for n in (1, 31, 480, 481, 960, 1667, 4000, 50_001):
        step = likeness.rows_of_part(n, threads)
        parts = -(-n // step)
        assert step % products.LANES == 0
        assert step <= likeness.MOST_ROWS
        # All threads have as many, but for what filling up the last rows takes.
        turns = -(-parts // threads)
        assert turns * threads * step - n < threads * turns * products.LANES + step


@pytest.mark.parametrize("threads", [1, 2])
def test_few_rows_are_held_at_once_however_many_there_are(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked, held = Ranked(rows_of(5_000, 8)[0]), []

    def room_for(workers: int, n_classes: int, step: int) -> np.ndarray:
        held.append(step)
        return original(workers, n_classes, step)

    original = likeness.room_for
    monkeypatch.setattr(likeness, "room_for", room_for)
    sums = Likeness().sums(ranked)
    Likeness().left_out(ranked, sums, parts_of(5_000, None, 8), threads)
    assert held
    assert max(held) <= likeness.ROWS_AT_ONCE
