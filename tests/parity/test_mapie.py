"""Single scores beside MAPIE: the same sets where its rule is right, the exact rule where not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from parity.peers import CASES, GivenState, mapie_sets, our_sets

pytest.importorskip(
    "mapie", reason="the peers live in an environment of their own: make versions WHAT=peers"
)
pytestmark = pytest.mark.filterwarnings("ignore")

ALPHAS = (0.05, 0.1, 0.2)
# MAPIE compares with this slack, in probability.
SLACK = 1e-8


@pytest.fixture(params=CASES, ids=str)
def task(request):
    probs, y = CASES[request.param]()
    half = len(y) // 2
    return probs[:half], y[:half], probs[half:], y[half:]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_lac_is_thr(task, alpha):
    cal, y, test, _ = task
    assert_array_equal(mapie_sets("lac", cal, y, test, alpha), our_sets("thr", cal, y, test, alpha))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_aps_without_randomisation_is_aps(task, alpha):
    """With u = 1 at calibration, MAPIE's score is the mass above the label: the paper's APS."""
    cal, y, test, _ = task
    options = {"random_state": GivenState(1.0), "include_last_label": True}
    assert_array_equal(
        mapie_sets("aps", cal, y, test, alpha, **options), our_sets("aps", cal, y, test, alpha)
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_aps_that_leaves_the_last_label_out_is_aps_with_u_1(alpha):
    """The same sets, but for the rows where ours is empty: MAPIE patches a label in."""
    probs, y = CASES["synthetic"]()
    cal, y, test = probs[:200], y[:200], probs[200:]
    options = {"random_state": GivenState(0.0), "include_last_label": False}
    theirs = mapie_sets("aps", cal, y, test, alpha, **options)
    ours = our_sets("aps(u=1)", cal, y, test, alpha)
    empty = ours.sum(axis=1) == 0
    assert_array_equal(theirs[~empty], ours[~empty])
    assert (theirs[empty].sum(axis=1) == 1).all()


def test_aps_as_mapie_ships_it_mixes_two_rules():
    """Its calibration scores are randomised whatever is asked for at prediction.

    Deterministic sets then use a threshold of another rule. The exact rule calibrates the score
    it predicts with: same promise, smaller sets.
    """
    sizes = np.zeros(2)
    for seed in range(20):
        probs, y = CASES["synthetic"](seed=seed)
        cal, y, test = probs[:200], y[:200], probs[200:]
        mixed = mapie_sets("aps", cal, y, test, 0.1, random_state=seed, include_last_label=True)
        sizes += mixed.sum(axis=1).mean(), our_sets("aps", cal, y, test, 0.1).sum(axis=1).mean()
    assert sizes[0] > 1.05 * sizes[1]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_top_k_is_rank_where_probabilities_are_further_apart_than_the_slack(alpha):
    probs, y = CASES["synthetic"]()
    cal, y, test = probs[:200], y[:200], probs[200:]
    assert_array_equal(
        mapie_sets("top_k", cal, y, test, alpha), our_sets("rank", cal, y, test, alpha)
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_top_k_with_tiny_probabilities_lets_in_all_labels_within_the_slack(alpha):
    """On 100 classes dozens of labels lie within 1e-8 of the k-th; the exact rule is k labels."""
    probs, y = CASES["cifar100"]()
    half = len(y) // 2
    cal, y, test = probs[:half], y[:half], probs[half:]
    theirs = mapie_sets("top_k", cal, y, test, alpha)
    ours = our_sets("rank", cal, y, test, alpha)
    extra = theirs & ~ours
    kth = np.where(ours, test, 2.0).min(axis=1, keepdims=True)
    assert not (ours & ~theirs).any()
    assert (np.abs(test - kth)[extra] < SLACK).all()
    assert extra.sum() > 500
    assert len(np.unique(ours.sum(axis=1))) == 1


def test_too_few_rows_for_alpha_is_an_error_there_and_the_full_set_here():
    probs, y = CASES["synthetic"](n=30)
    with pytest.raises(ValueError, match="Number of samples"):
        mapie_sets("lac", probs[:15], y[:15], probs[15:], 0.01)
    with pytest.warns(Warning, match="all labels|every label"):
        assert our_sets("thr", probs[:15], y[:15], probs[15:], 0.01).all()
