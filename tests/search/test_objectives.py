"""Objectives other than the mean size equal their definition, one weight and one row at a time."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import conformix as cx
from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.metrics import class_coverage_gap, size_stratified_violation
from conformix.search import (
    CappedSize,
    ClassGap,
    LabelCosts,
    MeanSize,
    Singletons,
    SizeStratified,
    landscape,
    search_weights,
    simplex_grid,
)
from conformix.search.goals import UNIT, GoalObjective
from conformix.search.objective import SizeObjective
from search.problems import KINDS

ALPHA = 0.2
COSTS = tuple(float(c) for c in np.random.default_rng(0).uniform(0, 3, 12))


def by_hand(sets: np.ndarray, own: np.ndarray, y: np.ndarray, goal) -> float:
    """Return the value of a goal from the sets of the size rows and of the tuning rows."""
    sizes = sets.sum(axis=1)
    match goal:
        case MeanSize():
            return sizes.mean()
        case Singletons():
            return np.mean([size != 1 for size in sizes])
        case CappedSize():
            return np.mean([min(size, goal.cap) for size in sizes])
        case LabelCosts():
            return np.mean([sum(goal.values[e] for e in np.flatnonzero(row)) for row in sets])
        case ClassGap():
            return sizes.mean() + goal.strength * class_coverage_gap(own, y, alpha=ALPHA)
        case SizeStratified():
            gap = size_stratified_violation(own, y, alpha=ALPHA, edges=goal.edges)
            return sizes.mean() + goal.strength * gap
    raise AssertionError(goal)


GOALS = [
    MeanSize(),
    Singletons(),
    CappedSize(3),
    LabelCosts((1.0, 0.0, 2.5) * 4),
    LabelCosts(COSTS),
    ClassGap(7.5),
    SizeStratified(4.0, edges=(1, 2, 5)),
]


def tuned(kind: str, seed: int = 0):
    rng = np.random.default_rng(seed)
    tune, size = (KINDS[kind](rng, (n, 12, 3)) for n in (60, 45))
    y = rng.integers(12, size=60)
    tune[np.arange(60), y] += 0.3
    return tune, y, size


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
@pytest.mark.parametrize("kind", ["plain", "ties", "mixed"])
def test_a_goal_is_what_its_definition_says(goal, kind: str) -> None:
    tune, y, size = tuned(kind)
    k = conformal_rank(60, ALPHA)
    weights, values = landscape(
        tune, y, alpha=ALPHA, resolution=5, objective=goal, size_scores=size
    )
    for w, value in zip(weights, values, strict=True):
        own = w[0] * tune[..., 0] + w[1] * tune[..., 1] + w[2] * tune[..., 2]
        t = kth_largest(own[np.arange(60), y], k)
        sets = w[0] * size[..., 0] + w[1] * size[..., 1] + w[2] * size[..., 2] >= t
        # a penalty is rounded to millionths of a label per row, a cost to millionths per label
        assert_allclose(value, by_hand(sets, own >= t, y, goal), rtol=0, atol=12.0 / UNIT)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
@pytest.mark.parametrize("search", ["grid", "line"])
def test_the_winner_is_the_best_and_says_so(goal, search: str) -> None:
    tune, y, _ = tuned("plain", seed=3)
    weights, values = landscape(tune, y, alpha=ALPHA, resolution=8, objective=goal)
    found = search_weights(
        tune, y, alpha=ALPHA, search=search, resolution=8, objective=goal, random_state=0
    )
    value = found.size if found.value is None else found.value
    assert found.objective == goal.name
    if search == "grid":
        best = values.min()
        assert_allclose(value, best, rtol=1e-12)
        tied = np.flatnonzero(values == best)
        grid = simplex_grid(3, 8)[tied]
        order = sorted(range(len(tied)), key=lambda i: ((grid[i] ** 2).sum(), tuple(grid[i])))
        assert (found.weights == weights[tied[order[0]]]).all()
    else:
        assert value <= values.min() * 1.02


def test_the_size_beside_another_objective_is_the_size() -> None:
    tune, y, _ = tuned("plain")
    found = search_weights(tune, y, alpha=ALPHA, objective="singletons", resolution=10)
    weights, sizes = landscape(tune, y, alpha=ALPHA, resolution=10)
    assert found.size == sizes[(weights == found.weights).all(axis=1)][0]
    assert "singletons" in repr(found)


def test_when_every_label_must_be_in_goals_still_have_a_value() -> None:
    tune, y, _ = tuned("plain")
    with pytest.warns(cx.TrivialSetsWarning):
        values = landscape(tune[:3], y[:3], alpha=0.1, resolution=2, objective=CappedSize(5))[1]
    assert (values == 5).all()


def test_an_estimator_searches_for_singletons_and_keeps_its_guarantee(tmp_path) -> None:
    data = cx.datasets.load("cifar100")
    logits, y = data.outputs["densenet_bc_100"][:2000], data.labels[:2000]
    settings = {
        "alpha": 0.1,
        "kind": "logits",
        "random_state": 0,
        "search": cx.search.GridSearch(20),
    }
    plain = cx.ScoreAverage(**{"scores": "paper", **settings}).fit(logits, y)
    single = cx.ScoreAverage(objective="singletons", **settings).fit(logits, y)
    assert single.guarantee_.kind == "exact"
    assert single.search_.size >= plain.search_.size
    assert 0 < single.search_.value < 1
    single.save(tmp_path / "model.json")
    assert cx.load(tmp_path / "model.json").objective == "singletons"
    capped = cx.ScoreAverage(objective=LabelCosts((1.0,) * 50 + (2.0,) * 50), **settings)
    capped.fit(logits, y).save(tmp_path / "model.json")
    assert cx.load(tmp_path / "model.json").objective == capped.objective


def test_a_penalty_for_the_class_gap_closes_it_on_the_tuning_rows() -> None:
    data = cx.datasets.load("cifar100")
    scores = cx.score_tensor(
        data.outputs["densenet_bc_100"][:1500], ("thr", "aps", "rank"), kind="logits"
    )
    y = data.labels[:1500]
    found = [
        search_weights(scores, y, alpha=0.1, objective=ClassGap(strength), resolution=20)
        for strength in (0.0, 200.0)
    ]
    gaps = [(f.value - f.size) / s for f, s in zip(found, (1.0, 200.0), strict=True)]
    weights, plain = landscape(scores, y, alpha=0.1, resolution=20)
    loose, tight = (
        (landscape(scores, y, alpha=0.1, resolution=20, objective=ClassGap(1.0))[1] - plain)[
            (weights == f.weights).all(axis=1)
        ][0]
        for f in found
    )
    assert tight < loose
    assert_allclose(gaps[1], tight, atol=1e-5)


REFUSED = {
    "no goal": (
        r"^objective must be class_gap, singletons, size, size_stratified or an object with "
        r"costs\(\); got 3\.$",
        {"objective": 3},
    ),
    "unknown": ("did you mean 'singletons'", {"objective": "singeltons"}),
    "gradients": ("follows the slope", {"objective": "singletons", "search": "gradient"}),
    "cap": ("cap must be a positive integer", {"objective": CappedSize(0)}),
    "costs": ("label costs must be 12 numbers", {"objective": LabelCosts((1.0, 2.0))}),
    "costs of text": ("label costs must be a rectangular array", {"objective": LabelCosts("abc")}),
    "a negative cost": (
        r"^label costs must be finite and not negative; label 2 costs -1\.$",
        {"objective": LabelCosts((0.0, 0.0, -1.0, *[0.0] * 9))},
    ),
    "a cost that is no number": (
        r"^label costs must be finite and not negative; label 0 costs nan\.$",
        {"objective": LabelCosts((float("nan"), *[0.0] * 11))},
    ),
    "costs that overflow": (
        r"^the sum of the label costs must stay below 1\.54e\+11 with 60 size rows; "
        r"got 1\.2e\+12\.$",
        {"objective": LabelCosts((1e11,) * 12)},
    ),
    "costs whose sum is not finite": (
        r"^the sum of the label costs must stay below 1\.54e\+11 with 60 size rows; got inf\.$",
        {"objective": LabelCosts((1e308,) * 12)},
    ),
    "strength": ("strength must be a number between 0 and", {"objective": ClassGap(-1.0)}),
    "a strength of text": ("strength must be a number between", {"objective": ClassGap("much")}),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_searched_for_is_refused_in_a_sentence(case: str) -> None:
    sentence, settings = REFUSED[case]
    tune, y, _ = tuned("plain")
    with pytest.raises(InvalidInput, match=sentence):
        search_weights(tune, y, alpha=ALPHA, **settings)


@pytest.mark.parametrize("kinds", [1, 12])
def test_costs_just_below_the_limit_are_counted_without_overflow(kinds: int) -> None:
    tune, y, size = tuned("plain")
    each = 2.0**63 / (UNIT * 45 * 12) * 0.99
    costs = LabelCosts(tuple(each * (1 - 1e-3 * (i % kinds)) for i in range(12)))
    values = landscape(tune, y, alpha=ALPHA, resolution=5, objective=costs, size_scores=size)[1]
    sizes = landscape(tune, y, alpha=ALPHA, resolution=5, size_scores=size)[1]
    assert_allclose(values / each, sizes, rtol=0.02)
    with pytest.warns(cx.TrivialSetsWarning):  # every label in: the largest total there is
        most = landscape(
            tune[:3], y[:3], alpha=ALPHA, resolution=1, objective=costs, size_scores=size
        )[1]
    assert_allclose(most, sum(costs.values), rtol=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"split": "exact"}, "another objective does not apply"),
        ({"allow_empty": False}, "searched with one threshold and empty sets allowed"),
    ],
)
def test_where_goals_do_not_apply_the_estimator_says_so(settings, sentence: str) -> None:
    data = cx.datasets.load("cifar10")
    model = cx.ScoreAverage(objective="singletons", alpha=0.1, kind="logits", **settings)
    with pytest.raises(InvalidInput, match=sentence):
        model.fit(data.outputs["vgg16"][:200], data.labels[:200])


def test_the_front_of_the_trade_off_is_what_nothing_beats() -> None:
    tune, y, _ = tuned("plain")
    both = cx.plots.tradeoff_numbers(tune, y, alpha=ALPHA, resolution=8)
    for i in range(len(both.sizes)):
        no_worse = (both.sizes <= both.sizes[i]) & (both.gaps <= both.gaps[i])
        better = (both.sizes < both.sizes[i]) | (both.gaps < both.gaps[i])
        if both.front[i]:
            assert not (no_worse & better).any()
        else:  # beaten, or the double of a point on the front
            same = (both.sizes == both.sizes[i]) & (both.gaps == both.gaps[i])
            assert (no_worse & better).any() or same.sum() > 1
    assert both.front.any()


def test_a_penalty_that_would_overflow_is_refused(cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    cp = cx.ScoreAverage(kind="logits", objective=ClassGap(1e13))
    with pytest.raises(InvalidInput, match="strength"):
        cp.fit(logits, labels)


@pytest.mark.parametrize("goal", [ClassGap(5.0), SizeStratified(5.0)], ids=lambda goal: goal.name)
def test_an_average_of_averages_costs_what_the_average_does(goal) -> None:
    """A search along lines sees two averages of the scores instead of the scores."""
    rng = np.random.default_rng(3)
    scores, y = rng.normal(size=(80, 6, 3)), rng.integers(6, size=80)
    k = conformal_rank(80, ALPHA)
    sizes = SizeObjective(scores[np.arange(80), y], [scores], k)
    objective = GoalObjective(sizes, goal, scores, y, ALPHA)
    ends = np.array([[0.5, 0.25, 0.25], [0.125, 0.875, 0.0]])
    on_line = objective.with_scores(lambda values: values @ ends.T)
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    assert on_line.counts(shares).tolist() == objective.counts(shares @ ends).tolist()
