from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import conformix as cx
from conformix.experiments import Estimate, Results, Table, interval
from conformix.experiments.statistics import in_words, percent

VALUES = np.array([2.0, 2.5, 3.5, 1.0, 4.0])


def rows_of(sizes: dict[str, list[float]], alpha: float = 0.1) -> list[dict]:
    return [
        {"method": method, "alpha": alpha, "run": run, "size": size, "coverage": 0.9, "n_test": 20,
         "n_calibrate": 80, "guarantee": "exact"}
        for method, column in sizes.items()
        for run, size in enumerate(column)
    ]  # fmt: skip


def test_the_interval_is_the_t_interval() -> None:
    found = interval(VALUES)
    low, high = stats.t.interval(0.95, 4, VALUES.mean(), stats.sem(VALUES))
    assert_allclose([found.low, found.high], [low, high])
    assert_allclose(found.sd, VALUES.std(ddof=1))


def test_intervals_that_hold_together_are_those_of_bonferroni() -> None:
    low, high = stats.t.interval(0.995, 4, VALUES.mean(), stats.sem(VALUES))
    found = interval(VALUES, comparisons=10)
    assert_allclose([found.low, found.high], [low, high])


def test_overlapping_splits_widen_the_interval_by_nadeau_and_bengio() -> None:
    plain, wide = interval(VALUES), interval(VALUES, overlap=0.25)
    ratio = (wide.high - wide.mean) / (plain.high - plain.mean)
    assert_allclose(ratio, np.sqrt((1 / 5 + 0.25) / (1 / 5)))


def test_the_interval_over_splits_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = [i.low <= 1 <= i.high for i in map(interval, rng.normal(1, 2, size=(4000, 12)))]
    assert abs(np.mean(hits) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)  # z = 4


def test_one_split_has_no_interval_and_none_is_refused() -> None:
    assert interval([1.0]).high == np.inf
    with pytest.raises(cx.InvalidInput, match="an interval needs at least one split; got none"):
        interval([])


def test_differences_and_savings_are_paired_over_the_same_splits() -> None:
    noisy = [10.0, 20.0, 40.0]
    found = Results(rows_of({"thr": noisy, "average": [0.75 * size for size in noisy]}))
    saving = found.saving("average", "thr", alpha=0.1)
    assert_allclose([saving.mean, saving.low, saving.high], 0.25)
    difference = found.difference("average", "thr", alpha=0.1)
    assert_allclose(difference.mean, np.mean([-2.5, -5, -10]))


def test_only_splits_that_both_methods_have_seen_are_compared() -> None:
    found = Results(rows_of({"thr": [4.0, 4.0, 100.0], "average": [3.0, 3.0]}))
    assert_allclose(found.saving("average", "thr", alpha=0.1).mean, 0.25)


def test_a_field_that_a_method_does_not_have_is_nan() -> None:
    found = Results([{**row, "size": None} for row in rows_of({"vote": [1.0]})])
    assert np.isnan(found.values("vote", alpha=0.1)).all()


def test_unknown_methods_and_levels_are_refused() -> None:
    found = Results(rows_of({"thr": [1.0]}))
    for method, alpha in (("aps", 0.1), ("thr", 0.2)):
        with pytest.raises(cx.InvalidInput, match="there are no rows of"):
            found.values(method, alpha=alpha)


def test_sets_that_are_all_empty_do_not_break_a_saving() -> None:
    found = Results(rows_of({"thr": [1.0, 1.0], "none": [0.0, 0.0]}))
    assert_allclose(found.saving("none", "thr", alpha=0.1).mean, 1.0)


def test_savings_read_as_text() -> None:
    assert percent(Estimate(0.231, 0.184, 0.278, 0.1, 9)) == "23 % [18, 28]"
    assert percent(Estimate(0.021, -0.004, 0.046, 0.1, 9)) == "2.1 % [-0.4, 4.6]"
    assert in_words(Estimate(-0.231, -0.278, -0.184, 0.1, 9)) == "23 % [18, 28] larger"


def test_a_table_reads_in_three_forms() -> None:
    table = Table("Sizes", ("method", "size_1"), (("a|b", "10 %"), (), ("c", "2")), ("A note.",))
    assert table.text().splitlines() == [
        "Sizes", "", "method  size_1", "--------------", "a|b       10 %", "--------------",
        "c            2", "", "A note.",
    ]  # fmt: skip
    assert table.markdown().splitlines() == [
        "| method | size_1 |", "|:--|--:|", "| a\\|b | 10 % |", "| c | 2 |", "", "A note.",
    ]  # fmt: skip
    latex = table.latex()
    assert r"method & size\_1 \\" in latex
    assert r"a|b & 10 \% \\" in latex
    assert latex.count(r"\midrule") == 2
    assert r"\caption{Sizes. A note.}" in latex
