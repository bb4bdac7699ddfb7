"""The selection of the exact split, many weights at a time: `kernels.host.selection` in NumPy."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.blocks import row_blocks
from conformix.kernels.plain.engine import combine_into

# Combined scores held at once.
ENTRIES = 2**15
UNKNOWN = np.iinfo(np.int64).max


def gap_sizes(
    planes: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray, sizes: IntArray
) -> None:
    """Add to ``sizes[i]`` the pairs of a block with ``low[i] <= score < high[i]``."""
    flat = planes.reshape(len(planes), -1)
    combined, product = np.empty((2, flat.shape[1]))
    for i, w in enumerate(weights.tolist()):
        combine_into(flat, w, combined, product)
        sizes[i] += np.count_nonzero((combined >= low[i]) & (combined < high[i]))


def fill_gaps(
    planes: FloatArray,
    weights: FloatArray,
    low: FloatArray,
    high: FloatArray,
    places: IntArray,
    values: FloatArray,
) -> None:
    """Write the scores of those pairs to ``values``, from ``places[i]`` on, and move the places."""
    flat = planes.reshape(len(planes), -1)
    combined, product = np.empty((2, flat.shape[1]))
    for i, w in enumerate(weights.tolist()):
        combine_into(flat, w, combined, product)
        between = combined[(combined >= low[i]) & (combined < high[i])]
        values[places[i] : places[i] + len(between)] = between
        places[i] += len(between)


def select_weights(
    planes: FloatArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    order: IntArray,
    by_low: IntArray,
    certain: FloatArray,
    starts: IntArray,
    stops: IntArray,
    gaps: FloatArray,
    marks: FloatArray,
    chosen: IntArray,
    wanted: BoolArray,
) -> None:
    """Write to ``chosen[r, y]`` the index of the weights selected for row r and label y.

    As its compiled twin, whose docstring explains the arguments; here all labels are looked at,
    whether certain or not. The smallest count wins, then the first in `order`: one integer,
    ``count * M + order``, holds both. Which gaps are wanted depends on how many weights are looked
    at together; what is chosen in the end does not.
    """
    _, n_rows, n_classes = planes.shape
    span = int(order.max()) + 1
    best = np.full((n_rows, n_classes), UNKNOWN)
    incomplete = np.zeros(n_rows, dtype=bool)
    for some in row_blocks(len(weights), n_rows * n_classes, ENTRIES):
        # No label can have fewer than counts[i, 0] under these weights or later ones.
        if counts[some.start, 0] > best.max() // span:
            break
        combined = _combined(planes, weights[some])
        keys, between = _outside(combined, cuts[some], counts[some], order[some], span)
        _update(best, chosen, keys, some.start)
        i, row, label = np.nonzero(between)
        scores = combined[between]
        totals = counts[some.start + i, 0] + np.count_nonzero(
            combined[i, row] >= scores[:, None], axis=1
        )
        open_ = totals <= best[row, label] // span
        unknown = open_ & (starts[some.start + i] < 0)
        wanted[some.start + i[unknown]] = True
        incomplete[row[unknown]] = True
        known = np.flatnonzero(open_ & ~unknown)
        if not len(known):
            continue
        for one in np.unique(i[known]):
            here = known[i[known] == one]
            gap = gaps[starts[some.start + one] : stops[some.start + one]]
            totals[here] += len(gap) - np.searchsorted(gap, scores[here])
        keys[:] = UNKNOWN
        keys[i[known], row[known], label[known]] = (
            totals[known] * span + order[some.start + i[known]]
        )
        _update(best, chosen, keys, some.start)
    chosen[incomplete, 0] = -1


def _combined(planes: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the combined scores of every row and label under every weight, (m, rows, K)."""
    columns = weights[:, :, None, None]
    combined = columns[:, 0] * planes[0]
    for j in range(1, len(planes)):
        combined += columns[:, j] * planes[j]
    return combined


def _outside(
    combined: FloatArray, cuts: FloatArray, counts: IntArray, order: IntArray, span: int
) -> tuple[IntArray, BoolArray]:
    """Return the keys of labels at or above the upper cut or below the lower, and which are not."""
    above = combined >= cuts[:, 0, None, None]
    reached = combined >= cuts[:, 1, None, None]
    at_high = (counts[:, :1] + np.count_nonzero(above, axis=2)) * span + order[:, None]
    at_low = (counts[:, 1:] + np.count_nonzero(reached, axis=2)) * span + order[:, None]
    keys = np.where(above, at_high[:, :, None], at_low[:, :, None])
    between = reached & ~above
    keys[between] = UNKNOWN
    return keys, between


def _update(best: IntArray, chosen: IntArray, keys: IntArray, first: int) -> None:
    """Take the smallest of ``keys`` (m, rows, K), of the weights from `first` on, where smaller."""
    winner = keys.argmin(axis=0)
    smallest = np.take_along_axis(keys, winner[None], axis=0)[0]
    better = smallest < best
    best[better] = smallest[better]
    chosen[better] = winner[better] + first


def leave_out(
    planes: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    covered: BoolArray,
) -> None:
    """Write to ``covered[r]`` whether row r is covered by what the other rows select."""
    _, n_rows, n_classes = planes.shape
    rows = np.arange(n_rows)
    best = np.full(n_rows, UNKNOWN)
    for some in row_blocks(len(weights), n_rows * n_classes, ENTRIES):
        combined = _combined(planes, weights[some])
        scores = combined[:, rows, labels]
        # A row at or above c_k is among the first k; without it the next one moves up.
        first = scores >= cuts[some, :1]
        cut = np.where(first, cuts[some, 1:], cuts[some, :1])
        totals = np.where(first, counts[some, 1:], counts[some, :1])
        totals -= np.count_nonzero(combined >= cut[:, :, None], axis=2)
        winner = totals.argmin(axis=0)
        better = totals[winner, rows] < best
        best[better] = totals[winner, rows][better]
        covered[better] = (scores >= cut)[winner, rows][better]
