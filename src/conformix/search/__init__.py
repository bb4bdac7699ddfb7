"""Search for the weights that make the sets smallest.

A search strategy is one callable on a batched objective. To add one, write a file with a frozen
dataclass whose ``__call__(objective, rng)`` returns a `SearchResult`.
"""

from conformix.kernels.simplex import first_best, grid_size, simplex_grid
from conformix.search.goals import (
    OBJECTIVES,
    CappedSize,
    ClassGap,
    LabelCosts,
    MeanSize,
    Singletons,
    SizeStratified,
    resolve_objective,
)
from conformix.search.gradient import GradientSearch
from conformix.search.grid import Candidates, GridSearch
from conformix.search.line import LineSearch
from conformix.search.objective import SearchResult, SizeObjective
from conformix.search.spread import SpreadGrid
from conformix.search.stability import (
    OneStandardError,
    Region,
    bootstrap_weights,
    near_optimal_region,
)
from conformix.search.weights import AutoSearch, landscape, resolve_search, search_weights

__all__ = [
    "OBJECTIVES",
    "AutoSearch",
    "Candidates",
    "CappedSize",
    "ClassGap",
    "GradientSearch",
    "GridSearch",
    "LabelCosts",
    "LineSearch",
    "MeanSize",
    "OneStandardError",
    "Region",
    "SearchResult",
    "Singletons",
    "SizeObjective",
    "SizeStratified",
    "SpreadGrid",
    "bootstrap_weights",
    "first_best",
    "grid_size",
    "landscape",
    "near_optimal_region",
    "resolve_objective",
    "resolve_search",
    "search_weights",
    "simplex_grid",
]
