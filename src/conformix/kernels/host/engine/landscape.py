"""Exact counts for all weights of a batch, in one pass of all rows through the tree of cells.

No order of the labels is needed: scores of one model and scores of several are treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.engine.brackets import fit_brackets
from conformix.kernels.host.engine.cells import build_cells, draw_sample
from conformix.kernels.host.engine.thresholds import all_thresholds
from conformix.kernels.host.engine.walk import COUNT, LAZY, Problem, run_pass

LEAF_SIZE = 96


def candidate_counts(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> IntArray:
    """Return the exact number of (row, label) pairs in the sets, for any batch of weights.

    Parameters
    ----------
    true_scores : (n, d) scores of the true labels of the labelled rows.
    size_parts : arrays (n_i, K, d), float64 or float32, any strides; never copied as a whole.
    k : the threshold is the k-th largest combined true score, ``1 <= k <= n``.
    weights : (M, d), of any sign, on the simplex or not.
    threads : how many threads may run; the result does not depend on it.

    Returns
    -------
    ndarray of int64, shape (M,)

    Examples
    --------
    >>> scores = np.array([[[0.9], [0.1]], [[0.4], [0.6]]])
    >>> candidate_counts(scores[[0, 1], [0, 1]], [scores], 2, np.array([[1.0]]))
    array([2])
    """
    return counts_and_thresholds(true_scores, size_parts, k, weights, threads)[0]


def counts_and_thresholds(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> tuple[IntArray, FloatArray]:
    """Return `candidate_counts` and the thresholds t(w), each of shape (M,).

    Examples
    --------
    >>> scores = np.array([[[0.9], [0.1]], [[0.4], [0.6]]])
    >>> counts_and_thresholds(scores[[0, 1], [0, 1]], [scores], 2, np.array([[1.0]]))
    (array([2]), array([0.6]))
    """
    problem = pose(true_scores, size_parts, k, weights, threads)
    actions = np.where(problem.cells.is_leaf, COUNT, LAZY).astype(np.uint8)
    counts = np.empty(len(weights), dtype=np.int64)
    thresholds = np.empty(len(weights))
    counts[problem.cells.order] = run_pass(problem, actions, size_parts, threads).counts
    thresholds[problem.cells.order] = problem.thresholds
    return counts, thresholds


def pose(
    true_scores: FloatArray,
    size_parts: Sequence[FloatArray],
    k: int,
    weights: FloatArray,
    threads: int,
) -> Problem:
    """Return tree, thresholds and brackets: all that comes before the first pass over rows."""
    true_scores = np.ascontiguousarray(true_scores, dtype=np.float64)
    # a copy: kernels would be compiled again for a read-only array
    weights = np.array(weights, dtype=np.float64, order="C")
    cells = build_cells(weights, draw_sample(true_scores, k, size_parts), LEAF_SIZE)
    thresholds, witness = all_thresholds(cells, true_scores, k, threads)
    return Problem(cells, thresholds, fit_brackets(cells, thresholds, witness))
