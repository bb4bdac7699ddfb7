"""The exact split: agreement with a brute-force loop, and the identity that catches any slip."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import conformix as cx
from conformix.conformal import conformal_rank, simple_fraction
from conformix.errors import InvalidInput
from conformix.fit.exact import leave_one_out_efcp
from conformix.fit.exact.tables import make_tables
from conformix.kernels import combine
from conformix.kernels.twins import host_kernels
from conformix.search import Candidates, GridSearch, search_weights
from conformix.search.objective import tuning_rank
from conformix.search.weights import candidate_weights
from conformix.splits import Exact
from conformix.testing import assert_same_sets, leave_one_out

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.TrivialSetsWarning")
ALPHAS = [0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 0.9]


def combined(w, s):
    total = w[0] * s[0]
    for j in range(1, len(w)):
        total = total + w[j] * s[j]
    return total


def brute_force_set(scores, y, row, weights, k):
    """Loop over candidate labels; select the weights afresh for each, over all n + 1 points."""
    n, n_classes, _ = scores.shape
    chosen = []
    for label in range(n_classes):
        best = None
        for w in weights:  # in the order that breaks ties
            own = combined(w, row[label])
            everyone = [combined(w, scores[i, y[i]]) for i in range(n)] + [own]
            t = sorted(everyone, reverse=True)[k - 1]
            count = sum(combined(w, s) >= t for r in (*scores, row) for s in r)
            if best is None or count < best[0]:
                best = (count, own >= t)
        chosen.append(best[1])
    return chosen


@st.composite
def bags(draw, rows=(1, 8)):
    """A seeded bag of scores, half of them on a lattice with ties everywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_classes = draw(st.integers(*rows)), draw(st.integers(1, 4))
    d, ties = draw(st.integers(1, 3)), draw(st.booleans())
    shape = (n + 3, n_classes, d)
    scores = rng.integers(0, 4, shape) / 4.0 if ties else rng.random(shape)
    return scores, rng.integers(0, n_classes, n + 3), draw(st.sampled_from(ALPHAS))


def plain(values):
    return values


def fitted(scores, y, weights, alpha):
    from conformix.fit.exact.split import FullFitted

    return FullFitted(scores, y, weights, plain, alpha)


@settings(max_examples=250)
@given(bags(), st.integers(1, 4))
def test_agrees_with_a_loop_over_candidates_and_full_reselection(bag, resolution):
    scores, y, alpha = bag
    n = len(y) - 3
    weights = candidate_weights(GridSearch(resolution), scores.shape[2])
    found = fitted(scores[:n], y[:n], weights, alpha).member(scores[n:], alpha)
    k = conformal_rank(n, alpha)
    for row, members in zip(scores[n:], found, strict=True):
        expected = brute_force_set(scores[:n], y[:n], row, weights, k) if k <= n else members | True
        assert_array_equal(members, expected)


