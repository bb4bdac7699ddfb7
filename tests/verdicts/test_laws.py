"""The laws of realised coverage against enumeration, and the words that follow from them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose

import conformix as cx
from conformix.calibration import LabelShift, PerClass
from conformix.fit import verdict as verdict_module
from conformix.fit.saved import load_predictor
from conformix.fit.verdict import LabelledRows
from conformix.guarantees import Cell, Facts, covered_law, pooled_tail, shortfall_tail
from conformix.guarantees.verdict import Law, Verdict, beta_binomial, no_law
from conformix.search import Candidates, GridSearch
from verdicts.cases import CASES, draw

BY_NAME = {case.name: case for case in CASES}


def enumerated(cell: Cell) -> list[Fraction]:
    """Return the law of covered rows by going through all orders of the n + m scores."""
    n, k, m = cell
    counts = [0] * (m + 1)
    for places in combinations(range(n + m), n):  # places of calibration scores, from the top
        covered = sum(place < places[k - 1] for place in range(n + m) if place not in places)
        counts[covered] += 1
    return [Fraction(count, comb(n + m, n)) for count in counts]


@pytest.mark.parametrize("cell", [Cell(5, 4, 3), Cell(4, 1, 5), Cell(6, 6, 4)])
def test_the_covered_rows_of_one_threshold_follow_the_enumerated_law(cell: Cell) -> None:
    assert_allclose(covered_law([cell]), [float(p) for p in enumerated(cell)], rtol=1e-12)


def test_thresholds_of_several_cells_convolve() -> None:
    cells = [Cell(3, 2, 2), Cell(2, 2, 3), Cell(4, 3, 1)]
    sums = [Fraction(0)] * 7
    laws = [enumerated(cell) for cell in cells]
    for a, p in enumerate(laws[0]):
        for b, q in enumerate(laws[1]):
            for c, r in enumerate(laws[2]):
                sums[a + b + c] += p * q * r
    assert_allclose(covered_law(cells), [float(p) for p in sums], rtol=1e-12)


def test_long_laws_convolve_as_short_ones_do() -> None:
    cells = [Cell(500, 451, 3000), Cell(300, 271, 2500)]
    one, other = (covered_law([cell]) for cell in cells)
    assert_allclose(covered_law(cells), np.convolve(one, other), atol=1e-15)


def test_the_two_shortest_laws_are_convolved_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """So long laws meet few others."""
    pairs = []

    def spied(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        pairs.append((len(one), len(other)))
        return np.convolve(one, other)

    monkeypatch.setattr("conformix.guarantees.verdict._convolved", spied)
    tests = [3, 9, 1, 6, 12, 2, 3, 4]
    law = covered_law([Cell(9, 8, m) for m in tests])
    lengths = sorted(m + 1 for m in tests)
    for pair in pairs:
        assert list(pair) == lengths[:2]
        lengths = sorted([*lengths[2:], sum(pair) - 1])
    assert lengths == [len(law)] == [sum(tests) + 1]


@pytest.mark.parametrize(
    ("lengths", "by_fourier"),
    [((32, 4064), True), ((100, 5000), True), ((32, 4063), False), ((31, 9000), False)],
)
def test_only_two_long_laws_are_convolved_by_fourier_transforms(
    lengths: tuple[int, int], by_fourier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of products are exact in the tails; transforms are quick, and may not go below 0."""
    import scipy.signal

    used = []

    def spied(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        used.append(True)
        return np.convolve(one, other) - 1e-18

    monkeypatch.setattr(scipy.signal, "fftconvolve", spied)
    laws = [covered_law([Cell(500, 451, length - 1)]) for length in lengths]
    found = covered_law([Cell(500, 451, length - 1) for length in lengths])
    assert bool(used) == by_fourier
    assert found.min() >= 0
    assert_allclose(found, np.convolve(*laws), atol=1e-17)


def test_a_law_sums_to_one_however_many_rows_it_is_of() -> None:
    assert covered_law([Cell(10**6, 900_001, 10**6)]).sum() == pytest.approx(1, abs=1e-14)


def test_a_cell_with_too_few_rows_is_covered_for_certain() -> None:
    assert covered_law([Cell(5, 6, 3)]).tolist() == [0, 0, 0, 1]
    assert covered_law([]).tolist() == [1]


def test_a_union_multiplies_the_tail_and_stops_at_one() -> None:
    cell = Cell(200, 181, 300)
    tail = shortfall_tail(240, [cell])
    assert shortfall_tail(240, [cell], n_weights=7) == pytest.approx(7 * tail)
    assert shortfall_tail(270, [cell], n_weights=7) == 1.0


def test_laws_take_their_rows_by_name_and_their_options_by_name_alone() -> None:
    cells = [Cell(20, 18, 30)]
    assert shortfall_tail(hits=9, cells=cells) == beta_binomial(hits=9, cells=cells).pvalue
    assert pooled_tail(missed=2, missed_of_all=2, n_test=2, n_all=4) == pytest.approx(1 / 6)
    assert no_law(facts=facts("efcp"), reference=False) is None
    for call in (shortfall_tail, beta_binomial, pooled_tail):
        with pytest.raises(TypeError, match="positional"):
            call(9, cells, 1)


def test_a_law_is_of_rows_without_a_choice_and_none_is_certain_or_lawless_unless_said() -> None:
    options = {"n_weights": 1, "certain": 0, "lawless": 0}
    cells = [Cell(20, 18, 30)]
    assert beta_binomial(9, cells) == beta_binomial(9, cells, **options)
    assert shortfall_tail(9, cells) == shortfall_tail(9, cells, n_weights=1)


def test_the_pooled_tail_is_that_of_a_draw_without_replacement() -> None:
    rows = [True] * 3 + [False] * 4  # who misses the threshold
    draws = [sum(order[:3]) for order in permutations(rows)]  # the first three are test rows
    for missed in range(4):
        share = np.mean([one >= missed for one in draws])
        assert pooled_tail(missed, missed_of_all=3, n_test=3, n_all=7) == pytest.approx(share)


def test_the_range_of_chance_leaves_one_percent_on_either_side() -> None:
    from scipy.stats import betabinom

    low, high = beta_binomial(250, [Cell(200, 181, 300)]).chance
    law = betabinom(300, 181, 20)
    assert law.cdf(low * 300 - 1) < 0.01 <= law.cdf(low * 300)
    assert law.cdf(high * 300 - 1) < 0.99 <= law.cdf(high * 300)


def verdict(coverage: float, pvalue: float | None, promised: float | None = 0.9) -> Verdict:
    return Verdict(coverage, 100, 0.9, promised, Law("a law", pvalue), (0.8, 0.9))


@pytest.mark.parametrize(
    ("coverage", "pvalue", "promised", "word"),
    [
        (0.9, 0.001, 0.9, "kept"),
        (0.9, None, None, "reached"),
        (0.85, 0.01, 0.9, "chance"),
        (0.85, 0.0099, 0.9, "broken"),
        (0.1, None, 0.9, "unknown"),
    ],
)
def test_broken_is_said_below_one_percent_of_a_law_and_never_without_one(
    coverage: float, pvalue: float | None, promised: float | None, word: str
) -> None:
    found = verdict(coverage, pvalue, promised)
    assert found.word == word
    assert ("broken" in found.sentence) == (word == "broken")
    assert found.sentence.count(". ") == 0
    assert found.sentence.endswith(".")


def test_a_promise_is_named_only_where_the_guarantee_has_one() -> None:
    for coverage in (0.85, 0.95):
        assert "promise" in verdict(coverage, 0.001).sentence
        told = verdict(coverage, 0.001, None).sentence
        assert "are promised" not in told
        assert "the 90 % asked for" in told or "90 % were asked for" in told


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "the beta-binomial law of 2,000 calibration rows"),
        ({"n_weights": 1500}, "the beta-binomial law of 2,000 calibration rows, times the 1,500 "
         "weightings that they chose among"),
        ({"lawless": 1}, "the beta-binomial law of 2,000 calibration rows, without 1 rows of which "
         "no law is known"),
    ],
)  # fmt: skip
def test_a_law_says_in_words_what_went_into_it(options: dict[str, int], name: str) -> None:
    cells = [Cell(2000, 1801, 300)]
    law = beta_binomial(250, cells, **options)
    union = "n_weights" in options
    assert law.name == name
    assert (law.chance is None) == bool(options)
    assert (law.bound, law.chosen) == (union, union)
    tail = shortfall_tail(250, cells)
    assert law.pvalue == pytest.approx(min(1, options.get("n_weights", 1) * tail))
    several = beta_binomial(250, [*cells, Cell(150, 136, 20)], **options).name
    assert several == name.replace("law of 2,000", "laws of 2 thresholds with 2,150", 1)


