"""Scores of the true labels alone are those of the tensor, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from cases import probability_rows
from conformix.data.outputs import check_outputs
from conformix.kernels.arrays import of_labels
from conformix.scores import SCORES, Aps, Score, score_columns
from conformix.scores import upper_rows as module
from conformix.scores.tensor import fill_tensor
from conformix.scores.upper_rows import true_label_scores

NEED_LOGITS = {"logit", "energy"}
VARIANTS = [
    *(name for name in SCORES if not SCORES[name].learns),
    "thr(temperature=0.3)", "thr(temperature=7.0)", "margin(temperature=2.0)",
    "aps(temperature=0.5)", "aps(u=1.0)", "aps(randomized=True)",
    "aps(randomized=True, temperature=3.0)", "raps(penalty=0.3, k_reg=1)",
    "raps(randomized=True, temperature=0.7)", "raps(u=0.5, k_reg=0)", "saps(randomized=True)",
    "saps(temperature=0.5, u=1.0)", "rank(tie_break='prob')", "logp(temperature=2.0)",
    "logp(floor=0.1)", "-entropy", "-maxprob", "entropy(temperature=3.0)", "-energy",
]  # fmt: skip
TYPES = (np.float16, np.float32, np.float64)


def assert_same(outputs, y, scores, kind, key: int = 7) -> None:
    """Both ways agree in every bit."""
    checked = check_outputs(outputs, kind)
    columns = score_columns(tuple(checked.models), scores)
    wanted = of_labels(fill_tensor(checked, columns, key=key, threads=1), y)
    found = true_label_scores(checked, y, columns, key=key, threads=2)
    assert_array_equal(found, wanted)
    assert found.dtype == wanted.dtype == np.float64


def named(kind: str) -> list[str]:
    plain = [name for name in VARIANTS if not NEED_LOGITS & {name.lstrip("-").split("(")[0]}]
    return plain if kind == "probs" else VARIANTS


@given(data=st.data(), n_classes=st.integers(1, 9), dtype=st.sampled_from(TYPES))
def test_probabilities_with_heavy_ties(data, n_classes, dtype) -> None:
    probs = data.draw(probability_rows(n_classes, 7)).astype(dtype)
    y = np.array(data.draw(st.lists(st.integers(0, n_classes - 1), min_size=7, max_size=7)))
    assert_same(probs, y, named("probs"), "probs")


numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.nextafter(1.0, 2.0), -1000.0, 1e-300, 60000.0]),
    st.floats(-700, 700, width=32),
)


@given(data=st.data(), n_classes=st.integers(1, 9), dtype=st.sampled_from(TYPES))
def test_logits_that_tie_underflow_and_differ_in_the_last_bit(data, n_classes, dtype) -> None:
    rows = st.lists(numbers, min_size=n_classes, max_size=n_classes)
    logits = np.array(data.draw(st.lists(rows, min_size=5, max_size=5)), dtype=dtype)
    y = np.array(data.draw(st.lists(st.integers(0, n_classes - 1), min_size=5, max_size=5)))
    assert_same(logits, y, named("logits"), "logits")


@pytest.mark.parametrize("dtype", TYPES)
def test_both_zeros_in_long_rows(dtype) -> None:
    rng = np.random.default_rng(0)
    logits = np.round(rng.normal(size=(20, 5000))).astype(dtype)
    assert np.signbit(logits[logits == 0]).any()
    assert not np.signbit(logits[logits == 0]).all()
    assert_same(logits, rng.integers(5000, size=20), ("aps", "rank"), "logits")


@pytest.mark.parametrize("score", VARIANTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_score_on_rows_with_ties_by_rounding(score, dtype) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (60, 700)).astype(dtype)
    y = rng.integers(700, size=60)
    assert_same(logits, y, score, "logits")
    if score in named("probs"):
        probs = np.exp(logits.astype(np.float64))
        assert_same((probs / probs.sum(axis=1, keepdims=True)).astype(dtype), y, score, "probs")


@given(data=st.data(), key=st.integers(0, 2**63 - 1))
def test_several_models_share_one_uniform_number_per_row(data, key) -> None:
    models = {name: data.draw(probability_rows(5, 6)) for name in "ab"}
    y = np.array(data.draw(st.lists(st.integers(0, 4), min_size=6, max_size=6)))
    assert_same(
        models, y, ("a.thr", "b.aps(randomized=True)", "saps(randomized=True)"), "probs", key
    )


def test_truncated_outputs() -> None:
    rng = np.random.default_rng(1)
    labels = np.array([rng.permutation(40)[:5] for _ in range(30)])
    labels[rng.random(labels.shape) < 0.2] = -1
    top = cx.TopK(labels, rng.dirichlet(np.ones(5), 30) * 0.9, n_classes=40)
    assert_same(top, rng.integers(40, size=30), named("probs"), "probs")


@pytest.mark.parametrize(
    "kind", [np.asfortranarray, lambda x: x[:, ::-1], lambda x: x.astype(">f8")]
)
def test_rows_in_any_layout(kind) -> None:
    rng = np.random.default_rng(2)
    assert_same(
        kind(rng.normal(size=(40, 30))), rng.integers(30, size=40), named("logits"), "logits"
    )


@dataclass(frozen=True)
class FavoursTheFirst(Aps):
    """A score of a user's that knows which label is which."""

    name: ClassVar[str] = "favours the first"

    def __call__(self, ranked):
        scores = super().__call__(ranked).copy()
        scores[:, 0] += 1.0
        return scores


@pytest.mark.parametrize("score", [FavoursTheFirst(), lambda probs: probs * np.arange(4.0)])
def test_scores_of_the_users_own_are_computed_for_all_labels(score) -> None:
    probs = np.random.default_rng(3).dirichlet(np.ones(4), 50)
    assert_same(probs, np.arange(50) % 4, ("thr", score), "probs")


def test_no_tensor_is_filled_for_scores_of_the_library(monkeypatch) -> None:
    monkeypatch.setattr(module, "fill_tensor", None)
    outputs = check_outputs(np.full((3, 4), 0.25))
    columns = score_columns(("",), named("probs"))
    assert true_label_scores(outputs, np.arange(3), columns).shape == (3, len(columns))


def test_logits_are_asked_for_where_a_score_needs_them() -> None:
    outputs = check_outputs(np.full((3, 4), 0.25))
    with pytest.raises(cx.InvalidInput, match='need kind="logits"'):
        true_label_scores(outputs, np.arange(3), score_columns(("",), "energy"))


def test_every_listed_score_was_compared() -> None:
    assert {name for name in SCORES if not SCORES[name].learns} <= set(VARIANTS)
    assert all(issubclass(SCORES[name], Score) for name in SCORES)
