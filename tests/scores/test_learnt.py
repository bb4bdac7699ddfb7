"""Scores that learn: what they are by hand, and the same bits however rows and labels come."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.errors import InvalidInput
from conformix.kernels import blas, patterns
from conformix.kernels.host.products import are_quick
from conformix.kernels.twins import WORTHWHILE, compile_for, loops
from conformix.scores import Column, parse_score
from conformix.scores.blend import Blend, dictionary_columns
from conformix.scores.learnt import (
    WIDTH,
    Kin,
    Likeness,
    Rarity,
    RowSums,
    SharedParts,
    parts_of,
    pattern_sum,
    total_of,
)
from conformix.scores.ranked import Ranked
from conformix.scores.upper_rows import true_label_scores

LEARNING = (Likeness(), Kin(), Rarity())
QUICK = pytest.mark.skipif(not are_quick(), reason="no quick step on this machine")


def rows(seed: int, n: int, n_classes: int, *, ties: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if ties:  # as of neighbours: shares of five, many of them zero
        votes = rng.integers(n_classes, size=(n, 5))
        return np.array([np.bincount(v, minlength=n_classes) / 5 for v in votes])
    logits = 2 * rng.normal(size=(n, n_classes))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def learnt(score: Any, probs: np.ndarray) -> Any:
    return score.learnt(score.sums(Ranked(probs)))


def plain_patterns(probs: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        values = np.maximum(np.log(probs), -12)
    values = values - values.mean(axis=1, keepdims=True)
    norms = np.sqrt((values**2).sum(axis=1, keepdims=True))
    return rounded(np.where(norms > 1e-6, values / np.maximum(norms, 1e-6), 0.0), 12)


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    return np.round(np.float64(values) * 2**bits) / 2**bits


def unit(matrix: np.ndarray) -> np.ndarray:
    norms = np.sqrt((matrix**2).sum(axis=1, keepdims=True))
    return np.where(norms > 1e-9, matrix / np.maximum(norms, 1e-9), 0.0)


def plain(score: Any, taught_by: np.ndarray, probs: np.ndarray, bits: int = 11) -> np.ndarray:
    """The formulas of the page, with NumPy's own sums and products of rounded factors."""
    f, x = plain_patterns(taught_by), plain_patterns(probs)
    n, n_classes = taught_by.shape
    if score == Rarity():
        share = (taught_by.sum(axis=0) + 3) / (n / n_classes + 3)
        return np.broadcast_to(-np.log(share), probs.shape)
    if score == Likeness():
        return 4 * x @ rounded(unit(taught_by.T @ f), bits).T
    centred = f - f.mean(axis=0)
    covariance = centred.T @ centred
    spread = np.sqrt(np.diagonal(covariance))
    varies = spread > 1e-3 * np.sqrt((f**2).sum(axis=0) + 1e-12)
    spread = np.where(varies, spread, np.inf)
    positive = np.maximum(covariance / np.outer(spread, spread), 0)
    np.fill_diagonal(positive, 1)
    return 4 * x @ rounded(unit(positive), bits).T


