"""Labels that are in a set, or in none, whatever the weights.

Let n true-label score vectors v be given, t(w) the k-th largest of ``<w, v>``, and w not negative,
nor all zero. If at least k of the v lie above s in every component, then ``<w, s> < t(w)`` for all
w: s is out of reach. So take the m-th smallest ``v_j`` of every score j, with the largest m for
which k of the v reach all of these numbers: labels below them are out. "Above" leaves a margin that
is larger than what rounding can do. If n - k + 1 of the v are no larger than s in any component,
then ``<w, s> >= t(w)`` for all w, and s is in: products with weights that are not negative, and
sums, rise with their terms in floats too, so that no margin is needed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, as_float64

# How far above a label true-label scores must lie to count as above it, relative to the largest of
# them: thousands of times what rounding does to a sum of such numbers. Of a label that scores much
# lower still, rounding makes more, but a far smaller part of the distance.
MARGIN, TINY = 1e-12, 1e-300


def reach(true_scores: FloatArray, k: int) -> list[float]:
    """Return numbers (d,), one per score, up to which labels are out of reach.

    A label is, under all weights that are not negative, where none of its scores is larger than its
    number: the threshold is the k-th largest combination of `true_scores` (n, d).

    Examples
    --------
    >>> reach(np.array([[0.0, 3.0], [1.0, 5.0], [2.0, 4.0]]), k=2)  # two of three reach 1 and 4
    [0.999999999995, 3.999999999995]
    """
    largest = float(np.abs(true_scores).max())
    return (_reached_by(true_scores, k) - (MARGIN * largest + TINY)).tolist()  # type: ignore[no-any-return]


def surely_in(true_scores: FloatArray, k: int) -> list[float]:
    """Return numbers (d,), one per score, from which on labels reach the threshold.

    A label does, under all weights that are not negative, where none of its scores is smaller than
    its number: the threshold is the k-th largest combination of `true_scores` (n, d).

    Examples
    --------
    >>> surely_in(np.array([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]), k=2)  # two are up to 1 and 4
    [1.0, 4.0]
    """
    n = len(true_scores)
    return (-_reached_by(-true_scores, n - k + 1)).tolist()  # type: ignore[no-any-return]


def one_above(scores: Any, numbers: Sequence[float]) -> Any:
    """Return which labels (...) have one of their scores (..., d) above its number.

    Numbers are not rounded to fewer bits than they have beside scores of single precision.

    Examples
    --------
    >>> one_above(np.array([[1.0, 4.0], [1.0, 5.0]]), [2.0, 4.0])
    array([False,  True])
    """
    above = as_float64(scores[..., 0]) > numbers[0]
    for j in range(1, scores.shape[-1]):
        above |= as_float64(scores[..., j]) > numbers[j]
    return above


def _reached_by(vectors: FloatArray, k: int) -> FloatArray:
    """Return high numbers (d,) that k of n vectors (n, d) reach in all components, or ``-inf``."""
    n, d = vectors.shape
    if k > n:
        return np.full(d, -np.inf)
    columns = np.ascontiguousarray(vectors.T)
    rising = np.sort(columns, axis=1)
    # At least m numbers are no larger than a score where it reaches the m-th smallest of them:
    # all scores do where m is one, and fewer the larger m is.
    m, beyond = 1, n + 1
    while beyond - m > 1:
        middle = (m + beyond) // 2
        reached = (columns >= rising[:, middle - 1, None]).all(axis=0)
        m, beyond = (middle, beyond) if np.count_nonzero(reached) >= k else (m, middle)
    return rising[:, m - 1]
