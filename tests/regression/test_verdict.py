"""What labelled responses say of a fit: measures, the verdict, drift, rows that were used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom

import conformix as cx
from regression.responses import model_and_responses

SETTINGS: dict[str, Any] = {"alpha": 0.2, "random_state": 0, "threads": 1}


def fitted(**options: Any) -> tuple[cx.RegressionAverage, Any, np.ndarray]:
    model, y = model_and_responses(700)
    rows = {"test": model[400:]} if str(options.get("split", "")).startswith("dlcp") else {}
    cp = cx.RegressionAverage(("abs", "norm", "cqr"), **(SETTINGS | options))
    return cp.fit(model[:400], y[:400], **rows), model[400:], y[400:]


def test_an_evaluation_has_the_measures_of_intervals() -> None:
    cp, model, y = fitted()
    found, made = cp.evaluate(model, y), cp.predict_interval(model)
    assert found["coverage"] == made.contains(y).mean()
    assert found["mean_width"] == made.width.mean()
    assert found["interval_score"] == cx.metrics.interval_score(made, y, alpha=0.2)
    assert set(found) == {
        "coverage", "mean_width", "median_width", "interval_score", "empty_interval_rate",
        "bin_coverage_gap",
    }  # fmt: skip
    text = str(found)
    assert "mean width" in text
    assert "size" not in text.replace("by size", "")
    assert repr(found).startswith("Evaluation(coverage 0.")


def test_the_verdict_is_the_law_of_the_order_statistic() -> None:
    cp, model, y = fitted()
    found = cp.verdict(model, y - 1.0)
    hits, n = round(found.coverage * 300), cp.guarantee_.facts.n_cal
    k = cx.conformal_rank(n, 0.2)
    assert found.pvalue == pytest.approx(betabinom.cdf(hits, 300, k, n + 1 - k))


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "exact"])
def test_rows_of_another_law_break_the_promise_and_show_drift(split: str) -> None:
    cp, model, y = fitted(split=split)
    assert cp.verdict(model, y).word in ("kept", "reached", "chance")
    assert not cp.check_drift(model, y).drifted
    assert cp.verdict(model, y + 6).word == "broken"
    report = cp.check_drift(model, y + 6)
    assert report.drifted
    assert report.direction == "worse"


@pytest.mark.parametrize("calibration", ["bins", "group"])
def test_several_thresholds_are_judged_together(calibration: str) -> None:
    model, y = model_and_responses(900)
    rows = {"strata": np.arange(900) % 2} if calibration == "group" else {}
    some = {name: values[:600] for name, values in rows.items()}
    others = {name: values[600:] for name, values in rows.items()}
    cp = cx.RegressionAverage(("abs", "norm"), calibration=calibration, **SETTINGS)
    cp.fit(model[:600], y[:600], **some)
    assert "thresholds" in cp.verdict(model[600:], y[600:], **others).law.says
    assert cp.verdict(model[600:], y[600:] + 9, **others).word == "broken"


def test_rows_of_the_fit_are_recognised() -> None:
    model, y = model_and_responses(700)
    cp = cx.RegressionAverage(("abs", "norm"), **SETTINGS).fit(model[:400], y[:400])
    found = cp.verdict(model[:400], y[:400])
    assert found.word == "used"
    assert cp.verdict(model[400:], y[400:]).word != "used"
    cp.recalibrate(model[400:600], y[400:600])
    assert cp.verdict(model[400:600], y[400:600]).word == "used"


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_unbounded_intervals_keep_no_promise() -> None:
    model, y = model_and_responses(30)
    cp = cx.RegressionAverage("abs").fit(model[:5], y[:5])
    found = cp.verdict(model[5:], y[5:])
    assert found.word == "trivial"
    assert found.sentence.startswith("Every interval is unbounded: the calibration rows are too")


def test_rows_in_groups_have_no_law() -> None:
    model, y = model_and_responses(300)
    cp = cx.RegressionAverage("abs", alpha=0.2).fit(
        model[:200], y[:200], groups=np.arange(200) // 4
    )
    assert cp.evaluate(model[200:], y[200:]).drift is None
    with pytest.raises(cx.InvalidInput, match="came in groups"):
        cp.check_drift(model[200:], y[200:])


def test_drift_speaks_of_responses():
    model, y = model_and_responses(400)
    cp = cx.RegressionAverage("norm", alpha=0.1).fit(model[:200], y[:200])
    told = cp.check_drift(model[200:], y[200:] + 5).verdict
    assert told.startswith("drift: responses fit worse than in calibration; ")
    assert cp.evaluate(model[200:], y[200:] + 5).drift.verdict == told
