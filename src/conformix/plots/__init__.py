"""Pictures (matplotlib): a function for the numbers, a function for the ink.

No global style is touched and nothing is shown; every plot returns its axes.
"""

from conformix.plots.boxes import plot_boxes
from conformix.plots.contact import contact_sheet
from conformix.plots.curves import plot_size_coverage
from conformix.plots.numbers import (
    boxes_numbers,
    class_coverage_numbers,
    coverage_by_size_numbers,
    explain_numbers,
    set_sizes_numbers,
    size_coverage_numbers,
    weight_spread_numbers,
    weights_numbers,
)
from conformix.plots.style import new_figure, save_figure
from conformix.plots.triangle import near_optimal, plot_triangle, triangle_points

__all__ = [
    "boxes_numbers",
    "class_coverage_numbers",
    "contact_sheet",
    "coverage_by_size_numbers",
    "explain_numbers",
    "near_optimal",
    "new_figure",
    "plot_boxes",
    "plot_size_coverage",
    "plot_triangle",
    "save_figure",
    "set_sizes_numbers",
    "size_coverage_numbers",
    "triangle_points",
    "weight_spread_numbers",
    "weights_numbers",
]
