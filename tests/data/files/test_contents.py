"""What is taken from a file: columns, labels by name, rows, and how much is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from conformix.data.files.batch import aligned, check_rounding, parse_part
from conformix.data.files.contents import (
    Choice,
    Contents,
    Labels,
    a_few,
    choose_columns,
    indices_of,
    same_labels,
)
from conformix.data.files.limits import size_text
from conformix.errors import InvalidInput


def test_columns_are_labels_outputs_or_left_out() -> None:
    columns = choose_columns(Path("a.csv"), ["id", "cat", "dog", "y"], Choice(drop=("id",)))
    assert (columns.label, columns.numbers, columns.classes) == (3, [1, 2], ("cat", "dog"))
    assert columns.others == {"id": "column left out"}


def test_labels_by_name_become_indices_or_point_to_the_first_row_without_a_class() -> None:
    known = Labels(["dog", "cat"], np.array([0, 1]))
    assert indices_of(known, ("cat", "dog")).tolist() == [1, 0]
    assert indices_of(Labels(["dog", "emu"], np.array([0, 1])), ("cat", "dog")) == 1


def test_labels_are_the_same_whatever_their_codes() -> None:
    one = Labels(["a", "b"], np.array([0, 1]))
    assert same_labels(one, Labels(["b", "a"], np.array([1, 0])))
    assert not same_labels(one, Labels(["b", "a"], np.array([0, 1])))


def test_columns_of_a_file_take_the_order_of_the_classes() -> None:
    one = Contents(Path("a.npz"), {"": np.array([[0.2, 0.8]])}, classes=("b", "a"))
    assert aligned(one, ("a", "b")).models[""].tolist() == [[0.8, 0.2]]


@pytest.mark.parametrize(
    ("text", "rows"), [(None, (0, 5)), ("2:", (2, 5)), (":2", (0, 2)), ("1:99", (1, 5))]
)
def test_a_part_names_first_and_last_row(text, rows) -> None:
    assert parse_part(text, 5) == slice(*rows)


def test_probabilities_rounded_too_much_are_not_taken_for_others() -> None:
    sentence = (
        "probabilities were rounded too much: row 0 sums to 0.999; write them with six digits or "
        "more, or have rows divided by their sums: --renormalize."
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        check_rounding({"": np.array([[0.333, 0.333, 0.333]])})


def test_of_many_names_and_bytes_a_sentence_says_a_few() -> None:
    assert a_few([f"c{i}" for i in range(100)], most=3) == "'c0', 'c1', 'c2' and 97 more"
    assert [size_text(n) for n in (3 * 2**30, 2**19, 12)] == ["3.0 GiB", "512.0 KiB", "12 bytes"]
    assert size_text(10**400) == "more than 999,999,999 TiB"
