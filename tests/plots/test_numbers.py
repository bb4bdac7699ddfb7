"""The numbers behind the pictures are the library's own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import cbook
from numpy.testing import assert_allclose, assert_array_equal

import conformix as cx
from conformix import plots
from conformix.plots.fit_rows import fit_rows
from conformix.search.stability import bootstrap_weights
from conformix.splits import ValidityFirst

DATA = cx.datasets.load("cifar100")
LOGITS, Y = DATA.outputs["wideresnet_16_4"][:1500], DATA.labels[:1500]
CAL, Y_CAL, TEST, Y_TEST = LOGITS[:800], Y[:800], LOGITS[800:], Y[800:]


def model(scores: Any = ("thr", "aps", "rank"), **options: Any) -> cx.ScoreAverage:
    options = {"alpha": 0.1, "random_state": 0, "search": "grid"} | options
    return cx.ScoreAverage(scores, kind="logits", **options)


@pytest.mark.parametrize("split", ["vfcp", "efcp", "dlcp", "dlcp+", "exact"])
def test_the_found_weights_have_the_size_that_the_search_reported(split: str) -> None:
    cp = model(split=split).fit(CAL, Y_CAL, test=TEST)
    given = () if split == "exact" else (CAL, Y_CAL)
    numbers = plots.weights_numbers(cp, *given, test=TEST if "dlcp" in split else None)
    assert numbers.found_size == cp.search_.size == numbers.sizes.min()
    assert_array_equal(numbers.found, cp.weights_)
    assert_array_equal(numbers.single_sizes, numbers.sizes[numbers.weights.argmax(axis=0)])


@pytest.mark.parametrize(
    "options",
    [
        {"allow_empty": False},
        {"tune_alpha": 0.08},
        {"split": "efcp", "guarantee": "pac"},
        {"normalize": "none"},
        {"scores": ("thr",), "split": ValidityFirst()},
        {"scores": ("thr", "rank")},
        {"scores": ("thr", "aps", "rank", "logp"), "search": cx.search.simplex_grid(4, 5) / 5},
        {"calibration": "class"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_the_objective_of_every_kind_of_fit_is_built_again(options: dict[str, Any]) -> None:
    cp = model(**options).fit(CAL, Y_CAL)
    numbers = plots.weights_numbers(cp, CAL, Y_CAL, resolution=5)
    assert numbers.found_size == cp.search_.size
    assert numbers.weights.shape[1] == len(cp.weights_)


def test_one_score_has_its_size_on_all_rows_since_none_was_spent_on_a_search() -> None:
    cp = model(scores="thr").fit(CAL, Y_CAL)
    assert plots.weights_numbers(cp, CAL, Y_CAL, resolution=5).found_size == cp.held_out_size_


def test_grouped_rows_are_found_again() -> None:
    groups = np.arange(800) // 4
    cp = model().fit(CAL, Y_CAL, groups=groups)
    assert plots.weights_numbers(cp, CAL, Y_CAL, groups=groups).found_size == cp.search_.size
    with pytest.raises(cx.InvalidInput, match="these are not the rows of the fit"):
        plots.weights_numbers(cp, CAL, Y_CAL)


def test_a_loaded_model_finds_its_rows_again(tmp_path: Path) -> None:
    cp = model().fit(CAL, Y_CAL)
    cp.save(tmp_path / "model.json")
    again = plots.weights_numbers(cx.load(tmp_path / "model.json"), CAL, Y_CAL)
    assert_array_equal(again.sizes, plots.weights_numbers(cp, CAL, Y_CAL).sizes)


def test_rows_that_are_not_those_of_the_fit_are_refused() -> None:
    cp = model().fit(CAL, Y_CAL)
    with pytest.raises(cx.InvalidInput, match="these are not the rows of the fit"):
        plots.weights_numbers(cp, TEST, Y_TEST)
    with pytest.raises(cx.InvalidInput, match="does not keep its rows"):
        plots.weights_numbers(cp)
    given = plots.weights_numbers(cp, TEST, Y_TEST, as_given=True)
    assert given.found_size >= given.sizes.min()


def test_a_split_drawn_without_a_seed_cannot_be_drawn_again() -> None:
    cp = model(random_state=None).fit(CAL, Y_CAL)
    with pytest.raises(cx.InvalidInput, match="random_state=None and cannot be drawn again"):
        plots.weights_numbers(cp, CAL, Y_CAL)


def test_weights_fixed_by_hand_have_a_landscape_but_no_spread() -> None:
    cp = model(weights=[0.5, 0.25, 0.25]).fit(CAL, Y_CAL)
    assert plots.weights_numbers(cp, CAL, Y_CAL).sizes.min() > 0
    with pytest.raises(cx.InvalidInput, match="weights that no search found have no spread"):
        plots.weight_spread_numbers(cp, CAL, Y_CAL)


def test_a_model_that_is_not_fitted_says_so() -> None:
    for numbers in (plots.weights_numbers, plots.weight_spread_numbers, plots.explain_numbers):
        with pytest.raises(cx.NotFitted, match="not fitted yet"):
            numbers(model(), CAL, 0)


def test_near_optimal_weights_are_those_up_to_the_level() -> None:
    cp = model().fit(CAL, Y_CAL)
    numbers = plots.weights_numbers(cp, CAL, Y_CAL, within=0.01)
    assert_allclose(numbers.level, 1.01 * cp.search_.size)
    assert_array_equal(numbers.near_optimal, numbers.sizes <= 1.01 * numbers.sizes.min())
    one_error = plots.weights_numbers(cp, CAL, Y_CAL)
    assert_allclose(one_error.level, cp.search_.size + one_error.standard_error)
    with pytest.raises(cx.InvalidInput, match='within must be "se" or a share'):
        plots.weights_numbers(cp, CAL, Y_CAL, within="sd")  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["efcp", "dlcp"])
def test_the_standard_error_is_that_of_the_bootstrap(split: str) -> None:
    cp = model(split=split).fit(CAL, Y_CAL, test=TEST)
    rows = fit_rows(cp, CAL, Y_CAL, test=TEST if split == "dlcp" else None)
    w = np.array([0.6, 0.1, 0.3])
    rng = np.random.default_rng(0)
    draws = [rows.resampled(rng).objective()(w[None])[0] for _ in range(300)]
    # 300 draws know the spread to 4 %; the first-order formula is good to some more.
    assert 0.75 < rows.standard_error(w) / np.std(draws) < 1.3


def test_the_spread_is_the_search_on_resampled_rows() -> None:
    cp = model(search=cx.search.simplex_grid(3, 20) / 20).fit(CAL, Y_CAL)
    spread = plots.weight_spread_numbers(cp, CAL, Y_CAL, repetitions=40, random_state=3)
    again = plots.weight_spread_numbers(cp, CAL, Y_CAL, repetitions=40, random_state=3)
    other = plots.weight_spread_numbers(cp, CAL, Y_CAL, repetitions=40, random_state=4)
    assert_array_equal(spread.draws, again.draws)
    assert not np.array_equal(spread.draws, other.draws)
    assert_allclose(spread.draws.sum(axis=1), 1)
    rows = fit_rows(cp, CAL, Y_CAL)
    theirs, sizes = bootstrap_weights(
        rows.tune, rows.y, alpha=0.1, search=cp.search, n_draws=40, random_state=3
    )
    assert_array_equal(spread.draws, theirs)
    assert_array_equal(spread.sizes, sizes)
    inside = (spread.draws >= spread.low) & (spread.draws <= spread.high)
    assert (inside.mean(axis=0) >= 0.9).all()


def test_size_and_coverage_are_the_metrics_of_the_sets_at_every_level() -> None:
    models = {"vfcp": model().fit(CAL, Y_CAL), "exact": model(split="exact").fit(CAL, Y_CAL)}
    numbers = plots.size_coverage_numbers(models, TEST, Y_TEST, alphas=[0.2, 0.1])
    assert numbers.alphas.tolist() == [0.1, 0.2]
    for m, cp in enumerate(models.values()):
        for a, alpha in enumerate(numbers.alphas):
            sets = cp.predict_set(TEST, alpha=alpha)
            assert numbers.coverages[m, a] == cx.metrics.coverage(sets, Y_TEST)
            assert numbers.sizes[m, a] == cx.metrics.mean_size(sets)


def test_default_levels_are_those_that_the_calibration_rows_allow() -> None:
    cp = model(split="efcp").fit(CAL[:60], Y_CAL[:60])
    assert plots.size_coverage_numbers(cp, TEST, Y_TEST).alphas.min() == 0.02


def test_bars_of_set_sizes_add_up_to_all_sets() -> None:
    sets = model().fit(CAL, Y_CAL).predict_set(TEST, alpha=0.02)
    for bars in (5, 200):
        numbers = plots.set_sizes_numbers(sets, Y_TEST, bars=bars)
        assert numbers.rows.sum() == numbers.n == len(TEST)
        assert numbers.hits.sum() / numbers.n == cx.metrics.coverage(sets, Y_TEST)
        assert numbers.mean == cx.metrics.mean_size(sets)
        assert numbers.median == cx.metrics.median_size(sets)
        for low, high, rows in zip(numbers.low, numbers.high, numbers.rows, strict=True):
            assert rows == ((sets.sizes >= low) & (sets.sizes <= high)).sum()


def test_class_coverage_is_the_metric_with_clopper_pearson_ends_worst_first() -> None:
    sets = model().fit(CAL, Y_CAL).predict_set(TEST)
    y = np.where(Y_TEST == 7, 8, Y_TEST)  # class 7 has no rows
    numbers = plots.class_coverage_numbers(sets, y, alpha=0.1)
    rows, shares = cx.metrics.class_coverages(sets, y)
    assert numbers.n_absent == (rows == 0).sum() > 0
    assert 7 not in numbers.labels
    assert (np.diff(numbers.coverage) >= 0).all()
    assert_array_equal(numbers.coverage, shares[numbers.labels])
    hits = round(numbers.coverage[3] * numbers.rows[3])
    ends = cx.metrics.share_interval(hits, int(numbers.rows[3]))
    assert (numbers.low[3], numbers.high[3]) == ends
    assert numbers.overall == cx.metrics.coverage(sets, y)
    assert numbers.promise == 0.9


def test_the_worst_stratum_of_sizes_is_the_size_stratified_violation() -> None:
    sets = model().fit(CAL, Y_CAL).predict_set(TEST, alpha=0.05)
    numbers = plots.coverage_by_size_numbers(sets, Y_TEST, alpha=0.05)
    assert numbers.rows.sum() == len(TEST)
    worst = np.abs(numbers.coverage - numbers.promise).max()
    assert worst == cx.metrics.size_stratified_violation(sets, Y_TEST, alpha=0.05)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"split": "exact"},
        {"calibration": "class", "alpha": 0.3},
        {"allow_empty": False, "alpha": 0.4},
        {"weights": [0.2, 0.3, 0.5], "scores": ("thr", "logp", "margin"), "normalize": "scale"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_a_row_is_explained_by_parts_that_add_up_and_by_its_own_set(
    options: dict[str, Any],
) -> None:
    cp = model(**options).fit(CAL, Y_CAL)
    sets = cp.predict_set(TEST)
    for i in range(5):
        numbers = plots.explain_numbers(cp, TEST, i, y=Y_TEST, top=100)
        assert_allclose(numbers.contributions.sum(axis=1), numbers.combined)
        assert_array_equal(np.sort(numbers.labels[numbers.included]), np.flatnonzero(sets[i]))
        assert numbers.set_size == sets.sizes[i]
        assert Y_TEST[i] in numbers.labels
        decided = numbers.combined >= numbers.thresholds
        if options.get("allow_empty", True):
            assert_array_equal(numbers.included, decided)
        else:
            assert (numbers.included | ~decided).all()
        if "split" not in options and "calibration" not in options:
            assert (numbers.thresholds == cp.threshold_).all()
            distance = numbers.combined - numbers.thresholds
            assert_allclose(numbers.votes.sum(axis=1), distance, atol=1e-12)


def test_the_truth_is_shown_however_far_down_it_is() -> None:
    cp = model().fit(CAL, Y_CAL)
    last = int(plots.explain_numbers(cp, TEST, 2, top=100).labels[-1])
    numbers = plots.explain_numbers(cp, TEST, 2, y=last, top=4)
    assert len(numbers.labels) == 4
    assert (numbers.labels[-1], numbers.places[-1]) == (last, 99)


@pytest.mark.parametrize("i", [-1, 700, 1.5, True])
def test_a_row_that_is_not_there_cannot_be_explained(i: Any) -> None:
    with pytest.raises(cx.InvalidInput, match="i must be a row from 0 to 699"):
        plots.explain_numbers(model().fit(CAL, Y_CAL), TEST, i)


def test_boxes_are_those_of_matplotlib() -> None:
    rng = np.random.default_rng(0)
    values = {"a": rng.standard_cauchy(50), "b": rng.normal(size=7), "c": np.array([2.0])}
    numbers = plots.boxes_numbers(values)
    theirs = cbook.boxplot_stats(list(values.values()))
    for ours, key in (("low", "whislo"), ("q1", "q1"), ("median", "med"), ("q3", "q3"),
                      ("high", "whishi"), ("mean", "mean")):  # fmt: skip
        assert_allclose(getattr(numbers, ours), [stats[key] for stats in theirs], atol=1e-12)
    for ours, stats in zip(numbers.outliers, theirs, strict=True):
        assert_allclose(ours, np.sort(stats["fliers"]))


def test_values_of_a_box_must_be_numbers() -> None:
    with pytest.raises(cx.InvalidInput, match="a non-empty list of finite numbers"):
        plots.boxes_numbers({"a": [np.nan]})


@pytest.mark.filterwarnings("ignore::conformix.TrivialSetsWarning")
def test_weights_tuned_for_thresholds_per_class_are_refused_in_one_sentence() -> None:
    from conformix.calibration import PerClass

    cp = model(calibration=PerClass(tune=True), alpha=0.3).fit(CAL, Y_CAL)
    with pytest.raises(cx.InvalidInput, match="thresholds per class are not drawn yet"):
        plots.weights_numbers(cp, CAL, Y_CAL)


def test_class_names_of_the_fit_name_the_labels_and_the_truth() -> None:
    names = [f"class {label}" for label in range(100)]
    cp = model().fit(CAL, Y_CAL, classes=names)
    numbers = plots.explain_numbers(cp, TEST, 0, y=names[Y_TEST[0]])
    assert numbers.true_label == Y_TEST[0]
    assert numbers.names[0] == names[numbers.labels[0]]
    coverage = plots.class_coverage_numbers(cp.predict_set(TEST), Y_TEST)
    assert coverage.names[0] == names[coverage.labels[0]]