def test_rows_that_are_all_surely_covered_leave_chance_no_room() -> None:
    law = beta_binomial(0, [], certain=5)
    assert law.name == "the beta-binomial law of 0 calibration rows"
    assert (law.pvalue, law.chance) == (1.0, (1.0, 1.0))


@pytest.mark.parametrize(
    ("pvalue", "bound", "said"),
    [
        (0.0123, False, "so few are covered in 1.2 % of all draws by a law"),
        (0.0123, True, "so few are covered in at most 1.2 % of all draws by a law"),
        (1.0, False, "so few are covered in 100 % of all draws by a law"),
        (1e-12, False, "so few are covered in 1e-10 % of all draws by a law"),
        (9e-13, False, "so few are covered in less than 1e-10 % of all draws by a law"),
        (None, False, "a law"),
    ],
)
def test_a_tail_is_said_with_two_digits_and_none_is_said_below_the_arithmetic(
    pvalue: float | None, bound: bool, said: str
) -> None:
    assert Law("a law", pvalue, bound=bound).says == said


ROWS = "85.12 % of 1,200 rows are covered"
SAYS = "so few are covered in 0.5 % of all draws by a law"


@pytest.mark.parametrize(
    ("coverage", "pvalue", "promised", "sentence"),
    [
        (0.95, 1.0, 0.9, "The promise is kept: 95 % of 1,200 rows are covered and at least 90 % "
         "are promised."),
        (0.95, 1.0, None, "95 % of 1,200 rows are covered: at least the 90 % asked for, which this "
         "fit does not promise."),
        (0.85123, None, None, f"{ROWS} (95 % interval 80 % to 90.5 %) and 90 % were asked for; no "
         "verdict, since no law of chance is known here: a law."),
        (0.85123, 0.05, 0.9, f"{ROWS} and 90 % are promised, which chance allows: "
         f"{SAYS.replace('0.5', '5')}."),
        (0.85123, 0.005, 0.9, f"The promise is broken: {ROWS} and 90 % are promised, less than "
         f"chance allows ({SAYS}); these rows are unlike the calibration rows."),
        (0.85123, 0.005, None, f"The level is missed: {ROWS} and 90 % were asked for, less than "
         f"chance allows ({SAYS}); these rows are unlike the calibration rows."),
    ],
)  # fmt: skip
def test_a_verdict_is_one_sentence_with_its_numbers(
    coverage: float, pvalue: float | None, promised: float | None, sentence: str
) -> None:
    law = Law("a law", pvalue)
    found = Verdict(coverage, 1200, 0.9, promised, law, (0.8, 0.905))
    assert str(found) == found.sentence == sentence
    allowed = found.sentence.replace(
        "chance allows:", "chance and the choice of the weights allow:"
    )
    chosen = Verdict(coverage, 1200, 0.9, promised, law._replace(chosen=True), (0.8, 0.905))
    assert chosen.sentence == allowed
    trivial = Verdict(coverage, 1200, 0.9, promised, law, (0.8, 0.905), trivial=True)
    assert trivial.word == "trivial"
    assert trivial.sentence == (
        "Every set holds all labels: the calibration rows are too few for a level of 90 %."
    )


