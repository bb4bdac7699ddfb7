"""The simplex grid, counted in integers, and the order that breaks ties.

A grid of resolution m holds every composition ``g`` of m into d non-negative integers; the weights
are ``g / m``. Integers lose no point (adding up floats of 0.01 loses 35 of 5,151).
"""

from __future__ import annotations

import math

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray

# More weights than this would not fit in memory beside the scores.
MAX_GRID = 20_000_000


def grid_size(d: int, resolution: int) -> int:
    """Return the number of grid weights, ``C(resolution + d - 1, d - 1)``.

    Examples
    --------
    >>> grid_size(3, 100)
    5151
    """
    return math.comb(resolution + d - 1, d - 1)


def simplex_grid(d: int, resolution: int) -> IntArray:
    """Return all compositions of `resolution` into `d` parts, in lexicographic order.

    Parameters
    ----------
    d : int
        Number of scores.
    resolution : int
        What every row sums to.

    Returns
    -------
    int64 array of shape (M, d)
        ``M = C(resolution + d - 1, d - 1)``.

    Examples
    --------
    >>> simplex_grid(2, 2)
    array([[0, 2],
           [1, 1],
           [2, 0]])
    """
    check_resolution(d, resolution)
    rows = np.zeros((1, 0), dtype=np.int64)
    left = np.full(1, resolution, dtype=np.int64)
    for _ in range(d - 1):
        # Every row is continued by 0, 1, ..., what is left: the order stays lexicographic.
        repeats = left + 1
        part = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        rows = np.column_stack([np.repeat(rows, repeats, axis=0), part])
        left = np.repeat(left, repeats) - part
    return np.column_stack([rows, left])


def check_resolution(d: int, resolution: int) -> None:
    """Refuse a resolution that is no positive integer, or whose grid is too large."""
    if isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 1:
        raise InvalidInput(f"d must be a positive number of scores; got {d!r}.")
    whole = isinstance(resolution, int | np.integer) and not isinstance(resolution, bool)
    if not whole or resolution < 1:
        raise InvalidInput(f"resolution must be a positive integer; got {resolution!r}.")
    if grid_size(d, int(resolution)) > MAX_GRID:
        raise InvalidInput(
            f"a grid of resolution {resolution} over {d} scores has {grid_size(d, resolution):,} "
            f"weights, more than {MAX_GRID:,}; lower the resolution or average fewer scores."
        )


def first_best(counts: FloatArray | IntArray, weights: FloatArray | IntArray) -> int:
    """Return the index of the winner under the total order that breaks ties.

    Smallest count first, then smallest ``sum w_j^2`` (closest to uniform), then the
    lexicographically first weights. The order does not depend on how the rows are listed.

    Parameters
    ----------
    counts : array of shape (m,)
        Total set size, or another cost, of every weight vector.
    weights : array of shape (m, d)
        Integer grid weights, or any candidates.

    Examples
    --------
    >>> first_best(np.array([7, 7, 7]), np.array([[0, 2], [1, 1], [2, 0]]))
    1
    """
    tied = np.flatnonzero(counts == counts.min())
    return int(tied[preference(weights[tied])[0]])


def preference(weights: FloatArray | IntArray) -> IntArray:
    """Return the order of weight vectors that breaks ties, most preferred first.

    Smallest ``sum w_j^2`` first, then lexicographically.
    """
    return np.lexsort((*weights.T[::-1], (weights**2).sum(axis=1)))
