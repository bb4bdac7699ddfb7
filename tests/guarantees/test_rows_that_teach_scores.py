"""What is said of scores that learn: from which rows, for whom the promise is, and what is refused.

`test_learnt_scores` shows that it is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conformix as cx
from cases import FirstRowsTeach, FirstRowsTune
from conformix.data.outputs import check_outputs
from conformix.data.row_data import NO_DATA
from conformix.errors import InvalidInput
from conformix.fit import learning
from conformix.fit.learning import learn_from
from conformix.fit.rows import ArrayRows
from conformix.guarantees import RankRule
from conformix.scores import Column, Ranked
from conformix.scores.blend import dictionary_columns, fit_blend
from conformix.scores.learnt import N_PARTS, Kin, Likeness
from conformix.search import GridSearch
from conformix.splits import EfficiencyFirst, Exact, Roles, ValidityFirst
from conformix.testing import audit_roles, fitted_numbers, moved_numbers

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

K, N = 5, 60
NAMES = ("thr", "likeness", "kin", "rarity")


def drawn_rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy outputs (n, K) in which neighbouring labels go together, and labels without noise."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(K) / K
    logits = 2 * rng.normal(size=(n, 2)) @ np.stack([np.cos(angle), np.sin(angle)])
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    powers = np.exp(logits + rng.normal(size=logits.shape))
    return powers / powers.sum(axis=1, keepdims=True), y


P, Y = drawn_rows(0, N)
TEST = drawn_rows(1, 30)[0]
OTHERS = drawn_rows(2, 40)[0]
FRESH = drawn_rows(3, 50)


def average(**options: Any) -> cx.ScoreAverage:
    usual: dict[str, Any] = {"scores": NAMES, "alpha": 0.2, "random_state": 0, "threads": 1}
    if options.get("scores") != "auto":
        usual["search"] = GridSearch(2)
    return cx.ScoreAverage(**{"scores": "paper"} | usual | options)


def said(cp: cx.ScoreAverage) -> str:
    """What a fit promises, with every bound."""
    return cp.predictor_.fitted.ledger.table()


EXCHANGEABLE = (
    "exact: P(y in set) >= 1 - alpha (calibration and test rows exchangeable; weights chosen "
    "without these rows; every label among the classes"
)
FULL = (
    "exact: P(y in set) >= 1 - alpha (calibration and test rows exchangeable; every candidate "
    "label takes part in the selection; every label among the classes"
)
APART = "; the 40 unlabelled rows neither calibrate nor are predicted"
ALONE = "; for the 30 test rows of the fit, which scores learnt from, alone"
SOURCES: dict[str, tuple[dict[str, np.ndarray], str]] = {
    "tuning rows": ({}, ""),
    "unlabelled": ({"unlabelled": OTHERS}, APART),
    "batch": ({"test": TEST}, ALONE),
    "both": ({"unlabelled": OTHERS, "test": TEST}, APART + ALONE),
}


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
@pytest.mark.parametrize(("rows", "more"), SOURCES.values(), ids=SOURCES)
def test_the_statement_names_the_rows_that_taught_the_scores(
    rows: dict[str, np.ndarray], more: str, scores: Any
) -> None:
    cp = average(scores=scores).fit(P, Y, **rows)
    assert str(cp.guarantee_) == f"{EXCHANGEABLE}{more})"


@pytest.mark.parametrize(
    "options",
    [{"split": Exact(shortlist=2)}, {"scores": "auto", "split": "exact"}],
    ids=["a shortlist", "auto"],
)
@pytest.mark.parametrize(("rows", "more"), SOURCES.values(), ids=SOURCES)
def test_the_exact_split_names_other_rows_and_does_not_look_at_the_test_rows(
    rows: dict[str, np.ndarray], more: str, options: dict[str, Any]
) -> None:
    cp = average(**options).fit(P, Y, **rows)
    assert str(cp.guarantee_) == f"{FULL}{more.replace(ALONE, '')})"
    without = {name: values for name, values in rows.items() if name != "test"}
    again = average(**options).fit(P, Y, **without)
    assert moved_numbers(fitted_numbers(cp), fitted_numbers(again)) == ([], [])


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize("split", ["efcp", "dlcp", "dlcp+"])
def test_where_calibration_rows_teach_scores_no_bound_is_known(split: str, guarantee: str) -> None:
    # A scale that learns nothing: with scores that learn nothing there is a statement.
    options = {"split": split, "normalize": "scale", "guarantee": guarantee, "alpha": 0.4}
    plain = average(scores=("thr", "rank"), **options).fit(P, Y, test=TEST)
    assert plain.guarantee_.kind == ("pac" if guarantee == "pac" else "approximate")
    for scores in (NAMES, ("thr", "kin"), ("rarity", "thr")):
        cp = average(scores=scores, **options).fit(P, Y, test=TEST)
        assert cp.guarantee_.kind == "none"
        assert cp.guarantee_.statement == "no finite-sample bound is known"
        facts = cp.predictor_.fitted.ledger.facts
        assert facts.learnt_scale
        assert facts.n_batch == 0  # test rows teach nothing beside labelled rows that tune
        assert "coverage" not in said(cp)


def test_a_batch_fit_speaks_of_its_batch_in_every_entry() -> None:
    cp = average().fit(P, Y, test=TEST)
    entries = {entry.source: entry.says for entry in cp.predictor_.fitted.ledger.entries()}
    assert sorted(entries) == ["exact", "order statistic, batch", "rank, marginal", "tuning rows"]
    assert entries["rank, marginal"].startswith("coverage of a row of the batch >= ")
    assert entries["order statistic, batch"].startswith("coverage of this batch >= ")
    assert "fresh" not in said(cp)


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_pac_for_a_batch_that_scores_learnt_from_is_that_of_the_batch(scores: Any) -> None:
    cp = average(scores=scores, guarantee="pac").fit(P, Y, test=TEST)
    facts = cp.predictor_.fitted.ledger.facts
    assert facts.rank == RankRule(0.1, batch=30)
    assert cp.guarantee_.statement == (
        "coverage of the fitted batch of 30 rows >= 1 - alpha with probability >= 0.9 over "
        "calibration and batch"
    )
    assert cp.guarantee_.assumption.endswith(ALONE)
    calibration = np.sort(cp.predictor_.fitted.calibration)
    k = RankRule(0.1, batch=30)(facts.n_cal, 0.2)
    assert k > RankRule()(facts.n_cal, 0.2)
    assert cp.predictor_.fitted.threshold(0.2) == calibration[facts.n_cal - k]


def test_pac_with_thresholds_per_class_for_such_a_batch_is_refused() -> None:
    for scores in (NAMES, "auto"):
        cp = average(scores=scores, guarantee="pac", calibration="class")
        with pytest.raises(InvalidInput) as caught:
            cp.fit(P, Y, test=TEST)
        assert str(caught.value) == (
            'guarantee="pac" for a batch that scores learn from speaks of the whole batch, and '
            'calibration "class" of parts of unknown size; leave out test, or say '
            'guarantee="marginal".'
        )
        assert cp.fit(P, Y).guarantee_.kind == "pac"


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_recalibrated_scores_of_a_batch_speak_for_all_other_rows(
    scores: Any, guarantee: str
) -> None:
    cp = average(scores=scores, guarantee=guarantee).fit(P, Y, test=TEST, unlabelled=OTHERS)
    for _ in range(2):  # once more makes no difference
        cp.recalibrate(*FRESH)
        facts = cp.predictor_.fitted.ledger.facts
        assert (facts.split, facts.n_batch, facts.n_unlabelled) == ("fixed", 30, 40)
        assert facts.rank.batch is None
        assert cp.guarantee_.assumption.endswith(
            f"{APART}; calibrated on no row of the fit; not for its 30 test rows, which scores "
            "learnt from"
        )
        assert "of this batch" not in said(cp)
        assert said(cp).count("coverage of a fresh row >= ") == 2


def test_the_batch_teaches_scores_and_no_weights() -> None:
    for scores in (NAMES, "auto"):
        with_batch = fitted_numbers(average(scores=scores).fit(P, Y, test=TEST))
        without = fitted_numbers(average(scores=scores).fit(P, Y))
        learnt, _ = moved_numbers(without, with_batch)
        # The blend has one candidate: its size on the tuning rows is read, no more.
        assert set(learnt) - {"search"} == {"matrices"}


def test_rows_without_labels_are_named_where_coefficients_left_no_score_that_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing_gained(scores: np.ndarray, y: Any, prior: np.ndarray, *_: Any) -> np.ndarray:
        return prior

    monkeypatch.setattr("conformix.scores.blend.most_likely", nothing_gained)
    cp = average(scores="auto").fit(P, Y, unlabelled=OTHERS, test=TEST)
    assert not any(column.score.learns for column in cp.predictor_.blend.columns)
    assert str(cp.guarantee_) == f"{EXCHANGEABLE}{APART})"  # and no batch


def test_rows_that_nothing_looked_at_are_not_named() -> None:
    two = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)  # two labels: nothing to learn
    others = OTHERS[:, :2] / OTHERS[:, :2].sum(axis=1, keepdims=True)
    cp = average(scores="auto").fit(two, Y % 2, unlabelled=others)
    assert str(cp.guarantee_) == f"{EXCHANGEABLE})"
    few = average(scores="auto", alpha=0.2).fit(P[:4], Y[:4], unlabelled=OTHERS)  # all calibrate
    assert str(few.guarantee_) == f"{EXCHANGEABLE})"


# What is refused.


def refusal(cp: cx.ScoreAverage, *rows: Any, **more: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        cp.fit(*rows, **more)
    return str(caught.value)


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_calibration_rows_among_those_without_labels_are_refused(scores: Any) -> None:
    cp = average(scores=scores)
    calibrates = audit_roles(cp.fit, P[:20], Y[:20], draws=0).calibrates
    first = int(np.flatnonzero(calibrates)[2])
    own = np.concatenate([OTHERS, P[first : first + 1]])
    assert refusal(cp, P[:20], Y[:20], unlabelled=own) == (
        "unlabelled must hold other rows than those that calibrate; 1 of these are among them, the "
        f"first is row {first}."
    )
    tuning = P[:20][~calibrates]  # they teach anyhow
    cp.fit(P[:20], Y[:20], unlabelled=np.concatenate([OTHERS, tuning]))


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_rows_of_the_batch_among_those_without_labels_are_refused(scores: Any) -> None:
    own = np.concatenate([OTHERS, TEST[[7, 9]]])
    assert refusal(average(scores=scores), P, Y, test=TEST, unlabelled=own) == (
        "unlabelled must hold other rows than those of test; 2 of these are among them, the first "
        "is row 7."
    )


def test_where_rows_cannot_be_told_apart_nothing_is_refused() -> None:
    coarse, others = np.round(P, 1), np.round(OTHERS, 1)
    coarse /= coarse.sum(axis=1, keepdims=True)
    others /= others.sum(axis=1, keepdims=True)
    repeated = np.tile(coarse[:10], (6, 1))
    average().fit(repeated, Y, unlabelled=repeated)
    one_label = np.ones((6, 1))
    average(scores=("thr", "likeness")).fit(one_label, np.zeros(6, int), unlabelled=one_label)
    # Rows that are equal by saturation: of some labels, in otherwise distinct rows.
    sure, same = P.copy(), OTHERS.copy()
    sure[:3] = same[:2] = np.eye(K)[0]
    average().fit(sure, Y, unlabelled=same)


def test_rows_without_labels_are_refused_where_no_score_learns() -> None:
    assert refusal(average(scores=("thr", "rank")), P, Y, unlabelled=OTHERS) == (
        "unlabelled is for scores that learn, and here none does: thr, rank; leave it out, or name "
        'likeness, kin or rarity, or say scores="auto".'
    )
    both = {"a": P, "b": P[::-1]}
    message = refusal(average(scores="thr"), both, Y, unlabelled={"a": OTHERS, "b": OTHERS})
    assert ": thr; leave it out" in message


@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_calibration_rows_among_those_without_labels_are_refused_by_every_door(scores: Any) -> None:
    da = pytest.importorskip("dask.array")
    own = np.concatenate([OTHERS, P])
    here = refusal(average(scores=scores), P, Y, unlabelled=own)
    assert "unlabelled must hold other rows than those that calibrate" in here
    chunks = da.from_array(P, chunks=(20, K)), da.from_array(Y, chunks=20)
    assert refusal(average(scores=scores), *chunks, unlabelled=own) == here
    with pytest.raises(cx.InvalidInput) as error:
        average(scores=scores).fit_batches([(P, Y)], unlabelled=iter([OTHERS, P]))
    assert str(error.value) == here


def test_scores_that_learn_need_rows_that_do_not_calibrate() -> None:
    for options in ({"weights": [0.25] * 4, "normalize": "scale"}, {"split": "exact"}):
        cp = average(**options)
        assert refusal(cp, P, Y) == (
            "likeness, kin, rarity: learns from rows that do not calibrate, and here all rows do; "
            'say split="holdout" (vfcp), or give other rows as fit(..., unlabelled=outputs).'
        )
        assert APART in str(cp.fit(P, Y, unlabelled=OTHERS).guarantee_)


def test_more_rows_than_their_sums_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learning.MOST_ROWS * 2**40 < 2**63
    monkeypatch.setattr(learning, "MOST_ROWS", 40)
    average().fit(P, Y)
    assert refusal(average(), P, Y, test=TEST) == (
        'score "likeness" adds up at most 40 rows; got 90, so give fewer rows as unlabelled or '
        "test."
    )


# What travels.


@pytest.mark.parametrize("guarantee", ["marginal", "pac"])
@pytest.mark.parametrize(("rows", "more"), SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("scores", [NAMES, "auto"], ids=["named", "auto"])
def test_a_saved_model_knows_the_rows_that_taught_its_scores(
    scores: Any, rows: dict[str, np.ndarray], more: str, guarantee: str, tmp_path: Path
) -> None:
    cp = average(scores=scores, guarantee=guarantee).fit(P, Y, **rows)
    for _ in range(2):
        cp.save(tmp_path / "model.json")
        loaded = cx.load(tmp_path / "model.json")
        assert loaded.guarantee_ == cp.guarantee_
        assert loaded.predictor_.fitted.ledger.facts == cp.predictor_.fitted.ledger.facts
        cx.testing.assert_same_sets(loaded.predict_set(TEST), cp.predict_set(TEST))
        cp.recalibrate(*FRESH)


def test_a_saved_exact_split_knows_the_rows_that_taught_its_scores(tmp_path: Path) -> None:
    cp = average(split="exact").fit(P, Y, unlabelled=OTHERS)
    cp.save(tmp_path / "model.json")
    loaded = cx.load(tmp_path / "model.json")
    assert str(loaded.guarantee_) == str(cp.guarantee_) == f"{FULL}{APART})"
    cx.testing.assert_same_sets(loaded.predict_set(TEST), cp.predict_set(TEST))


# What a search sees of rows that taught a score.


@pytest.mark.parametrize(
    ("split", "n_tune"),
    [(FirstRowsTune(30), 30), (FirstRowsTeach(n_tune=30), 30), ("efcp", N)],
    ids=["scores of all rows held", "scores of tuning rows held", "efcp"],
)
def test_rows_that_taught_a_score_are_searched_by_values_that_leave_them_out(
    split: Any, n_tune: int
) -> None:
    seen: list[np.ndarray] = []

    class Looking(GridSearch):
        def __call__(self, objective: Any, rng: Any = None) -> Any:
            seen.append(np.array(objective.true_scores))
            return super().__call__(objective, rng)

    cp = average(scores=("likeness", "kin"), split=split, search=Looking(2), normalize="none")
    cp.fit(P, Y)
    ranked, place = Ranked(P[:n_tune]), (np.arange(n_tune), Y[:n_tune])
    for j, score in enumerate((Likeness(), Kin())):
        sums = score.sums(ranked)
        left_out = score.left_out(ranked, sums, np.arange(n_tune) % N_PARTS)[place]
        np.testing.assert_array_equal(np.sort(seen[0][:, j]), np.sort(left_out))
        assert (left_out != score.learnt(sums)(ranked)[place]).all()


def test_coefficients_come_from_values_that_leave_the_rows_out() -> None:
    cp = average(scores="auto", split=FirstRowsTeach(n_tune=30)).fit(P, Y)
    blend, ranked = cp.predictor_.blend, Ranked(P[:30])
    columns = dictionary_columns(check_outputs(P[:30]))
    taught, left_out = list(columns), {}
    for j, (model, score) in enumerate(columns):
        if score.learns:
            sums = score.sums(ranked)
            left_out[j] = score.left_out(ranked, sums, np.arange(30) % N_PARTS)
            taught[j] = Column(model, score.learnt(sums))
    again = fit_blend(check_outputs(P[:30]), Y[:30], taught, left_out=left_out).blend
    by_rote = fit_blend(check_outputs(P[:30]), Y[:30], taught).blend
    np.testing.assert_array_equal(blend.coefficients, again.coefficients)
    assert not np.array_equal(again.coefficients, by_rote.coefficients)


@pytest.mark.parametrize("kind", ["probs", "logits"])
@pytest.mark.parametrize("evident", [False, True])
def test_a_blend_counts_sizes_by_values_that_leave_the_rows_out(
    kind: Any, evident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, and the same wherever the rows are; those that calibrate have the blend itself."""
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("conformix.scores.blend.has_evidence", lambda *_: evident)
    values = P if kind == "probs" else np.log(P)
    cp = average(scores="auto", split=FirstRowsTeach(n_tune=30), kind=kind)
    with monkeypatch.context() as cut:  # into blocks of seven rows
        cut.setattr("conformix.scores.blend.CACHE_ENTRIES", 7 * K)
        cp.fit(values, Y)
    rows = ArrayRows(check_outputs(values[:30], kind), Y[:30], NO_DATA)
    learnt = learn_from(rows, rows, dictionary_columns(rows.outputs))
    ours = fit_blend(rows.outputs, rows.y, learnt.columns, left_out=learnt.left_out).of_teachers
    if kind == "logits" and not evident:
        ours = Ranked(ours, "logits").probs
    in_sample = cp.predictor_.scores(cp.predictor_.check(values[:30]))[..., 0]
    assert not np.isclose(ours, in_sample).any(axis=1).all()
    threshold = np.sort(ours[np.arange(30), Y[:30]])[::-1][cx.conformal_rank(30, 0.2) - 1]
    assert cp.search_.count == np.count_nonzero(ours >= threshold)
    of_others = cp.predictor_.scores(cp.predictor_.check(values[30:]))[np.arange(30), Y[30:], 0]
    np.testing.assert_array_equal(np.sort(of_others), np.sort(cp.predictor_.fitted.calibration))

    chunks = da.from_array(values, chunks=(20, K)), da.from_array(Y, chunks=20)
    again = [
        cp.fit(*chunks).search_,
        cp.fit_batches([(values[:25], Y[:25]), (values[25:], Y[25:])]).search_,
    ]
    monkeypatch.setattr("conformix.scores.blend.COMPUTED_TOGETHER", 0)
    again.append(cp.fit(values, Y).search_)
    monkeypatch.setattr("conformix.fit.rows.TENSOR_BYTES", 0)
    again.append(cp.fit(values, Y).search_)
    assert [found.count for found in again] == 4 * [np.count_nonzero(ours >= threshold)]


