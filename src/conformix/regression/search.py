"""Scores to weights on the real line: the mean width, and searches for its minimum.

``width(w)`` is the mean width of the intervals of the tuning rows, when the threshold is the k-th
smallest averaged score of the same rows, added up over one or several levels alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    RandomState,
    as_generator,
    is_tensor,
    to_host,
)
from conformix.kernels.blocks import available_threads, row_blocks, run_blocks, threads_for
from conformix.kernels.elementary import exp
from conformix.kernels.simplex import first_best, simplex_grid
from conformix.kernels.twins import host_kernels
from conformix.regression.planes import Planes
from conformix.search.grid import auto_resolution
from conformix.search.weights import MOST_GRID_SCORES

# A level, and its half, its three halves and its double: widths at one level alone are noisier.
AROUND = (0.5, 1.0, 1.5, 2.0)
# Weights averaged over so many searches, each on so large a random part of the rows.
BAGS, SHARE = 4, 2 / 3
# What NumPy takes for a width, in products of a weight and a score: about so many passes.
PASSES = 12
# Weights that one thread takes at a time.
BLOCK = 256


def levels_around(alpha: float, n: int, around: Sequence[float] = AROUND) -> tuple[float, ...]:
    """Return the levels whose widths are added up for `alpha` on n tuning rows.

    Multiples of alpha that are levels and have a finite threshold; alpha itself always.

    Examples
    --------
    >>> levels_around(0.1, 1000), levels_around(0.1, 15)
    ((0.05, 0.1, 0.15, 0.2), (0.1, 0.15, 0.2))
    """
    level = simple_fraction(alpha)
    chosen = []
    for factor in around:
        one = level * simple_fraction(factor / 4) * 4
        if one == level or (one < 1 and conformal_rank(n, float(one)) <= n):
            chosen.append(float(one))
    return tuple(chosen)


@dataclass(frozen=True)
class WidthResult:
    """The winning weights and how wide their intervals are.

    Parameters
    ----------
    weights : array of shape (d,)
        The winner, or the mean of the winners of several searches.
    width : float
        Its mean width on all tuning rows, added up over the levels: minimised, hence optimistic.
    n_evaluated : int
        Number of weight vectors whose widths were looked at.
    strategy : str
        What was searched, for people.

    Examples
    --------
    >>> WidthResult(np.array([0.5, 0.5]), 2.5, 101, "grid of resolution 100").width
    2.5
    """

    weights: FloatArray
    width: float
    n_evaluated: int
    strategy: str


class WidthObjective:
    """Mean widths as a function of the weights.

    Parameters
    ----------
    planes : Planes
        The tuning rows.
    y : array of shape (n,)
        Their responses.
    levels : sequence of float
        Miscoverages whose widths are added up.
    y_range : pair of float, optional
        What the response cannot leave: widths are those of the intervals cut to it.
    threads : int or None
        Threads to use; None takes the available cores.
    size : Planes, optional
        The rows whose widths are measured, where they are not the tuning rows; no responses here.
    rank : callable
        From a number of rows and a level to the rank of the threshold.

    Examples
    --------
    >>> planes = Planes(np.zeros((4, 1)), np.zeros((4, 1)), np.ones((4, 1)), np.ones((4, 1)))
    >>> WidthObjective(planes, np.array([1.0, -2.0, 3.0, 4.0]), [0.4])(np.ones((1, 1)))
    array([6.])
    """

    def __init__(
        self,
        planes: Planes,
        y: FloatArray,
        levels: Sequence[float],
        y_range: tuple[float, float] | None = None,
        threads: int | None = None,
        *,
        size: Planes | None = None,
        rank: Callable[[int, float], int] = conformal_rank,
    ) -> None:
        self.planes = planes
        self.size = planes if size is None else size
        self.rank = rank
        self.y = np.asarray(to_host(y), dtype=np.float64)
        self.levels = tuple(levels)
        self.ranks = [rank(len(planes), level) for level in levels]
        self.y_range = (
            (-np.inf, np.inf) if y_range is None else (float(y_range[0]), float(y_range[1]))
        )
        self.threads = available_threads(threads)
        self.scores = planes.scores(self.y)

    @property
    def d(self) -> int:
        """Number of scores."""
        return self.planes.d

    def part(self, rows: IntArray) -> WidthObjective:
        """Return the objective on some of its tuning rows; other rows are all measured."""
        size = None if self.size is self.planes else self.size
        return WidthObjective(
            self.planes.rows(rows), self.y[rows], self.levels, self.y_range, self.threads,
            size=size, rank=self.rank,
        )  # fmt: skip

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the threshold of every level under every weight vector, (L, m)."""
        return order_statistics(self.scores, weights, self.ranks, self.threads)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the mean widths (m,) of weights (m, d), added up over the levels."""
        cuts = self.thresholds(weights)
        totals = total_widths(self.size, weights, cuts, self.y_range, self.threads)
        return totals.sum(axis=0) / max(1, len(self.size))  # type: ignore[no-any-return]


def order_statistics(
    scores: FloatArray, weights: FloatArray, ranks: Sequence[int], threads: int = 1
) -> FloatArray:
    """Return the k-th smallest of ``combine(scores, w)`` for all k and w, (L, m).

    ``-inf`` for k = 0, ``inf`` for k larger than the rows.
    """
    n = len(scores)
    falling = -scores  # a sum of negated products is the negated sum
    found = np.empty((len(ranks), len(weights)))
    for place, k in enumerate(ranks):
        if k < 1 or k > n:
            found[place] = -np.inf if k < 1 else np.inf
            continue
        if is_tensor(scores):
            from conformix.kernels.device.engine import thresholds_of  # noqa: PLC0415  late

            found[place] = -thresholds_of(falling, k, weights)
            continue
        kernels = host_kernels("engine", scores.size * len(weights))
        found[place] = -kernels.counts_and_thresholds(falling, (), k, weights, threads)[1]
    return found


def total_widths(
    planes: Planes,
    weights: FloatArray,
    thresholds: FloatArray,
    y_range: tuple[float, float] = (-np.inf, np.inf),
    threads: int | None = 1,
) -> FloatArray:
    """Return the widths of all rows at thresholds (L, m) under weights (m, d), added up, (L, m).

    Rows are added in their order. Every width rises with its threshold, in floats too: each
    operation that a threshold goes through is monotone.
    """
    return _add_widths(planes, weights, thresholds, y_range, groups=1, threads=threads)[0]


def row_widths(
    planes: Planes,
    weights: FloatArray,
    thresholds: FloatArray,
    y_range: tuple[float, float] = (-np.inf, np.inf),
    threads: int | None = 1,
) -> FloatArray:
    """Return the width of every row, (n, L, m), as `total_widths` adds them up."""
    return _add_widths(planes, weights, thresholds, y_range, groups=len(planes), threads=threads)


def _add_widths(
    planes: Planes,
    weights: FloatArray,
    thresholds: FloatArray,
    y_range: tuple[float, float],
    *,
    groups: int,
    threads: int | None,
) -> FloatArray:
    m = len(weights)
    totals = np.zeros((groups, *thresholds.shape))
    knots: Any = sorted_knots(planes)
    rest: Any = (np.ascontiguousarray(weights.T), thresholds, *y_range)
    if is_tensor(planes.centre):
        from conformix.kernels.device import widths  # noqa: PLC0415  PyTorch loads late

        everything: Any = (*knots, *rest, totals)
        widths.add_widths(*everything)
        return totals
    work = planes.centre.size * m * len(thresholds)
    kernels = host_kernels("widths", PASSES * work)

    def add(some: slice) -> None:
        kernels.add_widths(*knots, *rest, some.start, some.stop, totals)

    run_blocks(add, row_blocks(m, 1, BLOCK), threads_for(work, threads))
    return totals


def sorted_knots(planes: Planes) -> tuple[Any, ...]:
    """Return the order of the centres of every row, rising, and what a walk over them needs.

    Centre, score at the first knot, below and above, each (n, d) in that order.
    """
    given: tuple[Any, ...] = planes.parts
    if is_tensor(planes.centre):
        order = given[0].argsort(dim=1, stable=True)
        parts = [part.gather(1, order) for part in given]
    else:
        order = np.argsort(planes.centre, axis=1, kind="stable")
        parts = [np.take_along_axis(part, order, axis=1) for part in given]
    centre, offset, below, above = parts
    first = offset + below * (centre - centre[:, :1])
    return order, centre, first, below, above


def exact_grid(
    planes: Planes,
    y: FloatArray,
    levels: Sequence[float],
    resolution: int | None = None,
    *,
    y_range: tuple[float, float] | None = None,
    threads: int | None = None,
) -> WidthResult:
    """Return the weights of the simplex grid with the smallest mean width.

    Parameters
    ----------
    planes, y, levels, y_range, threads
        As in `WidthObjective`.
    resolution : int or None
        The grid holds all weights ``g / resolution``; None takes 100 for three scores, and less
        where many would make the grid too large.

    Returns
    -------
    WidthResult
        The exact minimum over the grid; ties are broken by ``sum w_j^2``, then lexicographically.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal(50)
    >>> centre = np.column_stack([y + rng.standard_normal(50), np.zeros(50)])
    >>> planes = Planes(centre, 0 * centre, 0 * centre + 1, 0 * centre + 1)
    >>> exact_grid(planes, y, [0.1], 10).weights
    array([0.4, 0.6])
    """
    return narrowest(WidthObjective(planes, y, levels, y_range, threads), resolution)


def narrowest(objective: WidthObjective, resolution: int | None = None) -> WidthResult:
    """Return the weights of the simplex grid where an objective is smallest, as `exact_grid`."""
    steps = auto_resolution(objective.d) if resolution is None else resolution
    grid = simplex_grid(objective.d, steps)
    totals = objective(grid / steps)
    best = first_best(totals, grid)
    name = f"grid of resolution {steps}"
    return WidthResult(grid[best] / steps, float(totals[best]), len(grid), name)


# Steps of the descent, how far the logarithms of the weights move in the first and in the last one,
# and the furthest that a single one moves.
STEPS, FIRST, LAST, MOST = 60, 1.0, 0.05, 1.5
# How a threshold changes is the mean over its row and others near it, to either side this share.
NEAR = 0.02


def descend(objective: WidthObjective) -> WidthResult:
    """Return weights of small mean width, for more scores than a grid can serve.

    Exponentiated gradients from equal weights, in ever smaller steps: widths vary smoothly, and
    deeper minima of the tuning rows are no narrower on others. Whatever is found, it is no wider
    on the tuning rows than any single score and the plain average. Nothing is drawn. Scores should
    be of one scale: equal weights are where it starts.
    """
    d = objective.d
    slope = WidthSlope(objective)
    weights = np.full(d, 1.0 / d)
    best, least = weights, np.inf
    for step in range(STEPS + 1):
        width, change = slope(weights)
        if width < least:
            best, least = weights, width
        if not np.isfinite(width):
            break
        change = change - (weights * change).sum()
        spread = math.sqrt(float((weights * change * change).sum()))
        if spread <= 1e-12 * width:
            break
        reach = FIRST * (LAST / FIRST) ** (step / STEPS) / spread
        weights = weights * exp(np.clip(-reach * change, -MOST, MOST))
        weights = weights / weights.sum()
    tried = np.vstack([best, np.eye(d), np.full(d, 1.0 / d)])
    widths = objective(tried)
    winner = first_best(widths, tried)
    evaluated = STEPS + 1 + len(tried)
    return WidthResult(tried[winner], float(widths[winner]), evaluated, "descent")


class WidthSlope:
    """The mean width, added up over the levels, and how it changes with the weights.

    The width of a row changes as its ends do; the threshold changes as its own row's score, which
    one row more or less would alter, so the mean over the rows nearest in rank stands for it.
    """

    def __init__(self, objective: WidthObjective) -> None:
        planes = objective.size.on_host()
        self.n, self.n_size = len(objective.planes), max(1, len(planes))
        self.scores, self.ranks = to_host(objective.scores), objective.ranks
        self.y_range = objective.y_range
        order = np.argsort(planes.centre, axis=1, kind="stable")
        self.rows = (order, *planes.arrays)
        # A descent asks once, for all of its steps: each by itself is small.
        self.kernels = host_kernels("widths", PASSES * STEPS * order.size * len(self.ranks))

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the width of weights (d,), and its slope (d,)."""
        combined = combine(self.scores, weights)
        order = np.argsort(combined, kind="stable")
        cuts, moves = np.full(len(self.ranks), np.inf), np.zeros((len(self.ranks), len(weights)))
        for place, k in enumerate(self.ranks):
            if k <= self.n:
                cuts[place] = combined[order[k - 1]]
                half = min(max(3, round(NEAR * self.n)), k - 1, self.n - k)
                moves[place] = self.scores[order[k - 1 - half : k + half]].mean(axis=0)
        totals, slopes = np.zeros(len(cuts)), np.zeros(len(weights))
        self.kernels.add_slopes(*self.rows, weights, cuts, moves, *self.y_range, totals, slopes)
        return float(totals.sum()) / self.n_size, slopes / self.n_size


