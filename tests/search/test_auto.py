"""`search="auto"` says what it picked, and searches without candidates refuse what needs them."""

from __future__ import annotations

import numpy as np
import pytest

import conformix as cx
from conformix.errors import InvalidInput
from conformix.search import AutoSearch, GridSearch, LineSearch, OneStandardError, search_weights
from conformix.splits import Exact

FIVE = ("thr", "aps", "rank", "logp", "margin")


def cifar10(n: int = 600):
    data = cx.datasets.load("cifar10")
    return data.outputs["vgg16"][:n], data.labels[:n]


def fitted(**settings) -> cx.ScoreAverage:
    logits, y = cifar10()
    told = {"alpha": 0.1, "kind": "logits", "random_state": 0} | settings
    return cx.ScoreAverage(FIVE, **told).fit(logits, y)


def test_few_scores_get_the_grid_and_many_get_lines() -> None:
    logits, y = cifar10()
    few = cx.score_tensor(logits, FIVE[:3], kind="logits")
    many = cx.score_tensor(logits, FIVE, kind="logits")
    grid = search_weights(few, y, alpha=0.1, search="auto")
    lines = search_weights(many, y, alpha=0.1, search="auto", random_state=0)
    assert grid.strategy == "grid of resolution 100"
    assert lines.strategy.startswith("line search from")
    assert grid.reason == "3 scores: a grid is fine enough and exact"
    assert "(auto: 5 scores, 600 rows, 10 classes: no grid is fine enough)" in repr(lines)


def test_many_rows_and_classes_get_a_smaller_budget() -> None:
    small, large = (AutoSearch().picked(10, n, 1_000)[0] for n in (500, 5_000))
    assert large.budget < small.budget == 40_000


def test_a_pac_statement_on_the_tuning_rows_takes_counted_weights() -> None:
    model = fitted(split="efcp", guarantee="pac")
    assert model.search_.strategy == "grid of resolution 30"
    assert model.guarantee_.facts.n_weights == GridSearch(30).n_candidates(5)
    with pytest.raises(InvalidInput, match="needs candidate weights that are counted beforehand"):
        fitted(split="efcp", guarantee="pac", search="line")


def test_the_exact_split_refuses_a_search_of_its_own_on_the_calibration_rows() -> None:
    for search in ("line", "gradient", OneStandardError("grid")):
        with pytest.raises(InvalidInput, match=r"needs rows set aside, Exact\(shortlist=\.\.\.\)"):
            fitted(split="exact", search=search)


def test_the_exact_split_takes_a_shortlist_from_a_search_on_rows_set_aside() -> None:
    model = fitted(split=Exact(shortlist=20), search=LineSearch(budget=1_000))
    weights = model.predictor_.fitted.weights
    assert weights.shape == (20, 5)
    assert model.guarantee_.kind == "exact"
    assert len(np.unique(weights, axis=0)) == 20


def test_measured_coverage_needs_weights_that_are_counted() -> None:
    model = fitted(split="efcp", search=LineSearch(budget=500), normalize="none")
    with pytest.raises(InvalidInput, match="selects among candidate weights that are counted"):
        model.measured_coverage(*cifar10())


@pytest.mark.parametrize(
    "search",
    ["line", LineSearch(budget=500), cx.search.GradientSearch(600, 2), OneStandardError("line")],
    ids=repr,
)
def test_a_search_of_the_library_is_saved_with_its_model(search, tmp_path) -> None:
    model = fitted(search=search)
    model.save(tmp_path / "model.json")
    again = cx.load(tmp_path / "model.json")
    assert again.search == search
    assert repr(again.search_) == repr(model.search_)
