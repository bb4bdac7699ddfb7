"""The members of many small sets: found row by row, and put in order by insertion.

Each costs less than a call.
"""

from __future__ import annotations

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import compiled

# Beyond, sorts that take fewer comparisons are faster.
LONGEST = 48
# Sets that hold so few labels of a row are found sooner label by label than without a jump.
FEW = 16


@compiled
def falling(values: FloatArray, sizes: IntArray, order: IntArray) -> None:
    """Put the numbers of values in `order`, downwards within each row, equal ones as they are.

    `order` counts 0, 1, ...; `sizes` are the lengths of the rows. Rows that are longer than
    `LONGEST` stay.
    """
    start = 0
    for row in range(len(sizes)):
        stop = start + sizes[row]
        if stop - start <= LONGEST:
            for here in range(start + 1, stop):
                value, place = values[here], here
                while place > start and values[order[place - 1]] < value:
                    order[place] = order[place - 1]
                    place -= 1
                order[place] = here
        start = stop


@compiled
def members(
    outputs: FloatArray, lowest: FloatArray, mask: BoolArray, sizes: IntArray, labels: IntArray
) -> None:
    """Write to `mask` (n, K) which of the `outputs` reach the number of their row in `lowest` (n,).

    `sizes` (n,) of each row do. To `labels`, with room for one more than all, which these are.
    """
    count, n_classes = 0, outputs.shape[1]
    for row in range(len(outputs)):
        for label in range(n_classes):
            mask[row, label] = outputs[row, label] >= lowest[row]
        if sizes[row] * FEW <= n_classes:
            left, label = sizes[row], 0
            while left > 0:
                if mask[row, label]:
                    labels[count] = label
                    count += 1
                    left -= 1
                label += 1
        else:
            for label in range(n_classes):
                labels[count] = label
                count += mask[row, label]
