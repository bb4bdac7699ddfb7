"""`allow_empty=False`: the best labels of a row, all tied ones, count as infinite everywhere.

Under the exact split, where every label has weights of its own, their p-values count as 1.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.calibration import Clustered, LabelShift, PerClass, PerGroup
from conformix.fit.tuning import BesideBest, TuningRows
from conformix.kernels import combine
from conformix.kernels.twins import WORTHWHILE, compile_for
from conformix.search import GridSearch
from conformix.search.nonempty import BesideBestObjective, NonEmptyObjective
from conformix.search.objective import SearchResult
from conformix.splits import Exact
from conformix.testing import leave_one_out

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")


def tied_rows(n=80, n_classes=5, seed=0):
    """Rows of small whole numbers over their sum: many ties, at the top as well."""
    rng = np.random.default_rng(seed)
    probs = rng.integers(1, 4, size=(n, n_classes)).astype(float)
    probs /= probs.sum(axis=1, keepdims=True)
    return probs, rng.integers(n_classes, size=n)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.6, 0.9])
def test_calibration_and_prediction_lift_the_same_labels(alpha):
    """By hand: lift, take the k-th largest lifted true-label score, compare lifted scores."""
    probs, y = tied_rows()
    lifted = np.where(probs == probs.max(axis=1, keepdims=True), np.inf, probs)
    own = np.sort(lifted[np.arange(len(y)), y])[::-1]
    threshold = own[cx.conformal_rank(len(y), alpha) - 1]
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=alpha, allow_empty=False).fit(probs, y)
    assert cp.threshold_ == threshold
    assert_array_equal(np.asarray(cp.predict_set(probs)), lifted >= threshold)


def test_labels_that_tie_at_the_top_are_in_together():
    probs, y = tied_rows()
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=0.9, allow_empty=False).fit(probs, y)
    top = probs == probs.max(axis=1, keepdims=True)
    assert (top.sum(axis=1) > 1).any()
    assert_array_equal(np.asarray(cp.predict_set(probs))[top], True)


# Under the exact split ----------------------------------------------------------------------------


N_FIT, N_NEW, LEVEL = 60, 60, 0.6
EVERY_CALIBRATION = {
    "marginal": {},
    "class": {"calibration": "class"},
    "class, pooled, tuned": {"calibration": PerClass("pooled", min_rows=9, tune=True)},
    "group": {"calibration": "group"},
    "group and class": {"calibration": PerGroup(by_class=True)},
    "given clusters": {"calibration": Clustered(clusters=[0, 0, 1, 1])},
    "weighted": {"calibration": "weighted"},
    "label shift": {"calibration": LabelShift((2.0, 1.0, 0.5, 1.0), known=True)},
    "shortlist": {"split": Exact(shortlist=3, share=0.4)},
    "one score": {"scores": "thr"},
    "auto": {"scores": "auto", "search": "auto"},
    "two models": {"scores": ("a.thr", "b.rank", "b.aps"), "search": GridSearch(3)},
}


def rows_in_eighths(n, seed, truth=0.6):
    """Rows of two models that tie everywhere, with what they bring along.

    The less of the truth there is in them, the less clear it is which label is the best.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
    chances = (1 - truth) * rng.dirichlet(np.full(4, 0.6), size=n) + truth * np.eye(4)[y]
    first, second = (np.array([rng.multinomial(8, row) for row in chances]) / 8 for _ in "ab")
    brought = {"strata": rng.choice(["far", "near"], size=n), "sample_weight": 1.0 + (y + 1) % 3}
    return {"a": first, "b": second}, y, brought


def exact_pair(name, alpha=LEVEL):
    """The same fit with and without empty sets, new rows, and what these bring along."""
    options = {"scores": ("thr", "rank"), "split": "exact", "search": GridSearch(3)}
    options |= {"alpha": alpha, "random_state": 0, "threads": 1} | EVERY_CALIBRATION[name]
    models, y, brought = rows_in_eighths(N_FIT, 1)
    others, labels, more = rows_in_eighths(N_NEW, 2, truth=0.2)
    if name != "two models":
        models, others = models["a"], others["a"]
    needed = ["strata"] if "group" in name else ["sample_weight"] * (name == "weighted")
    found = []
    for allow_empty in (True, False):
        cp = cx.ScoreAverage(**options, allow_empty=allow_empty)
        found.append(cp.fit(models, y, **{part: brought[part] for part in needed}))
    return *found, others, labels, {part: more[part] for part in needed}


def largest(pvalues):
    return pvalues == pvalues.max(axis=1, keepdims=True)


@pytest.mark.parametrize("name", EVERY_CALIBRATION)
def test_exact_puts_the_labels_with_the_largest_p_value_into_sets_that_are_empty(name):
    plain, filled, new, _, more = exact_pair(name)
    pvalues = plain.predict_pvalues(new, **more)
    best = largest(pvalues)
    before = np.asarray(plain.predict_set(new, **more))
    empty = ~before.any(axis=1)
    assert empty.any()
    assert not empty.all()
    sets = np.asarray(filled.predict_set(new, **more))
    assert_array_equal(sets, np.where(empty[:, None], best, before))
    found = filled.predict_pvalues(new, **more)
    assert_array_equal(found, np.where(best, 1.0, pvalues))
    assert_array_equal(sets, found > LEVEL)


