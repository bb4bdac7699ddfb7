"""Mondrian p-values beside crepes; class-wise, clustered and weighted sets beside TorchCP.

Probabilities are multiples of 2**-20, so that single precision, which TorchCP keeps its thresholds
in, holds scores and thresholds exactly: the sets must be the same, ties included.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.calibration import Clustered, PerClass, Weighted
from parity.peers import real, synthetic, torchcp

crepes = pytest.importorskip("crepes", reason="the peers live in an environment of their own")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.parametrize("alpha", [0.1, 0.2]),
]


def coarse(probs: np.ndarray) -> np.ndarray:
    return np.round(probs * 2**20) / 2**20


def rows(name: str) -> tuple[np.ndarray, ...]:
    probs, y = synthetic(1200, 6) if name == "synthetic" else real(6000)
    half = len(y) // 2
    probs = coarse(probs)
    return probs[:half], y[:half], probs[half : half + 300]


@pytest.fixture(params=["synthetic", "cifar100"])
def task(request):
    return rows(request.param)


def own(cal, y, alpha, calibration, **more):
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha, calibration=calibration)
    return cp.fit(cal, y, **more)


def test_pvalues_of_a_marginal_predictor_are_those_of_crepes(alpha):
    cal, y, test = rows("synthetic")
    peer = crepes.ConformalClassifier().fit(1 - cal[np.arange(len(y)), y])
    ours = own(cal, y, alpha, "marginal")
    assert_allclose(
        ours.predict_pvalues(test), peer.predict_p(1 - test, smoothing=False), rtol=1e-12
    )


def test_class_conditional_pvalues_are_those_of_crepes(alpha):
    cal, y, test = rows("synthetic")
    hinge = 1 - cal[np.arange(len(y)), y]
    theirs = np.empty(test.shape)
    for c in range(test.shape[1]):  # as its wrapper does: the candidate's class is its bin
        bins = np.full(len(test), c)
        peer = crepes.ConformalClassifier().fit(hinge, bins=y)
        theirs[:, c] = peer.predict_p(1 - test, bins=bins, smoothing=False)[:, c]
    ours = own(cal, y, alpha, "class")
    assert_allclose(ours.predict_pvalues(test), theirs, rtol=1e-12)
    # crepes takes p >= alpha where the definition says p > alpha: they differ at p = alpha only.
    at_the_level = np.isclose(theirs, alpha, rtol=0, atol=1e-12)
    sets = np.asarray(ours.predict_set(test))
    assert_array_equal(sets[~at_the_level], (theirs >= alpha)[~at_the_level])


def test_mondrian_pvalues_by_group_are_those_of_crepes(alpha):
    cal, y, test = rows("synthetic")
    groups, new = np.arange(len(y)) % 3, np.arange(len(test)) % 3
    peer = crepes.ConformalClassifier().fit(1 - cal[np.arange(len(y)), y], bins=groups)
    theirs = peer.predict_p(1 - test, bins=new, smoothing=False)
    ours = own(cal, y, alpha, "group", strata=groups)
    assert_allclose(ours.predict_pvalues(test, strata=new), theirs, rtol=1e-12)


def predictor(kind, alpha, **options):
    torch = pytest.importorskip("torch")
    score = torchcp()
    from torchcp.classification import predictor as module

    model = torch.nn.Identity()
    model.register_parameter("place", torch.nn.Parameter(torch.zeros(1)))
    return getattr(module, kind)(score.LAC("identity"), model, alpha=alpha, **options), torch


def test_class_wise_sets_are_those_of_torchcp(task, alpha):
    cal, y, test = task
    peer, torch = predictor("ClassConditionalPredictor", alpha)
    peer.calculate_threshold(torch.tensor(cal), torch.tensor(y), alpha)
    theirs = peer.predict_with_logits(torch.tensor(test)).numpy().astype(bool)
    assert_array_equal(np.asarray(own(cal, y, alpha, PerClass()).predict_set(test)), theirs)


def test_clustered_sets_are_those_of_torchcp_for_its_clusters(task, alpha):
    cal, y, test = task
    peer, torch = predictor(
        "ClusteredPredictor", alpha, ratio_clustering=0.4, num_clusters=3, split="random"
    )
    torch.manual_seed(0)
    peer.calculate_threshold(torch.tensor(cal), torch.tensor(y), alpha)
    theirs = peer.predict_with_logits(torch.tensor(test)).numpy().astype(bool)
    clusters, rest = peer.cluster_assignments.numpy(), ~peer.idx1.numpy()
    assert len(np.unique(clusters[clusters >= 0])) == 3
    # Its null cluster holds every label: our fallback "all".
    ours = Clustered(clusters=clusters.tolist(), fallback="all")
    assert_array_equal(np.asarray(own(cal[rest], y[rest], alpha, ours).predict_set(test)), theirs)


def test_clusters_learnt_from_the_same_rows_agree_with_torchcp_s_k_means(alpha):
    """Three kinds of classes, far apart: any sound clustering finds them."""
    rng = np.random.default_rng(0)
    n, kinds = 3000, np.arange(12) % 3
    y = rng.integers(12, size=n)
    own_share = np.array([0.9, 0.5, 0.15])[kinds[y]] + 0.02 * rng.random(n)
    probs = np.full((n, 12), 0.0) + ((1 - own_share) / 11)[:, None]
    probs[np.arange(n), y] = own_share
    probs = coarse(probs)
    peer, torch = predictor(
        "ClusteredPredictor", alpha, ratio_clustering=0.5, num_clusters=3, split="random"
    )
    peer.calculate_threshold(torch.tensor(probs), torch.tensor(y), alpha)
    cp = cx.ScoreAverage("thr", search=[[1.0]], alpha=alpha, calibration=Clustered(3))
    cp.set_params(random_state=0, normalize="none").fit(probs, y)
    ours = cp.predictor_.fitted.cuts.partition.cells[0]
    for clusters in (ours, peer.cluster_assignments.numpy()):
        pairs = set(zip(clusters.tolist(), kinds.tolist(), strict=True))
        assert len(pairs) == 3  # one cluster per kind


def test_weighted_sets_are_those_of_torchcp_with_weights_that_stay_with_their_scores(task, alpha):
    cal, y, test = task
    rng = np.random.default_rng(1)
    weight, new = rng.integers(1, 9, size=len(y)), rng.integers(1, 9, size=len(test))
    peer, torch = predictor("WeightedPredictor", alpha, image_encoder=_identity())
    peer.calculate_threshold(torch.tensor(cal), torch.tensor(y), alpha)
    order = np.argsort(1 - cal[np.arange(len(y)), y], kind="stable")
    # Its `evaluate` sorts the weights by themselves, apart from the scores; here they stay paired.
    peer.w_sorted = torch.tensor(weight[order], dtype=torch.float64)
    peer.IW = lambda features: torch.tensor(new, dtype=torch.float64)
    theirs = peer.predict(torch.tensor(test)).numpy().astype(bool)
    ours = own(cal, y, alpha, Weighted(known=True), sample_weight=weight)
    sets = np.asarray(ours.predict_set(test, sample_weight=new))
    # Its cumulative shares are rounded; ours are whole numbers. Leave out the knife's edge.
    total = weight.sum() + new
    reached = np.cumsum(weight[order])[:, None] / total
    clear = np.abs(reached - (1 - alpha)).min(axis=0) > 1e-9
    assert clear.mean() > 0.8
    assert_array_equal(sets[clear], theirs[clear])


def _identity():
    import torch

    return torch.nn.Identity()
