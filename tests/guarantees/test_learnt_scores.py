"""Scores that learn keep the promise: the leave-one-out identity, and how it fails.

As in `test_leave_one_out`, each of n+1 rows is held out in turn; at least k of them are covered,
and exactly k where no scores tie. The tuning rows stay fixed. Where scores learn from a batch of
test rows, the held-out row is one of these, so that what is learnt is the same whichever row is
held out. Every way to learn that is not allowed breaks the identity, two-sided, where a mean over
many bags would not show it: too many rows covered in one bag hide too few in another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conformix as cx
import oracle
from cases import Bag, FirstRowsAside, FirstRowsTeach, FirstRowsTune, bags, levels
from conformix.fit import blend, learning
from conformix.guarantees import EXACT, Guarantee
from conformix.scores import Column
from conformix.scores.blend import BlendFit
from conformix.search import GridSearch
from conformix.splits import Roles

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

NAMES = ("thr", "likeness", "kin", "rarity")
# Weights that all have a part of `thr`: without ties in the outputs there are none in the scores.
CANDIDATES = [[0.4, 0.2, 0.2, 0.2], [0.1, 0.3, 0.5, 0.1], [0.1, 0.7, 0.1, 0.1]]
SOURCES = ("tuning rows", "unlabelled rows", "batch of one", "batch")
EVERY_SOURCE = (*SOURCES, "each row")


def teachers(source: str, held_out: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """What `fit` is given besides labelled rows, with one row held out."""
    if source == "unlabelled rows":
        return {"unlabelled": others}
    if source == "batch of one":
        return {"test": held_out}
    if source == "each row":
        return {"test": "each"}
    return {"test": np.concatenate([others[:2], held_out, others[2:]])} if source == "batch" else {}


def covered_when_held_out(
    cp: cx.ScoreAverage,
    outputs: np.ndarray,
    y: np.ndarray,
    first: int,
    source: str = "tuning rows",
    others: np.ndarray | None = None,
) -> int:
    """How many of the rows from `first` on are covered when held out of the fit."""
    hits = 0
    others = outputs[:0] if others is None else others
    for i in range(first, len(y)):
        held_out = outputs[i : i + 1]
        rows = teachers(source, held_out, others)
        cp.fit(np.delete(outputs, i, axis=0), np.delete(y, i), **rows)
        hits += bool(np.asarray(cp.predict_set(held_out))[0, y[i]])
    return hits


def average(split: Any, alpha: float, scores: Any = NAMES, **options: Any) -> cx.ScoreAverage:
    if scores != "auto":
        options = {"search": GridSearch(2)} | options
    return cx.ScoreAverage(scores, alpha=alpha, split=split, threads=1, **options)


def rows_without_ties(seed: int, n: int, n_classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Noisy outputs (n, K) in which neighbouring labels go together, and labels without noise."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n_classes) / n_classes
    labels = np.stack([np.cos(angle), np.sin(angle)])
    logits = 2 * rng.normal(size=(n, 2)) @ labels
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn by the softmax
    powers = np.exp(logits + rng.normal(size=logits.shape))
    return powers / powers.sum(axis=1, keepdims=True), y


def other_rows(n: int, n_classes: int) -> np.ndarray:
    """Rows that are none of a bag."""
    return np.random.default_rng(n_classes).dirichlet(np.full(n_classes, 0.7), size=n)


# What is promised.


@settings(max_examples=12)
@given(bag=bags(max_models=1, min_rows=3, max_rows=9), level=levels(), data=st.data())
@pytest.mark.parametrize("source", EVERY_SOURCE)
@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "automatic"])
def test_at_least_k_of_n_plus_one_rows_are_covered_with_ties(
    scores: Any, source: str, bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    n_tune = data.draw(st.integers(1, len(bag.y) - 2), label="tuning rows")
    enough_of_a_bag_are_covered(scores, source, bag, level, n_tune)


def enough_of_a_bag_are_covered(
    scores: Any, source: str, bag: Bag, level: tuple[float, Fraction], n_tune: int
) -> cx.ScoreAverage:
    """Assert it of the rows that do not tune; return what was fitted last."""
    alpha, meant = level
    others = other_rows(4, bag.outputs["a"].shape[1])
    if source == "batch":
        others = bag.test["a"]  # ties between test and calibration rows
    split = FirstRowsTeach(n_tune=n_tune) if scores == "auto" else FirstRowsTune(n_tune)
    cp = average(split, alpha, scores)
    hits = covered_when_held_out(cp, bag.outputs["a"], bag.y, n_tune, source, others)
    assert hits >= oracle.conformal_rank(len(bag.y) - n_tune - 1, meant)
    return cp


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), level=levels())
@pytest.mark.parametrize("source", EVERY_SOURCE)
def test_exactly_k_of_n_plus_one_rows_are_covered_without_ties(
    source: str, seed: int, n: int, level: tuple[float, Fraction]
) -> None:
    alpha, meant = level
    probs, y = rows_without_ties(seed, 8 + n + 1)
    cp = average(FirstRowsTune(8), alpha, search=CANDIDATES, normalize="scale")
    hits = covered_when_held_out(cp, probs, y, 8, source, other_rows(5, 5))
    assert hits == oracle.conformal_rank(n, meant)


@pytest.mark.parametrize("source", EVERY_SOURCE)
def test_automatic_scores_cover_exactly_k_of_n_plus_one_rows_without_ties(source: str) -> None:
    n_tune, n, learns = 40, 9, 0
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        cp = average(FirstRowsTeach(n_tune=n_tune), alpha, "auto")
        hits = covered_when_held_out(cp, probs, y, n_tune, source, other_rows(5, 5))
        assert hits == cx.conformal_rank(n, alpha)
        learns += any(column.score.learns for column in cp.predictor_.blend.columns)
    assert learns >= 3


@settings(max_examples=12)
@given(bag=bags(max_models=1, min_rows=3, max_rows=9), level=levels(), data=st.data())
@pytest.mark.parametrize("source", SOURCES)
def test_the_exact_split_with_a_shortlist_covers_at_least_k_of_n_plus_one_rows_with_ties(
    source: str, bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    alpha, meant = level
    n_tune = data.draw(st.integers(1, len(bag.y) - 2), label="rows set aside")
    split = FirstRowsAside(shortlist=3, n_tune=n_tune)
    others = other_rows(4, bag.outputs["a"].shape[1])
    cp = average(split, alpha)
    hits = covered_when_held_out(cp, bag.outputs["a"], bag.y, n_tune, source, others)
    assert hits >= oracle.conformal_rank(len(bag.y) - n_tune - 1, meant)


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_the_exact_split_covers_exactly_k_of_n_plus_one_rows_without_ties(scores: Any) -> None:
    n_tune, n = 12, 9
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, n_tune + n + 1)
        options = {} if scores == "auto" else {"search": CANDIDATES}
        cp = average(FirstRowsAside(shortlist=2, n_tune=n_tune), alpha, scores, **options)
        hits = covered_when_held_out(cp, probs, y, n_tune)
        assert hits == cx.conformal_rank(n, alpha)


def test_the_exact_split_learns_from_other_rows_alone_where_it_sets_none_aside() -> None:
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, 10)
        cp = average("exact", alpha, search=CANDIDATES)
        hits = covered_when_held_out(cp, probs, y, 0, "unlabelled rows", other_rows(9, 5))
        assert hits == cx.conformal_rank(9, alpha)


def test_given_weights_and_other_rows_cover_exactly_k_of_n_plus_one_rows() -> None:
    for seed, alpha in enumerate((0.1, 0.2, 0.3, 0.5)):
        probs, y = rows_without_ties(seed, 10)
        cp = cx.ScoreAverage(NAMES, alpha=alpha, weights=CANDIDATES[1], normalize="scale")
        hits = covered_when_held_out(cp, probs, y, 0, "unlabelled rows", other_rows(9, 5))
        assert hits == cx.conformal_rank(9, alpha)


# What breaks it. The scores alone, so that nothing hides what they learnt from.


Sources = Callable[[Any, Roles], list[Any]]


@contextmanager
def learning_from(sources: Sources) -> Iterator[None]:
    """Let scores learn, in the end, from such outputs, whatever is allowed."""

    def columns_of(rows: Any, columns: Any, roles: Roles, settings: Any) -> tuple[Column, ...]:
        outputs = sources(rows, roles)
        return tuple(
            Column(model, score.learnt(learning.add_up(score, model, outputs)))
            if score.learns
            else Column(model, score)
            for model, score in columns
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "with_batch", columns_of)
        patch.setattr(blend, "with_batch", columns_of)
        yield


BATCH: Sources = lambda rows, roles: [rows.outputs, rows.test]  # noqa: E731
WRONG: dict[str, Sources] = {
    "calibration rows alone": lambda rows, roles: [rows.take(roles.calibrate).outputs],
    "tuning and calibration rows": lambda rows, roles: [rows.outputs],  # the test row left out
    "test rows alone": lambda rows, roles: [rows.test],
    "tuning and test rows": lambda rows, roles: [rows.take(roles.tune).outputs, rows.test],
    "labels": lambda rows, roles: [rows.outputs.rows(np.flatnonzero(rows.y > 1)), rows.test],
    "the test row twice": lambda rows, roles: [rows.outputs, rows.test, rows.test],
}


def misses(
    sources: Sources,
    scores: tuple[str, ...],
    seeds: tuple[int, ...] = (0, 4, 16),
    source: str = "batch of one",
) -> list[int]:
    """How many rows more or fewer than k are covered, in some bags without ties."""
    n_tune, n, alpha = 3, 10, 0.3
    equal = [[1 / len(scores)] * len(scores)]
    cp = average(FirstRowsTune(n_tune), alpha, scores, search=equal, normalize="none")
    found = []
    with learning_from(sources):
        for seed in seeds:
            probs, y = rows_without_ties(seed, n_tune + n + 1)
            hits = covered_when_held_out(cp, probs, y, n_tune, source, other_rows(3, 5))
            found.append(hits - cx.conformal_rank(n, alpha))
    return found


@pytest.mark.parametrize("scores", [("likeness",), ("kin",), ("rarity", "thr")], ids=str)
def test_the_way_to_learn_by_hand_keeps_the_identity_where_it_is_the_right_one(
    scores: tuple[str, ...],
) -> None:
    for source in ("batch of one", "batch"):
        assert misses(BATCH, scores, (1, 11), source) == [0, 0]


@pytest.mark.parametrize("sources", WRONG.values(), ids=WRONG)
def test_the_identity_fails_where_scores_learn_from_rows_that_are_not_alike(
    sources: Sources,
) -> None:
    assert all(misses(sources, ("likeness",)))


def test_matrices_of_calibration_rows_cover_too_few_rows_of_a_bag() -> None:
    for sources in (WRONG["calibration rows alone"], WRONG["tuning and calibration rows"]):
        assert max(misses(sources, ("likeness",))) < 0
        assert max(misses(sources, ("kin",), (11, 16, 19))) < 0


def test_matrices_of_test_rows_cover_too_few_rows_of_a_bag_with_a_rarity_of_their_own() -> None:
    assert max(misses(WRONG["test rows alone"], ("rarity", "thr"), (1, 4, 5))) < 0


def test_unlabelled_rows_that_are_predicted_break_the_identity() -> None:
    """Nothing can see this mistake in the fit; the ledger names the assumption."""
    missed = []
    for seed in range(3):
        probs, y = rows_without_ties(seed, 14)
        cp = average(
            FirstRowsTune(3), 0.3, ("likeness", "kin"), search=[[0.5, 0.5]], normalize="none"
        )
        hits = 0
        for i in range(3, 14):
            held_out = probs[i : i + 1]
            cp.fit(np.delete(probs, i, axis=0), np.delete(y, i), unlabelled=held_out)
            hits += bool(np.asarray(cp.predict_set(held_out))[0, y[i]])
        missed.append(hits - cx.conformal_rank(10, 0.3))
    assert any(missed)
    assert "the 1 unlabelled row neither calibrates nor is predicted" in str(cp.guarantee_)


@dataclass(frozen=True)
class EveryRowTunes:
    """Claims to be exact, and chooses weights on the rows that calibrate."""

    n_tune: int
    name: ClassVar[str] = "every row tunes"
    guarantee: ClassVar[Guarantee] = EXACT
    needs_test: ClassVar[bool] = False

    def roles(self, n: int, n_test: int, rng: Any, groups: Any = None) -> Roles:
        return Roles(np.arange(n), np.arange(n), np.arange(self.n_tune, n))


def test_weights_that_saw_calibration_labels_break_the_identity() -> None:
    missed = []
    for seed in range(6):
        probs, y = rows_without_ties(seed, 14)
        cp = average(EveryRowTunes(3), 0.3, search=GridSearch(4), normalize="none")
        hits = covered_when_held_out(cp, probs, y, 3)
        missed.append(hits - cx.conformal_rank(10, 0.3))
        assert cp.guarantee_.kind == "none"
    assert min(missed) < 0


def let_all_rows_teach_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the leak that the identity must see."""
    learn_blend, fit_blend = blend.learn_blend, blend.fit_blend

    def leaking(rows: Any, *rest: Any) -> Any:
        def fit_on_all(outputs: Any, y: Any, columns: Any, **options: Any) -> Any:
            del options["left_out"], options["room"]
            leaky = fit_blend(rows.outputs.to_host(), rows.y, columns, **options).blend
            return BlendFit(leaky, leaky.of_rows(outputs))

        monkeypatch.setattr(blend, "fit_blend", fit_on_all)
        return learn_blend(rows, *rest)

    monkeypatch.setattr("conformix.fit.fit.learn_blend", leaking)


def test_coefficients_that_saw_calibration_labels_break_the_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_all_rows_teach_coefficients(monkeypatch)
    missed = []
    for seed in (3, 4):
        probs, y = rows_without_ties(seed, 18)
        hits = covered_when_held_out(average(FirstRowsTeach(n_tune=5), 0.3, "auto"), probs, y, 5)
        missed.append(hits - cx.conformal_rank(12, 0.3))
    assert max(missed) < 0
