"""Searches for many scores: what they find is as good as an exact grid, and counted as it is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank
from conformix.search import GradientSearch, LineSearch, SizeObjective, search_weights
from conformix.search.gradient import Surrogate, Widths
from conformix.search.line import Span
from conformix.search.nonempty import NonEmptyObjective
from search.problems import KINDS, brute_counts, problem

STRATEGIES = {
    "line": LineSearch(budget=4_000),
    "gradient": GradientSearch(budget=3_000, starts=2),
}
strategies = pytest.mark.parametrize("search", STRATEGIES.values(), ids=STRATEGIES.keys())
# Where it does not matter how good the weights are.
HASTY = {"line": LineSearch(budget=600), "gradient": GradientSearch(budget=400, starts=1)}
hasty = pytest.mark.parametrize("search", HASTY.values(), ids=HASTY.keys())


def tensor(n: int, models: int = 1, names: tuple[str, ...] = ("thr", "aps", "rank")):
    data = cx.datasets.load("cifar100")
    outputs = {model: data.outputs[model][:n] for model in list(data.outputs)[:models]}
    return cx.score_tensor(outputs, names, kind="logits"), data.labels[:n]


@strategies
@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_three_scores_come_within_one_per_cent_of_the_exact_grid(search, alpha: float) -> None:
    scores, y = tensor(n=1500)
    best = search_weights(scores, y, alpha=alpha, search="grid", resolution=100)
    found = search_weights(scores, y, alpha=alpha, search=search, random_state=0)
    assert found.size <= 1.01 * best.size


@strategies
@pytest.mark.parametrize("kind", KINDS)
def test_the_reported_count_is_the_count_of_the_reported_weights(search, kind: str) -> None:
    true, parts = problem(3, kind, n=40, n_labels=5, d=6, n_parts=2, layout="rows")
    found = search(SizeObjective(true, parts, k=35), np.random.default_rng(0))
    assert found.count == brute_counts(true, parts, 35, found.weights[None])[0]
    assert abs(found.weights.sum() - 1) < 1e-12
    assert (found.weights >= 0).all()
    corners = brute_counts(true, parts, 35, np.eye(6))
    assert found.count <= corners.min()


@pytest.mark.parametrize("budget", [1, 8, 60])
def test_however_small_the_budget_no_single_score_and_no_plain_average_is_better(
    budget: int,
) -> None:
    for seed in range(6):
        true, parts = problem(seed, "plain", n=40, n_labels=5, d=6, n_parts=1, layout="rows")
        search = LineSearch(budget=budget, starts=1)
        found = search(SizeObjective(true, parts, k=35), np.random.default_rng(seed))
        plain = np.concatenate([np.eye(6), np.full((1, 6), 1 / 6)])
        assert found.count <= brute_counts(true, parts, 35, plain).min()


@hasty
def test_the_same_seed_gives_the_same_weights_on_any_number_of_threads(search) -> None:
    scores, y = tensor(n=2000, models=2)
    found = [
        search_weights(scores, y, alpha=0.05, search=search, random_state=7, threads=threads)
        for threads in (1, 3)
    ]
    assert_array_equal(found[0].weights, found[1].weights)
    assert found[0].n_evaluated == found[1].n_evaluated


@hasty
def test_sets_that_are_never_empty_are_searched_too(search) -> None:
    scores, y = tensor(n=300)
    k = conformal_rank(300, 0.1)
    objective = NonEmptyObjective(scores, y, [scores], k)
    found = search(objective, np.random.default_rng(0))
    assert found.count == objective.counts(found.weights[None])[0]
    assert found.count <= objective.counts(np.eye(3)).min()


@strategies
def test_when_every_label_must_be_in_the_uniform_weights_win(search) -> None:
    true, parts = problem(0, "plain", n=8, n_labels=4, d=5)
    found = search(SizeObjective(true, parts, k=9), np.random.default_rng(0))
    assert_array_equal(found.weights, np.full(5, 0.2))


def test_counts_along_a_line_are_those_of_the_weights_on_it() -> None:
    true, parts = problem(5, "plain", n=60, n_labels=7, d=8)
    span = Span(SizeObjective(true, parts, k=50))
    rng = np.random.default_rng(0)
    base, direction = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8), size=2)
    steps = rng.uniform(0, 2, size=(30, 2))
    span.move_to(base)
    counts = span.counts(direction, steps)
    assert_array_equal(counts, brute_counts(true, parts, 50, base + steps @ direction))


def test_a_tiny_weight_that_matters_is_found() -> None:
    """Two signals of equal worth, one of them written in thousandths: a grid cannot balance."""
    rng = np.random.default_rng(1)
    y = rng.integers(6, size=400)
    signals = rng.standard_normal((400, 6, 4))
    signals[np.arange(400), y, :2] += 2.0
    scores = signals * np.array([1000.0, 1.0, 1.0, 1.0])
    found = search_weights(scores, y, alpha=0.1, search="line", random_state=0)
    balanced = search_weights(scores, y, alpha=0.1, search=[[1.0, 1000.0, 0.0, 0.0]])
    grid = search_weights(scores, y, alpha=0.1, search="grid", resolution=30)
    assert found.size <= balanced.size < 0.8 * grid.size
    assert 1e-4 < found.weights[0] < 1e-2


@pytest.mark.parametrize("kind", ["plain", "skewed", "ties"])
def test_the_slope_of_the_smooth_size_is_that_of_its_differences(kind: str) -> None:
    true, parts = problem(2, kind, n=80, n_labels=6, d=4)
    smooth = Surrogate(true, parts[0].reshape(-1, 4).T, n_rows=80, k=70)
    rng = np.random.default_rng(0)
    for share in (0.5, 0.05):
        weights = rng.dirichlet(np.ones(4))
        widths = smooth.widths(weights, share)
        slope = smooth(weights, widths)[1]
        step = 1e-4 * widths.threshold
        ends = [
            [smooth(weights + sign * step * e, widths)[0] for sign in (1, -1)] for e in np.eye(4)
        ]
        measured = np.diff(ends, axis=1)[:, 0] / (-2 * step)
        assert_allclose(slope, measured, rtol=2e-3, atol=2e-4 * np.abs(slope).max())


def test_the_smooth_size_becomes_the_size_as_the_sigmoids_narrow() -> None:
    true, parts = problem(4, "plain", n=90, n_labels=6, d=3)
    weights = np.array([0.2, 0.3, 0.5])
    smooth = Surrogate(true, parts[0].reshape(-1, 3).T, n_rows=90, k=80)
    exact = brute_counts(true, parts, 80, weights[None])[0] / 90
    # The smooth threshold has the k-th row half in, as itself: half a label in all rows.
    assert_allclose(smooth(weights, Widths(1e-9, 1e-9))[0], exact, atol=0.5 / 90 + 1e-9)


def test_twenty_scores_beat_the_best_of_many_random_weights() -> None:
    ten = ("thr", "aps", "rank", "logp", "logrank", "invrank", "margin", "raps", "saps", "-entropy")
    scores, y = tensor(n=400, models=2, names=ten)
    found = search_weights(scores, y, alpha=0.05, search=LineSearch(12_000), random_state=0)
    for concentration in (1.0, 0.1):  # even weights, and sparse ones
        weights = np.random.default_rng(0).dirichlet(np.full(20, concentration), size=2_000)
        assert found.size < search_weights(scores, y, alpha=0.05, search=weights).size
