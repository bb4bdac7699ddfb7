"""The numbers behind the pictures: plain frozen records of arrays, no matplotlib anywhere.

Every plot of `conformix.plots` draws one of these and computes nothing itself.
"""

from conformix.plots.numbers.bootstrap import WeightSpread, weight_spread_numbers
from conformix.plots.numbers.boxes import Boxes, boxes_numbers
from conformix.plots.numbers.classes import ClassCoverage, class_coverage_numbers
from conformix.plots.numbers.fit_rows import FitRows, fit_rows
from conformix.plots.numbers.labels import Explanation, explain_numbers
from conformix.plots.numbers.landscape import WeightLandscape, weights_numbers
from conformix.plots.numbers.levels import SizeCoverage, size_coverage_numbers
from conformix.plots.numbers.sizes import (
    CoverageBySize,
    SetSizes,
    coverage_by_size_numbers,
    set_sizes_numbers,
)
from conformix.plots.numbers.tradeoff import Tradeoff, tradeoff_numbers

__all__ = [
    "Boxes",
    "ClassCoverage",
    "CoverageBySize",
    "Explanation",
    "FitRows",
    "SetSizes",
    "SizeCoverage",
    "Tradeoff",
    "WeightLandscape",
    "WeightSpread",
    "boxes_numbers",
    "class_coverage_numbers",
    "coverage_by_size_numbers",
    "explain_numbers",
    "fit_rows",
    "set_sizes_numbers",
    "size_coverage_numbers",
    "tradeoff_numbers",
    "weight_spread_numbers",
    "weights_numbers",
]
