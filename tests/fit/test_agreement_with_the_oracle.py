"""The library agrees with the brute-force oracle, to the last tie."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
import oracle
from cases import Bag, bags, choices, levels, tensors
from conformix.conformal import conformal_rank, kth_largest
from conformix.search import GridSearch, landscape, search_weights
from conformix.splits import resolve_split

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

Level = tuple[float, Fraction]
NAMES = ("thr", "aps", "rank")
some_scores = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(tuple)
# Dyadic candidates, inside and outside the simplex: their squares are exact in floats.
some_candidates = st.lists(
    st.lists(st.integers(-4, 8).map(lambda x: x / 4), min_size=2, max_size=2).map(tuple),
    min_size=1,
    max_size=8,
)


@settings(max_examples=200)
@given(bag=bags(), names=some_scores)
def test_score_tensors_agree(bag: Bag, names: tuple[str, ...]) -> None:
    assert_array_equal(cx.score_tensor(bag.outputs, names), oracle.tensor(bag.models, names))


@settings(max_examples=300)
@given(level=levels(), data=st.data())
def test_ranks_and_thresholds_agree(level: Level, data: st.DataObject) -> None:
    alpha, meant = level
    # Floats go wrong where (n + 1) alpha is an integer: mostly such n.
    whole = st.integers(1, 8).map(lambda j: j * meant.denominator - 1).filter(bool)
    n = data.draw(st.one_of(whole, whole, st.integers(1, 30)), label="n")
    some = np.array([0.1, 0.2, 0.3, 0.1 + 0.2, 0.5])
    values = some[data.draw(choices(n, len(some)), label="values")].tolist()
    k = oracle.conformal_rank(n, meant)
    assert conformal_rank(n, alpha) == k
    assert kth_largest(np.array(values), k) == oracle.kth_largest(values, k)
    assert cx.conformal.threshold(np.array(values), alpha) == oracle.kth_largest(values, k)


@settings(max_examples=200)
@given(case=tensors(), level=levels(), resolution=st.integers(1, 5), apart=st.booleans())
def test_landscapes_agree(case: tuple, level: Level, resolution: int, apart: bool) -> None:
    scores, y, others = case
    alpha, meant = level
    size_rows = others if apart else scores
    weights, sizes = landscape(
        scores, y, alpha=alpha, resolution=resolution, size_scores=others if apart else None
    )
    grid = [
        tuple(part / resolution for part in g) for g in oracle.grid(scores.shape[2], resolution)
    ]
    assert_array_equal(weights, grid)
    expected = oracle.counts(scores.tolist(), y.tolist(), size_rows.tolist(), grid, meant)
    assert_array_equal(sizes, np.array(expected) / len(size_rows))


@settings(max_examples=300)
@given(case=tensors(), level=levels(), resolution=st.integers(1, 5), apart=st.booleans())
def test_chosen_grid_weights_and_their_size_agree(
    case: tuple, level: Level, resolution: int, apart: bool
) -> None:
    scores, y, others = case
    alpha, meant = level
    size_rows = others if apart else scores
    found = search_weights(
        scores, y, alpha=alpha, resolution=resolution, size_scores=others if apart else None
    )
    weights, count = oracle.grid_search(
        scores.tolist(), y.tolist(), size_rows.tolist(), resolution, meant
    )
    assert tuple(found.weights) == weights
    assert found.count == count
    assert found.size == count / len(size_rows)
    assert found.n_evaluated == len(oracle.grid(scores.shape[2], resolution))


@settings(max_examples=200)
@given(case=tensors(max_d=2), level=levels(), candidates=some_candidates, apart=st.booleans())
def test_chosen_weights_of_the_users_own_candidates_agree(
    case: tuple, level: Level, candidates: list[tuple[float, ...]], apart: bool
) -> None:
    scores, y, others = case
    alpha, meant = level
    candidates = [w[: scores.shape[2]] for w in candidates]
    size_rows = others if apart else scores
    found = search_weights(
        scores, y, alpha=alpha, search=candidates, size_scores=others if apart else None
    )
    expected = oracle.counts(scores.tolist(), y.tolist(), size_rows.tolist(), candidates, meant)
    best = oracle.winner(expected, candidates)
    assert tuple(found.weights) == candidates[best]
    assert found.count == expected[best]


@settings(max_examples=100)
@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+"])
@given(bag=bags(), names=some_scores, level=levels(), resolution=st.integers(1, 4), data=st.data())
def test_every_split_agrees_from_outputs_to_sets(
    split: str, bag: Bag, names: tuple[str, ...], level: Level, resolution: int, data: st.DataObject
) -> None:
    alpha, meant = level
    seed = data.draw(st.integers(0, 2**32 - 1), label="seed")
    n, m = len(bag.y), len(next(iter(bag.test.values())))
    cp = cx.ScoreAverage(
        names,
        alpha=alpha,
        split=split,
        search=GridSearch(resolution),
        normalize="none",
        random_state=seed,
        threads=1,
    ).fit(bag.outputs, bag.y, test=bag.test)
    sets = cp.predict_set(bag.test)

    needs_test = split.startswith("dlcp")
    roles = resolve_split(split).roles(n, m if needs_test else 0, np.random.default_rng(seed))
    settled = split == "vfcp" and len(cp.weights_) == 1  # one score: all rows calibrate
    if settled:
        roles = roles._replace(calibrate=np.arange(n))
    labelled, test = oracle.tensor(bag.models, names), oracle.tensor(bag.test_models, names)
    rows = labelled + test

    def at(indices: np.ndarray) -> tuple[list, list[int]]:
        return [rows[i] for i in indices], [int(bag.y[i]) for i in indices if i < n]

    tune, calibrate = at(roles.tune), at(roles.calibrate)
    weights, count = oracle.grid_search(*tune, at(roles.size)[0], resolution, meant)
    t = oracle.threshold(*calibrate, weights, meant)
    assert tuple(cp.weights_) == weights
    assert cp.search_ is None if settled else cp.search_.count == count
    assert cp.threshold_ == t
    assert_array_equal(sets, oracle.sets(test, weights, t))


@settings(max_examples=60)
@given(bag=bags(max_models=1, min_rows=4), level=levels(), data=st.data())
def test_vfcp_with_groups_agrees_from_outputs_to_sets(
    bag: Bag, level: Level, data: st.DataObject
) -> None:
    alpha, meant = level
    n = len(bag.y)
    groups = np.array([0, 1, *data.draw(choices(n - 2, 4), label="groups")])
    groups = np.unique(groups, return_inverse=True)[1]
    cp = cx.ScoreAverage(NAMES, alpha=alpha, search=GridSearch(3), normalize="none", random_state=5)
    sets = cp.fit(bag.outputs, bag.y, groups=groups).predict_set(bag.test)

    roles = resolve_split("vfcp").roles(n, 0, np.random.default_rng(5), groups)
    labelled, test = oracle.tensor(bag.models, NAMES), oracle.tensor(bag.test_models, NAMES)
    tune = [labelled[i] for i in roles.tune]
    weights, _ = oracle.grid_search(tune, bag.y[roles.tune].tolist(), tune, 3, meant)
    calibrate = [labelled[i] for i in roles.calibrate]
    t = oracle.threshold(calibrate, bag.y[roles.calibrate].tolist(), weights, meant)
    assert tuple(cp.weights_) == weights
    assert_array_equal(sets, oracle.sets(test, weights, t))


@settings(max_examples=100)
@given(bag=bags(max_models=1), level=levels(), other=levels(), w=st.permutations([0.1, 0.2, 0.7]))
def test_fixed_weights_and_another_alpha_agree(
    bag: Bag, level: Level, other: Level, w: list[float]
) -> None:
    # Sums of tenths depend on the order of the additions, in the last bit.
    cp = cx.ScoreAverage(NAMES, alpha=level[0], normalize="none", weights=w).fit(bag.outputs, bag.y)
    labelled, test = oracle.tensor(bag.models, NAMES), oracle.tensor(bag.test_models, NAMES)
    for alpha, meant in (level, other):
        t = oracle.threshold(labelled, bag.y.tolist(), tuple(w), meant)
        assert_array_equal(cp.predict_set(bag.test, alpha=alpha), oracle.sets(test, tuple(w), t))
    assert cp.threshold_ == oracle.threshold(labelled, bag.y.tolist(), tuple(w), level[1])


@settings(max_examples=100)
@given(bag=bags(max_models=1), level=levels(), tune_level=levels())
def test_tune_alpha_is_the_level_of_the_search_and_alpha_of_the_threshold(
    bag: Bag, level: Level, tune_level: Level
) -> None:
    cp = cx.ScoreAverage(
        NAMES,
        alpha=level[0],
        tune_alpha=tune_level[0],
        split="efcp",
        search=GridSearch(4),
        normalize="none",
    ).fit(bag.outputs, bag.y)
    labelled, y = oracle.tensor(bag.models, NAMES), bag.y.tolist()
    weights, _ = oracle.grid_search(labelled, y, labelled, 4, tune_level[1])
    assert tuple(cp.weights_) == weights
    assert cp.threshold_ == oracle.threshold(labelled, y, weights, level[1])
