"""Slips that a second reader of the whole tree found; each stays caught."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration import LabelShift, PerGroup
from conformix.errors import InvalidInput
from conformix.estimators.cross import CrossAverage, Fold
from conformix.fit import rows as budget
from conformix.fit.contributions import contributions
from conformix.scores import Thr
from conformix.search import ClassGap
from conformix.splits import Roles, ValidityFirst

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"][:900], DATA.labels[:900]
N = 600


def batches(order: np.ndarray):
    for rows in np.array_split(order, 7):
        yield LOGITS[rows], LABELS[rows]


@pytest.mark.parametrize("allow_empty", [True, False])
def test_batches_that_come_in_another_order_the_second_time_are_refused(allow_empty) -> None:
    """Sets that are never empty calibrate on a second pass: its rows would get others' labels."""
    rng = np.random.default_rng(0)
    cp = cx.ScoreAverage(kind="logits", allow_empty=allow_empty, random_state=0)
    with pytest.raises(InvalidInput, match="same rows in the same order"):
        cp.fit_batches(lambda: batches(rng.permutation(N)))


def test_a_function_that_returns_an_iterator_which_has_ended_is_refused() -> None:
    once = batches(np.arange(N))
    cp = cx.ScoreAverage(kind="logits", allow_empty=False, random_state=0)
    with pytest.raises(InvalidInput, match="fresh iterator"):
        cp.fit_batches(lambda: once)


def test_shuffled_batches_from_an_iterator_are_read_once_and_fit() -> None:
    order = np.random.default_rng(0).permutation(N)
    fitted = cx.ScoreAverage(kind="logits", random_state=0).fit_batches(batches(order))
    assert fitted.held_out_size_ is None


def test_auto_beside_another_score_does_not_swallow_it() -> None:
    for scores in (["auto", Thr()], [Thr(), "auto"]):
        with pytest.raises(InvalidInput, match="unknown score"):
            cx.ScoreAverage(scores, kind="logits").fit(LOGITS, LABELS)


def test_fold_models_must_speak_of_the_same_rows() -> None:
    """One row of one fold would be stretched over all rows of the others."""
    folds = [
        Fold(LOGITS[a : a + 100], LABELS[a : a + 100], LOGITS[600:], LABELS[600:]) for a in (0, 100)
    ]
    cross = CrossAverage(kind="logits").fit(folds)
    with pytest.raises(InvalidInput, match="same rows"):
        cross.predict_set([LOGITS[:1], LOGITS[:5]])


def test_measured_coverage_is_not_told_of_a_selection_that_was_not_made() -> None:
    cp = cx.ScoreAverage(
        ("thr", "rank"), kind="logits", split="efcp", search=np.eye(2), objective="singletons"
    ).fit(LOGITS[:200], LABELS[:200])
    with pytest.raises(InvalidInput, match="smallest mean size"):
        cp.measured_coverage(LOGITS[:200], LABELS[:200])


def test_contributions_by_something_unknown_are_refused() -> None:
    cp = cx.ScoreAverage(kind="logits", random_state=0).fit(LOGITS, LABELS)
    with pytest.raises(InvalidInput, match="by must be"):
        contributions(cp, LOGITS, LABELS, by="modle")


def test_a_penalty_that_would_overflow_is_refused() -> None:
    cp = cx.ScoreAverage(kind="logits", objective=ClassGap(1e13))
    with pytest.raises(InvalidInput, match="strength"):
        cp.fit(LOGITS, LABELS)


def test_groups_that_fit_did_not_see_void_the_statement_where_they_take_the_marginal_cut() -> None:
    strata = np.repeat(["a", "b"], 450)
    kinds = {}
    for fallback in ("all", "pooled", "marginal"):
        cp = cx.ScoreAverage(kind="logits", calibration=PerGroup(fallback), random_state=0)
        kinds[fallback] = cp.fit(LOGITS, LABELS, strata=strata).guarantee_.kind
        unseen = cp.predict_set(LOGITS[:50], strata=["c"] * 50).sizes
        assert (unseen == 10).all() == (fallback != "marginal")
    assert kinds == {"all": "exact", "pooled": "exact", "marginal": "approximate"}


def test_a_tensor_without_numbers_is_refused_in_one_sentence() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidInput, match="meta tensor"):
        cx.ScoreAverage(kind="logits").fit(torch.empty((10, 3), device="meta"), np.zeros(10, int))