@pytest.mark.parametrize("score", LEARNING, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_a_score_is_its_formula(score: Any, ties: bool) -> None:
    taught_by, probs = rows(0, 40, 7, ties=ties), rows(1, 25, 7, ties=ties)
    values = learnt(score, taught_by)(Ranked(probs))
    np.testing.assert_allclose(values, plain(score, taught_by, probs), atol=2e-4)


@pytest.mark.parametrize("score", [Likeness(), Rarity()], ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_a_row_that_taught_a_score_leaves_itself_out(score: Any, ties: bool) -> None:
    probs = rows(2, 30, 6, ties=ties)
    ranked = Ranked(probs)
    values = score.left_out(ranked, score.sums(ranked), np.arange(30) % 10)
    for i in range(30):
        others = np.delete(probs, i, axis=0)
        expected = plain(score, others, probs[i : i + 1], bits=26)[0]
        np.testing.assert_allclose(values[i], expected, atol=1e-3)


def test_correlations_of_a_row_come_from_the_other_parts() -> None:
    probs, parts = rows(3, 30, 6), np.arange(30) % 10
    ranked = Ranked(probs)
    values = Kin().left_out(ranked, Kin().sums(ranked), parts)
    for part in range(10):
        expected = learnt(Kin(), probs[parts != part])(Ranked(probs[parts == part]))
        assert np.array_equal(values[parts == part], expected)


@pytest.mark.parametrize("score", LEARNING, ids=str)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    n_classes=st.integers(1, 40),
    ties=st.booleans(),
    wide=st.booleans(),
)
def test_batches_rows_and_permutations_have_the_same_bits(
    score: Any, seed: int, n: int, n_classes: int, ties: bool, wide: bool
) -> None:
    rng = np.random.default_rng(seed)
    probs = rows(seed, n, n_classes, ties=ties)
    if not wide:
        probs = probs.astype(np.float32)
    ready = learnt(score, probs)
    whole = ready(Ranked(probs))
    one_by_one = np.concatenate([ready(Ranked(probs[i : i + 1])) for i in range(n)])
    assert np.array_equal(whole, one_by_one)
    labels, order = rng.permutation(n_classes), rng.permutation(n)
    moved = probs[order][:, labels]
    assert np.array_equal(learnt(score, moved)(Ranked(moved)), whole[order][:, labels])
    cut = rng.integers(0, n + 1)
    both = [score.sums(Ranked(part)) for part in (probs[:cut], probs[cut:]) if len(part)]
    total = both[0] if len(both) == 1 else both[0].plus(both[1])
    assert np.array_equal(score.learnt(total)(Ranked(probs)), whole)


def exact(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(value)) for value in row] for row in values]


def test_sums_and_products_are_those_of_exact_arithmetic() -> None:
    probs = rows(4, 12, 9)
    f = patterns.patterns(np.log(probs))
    left, right = (exact(np.round(np.float64(part) * 2**20) / 2**20) for part in (probs, f))
    sums = patterns.summed_products(probs, f)
    for y in range(9):
        for k in range(9):
            total = sum(left[i][y] * right[i][k] for i in range(12))
            assert Fraction(int(sums[y, k]), 2**40) == total
    units, _ = patterns.unit_rows(sums.astype(float))
    rounded = np.round(units * 2**11) / 2**11
    coarse, fine = patterns.multiplier(units)(f), patterns.fine_multiplier(units)(f)
    a = exact(f)
    for products, b in ((coarse, exact(rounded)), (fine, exact(units))):
        for i in range(12):
            for y in range(9):
                assert Fraction(float(products[i, y])) == sum(
                    p * q for p, q in zip(a[i], b[y], strict=True)
                )


@pytest.mark.parametrize("n_classes", [3, 1000, 2**14])
def test_products_of_the_longest_rows_are_exact_in_float32(n_classes: int) -> None:
    """Rows that rounding makes longest, along one direction: the largest of all sums."""
    one = np.zeros(n_classes)
    one[0] = 1.0
    for row in (np.full(n_classes, n_classes**-0.5), one):
        f = np.float32(patterns.in_multiples(row, patterns.PATTERN_BITS))[None]
        factors = np.tile(patterns.in_multiples(1.01 * row, 26), (2, 1))
        found = patterns.multiplier(factors)(f)
        matrix = patterns.in_multiples(factors, patterns.MATRIX_BITS)
        units = [int(v) for v in f[0].astype(float) * 2**patterns.PATTERN_BITS]
        others = [int(v) for v in matrix[0] * 2**patterns.MATRIX_BITS]
        total = sum(a * b for a, b in zip(units, others, strict=True))
        assert total < 2**24
        assert np.array_equal(found, np.full((1, 2), total / 2**23))


