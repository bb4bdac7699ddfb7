"""`search="auto"`: the exact grid for few scores, exact lines for many; it says which, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conformix.search.grid import GridSearch
from conformix.search.line import LineSearch
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult

# Up to so many scores a grid is fine enough: 100 steps for three, 50 for four.
MOST_GRID_SCORES = 4
# Weights to count on lines, and on how many (row, label) pairs so many are affordable.
BUDGET, BUDGET_PAIRS = 40_000, 2**19
LEAST_BUDGET = 4_000


@dataclass(frozen=True)
class AutoSearch:
    """The exact grid for up to four scores, exact line searches for more.

    What it took, and why, stands in `SearchResult.reason`. Where candidates must be counted or
    fixed beforehand (split ``exact``, a PAC statement on the tuning rows) it is the grid, coarser
    with more scores.

    Examples
    --------
    >>> AutoSearch().picked(d=3, n=1000, n_classes=100)
    (GridSearch(resolution=None), '3 scores: a grid is fine enough and exact')
    >>> AutoSearch().picked(d=20, n=1000, n_classes=100)[0]
    LineSearch(budget=40000, starts=6)
    """

    grid = GridSearch(None)

    def picked(self, d: int, n: int, n_classes: int) -> tuple[GridSearch | LineSearch, str]:
        """Return the strategy for d scores of n size rows and K classes, and the reason."""
        if d <= MOST_GRID_SCORES:
            return self.grid, f"{d} scores: a grid is fine enough and exact"
        share = min(1.0, BUDGET_PAIRS / max(1, n * n_classes))
        budget = max(LEAST_BUDGET, int(BUDGET * share))
        told = f"{d} scores, {n:,} rows, {n_classes:,} classes: no grid is fine enough"
        return LineSearch(budget), told

    def n_candidates(self, d: int) -> int:
        """Return the number of weights of the grid, or 0 where the weights are continuous."""
        return self.grid.n_candidates(d) if d <= MOST_GRID_SCORES else 0

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return what the picked strategy finds, and the reason why it was picked."""
        n_classes = max((part.shape[1] for part in objective.size_parts), default=0)
        search, reason = self.picked(objective.d, objective.n_size, n_classes)
        return replace(search(objective, rng), reason=reason)
