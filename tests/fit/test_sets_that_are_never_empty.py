"""`allow_empty=False`: the best labels of a row, all tied ones, count as infinite everywhere."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx


def tied_rows(n=80, n_classes=5, seed=0):
    """Rows of small whole numbers over their sum: many ties, at the top as well."""
    rng = np.random.default_rng(seed)
    probs = rng.integers(1, 4, size=(n, n_classes)).astype(float)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, rng.integers(n_classes, size=n)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.6, 0.9])
def test_calibration_and_prediction_lift_the_same_labels(alpha):
    """By hand: lift, take the k-th largest lifted true-label score, compare lifted scores."""
    probs, y = tied_rows()
    lifted = np.where(probs == probs.max(axis=1, keepdims=True), np.inf, probs)
    own = np.sort(lifted[np.arange(len(y)), y])[::-1]
    threshold = own[cx.conformal_rank(len(y), alpha) - 1]
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha, allow_empty=False).fit(probs, y)
    assert cp.threshold_ == threshold
    assert_array_equal(np.asarray(cp.predict_set(probs)), lifted >= threshold)


def test_labels_that_tie_at_the_top_are_in_together():
    probs, y = tied_rows()
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.9, allow_empty=False).fit(probs, y)
    top = probs == probs.max(axis=1, keepdims=True)
    assert (top.sum(axis=1) > 1).any()
    assert_array_equal(np.asarray(cp.predict_set(probs))[top], True)
