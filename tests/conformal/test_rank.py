from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import conformix as cx
import oracle
from conformix.conformal import (
    conformal_rank,
    conformity_ranks,
    in_words,
    kth_largest,
    rows_needed,
    simple_fraction,
    threshold,
    warn_if_trivial,
)

SIZES = (1, 2, 5, 8, 9, 10, 19, 49, 98, 99, 100, 199, 499, 999, 1000, 4999, 9999)


def spellings(meant: Fraction) -> list[float]:
    """Floats that people write for one and the same fraction."""
    plain = float(meant)
    return [
        plain,
        1 - float(1 - meant),
        math.nextafter(plain, 0),
        math.nextafter(plain, 1),
        sum([plain / 4] * 4),
        float(np.float64(plain)),
    ]


@pytest.mark.parametrize("denominator", [2, 3, 5, 7, 10, 20, 64, 99, 100, 128, 1000])
def test_the_rank_is_exact_however_the_level_is_spelled(denominator: int) -> None:
    step = max(1, denominator // 25)
    for numerator in range(1, denominator, step):
        meant = Fraction(numerator, denominator)
        for n in SIZES:
            exact = math.ceil((n + 1) * (1 - meant))
            for alpha in spellings(meant):
                assert conformal_rank(n, alpha) == exact, (n, alpha)


def test_the_rank_agrees_with_counting_up() -> None:
    for meant in (Fraction(1, 10), Fraction(1, 3), Fraction(7, 20)):
        for n in range(60):
            assert conformal_rank(n, float(meant)) == oracle.conformal_rank(n, meant)


@pytest.mark.parametrize(
    ("n", "alpha", "k"),
    [
        (99, 0.1, 90),
        (99, 1 - 0.9, 90),  # ceil(100 * 0.9) in floats, with 1 - (1 - 0.9), gives 91
        (9, 0.1, 9),
        (8, 0.1, 9),
        (9, 0.7, 3),
        (9, 0.3, 7),
        (999, 0.001, 999),
        (998, 0.001, 999),
        (4999, 0.05, 4750),
        (5000, 0.01, 4951),
        (0, 0.5, 1),
    ],
)
def test_the_rank_of_worked_examples(n: int, alpha: float, k: int) -> None:
    assert conformal_rank(n, alpha) == k


@pytest.mark.parametrize("n", [1, 99, 10**6])
def test_extreme_levels_keep_their_exact_value(n: int) -> None:
    assert conformal_rank(n, 1e-13) == n + 1
    assert conformal_rank(n, 1 - 1e-13) == 1
    assert conformal_rank(n, 5e-324) == n + 1
    assert conformal_rank(n, math.nextafter(1, 0)) == 1


def test_a_tiny_level_becomes_finite_where_the_rows_are_enough() -> None:
    assert conformal_rank(10**13 - 2, Fraction(1, 10**13)) == 10**13 - 1
    assert conformal_rank(10**14, 1e-13) == 10**14 + 1 - 10


def test_the_rank_falls_as_alpha_grows_and_stays_between_one_and_n_plus_one() -> None:
    ranks = [conformal_rank(50, a / 1000) for a in range(1, 1000)]
    assert ranks == sorted(ranks, reverse=True)
    assert min(ranks) >= 1
    assert max(ranks) <= 51


def test_the_rank_is_a_python_integer_for_numpy_arguments() -> None:
    k = conformal_rank(np.int64(99), np.float64(0.1))
    assert k == 90
    assert type(k) is int


def test_levels_may_be_fractions() -> None:
    assert conformal_rank(99, Fraction(1, 10)) == 90


@pytest.mark.parametrize("meant", [Fraction(1, 10), Fraction(1, 3), Fraction(999_999, 1_000_000)])
def test_a_level_is_snapped_to_the_simple_fraction_it_stands_for(meant: Fraction) -> None:
    assert simple_fraction(float(meant)) == meant
    assert simple_fraction(1 - float(1 - meant)) == meant


def test_a_level_of_up_to_six_digits_is_the_decimal_that_it_prints() -> None:
    rng = np.random.default_rng(0)
    for digits in range(1, 7):
        for number in rng.integers(1, 10**digits, 40).tolist():
            meant = Fraction(number, 10**digits)
            assert simple_fraction(float(meant)) == meant
            assert conformal_rank(10**digits - 1, float(meant)) == 10**digits - number


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("percent", [1, 5, 10, 15, 30, 70, 95])
def test_a_level_of_few_bits_stands_for_the_decimal_that_it_prints(
    kind: type[np.floating], percent: int
) -> None:
    level = kind(percent / 100)
    assert simple_fraction(level) == Fraction(percent, 100)
    assert conformal_rank(99, level) == 100 - percent


def test_a_level_of_many_bits_is_the_double_nearest_to_it_and_not_to_what_it_prints() -> None:
    for number in np.random.default_rng(0).random(50):
        between = (np.longdouble(number) + np.longdouble(np.nextafter(number, 1))) / 2
        assert simple_fraction(between) == simple_fraction(float(between))


@pytest.mark.parametrize(("off", "snaps"), [(9e-13, True), (1.1e-12, False), (3e-12, False)])
def test_a_level_further_than_the_snapping_distance_keeps_its_exact_value(
    off: float, snaps: bool
) -> None:
    for alpha in (0.1 + off, 0.1 - off):
        assert simple_fraction(alpha) == (Fraction(1, 10) if snaps else Fraction(alpha))


def test_a_fraction_of_more_than_a_million_parts_is_no_simple_one() -> None:
    assert simple_fraction(1 / 10**6) == Fraction(1, 10**6)
    assert simple_fraction(1 / (10**6 + 3)) == Fraction(1 / (10**6 + 3))


@pytest.mark.parametrize("meant", [Fraction(p, q) for q in (2, 3, 7, 10, 100) for p in (1, q - 1)])
def test_rows_needed_is_the_first_n_with_a_finite_threshold(meant: Fraction) -> None:
    for alpha in spellings(meant):
        n = rows_needed(alpha)
        assert conformal_rank(n, alpha) <= n
        assert n == 1 or conformal_rank(n - 1, alpha) > n - 1


@pytest.mark.parametrize(("alpha", "n"), [(0.1, 9), (0.05, 19), (0.01, 99), (0.5, 1), (0.9, 1)])
def test_rows_needed_of_worked_examples(alpha: float, n: int) -> None:
    assert rows_needed(alpha) == n


def test_the_threshold_is_the_kth_largest_not_the_kth_smallest() -> None:
    values = np.array([0.5, 0.1, 0.9, 0.7, 0.3, 0.2, 0.4, 0.8, 0.6])
    assert threshold(values, alpha=0.1) == 0.1  # k = 9
    assert threshold(values, alpha=0.2) == 0.2  # k = 8
    assert threshold(values, alpha=0.9) == 0.9  # k = 1


def test_the_kth_largest_counts_ties_and_is_minus_infinity_beyond_the_rows() -> None:
    values = np.array([1.0, 1.0, 0.0])
    assert [kth_largest(values, k) for k in (1, 2, 3, 4)] == [1.0, 1.0, 0.0, -math.inf]


def test_the_threshold_leaves_its_input_alone() -> None:
    values = np.array([0.3, 0.1, 0.2])
    threshold(values, alpha=0.5)
    assert_array_equal(values, [0.3, 0.1, 0.2])


@pytest.mark.parametrize("scores", [5.0, [[1.0, 2.0], [3.0, 4.0]], [1.0, math.nan], [math.inf]])
def test_a_threshold_is_of_one_row_of_finite_scores(scores: object) -> None:
    with pytest.raises(
        cx.InvalidInput, match=r"^true_scores must be finite scores of shape \(n,\)"
    ):
        threshold(scores, 0.5)


def test_a_number_of_rows_is_written_out_up_to_twelve_digits() -> None:
    assert [in_words(n) for n in (5, 10**12 - 1)] == ["5", "999999999999"]
    assert [in_words(n) for n in (10**12, 5 * 10**300)] == ["1.00E+12", "5.00E+300"]


@pytest.mark.parametrize(("n", "sentence"), [(9, "for a PAC statement"), (8, "at least 9 calib")])
def test_sets_of_all_labels_are_put_down_to_the_pac_statement_only_where_it_is_to_blame(
    n: int, sentence: str
) -> None:
    with pytest.warns(cx.TrivialSetsWarning, match=sentence):
        warn_if_trivial(n, 0.1, rank=lambda n, alpha: n + 1)


@pytest.mark.parametrize(("aside", "told"), [({}, False), ({"aside": 1}, True)])
def test_another_split_is_advised_only_where_rows_were_set_aside(aside, told: bool) -> None:
    with pytest.warns(cx.TrivialSetsWarning) as caught:
        warn_if_trivial(8, 0.1, **aside)  # one row too few
    assert ('split="exact"' in str(caught[0].message)) is told


def test_conformity_ranks_count_ties_as_conforming() -> None:
    ranks = conformity_ranks(np.array([0.1, 0.4, 0.4]), np.array([0.0, 0.1, 0.4, 0.5]))
    assert_array_equal(ranks, [1, 2, 4, 4])


def test_a_label_is_in_the_set_exactly_when_its_conformity_rank_exceeds_n_plus_one_alpha() -> None:
    rng = np.random.default_rng(0)
    calibration = np.sort(rng.integers(0, 8, size=19) / 8)
    scores = np.arange(-1, 10) / 8
    for meant in (Fraction(1, 20), Fraction(1, 10), Fraction(1, 4), Fraction(1, 2)):
        inside = scores >= threshold(calibration, float(meant))
        ranks = conformity_ranks(calibration, scores)
        assert_array_equal(inside, [int(rank) > 20 * meant for rank in ranks])


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.5, math.nan, math.inf, True, "0.1", None, 1j])
def test_levels_outside_zero_and_one_are_refused(alpha: object) -> None:
    with pytest.raises(cx.InvalidInput) as caught:
        conformal_rank(10, alpha)
    sentence = f"alpha must be a number strictly between 0 and 1; got {alpha!r}."
    assert str(caught.value) == sentence
