"""Scores of responses: what they are, which a model has, and what every one of them holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.regression import (
    Abs,
    Cqr,
    CqrM,
    CqrR,
    Laplace,
    LogGap,
    LogSigma,
    Norm,
    OwnScore,
    RegressionScore,
    Vees,
)
from conformix.regression.scores import regression_columns, resolve_score
from conformix.testing import RegressionScoreContract
from regression.responses import model_and_responses, two_models


def upwards(model: cx.Regressed) -> Any:
    """A score that minds only responses above the mean, steeply where sigma is small."""
    return model.mean, 0.0, 0.0 * model.mean, 1 / (model.sigma + 0.5)


@dataclass(frozen=True)
class Lopsided(RegressionScore):
    """A user's own class: responses below the mean count double."""

    name: ClassVar[str] = "lopsided"
    needs: ClassVar[tuple[str, ...]] = ("mean",)
    factor: float = 2.0

    def vees(self, model: cx.Regressed, floor: float = 0.0) -> Vees:
        ones = np.ones(len(model))
        return Vees(model.mean, 0 * ones, self.factor * ones, ones)


SCORES = [
    Abs(), Norm(), Laplace(), LogSigma(), Cqr(), Cqr(low=0.25), CqrR(), CqrR(low=0.25), CqrM(),
    LogGap(), OwnScore(upwards), Lopsided(3.0),
]  # fmt: skip


def contract(tested: RegressionScore) -> type:
    return type(f"Test{tested}", (RegressionScoreContract,), {"score": tested})


@pytest.mark.parametrize("score", SCORES, ids=str)
@pytest.mark.parametrize(
    "promise", [name for name in vars(RegressionScoreContract) if name.startswith("test_")]
)
def test_every_score_holds_the_contract(score: RegressionScore, promise: str) -> None:
    getattr(contract(score)(), promise)()


def test_the_contract_notices_a_score_that_looks_at_other_rows() -> None:
    def ranked(model: cx.Regressed) -> Any:
        return model.mean, model.mean.argsort().argsort(), 1.0, 1.0

    with pytest.raises(AssertionError):
        contract(OwnScore(ranked))().test_treats_rows_one_by_one()


# One score of one response, as the literature writes it, from mean, sigma and three quantiles.
BY_HAND = {
    "abs": lambda y, mean, sigma, low, middle, high: abs(y - mean),
    "norm": lambda y, mean, sigma, low, middle, high: abs(y - mean) / sigma,
    "laplace": lambda y, mean, sigma, low, middle, high: np.log(sigma) + abs(y - mean) / sigma,
    "log_sigma": lambda y, mean, sigma, low, middle, high: np.log(sigma),
    "cqr": lambda y, mean, sigma, low, middle, high: max(low - y, y - high),
    "cqr_r": lambda y, mean, sigma, low, middle, high: max(low - y, y - high) / (high - low),
    "cqr_m": lambda y, mean, sigma, low, middle, high: max(
        (low - y) / (middle - low), (y - high) / (high - middle)
    ),
    "log_gap": lambda y, mean, sigma, low, middle, high: np.log(high - low),
}


@pytest.mark.parametrize("name", cx.regression.scores.SCORES)
def test_every_score_is_what_the_literature_calls_it(name: str) -> None:
    model, y = model_and_responses(40)
    centre, offset, below, above = resolve_score(name).vees(model)
    got = offset + below * np.maximum(centre - y, 0) + above * np.maximum(y - centre, 0)
    rows = zip(y, model.mean, model.sigma, *model.quantiles[:, [0, 2, 4]].T, strict=True)
    expected = [BY_HAND[name](*row) for row in rows]
    assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


