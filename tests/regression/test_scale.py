"""The scale of scores: learnt without responses, from rows that do not calibrate or from all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.regression.regressed import check_regressed
from conformix.regression.scale import LEAST, SymmetricScale, learnt_scale
from conformix.regression.scores import regression_columns
from regression.responses import model_and_responses

NAMES = ("abs", "norm", "cqr_r", "cqr_m", "laplace", "log_sigma")


def columns_of(model: cx.Regressed) -> tuple:
    return regression_columns({"": model}, NAMES)


def test_on_the_learnt_scale_the_mean_of_one_over_the_slope_is_one() -> None:
    model, _ = model_and_responses(300)
    planes = learnt_scale(check_regressed(model), columns_of(model))(check_regressed(model))
    spread = 0.5 / planes.below[:, :-1] + 0.5 / planes.above[:, :-1]
    assert_allclose(spread.mean(axis=0), 1, rtol=1e-3)  # floors lift a few rows
    assert (planes.below[:, :-1] <= 1 / LEAST * (1 + 1e-12)).all()


def test_a_score_without_slopes_stays_as_it_is() -> None:
    model, _ = model_and_responses(50)
    scale = learnt_scale(check_regressed(model), columns_of(model))
    assert scale.means[-1] == 1
    assert scale.floors[-1] == 0
    assert scale.means[0] == 1


def test_units_of_the_response_do_not_matter() -> None:
    model, y = model_and_responses(400)
    times = 1024.0
    large = cx.Regressed(
        times * model.mean, times * model.sigma, times * model.quantiles, model.levels
    )
    settings = {"alpha": 0.2, "random_state": 0, "threads": 1}
    for split in ("vfcp", "efcp", "exact"):
        cp = cx.RegressionAverage(("abs", "norm", "cqr_m"), split=split, **settings)
        small = cp.fit(model[:100], y[:100]).predict_interval(model[100:])
        wide = cp.fit(large[:100], times * y[:100]).predict_interval(large[100:])
        assert_array_equal(np.asarray(wide), times * np.asarray(small))


def test_the_scale_of_a_holdout_split_comes_from_tuning_rows_alone() -> None:
    model, y = model_and_responses(300)
    settings = {"alpha": 0.2, "random_state": 0, "threads": 1}
    cp = cx.RegressionAverage(("abs", "norm"), **settings).fit(model, y)
    roles = cx.splits.ValidityFirst(0.4).roles(300, 0, _rng_after_the_key(0))
    expected = model.sigma[roles.tune].mean()
    assert cp.predictor_.fitted.rule.transform.means[1] == pytest.approx(expected)


def _rng_after_the_key(seed: int) -> np.random.Generator:
    from conformix.scores.tensor import draw_key

    rng = np.random.default_rng(seed)
    draw_key(rng)
    return rng


def test_the_symmetric_scale_is_that_of_all_rows_in_any_order() -> None:
    model, _ = model_and_responses(12)
    columns = columns_of(model)
    found = []
    for i in range(12):
        order = np.roll(np.arange(12), i)
        rows = check_regressed(model[order[:-1]])
        found.append(SymmetricScale(rows, columns).of_rows(check_regressed(model[order[-1:]]))[0])
    assert_array_equal(np.array(found), np.broadcast_to(found[0], (12, len(NAMES))))
    learnt = np.array(learnt_scale(check_regressed(model), columns).means)
    ratio = found[0][1:-1] / learnt[1:-1]
    assert ((ratio > 0.7) & (ratio < 1.42)).all()
    assert_array_equal(np.frexp(found[0][1:-1])[0], 0.5)  # powers of two


def test_the_symmetric_scale_counts_the_row_to_predict() -> None:
    model = cx.Regressed(np.zeros(4), [1.0, 1.0, 1.0, 61.0])
    columns = regression_columns({"": model}, "norm")
    scale = SymmetricScale(check_regressed(model[:3]), columns)
    assert scale.of_rows(check_regressed(model[2:])).tolist() == [[1.0], [16.0]]


def test_sums_at_the_turn_of_two_powers_are_added_up_exactly() -> None:
    """Whichever row comes last, the rounding of sums must not tell."""
    sigma = np.exp(3 * np.random.default_rng(0).normal(size=7))
    sigma *= 7 * math.sqrt(0.5) / math.fsum(sigma.tolist())
    model = cx.Regressed(np.zeros(7), sigma)
    columns = regression_columns({"": model}, "norm")
    found = set()
    for i in range(7):
        order = np.roll(np.arange(7), i)
        rows = SymmetricScale(check_regressed(model[order[:-1]]), columns)
        found.add(float(rows.of_rows(check_regressed(model[order[-1:]]))[0, 0]))
    assert len(found) == 1


def test_divisors_may_be_given() -> None:
    model, y = model_and_responses(200)
    cp = cx.RegressionAverage(
        ("abs", "norm"), normalize=[2.0, 4.0], search=[[0.5, 0.5]], alpha=0.2
    ).fit(model, y)
    by_hand = 0.5 * np.abs(y - model.mean) / 2 + 0.5 * np.abs(y - model.mean) / model.sigma / 4
    assert cp.threshold_ == pytest.approx(np.sort(by_hand)[cx.conformal_rank(200, 0.2) - 1])


@pytest.mark.parametrize("normalize", ["ecdf", [0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], 3, [1.0]])
def test_other_scales_are_refused(normalize: object) -> None:
    model, y = model_and_responses(60)
    with pytest.raises(cx.InvalidInput, match="normalize must"):
        cx.RegressionAverage(("abs", "norm"), normalize=normalize).fit(model, y)