def facts(split: str, **more: object) -> Facts:
    numbers = {"n_weights": 66, "separate": split == "vfcp", "learnt_scale": False} | more
    n_test = numbers.pop("n_test", 0)
    return Facts(split, 0.1, 0.1, 50, 50, n_test, 4, 3, **numbers)  # type: ignore[arg-type]


def test_the_weightings_that_count_are_those_that_judged_rows_may_have_chosen_among() -> None:
    assert facts("vfcp").n_chosen_among == 1
    assert facts("efcp").n_chosen_among == 66
    # Weights that were chosen with test features, then calibrated on other rows.
    assert facts("fixed", separate=True, n_test=9).n_chosen_among == 66


def test_no_law_is_claimed_where_none_is_known() -> None:
    assert no_law(facts("efcp")) is None
    assert "came in groups" in str(no_law(facts("vfcp", grouped=True)))
    assert "taught the scale" in str(no_law(facts("efcp", learnt_scale=True)))
    assert "how many weightings" in str(no_law(facts("efcp", n_weights=0)))
    assert no_law(facts("efcp", n_weights=0), reference=True) is None


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize(
    "name",
    ["vfcp", "efcp", "efcp, class", "exact", "class, pooled", "weighted", "rows in groups",
     "rows in groups, exact"],
)  # fmt: skip
def test_a_saved_model_gives_the_same_verdict_and_the_same_drift(name: str, tmp_path) -> None:
    case = BY_NAME[name]
    rows = case.judged(np.random.default_rng(1), 60, 200, alpha=0.1)
    model, test = case.fitted(np.random.default_rng(1), 60, 200, alpha=0.1)
    model.save(tmp_path / "model.json")
    again = LabelledRows.of(
        load_predictor(tmp_path / "model.json"), test.outputs, test.y, **case.more(test)
    )
    assert again.verdict() == rows.verdict() == model.verdict(
        test.outputs, test.y, **case.more(test)
    )  # fmt: skip
    if rows.no_law is None:
        assert again.drift().pvalue == rows.drift().pvalue
    else:
        with pytest.raises(cx.InvalidInput, match="no false-alarm level of a drift check is known"):
            model.check_drift(test.outputs, test.y)


