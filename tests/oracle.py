"""A brute-force oracle: the definitions, in loops over Python numbers.

Nothing here is shared with conformix, and nothing is clever. Ranks, counts and tie-breaks are exact
(integers and fractions). Weights meet scores in the one specified float arithmetic: the ordered
sum ``w[0]*s[0] + w[1]*s[1] + ...`` of Python floats.

A level is a `Fraction`: the oracle is told what an ugly float such as ``1 - 0.9`` stands for.
Scores are nested lists ``scores[row][label][j]``.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

Tensor = list[list[list[float]]]
Sets = list[list[bool]]


def thr(row: list[float]) -> list[float]:
    """The probability itself."""
    return [float(p) for p in row]


def aps(row: list[float]) -> list[float]:
    """Mass of the labels no likelier, summed exactly and rounded once."""
    masses = []
    for p in row:
        mass = Fraction(0)
        for q in row:
            if q <= p:
                mass += Fraction(q)
        masses.append(float(mass))
    return masses


def rank(row: list[float]) -> list[float]:
    """Share of the other labels that are less likely; zero for a single class."""
    shares = []
    for p in row:
        below = 0
        for q in row:
            if q < p:
                below += 1
        shares.append(float(Fraction(below, max(len(row) - 1, 1))))
    return shares


SCORES = {"thr": thr, "aps": aps, "rank": rank}


def tensor(models: list[list[list[float]]], names: tuple[str, ...]) -> Tensor:
    """Scores of every label of every row, model by model."""
    rows = len(models[0])
    out: Tensor = []
    for i in range(rows):
        columns = [SCORES[name](model[i]) for model in models for name in names]
        out.append([[column[y] for column in columns] for y in range(len(models[0][i]))])
    return out


def conformal_rank(n: int, alpha: Fraction) -> int:
    """The smallest integer that is at least ``(n+1)(1-alpha)``, found by counting up."""
    k = 1
    while k < (n + 1) * (1 - alpha):
        k += 1
    return k


def kth_largest(values: list[float], k: int) -> float:
    """The k-th largest, by sorting; ``-inf`` where there are fewer than k."""
    return -math.inf if k > len(values) else sorted(values, reverse=True)[k - 1]


def combine(scores: list[float], weights: tuple[float, ...]) -> float:
    """The ordered float sum."""
    total = weights[0] * scores[0]
    for w, s in zip(weights[1:], scores[1:], strict=True):
        total += w * s
    return total


def threshold(scores: Tensor, y: list[int], weights: tuple[float, ...], alpha: Fraction) -> float:
    """The k-th largest combined score of the true labels."""
    true = [combine(row[label], weights) for row, label in zip(scores, y, strict=True)]
    return kth_largest(true, conformal_rank(len(true), alpha))


def sets(scores: Tensor, weights: tuple[float, ...], t: float) -> Sets:
    """Every label whose combined score is at least the threshold."""
    return [[combine(label, weights) >= t for label in row] for row in scores]


def count(scores: Tensor, weights: tuple[float, ...], t: float) -> int:
    """Number of labels in all sets together."""
    return sum(sum(row) for row in sets(scores, weights, t))


def grid(d: int, resolution: int) -> list[tuple[int, ...]]:
    """All integer vectors that sum to the resolution, in lexicographic order."""
    return [g for g in itertools.product(range(resolution + 1), repeat=d) if sum(g) == resolution]


def counts(
    labelled: Tensor,
    y: list[int],
    size_rows: Tensor,
    candidates: list[tuple[float, ...]],
    alpha: Fraction,
) -> list[int]:
    """Labels in all sets of the size rows, for every candidate weight."""
    return [count(size_rows, w, threshold(labelled, y, w, alpha)) for w in candidates]


def winner(candidate_counts: list[int], vectors: list[tuple[float, ...]]) -> int:
    """Index of the smallest (count, sum of squares, vector), squares added exactly."""
    order = [
        (c, sum(Fraction(x) ** 2 for x in v), v)
        for c, v in zip(candidate_counts, vectors, strict=True)
    ]
    return order.index(min(order))


def grid_search(
    labelled: Tensor, y: list[int], size_rows: Tensor, resolution: int, alpha: Fraction
) -> tuple[tuple[float, ...], int]:
    """The winning grid weights and their count."""
    vectors = grid(len(labelled[0][0]), resolution)
    weights = [tuple(part / resolution for part in g) for g in vectors]
    all_counts = counts(labelled, y, size_rows, weights, alpha)
    best = winner(all_counts, vectors)
    return weights[best], all_counts[best]
