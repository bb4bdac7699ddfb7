"""Searches over workers: sizes are integers that add over rows, so any cut gives the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.data.outputs import check_labels, check_scores
from conformix.data.workers import computed, fold
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, of_labels
from conformix.kernels.simplex import first_best, simplex_grid
from conformix.search.grid import GridSearch
from conformix.search.objective import SearchResult, SizeObjective, tuning_rank


@dataclass(frozen=True)
class SpreadGrid:
    """Exact minimum of the set size over the simplex grid, counted by the workers of a cluster.

    Every worker counts the sizes of its share of the size rows for all weights. That pays where
    counting takes much longer than sending the scores there: many weights, many labels. The
    winner is that of ``search="grid"``.

    Parameters
    ----------
    resolution : int or None
        Of the grid, as in `GridSearch`.
    parts : int
        Into how many parts the rows are cut; one or two per worker.

    Examples
    --------
    >>> SpreadGrid(resolution=20, parts=4).n_candidates(3)
    231
    """

    resolution: int | None = None
    parts: int = 4

    def n_candidates(self, d: int) -> int:
        """Return the number of grid weights over `d` scores."""
        return GridSearch(self.resolution).n_candidates(d)

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the exact winner; `rng` is not used."""
        resolution = GridSearch(self.resolution).steps(objective.d)
        grid = simplex_grid(objective.d, resolution)
        counts = spread_counts(objective, grid / resolution, self.parts)
        best = first_best(counts, grid)
        return SearchResult(
            weights=grid[best] / resolution,
            count=int(counts[best]),
            n_size=objective.n_size,
            n_evaluated=len(grid),
            strategy=f"grid of resolution {resolution}",
        )


def spread_counts(objective: SizeObjective, weights: FloatArray, n_shares: int) -> IntArray:
    """Return ``objective.counts(weights)``, the size rows cut into shares for the workers."""
    from dask import delayed  # noqa: PLC0415  an extra

    if not isinstance(n_shares, int | np.integer) or isinstance(n_shares, bool) or n_shares < 1:
        raise InvalidInput(f"parts must be a positive integer; got {n_shares!r}.")
    work = delayed(_counts, pure=False, traverse=False)
    # None without rows.
    n_shares = min(int(n_shares), *(len(part) for part in objective.size_parts))
    tasks = []
    for i in range(n_shares):
        share = objective.with_size_rows(lambda n, i=i: _share(n, i, n_shares))  # type: ignore[misc]
        share.threads = 1  # a task is one core; shares are what runs side by side
        tasks.append(work(share, weights))
    (counts,) = computed(fold(tasks, delayed(_added, pure=False)))
    return counts  # type: ignore[no-any-return]


def _share(n: int, i: int, n_shares: int) -> slice:
    return slice(n * i // n_shares, n * (i + 1) // n_shares)


def _counts(objective: SizeObjective, weights: FloatArray) -> IntArray:
    return objective.counts(weights)


def _added(counts: list[IntArray]) -> IntArray:
    return np.sum(counts, axis=0)


def landscape(
    scores: Any, y: Any, *, alpha: float, resolution: int = 100, parts: int = 4
) -> tuple[FloatArray, FloatArray]:
    """Return the mean set size of every weight of the grid, counted by workers.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of all labels.
    y : array of shape (n,)
        True labels.
    alpha, resolution
        As in `conformix.search.landscape`, whose numbers these are.
    parts : int
        Into how many parts the rows are cut.

    Examples
    --------
    >>> import conformix as cx
    >>> scores = cx.score_tensor([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], ("thr", "rank"))
    >>> landscape(scores, [0, 1, 0], alpha=0.3, resolution=2, parts=2)[1]
    array([1., 1., 1.])
    """
    labelled = check_scores(scores)
    labels = check_labels(y, *labelled.shape[:2])
    k = tuning_rank(len(labels), alpha)
    objective = SizeObjective(of_labels(labelled, labels), [labelled], k)
    weights = simplex_grid(objective.d, resolution) / resolution
    return weights, spread_counts(objective, weights, parts) / objective.n_size