def test_recalibration_keeps_the_groups_of_the_fit_in_mind() -> None:
    case = BY_NAME["rows in groups"]
    model, test = case.fitted(np.random.default_rng(2), 60, 200, alpha=0.1)
    model.recalibrate(test.outputs, test.y)
    assert model.guarantee_.facts.grouped


def test_pooled_weights_do_not_depend_on_who_is_a_calibration_row() -> None:
    rows = BY_NAME["exact"].judged(np.random.default_rng(3), 40, 60, alpha=0.1)
    pooled = rows.pooled
    order = np.random.default_rng(4).permutation(len(pooled.y))
    again = type(pooled)(pooled.scores[order], pooled.y[order], 40, pooled.weights)
    values, threshold = pooled.selected(0.1)
    other, same = again.selected(0.1)
    assert same == threshold
    assert (other == values[order]).all()


def test_the_pooled_test_draws_its_test_rows_from_all_that_miss_the_common_threshold() -> None:
    pooled = BY_NAME["exact"].judged(np.random.default_rng(3), 40, 60, alpha=0.1).pooled
    for alpha, k in ((0.1, 91), (0.3, 71), (0.001, 100)):  # of 100 rows; the last is of 101
        values, threshold = pooled.selected(alpha)
        assert threshold == np.sort(values)[-k]
        missed = values < threshold
        law = pooled.law(alpha)
        assert law.name == (
            "the hypergeometric law of 40 calibration and 60 test rows (pooled test)"
        )
        assert law.event == "with weights chosen on all rows alike, so few test rows are covered"
        assert law.pvalue == pooled_tail(
            int(missed[40:].sum()), missed_of_all=int(missed.sum()), n_test=60, n_all=100
        )


