"""``fit(..., test="each")``: scores learn from the calibration rows and the row to predict.

`test_learnt_scores` has the identity for refits; here are what a row gets, compared with a fit for
a batch of this one row, the identity of `recalibrate`, and how it fails.
"""

from __future__ import annotations

import pickle
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conformix as cx
from cases import Bag, FirstRowsTeach, FirstRowsTune, bags
from conformix.calibration import PerClass
from conformix.errors import InvalidInput
from conformix.fit.each_row import CalibrationRows, EachRow
from conformix.scores import Column
from conformix.search import GridSearch
from conformix.testing import leave_one_out
from guarantees.test_learnt_scores import (
    NAMES,
    average,
    covered_when_held_out,
    let_all_rows_teach_coefficients,
    other_rows,
    rows_without_ties,
)

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

LEVELS = [0.1, 0.3, 0.6]


def first(outputs: Any, rows: slice) -> Any:
    """Some rows of all models."""
    if isinstance(outputs, dict):
        return {model: values[rows] for model, values in outputs.items()}
    return outputs[rows]


def same_as_batches_of_one(cp: cx.ScoreAverage, outputs: Any, y: np.ndarray, n: int) -> None:
    """What the rows from n on get, all at once, is what each gets from a fit for it alone."""
    cp.set_params(random_state=0)
    later = first(outputs, slice(n, None))
    cp.fit(first(outputs, slice(n)), y[:n], test="each")
    assert isinstance(cp.predictor_, EachRow)
    sets, pvalues = cp.predict_set(later), cp.predict_pvalues(later)
    smoothed = cp.predict_pvalues(later, smoothed=True)
    nested = cp.predict_set(later, alpha=LEVELS)
    for i in range(len(y) - n):
        row = first(outputs, slice(n + i, n + i + 1))
        cp.fit(first(outputs, slice(n)), y[:n], test=row)
        assert np.array_equal(cp.predict_set(row).mask[0], sets.mask[i])
        assert cp.predict_set(row).labels(0) == sets.labels(i)
        assert np.array_equal(cp.predict_pvalues(row)[0], pvalues[i])
        assert np.array_equal(cp.predict_pvalues(row, smoothed=True)[0], smoothed[i])
        for level in LEVELS:
            assert np.array_equal(
                cp.predict_set(row, alpha=level).mask[0], nested.at(level).mask[i]
            )


@settings(max_examples=6)
@given(bag=bags(max_models=2, min_rows=5, max_rows=9), data=st.data())
@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "automatic"])
def test_every_row_gets_what_a_batch_of_it_alone_gets(
    scores: Any, bag: Bag, data: st.DataObject
) -> None:
    n_tune = data.draw(st.integers(1, len(bag.y) - 3), label="tuning rows")
    split = FirstRowsTeach(n_tune=n_tune) if scores == "auto" else FirstRowsTune(n_tune)
    cp = average(split, 0.3, scores)
    n = len(bag.y) - 1
    cp.fit(first(bag.outputs, slice(n)), bag.y[:n])
    learnt = cp.predictor_.columns if cp.blend_ is None else cp.blend_.columns
    if any(column.score.learns for column in learnt):
        same_as_batches_of_one(cp, bag.outputs, bag.y, n)


@pytest.mark.parametrize(
    "options",
    [
        {"allow_empty": False},
        {"calibration": PerClass("pooled")},
        {"normalize": "none"},
        {"scores": ("kin",)},
    ],
    ids=str,
)
def test_other_rules_and_calibrations_treat_the_row_as_a_batch(options: dict[str, Any]) -> None:
    probs, y = rows_without_ties(0, 44)
    scores = options.pop("scores", NAMES)
    search = {} if scores != NAMES else {"search": GridSearch(2)}
    cp = average(FirstRowsTune(15), 0.3, scores, **search, **options)
    same_as_batches_of_one(cp, probs, y, 40)


def test_logits_of_three_models_on_cifar_are_treated_alike() -> None:
    data = cx.datasets.load("cifar100")
    outputs = {model: values[:203] for model, values in data.outputs.items()}
    cp = cx.ScoreAverage("auto", alpha=0.05, kind="logits", random_state=0, threads=1)
    same_as_batches_of_one(cp, outputs, data.labels[:203], 200)


def test_a_batch_is_its_rows_one_by_one_in_any_order() -> None:
    probs, y = rows_without_ties(1, 60)
    cp = average(FirstRowsTune(20), 0.3).fit(probs[:50], y[:50], test="each")
    whole = cp.predict_set(probs[50:]).mask
    turned = cp.predict_set(probs[50:][::-1]).mask[::-1]
    single = np.concatenate([cp.predict_set(probs[i : i + 1]).mask for i in range(50, 60)])
    assert np.array_equal(whole, turned)
    assert np.array_equal(whole, single)


