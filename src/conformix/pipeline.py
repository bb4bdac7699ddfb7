"""Fit and predict on score tensors, as the paper's Algorithm 2 reads."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from conformix.arrays import BoolArray, FloatArray, IntArray
from conformix.conformal import conformal_rank, kth_largest, rows_needed, warn_if_trivial
from conformix.errors import InvalidInput, SmallBatchWarning, TrivialSetsWarning
from conformix.guarantees import EXACT, Guarantee
from conformix.inputs import row_blocks
from conformix.kernels import combine
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult
from conformix.search.weights import Search
from conformix.splits import Roles, Split

# With fewer test rows than this a transductive split can fit its weights to the batch.
SMALL_BATCH = 100


@dataclass(frozen=True)
class Fitted:
    """Everything that prediction needs, and how it came about.

    Parameters
    ----------
    weights : float64 array of shape (d,)
        The weights of the scores.
    calibration : float64 array of shape (n,)
        Combined true-label scores of the calibration rows, sorted upwards.
    guarantee : Guarantee
        What holds for the sets.
    search : SearchResult or None
        What the search found; None where the weights were given.
    held_out_size : float or None
        Mean set size on rows that chose neither weights nor size, where there are any.
    """

    weights: FloatArray
    calibration: FloatArray
    guarantee: Guarantee
    search: SearchResult | None = None
    held_out_size: float | None = None

    def threshold(self, alpha: float) -> float:
        """Return the k-th largest calibration score at level `alpha`."""
        return kth_largest(self.calibration, conformal_rank(len(self.calibration), alpha))


def fit(
    scores: FloatArray,
    y: IntArray,
    *,
    alpha: float,
    split: Split,
    search: Search,
    rng: np.random.Generator,
    test: FloatArray | None = None,
    groups: IntArray | None = None,
    tune_alpha: float | None = None,
    threads: int | None = None,
) -> Fitted:
    """Return weights and threshold: Algorithm 2 of the paper.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of all labels of the labelled rows; higher fits better.
    y : integer array of shape (n,)
        True labels.
    alpha, tune_alpha : float
        Allowed miscoverage, and the level used while searching (by default the same).
    split, search
        Who may see what, and how weights are found.
    rng : Generator
        Where the split draws from.
    test : array of shape (m, K, d), optional
        Scores of the unlabelled test rows, for the transductive splits.
    groups : integer array of shape (n,), optional
        Rows of one group stay on one side of the split.
    threads : int or None
        Threads for the search.
    """
    n_test = check_test(split, test)
    roles = split.roles(len(y), n_test, rng, groups)  # who may see what
    tune, calibrate = roles.tune, roles.calibrate
    k = tuning_rank(len(tune), alpha if tune_alpha is None else tune_alpha)
    objective = SizeObjective(
        scores[tune, y[tune]], size_parts(scores, test, roles), k, threads=threads
    )
    found = search(objective, rng)  # the weights with the smallest sets
    fitted = calibrated(scores[calibrate, y[calibrate]], found.weights, alpha, split.guarantee)
    unseen = np.setdiff1d(calibrate, np.union1d(tune, roles.size))
    size = mean_size(scores[unseen], found.weights, fitted.threshold(alpha))
    return replace(fitted, search=found, held_out_size=size)


def calibrated(
    true_scores: FloatArray, weights: FloatArray, alpha: float, guarantee: Guarantee = EXACT
) -> Fitted:
    """Return the calibration of given weights on true-label scores (n, d)."""
    warn_if_trivial(len(true_scores), alpha)
    return Fitted(weights, np.sort(combine(true_scores, weights)), guarantee)


def predict(scores: FloatArray, weights: FloatArray, threshold: float) -> BoolArray:
    """Return the sets ``{y : <w, s(x, y)> >= threshold}``, boolean (n, K)."""
    mask = np.empty(scores.shape[:2], dtype=bool)
    for rows in row_blocks(*scores.shape[:2]):
        np.greater_equal(combine(scores[rows], weights), threshold, out=mask[rows])
    return mask


def mean_size(scores: FloatArray, weights: FloatArray, threshold: float) -> float | None:
    """Return the mean set size on the rows of `scores`, or None where there are none."""
    return float(predict(scores, weights, threshold).sum() / len(scores)) if len(scores) else None


def size_parts(scores: FloatArray, test: FloatArray | None, roles: Roles) -> list[FloatArray]:
    """Return the scores of the size rows, labelled and test rows apart (no copy where whole)."""
    n = len(scores)
    labelled, unlabelled = roles.size[roles.size < n], roles.size[roles.size >= n] - n
    parts = [_rows(scores, labelled)] if len(labelled) else []
    if test is not None and len(unlabelled):
        parts.append(_rows(test, unlabelled))
    return parts


def _rows(scores: FloatArray, rows: IntArray) -> FloatArray:
    return scores if len(rows) == len(scores) else scores[rows]


def check_test(split: Split, test: FloatArray | None) -> int:
    """Return the number of test rows that `split` will use."""
    if not split.needs_test:
        return 0
    if test is None:
        raise InvalidInput(
            f'split "{split.name}" counts sizes on the test rows; pass them: '
            "fit(outputs, y, test=test_outputs)."
        )
    if len(test) < SMALL_BATCH:
        warnings.warn(
            f'split "{split.name}" fits its weights to a test batch of only {len(test)} rows; '
            f'below {SMALL_BATCH} its coverage can fall well short, use "efcp" or "vfcp".',
            SmallBatchWarning,
            stacklevel=4,
        )
    return len(test)


def tuning_rank(n: int, alpha: float) -> int:
    """Return the rank used while searching, with a warning where it lets every label in."""
    k = conformal_rank(n, alpha)
    if k > n:
        warnings.warn(
            f"alpha={float(alpha):g} needs at least {rows_needed(alpha)} tuning rows for a finite "
            f"threshold; got {n}: all weights tie, and the uniform ones are taken.",
            TrivialSetsWarning,
            stacklevel=4,
        )
    return k
