"""Sets of rows that are made where a blend is: those of its numbers, checked on the way."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.data.outputs import check_outputs
from conformix.errors import InvalidInput
from conformix.fit.fit import n_reaching
from conformix.fit.rule import Rule
from conformix.fit.scored import Scoring
from conformix.kernels.host import blend as loop_of_blends
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.scores import blending as room_of_blends
from conformix.scores.blending import Blending
from conformix.scores.scale import Scaled
from scores.test_blending import EVIDENCE, MULTIPLIES, blend_of, crowded, in_passes, rows_of


@pytest.fixture(autouse=True)
def loaded() -> None:
    compile_for(WORTHWHILE)


def labels_in_order(values: np.ndarray, mask: np.ndarray) -> list[int]:
    """Return the labels of a mask, row after row, by falling values, equal ones by label."""
    return [
        label
        for row, inside in zip(values.tolist(), mask, strict=True)
        for label in sorted(np.flatnonzero(inside).tolist(), key=lambda k: (-row[k], k))
    ]


def limits_of(values: np.ndarray) -> np.ndarray:
    """Return a number per row: one of its own, what nothing reaches, and what everything does."""
    n, n_classes = values.shape
    own = np.random.default_rng(3).integers(n_classes, size=n)
    limits = values[np.arange(n), own]
    limits[::13], limits[5::13] = np.inf, -np.inf
    return limits


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("evidence", [None, EVIDENCE], ids=["plain", "evident"])
@pytest.mark.parametrize("n_classes", [2, 3, 17, 100, 300])
def test_sets_hold_the_labels_whose_numbers_reach_the_limit_of_their_row(
    n_classes: int, evidence: Any, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.FOR_TWO", 1)
    n = max(20_000 // n_classes, 90)
    values = rows_of(n, n_classes, kind)
    blend = blend_of(n_classes, MULTIPLIES, evidence)
    expected = in_passes(blend, check_outputs(values, kind))
    limits = limits_of(expected)
    for entries in (2**22, 70 * n_classes):
        monkeypatch.setattr(room_of_blends, "SETS_ENTRIES", entries)
        for threads in (1, 2, 3):
            mask = np.zeros((n, n_classes), dtype=bool)
            outputs = check_outputs(values, kind, later=True)
            labels = Blending(blend, outputs, threads).sets(limits, mask)
            assert_array_equal(mask, expected >= limits[:, None])
            assert labels.tolist() == labels_in_order(expected, mask)


@pytest.mark.parametrize("how", ["single", "columns first", "not to be written"])
def test_sets_of_rows_that_lie_otherwise_in_memory(how: str) -> None:
    values = rows_of(300, 40, "probs")
    if how == "single":
        values = values.astype(np.float32)
    values = np.asfortranarray(values) if how == "columns first" else values
    values.flags.writeable = how != "not to be written"
    blend = blend_of(40, False, EVIDENCE)
    expected = in_passes(blend, check_outputs(values))
    limits, mask = limits_of(expected), np.zeros((300, 40), dtype=bool)
    labels = Blending(blend, check_outputs(values, later=True), 1).sets(limits, mask)
    assert_array_equal(mask, expected >= limits[:, None])
    assert labels.tolist() == labels_in_order(expected, mask)


def test_rows_that_the_loop_leaves_have_sets_too() -> None:
    values = rows_of(300, 100, "probs")
    values[100:] = crowded(100, 200, np.random.default_rng(0))
    values /= values.sum(axis=1, keepdims=True)
    blend = blend_of(100, MULTIPLIES, EVIDENCE)
    expected = in_passes(blend, check_outputs(values))
    limits, mask = limits_of(expected), np.zeros((300, 100), dtype=bool)
    blending, left = Blending(blend, check_outputs(values, later=True), 2), []
    passes = blending._left_over
    blending._left_over = lambda some: (left.append(len(some)), passes(some))[1]
    labels = blending.sets(limits, mask)
    assert sum(left) >= 200
    assert_array_equal(mask, expected >= limits[:, None])
    assert labels.tolist() == labels_in_order(expected, mask)


def test_more_rows_are_left_than_there_is_room_for_at_once() -> None:
    values = crowded(100, 900, np.random.default_rng(0))
    values /= values.sum(axis=1, keepdims=True)
    blend, outputs = blend_of(100, MULTIPLIES, EVIDENCE), check_outputs(values)
    blending, out = Blending(blend, outputs, 1, np.arange(900)), np.empty((900, 100))
    assert blending._rows < 900
    blending.fill(out, np.arange(900))
    assert_array_equal(out, in_passes(blend, outputs))


WRONG = {
    "not a number": (3, np.nan),
    "endless": (3, np.inf),
    "negative": (3, -0.25),
    "too much in all": (3, 0.5),
    "not finite logits": (3, np.inf),
    "negative beside more than one": (3, -0.25),
    "a little too much in all": (3, None),
}


@pytest.mark.parametrize("first", [0, 80, 81, 399])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_row_is_refused_as_where_it_is_looked_at_first(what: str, first: int) -> None:
    kind: Any = "logits" if "logits" in what else "probs"
    values = np.random.default_rng(0).dirichlet(np.ones(100), 400)  # none that the loop leaves
    values = np.log(values) if kind == "logits" else values
    label, number = WRONG[what]
    for row in {first, 399}:
        if "beside" in what:  # the sum stays
            values[row, 4] += values[row, label] - number
        if number is None:
            values[row] *= 1 + 1.5e-4
        else:
            values[row, label] = number
    with pytest.raises(InvalidInput) as at_once:
        check_outputs(values, kind)
    assert f"row {first}" in str(at_once.value)
    outputs, mask = check_outputs(values, kind, later=True), np.zeros((400, 100), dtype=bool)
    with pytest.raises(InvalidInput) as on_the_way:
        Blending(blend_of(100, MULTIPLIES, EVIDENCE), outputs, 2).sets(np.zeros(400), mask)
    assert str(on_the_way.value) == str(at_once.value)


@pytest.mark.parametrize("kind", ["probs", "logits"])
def test_numbers_that_only_a_closer_look_finds_fine_have_sets(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums at the edge of what is allowed, and classes that are ruled out: by the loop, too."""
    monkeypatch.setattr(room_of_blends, "SETS_ENTRIES", 90 * 20)
    values = np.random.default_rng(0).dirichlet(np.ones(20), 200)
    values = np.log(values) if kind == "logits" else values
    if kind == "probs":
        values[50:160] *= 1 + 0.99999e-4
    else:
        values[50:160, 4] = -np.inf
    blend = blend_of(20, MULTIPLIES, EVIDENCE)
    expected = in_passes(blend, check_outputs(values, kind))
    limits, mask = limits_of(expected), np.zeros((200, 20), dtype=bool)
    monkeypatch.setattr(Blending, "_in_passes", None)
    labels = Blending(blend, check_outputs(values, kind, later=True), 1).sets(limits, mask)
    assert_array_equal(mask, expected >= limits[:, None])
    assert labels.tolist() == labels_in_order(expected, mask)


