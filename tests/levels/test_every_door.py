"""Whatever the level and whichever way it comes in: a set is {y : p(x, y) > alpha}, exactly."""

from __future__ import annotations

import decimal
from fractions import Fraction
from math import comb

import numpy as np
import pytest

import conformix as cx
from conformix.conformal import simple_fraction
from levels.doors import (
    DOORS,
    SPECIAL,
    count_broken,
    drawn_levels,
    stands_for,
)

pytestmark = pytest.mark.filterwarnings("ignore::conformix.errors.ConformixWarning")

SLOW = {"shell: fit", "shell: predict", "shell: evaluate", "auto", "auto, exact"}


@pytest.mark.parametrize("name", DOORS)
def test_sets_are_the_labels_whose_p_value_exceeds_alpha_as_fractions(name: str) -> None:
    """The short form of ``python -m levels``; tenths of n + 1 rows are whole, as floats see not."""
    more = drawn_levels(np.random.default_rng(7), 3 if name in SLOW else 12)
    for n in (5, 49) if name in SLOW else (5, 49, 499):
        assert count_broken(name, n, [*SPECIAL, *more]) == 0


def test_the_coverage_of_cross_conformal_sets_is_the_same_at_exp_minus_two_as_beside_it() -> None:
    """Products that wrap had covered .40 where p-values of the same object promised .86."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5), size=2500)
    y = np.array([rng.choice(5, p=row) for row in probs])
    folds = [cx.cross.Fold(probs[a : a + 400], y[a : a + 400]) for a in range(0, 2000, 400)]
    found = cx.CrossAverage("thr", weights=[1.0], alpha=float(np.exp(-2))).fit(folds)
    covered = found.predict_set([probs[2000:]] * 5).mask[np.arange(500), y[2000:]]
    assert abs(covered.mean() - (1 - np.exp(-2))) < 4 * np.sqrt(0.12 / 500)


@pytest.mark.parametrize(
    "alpha",
    [
        Fraction(1, 10), Fraction(1, 3), decimal.Decimal("0.1"), np.float32(0.1), np.float16(0.1),
        np.float64(0.1), np.longdouble("0.1"), Fraction(1, 10**7 + 19), decimal.Decimal("1E-300"),
    ],
)  # fmt: skip
def test_a_level_may_be_any_real_number_and_means_the_same_at_every_door(alpha: object) -> None:
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(3), size=130)
    y = rng.integers(3, size=130)
    plain = float(simple_fraction(alpha))
    assert stands_for(plain) == simple_fraction(alpha)
    sets = []
    for level in (alpha, plain):
        cp = cx.ScoreAverage("thr", weights=[1.0], alpha=level).fit(probs[:99], y[:99])
        sets.append(cp.predict_set(probs[99:]).mask)
        sets.append(cp.predict_set(probs[99:], alpha=level).mask)
        sets.append(cp.predict_set(probs[99:], alpha=[level, 0.5]).at(level).mask)
        folds = [cx.cross.Fold(probs[:50], y[:50]), cx.cross.Fold(probs[50:99], y[50:99])]
        cross = cx.CrossAverage("thr", weights=[1.0], alpha=level).fit(folds)
        sets.append(cross.predict_set([probs[99:]] * 2).mask)
    assert all((one == sets[0]).all() for one in sets)


@pytest.mark.parametrize(
    "alpha",
    [Fraction(1, 10**400), 1 - Fraction(1, 10**30), decimal.Decimal("1E-400"),
     decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal(2)],
)  # fmt: skip
def test_a_number_whose_double_is_not_between_0_and_1_is_refused_in_one_sentence(
    alpha: object,
) -> None:
    with pytest.raises(cx.InvalidInput, match="alpha must be a number strictly between 0 and 1"):
        cx.ScoreAverage("paper", alpha=alpha).fit([[0.5, 0.5]] * 4, [0, 1, 0, 1])


@pytest.mark.parametrize("alpha", [1e-300, 5e-324])
def test_the_warning_about_too_few_rows_stays_readable_at_tiny_levels(alpha: float) -> None:
    with pytest.warns(cx.TrivialSetsWarning, match="needs at least .* calibration rows") as said:
        cx.conformal.threshold(np.array([0.3, 0.6]), alpha)
    assert len(str(said[0].message)) < 200


def test_the_pac_rank_is_that_of_exact_binomials() -> None:
    """``P(Bin(n, 1 - alpha) >= k) <= delta`` in whole numbers."""
    delta = Fraction(1, 10)
    for n in (1, 5, 16):
        for alpha in (*SPECIAL, *drawn_levels(np.random.default_rng(1), 12)):
            a = stands_for(alpha)
            tails = [
                sum(comb(n, j) * (1 - a) ** j * a ** (n - j) for j in range(k, n + 1))
                for k in range(1, n + 1)
            ]
            least = next((k for k, tail in enumerate(tails, 1) if tail <= delta), n + 1)
            assert cx.guarantees.pac_rank(n, alpha, 0.1) == least, (n, alpha)


def test_rc3p_lets_a_whole_number_of_rows_beyond_its_rank_though_floats_say_less() -> None:
    """0.7 of .1 of 100 rows are 7; in floats 0.7 * 0.1 * 100 is 6.999999999999999."""
    from conformix.calibration import RankedPerClass

    ranks = np.repeat([1, 2], [93, 7])
    scheme = RankedPerClass(share=0.7)
    assert scheme.limits(ranks, np.zeros(100, dtype=int), 4, 0.1)[0] == 1


def test_two_spellings_of_one_level_are_one_level_of_a_report_and_of_a_curve() -> None:
    from conformix.plots import size_coverage_numbers
    from conformix.report import build_report

    rng = np.random.default_rng(4)
    probs = rng.dirichlet(np.ones(3), size=150)
    y = rng.integers(3, size=150)
    cp = cx.ScoreAverage("thr", weights=[1.0], alpha=1 - 0.9).fit(probs[:99], y[:99])
    report = build_report(cp, probs[99:], y[99:], alphas=[0.1, Fraction(1, 10)])
    assert report.rows.alphas == (0.1,)
    spellings = [0.1, 1 - 0.9, decimal.Decimal("0.1")]
    assert size_coverage_numbers(cp, probs[99:], y[99:], alphas=spellings).alphas.tolist() == [0.1]