def test_the_bag_of_the_pooled_test_holds_half_a_gigabyte_of_scores_and_then_draws_test_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert verdict_module.MOST_SCORES * 8 == 2**29
    rows = BY_NAME["exact"].judged(np.random.default_rng(3), 40, 60, alpha=0.1)
    everything = rows.pooled
    of_a_row = everything.scores[0].size
    for most, n_test in ((100, 60), (99, 59), (65, 25), (41, 1), (40, 1), (0, 1)):
        monkeypatch.setattr(verdict_module, "MOST_SCORES", most * of_a_row + of_a_row - 1)
        some = replace(rows).pooled
        assert (len(some.y), some.n) == (40 + n_test, 40)
        places = [int(np.flatnonzero((everything.scores == row).all((1, 2)))[0])
                  for row in some.scores]  # fmt: skip
        assert places[:40] == list(range(40))
        assert places == sorted(places)
        assert (everything.y[places] == some.y).all()
        drawn = np.sort(np.random.default_rng(0).permutation(60)[:n_test])  # the same every time
        assert places[40:] == (40 + drawn).tolist()


def test_a_verdict_is_a_value_and_judged_rows_are_themselves_alone() -> None:
    rows = BY_NAME["exact"].judged(np.random.default_rng(3), 40, 60, alpha=0.1)
    assert rows.verdict() == rows.verdict()
    for held in (rows, rows.pooled):  # arrays are never compared by ==
        assert hash(held) == hash(held)
        assert held != replace(held)
    for record, field in ((rows, "y"), (rows.pooled, "n"), (rows.verdict(), "coverage")):
        with pytest.raises(FrozenInstanceError):
            setattr(record, field, 0)


@pytest.mark.parametrize("name", ["vfcp", "efcp", "dlcp", "exact", "class", "group"])
def test_a_shortfall_of_five_points_is_seen(name: str) -> None:
    case, draws = BY_NAME[name], 8
    words = [
        case.judged(np.random.default_rng([9, i]), 1000, 1000, alpha=0.1, planted=1 / 18)
        .verdict()
        .word
        for i in range(draws)
    ]
    # Seen with probability .8, fewer than 3 of 8 come once in 800 tests.
    assert words.count("broken") >= 3


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.35])
@pytest.mark.parametrize("name", ["efcp", "dlcp"])
def test_chosen_weights_are_judged_at_any_level_as_equal_weights_fitted_at_it(
    name: str, alpha: float
) -> None:
    rng = np.random.default_rng(6)
    rows, test = draw(rng, 60), draw(rng, 200)
    model = BY_NAME[name].fit(rows, test, rng, alpha=0.1)
    equal = cx.ScoreAverage("thr", weights=[0.25] * 4, alpha=alpha).fit(rows.outputs, rows.y)
    found = model.verdict(test.outputs, test.y, alpha=alpha)
    expected = equal.verdict(test.outputs, test.y)
    assert found.asked == pytest.approx(1 - alpha)
    assert found.pvalue == expected.pvalue
    assert found.law.name == expected.law.name
    assert found.law.event == "under equal weights, which no row chose, so few are covered"
    assert (found.law.chosen, found.law.chance) == (True, None)


def test_chosen_weights_have_a_law_though_nobody_says_how_many_there_were() -> None:
    rng = np.random.default_rng(6)
    rows, test = draw(rng, 60), draw(rng, 200)

    def mine(objective, rng):
        return Candidates(np.eye(4))(objective, rng)

    model = cx.ScoreAverage("thr", alpha=0.1, split="efcp", search=mine)
    model.fit(rows.outputs, rows.y)
    assert model.guarantee_.facts.n_weights == 0
    equal = cx.ScoreAverage("thr", weights=[0.25] * 4, alpha=0.1).fit(rows.outputs, rows.y)
    found = model.verdict(test.outputs, test.y)
    assert found.pvalue == equal.verdict(test.outputs, test.y).pvalue


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("alpha", [0.02, 0.3])
@pytest.mark.parametrize(
    "options",
    [{"weights": [0.25] * 4}, {"weights": [0.25] * 4, "guarantee": "pac"},
     {"weights": [0.25] * 4, "calibration": "class"}, {"split": "exact"}],
    ids=["fixed weights", "pac", "class", "exact"],
)  # fmt: skip
def test_another_level_is_judged_as_if_it_were_that_of_the_fit(
    options: dict[str, object], alpha: float
) -> None:
    rng = np.random.default_rng(11)
    rows, test = draw(rng, 80), draw(rng, 200).with_misses(0.1, rng)
    found = []
    for level in (0.1, alpha):
        model = cx.ScoreAverage("thr", alpha=level, search=GridSearch(4), **options)
        model.fit(rows.outputs, rows.y)
        found.append(model.verdict(test.outputs, test.y, alpha=alpha))
    assert found[0] == found[1]
    assert found[0].asked == pytest.approx(1 - alpha)


