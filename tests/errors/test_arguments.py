"""Arguments: every one may be given by its name, and options by their names alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import merge, shift
from conformix.calibration.objective import ClassObjective
from conformix.conformal import conformal_rank
from conformix.data.outputs import check_outputs
from conformix.estimators.cross import Fold
from conformix.fit.exact import leave_one_out_efcp
from conformix.guarantees import ledger, oracle, order, statement, vc
from conformix.scores import blend, score_columns

RNG = np.random.default_rng(0)
Y = RNG.integers(3, size=40)
P = 0.5 * RNG.dirichlet(np.ones(3), size=40) + 0.5 * np.eye(3)[Y]
SCORES = np.stack([P, P**2], axis=-1)
WEIGHTS = np.array([[0.5, 0.5], [1.0, 0.0]])
OBJECTIVE = {
    "true_scores": SCORES[np.arange(40), Y], "strata": Y, "cells": np.arange(3),
    "size_parts": [SCORES],
}  # fmt: skip
SIZES = {"alpha": 0.1, "n_classes": 10, "d": 3, "delta": 0.1}


def served() -> Any:
    return cx.ScoreAverage("thr", alpha=0.2, weights=[1.0]).fit(P, Y).predictor_


def crossed() -> Any:
    folds = [Fold(P[:20], Y[:20]), Fold(P[20:], Y[20:])]
    return cx.CrossAverage("thr", weights=[1.0], alpha=0.2).fit(folds)


def blended() -> dict[str, Any]:
    columns = score_columns(("a",), ("logp", "rank"))
    return {"outputs": check_outputs({"a": P}, "probs"), "y": Y, "columns": columns}


# What is called, with the arguments that may come without a name, and with options.
Call = tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]
CALLS: dict[str, Callable[[], Call]] = {
    "merge_pvalues": lambda: (
        merge.merge_pvalues,
        {"pvalues": [P, P], "method": "mean"},
        {"independent": False},
    ),
    "merge_sets": lambda: (
        merge.merge_sets,
        {"sets": [P > 0.2, P > 0.3], "rule": "half"},
        {"weights": None},
    ),
    "density_ratio": lambda: (
        shift.density_ratio,
        {"X_source": P[:20], "X_target": P[20:]},
        {"classifier": None},
    ),
    "label_ratios": lambda: (
        shift.label_ratios,
        {"outputs": P, "y": Y, "new_outputs": P},
        {"method": "em"},
    ),
    "ClassObjective": lambda: (ClassObjective, OBJECTIVE, {"alpha": 0.2, "rank": conformal_rank}),
    "leave_one_out_efcp": lambda: (
        leave_one_out_efcp,
        {"scores": SCORES, "y": Y, "weights": WEIGHTS},
        {"alpha": 0.2},
    ),
    "Predictor.predict_pvalues": lambda: (
        served().predict_pvalues,
        {"outputs": P},
        {"smoothed": True},
    ),
    "Predictor.check": lambda: (served().check, {"outputs": P, "name": "outputs"}, {"later": True}),
    "CrossAverage": lambda: (cx.CrossAverage, {"scores": "thr"}, {"alpha": 0.2}),
    "CrossAverage.predict_set": lambda: (
        crossed().predict_set,
        {"outputs": [P, P]},
        {"alpha": 0.3},
    ),
    "batch_bound": lambda: (
        ledger.batch_bound,
        {"n": 50, "m": 20, "k": 45, "delta": 0.1},
        {"n_weights": 2},
    ),
    "conditional_bound": lambda: (
        ledger.conditional_bound,
        {"n": 50, "k": 45, "delta": 0.1},
        {"n_weights": 2},
    ),
    "find_oracle": lambda: (
        oracle.find_oracle,
        {"scores": SCORES, "y": Y},
        {"alpha": 0.2, "resolution": 4},
    ),
    "regrets": lambda: (
        oracle.regrets,
        {"scores": SCORES, "y": Y, "weights": WEIGHTS},
        {"alpha": 0.2, "oracle": oracle.Oracle(WEIGHTS[0], 0.2, 1.5)},
    ),
    "pac_rank": lambda: (order.pac_rank, {"n": 50, "alpha": 0.2, "delta": 0.1}, {"n_weights": 2}),
    "batch_pac_rank": lambda: (
        order.batch_pac_rank,
        {"n": 50, "m": 9, "alpha": 0.2, "delta": 0.1},
        {"n_weights": 2},
    ),
    "marginal_bound": lambda: (order.marginal_bound, {"n": 50, "k": 45}, {"n_weights": 2}),
    "restoring_rank": lambda: (order.restoring_rank, {"n": 50, "alpha": 0.2}, {"n_weights": 2}),
    "n_needed": lambda: (order.n_needed, {"alpha": 0.2, "delta": 0.1}, {"tolerance": 0.05}),
    "pac_guarantee": lambda: (
        statement.pac_guarantee,
        {"delta": 0.1},
        {"n_weights": 2, "batch": None},
    ),
    "vc_eta": lambda: (vc.vc_eta, {"n": 1000, "d": 3, "delta": 0.1}, {"nonnegative": True}),
    "theorem1": lambda: (
        vc.theorem1,
        {"n_tune": 900, "n_cal": 900},
        {"alpha": 0.1, "tune_alpha": 0.1} | SIZES,
    ),
    "largest_tune_alpha": lambda: (
        vc.largest_tune_alpha,
        {"n_tune": 10**6, "n_cal": 10**6},
        {"alpha": 0.1, "d": 3, "delta": 0.1},
    ),
    "theorem2": lambda: (vc.theorem2, {"n": 900}, SIZES),
    "theorem3": lambda: (vc.theorem3, {"n": 900, "m": 900}, SIZES),
    "theorem4": lambda: (vc.theorem4, {"n": 900, "m": 900}, SIZES),
    "plan_rows": lambda: (
        blend.plan_rows,
        {"n": 90, "alpha": 0.1, "n_scores": 2, "n_classes": 3},
        {"reserved": 9},
    ),
    "fit_blend": lambda: (blend.fit_blend, blended(), {"name": "ours"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_have_names_and_options_are_given_by_them_alone(name: str) -> None:
    call, arguments, options = CALLS[name]()
    call(**arguments, **options)
    first, *others = options
    with pytest.raises(TypeError, match="positional argument"):
        call(*arguments.values(), options[first], **{name: options[name] for name in others})
    parameters = inspect.signature(call).parameters.values()
    assert all(parameter.kind != parameter.POSITIONAL_ONLY for parameter in parameters)
