"""Single scores beside TorchCP: the same sets with the same u, the exact rule where it errs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from parity.peers import CASES, at_the_threshold, our_sets, torchcp, torchcp_sets

torch = pytest.importorskip("torch", reason="the peers live in an environment of their own")
pytest.importorskip("tqdm")
pytest.importorskip(
    "mapie", reason="the peers live in an environment of their own: make versions WHAT=peers"
)
pytestmark = pytest.mark.filterwarnings("ignore")
peer = torchcp()

ALPHAS = (0.05, 0.1, 0.2)
# Not randomised, TorchCP counts the label's own mass against it: our u = 1.
DETERMINISTIC = {
    "thr": lambda: peer.LAC("identity"),
    "aps(u=1)": lambda: peer.APS("identity", randomized=False),
    "raps(penalty=0.125, k_reg=2, u=1)": lambda: peer.RAPS("identity", False, 0.125, 2),
    "margin": lambda: peer.Margin("identity"),
    "rank": lambda: peer.TOPK("identity", randomized=False),
}
RANDOMISED = {
    "aps(randomized=True)": lambda: peer.APS("identity"),
    "raps(penalty=0.125, k_reg=2, randomized=True)": lambda: peer.RAPS("identity", True, 0.125, 2),
    "saps(penalty=0.2, randomized=True)": lambda: peer.SAPS("identity", True, 0.2),
}


@pytest.fixture(params=CASES, ids=str)
def task(request):
    probs, y = CASES[request.param]()
    half = len(y) // 2
    return probs[:half].copy(), y[:half], probs[half:].copy()


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("score", DETERMINISTIC)
def test_deterministic_scores_give_the_same_sets(task, score, alpha):
    cal, y, test = task
    ours = our_sets(score, cal, y, test, alpha)
    theirs = torchcp_sets(DETERMINISTIC[score](), cal.copy(), y, test.copy(), alpha)
    clear = ~at_the_threshold(score, cal, y, test, alpha)
    assert clear.mean() > 0.9
    assert_array_equal(theirs[clear], ours[clear])


@pytest.mark.parametrize("score", RANDOMISED)
def test_randomised_scores_with_the_same_u_are_the_same_scores(task, score, monkeypatch):
    """TorchCP's U is our 1 - u; here every label of a row gets the row's number."""
    _, _, test = task
    u = np.random.default_rng(3).random(len(test))
    monkeypatch.setattr(
        torch, "rand", lambda shape, **_: torch.tensor(1 - u)[:, None].expand(shape)
    )
    theirs = RANDOMISED[score]()(torch.tensor(test)).numpy()
    ours = cx.score_tensor(test, score, u=u)[..., 0]
    # theirs is small where a label fits; APS: mass above + (1 - U) p, ours 1 - mass above - u p
    shift = 0.0 if score.startswith("saps") else 1.0
    tied = at_the_threshold("thr", test, test.argmax(axis=1), test, 0.5)
    assert_allclose((shift - theirs)[~tied], ours[~tied], rtol=0, atol=1e-12)


def test_saps_without_randomisation_covers_nothing_there():
    """Its calibration gives 0 to every correct top label, its prediction the top probability."""
    rng = np.random.default_rng(0)
    y = rng.integers(10, size=1_000)
    logits = rng.standard_normal((1_000, 10))
    logits[np.arange(1_000), y] += 8
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    cal, test, fresh = probs[:500], probs[500:], y[500:]
    theirs = torchcp_sets(peer.SAPS("identity", False, 0.2), cal, y[:500], test, 0.1)
    ours = our_sets("saps(penalty=0.2, u=1)", cal, y[:500], test, 0.1)
    rows = np.arange(len(fresh))
    assert theirs[rows, fresh].mean() == 0
    assert ours[rows, fresh].mean() > 0.87


def test_the_rank_there_is_a_float_and_here_an_integer():
    """``ceil((n+1)(1-alpha))`` in floats is one too many where rounding lifts a whole number."""
    off = [
        (n, percent)
        for percent in range(1, 50)
        for n in range(10, 1_000)
        if math.ceil((n + 1) * (1 - percent / 100))
        != math.ceil((n + 1) * (1 - Fraction(percent, 100)))
    ]
    assert off
    for n, percent in off[:50]:
        exact = math.ceil((n + 1) * (1 - Fraction(percent, 100)))
        assert cx.conformal_rank(n, percent / 100) == exact


def test_margin_overwrites_its_input_there_and_not_here():
    probs, y = CASES["synthetic"]()
    theirs, ours = torch.tensor(probs), probs.copy()
    peer.Margin("identity")(theirs, torch.tensor(y))
    assert not np.array_equal(theirs.numpy(), probs)
    our_sets("margin", ours, y, ours, 0.1)
    assert_array_equal(ours, probs)
