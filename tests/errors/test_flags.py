"""Settings that are yes or no take True and False alone: the text "no" would count as yes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.calibration import LabelShift, PerClass, PerGroup, RankedPerClass, Weighted
from conformix.estimators.cross import Fold
from conformix.scores import Aps, Energy, Entropy, Maxprob, Raps, Saps

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), size=90)
Y = (P.cumsum(axis=1) > RNG.random((90, 1))).argmax(axis=1)
X = np.log(P)
THIRD = np.arange(90) % 3


def fitted(value: Any = True, **options: Any) -> cx.ScoreAverage:
    settings = {"alpha": 0.3, "random_state": 0, "threads": 1, "search": "grid"} | options
    return cx.ScoreAverage("thr", allow_empty=value, **settings)


def by(calibration: Any, **rows: Any) -> object:
    return fitted(calibration=calibration).fit(P, Y, **rows)


DOORS: dict[str, Callable[[Any], object]] = {
    "allow_empty": lambda value: fitted(value).fit(P, Y),
    "allow_empty of fixed weights": lambda value: fitted(value, weights=[1]).fit(P, Y),
    "allow_empty in batches": lambda value: fitted(value).fit_batches(lambda: iter([(P, Y)])),
    "allow_empty of a classifier": lambda value: cx.ConformalClassifier(
        alpha=0.3, allow_empty=value, random_state=0, scores="thr"
    ).fit(X, Y),
    "allow_empty of folds": lambda value: cx.CrossAverage("thr", allow_empty=value).fit(
        [Fold(P, Y, P, Y), Fold(P, Y, P, Y)]
    ),
    "allow_empty of a cross classifier": lambda value: cx.CrossConformalClassifier(
        allow_empty=value, cv=2, random_state=0, scores="thr"
    ).fit(X, Y),
    "allow_empty of responses": lambda value: cx.RegressionAverage(
        "abs", alpha=0.3, allow_empty=value
    ).fit(X[:, 0], X[:, 1]),
    "allow_empty of a regressor": lambda value: cx.ConformalRegressor(
        alpha=0.3, allow_empty=value, sigma=None
    ).fit(X, X[:, 1]),
    "allow_empty of a cross regressor": lambda value: cx.CrossConformalRegressor(
        alpha=0.3, allow_empty=value, sigma=None, cv=2
    ).fit(X, X[:, 1]),
    "stack": lambda value: cx.ConformalRegressor(alpha=0.3, stack=value).fit(X, X[:, 1]),
    "stack of folds": lambda value: cx.CrossConformalRegressor(alpha=0.3, stack=value).fit(
        X, X[:, 1]
    ),
    "smoothed": lambda value: fitted().fit(P, Y).predict_pvalues(P, smoothed=value),
    "tune": lambda value: by(PerClass(tune=value)),
    "tune of rc3p": lambda value: by(RankedPerClass(tune=value)),
    "by_class": lambda value: by(PerGroup(by_class=value), strata=THIRD),
    "known": lambda value: by(Weighted(known=value), sample_weight=np.ones(90)),
    "known of label shift": lambda value: by(LabelShift((1.0, 1.0, 1.0), known=value)),
    **{
        f"{option} of {score.name}": lambda value, score=score, option=option: score(
            **{option: value}
        )
        for score, option in [
            (Aps, "randomized"), (Raps, "randomized"), (Saps, "randomized"),
            (Energy, "negative"), (Entropy, "negative"), (Maxprob, "negative"),
        ]
    },
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "value", ["no", "False", 0, 1, None, [], np.array([True, False])], ids=repr
)
def test_anything_but_yes_or_no_is_refused(door: str, value: Any) -> None:
    name = door.partition(" ")[0]
    with pytest.raises(cx.InvalidInput, match=rf"^{name} must be True or False; got "):
        DOORS[door](value)


def test_a_long_answer_to_yes_or_no_makes_a_short_sentence() -> None:
    for value in (np.ones((40, 40), dtype=bool), [True] * 1000):
        with pytest.raises(cx.InvalidInput) as caught:
            fitted(value).fit(P, Y)
        assert len(str(caught.value)) < 150
        assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", [True, np.bool_(False)])
def test_yes_and_no_are_taken_numpys_too(door: str, value: Any) -> None:
    if door.startswith("tune") and value:
        value = np.False_  # goes with several classes only, and slowly
    DOORS[door](value)


def test_a_score_written_with_a_wrong_flag_is_refused() -> None:
    with pytest.raises(cx.InvalidInput, match=r"^randomized must be True or False; got 'no'\.$"):
        cx.ScoreAverage("aps(randomized='no')").fit(P, Y)
