"""What other weights would have given: the weight map.

Every weighting is calibrated on one half of the rows and measured on the other, both ways round, on
the scale of the fitted model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformix.kernels.arrays import IntArray
from conformix.kernels.simplex import grid_size, simplex_grid

# A grid that can be seen and listed: three scores in steps of 0.02.
MOST_WEIGHTS = 1326
MOST_STEPS = 100


@dataclass(frozen=True, eq=False)
class WeightMap:
    """Sizes and coverages of all weights of a grid."""

    resolution: int  # weights are ``grid / resolution``
    grid: IntArray  # (M, d), the grid, lexicographically
    totals: Any  # (A, M), labels in all sets, or widths of all intervals, by level
    hits: IntArray  # (A, M), covered rows, by level
    n: int


def steps_of(d: int) -> int:
    """Return how fine a grid of d weights may be."""
    steps = [m for m in range(1, MOST_STEPS + 1) if grid_size(d, m) <= MOST_WEIGHTS]
    return max(steps, default=1)


def weight_map(rows: Any) -> WeightMap | None:
    """Return sizes and coverages over the grid of weights; None for a single score."""
    d = len(rows.names)
    if d < 2 or len(rows.compared) < 4:
        return None
    resolution = steps_of(d)
    grid = simplex_grid(d, resolution)
    totals, hits = rows.crossed(grid / resolution)
    return WeightMap(resolution, grid, totals, hits, len(rows.compared))
