"""p-values, several levels at once, credibility and confidence."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.conformal import confidence, conformity_ranks, credibility, smoothed_ranks
from conformix.data.outputs import check_outputs
from conformix.errors import InvalidInput, TrivialSetsWarning
from conformix.scores.uniforms import row_uniforms
from conformix.testing import assert_same_sets

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"], DATA.labels
TEST = LOGITS[600:1600]


@cache
def fitted():
    cp = cx.ScoreAverage("paper", alpha=0.1, kind="logits", random_state=0)
    return cp.fit(LOGITS[:600], LABELS[:600])


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 1 - 0.9, 0.37])
def test_the_set_is_where_the_p_value_exceeds_alpha(alpha):
    # as integers: (n+1) p > (n+1) alpha, in exact fractions
    n = len(fitted().predictor_.fitted.calibration)
    ranks = np.rint(fitted().predict_pvalues(TEST) * (n + 1)).astype(int)
    cut = Fraction(alpha).limit_denominator(10**6) * (n + 1)
    assert_same_sets(fitted().predict_set(TEST, alpha=alpha), ranks > float(cut))


def test_a_pac_rank_gives_more_labels_than_p_values_above_alpha():
    cp = cx.ScoreAverage("paper", alpha=0.1, kind="logits", guarantee="pac", random_state=0)
    cp.fit(LOGITS[:600], LABELS[:600])
    sets, above = np.asarray(cp.predict_set(TEST)), cp.predict_pvalues(TEST) > 0.1
    assert (sets >= above).all()
    assert (sets > above).any()


def test_a_level_of_one_minus_nine_tenths_is_a_tenth_and_p_values_of_a_tenth_stay_out():
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=1 - 0.9)
    probs = np.column_stack([np.linspace(0.5, 0.9, 9), 1 - np.linspace(0.5, 0.9, 9)])
    cp.fit(probs, np.zeros(9, dtype=int))
    assert cp.predict_pvalues([[0.4, 0.6]])[0, 0] == 0.1 > 1 - 0.9  # as floats
    assert not np.asarray(cp.predict_set([[0.4, 0.6]]))[0, 0]  # as fractions


def test_p_values_count_calibration_scores_no_larger():
    calibration = np.array([0.1, 0.3, 0.3, 0.7])
    found = conformity_ranks(calibration, np.array([0.0, 0.1, 0.3, 0.5, 0.9]))
    assert_array_equal(found, [1, 2, 4, 4, 5])


def test_smoothed_p_values_lie_between_the_strict_and_the_plain_one():
    calibration, scores = np.array([0.1, 0.3, 0.3, 0.7]), np.array([[0.3, 0.5]])
    # 0.3: one below, two equal: 1 + tau * 3; 0.5: three below, none equal: 3 + tau
    assert_array_equal(smoothed_ranks(calibration, scores, np.array([[0.5]])), [[2.5, 3.5]])
    smooth, plain = fitted().predict_pvalues(TEST, smoothed=True), fitted().predict_pvalues(TEST)
    assert (smooth <= plain).all()
    assert_array_equal(fitted().predict_pvalues(TEST[7:8], smoothed=True), smooth[7:8])


def test_smoothed_p_values_of_true_labels_are_uniform():
    # tie-heavy scores: rank alone over ten classes
    cp = cx.ScoreAverage("rank", alpha=0.1, kind="logits", weights=[1.0])
    cp.fit(LOGITS[:3000], LABELS[:3000])
    own = cp.predict_pvalues(LOGITS[3000:], smoothed=True)[np.arange(7000), LABELS[3000:]]
    # s.d. of the mean: sqrt(1/12 (1/7000 + 1/3000)); z = 5
    assert abs(own.mean() - 0.5) < 5 * np.sqrt((1 / 7000 + 1 / 3000) / 12)
    assert abs((own <= 0.1).mean() - 0.1) < 5 * np.sqrt(0.09 * (1 / 7000 + 1 / 3000))


def test_credibility_and_confidence():
    pvalues = np.array([[0.5, 0.25, 0.125], [0.125, 0.125, 0.0625]])
    assert_array_equal(credibility(pvalues), [0.5, 0.125])
    assert_array_equal(confidence(pvalues), [0.75, 0.875])
    assert_array_equal(confidence(pvalues[:, :1]), [1.0, 1.0])
    for n_classes in (3, 300):
        random = np.random.default_rng(0).random((20, n_classes))
        assert_array_equal(confidence(random), 1 - np.sort(random, axis=1)[:, -2])


def test_at_the_level_of_the_confidence_a_set_holds_no_second_label():
    pvalues = np.array([[0.5, 0.25, 0.125], [0.25, 0.25, 0.0625]])  # the second ties: none is in
    alpha = 1 - confidence(pvalues)
    assert ((pvalues > alpha[:, None]).sum(axis=1) == [1, 0]).all()
    assert ((pvalues > alpha[:, None] - 0.01).sum(axis=1) >= 2).all()


def test_several_levels_give_the_sets_of_each():
    alphas = [0.2, 0.01, 0.1, 0.05]
    nested = fitted().predict_set(TEST, alpha=alphas)
    assert nested.alphas == (0.01, 0.05, 0.1, 0.2)
    for alpha in alphas:
        assert_same_sets(nested.at(alpha), fitted().predict_set(TEST, alpha=alpha))
    assert_array_equal(nested.mean_sizes, nested.sizes.mean(axis=1))
    assert (np.diff(nested.sizes, axis=0) <= 0).all()


@pytest.mark.parametrize(("asked", "found"), [(1 - 0.7, 0.3), (0.3, 1 - 0.7)])
def test_a_level_is_the_fraction_that_its_float_stands_for(asked, found):
    nested = fitted().predict_set(TEST, alpha=[0.1, asked])
    assert nested.alphas == (0.1, 0.3)
    assert_same_sets(nested.at(found), fitted().predict_set(TEST, alpha=0.3))


def test_one_level_written_in_two_ways_is_one_level():
    nested = fitted().predict_set(TEST, alpha=[0.3, 1 - 0.7, np.float32(0.3)])
    assert nested.alphas == (0.3,)


def test_several_levels_use_one_byte_per_label():
    nested = fitted().predict_set(TEST, alpha=np.linspace(0.01, 0.5, 50))
    assert nested.depth.dtype == np.uint8
    assert nested.depth.shape == (1000, 10)


def test_levels_that_were_not_asked_for():
    nested = fitted().predict_set(TEST, alpha=[0.1, 0.2])
    sentence = r"^alpha must be one of the predicted levels \[0\.1, 0\.2\]; got 0\.3\.$"
    with pytest.raises(InvalidInput, match=sentence):
        nested.at(0.3)
    with pytest.raises(InvalidInput, match=r"^alpha must be a number strictly between 0 and 1"):
        nested.at("0.1")
    with pytest.raises(InvalidInput, match=r"^alpha must hold at least one level; got none\.$"):
        fitted().predict_set(TEST, alpha=[])
    with pytest.raises(InvalidInput, match=r"^alpha must be a number strictly between 0 and 1"):
        fitted().predict_set(TEST, alpha=[0.1, 1.2])


def test_a_level_too_small_for_the_rows_warns():
    with pytest.warns(TrivialSetsWarning, match=r"^alpha=0\.001 needs at least 999 calibration"):
        nested = fitted().predict_set(TEST, alpha=[0.1, 0.001])
    assert nested.at(0.001).mask.all()


def test_several_levels_at_once_are_the_levels_one_by_one_on_the_thresholds_themselves():
    """The calibration rows again: each threshold is the score of one of them, so `>=` decides."""
    rng = np.random.default_rng(5)
    probs = rng.integers(1, 9, size=(60, 4)).astype(float)
    probs /= probs.sum(axis=1, keepdims=True)
    y = rng.integers(4, size=60)
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.1).fit(probs, y)
    nested = cp.predict_set(probs, alpha=[0.1, 0.2, 0.5])
    for alpha in nested.alphas:
        assert_array_equal(
            np.asarray(nested.at(alpha)), np.asarray(cp.predict_set(probs, alpha=alpha))
        )


def test_ties_are_broken_by_other_numbers_than_those_of_randomised_scores():
    """Where all scores tie, the smoothed p-value is tau itself: it must not be the row's u."""
    rng = np.random.default_rng(7)
    rest = rng.dirichlet(np.ones(4), size=50) / 2
    probs = np.column_stack([np.full(50, 0.5), rest])
    cp = cx.ScoreAverage("maxprob", weights=[1.0], random_state=1).fit(probs, np.zeros(50, int))
    tau = cp.predict_pvalues(probs, smoothed=True)[:, 0]
    u = row_uniforms(check_outputs(probs), slice(0, 50), cp.predictor_.key)
    assert len(np.unique(tau)) == 50
    assert np.abs(tau - u).min() > 1e-6
    others = row_uniforms(check_outputs(probs), slice(0, 50), cp.predictor_.key ^ 0x5DEECE66D)
    assert_allclose(tau, others, rtol=1e-12)  # the same numbers in every release
