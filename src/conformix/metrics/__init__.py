"""How good are the sets? Every metric is ``metric(sets, y, **options) -> float``, in plain words.

`METRICS` lists those that need no option but perhaps ``alpha``; `evaluate` reports them together.
Acronyms of the literature are in the docstrings. To add a metric, write a function beside its
siblings and one line in `METRICS` (`conformix/metrics/summary.py`).
"""

from typing import Any

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
from conformix.registry import no_attribute

__all__ = [
    "METRICS",
    "Measure",
    "Metric",
    "class_coverage_gap",
    "class_coverages",
    "class_table",
    "coverage",
    "coverage_interval",
    "covered",
    "empty_rate",
    "evaluate",
    "mean_size",
    "measures",
    "median_size",
    "share_interval",
    "shortfall_pvalue",
    "singleton_accuracy",
    "singleton_rate",
    "size_at_coverage",
    "size_quantile",
    "size_stratified_violation",
    "worst_slab_coverage",
]


def __getattr__(name: str) -> Any:
    raise no_attribute(f"module {__name__!r}", name, __all__)
