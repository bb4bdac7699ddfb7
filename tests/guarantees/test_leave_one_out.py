"""The leave-one-out identity: coverage as a statement about counts, without tolerance.

Take n+1 labelled rows, hold each out in turn, calibrate on the other n, and test its true label.
Under exact validity at least k = ceil((n+1)(1-alpha)) of the n+1 are covered, always; without ties
exactly k. For VFCP the tuning rows I1 stay fixed, and the bag is I3 plus the held-out row.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conformix as cx
import oracle
from cases import Bag, FirstRowsTune, bags, levels
from conformix.search import GridSearch, search_weights

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

NAMES = ("thr", "aps", "rank")


def covered_when_held_out(
    cp: cx.ScoreAverage, outputs: np.ndarray, y: np.ndarray, first: int
) -> int:
    """How many of the rows from `first` on are covered when held out of the fit."""
    hits = 0
    for i in range(first, len(y)):
        cp.fit(np.delete(outputs, i, axis=0), np.delete(y, i))
        hits += bool(np.asarray(cp.predict_set(outputs[i : i + 1]))[0, y[i]])
    return hits


@settings(max_examples=150)
@given(bag=bags(max_models=1, min_rows=3, max_rows=14), level=levels(), data=st.data())
def test_vfcp_covers_at_least_k_of_n_plus_one_with_ties(
    bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    alpha, meant = level
    n_tune = data.draw(st.integers(1, len(bag.y) - 2), label="tuning rows")
    n = len(bag.y) - n_tune - 1
    cp = cx.ScoreAverage(
        NAMES, alpha=alpha, split=FirstRowsTune(n_tune), search=GridSearch(3), threads=1
    )
    hits = covered_when_held_out(cp, bag.outputs["a"], bag.y, n_tune)
    assert hits >= oracle.conformal_rank(n, meant)


def rows_without_ties(seed: int, n: int, n_classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, n_classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in probs])
    return probs, y


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 14), level=levels())
def test_vfcp_covers_exactly_k_of_n_plus_one_without_ties(
    seed: int, n: int, level: tuple[float, Fraction]
) -> None:
    alpha, meant = level
    probs, y = rows_without_ties(seed, 6 + n + 1)
    cp = cx.ScoreAverage(
        ("thr",),
        alpha=alpha,
        split=FirstRowsTune(6),
        search=GridSearch(1),
        normalize="none",  # an ecdf ties whatever lies beyond its few tuning rows
        threads=1,
    )
    assert covered_when_held_out(cp, probs, y, 6) == oracle.conformal_rank(n, meant)


@pytest.mark.parametrize("alpha", [0.1, 1 - 0.9, 0.05, 0.25])
@pytest.mark.parametrize("n", [19, 39, 57])
def test_vfcp_covers_exactly_k_of_n_plus_one_on_cifar10(
    cifar10: tuple, alpha: float, n: int
) -> None:
    logits, y = cifar10
    k = cx.conformal_rank(n, alpha)
    for seed in range(3):
        rows = np.random.default_rng(seed).permutation(len(y))[: 200 + n + 1]
        tune, bag = rows[:200], rows[200:]
        scores = cx.score_tensor(logits[tune], ("thr", "aps"), kind="logits")
        found = search_weights(scores, y[tune], alpha=alpha, resolution=20)
        cp = cx.ScoreAverage(
            ("thr", "aps"), alpha=alpha, kind="logits", normalize="none", weights=found.weights
        )
        combined = cx.score_tensor(logits[bag], ("thr", "aps"), kind="logits") @ found.weights
        assert len(np.unique(combined[np.arange(n + 1), y[bag]])) == n + 1  # no ties in this bag
        assert covered_when_held_out(cp, logits[bag], y[bag], 0) == k


@pytest.mark.parametrize("name", ["mmlu_llama13b", "cifar10"])
def test_vfcp_covers_at_least_k_of_n_plus_one_on_real_data_with_tied_ranks(name: str) -> None:
    data = cx.datasets.load(name)
    logits, y = next(iter(data.outputs.values())), data.labels
    rows = np.random.default_rng(1).permutation(len(y))[:130]
    cp = cx.ScoreAverage(
        ("rank",), kind="logits", split=FirstRowsTune(30), search=GridSearch(1), alpha=0.1
    )
    assert covered_when_held_out(cp, logits[rows], y[rows], 30) >= cx.conformal_rank(99, 0.1)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), n_groups=st.integers(2, 8), rows=st.integers(1, 4), level=levels()
)
def test_where_only_groups_are_exchangeable_k_of_the_rows_of_all_groups_are_covered(
    seed: int, n_groups: int, rows: int, level: tuple[float, Fraction]
) -> None:
    alpha, meant = level
    of_group = rows_without_ties(seed, n_groups)
    probs, y = (np.repeat(part, rows, axis=0) for part in of_group)  # rows that are all alike
    cp = cx.ScoreAverage("thr", alpha=alpha, weights=[1.0])
    hits = 0
    for g in range(n_groups):
        own = slice(g * rows, (g + 1) * rows)
        cp.fit(np.delete(probs, own, axis=0), np.delete(y, own))
        hits += np.asarray(cp.predict_set(probs[own]))[np.arange(rows), y[own]].sum()
    k = oracle.conformal_rank((n_groups - 1) * rows, meant)
    assert hits >= k
    assert 1 - meant - Fraction(k, n_groups * rows) < Fraction(1, n_groups)


def test_efcp_breaks_the_identity_on_many_bags_so_the_test_has_power() -> None:
    n, alpha = 12, 0.2
    k = cx.conformal_rank(n, alpha)
    cp = cx.ScoreAverage(NAMES, alpha=alpha, split="efcp", search=GridSearch(10), threads=1)
    broken = sum(
        covered_when_held_out(cp, *rows_without_ties(seed, n + 1), 0) < k for seed in range(60)
    )
    assert broken >= 6
