"""The terms of a blend added up, and its evidence, row by row: a row never leaves the cache."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.elementary import (
    AT_ONCE,
    _exp_of_differences,
    _largest,
    _log_into,
    _sum,
    log_of,
)
from conformix.kernels.host.ranks import tie_groups

# What a term is a function of, and what its numbers are: the coefficient and what is added to the
# probability; the coefficient; or the whole term by label, by the number of labels below, by rank.
LOG, LOG_PROB, PROB, LABEL, BELOW, RANK = range(6)


@compiled
def terms_into(
    probs: FloatArray,
    log_probs: FloatArray,
    order: IntArray,
    kinds: IntArray,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Add terms of `kinds` (t,) with `numbers` (t, K + 1) to `out` (n, K), in their order.

    `order` (n, K) are the places of the rising probabilities of every row; empty where no term asks
    for it.
    """
    n, n_classes = probs.shape
    below, rank = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    terms = np.empty(n_classes)
    room = np.empty((4, AT_ONCE))
    for i in range(n):
        row, total = probs[i], out[i]
        if order.size > 0:
            tie_groups(row, order[i], below, rank)
        for t in range(len(kinds)):
            kind, own = kinds[t], numbers[t]
            if kind >= BELOW:
                places = below if kind == BELOW else rank
                for k in range(n_classes):
                    total[order[i, k]] += own[places[k]]
            elif kind == LABEL:
                for k in range(n_classes):
                    total[k] += own[k]
            else:
                values = log_probs[i] if kind == LOG_PROB else row
                if kind == LOG:
                    for k in range(n_classes):
                        terms[k] = row[k] + own[1]
                    _log_into(terms, terms, room)
                    values = terms
                for k in range(n_classes):
                    total[k] += own[0] * values[k]


@compiled
def planes_into(
    planes: FloatArray, coefficients: FloatArray, first: int, last: int, out: FloatArray
) -> None:
    """Write some rows of planes (p, n, K), added up with coefficients (p,), to `out` (n, K).

    In the order of the planes, of which `out` may be one.
    """
    p, _, n_classes = planes.shape
    total = np.empty(n_classes)
    for i in range(first, last):
        for k in range(n_classes):
            total[k] = 0.0
        for j in range(p):
            own = coefficients[j]
            if own != 0.0:
                for k in range(n_classes):
                    total[k] += own * planes[j, i, k]
        for k in range(n_classes):
            out[i, k] = total[k]


@compiled
def evident_into(
    z: FloatArray,
    spread: FloatArray,
    numbers: tuple[float, float, float, float],
    cuts: tuple[float, float],
    out: FloatArray,
) -> None:
    """Write ``log softmax(z) + e`` of rows (n, K) to `out`, which may be the same array.

    The operations of `scores.evidence.Evidence.logits`, with its `numbers`; `cuts` are those of
    sums of as many numbers.
    """
    n, n_classes = z.shape
    of_spread, of_top, narrowest, widest = numbers
    room, powers = np.empty((3, AT_ONCE)), np.empty(n_classes)
    for i in range(n):
        row, own = z[i], out[i]
        top = _largest(row)
        _exp_of_differences(row, top, powers, room)
        total = top + log_of(_sum(powers, cuts[0], cuts[1], room))
        known = min(max(spread[i, 0], narrowest), widest)
        lift = of_spread * known + of_top * (top - total)
        for k in range(n_classes):
            own[k] = (row[k] - total) + lift
