"""What must hold for any rows: order, symmetry, monotonicity of the search."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from cases import Bag, bags, choices, levels, scores_of_rows, tensors
from conformix.scores import SCORES
from conformix.search import GridSearch, search_weights

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

Level = tuple[float, Fraction]
NAMES = ("thr", "aps", "rank")


FIXED = [name for name in SCORES if not SCORES[name].learns]


def random_rows(seed: int, n: int = 40, n_classes: int = 7) -> np.ndarray:
    """Rows of generic, spiked and saturated probabilities."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, n_classes)) * rng.choice([0.1, 3.0, 60.0], size=(n, 1))
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    return rows / rows.sum(axis=1, keepdims=True)


def fit_all_transductive(
    outputs: object, y: np.ndarray, test: object, alpha: float, search: object
) -> dict[str, cx.ScoreAverage]:
    return {
        split: cx.ScoreAverage(NAMES, alpha=alpha, split=split, search=search, threads=1).fit(
            outputs, y, test=test
        )
        for split in ("efcp", "dlcp", "dlcp+")
    }


# DLCP, DLCP+ and EFCP share their thresholds t(w): all labelled rows tune and calibrate at one
# level. With A(w) labels on the labelled rows and B(w) on the test rows, DLCP minimises B, EFCP
# minimises A and DLCP+ minimises A + B. Then B(DLCP) <= B(DLCP+) by the first; and
# A(+) + B(+) <= A(E) + B(E) with A(E) <= A(+) gives B(DLCP+) <= B(EFCP). It needs the same
# candidates, the same alpha for search and threshold, and the batch given to `fit`; ties and their
# order do not matter.
@settings(max_examples=200)
@given(bag=bags(), level=levels(), resolution=st.integers(1, 6))
def test_dlcp_is_at_most_dlcp_plus_is_at_most_efcp_in_size_on_the_test_batch(
    bag: Bag, level: Level, resolution: int
) -> None:
    fitted = fit_all_transductive(bag.outputs, bag.y, bag.test, level[0], GridSearch(resolution))
    on_test = {name: int(cp.predict_set(bag.test).sizes.sum()) for name, cp in fitted.items()}
    on_labelled = {
        name: int(cp.predict_set(bag.outputs).sizes.sum()) for name, cp in fitted.items()
    }
    assert on_test["dlcp"] <= on_test["dlcp+"] <= on_test["efcp"]
    assert on_labelled["efcp"] <= on_labelled["dlcp+"] <= on_labelled["dlcp"]


@pytest.mark.parametrize("alpha", [0.1, 0.02])
def test_the_order_of_the_transductive_splits_holds_and_is_strict_somewhere_on_cifar100(
    cifar100: tuple, alpha: float
) -> None:
    logits, y = cifar100
    outputs = cx.score_tensor(logits, "thr", kind="logits")[..., 0]
    totals = []
    for seed in range(4):
        rows = np.random.default_rng(seed).permutation(len(y))[:500]
        cal, test = rows[:250], rows[250:]
        fitted = fit_all_transductive(outputs[cal], y[cal], outputs[test], alpha, GridSearch(20))
        totals.append(
            [
                int(fitted[s].predict_set(outputs[test]).sizes.sum())
                for s in ("dlcp", "dlcp+", "efcp")
            ]
        )
    assert all(dlcp <= plus <= efcp for dlcp, plus, efcp in totals)
    assert any(dlcp < efcp for dlcp, _, efcp in totals)


@settings(max_examples=100)
@given(bag=bags(), data=st.data())
def test_permuting_the_labels_permutes_scores_of_eighths(bag: Bag, data: st.DataObject) -> None:
    order = np.array(data.draw(st.permutations(range(bag.outputs["a"].shape[1]))))
    permuted = {name: model[:, order] for name, model in bag.outputs.items()}
    scores = cx.score_tensor(bag.outputs, NAMES)
    assert_array_equal(cx.score_tensor(permuted, NAMES), scores[:, order])


