"""Measures beside their intervals, and the p-value of a shortfall, against their laws."""

from __future__ import annotations

import numpy as np
import pytest

from conformix import metrics
from conformix.conformal import conformal_rank


def drawn(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    mask = rng.random((n, 6)) < 0.4
    return mask, rng.integers(6, size=n)


def test_measures_are_those_of_evaluate_and_lie_in_their_intervals() -> None:
    mask, y = drawn()
    usual = metrics.evaluate(mask, y, alpha=0.1)
    found = metrics.measures(mask, y, alpha=0.1)
    assert [one.name for one in found] == list(metrics.METRICS)
    for one in found:
        assert one.value == usual[one.name]
        if one.low is not None and one.high is not None:
            assert one.low <= one.value <= one.high
    assert (found[0].low, found[0].high) == (usual["coverage_low"], usual["coverage_high"])


def test_no_one_label_sets_leave_their_accuracy_open() -> None:
    found = {one.name: one for one in metrics.measures(np.ones((5, 3), bool), [0] * 5, alpha=0.1)}
    assert np.isnan(found["singleton_accuracy"].value)
    assert found["singleton_accuracy"].low is None
    assert metrics.measures(np.ones((1, 3), bool), [0], alpha=0.1)[1].low is None


def test_intervals_of_sizes_cover_what_they_estimate() -> None:
    """Sizes 0 to 10 are binomial: mean 4, median 4, 90th percentile 6."""
    rng = np.random.default_rng(1)
    truth = {"mean_size": 4.0, "median_size": 4.0, "size_quantile": 6.0}
    hits = dict.fromkeys(truth, 0)
    for _ in range(200):
        mask = rng.random((100, 10)) < 0.4
        for one in metrics.measures(mask, np.zeros(100, dtype=int), alpha=0.1):
            if one.name in truth:
                hits[one.name] += one.low <= truth[one.name] <= one.high
    # 95 % of 200 less four standard errors.
    assert min(hits.values()) >= 190 - 4 * np.sqrt(200 * 0.95 * 0.05)


@pytest.mark.parametrize("n", [10, 41, 100, 250])
@pytest.mark.parametrize(("name", "q"), [("median_size", 0.5), ("size_quantile", 0.9)])
def test_the_ends_of_a_quantile_s_interval_are_the_innermost_that_miss_it_in_5_percent(
    name: str, q: float, n: int
) -> None:
    """Sizes 1 to n are their own ranks; as many as Binomial(n, q) lie up to the quantile."""
    from scipy.stats import binom

    mask = np.tril(np.ones((n, n), dtype=bool))
    found = {one.name: one for one in metrics.measures(mask, np.zeros(n, dtype=int), alpha=0.1)}
    low, high, below = found[name].low, found[name].high, binom(n, q)
    assert below.cdf(low - 1) <= 0.025 < below.cdf(low)
    missed = below.sf(high - 1)  # all sizes up to this one lie below the quantile
    assert missed <= 0.025 < below.sf(high - 2) or (high == n and missed > 0.025)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_pvalue_of_a_shortfall_is_valid_and_exact_for_continuous_scores(alpha: float) -> None:
    rng = np.random.default_rng(2)
    n, m, repeats = 99, 150, 2000
    rank = conformal_rank(n, alpha)
    scores = np.sort(rng.random((repeats, n)), axis=1)
    hits = (rng.random((repeats, m)) >= scores[:, [n - rank]]).sum(axis=1)
    of_hits = [metrics.shortfall_pvalue(h, m, n_calibration=n, rank=rank) for h in range(m + 1)]
    pvalues = np.array(of_hits)[hits]
    for level in (0.01, 0.1, 0.5):
        # The largest attainable p-value at or below the level is its exact probability.
        wanted = max((p for p in of_hits if p <= level), default=0.0)
        spread = 4 * np.sqrt(max(wanted * (1 - wanted), 1e-4) / repeats)
        assert abs((pvalues <= level).mean() - wanted) <= spread


def test_sets_of_all_labels_never_fall_short() -> None:
    assert metrics.shortfall_pvalue(10, 10, n_calibration=5, rank=6) == 1.0
    assert metrics.shortfall_pvalue(9, 10, n_calibration=5, rank=6) == 0.0
