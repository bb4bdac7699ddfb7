"""Rare classes and groups, and what is then promised: whole sentences."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
from calibration.rows import NAMES, fixed, uneven_classes
from conformix.calibration import Clustered, PerClass, PerGroup
from conformix.errors import InvalidInput
from conformix.splits import ValidityFirst

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")


def test_rare_classes_are_always_in_pooled_or_marginal_as_asked() -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 400, (0.6, 0.35, 0.03, 0.02))
    test = probs[:50]
    always = fixed(0.1, PerClass("all", min_rows=30)).fit(probs, y)
    assert np.asarray(always.predict_set(test))[:, 2:].all()
    assert_array_equal(always.threshold_[2:], -np.inf)
    pooled = fixed(0.1, PerClass("pooled", min_rows=30)).fit(probs, y)
    values = pooled.predictor_.fitted.rule.of_true_labels(cx.score_tensor(probs, NAMES), y)
    rare = np.sort(values[y >= 2])
    assert (pooled.threshold_[2:] == rare[len(rare) - cx.conformal_rank(len(rare), 0.1)]).all()
    marginal = fixed(0.1, PerClass("marginal", min_rows=30)).fit(probs, y)
    plain = fixed(0.1, "marginal").fit(probs, y)
    assert (marginal.threshold_[2:] == plain.threshold_).all()
    assert (always.threshold_[:2] == pooled.threshold_[:2]).all()


def test_the_statement_says_what_the_fallback_costs() -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 400, (0.6, 0.35, 0.03, 0.02))
    told = {
        name: fixed(0.1, PerClass(name, min_rows=30)).fit(probs, y).guarantee_
        for name in ("all", "pooled", "marginal")
    }
    assert told["all"].kind == "exact"
    assert "labels of 2 rare classes always in" in told["all"].statement
    # The calibration rows said which classes are rare: the pool is exact only on fresh rows.
    assert told["pooled"].kind == "approximate"
    assert "2 rare classes only together" in told["pooled"].statement
    assert told["marginal"].kind == "approximate"
    assert "no conditional statement for 2 rare classes" in told["marginal"].statement
    again = fixed(0.1, PerClass("pooled", min_rows=30)).fit(probs, y).recalibrate(probs, y)
    assert again.guarantee_.kind == "exact"


def test_a_pool_laid_down_on_tuning_rows_is_exact_and_efcp_is_not() -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 600, (0.6, 0.36, 0.04))
    cp = cx.ScoreAverage(
        "paper", alpha=0.1, calibration=PerClass("pooled", min_rows=30), random_state=0
    )
    assert cp.fit(probs, y).guarantee_.kind == "exact"
    efcp = cp.set_params(split="efcp").fit(probs, y).guarantee_
    assert efcp.kind == "approximate"
    assert "minus a selection term" in efcp.statement


def test_a_pac_rank_applies_within_every_class() -> None:
    probs, y = uneven_classes(np.random.default_rng(2), 800)
    cp = fixed(0.1, "class").set_params(guarantee="pac", delta=0.1).fit(probs, y)
    assert str(cp.guarantee_) == (
        "pac: for each class by itself, not for all at once: coverage >= 1 - alpha with "
        "probability >= 0.9 over the calibration rows "
        "(within every class: i.i.d. rows; weights chosen without these rows; every label "
        "among the classes)"
    )
    assert (cp.threshold_ <= fixed(0.1, "class").fit(probs, y).threshold_).all()


def test_under_pac_a_borrowed_threshold_is_the_pac_one_of_all_rows() -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 400, (0.6, 0.35, 0.03, 0.02))
    pac = {"guarantee": "pac", "delta": 0.1}
    cp = fixed(0.1, PerClass("marginal", min_rows=30)).set_params(**pac).fit(probs, y)
    plain, all_rows = (
        fixed(0.1, "marginal").set_params(**some).fit(probs, y) for some in ({}, pac)
    )
    assert (cp.threshold_[2:] == all_rows.threshold_).all()
    assert all_rows.threshold_ < plain.threshold_


def test_under_pac_a_class_without_rows_is_always_in() -> None:
    probs, y = uneven_classes(np.random.default_rng(2), 200)
    cp = fixed(0.1, "class").set_params(guarantee="pac", delta=0.1)
    with pytest.warns(cx.TrivialSetsWarning):
        cp.fit(probs[y > 0], y[y > 0])
    assert cp.threshold_[0] == -np.inf
    assert np.asarray(cp.predict_set(probs))[:, 0].all()


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_a_pac_statement_about_a_batch_has_no_parts(split: str) -> None:
    probs, y = uneven_classes(np.random.default_rng(2), 300)
    cp = cx.ScoreAverage("paper", alpha=0.1, split=split, calibration="class", guarantee="pac")
    sentence = (
        f'guarantee="pac" with split "{split}" speaks of the whole test batch, and calibration '
        '"class" of parts of unknown size; say split="holdout" (vfcp) or "all-rows" (efcp).'
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(sentence)}$"):
        cp.fit(probs, y, test=probs)


def test_classes_too_rare_for_a_cluster_are_counted_as_classes() -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 400, (0.6, 0.35, 0.03, 0.02))
    cp = fixed(0.1, Clustered(clusters=[0, 0, -1, -1])).fit(probs, y)
    assert cp.guarantee_.statement == (
        "P(y in set | cluster of y) >= 1 - alpha; 2 rare classes only together"
    )


@pytest.mark.parametrize("what", ["class", "cluster", "group", "group and class"])
def test_the_ledger_has_no_one_number_for_many_thresholds(what: str) -> None:
    probs, y = uneven_classes(np.random.default_rng(1), 900)
    schemes = {
        "class": "class",
        "cluster": Clustered(clusters=[0, 1, 1]),
        "group": "group",
        "group and class": PerGroup(by_class=True),
    }
    rows = {"strata": np.arange(900) % 2} if "group" in what else {}
    ledger = fixed(0.1, schemes[what]).fit(probs, y, **rows).guarantee_
    assert ledger.table().splitlines()[-1] == (
        f"order statistic  no one number: every {what} has its own threshold and rows [vacuous] "
        "(one threshold for all rows)"
    )


def test_unknown_groups_take_the_fallback() -> None:
    probs, y = uneven_classes(np.random.default_rng(3), 300)
    groups = np.where(np.arange(300) % 2, "a", "b")
    stranger = {"strata": np.array(["z"] * 300)}
    for name, expected in (("all", None), ("marginal", fixed(0.1, "marginal").fit(probs, y))):
        cp = fixed(0.1, PerGroup(name)).fit(probs, y, strata=groups)
        sets = np.asarray(cp.predict_set(probs, **stranger))
        if expected is None:
            assert sets.all()
        else:
            assert_array_equal(sets, np.asarray(expected.predict_set(probs)))
    assert set(cp.threshold_) == {"a", "b"}


@pytest.mark.parametrize("fallback", ["all", "pooled"])
def test_a_group_that_only_calibration_rows_have_is_a_group_of_the_fit(fallback: str) -> None:
    probs, y = uneven_classes(np.random.default_rng(8), 300)
    split = ValidityFirst(share=0.2)
    tune = split.roles(300, 0, np.random.default_rng(1)).tune
    late = np.setdiff1d(np.arange(300), tune)[:60]
    groups = np.array(["often"] * 300)
    groups[late] = "later"
    cp = cx.ScoreAverage(
        NAMES, alpha=0.1, split=split, search=[[0.5, 0.25, 0.25]], normalize="ecdf",
        calibration=PerGroup(fallback, min_rows=0), random_state=np.random.default_rng(1),
    )  # fmt: skip
    cp.fit(probs, y, strata=groups)
    values = cp.predictor_.fitted.rule.of_true_labels(cx.score_tensor(probs, NAMES), y)
    own = np.sort(values[late])[::-1]
    assert set(cp.threshold_) == {"later", "often"}
    assert cp.threshold_["later"] == own[cx.conformal_rank(60, 0.1) - 1]


def test_groups_by_class_have_a_threshold_for_every_pair() -> None:
    probs, y = uneven_classes(np.random.default_rng(3), 900)
    groups = np.arange(900) % 2
    cp = fixed(0.1, PerGroup(by_class=True)).fit(probs, y, strata=groups)
    for g in (0, 1):
        alone = fixed(0.1, "class").fit(probs[groups == g], y[groups == g])
        assert_array_equal(cp.threshold_[g], alone.threshold_)


def thresholds_by_hand(
    values: np.ndarray, cells: dict, always: set, everywhere: set
) -> dict[object, float]:
    """The threshold of every cell from its own rows, by sorting and counting."""
    found = {}
    for cell, rows in cells.items():
        own = values if cell in everywhere else [values[i] for i in rows]
        falling = sorted(own, reverse=True)
        k = cx.conformal_rank(len(falling), 0.1)
        trivial = cell in always or k > len(falling)
        found[cell] = -np.inf if trivial else falling[k - 1]
    return found


@pytest.mark.parametrize("clusters", [(0, 0, 1, 1, -1, -1), (-1, 3, 3, -1, 0, 0), (-1,) * 6])
@pytest.mark.parametrize("fallback", ["pooled", "all", "marginal"])
def test_classes_of_the_null_cluster_share_a_threshold_with_each_other_alone(
    clusters: tuple[int, ...], fallback: str
) -> None:
    probs, y = uneven_classes(np.random.default_rng(4), 300, (0.3, 0.2, 0.2, 0.1, 0.1, 0.1))
    cp = fixed(0.1, Clustered(clusters=clusters, fallback=fallback)).fit(probs, y)
    values = cp.predictor_.fitted.rule.of_true_labels(cx.score_tensor(probs, NAMES), y)
    rows = {c: [i for i in range(300) if clusters[y[i]] == c] for c in set(clusters)}
    null = {-1}
    expected = thresholds_by_hand(
        values, rows, null if fallback == "all" else set(),
        null if fallback == "marginal" else set(),
    )  # fmt: skip
    assert_array_equal(cp.threshold_, [expected[c] for c in clusters])


@pytest.mark.parametrize("fallback", ["pooled", "all", "marginal"])
def test_rare_pairs_of_group_and_class_take_the_fallback_and_no_others_do(fallback: str) -> None:
    rng = np.random.default_rng(5)
    probs, y = uneven_classes(rng, 500, (0.5, 0.3, 0.15, 0.05))
    groups = rng.choice(3, size=500, p=[0.6, 0.3, 0.1])
    scheme = PerGroup(fallback, min_rows=25, by_class=True)
    cp = fixed(0.1, scheme).fit(probs, y, strata=groups)
    values = cp.predictor_.fitted.rule.of_true_labels(cx.score_tensor(probs, NAMES), y)
    pairs = {(g, c): [i for i in range(500) if (groups[i], y[i]) == (g, c)]
             for g in range(3) for c in range(4)}  # fmt: skip
    rare = {pair for pair, rows in pairs.items() if len(rows) < 25}
    assert 2 <= len(rare) <= 8
    pool = sorted(i for pair in rare for i in pairs[pair])
    cells = {p: pool if p in rare and fallback == "pooled" else rows for p, rows in pairs.items()}
    expected = thresholds_by_hand(
        values, cells, rare if fallback == "all" else set(),
        rare if fallback == "marginal" else set(),
    )  # fmt: skip
    for g in range(3):
        assert_array_equal(cp.threshold_[g], [expected[g, c] for c in range(4)])


def test_the_pvalue_of_a_label_that_is_always_in_is_one() -> None:
    probs, y = uneven_classes(np.random.default_rng(6), 400, (0.6, 0.35, 0.05))
    cp = fixed(0.1, PerClass("all", min_rows=30)).fit(probs, y)
    for smoothed in (False, True):
        assert (cp.predict_pvalues(probs, smoothed=smoothed)[:, 2] == 1).all()
    for alpha in (0.1, 0.7):
        inside = np.asarray(cp.predict_set(probs, alpha=alpha))
        assert_array_equal(inside, cp.predict_pvalues(probs) > alpha)


def test_a_class_is_rare_by_the_calibration_rows_that_it_is_expected_to_have() -> None:
    probs, y = uneven_classes(np.random.default_rng(7), 500, (0.6, 0.3, 0.1))
    split = ValidityFirst(share=0.2)
    tune = split.roles(500, 0, np.random.default_rng(1)).tune
    counts = np.bincount(y[tune], minlength=3)
    least = int(4 * counts[2])  # 400 calibration rows for 100 tuning rows
    told = []
    for min_rows in (least, least + 1):
        scheme = PerClass("pooled", min_rows=min_rows)
        cp = cx.ScoreAverage(split=split, calibration=scheme, search=[[0.4, 0.3, 0.3]])
        cp.set_params(random_state=np.random.default_rng(1)).fit(probs, y)
        told.append("1 rare classes only together" in cp.guarantee_.statement)
    assert told == [False, True]


def test_a_class_with_just_enough_rows_has_a_cluster() -> None:
    probs, y = uneven_classes(np.random.default_rng(7), 500, (0.6, 0.3, 0.1))
    split = ValidityFirst(share=0.2)
    tune = split.roles(500, 0, np.random.default_rng(1)).tune
    fewest = int(np.bincount(y[tune], minlength=3).min())
    told = []
    for min_rows in (fewest, fewest + 1):
        scheme = Clustered(n_clusters=2, min_rows=min_rows)
        cp = cx.ScoreAverage(split=split, calibration=scheme, search=[[0.4, 0.3, 0.3]])
        cp.set_params(random_state=np.random.default_rng(1)).fit(probs, y)
        told.append("rare" in cp.guarantee_.statement)
    assert told == [False, True]


def test_unseen_groups_void_the_statement_where_they_take_the_marginal_cut(cifar10) -> None:
    logits, labels = cifar10[0][:900], cifar10[1][:900]
    strata = np.repeat(["a", "b"], 450)
    kinds = {}
    for fallback in ("all", "pooled", "marginal"):
        cp = cx.ScoreAverage("paper", kind="logits", calibration=PerGroup(fallback), random_state=0)
        kinds[fallback] = cp.fit(logits, labels, strata=strata).guarantee_.kind
        unseen = cp.predict_set(logits[:50], strata=["c"] * 50).sizes
        assert (unseen == 10).all() == (fallback != "marginal")
    assert kinds == {"all": "exact", "pooled": "exact", "marginal": "approximate"}
