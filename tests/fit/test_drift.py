"""The drift check tells fresh rows that fit from fresh rows that do not."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.errors import InvalidInput
from conformix.fit.drift import drift_report

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"], DATA.labels
CP = cx.ScoreAverage("thr", alpha=0.1, kind="logits", weights=[1.0]).fit(
    LOGITS[:2000], LABELS[:2000]
)


def test_rows_of_the_same_kind_raise_no_alarm():
    report = CP.check_drift(LOGITS[2000:4000], LABELS[2000:4000])
    assert not report.drifted
    assert report.verdict.startswith("no sign of drift: p = ")
    assert_array_equal(report.pvalues, np.sort(report.pvalues))
    assert len(report.pvalues) == 2000


def test_noisier_outputs_raise_an_alarm_and_say_which_way():
    noise = np.random.default_rng(0).normal(scale=6, size=(2000, 10))
    report = CP.check_drift(LOGITS[2000:4000] + noise, LABELS[2000:4000])
    assert report.drifted
    assert "fit worse than in calibration" in report.verdict
    assert report.verdict.endswith("expect lower coverage, recalibrate")


def test_easier_rows_raise_the_other_alarm():
    report = CP.check_drift(LOGITS[2000:4000], LOGITS[2000:4000].argmax(axis=1))
    assert report.drifted
    assert report.direction == "better"


def test_false_alarms_stay_at_their_level():
    rng = np.random.default_rng(3)
    alarms = sum(
        drift_report(rng.normal(size=100), rng.normal(size=50), level=0.1).drifted
        for _ in range(400)
    )
    # at most 10 %: 40 of 400, plus 4.5 s.d. of sqrt(400 * .1 * .9) = 6
    assert alarms <= 40 + 4.5 * 6


def test_an_alarm_is_raised_just_where_the_p_value_is_no_larger_than_the_level_asked_for():
    rows = LOGITS[2000:2300], LABELS[2000:2300]
    p = CP.check_drift(*rows).pvalue
    assert 0.02 < p < 0.98
    for level in (0.01, p - 0.01, p, p + 0.01, 0.99):
        report = CP.check_drift(*rows, level=level)
        assert report.level == level
        assert report.pvalue == p
        assert report.drifted == (p <= level)


def test_level_is_checked():
    with pytest.raises(
        InvalidInput, match=r"^level must be a number strictly between 0 and 1; got 1\.$"
    ):
        drift_report(np.zeros(3), np.zeros(3), level=1)


def test_the_pvalues_to_draw_are_those_of_the_rule():
    report = drift_report(np.array([1.0, 2.0, 2.0]), np.array([0.0, 2.0, 9.0]))
    assert_array_equal(report.pvalues, np.array([1, 4, 4]) / 4)