@pytest.mark.parametrize("delta", [None, 0.1])
def test_sets_of_one_threshold_are_judged_by_the_law_of_their_own_rank(delta: float | None) -> None:
    rng = np.random.default_rng(12)
    rows, test = draw(rng, 100), draw(rng, 200)
    pac = {} if delta is None else {"guarantee": "pac", "delta": delta}
    model = cx.ScoreAverage("thr", alpha=0.1, weights=[0.25] * 4, **pac)
    model.fit(rows.outputs, rows.y)
    hits = round(200 * cx.metrics.coverage(model.predict_set(test.outputs), test.y))
    k = 91 if delta is None else 95  # of 100 rows: ceil(101 * 0.9), and pac_rank(100, 0.1, 0.1)
    found = model.verdict(test.outputs, test.y)
    assert found.pvalue == pytest.approx(shortfall_tail(hits, [Cell(100, k, 200)]))


def test_rows_that_are_surely_covered_move_the_range_of_chance() -> None:
    open_cells, m, certain = [Cell(200, 181, 300)], 300, 45
    low, high = beta_binomial(250, open_cells).chance
    with_certain = beta_binomial(250, open_cells, certain=certain).chance
    expected = [(round(end * m) + certain) / (m + certain) for end in (low, high)]
    assert_allclose(with_certain, expected, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
def test_rows_of_a_pool_that_the_calibration_rows_gathered_are_left_out_of_the_law() -> None:
    rng = np.random.default_rng(7)
    rows, test = (draw(rng, n, skewed=True) for n in (300, 400))
    pooled = PerClass("pooled", min_rows=60)
    model = cx.ScoreAverage("thr", alpha=0.1, weights=[0.25] * 4, calibration=pooled)
    model.fit(rows.outputs, rows.y)
    kept = np.isin(test.y, [0, 1])
    assert (np.bincount(rows.y) >= 60).tolist() == [True, True, False, False]
    found = model.verdict(test.outputs, test.y)
    assert f"without {np.count_nonzero(~kept)} rows of which no law is known" in found.law.name
    alone = model.verdict({m: v[kept] for m, v in test.outputs.items()}, test.y[kept])
    assert found.pvalue == alone.pvalue


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize(
    "calibration", ["class", PerClass("all", min_rows=60)], ids=["too few rows", "rare"]
)
def test_rows_whose_label_is_in_every_set_are_left_out_of_the_law(calibration) -> None:
    """They are covered whatever becomes of the others, and must not make up for those."""
    rng = np.random.default_rng(7)
    rows, test = (draw(rng, n, skewed=True) for n in (300, 400))
    alpha = 0.02
    model = cx.ScoreAverage("thr", alpha=alpha, weights=[0.25] * 4, calibration=calibration)
    model.fit(rows.outputs, rows.y)
    open_classes = np.flatnonzero(np.isfinite(model.threshold_))
    assert 0 < len(open_classes) < len(model.threshold_)
    kept = np.isin(test.y, open_classes)
    found = model.verdict(test.outputs, test.y)
    alone = model.verdict({m: v[kept] for m, v in test.outputs.items()}, test.y[kept])
    assert found.pvalue == alone.pvalue < 1


def test_sets_of_all_labels_for_want_of_rows_for_a_pac_rank_keep_no_promise() -> None:
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(4), size=15), rng.integers(0, 4, 15)
    cp = cx.ScoreAverage("thr", alpha=0.1, guarantee="pac", delta=0.01)
    with pytest.warns(cx.TrivialSetsWarning):
        cp.fit(probs, y)
    assert cp.verdict(probs, y).word == "trivial"


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("calibration", ["class", PerClass("all", min_rows=60), "label shift"])
def test_labels_that_no_threshold_keeps_out_leave_nothing_to_judge(calibration) -> None:
    rng = np.random.default_rng(7)
    rows, test = (draw(rng, n, skewed=True) for n in (300, 400))
    if calibration == "label shift":  # a label that weighs more than alpha of all has no threshold
        calibration = LabelShift((1.0, 1.0, 40.0, 40.0))
    model = cx.ScoreAverage("thr", alpha=0.1, weights=[0.25] * 4, calibration=calibration)
    model.fit(rows.outputs, rows.y)
    some, none = 0.02, 0.0005
    judged = model.verdict(test.outputs, test.y, alpha=some)
    assert 0 < np.isneginf(model.predictor_.fitted.threshold(some)).sum() < 4
    assert judged.word != "trivial"
    open_sets = model.verdict(test.outputs, test.y, alpha=none)
    assert np.asarray(model.predict_set(test.outputs, alpha=none)).all()
    assert open_sets.word == "trivial"
    assert open_sets.coverage == 1


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize("needs", ["strata", "sample_weight"])
def test_sets_are_trivial_where_no_row_of_them_has_a_threshold(needs: str) -> None:
    """A row of a group with too few rows, or that weighs too much, has none; others may."""
    rng = np.random.default_rng(7)
    rows, test = draw(rng, 200), draw(rng, 60)
    calibration, values = "group", (rows.strata, test.strata)
    if needs == "sample_weight":
        calibration, values = "weighted", (np.ones(200), np.where(test.strata == 2, 100.0, 1.0))
    model = cx.ScoreAverage("thr", alpha=0.04, weights=[0.25] * 4, calibration=calibration)
    model.fit(rows.outputs, rows.y, **{needs: values[0]})
    for some, word in ((test.strata == 2, True), (test.strata >= 0, False)):
        outputs = {m: v[some] for m, v in test.outputs.items()}
        found = model.verdict(outputs, test.y[some], **{needs: values[1][some]})
        sets = np.asarray(model.predict_set(outputs, **{needs: values[1][some]}))
        assert sets.all() == (found.word == "trivial") == word