def test_labels_of_a_second_pass_are_compared_by_name_too() -> None:
    names = [f"c{k}" for k in range(10)]
    text = np.array(names)[LABELS]

    def again():
        for rows in np.array_split(np.arange(N), 5):
            yield LOGITS[rows], text[rows]

    settings = {"kind": "logits", "allow_empty": False, "random_state": 0}
    streamed = cx.ScoreAverage(**settings).fit_batches(cx.stream.Batches(again, N), classes=names)
    whole = cx.ScoreAverage(**settings).fit(LOGITS[:N], LABELS[:N], classes=names)
    assert_array_equal(streamed.predict_set(LOGITS), whole.predict_set(LOGITS))


def test_integers_beside_class_names_of_text_and_numbers_are_ambiguous() -> None:
    with pytest.raises(InvalidInput, match="names or indices"):
        cx.ScoreAverage().fit([[0.2, 0.8], [0.7, 0.3]], [1, 0], classes=["a", 1])


@pytest.mark.parametrize("write", ["to_parquet", "write_sets"])
def test_class_names_of_several_types_do_not_fit_in_a_parquet_column(write, tmp_path) -> None:
    pytest.importorskip("pyarrow")
    sets = cx.PredictionSets(np.ones((2, 2), dtype=bool), [1, "a"])
    path = tmp_path / "sets.parquet"
    with pytest.raises(InvalidInput, match="one type"):
        sets.to_parquet(path) if write == "to_parquet" else cx.sets.write_sets([sets], path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("field", "value"),
    [("what", "P(y in set) = 1"), ("fallback", "none"), ("n_rare", -5), ("n_rare", 10**9)],
)
def test_a_file_does_not_word_what_holds(field, value, tmp_path) -> None:
    cp = cx.ScoreAverage(kind="logits", calibration="class", random_state=0).fit(LOGITS, LABELS)
    cp.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["predictor"]["fitted"]["cuts"][field] = value
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=rf"damaged model file \(its cuts.{field} "):
        cx.load(tmp_path / "model.json")


@pytest.mark.parametrize("ratio", [-1.0, 1e400])
def test_a_file_with_weights_that_are_none_is_refused(ratio, tmp_path) -> None:
    shift = LabelShift((1.0,) * 10)
    cp = cx.ScoreAverage(kind="logits", calibration=shift, random_state=0).fit(LOGITS, LABELS)
    cp.save(tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["predictor"]["fitted"]["cuts"]["ratios"]["data"][3] = ratio
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput):
        cx.load(tmp_path / "model.json")


def test_a_search_spread_over_more_parts_than_rows_finds_the_same() -> None:
    pytest.importorskip("dask")
    found = [
        cx.ScoreAverage(kind="logits", search=search, allow_empty=False, random_state=0)
        .fit(LOGITS[:60], LABELS[:60])
        .weights_
        for search in (cx.search.GridSearch(5), cx.search.SpreadGrid(5, parts=100))
    ]
    assert_array_equal(*found)


class Elsewhere(ValidityFirst):
    """A split that never draws the same rows twice."""

    drawn: ClassVar[list[Roles]] = []

    def roles(self, n, n_test, rng, groups=None) -> Roles:
        order = np.random.default_rng(len(self.drawn)).permutation(n)
        tune, rest = np.sort(order[: n // 2]), np.sort(order[n // 2 :])
        self.drawn.append(Roles(tune, tune, rest))
        return self.drawn[-1]


@pytest.mark.parametrize("tensor_bytes", [2**30, 1000])
def test_the_rows_of_a_blend_are_drawn_once(tensor_bytes, monkeypatch) -> None:
    """Drawn again, another split would calibrate on rows whose labels the blend has seen."""
    monkeypatch.setattr(budget, "TENSOR_BYTES", tensor_bytes)
    Elsewhere.drawn.clear()
    cp = cx.ScoreAverage("auto", kind="logits", split=Elsewhere(), random_state=0)
    cp.fit(LOGITS, LABELS)
    (roles,) = Elsewhere.drawn
    assert cp.predictor_.fitted.n == len(roles.calibrate)
    other = LABELS.copy()
    other[roles.calibrate] = 0
    Elsewhere.drawn.clear()
    again = cx.ScoreAverage("auto", kind="logits", split=Elsewhere(), random_state=0)
    assert_array_equal(again.fit(LOGITS, other).blend_.coefficients, cp.blend_.coefficients)


def test_sets_that_are_changed_in_place_list_the_labels_that_they_hold() -> None:
    sets = cx.PredictionSets(np.array([[True, True]]), ["a", "b"], np.array([1, 0]))
    assert sets.labels(0) == ["b", "a"]
    same = sets
    same &= np.array([[True, False]])
    assert_array_equal(sets, [[True, False]])
    assert (sets.labels(0), sets.members()) == (["a"], [["a"]])