@pytest.mark.parametrize("scores", [("thr", "kin"), "auto"])
def test_batches_and_chunks_give_every_row_the_sets_of_memory(scores: Any) -> None:
    """The calibration rows are brought to memory from wherever they live."""
    da = pytest.importorskip("dask.array")
    data = cx.datasets.load("cifar10")
    outputs, y = data.outputs["vgg16"][:220], data.labels[:220]
    later = outputs[200:]
    cp = cx.ScoreAverage(scores, kind="logits", random_state=0)
    here = cp.fit(outputs[:200], y[:200], test="each").predict_set(later, alpha=LEVELS).depth
    pvalues = cp.predict_pvalues(later)
    chunks = da.from_array(later, chunks=(7, -1))
    there = cp.predict_set(chunks, alpha=LEVELS)
    for level in LEVELS:
        assert np.array_equal(there[level].compute(), cp.predict_set(later, alpha=level).mask)
    assert np.array_equal(cp.predict_pvalues(chunks).compute(), pvalues)
    rows = cx.stream.from_arrays(outputs[:200], y[:200], rows=30)
    cp.fit_batches(rows, test="each")
    assert np.array_equal(cp.predict_set(later, alpha=LEVELS).depth, here)
    cp.fit(da.from_array(outputs[:200], chunks=(70, -1)), y[:200], test="each")
    assert isinstance(cp.predictor_, EachRow)
    assert np.array_equal(cp.predict_set(later, alpha=LEVELS).depth, here)


def test_the_explanation_of_a_row_is_that_of_its_own_matrices_and_threshold() -> None:
    probs, y = rows_without_ties(1, 60)
    cp = average(FirstRowsTune(20), 0.3).fit(probs[:50], y[:50], test="each")
    told = cx.plots.explain_numbers(cp, probs[50:], 3)
    batch = cp.fit(probs[:50], y[:50], test=probs[53:54])
    alone = cx.plots.explain_numbers(batch, probs[53:54], 0)
    for name in ("labels", "combined", "thresholds", "included", "contributions"):
        assert np.array_equal(getattr(told, name), getattr(alone, name))


def test_a_pickled_average_predicts_the_same() -> None:
    probs, y = rows_without_ties(1, 60)
    cp = average(FirstRowsTune(20), 0.3).fit(probs[:50], y[:50], test="each")
    sets = cp.predict_set(probs[50:]).mask
    again = pickle.loads(pickle.dumps(cp))
    assert np.array_equal(again.predict_set(probs[50:]).mask, sets)


def test_tensors_come_back_as_tensors_with_the_same_sets() -> None:
    torch = pytest.importorskip("torch")
    probs, y = rows_without_ties(1, 60)
    cp = average(FirstRowsTune(20), 0.3).fit(probs[:50], y[:50], test="each")
    sets = cp.predict_set(probs[50:]).mask
    cp.fit(torch.tensor(probs[:50]), torch.tensor(y[:50]), test="each")
    theirs = cp.predict_set(torch.tensor(probs[50:])).mask
    assert isinstance(theirs, torch.Tensor)
    assert np.array_equal(theirs.numpy(), sets)


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "automatic"])
@pytest.mark.parametrize("others", [None, other_rows(6, 5)], ids=["", "unlabelled rows"])
def test_recalibration_covers_exactly_k_of_n_plus_one_rows(scores: Any, others: Any) -> None:
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, 60)
        split = FirstRowsTeach(n_tune=40) if scores == "auto" else FirstRowsTune(40)
        options = {} if scores == "auto" else {"normalize": "scale"}
        cp = average(split, alpha, scores, **options)
        cp.fit(probs[:50], y[:50], test="each", unlabelled=others)
        report = leave_one_out(cp.recalibrate, probs[50:], y[50:], alpha=alpha)
        assert report.covered == report.needed
        assert cp.guarantee_.kind == "exact"


def test_given_weights_need_no_rows_that_tune() -> None:
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, 12)
        weights = [0.1, 0.3, 0.5, 0.1]
        cp = cx.ScoreAverage(NAMES, alpha=alpha, weights=weights, normalize="scale")
        hits = covered_when_held_out(cp, probs, y, 0, "each row")
        assert hits == cx.conformal_rank(11, alpha)


# What breaks it.


def misses(scores: tuple[str, ...] = ("likeness",), seeds: Any = (0, 4, 16)) -> list[int]:
    """How many rows more or fewer than k are covered, in some bags without ties."""
    n_tune, n, alpha = 3, 10, 0.3
    equal = [[1 / len(scores)] * len(scores)]
    cp = average(FirstRowsTune(n_tune), alpha, scores, search=equal, normalize="none")
    found = []
    for seed in seeds:
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        hits = covered_when_held_out(cp, probs, y, n_tune, "each row")
        found.append(hits - cx.conformal_rank(n, alpha))
    return found


