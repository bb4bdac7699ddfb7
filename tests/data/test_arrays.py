"""Small pieces on arrays: what goes in and out, rows in blocks, what becomes of combined scores."""

from __future__ import annotations

import re
from importlib import import_module

import numpy as np
import pytest

from conformix.errors import InvalidInput
from conformix.kernels import twins
from conformix.kernels.arrays import (
    as_generator,
    host_array,
    of_labels,
    places,
    quotient,
    some_rows,
)
from conformix.kernels.blocks import Buffers, row_blocks
from conformix.kernels.combine import RankLimits, true_ranks
from conformix.kernels.order import falling_within_rows
from conformix.kernels.simplex import preference

same = np.testing.assert_array_equal


@pytest.mark.parametrize(
    "values",
    [np.ma.array([1, 2], mask=[False, True]), [np.ma.array([1, 2], mask=[False, True])]],
    ids=["array", "row of a list"],
)
def test_masked_values_are_refused_and_not_read_from_under_the_mask(values) -> None:
    sentence = (
        "y must have no missing values; 1 of 2 are masked (fill them, or leave out their rows)."
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        host_array(values, "y")


def test_a_mask_that_hides_nothing_is_no_reason_to_refuse() -> None:
    same(host_array(np.ma.array([1, 2]), "y"), [1, 2])


def test_a_seed_gives_the_same_stream_every_time() -> None:
    assert as_generator(3).integers(10**9) == as_generator(3).integers(10**9)


def test_places_count_equal_values_on_the_right_and_not_on_the_left() -> None:
    rising, values = np.array([0.1, 0.4]), np.array([0.4])
    assert places(rising, values, "right") == 2
    assert places(rising, values, "left") == 1


def test_one_entry_per_row_and_some_of_the_rows() -> None:
    same(of_labels(np.array([[1, 2], [3, 4]]), np.array([1, 0])), [2, 3])
    scores = np.arange(6.0).reshape(3, 2, 1)
    same(some_rows(scores, np.array([0, 2])), scores[[0, 2]])
    same(quotient(np.array([1, 2]), 4), [0.25, 0.5])


def test_rows_of_unequal_length_fall_and_equal_values_keep_their_order() -> None:
    order = falling_within_rows(np.array([0.1, 0.7, 0.5, 0.5]), np.array([2, 0, 2]))
    same(order, [1, 0, 2, 3])


@pytest.mark.parametrize("compiled", [False, True])
def test_rows_of_any_length_fall_as_a_stable_sort_has_them(monkeypatch, compiled) -> None:
    kernels = {"order": import_module("conformix.kernels.host.order")} if compiled else {}
    monkeypatch.setattr(twins, "_loaded", kernels)
    monkeypatch.setattr(twins, "MANY", 0)
    rng = np.random.default_rng(0)
    sizes = np.array([0, 1, 2, 3, 47, 48, 49, 50, 200, 0, 5, *rng.integers(0, 60, 40)])
    rows = np.repeat(np.arange(len(sizes)), sizes)
    for values in (rng.normal(size=len(rows)), rng.integers(0, 3, len(rows)).astype(np.float32)):
        same(falling_within_rows(values, sizes), np.lexsort((-values, rows)))
    assert len(falling_within_rows(values[:0], sizes[:0])) == 0


def test_blocks_hold_as_many_rows_as_fit_and_leave_none_out() -> None:
    assert [(b.start, b.stop) for b in row_blocks(3, 2**19)] == [(0, 2), (2, 3)]
    assert [(b.start, b.stop) for b in row_blocks(2, 2**30)] == [(0, 1), (1, 2)]
    assert list(row_blocks(0, 5)) == []


def test_memory_that_was_given_back_is_lent_again_and_two_borrowers_share_none() -> None:
    buffers = Buffers((2, 3))
    with buffers.borrow() as first, buffers.borrow() as second:
        assert first is not second
        assert first.shape == (2, 3)
    with buffers.borrow() as again:
        assert again is first or again is second


def test_a_label_beyond_its_rank_falls_and_labels_that_tie_stay_together() -> None:
    limits = RankLimits(np.array([3, 1, 3]), drop=9.0)
    same(limits(np.array([[0.5, 0.25, 0.125]])), [[0.5, -8.75, 0.125]])
    same(limits(np.array([[0.5, 0.5, 0.125]])), [[0.5, 0.5, 0.125]])


def test_the_rank_of_a_true_label_counts_what_is_strictly_above() -> None:
    same(true_ranks(np.array([[0.5, 0.3, 0.2], [0.5, 0.5, 0.0]]), np.array([1, 1])), [2, 1])


def test_weights_closest_to_equal_come_first_then_in_lexicographic_order() -> None:
    same(preference(np.array([[2, 0], [1, 1], [0, 2]])), [1, 2, 0])