def test_a_wrong_row_is_refused_after_others_that_took_a_closer_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room_of_blends, "SETS_ENTRIES", 90 * 20)
    values = np.random.default_rng(0).normal(size=(400, 20))
    values[3, 4], values[333, 7] = -np.inf, np.nan
    outputs, mask = check_outputs(values, "logits", later=True), np.zeros((400, 20), dtype=bool)
    with pytest.raises(InvalidInput, match="row 333, label 7 is nan"):
        Blending(blend_of(20, MULTIPLIES, EVIDENCE), outputs, 1).sets(np.zeros(400), mask)


class Doubled(Scaled):
    """A user's scale, which inherits from ours and does something else."""

    def __call__(self, scores: Any) -> Any:
        return 2.0 * scores


def test_a_scale_of_the_users_is_asked_although_its_factors_are_one() -> None:
    assert Rule(Scaled((1.0,)), np.ones(1)).counts_alone
    assert not Rule(Doubled((1.0,)), np.ones(1)).counts_alone


def drawn(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, n_classes))
    heights = rng.gumbel(size=logits.shape)
    return logits, np.argmax(logits + heights, axis=1)


SETTINGS: dict[str, tuple[dict[str, Any], bool]] = {
    "one threshold": ({}, True),
    "one of every row": ({"calibration": "weighted"}, True),
    "one of every class": ({"calibration": "class"}, False),
    "never empty": ({"allow_empty": False}, False),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_predictions_of_a_blend_are_such_sets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, by_loop = SETTINGS[name]
    logits, y = drawn(3_000, 50)
    weights = np.random.default_rng(1).random(1_500) + 0.5
    rows = {"sample_weight": weights} if settings.get("calibration") == "weighted" else {}
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0, **settings)
    cp.fit(logits[:1_500], y[:1_500], **rows)
    made: list[bool] = []
    sets_of = Blending.sets

    def seen(self: Blending, *limits: Any) -> Any:
        found = sets_of(self, *limits)
        made.append(found is not None)
        return found

    monkeypatch.setattr(Blending, "sets", seen)
    found = cp.predict_set(logits[1_500:], **rows)
    assert made == [MULTIPLIES] * by_loop
    monkeypatch.setattr(Blending, "sets", lambda *_: None)
    again = cp.predict_set(logits[1_500:], **rows)
    assert_array_equal(found.mask, again.mask)
    assert_array_equal(found.order, again.order)
    assert found.order.dtype == again.order.dtype


