"""Merged p-values stay valid under any dependence; votes keep what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import combine_pvalues

import conformix as cx
from calibration.rows import Z, covered, uneven_classes
from conformix.calibration.merge import (
    MERGES,
    VOTES,
    harmonic_factor,
    merge_guarantee,
    merge_pvalues,
    merge_sets,
)

DEPENDENT = [name for name in MERGES if name != "fisher"]


def dependent_uniforms(kind: str, m: int, n: int) -> np.ndarray:
    """M uniform p-values (m, n, 1) on an even grid: the worst cases of the literature."""
    grid = (np.arange(n) + 0.5) / n
    if kind == "same":
        rows = [grid] * m
    elif kind == "opposite":
        rows = [grid if j % 2 else 1 - grid for j in range(m)]
    else:  # each row takes the small values elsewhere: bad for the smallest p-value
        rows = [np.roll(grid, j * n // m) for j in range(m)]
    return np.array(rows)[..., None]


@pytest.mark.parametrize("method", DEPENDENT)
@pytest.mark.parametrize("m", [2, 3, 5, 10])
@pytest.mark.parametrize("kind", ["same", "opposite", "rolled"])
def test_merged_pvalues_are_valid_under_dependence(method: str, m: int, kind: str) -> None:
    n = 2000
    merged = merge_pvalues(dependent_uniforms(kind, m, n), method)[:, 0]
    levels = np.array([0.01, 0.05, 0.1, 0.2, 0.5])
    shares = (merged[:, None] <= levels).mean(axis=0)
    assert (shares <= levels + 1 / n).all()  # the grid has n points


# What a merge adds up, and the sign that makes small p-values large in it.
ADDED = {
    "mean": lambda p: -p,
    "geometric": lambda p: -np.log(p),
    "harmonic": lambda p: 1 / p,
}


def worst_share(method: str, m: int, alpha: float, less: float = 1.0) -> float:
    """The largest P(merged * less <= alpha) that a rearrangement of uniform p-values reaches.

    On an event of probability beta the p-values are those up to beta, each column sorted against
    the sum of the others until all sums are nearly alike (Puccetti & Rueschendorf, 2012): many sums
    are then just large enough. The upper ends of a grid stand for uniform values, so that these are
    valid p-values and the promise holds without tolerance.
    """
    rng, n, worst = np.random.default_rng(0), 600, 0.0
    for beta in alpha * np.array([0.7, 0.9, 1.05, 1.2, 1.5]):
        p = np.array([rng.permutation(beta * (np.arange(n) + 1) / n) for _ in range(m)])
        added = ADDED[method](p)
        for _ in range(60):
            for j in range(m):
                others = added.sum(axis=0) - added[j]
                added[j, np.argsort(others)] = np.sort(added[j])[::-1]
        p = {"mean": lambda a: -a, "geometric": lambda a: np.exp(-a), "harmonic": lambda a: 1 / a}[
            method
        ](added)
        merged = merge_pvalues(np.minimum(p, 1.0)[..., None], method)[:, 0]
        worst = max(worst, beta * float((merged * less <= alpha + 1e-12).mean()))
    return worst


@pytest.mark.parametrize("m", [2, 3, 4, 6])
@pytest.mark.parametrize("method", list(ADDED))
def test_merged_pvalues_are_valid_under_the_worst_dependence(method: str, m: int) -> None:
    for alpha in (0.02, 0.1):
        assert worst_share(method, m, alpha) <= alpha + 1e-9
    assert worst_share(method, m, 0.1, less=0.7) > 0.1  # a smaller factor would not do


def test_the_plain_mean_of_opposite_pvalues_shows_why_the_factor_is_needed() -> None:
    pair = dependent_uniforms("opposite", 2, 1000)
    assert (pair.mean(axis=0) <= 0.5 + 1e-12).all()  # all of them, where half would do


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=7))
def test_fisher_is_the_textbook_and_only_for_independent_ones(pvalues: list[float]) -> None:
    stacked = np.array(pvalues)[:, None, None]
    merged = merge_pvalues(stacked, "fisher", independent=True)[0, 0]
    assert_allclose(merged, combine_pvalues(pvalues).pvalue, rtol=1e-9)
    with pytest.raises(cx.InvalidInput, match='"fisher" holds for independent p-values only'):
        merge_pvalues(stacked, "fisher")


def test_merges_by_hand() -> None:
    p = np.array([0.1, 0.2, 0.6])[:, None, None]
    assert_allclose(merge_pvalues(p, "mean"), 0.6)
    assert_allclose(merge_pvalues(p, "bonferroni"), 0.3)
    assert_allclose(merge_pvalues(p, "median"), 0.2 * 3 / 2)
    assert_allclose(merge_pvalues(p, "max"), 0.6)
    assert_allclose(merge_pvalues(p, "geometric"), np.e * (0.1 * 0.2 * 0.6) ** (1 / 3))
    harmonic = 3 / (1 / 0.1 + 1 / 0.2 + 1 / 0.6)
    assert_allclose(merge_pvalues(p, "harmonic"), harmonic_factor(3) * harmonic)
    assert_array_equal(merge_pvalues(p[:1], "mean"), p[0])


def test_merged_pvalues_of_three_predictors_cover() -> None:
    hits = dict.fromkeys(DEPENDENT, 0.0)
    for r in range(40):
        rng = np.random.default_rng([r, 2])
        probs, y = uneven_classes(rng, 400)
        members = [
            cx.ScoreAverage(name, weights=[1.0]).fit(probs[:200], y[:200])
            for name in ("thr", "aps", "margin")
        ]
        pvalues = [member.predict_pvalues(probs[200:]) for member in members]
        for name in DEPENDENT:
            hits[name] += covered(merge_pvalues(pvalues, name) > 0.1, y[200:]).mean()
    # Rows of one repetition share thresholds: 200 calibration rows, 200 test rows, 40 times.
    spread = np.sqrt(0.09 * (1 / 200 + 1 / 200) / 40)
    assert min(hits.values()) / 40 > 0.9 - Z * spread


def votes_case(rng: np.random.Generator, n: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Three sets that each miss label 0 with probability 0.2, independently."""
    sets = [np.column_stack([rng.random(n) >= 0.2, rng.random(n) < 0.5]) for _ in range(3)]
    return sets, np.zeros(n, dtype=int)