@pytest.mark.parametrize("name", EVERY_CALIBRATION)
def test_smoothed_p_values_of_exact_lift_the_labels_that_plain_ones_do(name):
    """They only grow, so that none is too small too often, and no set of them is empty."""
    plain, filled, new, _, more = exact_pair(name)
    best = largest(plain.predict_pvalues(new, **more))
    smoothed = plain.predict_pvalues(new, smoothed=True, **more)
    if name in ("group and class", "two models"):  # another label may be the largest of these
        assert (largest(smoothed) != best).any()
    found = filled.predict_pvalues(new, smoothed=True, **more)
    assert_array_equal(found, np.where(best, 1.0, smoothed))
    assert (found >= smoothed).all()


@pytest.mark.parametrize("name", ["class", "weighted", "two models"])
def test_another_level_of_exact_lifts_by_the_p_values_of_its_own_selection(name):
    plain, filled, new, _, more = exact_pair(name, alpha=0.2)
    other, fresh, *_ = exact_pair(name, alpha=0.8)
    sets = np.asarray(filled.predict_set(new, alpha=0.8, **more))
    assert_array_equal(sets, np.asarray(fresh.predict_set(new, **more)))
    assert sets.any(axis=1).all()
    if name == "two models":
        pvalues = [cp.predict_pvalues(new, **more) for cp in (plain, other)]
        assert (largest(pvalues[0]) != largest(pvalues[1])).any()


@pytest.mark.parametrize("name", ["marginal", "class"])
def test_each_row_held_out_in_turn_exact_covers_k_of_all_and_more_where_sets_are_filled(name):
    models, y, _ = rows_in_eighths(20, 3)
    cells = y if name == "class" else None
    reports = []
    for allow_empty in (True, False):
        cp = cx.ScoreAverage(
            ("thr", "rank"), alpha=LEVEL, split="exact", search=GridSearch(3), calibration=name,
            allow_empty=allow_empty, threads=1,
        )  # fmt: skip
        reports.append(leave_one_out(cp.fit, models["a"], y, alpha=LEVEL, cells=cells))
    assert all(report.holds for report in reports)
    assert reports[1].covered > reports[0].covered


@pytest.mark.parametrize("name", ["marginal", "class", "two models"])
def test_drift_and_the_law_of_a_verdict_are_of_scores_that_nothing_lifts(name):
    """The pooled test looks at scores alone, so that its level is kept whatever sets are filled."""
    plain, filled, new, y, _ = exact_pair(name)
    reports = [cp.check_drift(new, y) for cp in (plain, filled)]
    assert reports[0].pvalue == reports[1].pvalue
    assert_array_equal(reports[0].pvalues, reports[1].pvalues)
    before, after = (cp.verdict(new, y) for cp in (plain, filled))
    assert after.law == before.law
    assert after.coverage > before.coverage
    assert filled.guarantee_ == plain.guarantee_


def test_exact_fills_the_same_sets_by_every_door():
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    for name in ("marginal", "class", "auto"):
        _, filled, new, _, _ = exact_pair(name)
        sets, pvalues = np.asarray(filled.predict_set(new)), filled.predict_pvalues(new)
        rows = torch.from_numpy(new)
        assert_array_equal(filled.predict_set(rows).mask.numpy(), sets)
        assert_array_equal(filled.predict_pvalues(rows).numpy(), pvalues)
        chunks = da.from_array(new, (7, 4))
        assert_array_equal(filled.predict_set(chunks).compute(scheduler="synchronous"), sets)
        one = [np.asarray(filled.predict_set(new[i : i + 1])) for i in range(len(new))]
        assert_array_equal(np.concatenate(one), sets)
    tensors = cx.ScoreAverage(
        ("thr", "rank"), alpha=LEVEL, split="exact", search=GridSearch(3), allow_empty=False
    )  # fitted where the rows are
    models, y, _ = rows_in_eighths(N_FIT, 1)
    _, filled, new, _, _ = exact_pair("marginal")
    tensors.fit(torch.from_numpy(models["a"]), y)
    assert_array_equal(np.asarray(tensors.predict_set(new)), np.asarray(filled.predict_set(new)))


def test_the_search_calibrates_as_the_sets_will_be():
    """By hand: the k-th largest lifted true-label score of every weight vector."""
    probs, y = tied_rows(60)
    scores, weights = cx.score_tensor(probs, ("thr", "rank")), np.array([[1.0, 0.0], [0.3, 0.7]])
    for k in (1, 20, 50):
        objective = NonEmptyObjective(scores, y, [scores], k)
        for w, found in zip(weights, objective.thresholds(weights), strict=True):
            combined = combine(scores, w)
            lifted = np.where(combined == combined.max(axis=1, keepdims=True), np.inf, combined)
            assert found == np.sort(lifted[np.arange(60), y])[60 - k]