def test_weights_that_can_only_tie_for_the_fewest_labels_take_part_in_the_choice():
    """On a coarse lattice a candidate often ties with the winner, and its place decides."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        n, n_classes, d = (int(rng.integers(*ends)) for ends in ((2, 8), (1, 4), (2, 4)))
        resolution, levels = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        scores = rng.integers(0, levels, (n + 3, n_classes, d)) / 4.0
        y, alpha = rng.integers(0, n_classes, n), float(rng.choice([0.2, 0.25, 0.3, 0.5, 0.7]))
        k = conformal_rank(n, alpha)
        if k > n:
            continue
        weights = candidate_weights(GridSearch(resolution), d)
        found = fitted(scores[:n], y, weights, alpha).member(scores[n:], alpha)
        for row, members in zip(scores[n:], found, strict=True):
            assert_array_equal(members, brute_force_set(scores[:n], y, row, weights, k))


@settings(max_examples=80)
@given(bags(), st.integers(1, 4))
def test_p_values_at_the_fitted_level_give_the_set(bag, resolution):
    scores, y, alpha = bag
    n = len(y) - 3
    model = fitted(
        scores[:n], y[:n], candidate_weights(GridSearch(resolution), scores.shape[2]), alpha
    )
    inside = model.ranks(scores[n:], alpha) > float((n + 1) * simple_fraction(alpha))
    assert_array_equal(inside, model.member(scores[n:], alpha))


def identity_holds(scores, y, alpha, member):
    """At least k of the n + 1 rows are covered when each is held out in turn."""
    rows = np.arange(len(y))
    covered = sum(
        bool(member(scores[rows != i], y[rows != i], scores[i : i + 1])[0, y[i]]) for i in rows
    )
    return covered >= conformal_rank(len(y) - 1, alpha)


def assert_identity(bag, resolution):
    scores, y, alpha = bag
    weights = candidate_weights(GridSearch(resolution), scores.shape[2])

    def member(cal, labels, row):
        return fitted(cal, labels, weights, alpha).member(row, alpha)

    assert identity_holds(scores, y, alpha, member)


@settings(max_examples=200)
@given(bags(rows=(3, 12)), st.integers(1, 5))
def test_the_identity_always_holds(bag, resolution):
    assert_identity(bag, resolution)


@pytest.mark.long(short="test_the_identity_always_holds")
@settings(max_examples=2500)
@given(bags(rows=(3, 12)), st.integers(1, 5))
def test_the_identity_holds_for_many_bags(bag, resolution):
    assert_identity(bag, resolution)


def test_without_ties_exactly_k_are_covered():
    rng = np.random.default_rng(5)
    weights = candidate_weights(GridSearch(6), 3)
    for _ in range(60):
        scores, y = rng.random((13, 4, 3)), rng.integers(0, 4, 13)
        covered = sum(
            fitted(np.delete(scores, i, 0), np.delete(y, i), weights, 0.3).member(
                scores[i : i + 1], 0.3
            )[0, y[i]]
            for i in range(13)
        )
        assert covered == conformal_rank(12, 0.3)


def efcp_member(cal, labels, row, *, alpha, resolution, weights_of=None):
    """EFCP: weights and threshold from the n rows alone."""
    if weights_of is None:
        w = search_weights(cal, labels, alpha=alpha, resolution=resolution).weights
    else:
        w = weights_of(cal, labels)
    own = combine(cal[np.arange(len(labels)), labels], w)
    return combine(row, w) >= cx.conformal.threshold(own, alpha)


def ecdf_member(cal, labels, row, *, alpha, weights):
    """The exact rule, but with an ecdf fitted on the calibration rows only."""
    transform = cx.normalize.Ecdf().fit(cal, ())
    return fitted(transform(cal), labels, weights, alpha).member(transform(row), alpha)


def one_standard_error(cal, labels, *, alpha, weights):
    """The most preferred weights within one standard error of the best, from the n rows alone."""
    values = np.moveaxis(cal @ weights.T, 2, 0)
    own = np.sort(values[:, np.arange(len(labels)), labels], axis=1)
    k = conformal_rank(len(labels), alpha)  # at most n here
    sizes = (values >= own[:, len(labels) - k, None, None]).sum(axis=2)
    best = sizes[np.argmin(sizes.sum(axis=1))]
    limit = best.mean() + best.std(ddof=1) / np.sqrt(len(labels))
    return weights[np.flatnonzero(sizes.mean(axis=1) <= limit)[0]]


def fails_in_more_than(share, member, *, bags=150, n_classes=6):
    """Whether fewer than k are covered in more than this share of random bags of 13 rows.

    Bags that can no longer change the answer are not drawn.
    """
    rng = np.random.default_rng(11)
    failed = 0
    for _ in range(bags):
        if failed > share * bags:
            break
        y = rng.integers(0, n_classes, 13)
        scores = rng.random((13, n_classes, 3))
        scores[np.arange(13), y] += 0.3 * rng.random((13, 3))
        failed += not identity_holds(scores, y, 0.3, member)
    return failed > share * bags


def test_the_identity_fails_for_efcp():
    assert fails_in_more_than(0.2, lambda c, y, r: efcp_member(c, y, r, alpha=0.3, resolution=8))


def test_the_identity_fails_for_an_ecdf_of_the_calibration_rows():
    weights = candidate_weights(GridSearch(8), 3)
    assert fails_in_more_than(
        0.02, lambda c, y, r: ecdf_member(c, y, r, alpha=0.3, weights=weights)
    )


def test_the_identity_fails_for_a_one_standard_error_rule_without_the_candidate():
    weights = candidate_weights(GridSearch(8), 3)

    def member(cal, labels, row):
        return efcp_member(
            cal, labels, row, alpha=0.3, resolution=8,
            weights_of=lambda c, y: one_standard_error(c, y, alpha=0.3, weights=weights),
        )  # fmt: skip

    assert fails_in_more_than(0.02, member)


def test_the_identity_holds_for_the_exact_rule_on_the_same_bags():
    weights = candidate_weights(GridSearch(8), 3)
    assert not fails_in_more_than(0, lambda c, y, r: fitted(c, y, weights, 0.3).member(r, 0.3))


# Through the estimator ----------------------------------------------------------------------------

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["lenet5"], DATA.labels


def model(**options):
    usual = {"alpha": 0.2, "kind": "logits", "split": "exact", "search": GridSearch(10)}
    return cx.ScoreAverage(**{"scores": "paper"} | usual | options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize": "scale", "scores": ("logp", "margin", "thr")},
        {"scores": ("aps(randomized=True)", "thr"), "random_state": 4},
        {"search": [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.2, -0.1]]},
    ],
)
def test_the_public_audit_holds_on_real_rows(options):
    for start in (0, 40, 80):
        rows = slice(start, start + 25)
        report = leave_one_out(model(**options).fit, LOGITS[rows], LABELS[rows], alpha=0.2)
        assert report.holds, report


def test_the_shortlist_learnt_on_separate_rows_keeps_the_audit():
    aside, y_aside = LOGITS[:60], LABELS[:60]
    scores = cx.score_tensor(aside, kind="logits")
    weights, sizes = cx.search.landscape(scores, y_aside, alpha=0.2, resolution=10)
    short = Candidates(weights[np.argsort(sizes)[:8]])
    report = leave_one_out(model(search=short).fit, LOGITS[60:85], LABELS[60:85], alpha=0.2)
    assert report.holds
    cp = model(split=Exact(shortlist=8, share=0.4), normalize="ecdf", random_state=0)
    cp.fit(LOGITS[:100], LABELS[:100])
    assert len(cp.predictor_.fitted.weights) == 8
    assert cp.predictor_.fitted.n == 60


@pytest.mark.parametrize("shortlist", [8, 30])
def test_a_shortlist_has_the_smallest_sets_of_the_rows_aside_in_the_order_of_all(shortlist):
    split = Exact(shortlist=shortlist, share=0.4)
    aside = split.roles(100, 0, np.random.default_rng(1)).tune
    cp = model(split=split, normalize="none", random_state=np.random.default_rng(1), alpha=0.2)
    cp.fit(LOGITS[:100], LABELS[:100])
    weights = candidate_weights(GridSearch(10), 3)
    scores = cx.score_tensor(LOGITS[aside], kind="logits")
    place = len(aside) - tuning_rank(len(aside), 0.2)
    counts = []
    for w in weights:
        combined = combine(scores, w)
        own = np.sort(combined[np.arange(len(aside)), LABELS[aside]])
        counts.append((combined >= own[place]).sum())
    best = sorted(range(len(weights)), key=lambda i: (counts[i], i))[:shortlist]
    assert_array_equal(cp.predictor_.fitted.weights, weights[sorted(best)])


def test_one_row_and_a_batch_give_the_same_sets():
    cp = model().fit(LOGITS[:150], LABELS[:150])
    batch = cp.predict_set(LOGITS[150:180])
    alone = np.vstack([cp.predict_set(LOGITS[i : i + 1]).mask for i in range(150, 180)])
    assert_same_sets(batch, alone)


def test_any_number_of_threads_gives_the_same_sets():
    sets = [
        model(threads=t).fit(LOGITS[:150], LABELS[:150]).predict_set(LOGITS[150:250]).mask
        for t in (1, 2, 3)
    ]
    assert_array_equal(sets[0], sets[1])
    assert_array_equal(sets[0], sets[2])


def test_another_alpha_selects_again():
    cp = model(alpha=0.2).fit(LOGITS[:150], LABELS[:150])
    fresh = model(alpha=0.1).fit(LOGITS[:150], LABELS[:150])
    assert_same_sets(cp.predict_set(LOGITS[150:250], alpha=0.1), fresh.predict_set(LOGITS[150:250]))


def test_the_weights_are_the_efcp_winner_for_reading():
    cp = model().fit(LOGITS[:150], LABELS[:150])
    scores = cx.score_tensor(LOGITS[:150], kind="logits")
    found = search_weights(scores, LABELS[:150], alpha=0.2, resolution=10)
    assert_array_equal(cp.weights_, found.weights)
    assert cp.search_.count == found.count


def test_too_few_rows_put_every_label_in():
    with pytest.warns(cx.TrivialSetsWarning, match="^alpha=0.01 needs at least 99 calibration"):
        cp = model(alpha=0.01).fit(LOGITS[:20], LABELS[:20])
    assert cp.predict_set(LOGITS[:5]).mask.all()
    assert (cp.predict_pvalues(LOGITS[:5]) > 0).all()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: model(normalize="ecdf").fit(LOGITS[:50], LABELS[:50]),
         r'^normalize="ecdf" learns from the calibration rows alone, which breaks the symmetry'),
        (lambda: model(search=lambda objective, rng: None).fit(LOGITS[:50], LABELS[:50]),
         r'^split "exact" needs candidate weights that are fixed beforehand'),
        (lambda: model(tune_alpha=0.1).fit(LOGITS[:50], LABELS[:50]),
         r'^split "exact" selects at alpha by one rule for all rows; tune_alpha does not apply\.$'),
        (lambda: model(guarantee="pac").fit(LOGITS[:50], LABELS[:50]),
         r'^guarantee="pac" bounds .* under split "exact" every label selects weights of its own'),
        (lambda: model(calibration="cluster").fit(LOGITS[:50], LABELS[:50]),
         r'^calibration "cluster" learns from labelled rows, and under split "exact" all of them'),
        (lambda: model(calibration="rc3p").fit(LOGITS[:50], LABELS[:50]),
         r'^calibration "rc3p" freezes ranks under one weighting, and under split "exact" every'),
        (lambda: model(split=Exact(shortlist=0)).fit(LOGITS[:50], LABELS[:50]),
         r"^shortlist must be a positive integer; got 0\.$"),
        (lambda: model().fit(LOGITS[:50], LABELS[:50]).threshold_,
         r'^split "exact" has no single threshold: every candidate label selects its own weights'),
        (lambda: model().fit(LOGITS[:50], LABELS[:50]).recalibrate(LOGITS[:50], LABELS[:50]),
         r'^split "exact" has no single weights to keep; call fit on the fresh rows instead\.$'),
        (lambda: model().fit(LOGITS[:50], LABELS[:50]).predict_set(LOGITS[:5], alpha=[0.1, 0.2]),
         r'^sets of split "exact" need not be nested in alpha; predict one level at a time\.$'),
    ],
)  # fmt: skip
def test_what_would_break_the_symmetry_is_refused(act, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        act()


# The measured shortfall ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(bags(rows=(3, 9)), st.integers(1, 4))
def test_leave_one_out_coverage_of_efcp_agrees_with_refitting(bag, resolution):
    scores, y, alpha = bag
    rows = np.arange(len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        covered = [
            efcp_member(
                scores[rows != i], y[rows != i], scores[i], alpha=alpha, resolution=resolution
            )[y[i]]
            for i in rows
        ]
    weights = candidate_weights(GridSearch(resolution), scores.shape[2])
    assert leave_one_out_efcp(scores, y, weights, alpha=alpha) == np.mean(covered)


def test_the_measured_shortfall_counts_weights_that_can_only_tie_without_a_row():
    for seed in range(200, 410):
        rng = np.random.default_rng(seed)
        n, n_classes, d = (int(rng.integers(*ends)) for ends in ((3, 8), (1, 4), (2, 4)))
        resolution, levels = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        scores, y = rng.integers(0, levels, (n, n_classes, d)) / 4.0, rng.integers(0, n_classes, n)
        alpha = float(rng.choice([0.2, 0.25, 0.3, 0.5, 0.7]))
        covered = [
            efcp_member(
                np.delete(scores, i, axis=0), np.delete(y, i), scores[i], alpha=alpha,
                resolution=resolution,
            )[y[i]]
            for i in range(n)
        ]  # fmt: skip
        weights = candidate_weights(GridSearch(resolution), d)
        assert leave_one_out_efcp(scores, y, weights, alpha=alpha) == np.mean(covered)


def test_weights_that_win_only_without_a_row_of_many_labels_are_not_left_out():
    weights = candidate_weights(GridSearch(6), 3)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(5, 9))
        y, scores = rng.integers(15, size=n), rng.random((n, 15, 3))
        # Half of the scores of a row are small together: sets differ widely from row to row.
        scores = np.where(rng.random((n, 1, 3)) < 0.5, scores**4, scores)
        covered = [
            efcp_member(
                np.delete(scores, i, axis=0), np.delete(y, i), scores[i], alpha=0.3, resolution=6
            )[y[i]]
            for i in range(n)
        ]
        assert leave_one_out_efcp(scores, y, weights, alpha=0.3) == np.mean(covered)


def test_a_fitted_exact_split_can_be_pickled_and_copied():
    import copy
    import pickle

    cp = model().fit(LOGITS[:120], LABELS[:120])
    before = cp.predict_set(LOGITS[120:150])
    for again in (pickle.loads(pickle.dumps(cp)), copy.deepcopy(cp)):
        assert_same_sets(again.predict_set(LOGITS[120:150]), before)


def test_the_exact_split_takes_widths_as_an_array(cifar10):
    logits, labels = cifar10
    cp = cx.ScoreAverage(
        alpha=0.2, kind="logits", split="exact", normalize=np.array([1.0, 2.0, 1.0]),
        search=np.eye(3),
    )  # fmt: skip
    assert cp.fit(logits[:50], labels[:50]).normalizer_ == "scale"


def test_rows_too_few_to_choose_leave_the_first_weights_and_all_labels():
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(3), size=8), rng.integers(0, 3, 8)
    candidates = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    cp = cx.ScoreAverage(("thr", "aps"), alpha=0.1, split="exact", search=Candidates(candidates))
    cp.fit(probs, y)
    found = cp.predictor_.fitted.efcp(0.1)
    assert_array_equal(found.weights, cp.predictor_.fitted.weights[0])
    assert found.count == 8 * 3
    enough = cx.ScoreAverage(
        ("thr", "aps"), alpha=0.1, split="exact", search=Candidates(candidates)
    )
    sure = np.full((9, 3), 0.1) + 0.7 * np.eye(3)[np.arange(9) % 3]
    enough.fit(sure, np.arange(9) % 3)
    assert enough.predictor_.fitted.efcp(0.1).count == 9


def test_kernels_are_chosen_by_the_products_that_a_call_forms(monkeypatch) -> None:
    products = []

    def spied(name: str, number: int):
        products.append((name, number))
        return host_kernels(name, number)

    monkeypatch.setattr("conformix.fit.exact.split.host_kernels", spied)
    monkeypatch.setattr("conformix.fit.exact.shortfall.host_kernels", spied)
    rng = np.random.default_rng(3)
    probs, y = rng.dirichlet(np.ones(3), size=20), rng.integers(0, 3, 20)
    cp = cx.ScoreAverage(("thr", "aps"), alpha=0.3, split="exact", search=GridSearch(4))
    cp.fit(probs, y).predict_set(probs[:7])
    weights = cp.predictor_.fitted.all_weights
    assert products[0] == ("selection", 7 * 3 * 2 * len(weights))
    products.clear()
    alike = np.full((3, 2), 0.5)  # none can be told from the others
    leave_one_out_efcp(rng.random((9, 3, 2)), rng.integers(0, 3, 9), alike, alpha=0.3)
    assert products == [("selection", 9 * 3 * 2 * 3)]


def test_gaps_that_are_known_stay_as_they_are_when_others_are_asked_for() -> None:
    rng = np.random.default_rng(4)
    scores, y = rng.random((30, 3, 2)), rng.integers(0, 3, 30)
    weights = candidate_weights(GridSearch(5), 2)
    at_once, in_steps = (make_tables(scores, y, weights, 24) for _ in range(2))
    every = np.ones(len(at_once.weights), dtype=bool)
    assert len(every) > 2
    assert (at_once.gaps.starts == -1).all()  # unknown so far
    at_once.learn_gaps(every)
    for wanted in (np.arange(len(every)) == 1, every):
        in_steps.learn_gaps(wanted)
    for i in range(len(every)):
        gaps = [t.gaps.values[t.gaps.starts[i] : t.gaps.stops[i]] for t in (at_once, in_steps)]
        assert_array_equal(*gaps)
    assert in_steps.gaps.starts[1] == 0  # known first, and not collected again
    assert len(in_steps.gaps.values) == len(at_once.gaps.values)
