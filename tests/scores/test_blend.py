"""The blend: its likelihood against definitions, and how many rows it may learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp

from conformix.data.outputs import check_outputs
from conformix.kernels import twins
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import Column, likelihood, parse_score, score_columns
from conformix.scores.blend import Blend, KnownRows, dictionary_columns, plan_rows, ridge_of
from conformix.scores.learnt import Rarity
from conformix.scores.likelihood import Likelihood, bounded_step, most_likely
from conformix.scores.terms import terms_of

RNG = np.random.default_rng(0)
SCORES, Y = RNG.normal(size=(30, 4, 3)), RNG.integers(4, size=30)
PRIOR, RIDGE = np.array([0.5, 0.0, 0.25]), 0.7


def value(c: np.ndarray) -> float:
    """Return minus the penalised log-likelihood, row by row."""
    z = SCORES @ c
    rows = sum(logsumexp(z[i]) - z[i, Y[i]] for i in range(len(Y)))
    return rows + RIDGE * sum((c - PRIOR) ** 2)


def slopes(function, c: np.ndarray) -> np.ndarray:
    steps = 1e-5 * np.eye(len(c))
    return np.array([(function(c + step) - function(c - step)) / 2e-5 for step in steps])


def in_a_loop(monkeypatch) -> None:
    """Have likelihoods of a few scores computed by the compiled loop, as those of many are."""
    compile_for(WORTHWHILE)
    monkeypatch.setattr(likelihood, "COMPILED_NUMBERS", 0)
    monkeypatch.setattr(likelihood, "loops", lambda name, _: twins.loops(name, WORTHWHILE))


def test_the_likelihood_its_slope_and_its_curvature_are_those_of_the_definition() -> None:
    problem = Likelihood(SCORES, Y, PRIOR, RIDGE)
    c = np.array([0.3, 1.2, 0.1])
    found, gradient, curvature = problem(c)
    assert_allclose(found, value(c), rtol=1e-12)
    assert_allclose(gradient, slopes(value, c), rtol=1e-6)
    assert_allclose(curvature, slopes(lambda at: problem(at)[1], c), rtol=1e-6)


def test_a_ridge_may_tie_coefficients_to_each_other() -> None:
    ridge = np.array([[0.9, 0.0, -0.4], [0.0, 0.3, 0.1], [-0.4, 0.1, 0.5]])
    problem, c = Likelihood(SCORES, Y, PRIOR, ridge), np.array([0.3, 1.2, 0.1])

    def tied(c: np.ndarray) -> float:
        away = c - PRIOR
        return value(c) - RIDGE * sum(away**2) + away @ ridge @ away

    found, gradient, curvature = problem(c)
    assert_allclose(found, tied(c), rtol=1e-12)
    assert_allclose(gradient, slopes(tied, c), rtol=1e-6)
    assert_allclose(curvature, slopes(lambda at: problem(at)[1], c), rtol=1e-6)
    some = problem.of_every(3)
    assert_allclose(some.ridge, ridge / 3, rtol=1e-12)


def test_coefficients_pay_for_leaving_the_prior_and_more_for_leaving_each_other() -> None:
    """Half of m times the distance from the prior, five times that from the mean over models."""
    columns = score_columns(("a", "b", "c"), ("logp", "rank"))
    away = np.random.default_rng(0).normal(size=len(columns))
    by_score = {
        name: [d for d, column in zip(away, columns, strict=True) if str(column.score) == name]
        for name in ("logp", "rank")
    }
    expected = 3 / 2 * sum(away**2)
    expected += 5 * 3 / 2 * sum(((np.array(d) - np.mean(d)) ** 2).sum() for d in by_score.values())
    assert_allclose(away @ ridge_of(columns) @ away, expected, rtol=1e-12)
    assert_allclose(ridge_of(score_columns(("a",), ("logp", "rank"))), np.eye(2) / 2)
    assert_allclose(ridge_of(columns, together=0.0), 3 / 2 * np.eye(6))


def test_blocks_and_threads_do_not_change_a_likelihood(monkeypatch) -> None:
    c = np.array([0.3, 1.2, 0.1])
    whole = Likelihood(SCORES, Y, PRIOR, RIDGE, threads=1)(c)
    monkeypatch.setattr("conformix.scores.likelihood.LIKELIHOOD_ENTRIES", SCORES[:3].size)
    parts = [Likelihood(SCORES, Y, PRIOR, RIDGE, threads=threads)(c) for threads in (1, 3)]
    for one, two, all_at_once in zip(*parts, whole, strict=True):
        np.testing.assert_array_equal(one, two)
        assert_allclose(one, all_at_once, rtol=1e-12)


@pytest.mark.parametrize("loop", [False, True])
def test_the_likelihood_of_every_third_row_is_that_of_these_rows(loop: bool, monkeypatch) -> None:
    if loop:
        in_a_loop(monkeypatch)
    c, planes = np.array([0.3, 0.0, 0.1]), np.moveaxis(SCORES, -1, 0).copy()
    some = np.moveaxis(planes[:, ::3].copy(), 0, -1)
    alone = Likelihood(some, Y[::3], PRIOR, RIDGE / 3)
    monkeypatch.setattr("conformix.scores.likelihood.LIKELIHOOD_ENTRIES", SCORES[:4].size)
    problem = Likelihood(np.moveaxis(planes, 0, -1), Y, PRIOR, RIDGE)
    assert (problem._loop is not None) == loop
    for found, expected in zip(problem.of_every(3)(c), alone(c), strict=True):
        assert_allclose(found, expected, rtol=1e-11)
    assert problem.of_every(3).n == 10
    columns = np.array([0, 2])
    some, every = problem(c, columns), problem(c)
    assert_allclose(some[0], every[0], rtol=1e-11)
    assert_allclose(some[1], every[1], rtol=1e-11)
    block = np.ix_(columns, columns)
    assert_allclose(some[2][block], every[2][block], rtol=1e-11)


def test_steps_that_begin_with_some_rows_end_where_all_would(monkeypatch) -> None:
    rng = np.random.default_rng(1)
    scores, y = rng.normal(size=(700, 5, 6)), rng.integers(5, size=700)
    scores[np.arange(700), y, :3] += [0.5, 1.0, 0.3]
    prior = np.array([1.0, 0, 0, 0, 0, 0])
    begun = most_likely(scores, y, prior, 0.5)
    monkeypatch.setattr("conformix.scores.likelihood.FIRST_ROWS", 700)
    assert np.array_equal(begun, most_likely(scores, y, prior, 0.5))
    assert (begun == 0).any()


@pytest.mark.parametrize("loop", [False, True])
def test_coefficients_are_found_to_a_hundredth_of_the_last_digit(loop: bool, monkeypatch) -> None:
    """From second derivatives of some rows, by some that serve for two steps."""
    if loop:
        in_a_loop(monkeypatch)
    served = [coefficients_are_found(loop, seed, monkeypatch) for seed in range(6)]
    assert sum(served) >= 3


def coefficients_are_found(loop: bool, seed: int, monkeypatch) -> bool:
    """Check those of some rows; return whether second derivatives served for the last two steps."""
    rng = np.random.default_rng(seed)
    planes, y = rng.normal(size=(6, 700, 5)), rng.integers(5, size=700)
    planes[:3, np.arange(700), y] += 2 * rng.random((3, 1))
    problem = Likelihood(np.moveaxis(planes, 0, -1), y, np.eye(6)[0], 0.5)
    assert problem.by_columns == loop
    asked = []
    call = Likelihood.__call__

    def spied(self: Likelihood, c: np.ndarray, columns: Any = None):
        if self.n == len(y):
            asked.append(columns)
        return call(self, c, columns)

    with monkeypatch.context() as patched:
        patched.setattr(Likelihood, "__call__", spied)
        found = likelihood._minimum(problem)
    assert len(asked[0]) == 0  # the slope alone
    assert 1 <= sum(len(columns) > 0 for columns in asked) <= 4
    assert (found[:3] > 0).all()
    assert distance_left(problem, found, call) < 0.001 * 10.0**-likelihood.DIGITS
    return len(asked[-1]) == 0


def distance_left(problem: Likelihood, c: np.ndarray, call: Any = Likelihood.__call__) -> float:
    """Return how far a Newton step from c leads; coefficients at zero must be held there."""
    _, gradient, curvature = call(problem, c)
    free = c > 0
    assert (gradient[~free] > 0).all()
    return float(np.abs(np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])).max())


def test_second_derivatives_that_change_quickly_serve_once() -> None:
    """Of logits that are far apart a short step leaves more than a digit may bear."""
    worst = 0.0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z = 20 * rng.normal(size=(300, 5))
        y = (0.7 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
        noisy = z[..., None] + 3 * rng.normal(size=(300, 5, 3))
        problem = Likelihood(noisy, y, np.array([1.0, 0.0, 0.0]), 0.5)
        worst = max(worst, distance_left(problem, likelihood._minimum(problem)))
    assert worst < 0.001 * 10.0**-likelihood.DIGITS


def test_a_score_that_helps_only_beside_another_is_taken_in_by_its_own_curvature(
    monkeypatch,
) -> None:
    """Its second derivatives are not known while its coefficient is held at zero."""
    in_a_loop(monkeypatch)
    rng = np.random.default_rng(0)
    noise, y = 2 * rng.normal(size=(400, 5)), rng.integers(5, size=400)
    planes = np.stack([2 * np.eye(5)[y] + noise, 0.1 * np.eye(5)[(y + 1) % 5] - noise])
    problem = Likelihood(np.moveaxis(planes, 0, -1), y, np.zeros(2), 0.5)
    assert problem(np.zeros(2))[1][1] > 0  # alone it harms
    call, asked = Likelihood.__call__, []

    def spied(self: Likelihood, c: np.ndarray, columns: Any = None):
        asked.append(c)
        return call(self, c, columns)

    monkeypatch.setattr(Likelihood, "__call__", spied)
    assert (likelihood._minimum(problem) > 0.5).all()
    assert len(asked) < 14


def test_blocks_of_a_likelihood_are_alike_and_hold_no_more_scores_than_a_cache(monkeypatch) -> None:
    monkeypatch.setattr("conformix.scores.likelihood.LIKELIHOOD_ENTRIES", SCORES[:7].size)
    of_block, blocks = Likelihood._of_block, []

    def spied(problem: Likelihood, rows: slice, *others: Any):
        blocks.append((rows.start, rows.stop))
        return of_block(problem, rows, *others)

    monkeypatch.setattr(Likelihood, "_of_block", spied)
    Likelihood(SCORES, Y, PRIOR, RIDGE, threads=1)(PRIOR)
    assert blocks == [(0, 6), (6, 12), (12, 18), (18, 24), (24, 30)]


def test_the_coefficients_are_the_most_likely_ones_that_are_not_negative() -> None:
    best = minimize(value, PRIOR, bounds=[(0, None)] * 3, tol=1e-12)
    assert_allclose(most_likely(SCORES, Y, PRIOR, RIDGE), best.x, atol=2e-5)


@pytest.mark.parametrize("n", [12, 24])
def test_steps_that_go_too_far_are_halved(n: int) -> None:
    """From a score that is sure of wrong labels a whole step overshoots, or is the last."""
    y, rows = np.arange(n) % 3, np.arange(n)
    sure = 10.0 * np.eye(3)[np.where(rows < n // 3, y, (y + 1) % 3)]
    unsure = np.random.default_rng(0).normal(size=(n, 3)) + np.eye(3)[y]
    scores, prior = np.stack([sure, unsure], axis=-1), np.array([1.0, 0.0])

    def value_there(c: np.ndarray) -> float:
        z = scores @ c
        return float((logsumexp(z, axis=1) - z[rows, y]).sum() + 0.001 * ((c - prior) ** 2).sum())

    best = minimize(value_there, [0.0, 1.0], bounds=[(0, None)] * 2, tol=1e-12)
    assert_allclose(most_likely(scores, y, prior, 0.001), best.x, atol=2e-5)


def test_a_step_stays_among_coefficients_that_are_not_negative_and_none_is_better() -> None:
    curvature, c = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([0.2, 0.1])
    for gradient in ([1.0, -1.0], [-1.0, 2.0], [3.0, 3.0], [-0.1, -0.2]):
        step = bounded_step(np.array(gradient), curvature, c)
        best = minimize(
            lambda d, g: g @ d + d @ curvature @ d / 2, np.zeros(2), args=(np.array(gradient),),
            bounds=[(-c[0], None), (-c[1], None)], tol=1e-14,
        )  # fmt: skip
        assert_allclose(step, best.x, atol=1e-5)


@pytest.mark.parametrize(("n_classes", "affordable"), [(10**5, 33), (10**9, 1), (10, 4000)])
def test_no_more_rows_are_learnt_from_than_memory_and_a_likelihood_ask_for(
    n_classes: int, affordable: int
) -> None:
    """2**24 numbers are held at once, of 5 scores of all labels of a row; 4,000 rows are enough."""
    aside = plan_rows(10**6, 0.1, 5, n_classes)
    assert affordable <= aside < affordable + 10  # the others waste no part of alpha
    assert (10**6 - aside + 1) % 10 == 0


@pytest.mark.parametrize("n_scores", [1, 5, 15])
def test_a_third_of_the_rows_whatever_the_number_of_scores(n_scores: int) -> None:
    """Of 200: 67; then as many more as make (rows + 1) alpha whole: 130."""
    assert plan_rows(200, 0.1, n_scores, 10) == 71
    assert plan_rows(200, 0.5, n_scores, 10) == 67  # 134 * .5 is whole


def test_columns_that_are_dropped_have_no_part_in_a_blend() -> None:
    rows = np.full((2, 3), 1 / 3)
    columns = dictionary_columns(check_outputs({"one": rows, "two": rows}))
    coefficients = np.arange(1.0, len(columns) + 1)
    kept = Blend(columns, coefficients).without([columns[0], columns[3]])
    assert kept.coefficients.tolist() == [0, 2, 3, 0, *coefficients[4:]]
    assert kept.columns == columns


def test_a_blend_of_outputs_has_the_shape_and_the_type_of_an_array_of_doubles() -> None:
    outputs = check_outputs({"one": np.full((5, 3), 1 / 3)}, "probs")
    columns = score_columns(("one",), ("logp", "rank"))
    over = Blend(columns, np.ones(len(columns))).over(outputs)
    (blended,) = over.models.values()
    assert (blended.ndim, blended.shape, len(blended)) == (2, (5, 3), 5)
    assert blended.dtype == blended[0:2].dtype == np.float64
    assert blended[0:2].shape == (2, 3)


@pytest.mark.parametrize("shape", [(2, 400, 3), (5, 60, 17), (1, 90, 12)])
def test_the_compiled_likelihood_is_that_of_numpy(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    planes = rng.normal(size=shape)
    planes[0, 0] = 800.0  # a row that is all alike, and one far from it
    planes[0, 1, 0] = -800.0
    y = rng.integers(shape[2], size=shape[1])
    c = rng.random(shape[0])
    c[1:2] = 0.0
    compile_for(WORTHWHILE)
    found = []
    for least in (10**9, 0):
        monkeypatch.setattr("conformix.scores.likelihood.COMPILED_NUMBERS", least)
        monkeypatch.setattr("conformix.scores.likelihood.LIKELIHOOD_ENTRIES", planes[:, :7].size)
        problem = Likelihood(np.moveaxis(planes, 0, -1), y, np.zeros(shape[0]), 0.5, threads=2)
        assert (problem._loop is None) == bool(least)
        found.append(problem(c))
    for plain, compiled in zip(*found, strict=True):
        assert_allclose(compiled, plain, rtol=1e-11, atol=1e-9)


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("n_classes", [2, 7, 150])
def test_terms_add_up_to_the_bits_of_the_scores_one_by_one(
    n_classes: int, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    values = rng.dirichlet(np.ones(n_classes), (2, 2000 // n_classes))
    values[0, ::3] = np.eye(n_classes)[rng.integers(n_classes, size=len(values[0, ::3]))]  # ties
    if kind == "logits":
        values = np.log(values + 1e-3)
    values.flags.writeable = False
    outputs = check_outputs({"a": values[0], "b": values[1]}, kind)
    rare = Rarity(factors=rng.normal(size=n_classes))
    names = ("logp(floor=0.01)", "logp", "logrank", "rank", "thr")
    own = [[Column(m, s) for s in (*map(parse_score, names), rare)] for m in ("a", "b")]
    last = Column("a", parse_score("logp(floor=0.1)"))  # once more of the first model
    columns = (*own[0], *own[1], last)
    blend = Blend(columns, rng.random(len(columns)))
    compile_for(WORTHWHILE)
    assert terms_of(blend.plain, n_classes, values[0].size) is not None
    together = blend.computed(outputs, 1).models["blend"]
    monkeypatch.setattr("conformix.scores.blending.terms_of", lambda *_: None)
    assert np.array_equal(together, blend.computed(outputs, 1).models["blend"])


@pytest.mark.parametrize("planes", [3, 4, 5, 9])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_are_known_are_put_among_those_that_are_computed(
    planes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever room there is: what is known may lie at its end, and is read to the last row."""
    monkeypatch.setattr("conformix.kernels.blocks.FOR_TWO", 1)
    monkeypatch.setattr("conformix.scores.blending.PIECE_ENTRIES", 4 * 8)
    rng = np.random.default_rng(planes)
    outputs = check_outputs(rng.dirichlet(np.ones(8), size=40))
    blend = Blend((Column("", parse_score("logp")), Column("", parse_score("rank"))), np.ones(2))
    rows = np.sort(rng.permutation(40)[:10])
    room = rng.random((planes, 10, 8))
    known = room[-1].copy()
    found = blend.computed(outputs, threads, room, KnownRows(rows, room[-1])).models["blend"]
    expected = blend.computed(outputs, 1).models["blend"]
    expected[rows] = known
    assert np.array_equal(found, expected)
    assert np.shares_memory(found, room) == (planes >= 5)


@pytest.mark.parametrize("name", ["thr(temperature=2.0)", "rank(tie_break='prob')", "aps"])
def test_scores_that_are_no_terms_are_added_up_one_by_one(name: str) -> None:
    compile_for(WORTHWHILE)
    columns = (Column("", parse_score("thr")), Column("", parse_score(name)))
    scores = [(column, 1.0) for column in columns]
    assert terms_of(scores, 50, 5000) is None
    assert terms_of(scores[:1], 50, 5000) is not None
