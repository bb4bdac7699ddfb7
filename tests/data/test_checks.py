"""Outputs, labels and what rows bring along, as the checks at the edge return them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conformix.data import checks
from conformix.data.checks import by_model, check_matrix, check_numbers, is_half, mapping, on_host
from conformix.data.labels import all_labels, check_classes, label_indices
from conformix.data.outputs import check_groups, check_labels, check_outputs, check_scores
from conformix.data.row_data import RowData, check_rows, group_names
from conformix.errors import InvalidInput

same = np.testing.assert_array_equal


def refused(sentence: str):
    return pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$")


def test_models_go_by_their_names_and_a_single_one_has_none() -> None:
    rows = [[0.2, 0.8]]
    assert list(by_model({"vgg": rows}, "outputs")) == ["vgg"]
    assert list(by_model(rows, "outputs")) == [""]
    assert list(by_model([rows, rows], "outputs")) == ["model0", "model1"]
    assert list(check_outputs({"a": rows, "b": [[0.5, 0.5]]}).models) == ["a", "b"]


def test_what_is_in_host_memory_already_stays_as_it_is() -> None:
    assert on_host([[0.5, 0.5]]) == [[0.5, 0.5]]
    assert is_half(np.zeros(3, dtype=np.float16))
    assert not is_half(np.zeros(3, dtype=np.float32))


def test_only_mapped_files_have_pages_to_give_back(tmp_path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert mapping(np.zeros(3)) is None
    assert mapping(np.load(tmp_path / "a.npy", mmap_mode="r")[1:]) is not None
    assert mapping(np.load(tmp_path / "a.npy", mmap_mode="c")) is None


def test_matrices_are_rectangular_finite_and_float64() -> None:
    assert check_matrix([[1, 2]], "features").dtype == np.float64
    with refused("features must be a non-empty matrix (n, p); got shape (2,)."):
        check_matrix([1, 2], "features")
    with refused("features must be finite; got NaN or inf."):
        check_matrix([[np.nan]], "features")
    with refused("pvalues must be a rectangular array of real numbers."):
        check_numbers("abc", "pvalues")


def test_labels_are_indices_or_names_and_never_both() -> None:
    same(check_labels([0, 2], n=2, n_classes=3), [0, 2])
    same(label_indices(["dog", "cat"], ("cat", "dog"), 2, 2), [1, 0])
    same(label_indices([1, 0], ("cat", "dog"), 2, 2), [1, 0])
    same(label_indices([20, 10], (10, 20), 2, 2), [1, 0])


def test_class_names_are_plain_values_and_hold_every_label_that_was_met() -> None:
    assert check_classes(np.array(["cat", "dog"]), 2) == ("cat", "dog")
    assert check_classes(None, 2) is None
    same(all_labels(["b", "c", "a"], np.array(["a", "c"])), ["a", "b", "c"])
    with refused("classes must hold every label of y and of fitted estimators; 3 is missing."):
        all_labels([1, 2], np.array([1, 3]))


def test_scores_are_a_tensor_of_three_axes() -> None:
    with refused("scores must be an array of shape (n, K, d); got shape (2, 3)."):
        check_scores(np.zeros((2, 3)))
    assert check_scores(np.zeros((2, 3, 1), dtype=np.float16)).dtype == np.float64


def test_groups_are_numbered_in_sorted_order() -> None:
    same(check_groups(["b", "a", "b"], n=3), [1, 0, 1])
    assert group_names(RowData(strata=np.array([7, 3, 7]))) == (3, 7)
    assert RowData(strata=np.array(["a", "b"])).take(slice(1, 2)).strata.tolist() == ["b"]


def test_rows_bring_what_the_calibration_needs_and_nothing_else() -> None:
    same(check_rows(None, [1, 2], 2, ("sample_weight",), "weighted").weight, [1.0, 2.0])
    with refused('calibration "group" needs strata=..., one value per row.'):
        check_rows(None, None, 2, ("strata",), "group")
    with refused(
        'strata has no use under calibration "one"; it is for calibration="group" or PerGroup(...).'
    ):
        check_rows([0, 1], None, 2, (), "one")


TOLERANCE = 1e-4
BEYOND = 1.0 + TOLERANCE


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ([0.5, 0.5, 0.0], "probs"), ([1.0, -0.0, 0.0], "probs"), ([np.nan, 0.5, 0.5], "probs"),
        ([np.inf, -np.inf, 1.0], "probs"), ([-1e-3, 0.5, 0.501], "probs"),
        ([1.2, -0.2, 0.0], "probs"), ([BEYOND, 0.0, 0.0], "probs"),
        ([np.nextafter(BEYOND, 2), 0.0, 0.0], "probs"), ([0.3, 0.3, 0.3], "probs"),
        ([1e4, -1e4, 0.0], "logits"), ([6e4, 6e4, 6e4], "logits"), ([np.nan, 0.0, 0.0], "logits"),
        ([np.inf, -np.inf, 0.0], "logits"), ([1.7e308, 1.7e308, 0.0], "logits"),
        ([-np.inf, 0.0, 0.0], "logits"),
    ],
)  # fmt: skip
def test_numbers_are_refused_whether_or_not_they_are_looked_at_one_by_one(
    monkeypatch, row, kind, dtype
) -> None:
    with np.errstate(over="ignore"):
        block = np.array([[0.25, 0.25, 0.5], row], dtype=dtype)
    answers = []
    for glance in (checks._are_fine, lambda *_: False):
        monkeypatch.setattr(checks, "_are_fine", glance)
        try:
            answers.append(checks.check_values(block, kind, "outputs", 0, TOLERANCE))
        except InvalidInput as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
