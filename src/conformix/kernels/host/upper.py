"""Sorted rows in one walk each: the masses of their upper ends, and of one label.

What NumPy needs several passes over all labels for, and the interpreter lock between them: the sums
from the smallest probability up, one after the other as `numpy.cumsum` adds them, never leave the
cache, and only the places that are asked for are written.
"""

from __future__ import annotations

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled


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
        end = top
        for j in range(top, start - 1, -1):
            same = j < top and rising[row, j] == rising[row, j + 1]
            end = end if same or j == top else j
            tied |= same
            mass[i, j - start] = sums[mine, end]
        tied |= 0 < start <= top and rising[row, start - 1] == rising[row, start]
        if len(values) == 0:
            continue
        low, high = 0, top
        while low < high:
            middle = (low + high) >> 1
            if outputs[row, middle] >= values[i]:
                high = middle
            else:
                low = middle + 1
        labels[i, 0] = low
        while low > 0 and rising[row, low - 1] == rising[row, low]:
            low -= 1
        while high < top and rising[row, high + 1] == rising[row, high]:
            high += 1
        labels[i, 1], labels[i, 2] = low, high
        label_mass[i] = sums[mine, high]
    return tied
