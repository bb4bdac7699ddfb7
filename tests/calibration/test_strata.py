"""By class, by group, by cluster: coverage given the stratum, as a count without tolerance.

Take n+1 labelled rows and hold each out in turn. Among the held-out rows of one stratum of N rows,
every threshold comes from the other N-1 rows of that stratum, so at least ``k(N-1)`` of the N are
covered, always; exactly so many without ties.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.stats import betabinom

import conformix as cx
import oracle
from calibration.rows import NAMES, Z, covered, fixed, uneven_classes
from cases import Bag, FirstRowsTune, bags, choices, levels
from conformix.calibration import Clustered, PerClass, PerGroup, RankedPerClass
from conformix.calibration.objective import ClassObjective
from conformix.conformal import conformal_rank, kth_largest
from conformix.data.row_data import NO_DATA
from conformix.fit.rule import Rule
from conformix.scores.scale import Scaled
from conformix.search import GridSearch

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


def held_out_hits(cp: cx.ScoreAverage, outputs: np.ndarray, y: np.ndarray, **rows: np.ndarray):
    """Whether each row is covered when the others calibrate."""
    hits = np.empty(len(y), dtype=bool)
    for i in range(len(y)):
        own = {name: values[i : i + 1] for name, values in rows.items()}
        rest = {name: np.delete(values, i) for name, values in rows.items()}
        cp.fit(np.delete(outputs, i, axis=0), np.delete(y, i), **rest)
        hits[i] = np.asarray(cp.predict_set(outputs[i : i + 1], **own))[0, y[i]]
    return hits


@settings(max_examples=40)
@given(bag=bags(max_models=1, min_rows=4, max_rows=16), level=levels())
def test_every_class_covers_at_least_k_of_its_rows_with_ties(
    bag: Bag, level: tuple[float, Fraction]
) -> None:
    alpha, meant = level
    hits = held_out_hits(fixed(alpha, "class"), bag.outputs["a"], bag.y)
    for c in np.unique(bag.y):
        own = bag.y == c
        assert hits[own].sum() >= oracle.conformal_rank(int(own.sum()) - 1, meant)


@settings(max_examples=40)
@given(bag=bags(max_models=1, min_rows=4, max_rows=16), level=levels(), data=st.data())
def test_every_group_covers_at_least_k_of_its_rows_with_ties(
    bag: Bag, level: tuple[float, Fraction], data: st.DataObject
) -> None:
    alpha, meant = level
    n = len(bag.y)
    groups = np.array(list("abc"))[data.draw(choices(n, 3))]
    hits = held_out_hits(fixed(alpha, "group"), bag.outputs["a"], bag.y, strata=groups)
    for g in np.unique(groups):
        own = groups == g
        if own.sum() > 1:  # a group of one is unknown to the others: always in
            assert hits[own].sum() >= oracle.conformal_rank(int(own.sum()) - 1, meant)
        else:
            assert hits[own].all()


def test_every_cluster_covers_exactly_k_of_its_rows_without_ties() -> None:
    rng = np.random.default_rng(0)
    probs, y = uneven_classes(rng, 60, (0.4, 0.3, 0.2, 0.1))
    clusters = np.array([0, 1, 0, 1])
    cp = cx.ScoreAverage(
        "thr", weights=[1.0], alpha=0.2, calibration=Clustered(clusters=clusters.tolist())
    )
    hits = held_out_hits(cp, probs, y)
    for c in (0, 1):
        own = clusters[y] == c
        assert hits[own].sum() == cx.conformal_rank(int(own.sum()) - 1, 0.2)


def test_a_marginal_threshold_would_fail_the_class_test() -> None:
    probs, y = uneven_classes(np.random.default_rng(0), 150)
    hits = held_out_hits(fixed(0.2, "marginal"), probs, y)
    hard = y == 2
    assert hits[hard].sum() < cx.conformal_rank(int(hard.sum()) - 1, 0.2)


def stratum_law(hits: np.ndarray, rows: np.ndarray, n_cal: np.ndarray, alpha: float) -> float:
    """Standardised distance of all covered rows from their BetaBinomial laws, added up."""
    mean = variance = 0.0
    for m, n in zip(rows, n_cal, strict=True):
        k = cx.conformal_rank(int(n), alpha)
        if k > n:
            mean += m
        else:
            law = betabinom(int(m), k, int(n) + 1 - k)
            mean, variance = mean + law.mean(), variance + law.var()
    return float((hits.sum() - mean) / np.sqrt(variance))


def test_searched_weights_keep_the_law_in_every_class_on_synthetic_rows() -> None:
    alpha, repetitions = 0.1, 100
    hits, rows, n_cal = (np.zeros((repetitions, 3), dtype=int) for _ in range(3))
    cp = cx.ScoreAverage(
        ("thr", "logp"), alpha=alpha, calibration="class", search=GridSearch(5), threads=1,
        normalize="scale",
    )  # fmt: skip
    for r in range(repetitions):
        rng = np.random.default_rng([r, 11])
        probs, y = uneven_classes(rng, 900)
        cp.set_params(random_state=r).fit(probs[:600], y[:600])
        inside = covered(cp.predict_set(probs[600:]), y[600:])
        n_cal[r] = cp.predictor_.fitted.cuts.counts
        rows[r] = np.bincount(y[600:], minlength=3)
        hits[r] = np.bincount(y[600:], weights=inside, minlength=3)
    for c in range(3):
        assert abs(stratum_law(hits[:, c], rows[:, c], n_cal[:, c], alpha)) < Z


def test_every_subject_of_mmlu_is_covered_given_the_subject_and_marginal_sets_are_not() -> None:
    data = cx.datasets.load("mmlu_llama13b")
    logits, y, subject = data.outputs["llama13b_prompt0"], data.labels, data.groups.astype(int)
    alpha, repetitions, n_groups = 0.2, 30, len(data.group_names)
    laws = {"group": [], "marginal": []}
    for name, found in laws.items():
        cp = cx.ScoreAverage(
            ("thr", "logp"), alpha=alpha, kind="logits", calibration=name,
            search=GridSearch(4), threads=1,
        )  # fmt: skip
        hits, rows, n_cal = (np.zeros((repetitions, n_groups), dtype=int) for _ in range(3))
        for r in range(repetitions):
            order = np.random.default_rng([r, 5]).permutation(len(y))
            a, b = order[:1443], order[1443:]
            groups = {"strata": subject} if name == "group" else {}
            cp.set_params(random_state=r).fit(
                logits[a], y[a], **{k: v[a] for k, v in groups.items()}
            )
            sets = cp.predict_set(logits[b], **{k: v[b] for k, v in groups.items()})
            inside = covered(sets, y[b])
            rows[r] = np.bincount(subject[b], minlength=n_groups)
            hits[r] = np.bincount(subject[b], weights=inside, minlength=n_groups)
            if name == "group":
                n_cal[r] = cp.predictor_.fitted.cuts.counts
            else:
                n_cal[r] = np.bincount(subject[a], minlength=n_groups) // 2
        found += [stratum_law(hits[:, g], rows[:, g], n_cal[:, g], alpha) for g in range(n_groups)]
    # Splits of one pool are independent draws given the pool: the law is exact within a group.
    assert max(abs(z) for z in laws["group"]) < Z
    assert min(laws["marginal"]) < -Z  # some subjects are short-changed by one threshold


def test_classes_whose_scores_are_alike_share_a_cluster() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    values = np.array([0.2, 0.8, 0.2, 0.8])[y] + 0.1 * rng.random(240)
    seen = SimpleNamespace(y=y, values=values, n_classes=4, alpha=0.1, separate=True, rng=rng)
    cells = Clustered(2).learn(seen).cells[0]
    assert cells[0] == cells[2] != cells[1] == cells[3]


def test_learnt_clusters_keep_coverage_in_every_cluster_on_cifar100(cifar100: tuple) -> None:
    logits, y = cifar100
    alpha, hits, needed, variance = 0.1, 0.0, 0.0, 0.0
    for r in range(3):
        order = np.random.default_rng(r).permutation(len(y))
        cp = cx.ScoreAverage(
            ("thr", "logp"), alpha=alpha, kind="logits", calibration=Clustered(4),
            search=GridSearch(4), random_state=r, threads=1,
        ).fit(logits[order[:5000]], y[order[:5000]])  # fmt: skip
        test = order[5000:]
        inside = covered(cp.predict_set(logits[test]), y[test])
        cuts = cp.predictor_.fitted.cuts
        cluster = cuts.partition.cells[0][y[test]]
        assert len(np.unique(cluster)) == 4
        for c, n in enumerate(cuts.counts):
            k, m = cx.conformal_rank(int(n), alpha), int((cluster == c).sum())
            law = betabinom(m, k, int(n) + 1 - k)
            assert abs(inside[cluster == c].sum() - law.mean()) < Z * law.std()
            hits, needed = hits + inside[cluster == c].sum(), needed + law.mean()
            variance += law.var()
    assert abs(hits - needed) < Z * np.sqrt(variance)


@pytest.mark.parametrize(
    "calibration", [Clustered(2), PerClass("pooled", min_rows=40), "rc3p"], ids=str
)
def test_what_is_laid_down_does_not_look_at_the_calibration_rows(calibration: object) -> None:
    probs, y = uneven_classes(np.random.default_rng(10), 600, (0.5, 0.3, 0.15, 0.05))
    other, y_other = uneven_classes(np.random.default_rng(11), 300, (0.05, 0.15, 0.3, 0.5))
    laid = []
    for rows, labels in ((probs[300:], y[300:]), (other[:, ::-1], y_other)):
        cp = cx.ScoreAverage(
            NAMES, alpha=0.2, split=FirstRowsTune(300), calibration=calibration, random_state=0,
            search=GridSearch(4),
        ).fit(np.vstack([probs[:300], rows]), np.concatenate([y[:300], labels]))  # fmt: skip
        fitted = cp.predictor_.fitted
        limits = fitted.rule.limits
        laid.append((fitted.cuts.partition.cells, None if limits is None else limits.ranks))
    assert_array_equal(laid[0][0], laid[1][0])
    assert_array_equal(laid[0][1], laid[1][1])


# ---------------------------------------------------------------- one rule in every door


@pytest.mark.parametrize("calibration", ["class", Clustered(2), PerClass("pooled", min_rows=60)])
def test_pvalues_sets_and_levels_agree(calibration: object) -> None:
    probs, y = uneven_classes(np.random.default_rng(4), 700)
    cp = cx.ScoreAverage("paper", alpha=0.1, calibration=calibration, random_state=0).fit(probs, y)
    pvalues = cp.predict_pvalues(probs)
    nested = cp.predict_set(probs, alpha=[0.05, 0.1, 0.3])
    for alpha in (0.05, 0.1, 0.3):
        one = np.asarray(cp.predict_set(probs, alpha=alpha))
        assert_array_equal(one, pvalues > alpha)
        assert_array_equal(one, np.asarray(nested.at(alpha)))


def test_smoothed_pvalues_are_uniform_within_every_class() -> None:
    rng = np.random.default_rng(5)
    probs, y = uneven_classes(rng, 6000)
    cp = cx.ScoreAverage("rank", weights=[1.0], calibration="class").fit(probs[:3000], y[:3000])
    own = covered(cp.predict_pvalues(probs[3000:], smoothed=True), y[3000:])
    for c in range(3):
        u = own[y[3000:] == c]
        n = int((y[:3000] == c).sum())
        # The mean of m p-values over n shared calibration rows has variance (1/m + 1/n)/12.
        assert abs(u.mean() - 0.5) < Z * np.sqrt((1 / len(u) + 1 / n) / 12)


@pytest.mark.parametrize(
    "calibration", ["class", "rc3p", Clustered(2), PerGroup("pooled"), "group"], ids=str
)
def test_a_saved_model_answers_alike(calibration: object, tmp_path) -> None:
    probs, y = uneven_classes(np.random.default_rng(6), 600)
    named = getattr(calibration, "name", calibration) == "group"
    rows = {"strata": np.where(np.arange(600) % 3, "x", "y")} if named else {}
    cp = cx.ScoreAverage("paper", alpha=0.1, calibration=calibration, random_state=0).fit(
        probs, y, **rows
    )
    cp.save(tmp_path / "model.json")
    for again in (cx.load(tmp_path / "model.json"), cx.load_predictor(tmp_path / "model.json")):
        assert_array_equal(
            np.asarray(again.predict_set(probs, **rows)), np.asarray(cp.predict_set(probs, **rows))
        )
    loaded = cx.load(tmp_path / "model.json")
    assert str(loaded.guarantee_) == str(cp.guarantee_)
    assert loaded.calibration == calibration


def test_tuned_weights_have_the_smallest_class_conditional_sets_on_the_tuning_rows() -> None:
    probs, y = uneven_classes(np.random.default_rng(7), 900)
    scores = cx.score_tensor(probs, NAMES)
    cp = cx.ScoreAverage(
        NAMES, alpha=0.1, split="efcp", search=GridSearch(6), normalize="none",
        calibration=PerClass(tune=True),
    ).fit(probs, y)  # fmt: skip
    sizes = {}
    for g in cx.search.simplex_grid(3, 6):
        one = cx.ScoreAverage(
            NAMES, alpha=0.1, weights=g / 6, normalize="none", calibration="class"
        ).fit(probs, y)
        sizes[tuple(g)] = int(np.asarray(one.predict_set(probs)).sum())
    assert cp.search_.count == min(sizes.values())
    assert sizes[tuple(np.rint(cp.weights_ * 6).astype(int))] == cp.search_.count
    assert scores.shape[2] == 3


def test_sizes_under_thresholds_by_stratum_are_counted_label_by_label() -> None:
    """One stratum, several, some that set no threshold, and one without rows."""
    rng = np.random.default_rng(0)
    scores, y = rng.random((40, 4, 2)), rng.integers(4, size=40)
    weights = np.array([[1.0, 0.0], [0.3, 0.7]])
    for cells in ([0, 0, 0, 0], [0, 1, 0, 1], [2, -1, 0, 2], [5, 0, 3, 0], [-1, -1, -1, -1]):
        strata = np.array(cells)[y]
        own = scores[np.arange(40), y]
        found = ClassObjective(
            own, strata, np.array(cells), [scores], alpha=0.2, rank=conformal_rank
        ).counts(weights)
        for w, count in zip(weights, found, strict=True):
            cuts = {}
            for cell in set(cells) - {-1}:
                values = own[strata == cell] @ w
                cuts[cell] = kth_largest(values, conformal_rank(len(values), 0.2))
            inside = [scores[:, label] @ w >= cuts.get(cells[label], -np.inf) for label in range(4)]
            assert count == np.sum(inside)


def test_rc3p_is_exact_given_the_class_and_smaller_than_plain_thresholds(cifar100: tuple) -> None:
    logits, y = cifar100
    options = {"alpha": 0.1, "kind": "logits", "random_state": 0, "threads": 1}
    sizes = {}
    for name in ("class", "rc3p"):
        cp = cx.ScoreAverage("aps", calibration=name, **options).fit(logits[:6000], y[:6000])
        sizes[name] = cp.predict_set(logits[6000:]).sizes.mean()
    assert sizes["rc3p"] < 0.9 * sizes["class"]
    # Ranks and weights stay frozen while each row of a bag is held out: exact within every class.
    bag = np.flatnonzero(y[6000:] < 2)[:60] + 6000
    hits = np.zeros(len(bag), dtype=bool)
    for i, row in enumerate(bag):
        rest = np.delete(bag, i)
        again = cp.recalibrate(logits[rest], y[rest])
        hits[i] = np.asarray(again.predict_set(logits[row : row + 1]))[0, y[row]]
    for c in (0, 1):
        own = y[bag] == c
        assert hits[own].sum() >= cx.conformal_rank(int(own.sum()) - 1, 0.1)


@pytest.mark.parametrize(
    ("share", "alpha"), [(0.5, 0.2), (0.7, 0.1), (0.3, 0.1), (1.0, 0.07), (0.29, 1.0 - 0.9)]
)
def test_the_largest_rank_is_the_smallest_whose_error_is_within_its_share_of_alpha(
    share: float, alpha: float
) -> None:
    rng = np.random.default_rng(3)
    allowed = Fraction(str(share)) * Fraction(str(round(alpha, 6)))
    y = np.repeat([0, 1, 2, 4], [1, 10, 33, 100])
    ranks = np.concatenate([1 + rng.permutation(100)[:n] for n in (1, 10, 33, 100)])
    found = RankedPerClass(share=share).limits(ranks, y, 100, alpha)
    for c in range(6):
        own = ranks[y == c].tolist()
        enough = [k for k in range(1, 101) if sum(r > k for r in own) <= allowed * len(own)]
        assert found[c] == (min(enough) if own else 100)


@pytest.mark.parametrize("share", [-0.1, 0, 1.1])
def test_a_share_of_the_error_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(cx.InvalidInput, match=r"^share must lie in \(0, 1\]; got"):
        RankedPerClass(share=share).limits(np.array([1, 2]), np.array([0, 1]), 2, 0.1)


def test_ranks_of_true_labels_come_with_the_range_of_all_scores() -> None:
    rng = np.random.default_rng(0)
    scores, y = rng.normal(size=(30, 4, 2)), rng.integers(4, size=30)
    rule = Rule(Scaled((1.0, 1.0)), np.array([0.5, 0.5]))
    values = rule.combined(scores)
    ranks, width = rule.true_ranks(scores, y)
    assert width == values.max() - values.min()
    own = values[np.arange(30), y][:, None]
    assert_array_equal(ranks, 1 + (values > own).sum(axis=1))


def test_labels_beyond_their_rank_come_after_all_that_are_within_theirs() -> None:
    probs, y = uneven_classes(np.random.default_rng(8), 400, (0.4, 0.2, 0.2, 0.1, 0.1))
    cp = cx.ScoreAverage("paper", calibration="rc3p", alpha=0.3, random_state=0).fit(probs, y)
    rule = cp.predictor_.fitted.rule
    scores = cx.score_tensor(probs, NAMES)
    plain, limited = replace(rule, limits=None).combined(scores), rule.combined(scores)
    beyond = limited != plain
    assert beyond.any()
    assert limited[beyond].max() < limited[~beyond].min()


def test_a_class_conditional_classifier_needs_one_word() -> None:
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(8)
    y = rng.choice(["low", "high"], size=800, p=[0.8, 0.2])
    X = rng.normal(size=(800, 2)) + (y == "high")[:, None]
    clf = cx.ConformalClassifier(
        GaussianNB(), calibration="class", random_state=0, scores="paper"
    ).fit(X, y)
    assert "class of y" in clf.guarantee_.statement
    assert clf.predict_set(X[:5]).classes == ["high", "low"]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"calibration": "clas"}, {}, "unknown calibration 'clas'; did you mean 'class'"),
        ({"calibration": 3}, {}, "calibration must be class, cluster, group"),
        ({"calibration": "group"}, {}, 'calibration "group" needs strata=..., one value per row'),
        ({}, {"strata": [1, 2, 3]}, 'strata has no use under calibration "marginal"'),
        ({"calibration": "group"}, {"strata": [1, 2]}, "strata must hold one text or integer"),
        ({"calibration": "group"}, {"strata": [0.5, 1, 2]}, "strata must hold one text or integer"),
        ({"calibration": "cluster", "split": "exact"}, {}, 'split "exact" all of them calibrate'),
        ({"calibration": "cluster", "split": "efcp"}, {}, "clusters are learnt on rows apart"),
        ({"calibration": "rc3p", "split": "efcp"}, {}, '"rc3p" freezes its ranks on rows apart'),
        ({"calibration": "rc3p", "weights": [1, 0, 0]}, {}, "fixed weights leave none"),
        ({"calibration": PerClass("none")}, {}, "unknown fallback 'none'"),
        ({"calibration": PerClass("pooled", min_rows=-1)}, {}, "min_rows must be a number of rows"),
        ({"calibration": Clustered(clusters=[0])}, {}, "clusters must hold one integer per class"),
        ({"calibration": Clustered(clusters=[0] * 3)}, {}, "clusters must .* per class, 2 of them"),
        ({"calibration": Clustered(clusters=[[0, 0]])}, {}, r"clusters must .* shape \(1, 2\)"),
        ({"calibration": Clustered(clusters=[0.0, 1.0])}, {}, "clusters must .* got float64"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_in_one_sentence(
    options: dict, rows: dict, message: str
) -> None:
    probs = np.array([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    with pytest.raises(cx.InvalidInput, match=message):
        cx.ScoreAverage(alpha=0.5, random_state=0, **{"scores": "paper", **options}).fit(
            probs, [0, 1, 1], **rows
        )


@pytest.mark.parametrize("n_clusters", [0, -1, 1.5, True])
def test_a_number_of_clusters_is_a_whole_one_from_one_on(n_clusters: object) -> None:
    probs, y = uneven_classes(np.random.default_rng(9), 300, (0.4, 0.3, 0.3))
    options = {"alpha": 0.2, "random_state": 0}
    one = cx.ScoreAverage(
        calibration=Clustered(n_clusters=1), **{"scores": "paper", **options}
    ).fit(probs, y)
    assert len(np.unique(one.threshold_)) == 1
    with pytest.raises(cx.InvalidInput, match="n_clusters must be a positive integer; got"):
        cx.ScoreAverage(
            calibration=Clustered(n_clusters=n_clusters), **{"scores": "paper", **options}
        ).fit(probs, y)


def test_too_few_rows_in_a_class_are_told() -> None:
    probs, y = uneven_classes(np.random.default_rng(9), 100, (0.9, 0.08, 0.02))
    with pytest.warns(cx.TrivialSetsWarning, match="strata by class have too few rows"):
        fixed(0.05, "class").fit(probs, y)


def test_a_stratum_of_just_enough_rows_is_not_short_of_them_whatever_its_scores() -> None:
    model = fixed(0.2, "class").fit(*uneven_classes(np.random.default_rng(9), 40, (0.5, 0.5)))
    values, y = np.repeat([-np.inf, 0.5], 4), np.repeat([0, 1], 4)
    cuts = model.predictor_.fitted.cuts.plan.cut(values, y, NO_DATA)
    assert cuts.table(0.2, conformal_rank).tolist() == [-np.inf, 0.5]
    with warnings.catch_warnings(action="error"):
        cuts.warn(0.2, conformal_rank)
    with pytest.warns(cx.TrivialSetsWarning, match="2 of 2 strata"):
        cuts.warn(0.19, conformal_rank)


@pytest.mark.parametrize("threads", [2, 3, 4, 5])
def test_threads_do_not_change_what_a_search_with_thresholds_per_class_counts(threads: int) -> None:
    rng = np.random.default_rng(2)
    scores, y = rng.random((30, 3, 2)), np.arange(30) % 3
    first = np.linspace(0, 1, 11)
    weights = np.stack([first, 1 - first], axis=1)
    counts = [
        ClassObjective(
            scores[np.arange(30), y], y, np.arange(3), [scores],
            alpha=0.2, rank=conformal_rank, threads=number,
        ).counts(weights)
        for number in (1, threads)
    ]  # fmt: skip
    assert_array_equal(*counts)
