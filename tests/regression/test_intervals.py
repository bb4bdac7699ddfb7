"""Intervals: two ends per row, the comparison, tables and files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import conformix as cx

LOWER = np.array([0.0, 1.0, 5.0, -np.inf])
UPPER = np.array([2.0, 1.0, 4.0, 7.0])


def made(**options: Any) -> cx.Intervals:
    return cx.Intervals(LOWER, UPPER, **options)


def test_ends_widths_and_emptiness() -> None:
    intervals = made()
    assert_array_equal(intervals.is_empty, [False, False, True, False])
    assert_array_equal(intervals.width, [2.0, 0.0, 0.0, np.inf])
    assert intervals[2] == (np.inf, -np.inf)
    assert intervals[-1] == (-np.inf, 7.0)
    assert len(intervals) == 4
    assert list(intervals)[1] == (1.0, 1.0)
    assert np.asarray(intervals).shape == (4, 2)


def test_both_ends_are_in_and_empty_ones_hold_nothing() -> None:
    intervals = made()
    assert_array_equal(intervals.contains([0.0, 1.0, 4.5, -1e300]), [True, True, False, True])
    assert_array_equal(intervals.contains([2.0, 1.5, 5.0, 7.5]), [True, False, False, False])
    assert_array_equal(intervals.contains(1.0), [True, True, False, True])
    below, above = np.nextafter(0.0, -1), np.nextafter(2.0, 3)
    assert not cx.Intervals([0.0, 0.0], [2.0, 2.0]).contains([below, above]).any()


def test_ends_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        made().lower[0] = 3.0


def test_some_rows_are_intervals_with_their_names() -> None:
    intervals = made(ids=["a", "b", "c", "d"])
    for key in (slice(1, 3), [1, 2], np.array([False, True, True, False])):
        some = intervals[key]
        assert some.ids == ["b", "c"]
        assert_array_equal(some.lower, [1.0, np.inf])


def test_frames_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    intervals = made(ids=["a", "b", "c", "d"])
    frame = intervals.to_frame(keep={"site": [1, 1, 2, 2]})
    assert list(frame.columns) == ["site", "lower", "upper", "width"]
    assert list(frame.index) == ["a", "b", "c", "d"]
    assert np.isnan(frame.loc["c", "lower"])
    assert np.isnan(frame.loc["c", "upper"])
    intervals.to_csv(tmp_path / "made.csv", keep={"site": [1, 1, 2, 2]})
    read = pd.read_csv(tmp_path / "made.csv").set_index("id")
    assert_array_equal(read.to_numpy(dtype=float), frame.to_numpy(dtype=float))
    intervals.to_parquet(tmp_path / "made.parquet")
    stored = pd.read_parquet(tmp_path / "made.parquet")
    assert_array_equal(stored["width"], intervals.width)
    assert (tmp_path / "made.csv").read_text().splitlines()[0] == "id,site,lower,upper,width"


def test_csv_numbers_come_back_bit_for_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lower = rng.normal(size=50)
    intervals = cx.Intervals(lower, lower + rng.exponential(size=50))
    intervals.to_csv(tmp_path / "made.csv")
    with (tmp_path / "made.csv").open() as file:
        read = [(float(row["lower"]), float(row["upper"])) for row in csv.DictReader(file)]
    assert_array_equal(read, np.asarray(intervals))


def test_a_notebook_shows_the_first_rows() -> None:
    page = cx.Intervals(np.arange(30.0), np.arange(30.0) + 1, ids=["<b>"] * 30)._repr_html_()
    assert page.count("<tr>") == 10
    assert "20 more rows" in page
    assert "&lt;b&gt;" in page
    assert "<i>empty</i>" in made()._repr_html_()


def test_levels_are_found_by_their_fraction() -> None:
    nested = cx.NestedIntervals([[0.0], [0.5]], [[4.0], [3.0]], [0.1, 0.3], ids=["a"])
    assert nested.at(1 - 0.7)[0] == (0.5, 3.0)
    assert_array_equal(nested.mean_widths, [4.0, 2.5])
    assert list(nested.to_frame()["alpha"]) == [0.1, 0.3]
    assert len(nested) == 1
    with pytest.raises(cx.InvalidInput, match="one of the predicted levels"):
        nested.at(0.2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cx.Intervals([0.0], [1.0, 2.0]), "one number per row"),
        (lambda: cx.Intervals([np.nan], [1.0]), "row 0 holds NaN"),
        (lambda: cx.Intervals([[0.0]], [[1.0]]), r"shape \(n,\)"),
        (lambda: cx.Intervals(["a"], ["b"]), "real numbers"),
        (lambda: cx.Intervals([0.0], [1.0], ids=["a", "b"]), "ids must hold one value"),
        (lambda: made().contains([1.0]), "y must hold one number per row"),
        (lambda: made().contains("text"), "real numbers"),
        (lambda: made().to_frame(keep={"width": [1] * 4}), "keep must hold"),
        (lambda: cx.NestedIntervals([[0.0]], [[1.0]], [0.1, 0.2]), "alphas must name all 1"),
        (lambda: cx.NestedIntervals([0.0], [1.0], [0.1]), r"shape \(levels, n\)"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence):
        make()