@pytest.mark.parametrize("name", FIXED)
def test_permuting_the_labels_permutes_the_scores_of_any_probabilities(name: str) -> None:
    rows = random_rows(seed=1)
    order = np.random.default_rng(2).permutation(rows.shape[1])
    scores = scores_of_rows(rows, name)
    assert_allclose(scores_of_rows(rows[:, order], name), scores[:, order], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_the_labels_permutes_thr_aps_and_rank_bit_for_bit(name: str) -> None:
    rows = random_rows(seed=3)
    order = np.random.default_rng(4).permutation(rows.shape[1])
    scores = cx.score_tensor(rows, name)
    assert_array_equal(cx.score_tensor(rows[:, order], name), scores[:, order])


@settings(max_examples=100)
@given(bag=bags(), level=levels(), data=st.data())
def test_permuting_the_labels_permutes_the_sets(
    bag: Bag, level: Level, data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(bag.outputs["a"].shape[1]))))
    renamed = np.argsort(order)[bag.y]

    def columns(outputs: dict) -> dict:
        return {name: model[:, order] for name, model in outputs.items()}

    cp = cx.ScoreAverage(NAMES, alpha=level[0], search=GridSearch(3), random_state=0)
    sets = cp.fit(bag.outputs, bag.y).predict_set(bag.test)
    permuted = cp.fit(columns(bag.outputs), renamed).predict_set(columns(bag.test))
    assert_array_equal(permuted, np.asarray(sets)[:, order])


@settings(max_examples=100)
@given(bag=bags(), level=levels(), data=st.data())
def test_the_order_of_the_rows_does_not_matter_under_efcp(
    bag: Bag, level: Level, data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(len(bag.y)))))
    cp = cx.ScoreAverage(NAMES, alpha=level[0], split="efcp", search=GridSearch(3))
    first = cp.fit(bag.outputs, bag.y)
    weights, t = first.weights_, first.threshold_
    again = cp.fit({name: model[order] for name, model in bag.outputs.items()}, bag.y[order])
    assert_array_equal(again.weights_, weights)
    assert again.threshold_ == t


def assert_keeps_order(rows: np.ndarray, scores: np.ndarray) -> None:
    larger = rows[:, :, None] > rows[:, None, :]
    smaller_score = scores[:, :, None] < scores[:, None, :]
    assert larger.any()
    assert not (larger & smaller_score).any()


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("n_classes", [2, 7, 33])
def test_a_larger_probability_never_has_a_smaller_score(name: str, n_classes: int) -> None:
    rows = random_rows(seed=5, n=60, n_classes=n_classes)
    assert_keeps_order(rows, scores_of_rows(rows, name))


@pytest.mark.parametrize("name", FIXED)
def test_a_larger_probability_never_has_a_smaller_score_on_real_outputs(
    name: str, cifar100: tuple
) -> None:
    logits = cifar100[0][:200]
    probs = cx.score_tensor(logits, "thr", kind="logits")[..., 0]
    assert_keeps_order(probs, cx.score_tensor(logits, name, kind="logits")[..., 0])


@settings(max_examples=100)
@given(bag=bags(max_models=1))
def test_labels_of_a_tie_share_their_thr_aps_and_rank(bag: Bag) -> None:
    rows = bag.outputs["a"]
    scores = cx.score_tensor(rows, NAMES)
    tied = rows[:, :, None] == rows[:, None, :]
    differ = (scores[:, :, None] != scores[:, None, :]).any(axis=-1)
    assert not (tied & differ).any()


@settings(max_examples=200)
@given(case=tensors(max_d=3), level=levels(), resolution=st.integers(1, 5), data=st.data())
def test_adding_a_score_never_enlarges_the_searched_size_at_equal_resolution(
    case: tuple, level: Level, resolution: int, data: st.DataObject
) -> None:
    scores, y, size_rows = case
    some = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
    entries = (len(scores) + len(size_rows)) * scores.shape[1]
    extra = some[data.draw(choices(entries, len(some)))].reshape(-1, scores.shape[1], 1)
    options = {"alpha": level[0], "resolution": resolution}
    before = search_weights(scores, y, size_scores=size_rows, **options)
    after = search_weights(
        np.concatenate([scores, extra[: len(scores)]], axis=2),
        y,
        size_scores=np.concatenate([size_rows, extra[len(scores) :]], axis=2),
        **options,
    )
    assert after.count <= before.count


@settings(max_examples=100)
@given(bag=bags(), level=levels())
def test_a_smaller_alpha_never_gives_smaller_sets_under_the_same_weights(
    bag: Bag, level: Level
) -> None:
    cp = cx.ScoreAverage(NAMES, split="efcp", search=GridSearch(3)).fit(bag.outputs, bag.y)
    smaller = np.asarray(cp.predict_set(bag.test, alpha=level[0] / 2))
    larger = np.asarray(cp.predict_set(bag.test, alpha=level[0]))
    assert not (larger & ~smaller).any()