@pytest.mark.parametrize("settings", [{}, {"calibration": "weighted"}, {"allow_empty": False}])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_a_fit_that_reads_a_blend_where_it_is_is_that_of_blocks(
    alpha: float, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    logits, y = drawn(3_000, 50)
    weights = np.random.default_rng(1).random(3_000) + 0.5
    rows = {"sample_weight": weights} if "calibration" in settings else {}

    def fitted() -> Any:
        cp = cx.ScoreAverage("auto", alpha=alpha, kind="logits", random_state=0, **settings)
        return cp.fit(logits, y, **rows).predictor_.fitted

    here = fitted()
    monkeypatch.setattr(Scoring, "plane", lambda *_: None)
    in_blocks = fitted()
    assert here.held_out_size == in_blocks.held_out_size
    assert type(here.held_out_size) is type(in_blocks.held_out_size)
    assert_array_equal(here.calibration, in_blocks.calibration)


@pytest.mark.parametrize("entries", [2**18, 90])
@pytest.mark.parametrize("many", [False, True], ids=["one threshold", "one of every row"])
def test_numbers_that_reach_thresholds_are_counted_in_some_rows(
    entries: int, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformix.kernels.blocks.row_blocks.__defaults__", (entries,))
    values = np.round(np.random.default_rng(0).random((200, 9)), 1)
    rows = np.flatnonzero(np.random.default_rng(1).random(200) < 0.6)
    lowest = values[rows, :1] if many else 0.5
    assert n_reaching(values, rows, lowest) == (values[rows] >= lowest).sum()
    assert n_reaching(values, rows, np.array([[0.5]])) == (values[rows] >= 0.5).sum()
    assert n_reaching(values, rows[:0], lowest if not many else lowest[:0]) == 0


def test_labels_of_sets_are_held_once_and_in_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for all labels of a block would add up to twice the outputs."""
    monkeypatch.setattr(room_of_blends, "SETS_ENTRIES", 2**16)
    values = np.full((2**15, 20), 1 / 20)
    blending = Blending(blend_of(20, False, EVIDENCE), check_outputs(values), 1)
    lowest, mask = np.full(len(values), np.inf), np.zeros(values.shape, dtype=bool)
    tracemalloc.start()
    try:
        labels = blending.sets(lowest, mask)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert labels.dtype == np.uint8
    assert peak < values.size  # 2 bytes a label would be twice as much


def test_no_kind_of_call_compiles_the_loop_once_more() -> None:
    """Whoever predicts one row after many would wait for seconds."""
    logits, y = drawn(3_000, 50)
    weights = np.random.default_rng(1).random(3_000) + 0.5

    def fitted(**settings: Any) -> cx.ScoreAverage:
        return cx.ScoreAverage("auto", kind="logits", random_state=0, **settings)

    cp = fitted().fit(logits[:1_500], y[:1_500])
    cp.predict_set(logits[1_500:])
    cp.predict_set(logits[1_500:1_501])
    cp.predict_set(logits[1_500:].astype(np.float32))
    locked = logits[1_500:].copy()
    locked.flags.writeable = False
    cp.predict_set(locked)
    weighted = fitted(calibration="weighted")
    weighted.fit(logits[:1_500], y[:1_500], sample_weight=weights[:1_500])
    for rows in (slice(1_500, 3_000), slice(1_500, 1_501)):
        weighted.predict_set(logits[rows], sample_weight=weights[rows])
    assert len(loop_of_blends.blend.signatures) == 1