def test_sets_of_all_labels_that_a_threshold_let_in_are_judged() -> None:
    probs, y = np.full((30, 3), 1 / 3), np.arange(30) % 3
    model = cx.ScoreAverage("thr", alpha=0.1, weights=[1.0]).fit(probs, y)
    assert np.asarray(model.predict_set(probs)).all()
    assert model.verdict(probs, y).word == "kept"


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
@pytest.mark.parametrize(("alpha", "word"), [(0.1, "kept"), (0.09, "trivial")])
def test_the_exact_split_needs_as_many_rows_for_a_verdict_as_for_a_set(alpha, word) -> None:
    rng = np.random.default_rng(1)
    probs, y = rng.dirichlet(np.ones(4), size=10), rng.integers(0, 4, 10)
    model = cx.ScoreAverage("thr", split="exact", alpha=0.1).fit(probs[:9], y[:9])
    model.predictor_ = replace(model.predictor_, seen=None)  # so that its own rows are judged
    assert model.verdict(probs, y, alpha=alpha).word == word


@pytest.mark.filterwarnings("ignore::conformix.ConformixWarning")
def test_rows_that_are_just_enough_are_judged_and_one_less_leaves_nothing_to_judge(
    tmp_path,
) -> None:
    rng = np.random.default_rng(0)
    probs, y = rng.dirichlet(np.ones(4), size=9), rng.integers(0, 4, 9)
    enough = cx.ScoreAverage("thr", alpha=0.1, weights=[1.0]).fit(probs, y)
    enough.predictor_ = replace(enough.predictor_, seen=None)  # so that its own rows are judged
    assert enough.verdict(probs, y).word == "kept"
    too_few = cx.ScoreAverage("thr", alpha=0.1, weights=[1.0]).fit(probs[:8], y[:8])
    too_few.save(tmp_path / "model.json")
    again = LabelledRows.of(load_predictor(tmp_path / "model.json"), probs, y)
    assert too_few.verdict(probs, y).word == again.verdict().word == "trivial"
