"""Labels that no weights put into a set are left out where weights are tried along lines."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.search import GradientSearch, LineSearch, SizeObjective, simplex_grid
from conformix.search.line import Walk
from conformix.search.nonempty import NonEmptyObjective
from conformix.search.stability import OneStandardError


def problem(seed: int, *, ties: bool = False, n: int = 300, n_classes: int = 40, d: int = 5):
    """Scores of one model, more or less, whose true labels are mostly likely."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, n_classes, 1)) * 2
    scores = common + 0.3 * rng.normal(size=(n, n_classes, d))
    scores = scores.round() if ties else scores
    labels = np.array([rng.choice(np.argsort(row[:, 0])[-3:]) for row in scores])
    return scores, labels


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [1, 200, 271, 300])
def test_counts_are_those_of_all_labels(k: int, ties: bool) -> None:
    scores, y = problem(1, ties=ties)
    parts = [scores[:100], np.asfortranarray(scores[100:].astype(np.float32))]
    objective = SizeObjective(scores[np.arange(300), y], parts, k)
    narrow = objective.within_reach()
    rng = np.random.default_rng(2)
    weights = np.concatenate([simplex_grid(5, 4) / 4, rng.dirichlet(np.full(5, 0.2), 100)])
    assert_array_equal(narrow.counts(weights), objective.counts(weights))
    assert (narrow.n_size, narrow.n_pairs) == (objective.n_size, objective.n_pairs)
    if k < 300:
        assert sum(len(part) for part in narrow.size_parts) < 0.5 * objective.n_pairs


def test_what_would_save_little_is_left_as_it_is() -> None:
    scores, y = problem(3)
    true = scores[np.arange(300), y]
    every = SizeObjective(true, [scores], 301)
    assert every.within_reach() is every  # all labels are in
    mixed = np.random.default_rng(0).permuted(scores, axis=1)  # scores that do not agree
    most = SizeObjective(mixed[np.arange(300), y], [mixed], 290)
    assert most.within_reach() is most
    nonempty = NonEmptyObjective(scores, y, [scores], 271)
    assert nonempty.within_reach() is nonempty  # best labels are in, however low they score


def test_steps_away_from_other_weights_are_counted_as_the_weights_that_they_lead_to() -> None:
    """However far: what is left of the other weights may be a small part of the way."""
    scores, y = problem(5)
    objective = SizeObjective(scores[np.arange(300), y], [scores], 271)
    walk = Walk(objective, budget=10_000)
    target = np.array([0.25, 0.15, 0.2, 0.2, 0.2])
    walk.start(np.full(5, 0.2))
    steps = np.array([[-3.0], [-1.0], [-0.5], [0.5], [3.0]])
    counts = walk.span.counts((target - walk.span.base)[None], steps)
    weights = walk.span.base + steps * (target - walk.span.base)
    assert (weights >= 0).all()
    assert_array_equal(counts, objective.counts(weights))


@pytest.mark.parametrize(
    "search",
    [
        LineSearch(budget=3_000, starts=3),
        GradientSearch(budget=2_000, starts=2),
        OneStandardError(LineSearch(budget=1_000, starts=2), towards="few"),
    ],
)
def test_searches_find_what_they_find_with_all_labels(search, monkeypatch) -> None:
    scores, y = problem(4)
    objective = SizeObjective(scores[np.arange(300), y], [scores], 271)
    assert objective.within_reach() is not objective
    found = search(objective, np.random.default_rng(0))
    monkeypatch.setattr(SizeObjective, "within_reach", lambda self: self)
    whole = search(objective, np.random.default_rng(0))
    assert_array_equal(found.weights, whole.weights)
    assert (found.count, found.n_evaluated) == (whole.count, whole.n_evaluated)
