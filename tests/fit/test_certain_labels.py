"""Labels that are in, or out, whatever the weights; and the selection that looks at the others."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from conformix.conformal import conformal_rank, kth_largest
from conformix.fit.exact.split import FullFitted
from conformix.fit.exact.tables import MARKS, make_tables, ragged_gaps
from conformix.kernels import combine
from conformix.search import GridSearch
from conformix.search.certain import reach, surely_in
from conformix.search.weights import candidate_weights
from fit.test_exact_split import brute_force_set, plain

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")


def rows_of(seed: int, n: int, n_classes: int, d: int, *, ties: bool) -> tuple:
    """Scores (n, K, d) that agree as those of one model do, and labels that mostly score well."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, n_classes, 1))
    scores = common + 0.4 * rng.normal(size=(n, n_classes, d))
    if ties:
        scores = scores.round()
    depth = rng.choice([3, n_classes], p=[0.97, 0.03], size=n)
    labels = np.array(
        [rng.choice(np.argsort(r[:, 0])[-m:]) for r, m in zip(scores, depth, strict=True)]
    )
    return scores, labels, rng


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 4), st.booleans(), st.data())
def test_what_is_certain_holds_under_all_weights_to_the_last_bit(seed, n, d, ties, data) -> None:
    scores, labels, rng = rows_of(seed, n, 4, d, ties=ties)
    k = data.draw(st.integers(1, n))
    true = scores[np.arange(n), labels]
    inside, outside = surely_in(true, k), reach(true, k)
    grid = candidate_weights(GridSearch(4), d)
    weights = np.concatenate([grid, rng.dirichlet(np.full(d, 0.3), 20), 1e3 * rng.random((5, d))])
    # Labels next to the numbers, too.
    near = np.array([inside, outside]) + np.array([[[0.0]], [[1e-15]], [[-1e-15]]])
    every = np.concatenate([scores.reshape(-1, d), near.reshape(-1, d)])
    is_in = (every >= inside).all(axis=1)
    is_out = (every <= outside).all(axis=1)
    assert is_in.any() or not np.isfinite(inside).all()
    for w in weights:
        threshold = kth_largest(combine(true, w), k)
        assert (combine(every[is_in], w) >= threshold).all()
        if w.sum() > 0:
            assert (combine(every[is_out], w) < threshold).all()


def test_nothing_is_certain_of_no_threshold() -> None:
    true = np.arange(6.0).reshape(3, 2)
    assert surely_in(true, 3) == [0.0, 1.0]  # the smallest of all: every label of theirs is in
    assert reach(true, 4) == [-np.inf, -np.inf]  # all labels are in


def compiled(monkeypatch) -> None:
    monkeypatch.setattr(
        "conformix.fit.exact.split.host_kernels",
        lambda name, _: import_module(f"conformix.kernels.host.{name}"),
    )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_compiled_selection_agrees_with_a_loop(seed: int, ties: bool, monkeypatch) -> None:
    compiled(monkeypatch)
    scores, y, _ = rows_of(seed, 24, int(2 + seed % 7), 1 + seed % 3, ties=ties)
    n, weights = 20, candidate_weights(GridSearch(3), scores.shape[2])
    for alpha in (0.05, 0.2, 0.5, 0.94):
        k = conformal_rank(n, alpha)
        found = FullFitted(scores[:n], y[:n], weights, plain, alpha).member(scores[n:], alpha)
        for row, members in zip(scores[n:], found, strict=True):
            assert_array_equal(members, brute_force_set(scores[:n], y[:n], row, weights, k))


def selections(monkeypatch, fit, new, alpha):
    """Return which weights labels select by NumPy, compiled, and compiled with nothing certain."""
    found = []
    for room, certain in (("plain", True), ("host", True), ("host", False)):
        monkeypatch.setattr(
            "conformix.fit.exact.split.host_kernels",
            lambda name, _, room=room: import_module(f"conformix.kernels.{room}.{name}"),
        )
        tables = make_tables(fit.scores, fit.y, fit.weights, conformal_rank(fit.n, alpha))
        if not certain:
            tables.certain[:] = [[np.inf], [-np.inf]]
        found.append((tables, fit.choose(new, tables)))
    return found


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_every_way_to_select_is_the_same(alpha: float, ties: bool, threads: int, monkeypatch):
    scores, y, _ = rows_of(5, 460, 30, 3, ties=ties)
    weights = candidate_weights(GridSearch(9), 3)
    fit = FullFitted(scores[:400], y[:400], weights, plain, alpha, threads=threads)
    found = selections(monkeypatch, fit, scores[400:], alpha)
    tables = found[1][0]
    if alpha < 0.1 and not ties:  # gaps are longer than their marks
        assert (tables.gaps.stops - tables.gaps.starts).max() > 2 * MARKS
    sure = (scores[400:] >= tables.certain[0]).all(-1) | (scores[400:] <= tables.certain[1]).all(-1)
    assert 0.2 < sure.mean() < 1
    for _, chosen in found[1:]:
        assert_array_equal(chosen, found[0][1])


def test_labels_that_are_out_break_ties_as_all_others_do(monkeypatch) -> None:
    """Two weights may count as many labels, one more of the row's and one fewer of the others'."""
    weights = candidate_weights(GridSearch(4), 3)
    for seed in range(150):
        scores, y, _ = rows_of(seed, 46, 5, 3, ties=True)
        fit = FullFitted(scores[:30], y[:30], weights, plain, 0.2)
        found = selections(monkeypatch, fit, scores[30:], 0.2)
        assert_array_equal(found[1][1], found[2][1])


def test_nothing_is_certain_under_weights_below_zero(monkeypatch) -> None:
    scores, y, rng = rows_of(6, 130, 8, 3, ties=True)
    weights = np.unique(rng.normal(size=(40, 3)).round(1), axis=0)
    fit = FullFitted(scores[:100], y[:100], weights, plain, 0.1)
    found = selections(monkeypatch, fit, scores[100:], 0.1)
    assert np.isinf(found[0][0].certain).all()
    for _, chosen in found[1:]:
        assert_array_equal(chosen, found[0][1])


@pytest.mark.parametrize("length", [5e-324, 2e-323, 1e-300, 1e300])
def test_weights_of_any_length_select_as_without_certain_labels(length, monkeypatch) -> None:
    for seed in range(20):
        scores, y, _ = rows_of(seed, 40, 6, 2, ties=False)
        weights = length * candidate_weights(GridSearch(2), 2)
        fit = FullFitted(scores[:30], y[:30], weights, plain, 0.2)
        found = selections(monkeypatch, fit, scores[30:], 0.2)
        assert_array_equal(found[1][1], found[2][1])


def test_gaps_are_those_of_all_labels() -> None:
    scores, y, _ = rows_of(7, 300, 20, 3, ties=False)
    weights = candidate_weights(GridSearch(6), 3)
    tables = make_tables(scores, y, weights, conformal_rank(300, 0.02))
    tables.learn_gaps(np.ones(len(tables.weights), dtype=bool))
    ends, values = ragged_gaps(tables.objective, tables.weights, tables.cuts)
    assert_array_equal(tables.gaps.values, values)
    assert_array_equal(tables.gaps.starts, ends[:-1])
    (uncertain,) = tables._uncertain.size_parts
    assert np.isfinite(uncertain).all(axis=2).sum() < 0.5 * scores.shape[0] * scores.shape[1]
    for start, stop, marks in zip(ends[:-1], ends[1:], tables.gaps.marks, strict=True):
        known = marks[np.isfinite(marks)]
        assert_array_equal(known, values[start : stop : (stop - start) // MARKS + 1])
