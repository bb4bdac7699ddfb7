"""Pictures (matplotlib): a function for the numbers, a function for the ink.

The short names (`weights`, `class_coverage`, `explain`, ...) take a fitted model or its sets and
draw. Behind each stand ``<name>_numbers``, which returns what is drawn as a frozen record of arrays
and needs no matplotlib, and ``plot_<name>``, which draws such a record.

No global style is touched, nothing is shown, and every plot returns its axes.
"""

from conformix.fit.explanation import explain_numbers
from conformix.plots.bootstrap import plot_weight_spread, weight_spread, weight_spread_numbers
from conformix.plots.boxes import boxes_numbers, plot_boxes
from conformix.plots.classes import class_coverage, class_coverage_numbers, plot_class_coverage
from conformix.plots.contact import contact_sheet
from conformix.plots.curves import plot_size_coverage, size_coverage, size_coverage_numbers
from conformix.plots.intervals import (
    coverage_by_difficulty,
    coverage_by_difficulty_numbers,
    plot_coverage_by_difficulty,
    plot_sorted_intervals,
    sorted_intervals,
    sorted_intervals_numbers,
)
from conformix.plots.labels import explain, plot_explain
from conformix.plots.sizes import (
    coverage_by_size,
    coverage_by_size_numbers,
    plot_coverage_by_size,
    plot_set_sizes,
    set_sizes,
    set_sizes_numbers,
)
from conformix.plots.style import new_figure, save_figure
from conformix.plots.tradeoff import plot_tradeoff, tradeoff, tradeoff_numbers
from conformix.plots.triangle import near_optimal, plot_triangle, triangle_points
from conformix.plots.weights import plot_weights, weights, weights_numbers

__all__ = [
    "boxes_numbers",
    "class_coverage",
    "class_coverage_numbers",
    "contact_sheet",
    "coverage_by_difficulty",
    "coverage_by_difficulty_numbers",
    "coverage_by_size",
    "coverage_by_size_numbers",
    "explain",
    "explain_numbers",
    "near_optimal",
    "new_figure",
    "plot_boxes",
    "plot_class_coverage",
    "plot_coverage_by_difficulty",
    "plot_coverage_by_size",
    "plot_explain",
    "plot_set_sizes",
    "plot_size_coverage",
    "plot_sorted_intervals",
    "plot_tradeoff",
    "plot_triangle",
    "plot_weight_spread",
    "plot_weights",
    "save_figure",
    "set_sizes",
    "set_sizes_numbers",
    "size_coverage",
    "size_coverage_numbers",
    "sorted_intervals",
    "sorted_intervals_numbers",
    "tradeoff",
    "tradeoff_numbers",
    "triangle_points",
    "weight_spread",
    "weight_spread_numbers",
    "weights",
    "weights_numbers",
]
