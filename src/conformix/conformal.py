"""The conformal rank, the threshold, and p-values: integers decide, never float quantiles.

With ``n`` calibration rows a candidate label of score ``s`` has the integer rank
``r = 1 + #{s_i <= s}``, its p-value is ``r / (n+1)``, and it is in the set when ``p > alpha``: when
``r > floor(alpha (n+1))``, with alpha as an exact fraction. `last_rank_out` is that floor, and
whatever turns a level and a number of rows into a decision asks it, in one of two forms: compare
ranks (`ranks_in_set`), or take the **k-th largest** true-label score as a threshold,
``k = n + 1 - floor(alpha (n+1)) = ceil((n+1)(1-alpha))`` (`conformal_rank`). A label is then in
when its score is ``>=`` the threshold. For ``k = n+1`` the threshold is ``-inf``: all are in.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from conformix.data.checks import check_matrix
from conformix.errors import InvalidInput, LargeAlphaWarning, TrivialSetsWarning, shown, warn
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, as_float64, places, to_device

__all__ = [
    "confidence",
    "conformal_rank",
    "conformity_ranks",
    "credibility",
    "kth_largest",
    "last_rank_out",
    "ranks_in_set",
    "rows_needed",
    "simple_fraction",
    "smoothed_ranks",
    "threshold",
]

# A float such as 1 - 0.9 is meant as 1/10: the nearest fraction with a small denominator is
# taken when it is this close.
SNAP_DISTANCE = Fraction(1, 10**12)
SNAP_DENOMINATOR = 10**6
# Of so few rows, a product that is as far from a whole number has the floor of its exact value:
# neither rounding nor the nearest simple fraction moves it by half of that.
FEW_ROWS, CLEAR = 2**20, 1e-5


def simple_fraction(alpha: float, name: str = "alpha") -> Fraction:
    """Return `alpha` as the simple fraction that its float stands for.

    Parameters
    ----------
    alpha : float
        A number strictly between 0 and 1: a float, a NumPy number, a `Fraction` or a `Decimal`. A
        level is the double nearest to it, whichever way it comes in, so that it is the same in
        memory and in a file.
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
    real = isinstance(alpha, numbers.Real | Decimal) and not isinstance(alpha, bool)
    level = _double(alpha) if real else math.nan
    if not 0 < level < 1:
        raise InvalidInput(f"{name} must be a number strictly between 0 and 1; got {shown(alpha)}.")
    return _snapped(level)


def _double(number: Any) -> float:
    """Return the nearest double, NaN where a number has none."""
    if isinstance(number, np.float16 | np.float32):  # these stand for the decimal they print
        return float(str(number))
    try:
        return float(number)
    except (OverflowError, ValueError):
        return math.nan


@lru_cache(maxsize=1024)  # one level is asked for at every prediction
def _snapped(alpha: float) -> Fraction:
    exact = Fraction(alpha)
    simple = exact.limit_denominator(SNAP_DENOMINATOR)
    close = abs(simple - exact) <= SNAP_DISTANCE and simple not in (0, 1)
    return simple if close else exact


def last_rank_out(n: int, alpha: float) -> int:
    """Return ``floor(alpha (n+1))``: a label whose rank is no larger is not in the set.

    The one place where a level meets a number of rows: a product of Python integers.

    Parameters
    ----------
    n : int
        Number of calibration rows.
    alpha : float
        Allowed miscoverage, strictly between 0 and 1.

    Returns
    -------
    int
        Between 0 and n: at least as many ranks are out, and the largest, ``n + 1``, never is.

    Examples
    --------
    >>> last_rank_out(99, alpha=0.1), last_rank_out(8, alpha=0.1)
    (10, 0)
    """
    if type(alpha) is float and 0 < alpha < 1 and type(n) is int and 0 <= n < FEW_ROWS:
        product = (n + 1) * alpha
        whole = int(product)
        if CLEAR < product - whole < 1 - CLEAR:  # as every level of a stream is, a new one each row
            return whole
    level = simple_fraction(alpha)
    return (_row_count(n) + 1) * level.numerator // level.denominator


def ranks_in_set(ranks: IntArray, n: int, alpha: float) -> BoolArray:
    """Return which labels are in the set: those whose p-value ``rank / (n+1)`` exceeds alpha.

    Parameters
    ----------
    ranks : integer array of any shape
        ``1 + #{c_i <= s}`` of every label, see `conformity_ranks`.
    n : int
        Number of calibration rows.
    alpha : float
        Allowed miscoverage.

    Returns
    -------
    boolean array of the shape of `ranks`

    Examples
    --------
    >>> ranks_in_set(np.array([1, 10, 11]), 99, alpha=0.1)
    array([False, False,  True])
    """
    return ranks > last_rank_out(n, alpha)


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
    return _row_count(n) + 1 - last_rank_out(n, alpha)


def _row_count(n: int) -> int:
    try:
        rows = operator.index(n)
    except TypeError:
        rows = -1
    if rows < 0:
        raise InvalidInput(f"n must be a number of rows, an integer from 0 on; got {shown(n)}.")
    return rows


def rows_needed(alpha: float) -> int:
    """Return the smallest number of calibration rows with a finite threshold at `alpha`.

    Examples
    --------
    >>> rows_needed(0.1)
    9
    """
    return math.ceil(1 / simple_fraction(alpha)) - 1


def in_words(n: int) -> str:
    """Return a number of rows for a sentence: in full where it can be read."""
    return str(n) if n < 10**12 else f"{Decimal(n):.2E}"


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
    n: int,
    alpha: float,
    rank: Callable[[int, float], int] = conformal_rank,
    *,
    aside: int = 0,
    all_in: str = "every set holds all labels",
) -> None:
    """Warn when `n` calibration rows force every label into every set, beside rows set aside."""
    if rank(n, alpha) <= n:
        return
    if conformal_rank(n, alpha) <= n:
        warn(
            f"{n} calibration rows are too few for a PAC statement at alpha={float(alpha):g}: "
            f"{all_in} (conformix.guarantees.n_needed says how many would do).",
            TrivialSetsWarning,
        )
    else:
        needed = rows_needed(alpha)
        enough = aside and n + aside >= needed
        way_out = f'; split="exact" calibrates on all {n + aside} rows' if enough else ""
        warn(
            f"alpha={float(alpha):g} needs at least {in_words(needed)} calibration rows for a "
            f"finite threshold; got {n}, {in_words(needed - n)} too few: {all_in}{way_out}.",
            TrivialSetsWarning,
        )


def warn_if_large(alpha: float) -> None:
    """Warn of a level that is a coverage more likely than a share of misses."""
    level = simple_fraction(alpha)
    if level >= Fraction(1, 2):
        warn(
            f"alpha={float(level):g} is a coverage of {float(1 - level):.3g}: alpha is the share "
            "of misses, and 95 % coverage is alpha=0.05.",
            LargeAlphaWarning,
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
        Between 1 and ``n + 1``; `ranks_in_set` says which are in the set at a level.

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
    """Return the p-values times ``n + 1``: plain without `tau`, smoothed with it."""
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
    second = -2
    return 1 - np.partition(values, second, axis=1)[:, second]
