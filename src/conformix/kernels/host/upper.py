"""Sorted rows in one walk each: the masses of their upper ends, and of one label.

What NumPy needs several passes over all labels for, and the interpreter lock between them: the sums
from the smallest probability up, one after the other as `numpy.cumsum` adds them, never leave the
cache, and only the places that are asked for are written.
"""

from __future__ import annotations

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inlined


@compiled
def walk(
    rising: FloatArray,
    rows: IntArray,
    start: int,
    mass: FloatArray,
    outputs: FloatArray,
    values: FloatArray,
    labels: IntArray,
    label_mass: FloatArray,
    sums: FloatArray,
) -> bool:
    """Write what some rows (m,), whose probabilities are `rising` (n, K), say of places and labels.

    To `mass` (m, K - start) the mass up to and with the tie group of every place from `start` on;
    whether any of these places ties is returned. For a label per row, whose output is among
    `values` (m,), or none: to `labels` (m, 3) where that is in the sorted `outputs`, and the ends
    of its tie group; to `label_mass` (m,) its mass. `sums` (4, K) is room.
    """
    top, tied = rising.shape[1] - 1, False
    for i in range(len(rows)):
        row, mine = rows[i], i & 3
        if mine == 0:  # sums wait for each other, those of four rows do not
            a, b = row, rows[min(i + 1, len(rows) - 1)]
            c, d = rows[min(i + 2, len(rows) - 1)], rows[min(i + 3, len(rows) - 1)]
            of_a, of_b, of_c, of_d = rising[a, 0], rising[b, 0], rising[c, 0], rising[d, 0]
            sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0] = of_a, of_b, of_c, of_d
            for j in range(1, top + 1):
                of_a += rising[a, j]
                of_b += rising[b, j]
                of_c += rising[c, j]
                of_d += rising[d, j]
                sums[0, j], sums[1, j], sums[2, j], sums[3, j] = of_a, of_b, of_c, of_d
        upper, up_to, last, ties = rising[row, start:], sums[mine, start:], top - start, 0
        for j in range(last):
            ties += upper[j] == upper[j + 1]
        if ties == 0:  # as in most rows
            for j in range(last + 1):
                mass[i, j] = up_to[j]
        else:
            end = last
            for j in range(last, -1, -1):
                end = end if j < last and upper[j] == upper[j + 1] else j
                mass[i, j] = up_to[end]
        tied |= ties > 0 or (0 < start <= top and rising[row, start - 1] == rising[row, start])
        if len(values) > 0:
            place, low, high = _place(rising, outputs, row, values[i])
            labels[i, 0], labels[i, 1], labels[i, 2] = place, low, high
            label_mass[i] = sums[mine, high]
    return tied


@inlined
def _place(rising: FloatArray, outputs: FloatArray, row: int, value: float) -> tuple[int, int, int]:
    """Return where a value is among the sorted outputs of a row, and the ends of its tie group."""
    low, high = 0, rising.shape[1] - 1
    while low < high:
        middle = (low + high) >> 1
        if outputs[row, middle] >= value:
            high = middle
        else:
            low = middle + 1
    place = low
    while low > 0 and rising[row, low - 1] == rising[row, low]:
        low -= 1
    while high < rising.shape[1] - 1 and rising[row, high + 1] == rising[row, high]:
        high += 1
    return place, low, high


@compiled
def tie_ends(
    rising: FloatArray, rows: IntArray, start: int, first: IntArray, last: IntArray
) -> None:
    """Write to `first` and `last` (m, w) the ends of the tie groups of places from `start` on.

    Of some rows (m,) of sorted numbers (n, K); a group may go beyond these places.
    """
    top, stop = rising.shape[1] - 1, start + first.shape[1]
    for i in range(len(rows)):
        row, low, high = rows[i], start, stop - 1
        while low > 0 and rising[row, low - 1] == rising[row, start]:
            low -= 1
        while high < top and rising[row, high + 1] == rising[row, stop - 1]:
            high += 1
        some, ties = rising[row, start:stop], high - low - (stop - 1 - start)
        for j in range(1, len(some)):
            ties += some[j - 1] == some[j]
        if ties == 0:  # as in most rows
            for j in range(len(some)):
                first[i, j] = last[i, j] = start + j
            continue
        for j in range(len(some)):
            low = start + j if j > 0 and some[j - 1] != some[j] else low
            first[i, j] = low
        for j in range(len(some) - 1, -1, -1):
            high = start + j if j < len(some) - 1 and some[j + 1] != some[j] else high
            last[i, j] = high
