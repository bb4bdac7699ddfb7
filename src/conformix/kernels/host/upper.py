"""Sorted rows in one walk each: the masses and tie groups of their upper ends, and of one label.

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
    start: int,
    mass: FloatArray,
    first: IntArray,
    last: IntArray,
    outputs: FloatArray,
    values: FloatArray,
    labels: IntArray,
    label_mass: FloatArray,
    sums: FloatArray,
) -> bool:
    """Write what the rows (n, K), whose probabilities are `rising`, say of places and of labels.

    To `mass` (n, K - start) the mass up to and with the tie group of every place from `start` on;
    where any of these ties, which is returned, the ends of the tie groups to `first` and `last`.
    For a label per row, whose output is among `values` (n,) or none, where that is in the sorted
    `outputs` and the ends of its tie group to `labels` (n, 3), and its mass to `label_mass` (n,).
    `sums` (K,) is room.
    """
    n, top = rising.shape[0], rising.shape[1] - 1
    tied = False
    for i in range(n):
        total = rising[i, 0]
        sums[0] = total
        for j in range(1, top + 1):
            total += rising[i, j]
            sums[j] = total
        end = top
        for j in range(top, start - 1, -1):
            if j < top:
                if rising[i, j] == rising[i, j + 1]:
                    tied = True
                else:
                    end = j
            mass[i, j - start] = sums[end]
        if 0 < start <= top and rising[i, start - 1] == rising[i, start]:
            tied = True
        if len(values):
            value, low, high = values[i], 0, top
            while low < high:
                middle = (low + high) >> 1
                if outputs[i, middle] >= value:
                    high = middle
                else:
                    low = middle + 1
            labels[i, 0] = low
            while high < top and rising[i, high + 1] == rising[i, high]:
                high += 1
            while low > 0 and rising[i, low - 1] == rising[i, low]:
                low -= 1
            labels[i, 1], labels[i, 2] = low, high
            label_mass[i] = sums[high]
    if tied:
        for i in range(n):
            end = start
            while end > 0 and rising[i, end - 1] == rising[i, end]:
                end -= 1
            for j in range(start, top + 1):
                if j > start and rising[i, j] != rising[i, j - 1]:
                    end = j
                first[i, j - start] = end
            end = top
            for j in range(top, start - 1, -1):
                if j < top and rising[i, j] != rising[i, j + 1]:
                    end = j
                last[i, j - start] = end
    return tied
