"""What a search minimises, by brute force, and how the exact split chooses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from crossings.fits import RESOLUTION, candidates, finest, grid_weights, in_tie_order
from crossings.plain import Calibrated, Fit, combined, level, lifted, plain_rank

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


def chosen(fit: Fit, scaled: np.ndarray, alpha: float, weights: np.ndarray) -> np.ndarray:
    """The exact split: which weights every label of some rows selects.

    For every label of a row the n calibration rows and the row with that label set the threshold,
    and the labels in the sets of all n + 1 are counted; the first of the fewest wins.
    """
    cal, y = fit.scaled["fit"][fit.calibrate], fit.case.rows["fit"].y[fit.calibrate]
    best = np.full(scaled.shape[:2], np.iinfo(np.int64).max)
    found = np.zeros(scaled.shape[:2], dtype=int)
    count = by_class if fit.case["calibration"] == "class, tuned" else of_one_threshold
    for i, w in enumerate(weights):
        counts = count(combined(cal, w), y, combined(scaled, w), alpha)
        better = counts < best
        best[better] = counts[better]
        found[better] = i
    return found


def moved(true: np.ndarray, own: np.ndarray, alpha: float) -> np.ndarray:
    """The k-th largest of n scores and one more; below all of them where k exceeds n."""
    n, k = len(true), plain_rank(len(true), alpha)
    if k > n:
        return np.full(own.shape, -math.inf)
    rising = np.sort(true)
    return np.clip(own, rising[n - k], rising[n - k + 1] if k > 1 else math.inf)


def of_one_threshold(values: np.ndarray, y: np.ndarray, own: np.ndarray, alpha: float) -> Any:
    """Labels in the sets of the n rows and of the candidate's, of every label of every row."""
    cuts = moved(values[np.arange(len(y)), y], own, alpha)
    every = np.sort(values.ravel())
    counts = every.size - np.searchsorted(every, cuts, side="left")
    return counts + (own[:, None, :] >= cuts[:, :, None]).sum(axis=2)


def by_class(values: np.ndarray, y: np.ndarray, own: np.ndarray, alpha: float) -> Any:
    """The same with a threshold per class, of which the candidate moves its own."""
    true, n_classes = values[np.arange(len(y)), y], own.shape[1]
    settled = np.zeros((len(own), n_classes), dtype=int)
    with_candidate = np.zeros((len(own), n_classes), dtype=int)
    for label in range(n_classes):
        of_class = np.sort(true[y == label])
        k = plain_rank(len(of_class), alpha)
        cut = -math.inf if k > len(of_class) else of_class[len(of_class) - k]
        settled[:, label] = (values[:, label] >= cut).sum() + (own[:, label] >= cut)
        cuts = moved(of_class, own[:, label], alpha)
        rows = (values[None, :, label] >= cuts[:, None]).sum(axis=1)
        with_candidate[:, label] = rows + (own[:, label] >= cuts)
    return settled.sum(axis=1, keepdims=True) - settled + with_candidate


class Selected:
    """The calibration of every label under the weights that it selects."""

    def __init__(self, fit: Fit, name: str, alpha: float, weights: np.ndarray) -> None:
        self.fit, self.rows, self.alpha = fit, fit.case.rows[name], alpha
        self.chosen = chosen(fit, fit.scaled[name], alpha, weights)
        cal, rows = fit.scaled["fit"][fit.calibrate], fit.case.rows["fit"].take(fit.calibrate)
        used = np.unique(self.chosen).tolist()
        self.under = {i: Calibrated(fit, rows, combined(cal, weights[i])) for i in used}
        self.own = {i: combined(fit.scaled[name], weights[i]) for i in used}

    def each(self, ask: str, *more: Any) -> np.ndarray:
        """What the calibration under its weights says of every label."""
        return np.array([
            [getattr(self.under[i], ask)(self.own[i][row, y], row, y, self.rows, *more)
             for y, i in enumerate(labels)]
            for row, labels in enumerate(self.chosen.tolist())
        ])  # fmt: skip

    def pvalues(self) -> np.ndarray:
        """The p-values, as fractions: the largest of a row are 1 where no set may be empty."""
        found = self.each("pvalue")
        if self.fit.case["allow_empty"]:
            return found
        return np.array([[1 if p == max(row) else p for p in row] for row in found.tolist()])

    def sets(self) -> np.ndarray:
        """The sets: in place of an empty one the labels with the largest p-value of the row."""
        inside = self.each("contains", self.alpha)
        if self.fit.case["allow_empty"]:
            return inside
        best = self.pvalues() == 1
        return np.where(inside.any(axis=1, keepdims=True), inside, best)
