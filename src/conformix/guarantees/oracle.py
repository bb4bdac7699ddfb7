"""The oracle of the paper's section 3.1, on a large labelled pool, and the regret against it.

``w*`` minimises the expected set size among weights and thresholds with coverage at least
``1 - alpha`` in the population. Taking the pool as the population, the threshold of a weight
vector is the ``ceil(N (1 - alpha))``-th largest true-label score of its N rows. A method's regret
is the size its weights need for the same coverage on the pool, less the oracle's: a comparison at
matched coverage, so that a lucky threshold earns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import kth_largest, simple_fraction
from conformix.data.outputs import check_labels, check_scores
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, to_host
from conformix.search.objective import SizeObjective
from conformix.search.weights import resolve_search

__all__ = ["Oracle", "find_oracle", "regrets"]


@dataclass(frozen=True, eq=False)
class Oracle:
    """The best weights on a pool that stands for the population.

    Parameters
    ----------
    weights : array of shape (d,)
        ``w*`` among the candidates.
    threshold : float
        Its threshold, ``Q_{1-alpha}(w*)``.
    size : float
        Its mean set size on the pool.

    Examples
    --------
    >>> Oracle(np.array([1.0]), 0.2, 1.5).size
    1.5
    """

    weights: FloatArray
    threshold: float
    size: float


def _population_rank(n: int, alpha: float) -> int:
    share = 1 - simple_fraction(alpha)
    return max(math.ceil(n * share), 1)


def find_oracle(
    scores: Any, y: Any, *, alpha: float, search: Any = "grid", resolution: int = 100
) -> Oracle:
    """Return the population optimum on a pool.

    Parameters
    ----------
    scores : array of shape (N, K, d)
        Scores of the pool.
    y : integer array of shape (N,)
        Its labels.
    alpha : float
        Allowed miscoverage.
    search, resolution
        Candidates, as in `conformix.search.search_weights`.

    Examples
    --------
    >>> import conformix as cx
    >>> scores = cx.score_tensor([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], ("thr", "rank"))
    >>> find_oracle(scores, [0, 1, 0], alpha=0.3, resolution=2).size
    1.0
    """
    pool = check_scores(to_host(scores))
    labels = check_labels(y, *pool.shape[:2])
    k = _population_rank(len(labels), alpha)
    true_scores = pool[np.arange(len(labels)), labels]
    result = resolve_search(search, resolution)(
        SizeObjective(true_scores, [pool], k), np.random.default_rng(0)
    )
    return Oracle(result.weights, kth_largest(combine(true_scores, result.weights), k), result.size)


def regrets(
    scores: Any, y: Any, weights: Sequence[Any], *, alpha: float, oracle: Oracle
) -> FloatArray:
    """Return how many labels each weight vector needs beyond the oracle, at matched coverage.

    Parameters
    ----------
    scores, y
        The pool.
    weights : sequence of arrays of shape (d,)
        Weights found by a method, one per repetition.
    alpha : float
        Allowed miscoverage.
    oracle : Oracle
        From `find_oracle` on the same pool.

    Examples
    --------
    >>> import conformix as cx
    >>> scores = cx.score_tensor([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], ("thr", "rank"))
    >>> best = find_oracle(scores, [0, 1, 0], alpha=0.3, resolution=2)
    >>> regrets(scores, [0, 1, 0], [[1.0, 0.0]], alpha=0.3, oracle=best)
    array([0.])
    """
    pool = check_scores(to_host(scores))
    labels = check_labels(y, *pool.shape[:2])
    true_scores = pool[np.arange(len(labels)), labels]
    k = _population_rank(len(labels), alpha)
    return SizeObjective(true_scores, [pool], k)(np.asarray(weights, dtype=float)) - oracle.size
