"""What models predict comes in many forms, is checked once, and is one thing inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.regression.regressed import SMALLEST, check_regressed
from regression.responses import LEVELS, model_and_responses

MEAN = np.array([1.0, -2.0, 3.5])


def of_one(outputs: Any) -> cx.Regressed:
    (model,) = check_regressed(outputs).by_name.values()
    return model


@pytest.mark.parametrize(
    "outputs",
    [
        MEAN, MEAN.tolist(), MEAN[:, None], MEAN.astype(np.float32), pd.Series(MEAN),
        cx.Regressed(MEAN), pd.DataFrame({"mean": MEAN}),
    ],
    ids=["array", "list", "column", "float32", "series", "Regressed", "frame"],
)  # fmt: skip
def test_means_come_as_arrays_lists_columns_series_and_frames(outputs: Any) -> None:
    model = of_one(outputs)
    assert_array_equal(model.mean, MEAN)
    assert model.mean.dtype == np.float64
    assert model.has == {"mean"}


def test_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    model = cx.Regressed(torch.tensor(MEAN, requires_grad=True), torch.ones(3))
    assert_array_equal(model.mean, MEAN)
    assert_array_equal(of_one(torch.tensor(MEAN)).mean, MEAN)


@pytest.mark.parametrize(
    "columns", [(0.05, 0.95), ("0.05", "0.95"), ("q0.05", "q0.95"), ("q05", "q95")]
)
def test_a_frame_names_its_quantiles_by_their_levels(columns: tuple[Any, Any]) -> None:
    frame = pd.DataFrame({"mean": MEAN, "sigma": 1.0, columns[0]: MEAN - 1, columns[1]: MEAN + 1})
    model = of_one(frame)
    assert_array_equal(model.levels, [0.05, 0.95])
    assert_array_equal(model.quantiles, np.column_stack([MEAN - 1, MEAN + 1]))
    assert model.has == {"mean", "sigma", "quantiles"}


def test_a_mapping_of_quantiles_brings_its_levels() -> None:
    model = cx.Regressed(quantiles={0.9: MEAN + 1, 0.1: MEAN - 1})
    assert_array_equal(model.levels, [0.1, 0.9])
    assert_array_equal(model.quantiles[:, 0], MEAN - 1)


def test_quantiles_that_cross_are_sorted_and_levels_rise() -> None:
    model = cx.Regressed(quantiles=[[5.0, 1.0, 3.0]], levels=[0.9, 0.5, 0.1])
    assert_array_equal(model.levels, [0.1, 0.5, 0.9])
    assert_array_equal(model.quantiles, [[1.0, 3.0, 5.0]])


def test_a_sigma_of_zero_is_lifted_to_what_can_be_divided_by() -> None:
    assert cx.Regressed([1.0], [0.0]).sigma[0] == SMALLEST


def test_several_models_are_a_mapping_or_a_list() -> None:
    named = check_regressed({"a": MEAN, "b": cx.Regressed(MEAN, MEAN**2)})
    assert list(named.by_name) == ["a", "b"]
    listed = check_regressed([MEAN, cx.Regressed(MEAN)])
    assert list(listed.by_name) == ["model0", "model1"]


def test_rows_are_taken_by_slices_numbers_and_masks() -> None:
    model, _ = model_and_responses(8)
    for rows in (slice(2, 5), [2, 3, 4], np.arange(8) // 3 == 1):
        some = model[rows]
        place = np.arange(8)[rows]
        assert_array_equal(some.mean, model.mean[place])
        assert_array_equal(some.quantiles, model.quantiles[place])
        assert_array_equal(some.levels, LEVELS)
    for one in (3, -5, np.int64(3)):
        assert_array_equal(model[one].mean, model.mean[3:4])


def test_the_index_of_a_frame_goes_into_the_intervals() -> None:
    model, y = model_and_responses(60)
    frame = pd.DataFrame({"mean": model.mean}, index=[f"row {i}" for i in range(60)])
    cp = cx.RegressionAverage("abs", alpha=0.2).fit(frame, y)
    made = cp.predict_interval(frame)
    assert made.ids == list(frame.index)
    assert list(made[[4, 1]].to_frame().index) == ["row 4", "row 1"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (cx.Regressed, "must hold a mean or quantiles"),
        (lambda: cx.Regressed(sigma=[1.0]), "has sigma and no mean"),
        (lambda: cx.Regressed([1.0], [-1.0]), "row 0 holds -1"),
        (lambda: cx.Regressed([1.0, np.nan]), "mean of outputs must be finite; row 1 holds nan"),
        (lambda: cx.Regressed([1.0], [1.0, 2.0]), "as many rows in all its parts"),
        (lambda: cx.Regressed([[1.0, 2.0]]), r"one number per row, \(n,\); got shape \(1, 2\)"),
        (lambda: cx.Regressed(quantiles=[[1.0, 2.0]]), "has quantiles and no levels"),
        (lambda: cx.Regressed(levels=[0.1, 0.9]), "has levels and no quantiles"),
        (lambda: cx.Regressed(quantiles=[[1.0, 2.0]], levels=[0.1]), r"\(n, q\) with levels"),
        (lambda: cx.Regressed(quantiles=[[1.0, 2.0]], levels=[0.0, 0.9]), "strictly between"),
        (lambda: cx.Regressed(quantiles=[[1.0, 2.0]], levels=[0.1, 0.1]), "two different ones"),
        (lambda: cx.Regressed(quantiles={"low": [1.0]}), "named by their levels"),
        (lambda: cx.Regressed([]), "must not be empty"),
        (lambda: check_regressed({}), "empty mapping"),
        (lambda: check_regressed({"mean": MEAN, "sigma": MEAN}), r"say Regressed\(\.\.\.\)"),
        (lambda: check_regressed({"a": MEAN, "b": MEAN[:2]}), "must have the same rows"),
        (lambda: check_regressed({"a": {"mean": MEAN}}), "must be a Regressed"),
        (lambda: check_regressed(np.ones((3, 2))), r"say Regressed\(quantiles=\.\.\."),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(cx.InvalidInput, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", ")"))


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (lambda m: {"other": m}, "fitted models ''"),
        (lambda m: m.mean, "must hold sigma, quantiles, as in fit"),
        (
            lambda m: cx.Regressed(m.mean, m.sigma, m.quantiles[:, :3], LEVELS[:3]),
            "levels of fit, 0.05, 0.25, 0.5, 0.75, 0.95; got 0.05, 0.25, 0.5",
        ),
    ],
)
def test_new_rows_are_predicted_by_the_same_models(new: Any, sentence: str) -> None:
    model, y = model_and_responses(60)
    cp = cx.RegressionAverage(alpha=0.2, random_state=0, threads=1).fit(model, y)
    outputs = new(model)
    if isinstance(outputs, dict):
        outputs = outputs | {"second": model}
    with pytest.raises(cx.InvalidInput, match=sentence):
        cp.predict_interval(outputs)


def test_a_model_fitted_without_a_name_takes_one_with_any() -> None:
    model, y = model_and_responses(60)
    cp = cx.RegressionAverage("norm", alpha=0.2).fit(model, y)
    assert_array_equal(cp.predict_interval({"net": model}), cp.predict_interval(model))


def test_a_table_of_arrow_is_read_by_its_columns():
    arrow = pytest.importorskip("pyarrow")
    columns = {"mean": [1.0, 2.0], "sigma": [0.5, 1.0], "q05": [0.0, 1.0], "q95": [2.0, 3.5]}
    found = check_regressed(arrow.table(columns), "outputs").by_name[""]
    assert_array_equal(found.mean, columns["mean"])
    assert_array_equal(found.sigma, columns["sigma"])
    assert_array_equal(found.quantiles, np.column_stack([columns["q05"], columns["q95"]]))
    quantiles = arrow.table({"q05": columns["q05"], "q95": columns["q95"]})
    alone = cx.Regressed(quantiles=quantiles)
    assert_array_equal(alone.quantiles, found.quantiles)
    assert_array_equal(alone.levels, [0.05, 0.95])
