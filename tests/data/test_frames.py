"""Frames whose columns are called as the classes are say which column is which."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import conformix as cx

pd = pytest.importorskip("pandas")
NAMES = ["cat", "dog", "emu"]


def rows(n: int, seed: int) -> tuple:
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    P = rng.dirichlet(np.full(3, 0.6), size=n) + np.eye(3)[y]
    ids = [f"row {i}" for i in range(n)]
    return pd.DataFrame(P / 2, columns=NAMES, index=ids), y, np.array(NAMES)[y]


P, Y, LABELS = rows(300, 0)
NEW, _, _ = rows(50, 1)


@cache
def plain():
    return cx.ScoreAverage("thr").fit(P.to_numpy(), Y, classes=NAMES).predict_set(NEW.to_numpy())


@pytest.mark.parametrize(
    "labels", [LABELS, list(LABELS), pd.Series(LABELS)], ids=["str", "list", "pd"]
)
def test_labels_that_are_columns_need_no_list_of_classes(labels) -> None:
    cp = cx.ScoreAverage("thr").fit(P, labels)
    assert list(cp.classes_) == NAMES
    np.testing.assert_array_equal(np.asarray(cp.predict_set(NEW)), np.asarray(plain()))
    assert cp.predict_set(NEW).labels("row 3") == plain().labels(3)


@pytest.mark.parametrize("wrap", [lambda p: p, lambda p: {"m": p}, lambda p: [p, p]], ids=range(3))
def test_columns_are_found_by_name_in_whatever_order_they_come(wrap) -> None:
    turned = ["emu", "cat", "dog"]
    cp = cx.ScoreAverage("thr", random_state=0).fit(wrap(P), LABELS)
    again = cp.predict_set(wrap(NEW[turned]))
    np.testing.assert_array_equal(np.asarray(again), np.asarray(cp.predict_set(wrap(NEW))))
    other = cx.ScoreAverage("thr", random_state=0).fit(wrap(P[turned]), LABELS, classes=NAMES)
    np.testing.assert_array_equal(np.asarray(other.predict_set(wrap(NEW))), np.asarray(again))


def test_polars_frames_are_taken_as_pandas_ones_are() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: NEW[name].to_numpy() for name in ("dog", "emu", "cat")})
    cp = cx.ScoreAverage("thr").fit(P, LABELS)
    np.testing.assert_array_equal(np.asarray(cp.predict_set(frame)), np.asarray(plain()))


def test_other_columns_and_labels_that_are_numbers_stay_as_they_were() -> None:
    renamed = P.set_axis(["p0", "p1", "p2"], axis=1)
    cp = cx.ScoreAverage("thr").fit(renamed, Y)
    assert cp.predictor_.classes is None
    turned = renamed[["p2", "p0", "p1"]]  # nobody says what these are
    assert (np.asarray(cp.predict_set(turned)) != np.asarray(cp.predict_set(renamed))).any()
    with pytest.raises(
        cx.InvalidInput, match=r"y must hold class names \('p0', 'p1', 'p2'\); row 0"
    ):
        cx.ScoreAverage("thr").fit(renamed, LABELS)


def test_rows_are_called_by_what_they_are_called_or_by_their_place() -> None:
    sets = cx.ScoreAverage("thr").fit(P, LABELS).predict_set(NEW)
    with pytest.raises(cx.InvalidInput, match="0 to 49, or what the row is called in ids; got 'x'"):
        sets.labels("x")
    with pytest.raises(cx.InvalidInput, match=r"labels takes the place of one row, 0 to 49; got"):
        plain().labels("row 3")


def test_one_row_of_a_frame_is_said_to_be_one() -> None:
    from sklearn.naive_bayes import GaussianNB

    clf = cx.ConformalClassifier(GaussianNB(), random_state=0).fit(P, LABELS)
    with pytest.raises(
        cx.InvalidInput, match=r"one row, a Series of 3 values: write X.iloc\[\[0\]\]"
    ):
        clf.predict_set(P.iloc[0])
