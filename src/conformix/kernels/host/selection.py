"""Compiled selection for the exact split: every candidate label re-selects the weights.

For a test row and a candidate label with combined score s, the k-th largest of the n + 1 scores is
``T = clip(s, c_k, c_{k-1})``. The weights are those with the fewest labels at T over the n rows and
the test row; the label is in when ``s >= c_k`` under them.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.counting import combine_row

UNKNOWN = np.iinfo(np.int64).max


@compiled
def gap_sizes(
    planes: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray, sizes: IntArray
) -> None:
    """Add to ``sizes[i]`` the pairs of a block with ``low[i] <= score < high[i]``."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            for e in range(n_classes):
                sizes[i] += low[i] <= combined[e] < high[i]


@compiled
def fill_gaps(
    planes: FloatArray,
    weights: FloatArray,
    low: FloatArray,
    high: FloatArray,
    places: IntArray,
    values: FloatArray,
) -> None:
    """Write the scores of those pairs to ``values``, from ``places[i]`` on, and move the places."""
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for i in range(weights.shape[0]):
        for r in range(rows):
            combine_row(planes, weights[i], r, combined)
            for e in range(n_classes):
                if low[i] <= combined[e] < high[i]:
                    values[places[i]] = combined[e]
                    places[i] += 1


@compiled
def select_weights(
    planes: FloatArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    order: IntArray,
    starts: IntArray,
    stops: IntArray,
    gaps: FloatArray,
    chosen: IntArray,
    wanted: BoolArray,
) -> None:
    """Write to ``chosen[r, y]`` the index of the weights selected for row r and label y.

    A label between the two cuts of some weights needs their gap, unless they cannot win anyway.
    Where the gap is not known yet, the weights are marked in `wanted` and ``chosen[r, 0] = -1``:
    the row has to be asked again. Weights (p, d) come by rising ``counts[:, 0]``; ``cuts[i]`` are
    ``c_{k-1}`` and ``c_k``, ``counts[i]`` the labels of the n rows at these, ``order[i]`` the place
    among ties; the scores between the cuts, rising, are ``gaps[starts[i] : stops[i]]``, with
    ``starts[i] < 0`` where they are not known.
    """
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    best = np.empty(n_classes, dtype=np.int64)
    for r in range(rows):
        best[:] = UNKNOWN
        complete = True
        for i in range(weights.shape[0]):
            # No label can have fewer than counts[i, 0] under these weights or later ones.
            worst = best[0]
            for y in range(1, n_classes):
                worst = max(worst, best[y])
            if counts[i, 0] > worst:
                break
            combine_row(planes, weights[i], r, combined)
            high, low = cuts[i, 0], cuts[i, 1]
            n_high, n_low = 0, 0
            for e in range(n_classes):
                n_high += combined[e] >= high
                n_low += combined[e] >= low
            at_high, at_low = counts[i, 0] + n_high, counts[i, 1] + n_low
            for y in range(n_classes):
                s = combined[y]
                if s < low:
                    total = at_low
                elif s >= high:
                    total = at_high
                else:
                    total = _between(combined, s, counts[i, 0], best[y], gaps, starts[i], stops[i])
                if total < 0:
                    wanted[i] = True
                    complete = False
                elif total < best[y] or (total == best[y] and order[i] < order[chosen[r, y]]):
                    best[y] = total
                    chosen[r, y] = i
        if not complete:
            chosen[r, 0] = -1


@inlined
def _between(
    combined: FloatArray, s: float, at_high: int, best: int, gaps: FloatArray, start: int, stop: int
) -> int:
    """Return the labels at a threshold s between the cuts; -1 where the gap has to be known.

    It need not be known where the labels above the gap are too many already.
    """
    total = at_high
    for e in range(combined.shape[0]):
        total += combined[e] >= s
    if total > best:
        return total
    if start < 0:
        return -1
    low, high = start, stop  # the first place of the gap that is not below s
    while low < high:
        middle = (low + high) >> 1
        if gaps[middle] < s:
            low = middle + 1
        else:
            high = middle
    return total + stop - low


@compiled
def leave_out(
    planes: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    covered: BoolArray,
) -> None:
    """Write to ``covered[r]`` whether row r is covered by what the other rows select.

    ``cuts[i]`` are ``c_k`` and ``c_{k+1}`` of all n rows, k the rank of n - 1 rows, ``counts[i]``
    the labels of the n rows at these; weights come in the order that breaks ties.
    """
    _, rows, n_classes = planes.shape
    combined = np.empty(n_classes)
    for r in range(rows):
        best = UNKNOWN
        for i in range(weights.shape[0]):
            if counts[i, 0] - n_classes >= best:
                continue
            combine_row(planes, weights[i], r, combined)
            score = combined[labels[r]]
            # A row at or above c_k is among the first k; without it the next one moves up.
            which = 1 if score >= cuts[i, 0] else 0
            total = counts[i, which]
            for e in range(n_classes):
                total -= combined[e] >= cuts[i, which]
            if total < best:
                best = total
                covered[r] = score >= cuts[i, which]
