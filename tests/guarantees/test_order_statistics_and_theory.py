"""Every formula of the theory against a value worked out in the comment beside it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.stats import beta, betabinom, binom

import conformix as cx
from conformix import guarantees as gs
from conformix.errors import InvalidInput, TrivialSetsWarning
from conformix.guarantees.statement import at_least, at_most


@pytest.mark.parametrize(
    ("n", "alpha", "delta", "m", "k"),
    [
        (100, 0.1, 0.1, 1, 95),
        (500, 0.05, 0.1, 1, 482),
        (30, 0.1, 0.05, 1, 30),
        (22, 0.1, 0.1, 1, 22),
        (1000, 0.1, 0.05, 231, 933),
        (5000, 0.05, 0.1, 5151, 4812),
        (21, 0.1, 0.1, 1, 22),  # .9 ** 21 = .109 > .1: even the smallest score is not enough
    ],
)
def test_pac_rank_by_another_route(n, alpha, delta, m, k):
    # P(Beta(k, n+1-k) <= p) = P(Binomial(n, p) >= k): the binomial tail instead of the beta law
    assert gs.pac_rank(n, alpha, delta, n_weights=m) == k
    if k <= n:
        assert m * binom.sf(k - 1, n, 1 - alpha) <= delta
    assert m * binom.sf(k - 2, n, 1 - alpha) > delta


def test_marginal_bound_is_the_integral_it_claims_to_be():
    for n, k, m in ((50, 46, 1), (50, 46, 20), (1000, 951, 231)):
        law = beta(k, n + 1 - k)
        turn = [law.ppf(1 / m)] if m > 1 else None

        def term(u, law=law, m=m):
            return max(0.0, 1 - m * law.cdf(u))

        value, _ = integrate.quad(term, 0, 1, points=turn, limit=200)
        assert_allclose(gs.marginal_bound(n, k, n_weights=m), value, rtol=1e-6)
    assert gs.marginal_bound(99, 90) == 90 / 100  # one weight: k / (n + 1)
    assert round(gs.marginal_bound(5000, 4751, n_weights=5151), 4) == 0.9375
    assert gs.restoring_rank(5000, 0.05, n_weights=5151) == 4807
    assert gs.marginal_bound(5000, 4807, n_weights=5151) >= 0.95
    assert gs.marginal_bound(5000, 4806, n_weights=5151) < 0.95


def test_batch_rank_by_its_definition():
    k = gs.batch_pac_rank(300, 200, 0.1, 0.1, n_weights=10)
    assert 10 * betabinom.cdf(179, 200, k, 301 - k) <= 0.1
    assert 10 * betabinom.cdf(179, 200, k - 1, 302 - k) > 0.1


def covered_at_least(share, m, k, n):
    """P(at least a share of m new rows reach the k-th largest of n scores), by counting orders.

    Of the n + m scores in falling order, h new ones come before the k-th old one:
    ``C(k - 1 + h, h) C(n - k + m - h, m - h)`` of the ``C(n + m, m)`` orders, in whole numbers.
    """
    orders = sum(
        math.comb(k - 1 + h, h) * math.comb(n - k + m - h, m - h)
        for h in range(m + 1)
        if h >= share * m
    )
    return Fraction(orders, math.comb(n + m, m))


@pytest.mark.parametrize("alpha", [Fraction(1, 10), Fraction(1, 7), Fraction(3, 20)])
@pytest.mark.parametrize("m", [1, 9, 10, 33, 50])  # alpha m is whole for some of them only
def test_a_batch_is_covered_as_often_as_its_rank_says_and_one_rank_less_would_not_do(m, alpha):
    for n, delta, n_weights in ((60, Fraction(1, 5), 1), (150, Fraction(1, 10), 3)):
        k = gs.batch_pac_rank(n, m, float(alpha), float(delta), n_weights=n_weights)
        missed = [1 - covered_at_least(1 - alpha, m, rank, n) for rank in (k, k - 1) if rank <= n]
        assert n_weights * missed[-1] > delta
        assert k > n or n_weights * missed[0] <= delta


@pytest.mark.parametrize(("delta", "needed"), [(None, 99), (0.1, 230)])
def test_rows_are_needed_up_to_a_number_and_one_more_stands_for_all_beyond(delta, needed):
    rule = gs.RankRule(delta)
    for most in (needed - 50, needed - 1, needed, needed + 1, 500):
        assert rule.rows_needed(0.01, most) == min(needed, most + 1)


@pytest.mark.parametrize(("n_weights", "chosen"), [
    (1, "chosen without these rows"), (1500, "chosen among 1,500 candidates"),
])  # fmt: skip
def test_a_pac_guarantee_says_of_whom_it_speaks_and_who_chose_the_weights(n_weights, chosen):
    one = gs.pac_guarantee(0.25, n_weights=n_weights, batch=None)
    batch = gs.pac_guarantee(0.25, n_weights=n_weights, batch=2000)
    assert one.statement == (
        "coverage >= 1 - alpha with probability >= 0.75 over the calibration rows"
    )
    assert batch.statement == (
        "coverage of the fitted batch of 2,000 rows >= 1 - alpha with probability >= 0.75 over "
        "calibration and batch"
    )
    for guarantee in (one, batch):
        assert guarantee.kind == "pac"
        assert guarantee.assumption.startswith(f"i.i.d. rows; weights {chosen}; ")


def test_a_tail_that_is_the_failure_probability_itself_is_small_enough():
    # one row or three: P(Beta(1, 1) <= 1/2) = 1/2, P(a new row is below the smallest of 3) = 1/4
    assert gs.pac_rank(1, 0.5, 0.5) == gs.batch_pac_rank(1, 1, 0.5, 0.5) == 1
    assert gs.batch_pac_rank(3, 1, 0.5, 0.25) == 3
    one = gs.batch_pac_rank(300, 200, 0.1, 0.1, n_weights=1)
    assert gs.batch_pac_rank(300, 200, 0.1, 0.1) == one
    assert one < gs.batch_pac_rank(300, 200, 0.1, 0.1, n_weights=2)
    assert gs.batch_bound(3, 1, 3, 0.25) == 1.0


def test_the_smallest_score_bounds_coverage_and_a_rank_beyond_the_rows_covers_all():
    # P(Beta(n, 1) <= t) = t**n; a new row is below the smallest of 3 with probability 1/4
    assert gs.conditional_bound(3, 3, 0.125) == pytest.approx(0.5)
    assert gs.batch_bound(3, 1, 3, 0.24) == 0.0
    assert gs.conditional_bound(3, 4, 0.125) == gs.batch_bound(3, 1, 4, 0.24) == 1.0


def test_n_needed_is_enough_and_one_less_is_not():
    for options in ({"tolerance": 0.02}, {"tolerance": 0.01, "n_weights": 231}):
        n = gs.n_needed(0.1, 0.1, **options)
        m = options.get("n_weights", 1)

        def enough(rows, m=m, tolerance=options["tolerance"]):
            k = gs.pac_rank(rows, 0.1, 0.1, n_weights=m)
            return k <= rows and k / (rows + 1) <= 0.9 + tolerance

        assert enough(n)
        assert not enough(n - 1)


def test_up_to_a_hundred_million_rows_are_looked_for():
    # 1.2816 sqrt(.09 / n) = 4e-5 for n = 9.2e7, 3e-5 for 1.6e8
    assert 9.1e7 < gs.n_needed(0.1, 0.1, tolerance=4e-5) < 9.4e7
    with pytest.raises(InvalidInput, match=r"^no calibration set of up to 10\*\*8 rows reaches"):
        gs.n_needed(0.1, 0.1, tolerance=3e-5)


def test_lemma_1():
    # 8 sqrt(4 log(5001)/5000) = 8 sqrt(.0068139) = .6604 for v = d + 1 = 4, any weights;
    # 8 sqrt(3 log(5001)/5000) = .5719 for v = d = 3, non-negative weights;
    # plus sqrt(2 log(10)/5000) = .0303 for delta = .1
    assert round(gs.vc_eta(5000, 3, 0.1, nonnegative=False), 4) == round(0.66035 + 0.03035, 4)
    assert round(gs.vc_eta(5000, 3, 0.1), 4) == round(0.57188 + 0.03035, 4)


def test_grid_term():
    # sqrt(log(2 * 5151 / .1) / 10000) = sqrt(11.5427 / 10000) = .03397
    assert round(gs.grid_eta(5000, 5151, 0.1), 5) == 0.03397


def test_relative_bound():
    # h = 3, n = 5000, delta = .1: E = 4 (3 log(2 e 5000/3) + log 40)/5000
    #   = 4 (3 * 9.11166 + 3.68888)/5000 = .0248191; P_n = 0: bound E
    assert round(gs.relative_bound(5000, 3, 0.1, 0.0), 5) == 0.02482
    # P_n = .05: .05 + E/2 (1 + sqrt(1 + .2/E)) = .05 + .0124096 (1 + 3.0096) = .09976
    assert round(gs.relative_bound(5000, 3, 0.1, 0.05), 4) == 0.0998


def test_kappa():
    assert gs.kappa(99, 0.1) == 90 / 99
    assert gs.kappa(100, 0.1) == 91 / 100  # ceil(101 * .9) = ceil(90.9) = 91


def test_theorem_1():
    # n1 = n3 = 10^7, K = 10, d = 3, delta = .3: each event at .1;
    # eta = 8 sqrt(3 log(10^7)/10^7) + sqrt(2 log(10)/10^7) = .0175917 + .0006786 = .0182703
    eta = 8 * math.sqrt(3 * math.log(10**7 + 1) / 10**7) + math.sqrt(2 * math.log(10) / 10**7)
    assert round(eta, 7) == 0.0182703
    values = gs.theorem1(10**7, 10**7, alpha=0.1, tune_alpha=0.05, n_classes=10, d=3, delta=0.3)
    assert values.coverage == 0.9
    # kappa(n1, .05) - eta = .93173 >= kappa(n3, .1) + eta = .91827: feasible
    assert values.feasible
    assert_allclose(values.oracle_level, gs.kappa(10**7, 0.05) + eta, rtol=1e-12)
    assert_allclose(values.size_gap, 2 * 10 * eta, rtol=1e-12)
    # alpha' may be as large as .1 - 2 eta, up to rounding
    largest = gs.largest_tune_alpha(10**7, 10**7, alpha=0.1, d=3, delta=0.3)
    assert_allclose(largest, 0.1 - 2 * eta, atol=1e-6)
    close = gs.theorem1(
        10**7, 10**7, alpha=0.1, tune_alpha=largest * 1.001, n_classes=10, d=3, delta=0.3
    )
    assert not close.feasible
    # at the sizes people have no alpha' will do
    assert gs.largest_tune_alpha(5000, 5000, alpha=0.05, d=3, delta=0.1) is None


def test_theorems_2_to_4():
    n, m, options = 10**6, 10**5, {"alpha": 0.1, "n_classes": 10, "d": 3}
    level = gs.kappa(n, 0.1)
    two = gs.theorem2(n, delta=0.2, **options)  # two events at .1
    eta = gs.vc_eta(n, 3, 0.1)
    assert_allclose([two.coverage, two.oracle_level], [level - eta, level + eta], rtol=1e-12)
    assert_allclose(two.size_gap, 20 * eta, rtol=1e-12)
    three = gs.theorem3(n, m, delta=0.3, **options)  # three events at .1
    eta_test = gs.vc_eta(m, 3, 0.1)
    assert_allclose(three.coverage, level - eta - eta_test, rtol=1e-12)
    assert_allclose(three.size_gap, 10 * eta_test, rtol=1e-12)
    four = gs.theorem4(n, m, delta=0.3, **options)
    assert_allclose(four.coverage, three.coverage, rtol=1e-12)
    assert_allclose(four.size_gap, 20 * gs.vc_eta(n + m, 3, 0.1), rtol=1e-12)
    for values, delta in ((two, 0.2), (three, 0.3), (four, 0.3)):
        assert_allclose(values.oracle_level, level + eta, rtol=1e-12)
        assert (values.n_classes, values.failure, values.feasible) == (10, delta, True)


def test_the_largest_level_to_tune_at_meets_the_condition_and_one_rank_more_does_not():
    n, options = 999_999, {"alpha": 0.3, "d": 3, "delta": 0.3}
    for n_cal in (499_999, n):
        largest = gs.largest_tune_alpha(n, n_cal, **options)
        for tune_alpha, feasible in ((largest, True), (largest + 1 / (n + 1), False)):
            values = gs.theorem1(n, n_cal, tune_alpha=tune_alpha, n_classes=10, **options)
            assert values.feasible == feasible
            assert_allclose(values.oracle_level, gs.kappa(n, tune_alpha) + gs.vc_eta(n, 3, 0.1))
            assert_allclose(values.size_gap, 20 * gs.vc_eta(n, 3, 0.1), rtol=1e-12)
    # one step of alpha is one rank here: the first level that has an alpha' has the last rank
    first = math.ceil(2 * gs.vc_eta(n, 3, 0.1) * 10**6)
    found = [
        gs.largest_tune_alpha(n, n, alpha=a / 10**6, d=3, delta=0.3)
        for a in range(first - 2, first + 4)
    ]
    assert found[0] is None
    assert next(alpha for alpha in found if alpha is not None) == 1 / 10**6


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((0.0, 1.0, 9.994, 10, 0.25), "vacuous; size <= oracle at 1.0000 + 9.99"),
        ((1e-4, 1.0, 10.0, 10, 0.25), "coverage >= 0.0001; size: vacuous (K = 10)"),
        ((-0.1, 1.0001, 1.0, 10, 0.25), "vacuous; size: vacuous (K = 10)"),
        ((0.9, 1.0, 1.0, 10, 0.25, False),
         "coverage >= 0.9000; size: infeasible (no alpha' satisfies its condition)"),
    ],
)  # fmt: skip
def test_a_theorem_says_in_words_what_its_numbers_leave(values, says):
    told = gs.TheoremValues("A theorem", *values)
    assert str(told) == f"A theorem: {says}; fails with probability <= 0.25"


def test_vacuous_statements_say_so():
    values = gs.theorem2(5000, alpha=0.05, n_classes=100, d=3, delta=0.1)
    assert values.vacuous_size
    assert "size: vacuous (K = 100)" in str(values)
    assert "infeasible" in str(
        gs.theorem1(5000, 5000, alpha=0.05, tune_alpha=0.04, n_classes=100, d=3, delta=0.1)
    )


# Through the estimator ----------------------------------------------------------------------------

DATA = cx.datasets.load("cifar10")
LOGITS, LABELS = DATA.outputs["vgg16"], DATA.labels
GRID = cx.search.GridSearch(10)  # 66 weights over three scores


def model(**options):
    usual = {"alpha": 0.1, "kind": "logits", "random_state": 0, "search": GRID}
    return cx.ScoreAverage(**{"scores": "paper"} | usual | options)


@pytest.mark.parametrize(
    ("split", "n", "rank"),
    [
        ("vfcp", 400, gs.pac_rank(400, 0.1, 0.05)),
        ("efcp", 800, gs.pac_rank(800, 0.1, 0.05, n_weights=66)),
        ("dlcp", 800, gs.batch_pac_rank(800, 300, 0.1, 0.05, n_weights=66)),
        ("dlcp+", 800, gs.batch_pac_rank(800, 300, 0.1, 0.05, n_weights=66)),
    ],
)
def test_a_pac_fit_takes_the_pac_rank(split, n, rank):
    cp = model(split=split, guarantee="pac", delta=0.05)
    cp.fit(LOGITS[:800], LABELS[:800], test=LOGITS[800:1100])
    calibration = cp.predictor_.fitted.calibration
    assert len(calibration) == n
    assert cp.threshold_ == calibration[n - rank]
    assert cp.guarantee_.kind == "pac"


def test_a_pac_fit_of_fixed_weights_and_of_a_recalibration_pays_for_one_candidate():
    cp = model(weights=[1.0, 0.0, 0.0], guarantee="pac").fit(LOGITS[:100], LABELS[:100])
    assert cp.threshold_ == cp.predictor_.fitted.calibration[100 - 95]
    efcp = model(split="efcp", guarantee="pac").fit(LOGITS[:300], LABELS[:300])
    efcp.recalibrate(LOGITS[300:400], LABELS[300:400])
    assert efcp.threshold_ == efcp.predictor_.fitted.calibration[100 - 95]


def test_too_few_rows_for_a_pac_statement_warn():
    with pytest.warns(TrivialSetsWarning, match="^20 calibration rows are too few for a PAC"):
        cp = model(weights=[1.0, 0.0, 0.0], guarantee="pac").fit(LOGITS[:20], LABELS[:20])
    assert cp.predict_set(LOGITS[:5]).mask.all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"guarantee": "sure"}, r'^guarantee must be "marginal" or "pac"; got .sure.\.$'),
        ({"delta": 0.0}, r"^delta must be a number strictly between 0 and 1; got 0\.0\.$"),
        ({"guarantee": "pac", "split": "efcp", "search": lambda objective, rng: None},
         r'^guarantee="pac" with split "all-rows" \(efcp\), "batch" \(dlcp\) or "batch\+" '
         r"\(dlcp\+\) needs candidate weights"),
    ],
)  # fmt: skip
def test_bad_guarantees_are_refused(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        model(**options).fit(LOGITS[:100], LABELS[:100])


def test_the_ledger_lists_what_holds_and_what_is_empty():
    cp = model(split="efcp").fit(LOGITS[:800], LABELS[:800])
    entries = {entry.source: entry for entry in cp.guarantee_.entries(delta=0.1)}
    bound = gs.marginal_bound(800, 721, n_weights=66)
    assert entries["selection, marginal"].says.startswith(f"coverage >= {at_least(bound)}")
    assert entries["Theorem 2 (EFCP)"].vacuous
    assert entries["Lemma 1 (VC)"].vacuous
    assert "vacuous" in cp.guarantee_.table()
    voided = model(split="efcp", normalize="ecdf").fit(LOGITS[:800], LABELS[:800])
    assert [entry.source for entry in voided.guarantee_.entries()] == ["none", "order statistic"]


def test_no_line_of_the_ledger_prints_more_than_is_proven():
    """Four digits of a lower bound are cut off, not rounded to the nearest."""
    for n in range(30, 330, 7):
        for split, m, n_test in (("vfcp", 66, 0), ("efcp", 66, 0), ("dlcp", 66, 90)):
            facts = gs.Facts(split, 0.1, 0.1, n, n, n_test, 10, 3, m, split == "vfcp", False)
            told = {e.source: e.says for e in gs.Ledger(gs.EXACT, facts).entries(0.1)}
            chosen = 1 if split == "vfcp" else m
            k = facts.rank(n, 0.1)
            proven = {
                "order statistic": gs.conditional_bound(n, k, 0.1, n_weights=chosen),
                "rank, marginal": gs.marginal_bound(n, k),
                "selection, marginal": gs.marginal_bound(n, k, n_weights=chosen),
                "Vapnik, relative": 1 - gs.relative_bound(n, 3, 0.1, max(1 - gs.kappa(n, 0.1), 0)),
            }
            if n_test:
                proven["order statistic, batch"] = gs.batch_bound(
                    n, n_test, k, 0.1, n_weights=chosen
                )
            for source, bound in proven.items():
                if source in told:
                    printed = float(told[source].partition(">= ")[2].split()[0])
                    assert bound - 1e-4 < printed <= bound + 1e-12
            deviation = float(told["finite grid (DKW)"].partition("<= ")[2].split()[0])
            assert deviation >= gs.grid_eta(n, 66, 0.1)


THEOREMS = {
    "vfcp": lambda f: gs.theorem1(
        f.n_tune, f.n_cal, alpha=0.1, tune_alpha=0.08, n_classes=10, d=3, delta=0.1
    ),
    "efcp": lambda f: gs.theorem2(f.n_cal, alpha=0.1, n_classes=10, d=3, delta=0.1),
    "dlcp": lambda f: gs.theorem3(f.n_cal, f.n_test, alpha=0.1, n_classes=10, d=3, delta=0.1),
    "dlcp+": lambda f: gs.theorem4(f.n_cal, f.n_test, alpha=0.1, n_classes=10, d=3, delta=0.1),
}


@pytest.mark.parametrize("n", [5, 40, 300, 10**6])
@pytest.mark.parametrize("n_test", [0, 90])
@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+", "exact", "fixed"])
def test_the_ledger_has_a_line_for_every_statement_that_its_fit_earns(split, n_test, n):
    separate = split in ("vfcp", "fixed")
    facts = gs.Facts(split, 0.1, 0.08, 2 * n, n, n_test, 10, 3, 66, separate, False)
    k, m = gs.kappa(n, 0.1) * n, 1 if separate or split == "exact" else 66
    k, whom = round(k), " of a fresh row" if n_test else ""
    sure = "for 90% of calibration draws"
    marginal = gs.marginal_bound(n, k, n_weights=m)
    lines = {
        "rank, marginal" if m == 1 else "selection, marginal": (
            f"coverage{whom} >= {at_least(marginal)} on average over calibration draws", False)
    }  # fmt: skip
    if separate:
        told = f"{2 * n:,} rows chose the weights: how many does not enter the coverage"
        lines["tuning rows"] = (told, False)
    if split != "exact":
        worst = gs.conditional_bound(n, k, 0.1, n_weights=m)
        lines["order statistic"] = (f"coverage{whom} >= {at_least(worst)} {sure}", False)
    if n_test and split != "fixed":
        share = gs.batch_bound(n, n_test, k, 0.1, n_weights=m)
        told = f"coverage of this batch >= {at_least(share)} with probability 90%"
        lines["order statistic, batch"] = (told, False)
    if split not in ("exact", "fixed"):
        eta, grid = gs.vc_eta(n, 3, 0.1), gs.grid_eta(n, 66, 0.1)
        lines["Lemma 1 (VC)"] = (f"eta = {eta:.3f}, xi = {10 * eta:.1f}", n < 10**6)
        relative = 1 - gs.relative_bound(n, 3, 0.1, max(1 - k / n, 0))
        lines["Vapnik, relative"] = (f"coverage >= {at_least(relative)} {sure}", n <= 40)
        lines["finite grid (DKW)"] = (f"deviation <= {at_most(grid)} {sure}", False)
        if split == "vfcp":
            level = gs.largest_tune_alpha(2 * n, n, alpha=0.1, d=3, delta=0.1)
            told = "infeasible" if level is None else f"tune_alpha <= {level:.4f}"
            lines["Theorem 1, alpha'"] = (told, level is None)
        if n_test or split in ("vfcp", "efcp"):
            values = THEOREMS[split](facts)
            told = str(values).partition(": ")[2]
            lines[values.theorem] = (told, values.vacuous_coverage or values.vacuous_size)
    headline, *others = gs.Ledger(gs.EXACT, facts).entries(0.1)
    assert headline == ("exact", gs.EXACT.statement, gs.EXACT.assumption, False)
    assert {entry.source: (entry.says, entry.vacuous) for entry in others} == lines
    for entry in others:  # one weight needs no more than the rank itself
        if entry.source != "tuning rows":
            assert ("i.i.d." in entry.needs) == (entry.source != "rank, marginal")
    for calibration in ("class", "weighted"):
        other = gs.Ledger(gs.EXACT, replace(facts, calibration=calibration)).entries(0.1)
        assert [entry.source for entry in other if entry.source != "tuning rows"] == [
            "exact", "order statistic",
        ]  # fmt: skip


def test_a_share_of_missed_rows_may_be_none_or_all():
    assert 1 < gs.relative_bound(5000, 3, 0.1, 1.0) < 1.2
    for missed in (-1e-9, 1 + 1e-9):
        with pytest.raises(InvalidInput, match=r"^missed must be a share between 0 and 1; got"):
            gs.relative_bound(5000, 3, 0.1, missed)


def test_the_ledger_does_not_round_nearly_all_draws_up_to_all():
    cp = model(split="dlcp").fit(LOGITS[:800], LABELS[:800], test=LOGITS[800:1000])
    for delta, told in ((0.1, " 90%"), (0.001, " 99.9%"), (0.125, " 87.5%")):
        says = [entry.says for entry in cp.guarantee_.entries(delta) if "%" in entry.says]
        assert len(says) == 4
        assert all(told in one for one in says)


@pytest.mark.parametrize(("split", "delta"), [("vfcp", 0.1), ("efcp", 0.1)])
def test_pac_holds_over_draws_with_replacement(split, delta):
    """The pool is the population, so the coverage of every draw is known exactly."""
    scores = cx.score_tensor(LOGITS, ("thr", "rank"), kind="logits")
    rng, draws, short = np.random.default_rng(7), 200, 0
    for draw in range(draws):
        rows = rng.integers(0, len(LABELS), 300)
        cp = cx.ScoreAverage(
            ("thr", "rank"), alpha=0.1, kind="logits", split=split, guarantee="pac", delta=delta,
            search=GRID, normalize="none", random_state=draw,
        ).fit(LOGITS[rows], LABELS[rows])  # fmt: skip
        w = cp.weights_
        own = scores[np.arange(len(LABELS)), LABELS]
        short += (cx.kernels.combine(own, w) >= cp.threshold_).mean() < 0.9
    # at most delta plus 4.5 standard errors of a share delta among 200 draws
    assert short / draws <= delta + 4.5 * math.sqrt(delta * (1 - delta) / draws)


def test_the_oracle_has_no_regret_and_every_other_weight_has_some():
    scores = cx.score_tensor(LOGITS[:2000], kind="logits")
    y = LABELS[:2000]
    oracle = cx.oracle.find_oracle(scores, y, alpha=0.05, resolution=20)
    weights, _ = cx.search.landscape(scores, y, alpha=0.05, resolution=20)
    regret = cx.oracle.regrets(scores, y, weights, alpha=0.05, oracle=oracle)
    assert regret.min() == 0
    assert (regret >= 0).all()
    # population rank: ceil(2000 * .95) = 1900, so the coverage on the pool is at least .95
    own = cx.kernels.combine(scores[np.arange(2000), y], oracle.weights)
    assert np.sort(own)[::-1][1899] == oracle.threshold


def test_measured_coverage_is_the_leave_one_out_coverage_of_efcp():
    rows = slice(0, 60)
    cp = model(split="efcp").fit(LOGITS[rows], LABELS[rows])
    covered = []
    for i in range(60):
        others = np.delete(np.arange(60), i)
        again = model(split="efcp").fit(LOGITS[others], LABELS[others])
        covered.append(again.predict_set(LOGITS[i : i + 1]).mask[0, LABELS[i]])
    assert cp.measured_coverage(LOGITS[rows], LABELS[rows]) == np.mean(covered)


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.1, 0.2])
def test_as_many_rows_as_are_needed_give_a_finite_threshold(tolerance: float) -> None:
    for alpha, delta in ((0.1, 0.1), (0.05, 0.2), (0.2, 0.05)):
        n = gs.n_needed(alpha, delta, tolerance=tolerance)
        assert gs.pac_rank(n, alpha, delta) <= n


@pytest.mark.parametrize("split", ["dlcp", "dlcp+"])
def test_the_ledger_keeps_a_fresh_row_and_the_fitted_batch_apart(split, cifar10):
    logits, labels = cifar10
    cp = cx.ScoreAverage(alpha=0.1, kind="logits", split=split, search=np.eye(3))
    cp.fit(logits[:500], labels[:500], test=logits[500:700])
    entries = {entry.source: entry.says for entry in cp.guarantee_.entries()}
    assert "of a fresh row" in entries["selection, marginal"]
    share = gs.batch_bound(500, 200, 451, 0.1, n_weights=3)
    assert entries["order statistic, batch"].startswith(f"coverage of this batch >= {share:.4f}")


def test_the_batch_bound_is_the_largest_share_that_the_law_allows():
    share = gs.batch_bound(300, 40, 271, 0.1, n_weights=5)
    h = round(share * 40)
    assert 5 * betabinom.cdf(h - 1, 40, 271, 30) <= 0.1 < 5 * betabinom.cdf(h, 40, 271, 30)


def test_a_search_that_counts_nothing_gets_no_union_bound(cifar10):
    logits, labels = cifar10

    def mine(objective, rng):
        return cx.search.Candidates(np.eye(3))(objective, rng)

    cp = cx.ScoreAverage(alpha=0.1, kind="logits", split="efcp", search=mine)
    cp.fit(logits[:300], labels[:300])
    (entry,) = [e for e in cp.guarantee_.entries() if e.source == "order statistic"]
    assert entry.vacuous
    assert "does not say how many" in entry.says


@pytest.mark.parametrize(
    ("bound", "low", "high"),
    [
        (0.89999, "0.8999", "0.9000"),
        (0.90001, "0.9000", "0.9001"),
        (0.9, "0.9000", "0.9000"),
        (0.1 + 0.2, "0.3000", "0.3000"),  # beyond 0.3 by rounding alone
        (1e-5, "0.0000", "0.0001"),
        (0.0, "0.0000", "0.0000"),
        (1.0, "1.0000", "1.0000"),
    ],
)
def test_bounds_are_printed_on_the_safe_side(bound: float, low: str, high: str) -> None:
    assert (at_least(bound), at_most(bound)) == (low, high)
