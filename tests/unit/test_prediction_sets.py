from __future__ import annotations

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


def test_empty_sets_and_full_sets_are_allowed_by_the_metrics() -> None:
    assert cx.metrics.coverage(MASK, [0, 0]) == 0.5
    assert_array_equal(cx.metrics.covered(cx.PredictionSets(MASK), [2, 1]), [True, False])
    assert cx.metrics.mean_size(cx.PredictionSets(MASK)) == 1.0