@pytest.mark.parametrize("times", [0, 1, 2])
def test_the_identity_fails_unless_the_row_teaches_as_often_as_the_others(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taught_by(self: CalibrationRows, row: Any) -> tuple[Column, ...]:
        taught = list(self.columns)
        for j, sums in self.sums.items():
            model, score = self.columns[j]
            own = score.sums(cx.scores.Ranked(row.models[model][:], row.kind))
            several = [own] * times
            total = reduce(lambda one, other: one.plus(other), several, sums)
            taught[j] = Column(model, score.learnt(total))
        return tuple(taught)

    monkeypatch.setattr(CalibrationRows, "taught_by", taught_by)
    found = misses()
    assert all(found) if times != 1 else not any(found)


def test_coefficients_that_saw_calibration_labels_break_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_all_rows_teach_coefficients(monkeypatch)
    missed = []
    for seed in range(4):
        probs, y = rows_without_ties(seed, 18)
        cp = average(FirstRowsTeach(n_tune=5), 0.3, "auto")
        hits = covered_when_held_out(cp, probs, y, 5, "each row")
        missed.append(hits - cx.conformal_rank(12, 0.3))
    assert any(missed)


# What is said, and what is refused.


def test_the_statement_is_exact_for_one_row_at_a_time() -> None:
    probs, y = rows_without_ties(0, 60)
    cp = average(FirstRowsTune(20), 0.3).fit(probs[:50], y[:50], test="each")
    for _ in range(2):
        ledger = cp.guarantee_
        assert ledger.kind == "exact"
        assert ledger.assumption.endswith(
            "; for one row at a time: scores learn from the calibration rows and the row that is "
            "predicted"
        )
        sources = {entry.source for entry in ledger.entries()}
        assert sources <= {"exact", "tuning rows", "rank, marginal"}
        cp.recalibrate(probs[20:50], y[20:50])
    verdict = cp.verdict(probs[50:], y[50:])
    assert verdict.coverage == cp.predict_set(probs[50:]).mask[np.arange(10), y[50:]].mean()
    assert verdict.law.pvalue is None
    assert "a threshold of its own" in str(verdict)
    with pytest.raises(InvalidInput, match="no false-alarm level of a drift check is known here"):
        cp.check_drift(probs[50:], y[50:])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"split": "exact", "search": "grid"}, 'split "exact" selects by tables of the scores'),
        ({"split": "efcp"}, 'under split "efcp" they choose them, so that no bound is known'),
        ({"split": "dlcp"}, 'split "dlcp" counts sizes on the test rows'),
        ({"guarantee": "pac"}, 'guarantee="pac" speaks of one threshold for all rows'),
        ({"scores": ("thr", "rank")}, 'test="each" is for scores that learn, and here none does'),
        ({"scores": "auto", "split": "exact"}, 'split "exact" selects by tables of the scores'),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_threshold_for_each_row_is_refused(
    options: dict[str, Any], sentence: str
) -> None:
    probs, y = rows_without_ties(0, 40)
    with pytest.raises(InvalidInput, match=sentence):
        cx.ScoreAverage(**({"scores": NAMES} | options)).fit(probs, y, test="each")


def test_another_word_for_test_is_refused() -> None:
    probs, y = rows_without_ties(0, 40)
    with pytest.raises(InvalidInput, match='test must hold real numbers, or be "each"; got'):
        cx.ScoreAverage(NAMES).fit(probs, y, test="every")


def test_no_one_threshold_is_shown_and_no_file_written(tmp_path: Any) -> None:
    probs, y = rows_without_ties(0, 40)
    cp = average(FirstRowsTune(20), 0.3).fit(probs, y, test="each")
    assert cp.held_out_size_ is None
    with pytest.raises(InvalidInput, match="gives every row a threshold of its own"):
        cp.threshold_  # noqa: B018
    with pytest.raises(InvalidInput, match="20 x 5 numbers for every model, which no model file"):
        cp.save(tmp_path / "model.json")


def test_automatic_scores_that_learn_nothing_predict_as_without_it() -> None:
    data = cx.datasets.load("mmlu_llama13b")
    probs, y = next(iter(data.outputs.values())), data.labels
    two = probs[:, :2], (y[:300] > 0).astype(int)
    cp = cx.ScoreAverage("auto", alpha=0.1, kind="logits", random_state=0)
    sets = cp.fit(two[0][:300], two[1], test="each").predict_set(two[0][300:400])
    assert np.array_equal(sets.mask, cp.fit(two[0][:300], two[1]).predict_set(two[0][300:400]).mask)


def test_a_classifier_takes_the_word_as_well() -> None:
    pytest.importorskip("sklearn")
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(0)
    y = rng.integers(4, size=300)
    X = rng.normal(size=(300, 3)) + y[:, None]
    model = cx.ConformalClassifier(GaussianNB(), scores=("thr", "kin"), random_state=0)
    model.fit(X[:250], y[:250], X_test="each")
    assert isinstance(model.conformal_.predictor_, EachRow)
    assert model.predict_set(X[250:]).sizes.mean() < 4
