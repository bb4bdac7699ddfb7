"""The conformal rank, the threshold, and p-values: integers decide, never float quantiles.

With ``n`` calibration rows the rank is ``k = ceil((n+1)(1-alpha))`` and the threshold is the
**k-th largest** true-label score, ``sup{t : #{s_i >= t} >= k}``. A label is in the set when its
score is ``>=`` the threshold. For ``k = n+1`` the threshold is ``-inf``: every label is in.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from conformix.arrays import FloatArray, IntArray, as_float64, places, to_device
from conformix.errors import InvalidInput, TrivialSetsWarning, warn
from conformix.values import check_matrix

# A float such as 1 - 0.9 is meant as 1/10: the nearest fraction with a small denominator is
# taken when it is this close.
SNAP_DISTANCE = Fraction(1, 10**12)
SNAP_DENOMINATOR = 10**6


def simple_fraction(alpha: float, name: str = "alpha") -> Fraction:
    """Return `alpha` as the simple fraction that its float stands for.

    Parameters
    ----------
    alpha : float
        A number strictly between 0 and 1.
    name : str
        What to call it in an error.

    Returns
    -------
    Fraction
        The nearest fraction with denominator at most 10**6 when it is within 1e-12 of `alpha`,
        else the exact value of the float.

    Examples
    --------
    >>> simple_fraction(1 - 0.9)
    Fraction(1, 10)
    """
    if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real) or not 0 < alpha < 1:
        raise InvalidInput(f"{name} must be a number strictly between 0 and 1; got {alpha!r}.")
    if isinstance(alpha, np.floating) and alpha.dtype != np.float64:
        alpha = float(str(alpha))  # half and single precision stand for the decimal they print
    return _snapped(alpha if isinstance(alpha, Fraction) else float(alpha))


@lru_cache(maxsize=1024)  # one level is asked for at every prediction
def _snapped(alpha: Fraction | float) -> Fraction:
    exact = Fraction(alpha)
    simple = exact.limit_denominator(SNAP_DENOMINATOR)
    close = abs(simple - exact) <= SNAP_DISTANCE and 0 < simple < 1
    return simple if close else exact


def conformal_rank(n: int, alpha: float) -> int:
    """Return k such that the k-th largest of n true-label scores covers with P >= 1 - alpha.

    ``k = ceil((n+1)(1-alpha)) = n + 1 - floor((n+1) alpha)``, in exact arithmetic.

    Parameters
    ----------
    n : int
        Number of calibration rows.
    alpha : float
        Allowed miscoverage, strictly between 0 and 1.

    Returns
    -------
    int
        Between 1 and ``n + 1``; ``n + 1`` means that the threshold is ``-inf``.

    Examples
    --------
    >>> conformal_rank(99, alpha=0.1)
    90
    >>> conformal_rank(8, alpha=0.1)  # 8 rows are too few: every label must be in
    9
    """
    rows = _row_count(n)
    return rows + 1 - math.floor((rows + 1) * simple_fraction(alpha))


def _row_count(n: int) -> int:
    try:
        rows = operator.index(n)
    except TypeError:
        rows = -1
    if rows < 0:
        raise InvalidInput(f"n must be a number of rows, an integer from 0 on; got {n!r}.")
    return rows


def rows_needed(alpha: float) -> int:
    """Return the smallest number of calibration rows with a finite threshold at `alpha`.

    Examples
    --------
    >>> rows_needed(0.1)
    9
    """
    return math.ceil(1 / simple_fraction(alpha)) - 1


def kth_largest(values: FloatArray, k: int) -> float:
    """Return the k-th largest of `values`; ``-inf`` for ``k = len(values) + 1``.

    Examples
    --------
    >>> kth_largest(np.array([0.2, 0.9, 0.4]), 2)
    0.4
    """
    n = len(values)
    if k > n:
        return -math.inf
    return float(np.partition(values, n - k)[n - k])


def warn_if_trivial(
    n: int, alpha: float, rank: Callable[[int, float], int] = conformal_rank
) -> None:
    """Warn when `n` calibration rows force every label into every set."""
    if rank(n, alpha) <= n:
        return
    if conformal_rank(n, alpha) <= n:
        warn(
            f"{n} calibration rows are too few for a PAC statement at alpha={float(alpha):g}: "
            "every set holds all labels (conformix.guarantees.n_needed says how many would do).",
            TrivialSetsWarning,
        )
    else:
        warn(
            f"alpha={float(alpha):g} needs at least {rows_needed(alpha)} calibration rows for a "
            f"finite threshold; got {n}: every set holds all labels.",
            TrivialSetsWarning,
        )


def threshold(true_scores: FloatArray, alpha: float) -> float:
    """Return the threshold: the k-th largest true-label score.

    Parameters
    ----------
    true_scores : array of shape (n,)
        Combined scores of the true labels of the calibration rows; higher fits better.
    alpha : float
        Allowed miscoverage.

    Returns
    -------
    float
        ``-inf``, with a `TrivialSetsWarning`, when ``n`` is too small for `alpha`.

    Examples
    --------
    >>> threshold(np.array([0.1, 0.4, 0.6, 0.8, 0.9]), alpha=0.4)
    0.4
    """
    if np.ndim(true_scores) != 1 or not np.isfinite(true_scores).all():
        raise InvalidInput("true_scores must be finite scores of shape (n,).")
    warn_if_trivial(len(true_scores), alpha)
    return kth_largest(true_scores, conformal_rank(len(true_scores), alpha))


def conformity_ranks(calibration: FloatArray, scores: FloatArray) -> IntArray:
    """Return ``1 + #{c_i <= s}`` for every score: the p-value times ``n + 1``, as an integer.

    Parameters
    ----------
    calibration : array of shape (n,)
        Combined true-label scores, **sorted upwards**.
    scores : array of any shape
        Combined scores of candidate labels.

    Returns
    -------
    integer array of the shape of `scores`
        Between 1 and ``n + 1``. A label is in the set at level alpha exactly when its rank
        exceeds ``(n+1) alpha``.

    Examples
    --------
    >>> conformity_ranks(np.array([0.1, 0.4, 0.4]), np.array([0.0, 0.4]))
    array([1, 4])
    """
    return places(calibration, scores, "right") + 1  # type: ignore[no-any-return]


def smoothed_ranks(calibration: FloatArray, scores: FloatArray, tau: FloatArray) -> FloatArray:
    """Return ``#{c_i < s} + tau (#{c_i = s} + 1)``: the smoothed p-value times ``n + 1``.

    Parameters
    ----------
    calibration : array of shape (n,)
        Combined true-label scores, sorted upwards.
    scores : array of shape (m, K)
        Combined scores of candidate labels.
    tau : array of shape (m, 1)
        One number per row. Where it is uniform and independent of the scores, and rows are
        exchangeable, the p-value of a true label is uniform.

    Examples
    --------
    >>> smoothed_ranks(np.array([0.1, 0.4, 0.4]), np.array([[0.4]]), np.array([[0.5]]))
    array([[2.5]])
    """
    below = places(calibration, scores, "left")
    up_to = places(calibration, scores, "right")
    tau = to_device(tau, scores)
    return as_float64(below) + tau * as_float64(up_to - below + 1)  # type: ignore[no-any-return]


def pvalue_ranks(
    calibration: FloatArray, scores: FloatArray, tau: FloatArray | None = None
) -> FloatArray:
    """Return the p-values times ``n + 1``: plain without `tau`, smoothed with it.

    Examples
    --------
    >>> pvalue_ranks(np.array([0.1, 0.4]), np.array([0.2]))
    array([2.])
    """
    if tau is None:
        return as_float64(conformity_ranks(calibration, scores))  # type: ignore[no-any-return]
    return smoothed_ranks(calibration, scores, tau)


def credibility(pvalues: FloatArray) -> FloatArray:
    """Return the largest p-value of every row, shape (n,): how typical its best label is.

    Examples
    --------
    >>> credibility(np.array([[0.7, 0.2, 0.1]]))
    array([0.7])
    """
    return check_matrix(pvalues, "pvalues").max(axis=1)


def confidence(pvalues: FloatArray) -> FloatArray:
    """Return one minus the second largest p-value of every row, shape (n,).

    It is the largest level ``1 - alpha`` at which the set holds no second label.

    Examples
    --------
    >>> confidence(np.array([[0.7, 0.2, 0.1]]))
    array([0.8])
    """
    values = check_matrix(pvalues, "pvalues")
    if values.shape[1] == 1:
        return np.ones(len(values))
    return 1 - np.partition(values, -2, axis=1)[:, -2]