@dataclass(frozen=True)
class HalfDoesBoth(EfficiencyFirst):
    """A split of somebody's own: every other row tunes and teaches, and all calibrate."""

    def roles(self, n: int, n_test: int, rng: Any, groups: Any = None) -> Roles:
        return Roles(np.arange(0, n, 2), np.arange(0, n, 2), np.arange(n))


@dataclass(frozen=True)
class HalfDoesBothGathered(ValidityFirst):
    """The same where scores are gathered, and no tensor of all rows is held."""

    def roles(self, n: int, n_test: int, rng: Any, groups: Any = None) -> Roles:
        return HalfDoesBoth().roles(n, n_test, rng, groups)


def test_rows_that_taught_calibrate_with_the_values_that_leave_them_out() -> None:
    """In whichever way the scores are held."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), size=40)
    y = (probs.cumsum(axis=1) < rng.random((40, 1))).sum(axis=1).clip(max=3)
    first, second = (
        cx.ScoreAverage(
            ("thr", "kin"), alpha=0.2, split=split, search=np.array([[0.5, 0.5]]), normalize="scale"
        )
        .fit(probs, y)
        .predictor_.fitted.calibration
        for split in (HalfDoesBoth(), HalfDoesBothGathered())
    )
    np.testing.assert_array_equal(first, second)


def test_rows_that_taught_a_blend_calibrate_with_the_values_that_leave_them_out() -> None:
    cp = average(scores="auto", split=HalfDoesBothGathered()).fit(P, Y)
    in_batches = average(scores="auto", split=HalfDoesBothGathered()).fit_batches([(P, Y)])
    rows = ArrayRows(check_outputs(P[::2]), Y[::2], NO_DATA)
    learnt = learn_from(rows, rows, dictionary_columns(rows.outputs))
    ours = fit_blend(rows.outputs, rows.y, learnt.columns, left_out=learnt.left_out).of_teachers
    others = cp.predictor_.scores(cp.predictor_.check(P[1::2]))[np.arange(30), Y[1::2], 0]
    expected = np.concatenate([ours[np.arange(30), Y[::2]], others])
    for found in (cp, in_batches):
        own = np.sort(found.predictor_.fitted.calibration)
        np.testing.assert_array_equal(own, np.sort(expected))
