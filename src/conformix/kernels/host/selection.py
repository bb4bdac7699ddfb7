"""Compiled selection for the exact split: every candidate label re-selects the weights.

For a test row and a candidate label with combined score s, the k-th largest of the n + 1 scores is
``T = clip(s, c_k, c_{k-1})``. The weights are those with the fewest labels at T over the n rows and
the test row; the label is in when ``s >= c_k`` under them.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import allocating, inlined, inner
from conformix.kernels.host.counting import combine_row

UNKNOWN = np.iinfo(np.int64).max
# Labels of a row that are certain.
IN, OUT = -2, -3


@allocating
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


@allocating
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


@allocating
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

    A label between the two cuts of some weights needs their gap, unless they cannot win anyway.
    Where the gap is not known yet, the weights are marked in `wanted` and ``chosen[r, 0] = -1``:
    the row has to be asked again. Weights (p, d) come by rising ``counts[:, 0]``, then ``order``;
    ``cuts[i]`` are ``c_{k-1}`` and ``c_k``, ``counts[i]`` the labels of the n rows at these,
    ``order[i]`` the place among ties; the scores between the cuts, rising, are
    ``gaps[starts[i] : stops[i]]``, with ``starts[i] < 0`` where they are not known; every so many
    of them are ``marks[i]``, then infinity.

    Most labels need no look: those whose scores all reach ``certain[0]`` are at or above the upper
    cut under all weights, those of which none exceeds ``certain[1]`` below the lower. All of a kind
    select the same weights, the latter ones by `by_low`: the weights by rising ``counts[:, 1]``.
    """
    d, rows, n_classes = planes.shape
    labels, best, mine = np.empty((3, n_classes + 1), dtype=np.int64)
    own, combined, room = np.empty((d, n_classes)), np.empty(n_classes), np.empty(n_classes)
    for r in range(rows):
        n_open, n_in = _sift(planes, r, certain, own, labels, chosen[r])
        for y in range(n_open + 1):
            best[y], mine[y] = UNKNOWN, 0
        complete = _select(
            own, weights, cuts, counts, order, starts, stops, gaps, marks, n_open, n_in, best, mine,
            wanted, combined, room,
        )  # fmt: skip
        winner = by_low[0]
        if n_open + n_in < n_classes:
            winner = _fewest(own, weights, cuts, counts, order, by_low, n_open, n_in, combined)
        for y in range(n_classes):
            chosen[r, y] = mine[n_open] if chosen[r, y] == IN else winner
        for y in range(n_open):
            chosen[r, labels[y]] = mine[y]
        if not complete:
            chosen[r, 0] = -1


@inner
def _sift(
    planes: FloatArray,
    row: int,
    certain: FloatArray,
    own: FloatArray,
    labels: IntArray,
    kinds: IntArray,
) -> tuple[int, int]:
    """Return how many labels of a row are uncertain, and how many are in whatever the weights.

    The uncertain ones are written to `labels`, their scores to `own`, which are in to `kinds`.
    """
    n_open, n_in = 0, 0
    for y in range(planes.shape[2]):
        inside, outside = True, True
        for j in range(planes.shape[0]):
            score = planes[j, row, y]
            own[j, n_open] = score
            inside &= score >= certain[0, j]
            outside &= score <= certain[1, j]
        kinds[y] = IN if inside else OUT
        labels[n_open] = y
        n_in += inside
        n_open += not (inside or outside)
    return n_open, n_in