def search_widths(
    planes: Planes,
    y: FloatArray,
    levels: Sequence[float],
    *,
    resolution: int | None = None,
    bags: int = BAGS,
    share: float = SHARE,
    y_range: tuple[float, float] | None = None,
    random_state: RandomState = None,
    threads: int | None = None,
) -> WidthResult:
    """Return weights whose intervals are narrow: the mean over searches on random parts.

    Parameters
    ----------
    planes, y, levels, y_range, threads
        As in `WidthObjective`.
    resolution : int or None
        Of the grid, which is searched exactly for up to four scores; more are searched by descent.
    bags : int
        Number of searches, each on a random part of the rows; 1 searches all rows once.
    share : float
        Share of the rows in a part.
    random_state : int, Generator or None
        What draws the parts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.standard_normal(60)
    >>> centre = np.column_stack([y + rng.standard_normal(60), np.zeros(60)])
    >>> planes = Planes(centre, 0 * centre, 0 * centre + 1, 0 * centre + 1)
    >>> search_widths(planes, y, [0.1, 0.2], random_state=0).strategy
    'mean of 4 searches on random parts: grid of resolution 100'
    """
    objective = WidthObjective(planes, y, levels, y_range, threads)
    rng = as_generator(random_state)
    return search_objective(objective, rng, resolution=resolution, bags=bags, share=share)


def search_objective(
    objective: WidthObjective,
    rng: np.random.Generator,
    *,
    resolution: int | None = None,
    bags: int = BAGS,
    share: float = SHARE,
) -> WidthResult:
    """Return weights of a small objective, as `search_widths`: the mean over random parts."""
    if bags < 1 or not 0 < share <= 1:
        raise InvalidInput(f"bags must be at least 1 and share in (0, 1]; got {bags}, {share:g}.")
    by_grid = objective.d <= MOST_GRID_SCORES

    def search(some: WidthObjective) -> WidthResult:
        return narrowest(some, resolution) if by_grid else descend(some)

    if bags == 1:
        return search(objective)
    n = len(objective.planes)
    size = max(1, round(n * share))
    parts = [objective.part(np.sort(rng.permutation(n)[:size])) for _ in range(bags)]
    # A grid keeps all threads busy by itself.
    found = run_blocks(search, parts, 1 if by_grid else objective.threads)
    weights = found[0].weights.copy()
    for one in found[1:]:
        weights += one.weights
    weights = weights / weights.sum()
    width = float(objective(weights[None])[0])
    name = f"mean of {bags} searches on random parts: {found[0].strategy}"
    return WidthResult(weights, width, sum(one.n_evaluated for one in found), name)
