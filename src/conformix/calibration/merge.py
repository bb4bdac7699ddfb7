"""Alternatives to averaging scores: merged p-values, and a vote of sets.

They need nothing but the p-values or the sets of several predictors, however dependent, and pay for
that in coverage or size. ``merge_guarantee`` says what holds. Rules for arbitrarily dependent
p-values: Vovk & Wang (2020); for exchangeable or independent ones there are sharper rules, and
Fisher's is refused unless independence is claimed, which predictors on the same calibration rows
never have. Votes: Cherubin (2019), Gasparin & Ramdas (2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformix.data.checks import check_numbers
from conformix.errors import InvalidInput
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import (
    FloatArray,
    RandomState,
    as_generator,
    host_array,
    refuse_masked,
)
from conformix.predictions.sets import PredictionSets
from conformix.registry import Registry
from conformix.search.grid import check_simplex

VOTES = ("half", "random", "uniform")


def harmonic_factor(n: int) -> float:
    """Return the factor of the harmonic mean of n dependent p-values: 2 for two, else ``e ln n``.

    Examples
    --------
    >>> harmonic_factor(2), round(harmonic_factor(10), 2)
    (2.0, 6.26)
    """
    return 2.0 if n <= 2 else math.e * math.log(n)


def _middle(pvalues: FloatArray) -> FloatArray:
    """Return the k-th smallest times M / k with k = ceil(M / 2) (Rueger's rule)."""
    m = len(pvalues)
    k = math.ceil(m / 2)
    return np.partition(pvalues, k - 1, axis=0)[k - 1] * (m / k)


def _fisher(pvalues: FloatArray) -> FloatArray:
    from scipy.special import gammaincc  # noqa: PLC0415  scipy loads late

    # Survival function of chi-square with 2M degrees of freedom at -2 sum log p.
    return gammaincc(len(pvalues), -np.log(pvalues).sum(axis=0))


MERGES: Registry[Callable[[FloatArray], FloatArray]] = Registry(
    "merge",
    {
        "mean": lambda p: 2 * p.mean(axis=0),
        "geometric": lambda p: math.e * np.exp(np.log(p).mean(axis=0)),
        "harmonic": lambda p: harmonic_factor(len(p)) / (1 / p).mean(axis=0),
        "bonferroni": lambda p: len(p) * p.min(axis=0),
        "median": _middle,
        "max": lambda p: p.max(axis=0),
        "fisher": _fisher,
    },
)


def merge_pvalues(pvalues: Any, method: str = "mean", *, independent: bool = False) -> FloatArray:
    """Return one p-value per label from those of several predictors.

    Parameters
    ----------
    pvalues : array of shape (M, n, K), or a sequence of M arrays (n, K)
        Valid p-values, as `ScoreAverage.predict_pvalues` gives them where its guarantee is exact
        (those of `CrossAverage` are valid only when doubled).
    method : {"mean", "geometric", "harmonic", "bonferroni", "median", "max", "fisher"}
        Twice the mean; e times the geometric mean; a multiple of the harmonic mean (e ln M for
        M > 2, see `harmonic_factor`); M times the smallest; the median times ``M / ceil(M/2)``;
        the largest; Fisher's product, for independent p-values only.
    independent : bool
        Claims that the p-values are independent given the label, which ``fisher`` needs.

    Returns
    -------
    array of shape (n, K)
        At most 1. ``merged > alpha`` is a set with coverage at least ``1 - alpha``.

    Examples
    --------
    >>> merge_pvalues([[[0.5, 0.02]], [[0.3, 0.04]]], "mean")
    array([[0.8 , 0.06]])
    >>> merge_pvalues([[[0.5, 0.02]], [[0.3, 0.04]]], "fisher")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: merge "fisher" holds for independent p-values only, and \
    predictors on the same rows are not; take "mean" or "geometric", or claim independent=True.
    """
    stacked = check_numbers(pvalues, "pvalues")
    if stacked.ndim != 3 or not len(stacked):
        raise InvalidInput(f"pvalues must have shape (M, n, K); got {stacked.shape}.")
    if not ((stacked >= 0) & (stacked <= 1)).all():
        raise InvalidInput("pvalues must lie in [0, 1].")
    rule = MERGES[method]
    if method == "fisher" and not independent:
        raise InvalidInput(
            'merge "fisher" holds for independent p-values only, and predictors on the same rows '
            'are not; take "mean" or "geometric", or claim independent=True.'
        )
    if len(stacked) == 1:
        return stacked[0].copy()
    with np.errstate(divide="ignore"):  # a p-value of 0 makes the means 0, as it should
        return np.minimum(rule(stacked), 1.0)


def merge_sets(
    sets: Sequence[Any],
    rule: str = "half",
    *,
    weights: Any = None,
    random_state: RandomState = None,
) -> PredictionSets:
    """Return the labels that enough of several sets hold.

    Parameters
    ----------
    sets : sequence of M `PredictionSets` or boolean arrays (n, K)
        Sets that each miss the truth with probability at most alpha.
    rule : {"half", "random", "uniform"}
        A label is in when its share of votes exceeds 1/2; ``(1 + u)/2``; or ``u``, with one
        uniform number u per row. ``half`` and ``random`` promise ``1 - 2 alpha`` (and ``random``
        sets are never larger); ``uniform`` promises ``1 - alpha``.
    weights : sequence of length M, optional
        Votes, not negative and summing to 1, fixed beforehand; by default all the same.
    random_state : int, Generator or None
        Draws u.

    Examples
    --------
    >>> one, two = np.array([[True, False, True]]), np.array([[True, True, False]])
    >>> merge_sets([one, two, one]).labels(0)
    [0, 2]
    """
    refuse_masked(sets, "sets")
    several = np.iterable(sets) and not isinstance(sets, memoryview)
    masks = [host_array(part, "sets") for part in sets] if several else []
    if not masks or any(m.ndim != 2 or m.dtype != bool or m.shape != masks[0].shape for m in masks):
        raise InvalidInput("sets must be boolean arrays of one shape (n, K), at least one of them.")
    if rule not in VOTES:
        Registry("vote", dict.fromkeys(VOTES))[rule]
    if weights is not None:
        share = check_simplex(weights, len(masks))
        votes = np.sum([w * mask for w, mask in zip(share, masks, strict=True)], axis=0)
    else:
        votes = np.sum(masks, axis=0, dtype=np.int64) / len(masks)
    level: Any = 0.5
    if rule != "half":
        u = as_generator(random_state).random(len(masks[0]))[:, None]
        level = (1 + u) / 2 if rule == "random" else u
    return PredictionSets(votes > level, getattr(sets[0], "classes", None))


def merge_guarantee(method: str) -> Guarantee:
    """Return what holds for merged p-values or a vote of sets.

    Examples
    --------
    >>> print(merge_guarantee("half"))
    exact: P(y in set) >= 1 - 2 alpha (each of the sets misses with probability <= alpha)
    """
    if method in VOTES:
        bound = "1 - alpha" if method == "uniform" else "1 - 2 alpha"
        needs = "each of the sets misses with probability <= alpha"
        needs += "" if method == "half" else "; u drawn apart from them"
        return Guarantee("exact", f"P(y in set) >= {bound}", needs)
    MERGES[method]
    needs = "independent" if method == "fisher" else "arbitrarily dependent"
    return Guarantee("exact", "P(y in set) >= 1 - alpha", f"valid, {needs} p-values")


__all__ = [
    "MERGES",
    "VOTES",
    "harmonic_factor",
    "merge_guarantee",
    "merge_pvalues",
    "merge_sets",
]
