"""Exact means exact: of any n + 1 rows, each held out in turn, at least k are covered.

No simulation and no tolerance; rows with ties, zero spreads and too few rows among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import conformix as cx
from conformix.regression import PerBin
from conformix.regression.exact import HullFitted
from conformix.splits import Exact
from conformix.testing import leave_one_out
from regression.responses import model_and_responses

ALPHAS = (0.1, 0.2, 0.35)
NAMES = ("abs", "norm", "cqr_m", "log_sigma")

pytestmark = pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")


def bags(number: int, *, least: int = 7, most: int = 22) -> list[tuple[Any, np.ndarray, float]]:
    """Return bags of rows, every second one full of ties, with a level each."""
    found = []
    for seed in range(number):
        n = least + seed % (most - least)
        model, y = model_and_responses(n, 100 + seed, ties=seed % 2 == 1)
        found.append((model, y, ALPHAS[seed % 3]))
    return found


def average(alpha: float, **options: Any) -> cx.RegressionAverage:
    settings = {"search": cx.search.GridSearch(3), "threads": 1, "random_state": 0} | options
    return cx.RegressionAverage(NAMES, alpha=alpha, **settings)


def fails_somewhere(number: int, **options: Any) -> bool:
    """Whether there is a bag in which fewer rows are covered than exactness needs."""
    return any(
        not leave_one_out(average(alpha, **options).fit, model, y, alpha=alpha).holds
        for model, y, alpha in bags(number)
    )


@pytest.mark.parametrize("allow_empty", [True, False])
def test_the_exact_split_covers_k_of_any_rows(allow_empty: bool) -> None:
    assert not fails_somewhere(6, split="exact", allow_empty=allow_empty)


@pytest.mark.long(short="test_the_exact_split_covers_k_of_any_rows")
def test_the_exact_split_covers_k_of_any_rows_in_a_thousand_bags() -> None:
    assert not fails_somewhere(1000, split="exact")


def test_the_exact_split_with_a_range_covers_k_of_any_rows() -> None:
    for model, y, alpha in bags(5):
        capped = np.clip(y, -1.0, 1.0)
        cp = average(alpha, split="exact", y_range=(-1.0, 1.0))
        assert leave_one_out(cp.fit, model, capped, alpha=alpha).holds


def test_weights_chosen_on_the_same_rows_do_not() -> None:
    assert fails_somewhere(60, split="efcp")


@pytest.mark.parametrize(
    "options",
    [{}, {"allow_empty": False}, {"split": "efcp"}, {"y_range": (-50.0, 50.0)}],
    ids=str,
)
def test_recalibrated_weights_cover_k_of_any_rows(options: dict[str, Any]) -> None:
    tuned, responses = model_and_responses(60)
    for model, y, alpha in bags(7, most=30):
        cp = average(alpha, **options).fit(tuned, responses)
        assert leave_one_out(cp.recalibrate, model, y, alpha=alpha).holds


def test_every_group_is_covered_by_itself() -> None:
    tuned, responses = model_and_responses(60)
    for model, y, alpha in bags(3, least=16, most=40):
        groups = np.arange(len(y)) % 2
        fixed = average(alpha, calibration="group").fit(tuned, responses, strata=np.arange(60) % 2)
        again = leave_one_out(
            fixed.recalibrate, model, y, alpha=alpha, cells=groups.tolist(), strata=groups
        )
        assert again.holds
        exact = average(alpha, calibration="group", split="exact")
        report = leave_one_out(
            exact.fit, model, y, alpha=alpha, cells=groups.tolist(), strata=groups
        )
        assert report.holds


def test_every_bin_of_difficulty_is_covered_by_itself() -> None:
    tuned, responses = model_and_responses(90)
    for model, y, alpha in bags(6, least=16, most=40):
        cp = average(alpha, calibration=PerBin(2)).fit(tuned, responses)
        cells = cp.predictor_.bins.of(cp.predictor_.check(model)).tolist()
        assert leave_one_out(cp.recalibrate, model, y, alpha=alpha, cells=cells).holds


def test_rows_set_aside_for_a_shortlist_stay_out_of_the_bag() -> None:
    """Drawn by position, so that the same rows are aside whichever of the others is held out."""
    model, y = model_and_responses(40)
    split = Exact(shortlist=3, share=0.25)
    cp = average(0.2, split=split, calibration=PerBin(2)).fit(model, y)
    assert cp.predictor_.fitted.n == 30
    assert len(cp.predictor_.fitted.weights) == 3
    assert cp.predictor_.fitted.normalizer == "width"
    assert cp.guarantee_.kind == "exact"
    made = cp.predict_interval(model_and_responses(200, 9)[0])
    assert made.contains(model_and_responses(200, 9)[1]).mean() > 0.7


def test_the_scale_of_the_exact_split_counts_the_row_to_predict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a bag of very uneven spreads: a scale of the labelled rows alone would break it."""
    rng = np.random.default_rng(36)
    sigma = np.exp(2.5 * rng.normal(size=8))
    y = np.where(rng.random(8) < 0.5, sigma, 1.0) * rng.normal(size=8)
    model = cx.Regressed(np.zeros(8), sigma)
    cp = cx.RegressionAverage(
        ("abs", "norm"), alpha=0.35, split="exact", search=[[0.5, 0.5]], threads=1
    )
    assert leave_one_out(cp.fit, model, y, alpha=0.35).holds

    def without_the_new_row(self: Any, outputs: Any) -> Any:
        yield self.scale_of_rows, np.arange(outputs.n)

    monkeypatch.setattr(HullFitted, "scales", without_the_new_row)
    assert not leave_one_out(cp.fit, model, y, alpha=0.35).holds
