"""The members of many small sets in order: by insertion, for each costs less than a call."""

from __future__ import annotations

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled

# Beyond, sorts that take fewer comparisons are faster.
LONGEST = 48


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
