"""Rows of one model through all of a blend in one loop: the bits of passes over blocks of rows."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conformix.data.outputs import Outputs, check_outputs
from conformix.errors import InvalidInput
from conformix.kernels.host.products import are_quick
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import blending as room_of_blends
from conformix.scores.blend import Blend
from conformix.scores.blending import PIECE_ENTRIES, SMALL_PIECE, Blending
from conformix.scores.evidence import Evidence
from conformix.scores.learnt import Kin, Likeness, Rarity
from conformix.scores.names import Column, parse_score
from conformix.scores.ranked import Ranked
from conformix.scores.tensor import fill_planes
from conformix.scores.terms import fill_terms

NAMES = ("logp(floor=0.01)", "logp", "logrank", "rank", "thr", "logp(floor=0.1)")
EVIDENCE = Evidence(0.4, -0.2, -1.0, 1.5)


# Where a machine has no quick step, blends with products are not computed by the loop.
MULTIPLIES = are_quick()
QUICK = pytest.mark.skipif(not MULTIPLIES, reason="no quick step on this machine")


def rows_of(n: int, n_classes: int, kind: str, seed: int = 0) -> np.ndarray:
    """Return outputs with ties, zeros, rows that are all alike, and numbers next to each other."""
    rng = np.random.default_rng(seed)
    values = rng.dirichlet(np.full(n_classes, 0.3), n)
    values[::5] = np.eye(n_classes)[rng.integers(n_classes, size=len(values[::5]))]
    values[1::7] = 1 / n_classes
    values[2::7] = (
        np.round(values[2::7], 2) + (1 - np.round(values[2::7], 2).sum(1))[:, None] / n_classes
    )
    if n_classes > 3:
        values[3::11] = crowded(n_classes, len(values[3::11]), rng)
    values = np.abs(values)
    values /= values.sum(axis=1, keepdims=True)
    if kind == "probs":
        return values
    logits = np.log(values + 1e-12) + rng.normal(size=(n, 1))
    logits[4::9] *= 60.0  # powers that underflow, and tie where these do not
    return logits


def crowded(n_classes: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows with one number far below others that differ in their last bits alone."""
    near = (np.float64(1 / n_classes).view(np.int64) + rng.permuted(
        np.tile(np.arange(n_classes), (n, 1)), axis=1)).view(np.float64)  # fmt: skip
    near[:, 0] = 1e-300
    return near


def blend_of(
    n_classes: int, with_products: bool, evidence: Evidence | None, seed: int = 1
) -> Blend:
    rng = np.random.default_rng(seed)
    learnt: list[Any] = [Rarity(factors=rng.normal(size=n_classes))]
    if with_products:
        teachers = Ranked(rng.dirichlet(np.ones(n_classes), 300))
        learnt += [score.learnt(score.sums(teachers)) for score in (Kin(), Likeness())]
    columns = tuple(Column("", score) for score in (*map(parse_score, NAMES), *learnt))
    return Blend(columns, rng.random(len(columns)), evidence=evidence)


def in_passes(blend: Blend, outputs: Outputs) -> np.ndarray:
    """Return the same by the scores one by one."""
    return np.asarray(blend.over(outputs).models["blend"][0 : outputs.n])


