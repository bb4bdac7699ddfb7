"""The exact grid search: every composition of the simplex grid, the exact minimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.kernels.simplex import grid_size, simplex_grid
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult

# What `search="auto"` allows itself: three scores at resolution 100, four at 50, six at 20.
AUTO_WEIGHTS = 60_000
AUTO_RESOLUTIONS = (100, 50, 40, 30, 25, 20, 15, 12, 10, 8, 6, 5, 4, 3, 2, 1)


@dataclass(frozen=True)
class GridSearch:
    """Exact minimum of the set size over the simplex grid.

    Parameters
    ----------
    resolution : int or None
        The grid holds all weights ``g / resolution``. None takes 100, or less where many scores
        would make the grid too large.

    Examples
    --------
    >>> GridSearch(resolution=50)
    GridSearch(resolution=50)
    """

    resolution: int | None = 100

    def n_candidates(self, d: int) -> int:
        """Return the number of grid weights over `d` scores."""
        return grid_size(d, auto_resolution(d) if self.resolution is None else self.resolution)

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the exact winner; `rng` is not used."""
        resolution = auto_resolution(objective.d) if self.resolution is None else self.resolution
        grid = simplex_grid(objective.d, resolution)
        best, count = objective.smallest(grid / resolution, grid)
        return SearchResult(
            weights=grid[best] / resolution,
            count=count,
            n_size=objective.n_size,
            n_evaluated=len(grid),
            strategy=f"grid of resolution {resolution}",
        )


def auto_resolution(d: int) -> int:
    """Return the finest usual resolution whose grid over `d` scores stays small.

    Examples
    --------
    >>> auto_resolution(3), auto_resolution(4), auto_resolution(6)
    (100, 50, 20)
    """
    fitting = (m for m in AUTO_RESOLUTIONS if grid_size(d, m) <= AUTO_WEIGHTS)
    return next(fitting, 1)
