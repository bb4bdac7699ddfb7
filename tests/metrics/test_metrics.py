"""Every metric on a case worked out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conformix import metrics
from conformix.errors import InvalidInput
from conformix.kernels.host.slabs import worst_window

#                 sizes: 1, 2, 0, 3, 1
SETS = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 0, 1]], dtype=bool
)  # fmt: skip
Y = np.array([0, 2, 1, 2, 0])  # covered: yes, no, no, yes, no


@pytest.mark.parametrize(
    ("metric", "options", "value"),
    [
        (metrics.coverage, {}, 2 / 5),
        (metrics.mean_size, {}, 7 / 5),
        (metrics.median_size, {}, 1.0),
        (metrics.size_quantile, {"q": 0.6}, 1.0),
        (metrics.size_quantile, {"q": 0.8}, 2.0),
        (metrics.size_quantile, {"q": 0.81}, 3.0),
        (metrics.singleton_rate, {}, 2 / 5),
        (metrics.singleton_accuracy, {}, 1 / 2),
        (metrics.empty_rate, {}, 1 / 5),
        # class coverages 1/2, 0, 1/2 against .9: mean of .4, .9, .4
        (metrics.class_coverage_gap, {"alpha": 0.1}, 1.7 / 3),
        # sizes 0..1: coverage 1/3; 2..3: 1/2; against .9
        (metrics.size_stratified_violation, {"alpha": 0.1}, 0.9 - 1 / 3),
        (metrics.size_stratified_violation, {"alpha": 0.1, "edges": (0, 1, 2)}, 0.9),
    ],
)
def test_metric_by_hand(metric, options, value):
    assert_allclose(metric(SETS, Y, **options), value, rtol=1e-14)


def test_classes_without_rows_are_left_out():
    rows, shares = metrics.class_coverages(SETS[:1], [0])
    assert_array_equal(rows, [1, 0, 0])
    assert_array_equal(np.isnan(shares), [False, True, True])
    assert_allclose(metrics.class_coverage_gap(SETS[:1], [0], alpha=0.1), 0.1, rtol=1e-14)


def test_clopper_pearson_by_its_definition():
    # the lower end makes 2 or more hits of 5 have probability 2.5 %, the upper end 2 or fewer
    from scipy.stats import binom

    low, high = metrics.coverage_interval(SETS, Y)
    assert_allclose(binom.sf(1, 5, low), 0.025, rtol=1e-9)
    assert_allclose(binom.cdf(2, 5, high), 0.025, rtol=1e-9)
    assert metrics.share_interval(0, 5)[0] == 0.0
    assert metrics.share_interval(5, 5)[1] == 1.0


def test_size_at_matched_coverage_puts_the_threshold_at_the_needed_true_score():
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]])
    y = [0, 1, 1, 0]  # true scores .9, .4, .8, .5; coverage 3/4 needs the third largest, .5
    assert metrics.size_at_coverage(scores, y, coverage=0.75) == 5 / 4


def test_class_table_counts_and_covers():
    table = metrics.class_table(SETS, Y, classes=["a", "b", "c"])
    assert table.loc["a", "rows"] == 2
    assert_allclose(table.loc["c", "coverage"], 0.5)
    assert_allclose(table.loc["c", "mean_size"], 2.5)
    assert (table["low"] <= table["coverage"]).all()
    assert (table["coverage"] <= table["high"]).all()


def test_worst_window_agrees_with_all_windows():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 25))
        least = int(rng.integers(1, n + 1))
        values = (rng.random(n) < 0.6).astype(float)
        first, last, mean = worst_window(values, least)
        windows = [values[i:j].mean() for i in range(n) for j in range(i + least, n + 1)]
        assert_allclose(mean, min(windows), rtol=1e-14)
        assert_allclose(values[first : last + 1].mean(), mean, rtol=1e-14)
        assert last - first + 1 >= least


def test_worst_slab_finds_the_region_that_is_not_covered():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    hit = x[:, 0] < 1.2  # about 11 % of the rows lie beyond and are never covered
    sets = np.column_stack([hit, ~hit])
    found = metrics.worst_slab_coverage(
        sets, np.zeros(4000, int), features=x, share=0.1, directions=200, random_state=0
    )
    assert found < 0.25
    even = metrics.worst_slab_coverage(
        rng.random((4000, 2)) < 0.9, np.zeros(4000, int), features=x, directions=50, random_state=0
    )
    assert abs(even - 0.9) < 0.09  # measured on the other half: no minimum over noise


def test_the_worst_slab_of_noise_is_covered_as_all_rows_are():
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sets = (rng.random(200) < 0.8)[:, None]
        found.append(
            metrics.worst_slab_coverage(
                sets, np.zeros(200, dtype=int), features=rng.normal(size=(200, 2)), directions=20,
                share=0.2, random_state=seed,
            )
        )  # fmt: skip
    # A slab holds some twenty of the hundred rows on which it is measured.
    assert abs(np.mean(found) - 0.8) < 4.5 * np.sqrt(0.16 / 20 / 60)


def test_evaluate_reports_all_metrics_it_can():
    assert set(metrics.METRICS) <= set(metrics.evaluate(SETS, Y, alpha=0.1))
    assert "class_coverage_gap" not in metrics.evaluate(SETS, Y)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: metrics.coverage(SETS.astype(int), Y), "^sets must be a non-empty boolean"),
        (lambda: metrics.mean_size(SETS[:0]), "^sets must be a non-empty boolean"),
        (lambda: metrics.coverage(SETS, Y[:3]), "^y must hold one label per row; got 3 for 5 rows"),
        (
            lambda: metrics.worst_slab_coverage(SETS, Y, features=Y),
            r"^features must have shape \(5, p\), one row per set; got \(5,\)\.$",
        ),
    ],
)
def test_bad_input_is_refused(call, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        call()
