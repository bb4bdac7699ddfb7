"""Search over weights that are listed: the simplex grid, or a list of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, refuse_missing, to_host
from conformix.kernels.simplex import check_resolution, grid_size, preference, simplex_grid
from conformix.search.objective import SearchResult, SizeObjective

# What `search="auto"` allows itself: three scores at resolution 100, four at 50, six at 20.
AUTO_WEIGHTS = 60_000
# Grids of so many weights at most are made once: fits on few rows ask for them again and again.
KEPT_WEIGHTS = 10_000
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

    on_simplex: ClassVar[bool] = True

    def steps(self, d: int) -> int:
        """Return the resolution over `d` scores."""
        return auto_resolution(d) if self.resolution is None else self.resolution

    def n_candidates(self, d: int) -> int:
        """Return the number of grid weights over `d` scores."""
        return grid_size(d, self.steps(d))

    def only_counts(self, d: int) -> bool:
        """Return that labels are counted for weights that are not negative, and no more."""
        return True

    def candidate_weights(self, d: int) -> FloatArray:
        """Return the grid weights (M, d) in the order that breaks ties."""
        made = _preferred if self.n_candidates(d) <= KEPT_WEIGHTS else _preferred.__wrapped__
        return made(d, self.steps(d)).copy()

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the exact winner; `rng` is not used."""
        resolution = self.steps(objective.d)
        check_resolution(objective.d, resolution)
        made = _grid if self.n_candidates(objective.d) <= KEPT_WEIGHTS else simplex_grid
        grid = made(objective.d, resolution)
        best, count = objective.smallest(grid / resolution, grid)
        return SearchResult(
            weights=grid[best] / resolution,
            count=count,
            n_size=objective.n_size,
            n_evaluated=len(grid),
            strategy=f"grid of resolution {resolution}",
        )


@lru_cache(maxsize=8)
def _grid(d: int, resolution: int) -> IntArray:
    """Return a grid that is made once and never changed."""
    grid = simplex_grid(d, resolution)
    grid.flags.writeable = False
    return grid


@lru_cache(maxsize=8)
def _preferred(d: int, resolution: int) -> FloatArray:
    """Return the weights of a grid, those that win ties first."""
    grid = simplex_grid(d, resolution)
    return grid[preference(grid)] / resolution


def auto_resolution(d: int) -> int:
    """Return the finest usual resolution whose grid over `d` scores stays small.

    Examples
    --------
    >>> auto_resolution(3), auto_resolution(4), auto_resolution(6)
    (100, 50, 20)
    """
    fitting = (m for m in AUTO_RESOLUTIONS if grid_size(d, m) <= AUTO_WEIGHTS)
    return next(fitting, 1)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Exact minimum of the set size over given weight vectors.

    Parameters
    ----------
    weights : array of shape (m, d)
        Any finite numbers; they need not be positive nor sum to one (the paper allows any
        finite set in R^d).

    Examples
    --------
    >>> Candidates([[1.0, 0.0], [0.5, 0.5], [1.0, -0.2]])
    Candidates(3 weights)
    """

    weights: Any

    ends_among: ClassVar[bool] = True

    @property
    def listed(self) -> FloatArray:
        """The weights as they were given, unchecked."""
        return np.asarray(self.weights, dtype=np.float64)

    def n_candidates(self, d: int) -> int:
        """Return the number of candidates."""
        return len(self.weights)

    def candidate_weights(self, d: int) -> FloatArray:
        """Return the different candidates (M, d) in the order that breaks ties."""
        weights = np.unique(check_candidates(self.weights, d), axis=0)
        return weights[preference(weights)]

    def only_counts(self, d: int) -> bool:
        """Return whether labels are counted for weights that are not negative, and no more."""
        weights = check_candidates(self.weights, d)
        totals = weights.sum(axis=1)  # of which neither vanishes nor overflows beside scores
        return bool((weights >= 0).all() and (totals > 1e-6).all() and (totals < 1e6).all())

    def only(self, d: int) -> FloatArray | None:
        """Return the one candidate (d,), or None where there are several."""
        weights = self.candidate_weights(d)
        return weights[0] if len(weights) == 1 else None

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the exact winner; `rng` is not used."""
        weights = check_candidates(self.weights, objective.d)
        best, count = objective.smallest(weights, weights)
        return SearchResult(
            weights=weights[best],
            count=count,
            n_size=objective.n_size,
            n_evaluated=len(weights),
            strategy="given candidates",
        )

    def __repr__(self) -> str:
        return f"Candidates({len(self.weights)} weights)"


def _numbers(weights: object, name: str) -> FloatArray:
    """Return a copy, so that what the user changes later changes no fit."""
    refuse_missing(weights, name)
    weights = to_host(weights, name)
    try:
        return np.array(weights, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be a rectangular array of numbers.") from None


def check_candidates(weights: object, d: int) -> FloatArray:
    """Return candidate weights as a finite float64 array of shape (m, d)."""
    array = _numbers(weights, "candidate weights")
    if array.ndim != 2 or array.shape[1] != d or len(array) == 0:
        raise InvalidInput(
            f"candidate weights must have shape (m, {d}), one column per score; got {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidInput("candidate weights must be finite; got NaN or inf.")
    return array


def check_simplex(weights: object, d: int) -> FloatArray:
    """Return weights given by hand, shape (d,): non-negative, summing to one.

    Examples
    --------
    >>> check_simplex([0.7, 0.7], 2)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: weights must be non-negative and sum to 1; got [0.7, 0.7], \
    which sum to 1.4 (divide by the sum, or give other weights as search candidates).
    """
    array = _numbers(weights, "weights")
    if array.shape != (d,):
        raise InvalidInput(
            f"weights must hold one number per score, shape ({d},); got shape {array.shape}."
        )
    if not (array >= 0).all() or abs(array.sum() - 1) > 1e-9:
        raise InvalidInput(
            f"weights must be non-negative and sum to 1; got {array.tolist()}, which sum to "
            f"{array.sum():g} (divide by the sum, or give other weights as search candidates)."
        )
    return array
