from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from cases import scores_of_rows
from conformix.scores import SCORES, Rank, Thr

FIXED = [name for name in SCORES if not SCORES[name].learns]


def test_thr_is_the_probability() -> None:
    assert_array_equal(cx.score_tensor([[0.2, 0.5, 0.3]], "thr")[0, :, 0], [0.2, 0.5, 0.3])


def test_aps_is_the_mass_of_the_labels_no_likelier() -> None:
    scores = cx.score_tensor([[0.25, 0.5, 0.125, 0.125]], "aps")
    assert_array_equal(scores[0, :, 0], [0.5, 1.0, 0.25, 0.25])


def test_aps_of_the_top_label_is_the_whole_mass() -> None:
    rows = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert_allclose(cx.score_tensor(rows, "aps")[:, 0, 0], 1, rtol=1e-15)


def test_rank_is_the_share_of_the_other_labels_that_are_less_likely() -> None:
    scores = cx.score_tensor([[0.25, 0.5, 0.125, 0.125]], "rank")
    assert_array_equal(scores[0, :, 0], [2 / 3, 1, 0, 0])


@pytest.mark.parametrize("name", FIXED)
def test_every_score_is_finite_on_zero_probabilities_ties_and_a_single_class(name: str) -> None:
    for rows in ([[1.0, 0.0, 0.0]], [[0.25] * 4], [[1.0]], [[0.5, 0.5]], [[1 - 1e-300, 1e-300]]):
        scores = scores_of_rows(rows, name)
        assert scores.shape == (1, len(rows[0]))
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", FIXED)
def test_every_score_gives_all_labels_of_an_all_equal_row_one_value(name: str) -> None:
    scores = scores_of_rows(np.full((2, 5), 0.2), name)
    assert_array_equal(scores, np.broadcast_to(scores[:1, :1], scores.shape))


@pytest.mark.parametrize("name", FIXED)
def test_every_score_of_a_row_ignores_the_other_rows(name: str) -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=9)
    batch = scores_of_rows(rows, name)
    for i in range(len(rows)):
        assert_array_equal(scores_of_rows(rows[i : i + 1], name)[0], batch[i])


@pytest.mark.parametrize("name", ["thr", "aps", "rank"])
def test_logits_are_scored_as_their_softmax(name: str) -> None:
    logits = np.array([[2.0, 0.0, -1.0], [700.0, -700.0, 0.0]])
    probs = np.exp(logits[:1]) / np.exp(logits[:1]).sum()
    scores = cx.score_tensor(logits, name, kind="logits")
    assert_allclose(scores[:1], cx.score_tensor(probs, name), rtol=1e-14)
    assert np.isfinite(scores).all()


def test_adding_a_constant_to_a_row_of_logits_changes_nothing() -> None:
    logits = np.array([[2.0, 0.0, -1.0]])
    names = ("thr", "aps", "rank")
    moved = cx.score_tensor(logits + 1024.0, names, kind="logits")
    assert_array_equal(moved, cx.score_tensor(logits, names, kind="logits"))


def test_several_models_come_model_by_model_whether_named_or_listed() -> None:
    a, b = np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])
    tensor = cx.score_tensor({"a": a, "b": b}, ("thr", "rank"))
    assert_array_equal(tensor[0, :, 0], a[0])
    assert_array_equal(tensor[0, :, 2], b[0])
    assert_array_equal(cx.score_tensor([a, b], ("thr", "rank")), tensor)


def test_a_plain_function_is_a_score() -> None:
    rows = np.array([[0.25, 0.75]])
    assert_array_equal(cx.score_tensor(rows, np.square)[..., 0], rows**2)


def test_a_function_that_works_in_place_spoils_nothing() -> None:
    def spoil(probs: np.ndarray) -> np.ndarray:
        probs *= 0
        return probs

    rows = np.array([[0.25, 0.75]])
    assert_array_equal(cx.score_tensor(rows, (spoil, "thr"))[..., 1], [[0.25, 0.75]])
    assert_array_equal(rows, [[0.25, 0.75]])


def test_a_name_and_its_object_give_the_same_scores() -> None:
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=9)
    by_name = cx.score_tensor(rows, ("thr", "rank"))
    assert_array_equal(cx.score_tensor(rows, (Thr(), Rank())), by_name)
    assert_array_equal(cx.score_tensor(rows, "thr"), by_name[..., :1])


def test_scores_are_frozen_and_compare_by_value() -> None:
    assert Thr() == Thr()
    with pytest.raises(AttributeError):
        Thr().name = "other"


def test_twenty_thousand_classes_work() -> None:
    logits = np.random.default_rng(0).normal(size=(12, 20_000))
    y = logits.argmax(axis=1)
    cp = cx.ScoreAverage(("thr", "rank"), alpha=0.4, kind="logits", split="efcp", search="grid")
    sets = cp.set_params(search=[[0.5, 0.5], [1.0, 0.0]]).fit(logits, y).predict_set(logits)
    assert sets.shape == (12, 20_000)
    assert cx.metrics.coverage(sets, y) >= 0.6


def test_rows_that_are_equal_share_their_number_whatever_the_sign_of_a_zero() -> None:
    rows = np.array([[0.7, 0.3, 0.0], [0.7, 0.3, -0.0]])
    one, other = cx.score_tensor(rows, ("aps(randomized=True)",), random_state=0)
    assert_array_equal(one, other)


def test_a_temperature_makes_no_ties_of_labels_that_differ() -> None:
    """Probabilities underflow at low temperatures; the order of the labels does not."""
    rows = np.array([[0.4, 0.3, 0.2, 0.1]])
    plain, cold = (
        cx.score_tensor(rows, (f"saps(penalty=0.2{more})",))[0, :, 0]
        for more in ("", ", temperature=0.0005")
    )
    assert len(set(plain[1:])) == len(set(cold[1:])) == 3
    assert_array_equal(np.argsort(-cold), np.argsort(-plain))


def test_the_floor_of_log_probabilities_does_not_depend_on_the_precision():
    row = [[0.5, 0.5, 0.0]]
    floors = [
        cx.score_tensor(np.array(row, dtype=dtype), "logp")[0, 2, 0]
        for dtype in (np.float16, np.float32, np.float64)
    ]
    assert floors[0] == floors[1] == floors[2] == np.log(np.finfo(float).tiny)


def test_scores_may_come_from_a_generator():
    tensor = cx.score_tensor([[0.2, 0.8]], (name for name in ("thr", "rank")))
    assert tensor.shape == (1, 2, 2)


def test_huge_logits_raise_no_warning():
    assert np.isfinite(
        cx.score_tensor([[1e308, -1e308, 0.0]], ("thr", "logp"), kind="logits")
    ).all()