@pytest.mark.parametrize(("rule", "promise"), [("half", 0.6), ("random", 0.6), ("uniform", 0.8)])
def test_votes_keep_their_promise(rule: str, promise: float) -> None:
    sets, y = votes_case(np.random.default_rng(0), 20_000)
    share = covered(merge_sets(sets, rule, random_state=0), y).mean()
    assert share > promise - Z * 0.5 / np.sqrt(20_000)
    assert merge_guarantee(rule).kind == "exact"


@pytest.mark.parametrize("method", [*MERGES, *VOTES])
def test_the_guarantee_of_a_merge_says_what_it_needs(method: str) -> None:
    sets = "each of the sets misses with probability <= alpha"
    says = {
        "half": ("P(y in set) >= 1 - 2 alpha", sets),
        "random": ("P(y in set) >= 1 - 2 alpha", f"{sets}; u drawn apart from them"),
        "uniform": ("P(y in set) >= 1 - alpha", f"{sets}; u drawn apart from them"),
        "fisher": ("P(y in set) >= 1 - alpha", "valid, independent p-values"),
    }
    others = ("P(y in set) >= 1 - alpha", "valid, arbitrarily dependent p-values")
    formula, needs = says.get(method, others)
    assert str(merge_guarantee(method)) == f"exact: {formula} ({needs})"
    spelled = "".join(list(method))  # by its letters, whichever object holds them
    assert merge_guarantee(spelled) == merge_guarantee(method)


def test_a_vote_can_cover_less_than_one_minus_alpha() -> None:
    """Three sets of which two fail together on 2 alpha of the rows, in turns."""
    n, alpha = 3000, 0.2
    third = int(n * alpha) // 2
    masks = np.ones((3, n, 1), dtype=bool)
    for block, pair in enumerate(((0, 1), (1, 2), (0, 2))):
        masks[list(pair), block * third : (block + 1) * third] = False
    assert (~masks).mean(axis=1).max() == alpha
    assert covered(merge_sets(list(masks)), np.zeros(n, int)).mean() == 1 - 1.5 * alpha


def test_random_votes_are_never_larger_and_uniform_votes_are_exact_on_average() -> None:
    sets, y = votes_case(np.random.default_rng(1), 5000)
    half, random = (np.asarray(merge_sets(sets, r, random_state=3)) for r in ("half", "random"))
    assert (random <= half).all()
    uniform = covered(merge_sets(sets, "uniform", random_state=3), y).mean()
    assert abs(uniform - 0.8) < Z * 0.4 / np.sqrt(5000)


@pytest.mark.parametrize("rule", ["half", "random", "uniform"])
def test_labels_of_a_row_are_in_by_their_votes_and_one_number_for_the_row(rule: str) -> None:
    rng = np.random.default_rng(2)
    sets = rng.random((5, 400, 6)) < 0.5
    inside, votes = np.asarray(merge_sets(list(sets), rule, random_state=1)), sets.sum(axis=0)
    least = np.where(inside, votes, 9).min(axis=1)  # the fewest votes that were enough
    assert_array_equal(inside, votes >= least[:, None])


def test_weighted_votes_and_class_names() -> None:
    one = cx.PredictionSets(np.array([[True, False]]), ["x", "y"])
    two = cx.PredictionSets(np.array([[False, True]]), ["x", "y"])
    assert merge_sets([one, two], weights=[0.7, 0.3]).labels(0) == ["x"]
    assert merge_sets([one, two]).labels(0) == []  # half the votes are not more than half
    with pytest.raises(cx.InvalidInput, match="weights must be non-negative and sum to 1"):
        merge_sets([one, two], weights=[0.7, 0.7])
    with pytest.raises(cx.InvalidInput, match="unknown vote 'haf'; did you mean 'half'"):
        merge_sets([one, two], "haf")
    with pytest.raises(cx.InvalidInput, match="boolean arrays of one shape"):
        merge_sets([])
    with pytest.raises(cx.InvalidInput, match="unknown merge 'average'"):
        merge_pvalues(np.ones((2, 1, 1)), "average")


@pytest.mark.parametrize("n_predictors", range(1, 8))
def test_the_median_is_the_smaller_middle_one_times_what_its_rank_costs(n_predictors) -> None:
    """Of M p-values the k-th smallest times M/k, k = ceil(M/2); an even number has two middles."""
    p = np.random.default_rng(n_predictors).permutation(n_predictors)[:, None, None] / 20 + 0.01
    k = (n_predictors + 1) // 2
    expected = min(1.0, sorted(p.ravel())[k - 1] * n_predictors / k)
    assert_allclose(merge_pvalues(list(p), "median"), expected)