@pytest.fixture(autouse=True)
def loaded() -> None:
    compile_for(WORTHWHILE)


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("evidence", [None, EVIDENCE], ids=["plain", "evident"])
@pytest.mark.parametrize("with_products", [False, pytest.param(True, marks=QUICK)])
@pytest.mark.parametrize("n_classes", [2, 3, 17, 100, 300])
def test_the_loop_gives_the_bits_of_passes(
    n_classes: int, with_products: bool, evidence: Evidence | None, kind: Any
) -> None:
    n = max(20_000 // n_classes, 90)
    outputs = check_outputs(rows_of(n, n_classes, kind), kind)
    blend = blend_of(n_classes, with_products, evidence)
    expected = in_passes(blend, outputs)
    for threads in (1, 2, 3):
        blending, out = Blending(blend, outputs, threads), np.empty((n, n_classes))
        assert blending._recipe is not None
        blending.fill(out)
        assert_array_equal(out, expected)


def test_machines_without_a_quick_step_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, blend = check_outputs(rows_of(400, 40, "probs")), blend_of(40, True, EVIDENCE)
    expected, out = in_passes(blend, outputs), np.empty((400, 40))
    monkeypatch.setattr("conformix.kernels.host.products.are_quick", lambda: False)
    blending = Blending(blend, outputs, 2)
    assert blending._recipe is None
    blending.fill(out)
    assert_array_equal(out, expected)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_some_rows_go_where_they_are_told(kind: Any) -> None:
    outputs = check_outputs(rows_of(400, 40, kind), kind)
    blend = blend_of(40, True, EVIDENCE)
    rows, places = np.array([399, 3, 4, 200]), np.array([5, 0, 9, 2])
    room = np.full((400, 40), np.nan)
    Blending(blend, outputs, 1, np.tile(rows, 1)).fill(room[:10], places)
    assert_array_equal(room[places], in_passes(blend, outputs)[rows])
    assert np.isnan(np.delete(room, places, axis=0)).all()


def test_some_rows_go_to_the_first_ones_where_nothing_is_told() -> None:
    outputs, blend = check_outputs(rows_of(400, 40, "probs")), blend_of(40, True, EVIDENCE)
    room = np.full((400, 40), np.nan)
    Blending(blend, outputs, 2, np.arange(200, 300)).fill(room[:100])
    assert_array_equal(room[:100], in_passes(blend, outputs)[200:300])
    assert np.isnan(room[100:]).all()


def test_room_for_one_thread_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.FOR_TWO", 1)
    outputs, blend = check_outputs(rows_of(400, 40, "probs")), blend_of(40, MULTIPLIES, EVIDENCE)
    blending, out, threads = Blending(blend, outputs, 2), np.empty((400, 40)), []
    blending.map(lambda rows, values: None)  # by one thread each
    run = room_of_blends.run_parts
    monkeypatch.setattr(
        room_of_blends, "run_parts", lambda *how: (threads.append(how[1].threads), run(*how))
    )
    blending.fill(out)
    assert threads == [1]
    assert_array_equal(out, in_passes(blend, outputs))


def test_blocks_of_rows_that_must_not_be_written_are_those_of_others() -> None:
    values = rows_of(500, 40, "probs").astype(np.float32)
    values /= values.sum(axis=1, keepdims=True)
    values.flags.writeable = False
    outputs, blend = check_outputs(values), blend_of(40, False, EVIDENCE)
    expected, found = in_passes(blend, outputs), np.empty((500, 40))
    Blending(blend, outputs, 2).fill(found)
    assert_array_equal(found, expected)

    def put(rows: slice, some: np.ndarray) -> None:
        found[rows] = some

    found[:] = 0
    Blending(blend, outputs, 2).map(put)
    assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_numbers_that_are_not_checked_yet_are_so_before_they_are_blended(kind: Any) -> None:
    values = rows_of(300, 40, kind)
    values[123, 7] = np.nan
    blending = Blending(blend_of(40, True, EVIDENCE), check_outputs(values, kind, later=True), 2)
    with pytest.raises(InvalidInput, match=r"row 123, label 7 is nan"):
        blending.fill(np.empty((300, 40)))


def test_blocks_beside_the_scores_of_tuning_rows_are_small() -> None:
    values = {name: rows_of(9_000, 30, "probs", seed) for seed, name in enumerate("ab")}
    columns = tuple(Column(model, parse_score(name)) for model in "ab" for name in NAMES)
    blend, outputs = Blend(columns, np.full(12, 0.1)), check_outputs(values)
    assert Blending(blend, outputs, 1, np.arange(9_000))._rows == SMALL_PIECE // 30
    assert Blending(blend, outputs, 1)._rows == PIECE_ENTRIES // 30


def test_several_models_go_in_passes() -> None:
    values = {name: rows_of(300, 30, "probs", seed) for seed, name in enumerate("ab")}
    columns = tuple(Column(model, parse_score(name)) for model in "ab" for name in NAMES)
    blend, outputs = Blend(columns, np.full(12, 0.1)), check_outputs(values)
    blending, out = Blending(blend, outputs, 2), np.empty((300, 30))
    assert blending._recipe is None
    blending.fill(out)
    assert_array_equal(out, in_passes(blend, outputs))


def test_crowded_numbers_are_left_to_those_who_sort_them() -> None:
    """Otherwise the tests above would compare nothing of them."""
    outputs = check_outputs(rows_of(200, 100, "probs"))
    blending = Blending(blend_of(100, False, None), outputs, 1)
    left = []
    passes = blending._in_passes
    blending._in_passes = lambda some, out: (left.append(some.n), passes(some, out))
    blending.fill(np.empty((200, 100)))
    assert sum(left) >= len(range(3, 200, 11)) // 2


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("n_classes", [2, 17, 100])
@pytest.mark.parametrize("threads", [1, 3])
def test_scores_in_planes_are_those_of_one_by_one(
    threads: int, n_classes: int, kind: Any, monkeypatch
) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.FOR_TWO", 1)
    n = max(9_000 // n_classes, 200)
    outputs = check_outputs(rows_of(n, n_classes, kind), kind)
    columns = [Column("", parse_score(name)) for name in NAMES]
    expected = np.empty((len(columns), n, n_classes))
    fill_planes(expected, outputs, columns)
    values = outputs.models[""][:]
    ranked, plain = Ranked(values, kind), Ranked(values, kind)
    planes = np.full((len(columns) + 1, n, n_classes), np.nan)
    filled = fill_terms(ranked, list(enumerate(columns)), planes, threads)
    assert sorted(filled) == list(range(len(columns)))
    assert_array_equal(planes[:-1], expected)
    assert np.isnan(planes[-1]).all()
    for found, own in ((ranked.probs, plain.probs), (ranked.patterns, plain.patterns)):
        assert_array_equal(found, own)
    assert_array_equal(ranked.log_probs, plain.log_probs)


def test_scores_are_written_by_loops_over_what_was_in_their_planes() -> None:
    outputs = check_outputs(rows_of(300, 40, "probs"))
    columns = [Column("", parse_score(name)) for name in NAMES]
    expected, planes = np.empty((2, len(columns), 300, 40))
    planes[:] = 5.0
    fill_planes(expected, outputs, columns)
    fill_planes(planes, outputs, columns, in_loops=True)
    assert_array_equal(planes, expected)


def test_a_plane_that_is_the_outputs_themselves_stays() -> None:
    planes = np.empty((3, 200, 20))
    planes[1] = rows_of(200, 20, "probs")
    before = planes[1].copy()
    columns = [Column("", parse_score(name)) for name in ("logp", "thr", "rank")]
    filled = fill_terms(Ranked(planes[1]), list(enumerate(columns)), planes, 1)
    assert sorted(filled) == [0, 1, 2]
    assert_array_equal(planes[1], before)


def test_without_a_plane_for_logarithms_nothing_is_written() -> None:
    planes = np.full((1, 200, 20), np.nan)
    ranked = Ranked(rows_of(200, 20, "probs"))
    assert fill_terms(ranked, [(0, Column("", parse_score("rank")))], planes, 1) == []
    assert np.isnan(planes).all()