def test_a_median_that_is_not_predicted_is_the_mean_between_the_quantiles() -> None:
    model = cx.Regressed([9.0, 2.0], [1.0, 1.0], [[1.0, 5.0], [1.0, 5.0]], [0.1, 0.9])
    assert_array_equal(CqrM().vees(model).centre, [5.0, 2.0])


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ("abs", ["net.abs", "ridge.abs"]),
        ("norm", ["net.norm"]),
        (("abs", "net.cqr"), ["net.abs", "net.cqr", "ridge.abs"]),
        (("cqr(low=0.25)",), ["net.cqr(low=0.25)"]),
        (
            "auto",
            [
                "net.abs", "net.norm", "net.cqr(low=0.05)", "net.cqr(low=0.25)",
                "net.cqr_r(low=0.05)", "net.cqr_r(low=0.25)", "net.cqr_m(low=0.05)",
                "net.cqr_m(low=0.25)", "ridge.abs",
            ],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_models_have_the_scores_that_they_predict_enough_for(
    scores: Any, expected: list[str]
) -> None:
    models, _ = two_models(5)
    assert [str(column) for column in regression_columns(models, scores)] == expected


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        ("ridge.norm", "score norm needs sigma, which model 'ridge' does not predict; it has mean"),
        ("ridge.cqr", "score cqr needs quantiles"),
        ("cqr(low=0.1)", "needs quantiles at 0.1 and 0.9"),
        ("cqr(low=0.7)", "low must be a level strictly between 0 and 1/2"),
        ("cqr(high=0.7)", r"cannot read score 'cqr\(high=0.7\)'; its options are low"),
        ("nrom", "unknown score 'nrom'; did you mean 'norm'"),
        ("residual_normalized", "did you mean 'norm'"),
        ("density", "score 'density' is not convex in y"),
        ("net.dcp", "score 'dcp' is not convex in y"),
        (("abs", "abs"), "scores must differ"),
        ((), "at least one score"),
        (3, "at least one score"),
    ],
)
def test_other_scores_are_refused_in_one_sentence(scores: Any, sentence: str) -> None:
    models, _ = two_models(5)
    with pytest.raises(cx.InvalidInput, match=sentence):
        regression_columns(models, scores)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            lambda m: (m.mean, 0.0, -1.0, 1.0),
            "falls as y moves away from its centre, so that it is",
        ),
        (lambda m: (m.mean, 0.0, 1.0), r"must return \(centre, offset, below, above\)"),
        (lambda m: (m.mean, np.nan, 1.0, 1.0), "finite"),
        (lambda m: "text", "failed to return numbers"),
        (lambda m: m.mean[:-1], "must return"),
    ],
)
def test_own_scores_that_are_no_vees_are_refused(function: Any, sentence: str) -> None:
    model, y = model_and_responses(30)
    with pytest.raises(cx.InvalidInput, match=sentence):
        cx.RegressionAverage((function, "abs"), alpha=0.3, random_state=0).fit(model, y)


def test_own_scores_are_averaged_like_others() -> None:
    model, y = model_and_responses(400)
    scores = (upwards, Lopsided(), "norm", lambda m: np.log(m.sigma))
    cp = cx.RegressionAverage(scores, alpha=0.2, random_state=0, threads=1)
    made = cp.fit(model[:300], y[:300]).predict_interval(model[300:])
    assert cp.score_names_ == ("upwards", "lopsided", "norm", "<lambda>")
    assert 0.65 < made.contains(y[300:]).mean() < 0.95


def test_a_number_per_row_moves_the_threshold_of_the_row() -> None:
    model, y = model_and_responses(500)
    plain = cx.RegressionAverage(("norm", "log_sigma"), weights=[1.0, 0.0], alpha=0.2)
    moved = cx.RegressionAverage(("norm", "log_sigma"), weights=[0.8, 0.2], alpha=0.2)
    widths = [cp.fit(model, y).predict_interval(model).width for cp in (plain, moved)]
    hard = model.sigma > np.sort(model.sigma)[450]
    assert (widths[1] / widths[0])[hard].mean() < (widths[1] / widths[0])[~hard].mean()