@pytest.mark.parametrize("n_classes", [2, 100, 1000, 20_000])
def test_patterns_have_norm_one_and_room_for_every_sum(n_classes: int) -> None:
    log_probs = np.zeros((2, n_classes))
    log_probs[0, : n_classes // 2] = -50.0  # the largest spread that a floor of -12 leaves
    log_probs[1] = -12 * np.random.default_rng(0).random(n_classes)
    values = patterns.patterns(log_probs)
    exact = np.maximum(log_probs, -12.0)
    exact -= exact.mean(axis=1, keepdims=True)
    exact /= np.sqrt((exact**2).sum(axis=1, keepdims=True))  # of norm one, to the nearest multiple
    np.testing.assert_allclose(values, exact, rtol=0, atol=2.0**-13 + 1e-5)
    assert np.array_equal(values, rounded(values, 12))
    norms = np.sqrt((values.astype(float) ** 2).sum(axis=1))
    assert (norms <= 1 + n_classes**0.5 / 2**13).all()
    backwards = patterns.patterns(np.ascontiguousarray(log_probs[:, ::-1]))
    assert np.array_equal(values, backwards[:, ::-1])


def test_where_nothing_is_known_a_score_is_zero() -> None:
    alike = np.full((3, 4), 0.25)  # rows without a pattern
    for score in (Likeness(), Kin()):
        assert not learnt(score, alike)(Ranked(alike)).any()
    never = rows(5, 20, 4)
    never[:, 0] = 0.0
    never /= never.sum(axis=1, keepdims=True)
    values = learnt(Likeness(), never)(Ranked(never))
    assert not values[:, 0].any()
    assert values[:, 1:].all()
    once = rows(6, 20, 4)
    once[1:, 0] = 0.0
    once /= once.sum(axis=1, keepdims=True)
    ranked = Ranked(once)
    values = Likeness().left_out(ranked, Likeness().sums(ranked), np.arange(20))
    assert values[0, 0] == 0
    assert values[1:, 0].all()


def test_a_label_that_never_varies_is_kin_to_itself_alone() -> None:
    probs = rows(7, 30, 4)
    matrix = Kin().learnt(Kin().sums(Ranked(probs))).factors
    assert (np.diagonal(matrix) > 0).all()
    same = np.tile(rows(8, 1, 5), (10, 1))
    assert np.array_equal(learnt(Kin(), same).factors, np.eye(5))


def test_one_row_teaches_without_dividing_by_zero() -> None:
    probs = rows(9, 1, 5)
    ranked = Ranked(probs)
    for score in LEARNING:
        sums = score.sums(ranked)
        assert np.isfinite(score.learnt(sums)(ranked)).all()
        assert np.isfinite(score.left_out(ranked, sums, np.array([0]))).all()


def test_texts_and_comparisons_leave_out_what_was_learnt() -> None:
    for score in LEARNING:
        ready = learnt(score, rows(0, 5, 3))
        assert str(ready) == score.name
        assert ready == score
        assert parse_score(str(ready)) == score
        assert "factors" not in repr(ready)


def test_factors_cannot_be_given_in_a_text() -> None:
    with pytest.raises(InvalidInput, match="no options"):
        parse_score("kin(factors=[[1.0]])")


@pytest.mark.parametrize("score", LEARNING, ids=str)
def test_a_score_that_has_not_learnt_says_where_it_does(score: Any) -> None:
    with pytest.raises(InvalidInput, match=f'score "{score}" learns from rows before it scores'):
        cx.score_tensor(rows(0, 3, 3), (score,))


def test_a_blend_multiplies_once_and_adds_up_to_the_same() -> None:
    probs = rows(10, 30, 8)
    kin, like, rare = (learnt(score, probs) for score in (Kin(), Likeness(), Rarity()))
    coefficients = np.array([0.3, 0.7, 0.2])
    columns = (Column("", kin), Column("", like), Column("", rare))
    ranked = Ranked(probs)
    z = Blend(columns, coefficients).added_up({"": ranked})
    apart = sum(c * column.score(ranked) for c, column in zip(coefficients, columns, strict=True))
    np.testing.assert_allclose(z, apart, atol=WIDTH * 8**0.5 / 2**11)  # each is rounded by itself
    both = pattern_sum([kin, like], [0.3, 0.7])
    whole = WIDTH * (0.3 * kin.factors + 0.7 * like.factors)
    assert (np.abs(both.matrix - whole) <= WIDTH * 2.0**-12).all()  # rounded once
    once = ranked.patterns.astype(float) @ both.matrix.astype(float).T + 0.2 * rare(ranked)
    np.testing.assert_allclose(z, once, rtol=0, atol=1e-12)
    patterns.check_factors(both.matrix.astype(float) / WIDTH, 8)  # its products are exact
    assert np.array_equal(both.matrix, np.round(both.matrix * 2**9) / 2**9)


def test_a_matrix_of_too_many_classes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformix.scores.learnt.MOST_CLASSES", 4)
    with pytest.raises(InvalidInput, match="matrix of all pairs of classes, for at most 4"):
        learnt(Kin(), rows(0, 5, 5))
    learnt(Rarity(), rows(0, 5, 5))


@pytest.mark.parametrize(("n_classes", "learns"), [(2, False), (3, True), (6, True), (7, False)])
def test_auto_learns_a_matrix_where_it_is_worth_one(
    n_classes: int, learns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.scores.blend.MOST_RELATED", 6)
    outputs = check_outputs(rows(0, 5, n_classes))
    columns = dictionary_columns(outputs)
    assert any(column.score.learns for column in columns) == learns


def test_auto_gives_models_with_zeros_one_more_floor() -> None:
    outputs = check_outputs({"net": rows(0, 5, 4), "knn": rows(0, 5, 4, ties=True)})
    floors = [c.model for c in dictionary_columns(outputs) if str(c.score) == "logp(floor=0.1)"]
    assert floors == ["knn"]
    logits = check_outputs(np.zeros((5, 4)), "logits")
    assert all(str(c.score) != "logp(floor=0.1)" for c in dictionary_columns(logits))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_classes", [32, 45, 131])
def test_the_compiled_correlations_have_the_bits_of_numpy(
    n_classes: int, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    probs = rows(11, 50, n_classes, ties=ties)
    sums = Kin().sums(Ranked(probs))
    compile_for(WORTHWHILE)
    compiled = Kin().matrix(sums)
    monkeypatch.setattr("conformix.scores.learnt.loops", lambda name, numbers: None)
    assert np.array_equal(compiled, Kin().matrix(sums))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_classes", [32, 45, 131])
def test_compiled_prototypes_and_rows_left_out_of_them_have_the_bits_of_numpy(
    n_classes: int, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    probs = rows(11, 300, n_classes, ties=ties)
    probs[:, 0] = 0.0  # a label without mass, and some that a single row has
    probs[:, 1:21] *= np.arange(300)[:, None] == np.arange(20)
    probs[:, -1] += 0.2  # no row is left without any
    probs /= probs.sum(axis=1, keepdims=True)
    ranked = Ranked(probs)
    sums = Likeness().sums(ranked)
    compile_for(WORTHWHILE)
    compiled = Likeness().matrix(sums), Likeness().left_out(ranked, sums, np.arange(300) % 10)
    for module in ("conformix.scores.learnt", "conformix.kernels.patterns"):
        monkeypatch.setattr(f"{module}.loops", lambda name, numbers: None)
    assert np.array_equal(compiled[0], Likeness().matrix(sums))
    assert np.array_equal(compiled[1], Likeness().left_out(ranked, sums, np.arange(300) % 10))


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("threads", [1, 3])
def test_probabilities_and_patterns_computed_beforehand_are_the_same(
    kind: Any, threads: int
) -> None:
    values = rows(12, 1000, 300)  # so many that threads share them
    values = np.log(values) if kind == "logits" else values
    late, early = Ranked(values, kind), Ranked(values, kind)
    early.compute(threads)
    assert {"probs", "patterns"} <= set(vars(early))
    assert "log_probs" not in vars(early)
    assert np.array_equal(late.probs, early.probs)
    assert np.array_equal(late.patterns, early.patterns)


@pytest.mark.parametrize("score", LEARNING, ids=str)
def test_scores_of_rows_left_out_are_written_where_there_is_room(score: Any) -> None:
    ranked = Ranked(rows(13, 40, 6))
    sums, parts, room = score.sums(ranked), np.arange(40) % 10, np.full((40, 6), np.nan)
    written = score.left_out(ranked, sums, parts, out=room)
    assert written is room
    assert np.array_equal(room, score.left_out(ranked, sums, parts))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("score", LEARNING, ids=str)
def test_threads_that_share_rows_leave_out_what_one_would(
    score: Any, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled:
        compile_for(WORTHWHILE)
        monkeypatch.setattr("conformix.scores.learnt.loops", lambda name, n: loops(name, 2**20))
    else:
        monkeypatch.setattr("conformix.scores.learnt.loops", lambda *_: None)
    ranked, parts = Ranked(rows(13, 40, 20)), np.arange(40) % 10
    alone = score.left_out(ranked, score.sums(ranked), parts, 1)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    for threads in (2, 3, 25, 60):  # parts of the rows, then blocks of labels as well
        own = score.sums_of_parts(ranked, parts, threads)
        sums = reduce(RowSums.plus, own)
        assert np.array_equal(score.left_out(ranked, sums, parts, threads, own), alone)
        assert np.array_equal(score.left_out(ranked, sums, parts, threads), alone)
        assert np.array_equal(
            score.learnt(sums, threads).factors, score.learnt(score.sums(ranked)).factors
        )


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_matrices_by_threads_are_those_of_one(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_for(WORTHWHILE)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    ranked, parts = Ranked(rows(15, 60, 40)), np.arange(60) % 4
    own = Kin().sums_of_parts(ranked, parts)
    total, expected = total_of(own, threads), reduce(RowSums.plus, own)
    assert total.n == expected.n == 60
    assert np.array_equal(total.products, expected.products)
    assert np.array_equal(total.totals, expected.totals)
    assert np.array_equal(Kin().matrix(total, threads), Kin().matrix(expected))
    prototypes = Likeness().sums(ranked).products
    alone = patterns.unit_rows(prototypes)
    for one, other in zip(patterns.unit_rows(prototypes, threads), alone, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("threads", "most", "n_tasks", "together"), [
    (1, 2**27, 4, 1), (4, 2**27, 4, 4), (8, 2**27, 8, 8), (12, 2**27, 12, 12), (16, 2**27, 16, 16),
    (16, 6 * 2 * 8 * 3, 16, 3), (16, 1, 16, 1),
])  # fmt: skip
def test_threads_without_a_part_take_blocks_of_labels_as_far_as_there_is_memory(
    threads: int, most: int, n_tasks: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six blocks of a matrix a thread: of eight labels in four blocks, two rows of eight each."""
    asked: list[tuple[int, int]] = []

    def spied(work: Any, tasks: Any, several: int) -> list[Any]:
        asked.append((len(tasks), several))
        return [work(task) for task in tasks]

    monkeypatch.setattr("conformix.scores.learnt.run_products", spied)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)  # as if labels were many
    ranked, parts = Ranked(rows(12, 40, 8)), np.arange(40) % 4
    own = Kin().sums_of_parts(ranked, parts, threads)
    monkeypatch.setattr("conformix.scores.learnt.MOST_ENTRIES", most)
    Kin().left_out(ranked, reduce(RowSums.plus, own), parts, threads, own)
    of_sums = n_tasks if threads >= 12 else 4  # a whole is mirrored: two blocks take as long
    assert asked == [(of_sums, threads), (n_tasks, together)]


@QUICK
@pytest.mark.parametrize("threads", [1, 3, 40])
@pytest.mark.parametrize(("n", "n_classes"), [(3, 2), (41, 3), (400, 37), (1500, 130)])
def test_parts_that_loops_share_are_those_of_numpy(
    n: int, n_classes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of parts of one row and of many, labels that fill no vector, and blocks of them."""
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    compile_for(WORTHWHILE)
    ranked, units = Ranked(rows(3, n, n_classes)), np.random.default_rng(0).integers(n, size=n)
    parts, others = (
        parts_of(len(units), units, n_classes),
        Kin().sums(Ranked(rows(4, 50, n_classes))),
    )
    assert SharedParts.of(Ranked(rows(3, 1500, 130)), np.arange(1500) % 10, threads, 2) is not None
    found = {}
    for name, quick in (("loops", True), ("NumPy", False)):
        monkeypatch.setattr("conformix.kernels.host.products.are_quick", lambda quick=quick: quick)
        own = Kin().sums_of_parts(ranked, parts, threads)
        everything = reduce(RowSums.plus, own).plus(others)
        scores = Kin().left_out(ranked, everything, parts, threads, own)
        reversed_sums = [own[0], *own[:0:-1]]  # views of one array in another order
        again = Kin().left_out(ranked, everything, parts, threads, reversed_sums)
        found[name] = [*(one.products for one in own), *(one.totals for one in own), scores, again]
        assert [one.n for one in own] == np.unique(parts, return_counts=True)[1].tolist()
    for one, other in zip(*found.values(), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n_classes", [3, 300])
def test_sums_over_many_rows_are_exact(
    n_classes: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    largest = 2**20 - 1  # of 2^-20: odd, and its square has 40 bits
    values = np.full((10_001, n_classes), largest * 2.0**-20)
    for other in (values, values.copy()):  # a half that is mirrored, and a whole
        assert (patterns.summed_products(values, other, threads) == 10_001 * largest**2).all()


@pytest.mark.parametrize(("n_classes", "n_parts"), [(3, 10), (512, 10), (513, 4)])
def test_rows_are_cut_into_ten_parts_and_into_four_of_many_classes(
    n_classes: int, n_parts: int
) -> None:
    parts = parts_of(100, None, n_classes)
    assert sorted(set(parts.tolist())) == list(range(n_parts))
    assert np.bincount(parts).min() == 100 // n_parts


def test_no_more_threads_are_used_than_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def spied(work: Any, blocks: Any, threads: int) -> list[Any]:
        asked.append(threads)
        return [work(block) for block in blocks]

    monkeypatch.setattr("conformix.scores.learnt.run_products", spied)
    for n_classes in (57, 58, 300):  # of ten matrices of a few thousand numbers two are worth it
        ranked = Ranked(rows(12, 30, n_classes))
        for threads in (1, 3):
            Kin().left_out(ranked, Kin().sums(ranked), np.arange(30) % 10, threads)
    assert asked == [1, 1, 1, 2, 1, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_is_forked_while_a_thread_multiplies_does_not_wait_for_it() -> None:
    with blas._ALONE, blas._LIMIT:
        child = os.fork()
        if child == 0:
            signal.alarm(5)  # ends a child that waits
            patterns.multiplier(np.eye(2))(np.eye(2, dtype=np.float32))
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def threads_of_blas() -> int:
    return max((library.num_threads for library in blas._libraries()), default=1)


@pytest.fixture
def blas_of_two_threads() -> Iterator[None]:
    """Where the tests run with one thread of BLAS, a limit of one would change nothing."""
    with threadpool_limits(limits=2, user_api="blas"):
        assert threads_of_blas() == 2
        yield


@pytest.mark.usefixtures("blas_of_two_threads")
def test_blas_has_one_thread_while_threads_of_rows_multiply_and_its_own_again_after() -> None:
    before, seen = threads_of_blas(), []
    meeting = threading.Barrier(2, timeout=10)

    def multiply(_: int) -> None:
        with blas.multiplying(2**40):
            meeting.wait()  # both are in: neither waits for the other
            seen.append(threads_of_blas())
            meeting.wait()

    blas.run_products(multiply, range(2), threads=2)
    assert seen == [1, 1]
    assert blas.run_products(lambda _: threads_of_blas(), range(1), threads=1) == [1]
    assert threads_of_blas() == before
    with blas.multiplying(2**40):  # nobody beside it
        assert threads_of_blas() == before
    with blas.multiplying(2**10):
        assert threads_of_blas() == 1
    assert threads_of_blas() == before


@pytest.mark.usefixtures("blas_of_two_threads")
def test_two_fits_at_once_leave_blas_as_it_was() -> None:
    before, meeting = threads_of_blas(), threading.Barrier(2, timeout=10)

    def fit() -> None:
        blas.run_products(lambda _: meeting.wait(), range(1), threads=2)

    first, second = (threading.Thread(target=fit) for _ in range(2))
    first.start()
    second.start()
    first.join()
    second.join()
    assert threads_of_blas() == before
    assert not blas._LIMIT.locked()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_classes", [4, 45, 131])
def test_the_compiled_patterns_have_the_bits_of_numpy(
    n_classes: int, ties: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    probs = rows(13, 400, n_classes, ties=ties)
    probs[7] = 1 / n_classes  # no pattern
    log_probs = Ranked(probs).log_probs
    compile_for(WORTHWHILE)
    compiled = patterns.patterns(log_probs)
    monkeypatch.setattr("conformix.kernels.patterns.loops", lambda name, numbers: None)
    assert np.array_equal(compiled, patterns.patterns(log_probs))
    assert not compiled[7].any()


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("threads", [1, 3, 5])
def test_a_blend_is_that_of_its_rows_whatever_is_multiplied_at_once(
    kind: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, values = ("a", "b", "c"), [rows(seed, 23, 6) for seed in range(3)]
    if kind == "logits":
        values = [np.log(some) for some in values]
    outputs = check_outputs(dict(zip(names, values, strict=True)), kind)
    columns, coefficients = [], []
    for name in names[:2]:  # the third has no products
        taught = [learnt(score, Ranked(outputs.models[name], kind).probs) for score in LEARNING]
        columns += [Column(name, score) for score in (*taught, parse_score("logp"))]
        coefficients += [0.2, 0.3, 0.1, 0.6]
    columns.append(Column("c", parse_score("rank")))
    blend = Blend(tuple(columns), np.array([*coefficients, 0.4]))
    one_by_one = np.concatenate([blend.over(outputs).models["blend"][i : i + 1] for i in range(23)])
    monkeypatch.setattr("conformix.kernels.blocks.LONG_ENTRIES", 5 * 6)
    monkeypatch.setattr("conformix.scores.blending.PIECE_ENTRIES", 2 * 6)
    together = blend.computed(outputs, threads).models["blend"]
    assert isinstance(together, np.ndarray)
    assert np.array_equal(together, one_by_one)


@pytest.mark.parametrize("small", [0, 2**27])
def test_products_by_one_thread_and_by_several_have_the_same_bits(
    small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    probs = rows(14, 40, 9)
    f = patterns.patterns(np.log(probs))
    units, _ = patterns.unit_rows(patterns.summed_products(probs, f).astype(float))
    monkeypatch.setattr(blas, "SMALL", small)
    monkeypatch.setattr("conformix.kernels.blocks.OUTPUTS_PER_WAIT", 1)
    whole = f.astype(float) @ (np.round(units * 2**11) / 2**11).T
    room = np.ones(whole.shape)
    assert np.array_equal(patterns.multiplier(units)(f), whole)
    patterns.multiplier(units, 4.0).add(f, room)
    assert np.array_equal(room, 1.0 + 4.0 * whole)
    assert np.array_equal(patterns.fine_multiplier(units)(f), f.astype(float) @ units.T)
    small = [np.round(np.float64(values) * 2**20) / 2**20 for values in (probs, f)]
    for left, right, same in ((probs, f, small), (f, f, [small[1], small[1]])):
        expected = same[0].T @ same[1] * 2.0**40
        for threads in (1, 2, 3, 20):
            monkeypatch.setattr(patterns, "FEWEST_ROWS", 1 if threads == 2 else 2**8)
            monkeypatch.setattr(patterns, "ROWS_AT_ONCE", 16 if threads > 1 else 2**12)
            monkeypatch.setattr(patterns, "SUMMED_ENTRIES", 7 * left.shape[1])
            assert np.array_equal(patterns.summed_products(left, right, threads), expected)


def test_pages_of_a_mapped_file_are_given_back_while_its_rows_are_blended(tmp_path) -> None:
    probs, y = rows(16, 40, 6), np.zeros(40, dtype=int)
    np.save(tmp_path / "rows.npy", probs)
    mapped = check_outputs(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    blend = Blend((Column("", learnt(Kin(), probs)),), np.ones(1))  # has an order of its own
    with mock.patch("conformix.data.outputs.release_pages") as released:
        blend.computed(mapped)
        assert released.call_count == 1
        true_label_scores(blend.over(mapped), y, [Column("blend", parse_score("thr"))])
        assert released.call_count == 2
    assert all(call.args[0] is mapped.models[""] for call in released.call_args_list)
