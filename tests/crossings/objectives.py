"""What a search minimises, by brute force, and how the exact split chooses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossings.fits import RESOLUTION, candidates, finest, grid_weights, in_tie_order
from crossings.plain import Fit, combined, level, lifted, plain_rank

MOST = 250  # beyond it some of the candidates are tried


def listed(fit: Fit) -> np.ndarray:
    """All candidates in the order that breaks ties."""
    case = fit.case
    if case["search"] == "candidates":
        return in_tie_order(candidates(case.d))
    return grid_weights(case.d, RESOLUTION if case["search"] != "auto" else finest(case.d))


def size_rows(fit: Fit) -> np.ndarray:
    """Normalised scores of the rows whose sizes are counted."""
    parts = {
        "dlcp": [fit.scaled["test"]],
        "dlcp+": [fit.scaled["fit"], fit.scaled["test"]],
    }.get(fit.case["split"], [fit.scaled["fit"][fit.tune]])
    return np.concatenate(parts)


def cost(fit: Fit, weights: np.ndarray) -> tuple[int, float]:
    """The labels in the sets of the size rows, and the mean of what is minimised."""
    case = fit.case
    alpha = case["alpha"] if case["tune_alpha"] is None else case["tune_alpha"]
    tuning, y = fit.scaled["fit"][fit.tune], case.rows["fit"].y[fit.tune]
    own, counted = combined(tuning, weights), combined(size_rows(fit), weights)
    if not case["allow_empty"]:
        own, counted = lifted(own), lifted(counted)
    true = own[np.arange(len(y)), y]

    def rank(n: int) -> int:
        # Thresholds per class are searched with the rank of the sets, one threshold apart with k.
        plain = fit.apart and case["calibration"] != "class, tuned"
        return plain_rank(n, alpha) if plain else fit.rank(n, alpha)

    def cut(values: np.ndarray) -> float:
        k = rank(len(values))
        return -math.inf if k > len(values) else np.sort(values)[len(values) - k]

    if case["calibration"] == "class, tuned":
        cuts: Any = np.array([cut(true[y == label]) for label in range(case.n_classes)])
    else:
        cuts = cut(true)
    sizes = (counted >= cuts).sum(axis=1)
    labels, n = int(sizes.sum()), len(sizes)
    target = float(1 - level(alpha))
    covered = true >= cuts if np.ndim(cuts) == 0 else None
    match case["objective"]:
        case "singletons":
            return labels, float((sizes != 1).mean())
        case "capped":
            return labels, float(np.minimum(sizes, 2).mean())
        case "costs":
            each = np.array([1 + (label % 3) / 4 for label in range(case.n_classes)])
            return labels, float(((counted >= cuts) * each).sum() / n)
        case "class_gap":
            gaps = [abs(covered[y == label].mean() - target) for label in np.unique(y)]
            return labels, labels / n + 10 * float(np.mean(gaps))
        case "size_stratified":
            of_tuning = (own >= cuts).sum(axis=1)
            strata = np.array([sum(size > edge for edge in (1, 3, 10, 100)) for size in of_tuning])
            gaps = [abs(covered[strata == s].mean() - target) for s in np.unique(strata)]
            return labels, labels / n + 10 * float(max(gaps))
    return labels, labels / n


def tried(fit: Fit) -> np.ndarray:
    """The candidates to try by brute force: all, or some where that takes too long."""
    every = listed(fit)
    if len(every) <= MOST:
        return every
    return every[np.sort(np.random.default_rng(0).choice(len(every), MOST, replace=False))]


def chosen_labels(
    fit: Fit, scaled: np.ndarray, alpha: float, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The exact split: sets, and ranks of p-values, when every candidate label selects weights.

    For every label of a row the n calibration rows and the row with that label set the threshold,
    and the labels in the sets of all n + 1 are counted; the first of the fewest wins.
    """
    cal, y = fit.scaled["fit"][fit.calibrate], fit.case.rows["fit"].y[fit.calibrate]
    n, k = len(y), plain_rank(len(y), alpha)
    best = np.full(scaled.shape[:2], np.iinfo(np.int64).max)
    inside, ranks = np.zeros(scaled.shape[:2], dtype=bool), np.zeros(scaled.shape[:2], dtype=int)
    for w in weights:
        values, own = combined(cal, w), combined(scaled, w)
        every, true = np.sort(values.ravel()), np.sort(values[np.arange(n), y])
        if k > n:
            cuts = np.full(own.shape, -math.inf)
        else:
            low = true[n - k]
            high = true[n - k + 1] if k > 1 else math.inf
            cuts = np.clip(own, low, high)  # the k-th largest of n + 1
        counts = every.size - np.searchsorted(every, cuts, side="left")
        counts = counts + (own[:, None, :] >= cuts[:, :, None]).sum(axis=2)
        better = counts < best
        best[better] = counts[better]
        inside[better] = (own >= cuts)[better]
        ranks[better] = (1 + np.searchsorted(true, own, side="right"))[better]
    return inside, ranks