# The labels beside the best ones ------------------------------------------------------------------


BESIDE_BEST = TuningRows.beside_best


def logits_of(n_classes, strength, digits, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=160)
    logits = rng.normal(0, 2, (160, n_classes)) + strength * np.eye(n_classes)[y]
    return (logits if digits is None else logits.round(digits)), y


def both_searches(monkeypatch, rows, **settings):
    """Fit with the best labels known beforehand, and by looking at all labels of all rows."""
    found, seen = [], []

    def kept(self, k):
        seen.append(BESIDE_BEST(self, k))
        return seen[-1]

    for how in (kept, lambda *_: None):
        monkeypatch.setattr(TuningRows, "beside_best", how)
        options = {"kind": "logits", "random_state": 0, "search": GridSearch(12)} | settings
        cp = cx.ScoreAverage(("thr", "aps", "rank"), allow_empty=False, **options).fit(*rows)
        found.append(cp.predictor_.fitted)
    one, other = found
    assert repr(one.search) == repr(other.search)  # the winner, its count, and what was searched
    assert one.search.count == other.search.count
    assert_array_equal(one.calibration, other.calibration)
    assert one.held_out_size == other.held_out_size
    return seen[0]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("digits", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3, 0.8])
@pytest.mark.parametrize(("n_classes", "strength"), [(2, 1.0), (5, 3.0), (30, 5.0), (30, 0.0)])
def test_the_best_labels_are_known_before_the_weights(
    monkeypatch, n_classes, strength, alpha, digits, compiled
):
    if compiled:
        compile_for(WORTHWHILE)
    for seed, normalize in enumerate(("ecdf", "scale")):
        rows = logits_of(n_classes, strength, digits, seed)
        beside = both_searches(monkeypatch, rows, alpha=alpha, normalize=normalize)
        assert isinstance(beside, BesideBest)
        n_rows = 80
        assert beside.n_best >= n_rows
        if digits is None:
            assert beside.n_best == n_rows  # one of every row


def test_all_that_may_happen_to_the_threshold_has_happened(monkeypatch):
    """No label but the best, some, and all: by the rank among true labels that are not the best."""
    ends = set()
    for strength, alpha in [(9.0, 0.3), (2.0, 0.2), (2.0, 0.01), (40.0, 0.01)]:
        rows = logits_of(5, strength, None, 3)
        beside = both_searches(monkeypatch, rows, alpha=alpha)
        ends.add((beside.k < 1, beside.k > len(beside.true_scores), len(beside.true_scores) == 0))
    assert len(ends) == 4


def test_a_best_label_that_rounding_might_change_is_looked_for_under_all_weights(monkeypatch):
    logits, y = logits_of(5, 2.0, None, 4)
    top = np.argsort(logits, axis=1)
    rows = np.arange(len(y))
    logits[rows, top[:, -2]] = np.nextafter(logits[rows, top[:, -1]], -np.inf)
    assert both_searches(monkeypatch, (logits, y), normalize="scale", alpha=0.2) is None


class NoWeights:
    """A search that counts labels, for weights that are not negative and need not sum to one."""

    def only_counts(self, d):
        return True

    def __call__(self, objective, rng=None):
        weights = np.zeros(objective.d)
        count = int(objective.counts(weights[None])[0])
        return SearchResult(weights, count, objective.n_size, 1, "none")


def test_weights_that_need_not_sum_to_one_are_tried_on_all_labels():
    """With no weight at all every label is the best."""
    rows = logits_of(30, 5.0, None, 5)
    cp = cx.ScoreAverage(("thr", "rank"), allow_empty=False, kind="logits", search=NoWeights())
    found = cp.fit(*rows).predictor_.fitted.search
    assert found.count == 30 * found.n_size


@pytest.mark.parametrize("k", [1, 30, 70, 80, 81])
def test_labels_beside_the_best_are_counted_as_all_labels_are(k):
    rng = np.random.default_rng(6)
    scores, y = rng.random((80, 6, 2)), rng.integers(6, size=80)
    scores.sort(axis=1)  # both scores rise together: the last label is the best of its row
    is_best = y == 5
    beside = BesideBestObjective(
        scores[np.arange(80), y][~is_best], [scores[:, :-1].reshape(-1, 1, 2)],
        k - is_best.sum(), n_best=80, shape=(80, 6),
    )  # fmt: skip
    weights = np.array([[0.0, 1.0], [0.25, 0.75], [1.0, 0.0]])
    expected = NonEmptyObjective(scores, y, [scores], k)
    assert_array_equal(beside.counts(weights), expected.counts(weights))
    assert_array_equal(beside.thresholds(weights), expected.thresholds(weights))
    assert beside.smallest(weights, weights) == expected.smallest(weights, weights)
    assert beside.n_size == expected.n_size
