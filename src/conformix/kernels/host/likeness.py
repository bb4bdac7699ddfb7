"""Prototypes of labels, and how like rows are to prototypes that lack the row itself.

What `conformix.scores.learnt.Likeness` does, as parts of two loops that threads share: the
operations there, in the same order where that counts. Sums of products are whole numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import Parts, rooms
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, regrouped
from conformix.kernels.host.products import (
    LANES,
    TILE,
    _dots,
    add_products,
    are_quick,
    patterns_in_units,
    width_of,
)

__all__ = ["add_up", "adding", "are_quick", "leave_out", "room_for", "rows_of_part", "score"]

# A probability is a whole number of 2^-20, which two numbers of 16 bits hold: of the lower bits, so
# many, and of those above.
LOWER = 10
# Rows whose products add up in 32 bits: those of 2^10 with 2^12.
MOST_ROWS = 480
# Rows that are multiplied at once: a few labels after the other read them in the cache.
ROWS_AT_ONCE = 256


def rows_of_part(n: int, threads: int) -> int:
    """Return how many of n rows are added up at once, whole vectors, as often by every thread.

    Examples
    --------
    >>> rows_of_part(960, threads=1), rows_of_part(960, threads=3)
    (480, 320)
    """
    turns = -(-n // (MOST_ROWS * threads))
    return -(-n // (LANES * threads * turns)) * LANES


class Adding(NamedTuple):
    """Sums over rows of probabilities times patterns."""

    probs: FloatArray  # (n, K)
    patterns: Any  # (n, K) float32
    units: tuple[float, float]  # in one: of a probability, and of a pattern
    shift: float  # what rounds a probability to its units
    products: IntArray  # (workers, K, K), zeros before: of labels, and columns of patterns
    columns: Any  # (workers, 3 K, rows of a part) int16: room
    sums: Any  # (workers, 2, 16) int32: room


def adding(
    probs: FloatArray, patterns: Any, units: tuple[float, float], shift: float, parts: Parts
) -> Adding:
    """Return what `add_up` is given for some rows, with room for as many workers as threads."""
    workers, n_classes = parts.threads, probs.shape[1]
    products = rooms(workers, n_classes, n_classes, dtype=np.int64)
    products[:] = 0
    columns = rooms(workers, 3 * n_classes, parts.step, dtype=np.int16)
    sums = rooms(workers, 2, TILE**2, dtype=np.int32)
    return Adding(probs, patterns, units, shift, products, columns, sums)


@compiled
def add_up(board: IntArray, helpers: int, n: int, task: Adding, part: int, worker: int) -> int:
    """Add the products of the rows of a part to the sums of a worker."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    probs, patterns, units, shift, all_products, all_columns, all_sums = task
    n_classes, step = probs.shape[1], all_columns.shape[2]
    upper, lower = all_columns[worker, :n_classes], all_columns[worker, n_classes : 2 * n_classes]
    others = all_columns[worker, 2 * n_classes : 3 * n_classes]
    products, above, below = all_products[worker], all_sums[worker, 0], all_sums[worker, 1]
    start, last = part * step, n_classes - 1
    some = min(step, len(probs) - start)
    for r in range(some):
        for k in range(n_classes):
            whole = np.int64(((probs[start + r, k] + shift) - shift) * units[0])
            upper[k, r], lower[k, r] = whole >> LOWER, whole & ((1 << LOWER) - 1)
        for k in range(n_classes):
            others[k, r] = np.int16(np.float64(patterns[start + r, k]) * units[1])
    for k in range(n_classes):
        for r in range(some, step):
            upper[k, r] = lower[k, r] = others[k, r] = 0
    for i in range(0, n_classes, TILE):
        # Where fewer than four are left the last one comes again, and is not added.
        own = i, min(i + 1, last), min(i + 2, last), min(i + 3, last)
        for j in range(0, n_classes, TILE):
            there = j, min(j + 1, last), min(j + 2, last), min(j + 3, last)
            _dots(upper, own, others, there, above)
            _dots(lower, own, others, there, below)
            for a in range(min(TILE, n_classes - i)):
                for b in range(min(TILE, n_classes - j)):
                    total = (np.int64(above[TILE * a + b]) << LOWER) + below[TILE * a + b]
                    products[i + a, j + b] += total
    return 0


@regrouped
def _square(pattern: Any) -> float:
    """Return the sum of the squares of a pattern, which has no rounding in any order."""
    total = 0.0
    for k in range(pattern.size):
        total += np.float64(pattern[k]) * np.float64(pattern[k])
    return total


@compiled
def leave_out(
    scores: FloatArray,
    patterns: Any,
    probs: FloatArray,
    norms: FloatArray,
    cancelled: float,
    width: float,
) -> None:
    """Turn products (n, K) with prototypes into scores by prototypes that lack the row itself.

    The operations of `scores.learnt.Likeness`.
    """
    n, n_classes = scores.shape
    for i in range(n):
        row, f, p = scores[i], patterns[i], probs[i]
        length = _square(f)
        for k in range(n_classes):
            along = norms[k] * row[k]
            square = (norms[k] * norms[k] - 2.0 * p[k] * along) + p[k] * p[k] * length
            there = square > cancelled * norms[k] * norms[k]
            norm = math.sqrt(square if there else 1.0)
            row[k] = width * ((along - p[k] * length) / norm) if there else 0.0


class Leaving(NamedTuple):
    """Rows, prototypes, and where the scores go."""

    patterns: Any  # (n, K) float32
    unit: float  # they are whole multiples of it
    probs: FloatArray  # (n, K)
    norms: FloatArray  # (K,) of prototypes before they were scaled
    pieces: Any  # two matrices (K, width) int16 of prototypes
    units: tuple[float, float]  # of the products with them
    cancelled: float  # a squared norm relative to another, below which nothing is left of it
    width: float  # what scores are multiplied by
    scores: FloatArray  # (n, K)
    whole: Any  # (workers, rows of a part, width) int16: room
    step: int  # rows of a part


def room_for(workers: int, n_classes: int, step: int) -> Any:
    """Return room for so many workers, and so many rows each."""
    return rooms(workers, step, width_of(n_classes), dtype=np.int16)


@compiled
def score(board: IntArray, helpers: int, n: int, task: Leaving, part: int, worker: int) -> int:
    """Score the rows of a part, each by prototypes that lack it."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    (
        patterns, unit, all_probs, norms, pieces, units, cancelled, width, all_scores, room, step,
    ) = task  # fmt: skip
    first, last = part * step, min((part + 1) * step, len(all_probs))
    scores, probs, own = all_scores[first:last], all_probs[first:last], patterns[first:last]
    whole = room[worker, : last - first]
    patterns_in_units(own, unit, whole)
    for i in range(len(scores)):
        for k in range(scores.shape[1]):
            scores[i, k] = 0.0
    add_products(whole, pieces[0], units[0], False, scores)
    add_products(whole, pieces[1], units[1], False, scores)
    leave_out(scores, own, probs, norms, cancelled, width)
    return 0
