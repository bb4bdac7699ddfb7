"""How good are the sets? Every metric is ``metric(sets, y, **options) -> float``, in plain words.

`METRICS` lists those that need no option but perhaps ``alpha``, `INTERVAL_METRICS` those of
intervals; `evaluate` reports them together.
Acronyms of the literature are in the docstrings. To add a metric, write a function beside its
siblings and one line in `METRICS` (`conformix/metrics/summary.py`).
"""

from conformix.metrics.coverage import (
    class_coverage_gap,
    class_coverages,
    class_table,
    coverage,
    coverage_interval,
    covered,
    share_interval,
    size_stratified_violation,
    worst_slab_coverage,
)
from conformix.metrics.intervals import (
    INTERVAL_METRICS,
    BinCoverage,
    bin_coverage_gap,
    coverage_by_bins,
    empty_interval_rate,
    interval_coverage,
    interval_score,
    mean_width,
    median_width,
)
from conformix.metrics.size import (
    empty_rate,
    mean_size,
    median_size,
    singleton_accuracy,
    singleton_rate,
    size_at_coverage,
    size_quantile,
)
from conformix.metrics.summary import METRICS, Measure, Metric, evaluate, measures, shortfall_pvalue

__all__ = [
    "INTERVAL_METRICS",
    "METRICS",
    "BinCoverage",
    "Measure",
    "Metric",
    "bin_coverage_gap",
    "class_coverage_gap",
    "class_coverages",
    "class_table",
    "coverage",
    "coverage_by_bins",
    "coverage_interval",
    "covered",
    "empty_interval_rate",
    "empty_rate",
    "evaluate",
    "interval_coverage",
    "interval_score",
    "mean_size",
    "mean_width",
    "measures",
    "median_size",
    "median_width",
    "share_interval",
    "shortfall_pvalue",
    "singleton_accuracy",
    "singleton_rate",
    "size_at_coverage",
    "size_quantile",
    "size_stratified_violation",
    "worst_slab_coverage",
]
