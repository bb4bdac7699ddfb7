from __future__ import annotations

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx

MASK = np.array([[True, False, True], [False, False, False]])


def test_sets_behave_as_a_boolean_array() -> None:
    sets = cx.PredictionSets(MASK)
    assert sets.shape == (2, 3)
    assert sets.dtype == bool
    assert len(sets) == 2
    assert_array_equal(np.asarray(sets), MASK)
    assert_array_equal(np.asarray(sets, dtype=int), MASK.astype(int))
    assert_array_equal(sets[0], MASK[0])
    assert sets[0, 2]
    assert_array_equal(sets[:, 0], MASK[:, 0])
    assert_array_equal(list(sets), MASK)
    assert_array_equal(sets == MASK, np.ones((2, 3), dtype=bool))
    assert_array_equal(np.logical_not(sets), ~MASK)
    assert_array_equal(sets | MASK, MASK)
    assert np.sum(sets) == 2


def test_sets_know_their_sizes_and_labels() -> None:
    sets = cx.PredictionSets(MASK)
    assert_array_equal(sets.sizes, [2, 0])
    assert sets.labels(0) == [0, 2]
    assert sets.labels(1) == []
    assert sets.labels(-2) == [0, 2]


def test_labels_are_class_names_where_there_are_any() -> None:
    sets = cx.PredictionSets(MASK, classes=("cat", "dog", "eel"))
    assert sets.labels(0) == ["cat", "eel"]


def test_the_repr_says_how_many_over_how_many_and_the_mean_size() -> None:
    assert repr(cx.PredictionSets(MASK)) == "PredictionSets(2 sets over 3 classes, mean size 1.00)"
    many = cx.PredictionSets(np.ones((12_345, 2), dtype=bool))
    assert repr(many) == "PredictionSets(12,345 sets over 2 classes, mean size 2.00)"
    none = cx.PredictionSets(np.ones((0, 2), dtype=bool))
    assert repr(none) == "PredictionSets(0 sets over 2 classes, mean size -)"


def test_sets_become_a_frame() -> None:
    pytest.importorskip("pandas")
    frame = cx.PredictionSets(MASK, classes=["cat", "dog", "eel"]).to_frame()
    assert list(frame.columns) == ["size", "labels"]
    assert frame["size"].tolist() == [2, 0]
    assert frame["labels"].tolist() == [["cat", "eel"], []]


def test_sets_are_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(cx.PredictionSets(MASK))


def test_a_copy_asked_for_is_a_copy() -> None:
    sets = cx.PredictionSets(MASK.copy())
    copied = np.array(sets, copy=True)
    copied[:] = True
    assert_array_equal(sets, MASK)


WAYS_TO_WRITE = {
    "into the mask": lambda sets: sets.mask.__setitem__((0, 1), True),
    "into a row": lambda sets: sets[0].__setitem__(1, True),
    "into the array": lambda sets: np.asarray(sets).__setitem__((0, 1), True),
    "by a method of arrays": lambda sets: sets.fill(True),
    "by a method of ufuncs": lambda sets: np.logical_or.at(sets, (0, 1), True),
}


@pytest.mark.parametrize("way", WAYS_TO_WRITE)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_members_cannot_be_written_behind_the_back_of_their_order(way: str, again) -> None:
    sets = again(cx.PredictionSets(MASK.copy(), order=np.array([2, 0])))
    with pytest.raises(ValueError, match="read-only"):
        WAYS_TO_WRITE[way](sets)
    assert sets.labels(0) == [2, 0]
    assert_array_equal(sets, MASK)


def test_sets_change_in_place_by_operators_and_their_labels_with_them() -> None:
    sets = cx.PredictionSets(MASK.copy(), order=np.array([2, 0]))
    assert sets.members() == [[2, 0], []]  # read before, which must leave nothing behind
    sets |= np.array([[False, True, False], [True, False, False]])
    assert [sets.labels(i) for i in range(2)] == [[0, 1, 2], [0]]
    assert sets.members() == [[0, 1, 2], [0]]


@pytest.mark.parametrize(
    "again", [copy.copy, lambda sets: cx.PredictionSets(sets.mask)], ids=["copy", "of the mask"]
)
def test_sets_that_change_leave_those_alone_that_share_their_mask(again) -> None:
    sets = cx.PredictionSets(MASK.copy(), order=np.array([2, 0]))
    others = again(sets)
    others &= np.array([True, False, False])
    assert others.members() == [[0], []]
    assert sets.members() == [[2, 0], []]
    assert_array_equal(sets, MASK)


def test_an_operator_that_fails_changes_nothing() -> None:
    sets = cx.PredictionSets(MASK.copy(), order=np.array([2, 0]))
    with pytest.raises(ValueError, match="broadcast"):
        sets &= np.ones((5, 5), dtype=bool)
    assert sets.labels(0) == [2, 0]


def test_the_mask_is_no_copy() -> None:
    mask = MASK.copy()
    assert np.shares_memory(cx.PredictionSets(mask).mask, mask)
    mask[0, 1] = True  # whoever made the array may still write into it
    assert mask[0, 1]


def test_empty_sets_and_full_sets_are_allowed_by_the_metrics() -> None:
    assert cx.metrics.coverage(MASK, [0, 0]) == 0.5
    assert_array_equal(cx.metrics.covered(cx.PredictionSets(MASK), [2, 1]), [True, False])
    assert cx.metrics.mean_size(cx.PredictionSets(MASK)) == 1.0


def test_sets_can_be_changed_in_place_and_be_the_output_of_a_ufunc():
    sets = cx.PredictionSets(np.array([[True, True, False]]))
    sets &= np.array([[True, False, True]])
    assert_array_equal(sets, [[True, False, False]])
    room = cx.PredictionSets(np.zeros((1, 3), dtype=bool))
    np.logical_not(sets, out=room)
    assert_array_equal(room.mask, [[False, True, True]])


def test_sets_that_are_changed_in_place_list_the_labels_that_they_hold() -> None:
    sets = cx.PredictionSets(np.array([[True, True]]), ["a", "b"], np.array([1, 0]))
    assert sets.labels(0) == ["b", "a"]
    same = sets
    same &= np.array([[True, False]])
    assert_array_equal(sets, [[True, False]])
    assert (sets.labels(0), sets.members()) == (["a"], [["a"]])