@inner
def _select(
    own: FloatArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    order: IntArray,
    starts: IntArray,
    stops: IntArray,
    gaps: FloatArray,
    marks: FloatArray,
    n_open: int,
    n_in: int,
    best: IntArray,
    mine: IntArray,
    wanted: BoolArray,
    combined: FloatArray,
    room: FloatArray,
) -> bool:
    """Write to `mine` the weights that labels of a row select: `own` (d, n_open), then all in.

    And to `best` how many labels they count. Returns whether all gaps are known that matter.
    """
    n_asked, complete = n_open + (n_in > 0), True
    for i in range(weights.shape[0]):
        # No label has fewer under these weights; later ones as good lose the tie.
        least, can_win = counts[i, 0] + n_in, False
        for y in range(n_asked):
            can_win |= best[y] > least or (best[y] == least and order[i] < order[mine[y]])
        if not can_win:
            break
        _combine(own, weights, i, n_open, combined)
        high, low, is_sorted = cuts[i, 0], cuts[i, 1], False
        n_high, n_low = n_in, n_in
        for e in range(n_open):
            n_high += combined[e] >= high
            n_low += combined[e] >= low
        at_high, at_low, n_between = counts[i, 0] + n_high, counts[i, 1] + n_low, n_low - n_high
        for y in range(n_asked):
            if y == n_open or combined[y] >= high:
                total = at_high
            elif combined[y] < low:
                total = at_low
            else:
                if at_high >= best[y]:  # and it counts itself
                    continue
                is_sorted = is_sorted or _sort_between(combined, n_open, low, high, room)
                total = at_high + n_between - _first(room, 0, n_between, combined[y])
                if total <= best[y]:
                    if starts[i] < 0:
                        wanted[i], complete = True, False
                        continue
                    total += _at_least(
                        gaps, starts[i], stops[i], marks, i, combined[y], best[y] - total
                    )
            if total < best[y] or (total == best[y] and order[i] < order[mine[y]]):
                best[y], mine[y] = total, i
    return complete


@inner
def _fewest(
    own: FloatArray,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    order: IntArray,
    by_low: IntArray,
    n_open: int,
    n_in: int,
    combined: FloatArray,
) -> int:
    """Return the weights that labels select which are out whatever the weights."""
    fewest, winner = UNKNOWN, by_low[0]
    for i in by_low:
        if counts[i, 1] + n_in > fewest:
            break
        _combine(own, weights, i, n_open, combined)
        total = counts[i, 1] + n_in
        for e in range(n_open):
            total += combined[e] >= cuts[i, 1]
        if total < fewest or (total == fewest and order[i] < order[winner]):
            fewest, winner = total, i
    return winner


@inlined
def _combine(
    planes: FloatArray, weights: FloatArray, i: int, n_labels: int, combined: FloatArray
) -> None:
    """Write the scores of the first labels (d, K) under weights i, as `combine_row` does."""
    for e in range(n_labels):
        combined[e] = weights[i, 0] * planes[0, e]
    for j in range(1, planes.shape[0]):
        for e in range(n_labels):
            combined[e] += weights[i, j] * planes[j, e]


@inner
def _sort_between(
    combined: FloatArray, n_labels: int, low: float, high: float, between: FloatArray
) -> bool:
    """Write the scores that are at least `low` and below `high` to `between`, rising."""
    n = 0
    for e in range(n_labels):
        between[n] = combined[e]
        n += low <= combined[e] < high
    step = 1
    while step < n // 3:
        step = 3 * step + 1
    while step > 0:
        for e in range(step, n):
            value, place = between[e], e
            while place >= step and between[place - step] > value:
                between[place] = between[place - step]
                place -= step
            between[place] = value
        step //= 3
    return True


@inlined
def _at_least(
    gaps: FloatArray, start: int, stop: int, marks: FloatArray, i: int, value: float, most: int
) -> int:
    """Return how many scores of a gap are at least a value, or a smaller number above `most`.

    What the marks say is nearly enough, and they stay in the cache.
    """
    step = (stop - start) // marks.shape[1] + 1
    below = _first(marks[i], 0, marks.shape[1], value)  # marks from there on are not
    last = min(start + below * step, stop)
    if stop - last > most:
        return stop - last
    return stop - _first(gaps, max(last - step, start), last, value)


@inner
def _first(rising: FloatArray, low: int, high: int, value: float) -> int:
    """Return the first place from `low` on whose number is not below a value; `high` if none is."""
    while low < high:
        middle = (low + high) >> 1
        if rising[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@allocating
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
