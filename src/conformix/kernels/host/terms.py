"""The terms of a blend added up row by row: a row never leaves the cache."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.elementary import AT_ONCE, _log_into
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
