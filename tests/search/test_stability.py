"""Stable weights: simpler ones within the noise, how far good ones reach, how much they move."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.search import SizeObjective, landscape, search_weights
from conformix.search.nonempty import NonEmptyObjective
from conformix.search.stability import (
    Draws,
    OneStandardError,
    bootstrap_weights,
    near_optimal_region,
    same_rows,
)
from search.problems import problem


def objective(n: int = 1200, names: tuple[str, ...] = ("thr", "aps", "rank"), alpha: float = 0.05):
    data = cx.datasets.load("cifar100")
    scores = cx.score_tensor(data.outputs["densenet_bc_100"][:n], names, kind="logits")
    y = data.labels[:n]
    return SizeObjective(scores[np.arange(n), y], [scores], conformal_rank(n, alpha)), scores, y


@pytest.mark.parametrize("kind", ["plain", "ties", "mixed"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_bootstrap_size_is_that_of_the_drawn_rows(kind: str, apart: bool) -> None:
    true, parts = problem(1, kind, n=40, n_labels=5, d=3)
    if apart:
        parts = [parts[0][:25], parts[0][5:]]
    draws = Draws(SizeObjective(true, parts, k=35), 6, np.random.default_rng(0))
    assert (draws.size[0] is draws.tune) == (not apart)
    weights = np.array([0.2, 0.3, 0.5])
    for b, size in enumerate(draws.sizes(weights)):
        combined = 0.2 * true[:, 0] + 0.3 * true[:, 1] + 0.5 * true[:, 2]
        t = kth_largest(np.repeat(combined, draws.tune[b]), 35)
        total = 0
        for part, drawn in zip(parts, draws.size, strict=True):
            values = 0.2 * part[..., 0] + 0.3 * part[..., 1] + 0.5 * part[..., 2]
            total += (np.repeat(values, drawn[b], axis=0) >= t).sum()
        assert size == total / sum(map(len, parts))


def test_the_standard_error_is_that_of_fresh_rows() -> None:
    """Differences of sizes over many fresh samples spread as the bootstrap of one says."""
    rng = np.random.default_rng(0)
    weights, best = np.array([0.9, 0.1]), np.array([0.4, 0.6])

    def draw(n: int = 400) -> SizeObjective:
        scores = rng.standard_normal((n, 5, 2))
        scores[:, 0] += 1.5
        return SizeObjective(scores[:, 0], [scores], conformal_rank(n, 0.1))

    fresh = np.std([np.diff(draw()(np.vstack([weights, best])))[0] for _ in range(300)])
    samples = [Draws(draw(), 100, rng) for _ in range(20)]
    told = np.mean([each.standard_error(weights, each.sizes(best)) for each in samples])
    assert_allclose(told, fresh, rtol=0.2)


def test_few_keeps_fewer_scores_within_the_error_and_uniform_moves_towards_equal_weights() -> None:
    sizes, _, _ = objective()
    best = cx.search.GridSearch(50)(sizes)
    few = OneStandardError(cx.search.GridSearch(50), "few")(sizes, np.random.default_rng(0))
    even = OneStandardError(cx.search.GridSearch(50), "uniform")(sizes, np.random.default_rng(0))
    assert (few.weights > 0).sum() < (best.weights > 0).sum()
    assert (even.weights**2).sum() < (best.weights**2).sum()
    for found in (few, even):
        draws = Draws(sizes, 400, np.random.default_rng(1))
        error = draws.standard_error(found.weights, draws.sizes(best.weights))
        assert found.size <= best.size + 1.3 * error
        assert found.count == sizes.counts(found.weights[None])[0]


def test_no_error_given_up_keeps_the_best_size() -> None:
    sizes, _, _ = objective(n=400)
    best = cx.search.GridSearch(20)(sizes)
    found = OneStandardError(cx.search.GridSearch(20), errors=0.0)(sizes, np.random.default_rng(0))
    assert found.count <= best.count


def test_the_region_of_a_grid_is_the_exact_list() -> None:
    sizes, scores, y = objective(n=500)
    weights, every = landscape(scores, y, alpha=0.05, resolution=20)
    region = near_optimal_region(sizes, within=0.02, resolution=20)
    assert region.exact
    assert {tuple(w) for w in region.weights} == {
        tuple(w) for w in weights[every <= every.min() * 1.02]
    }
    assert region.sizes[0] == every.min()
    sampled = near_optimal_region(sizes, within=0.02, resolution=None, best=region.weights[0])
    assert not sampled.exact
    assert len(sampled.weights) > 10
    assert_allclose(sampled.weights.sum(axis=1), 1.0)


def test_bootstrap_weights_are_repeatable() -> None:
    _, scores, y = objective(n=300)
    first = bootstrap_weights(scores, y, alpha=0.1, search=cx.search.GridSearch(10), n_draws=3)
    again = bootstrap_weights(scores, y, alpha=0.1, search=cx.search.GridSearch(10), n_draws=3)
    assert_array_equal(first[0], again[0])
    assert len(np.unique(first[0], axis=0)) > 1


def test_rows_are_recognised_as_the_same_only_in_their_order() -> None:
    sizes, scores, _ = objective(n=50)
    assert same_rows(sizes.true_scores, scores)
    assert not same_rows(sizes.true_scores, scores[::-1])


def test_what_has_no_standard_error_is_refused_in_a_sentence() -> None:
    _, scores, y = objective(n=50)
    nonempty = NonEmptyObjective(scores, y, [scores], 45)
    with pytest.raises(InvalidInput, match="standard errors of sizes are there for the mean set"):
        OneStandardError("grid")(nonempty, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match='towards must be "few" or "uniform"'):
        search_weights(scores, y, alpha=0.1, search=OneStandardError(towards="zero"))
