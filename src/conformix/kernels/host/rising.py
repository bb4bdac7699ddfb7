"""Many numbers in rising order, by their bits: no comparisons, and no branch that is hard to guess.

The bits of a float, its sign turned, are an integer in the order of the numbers. The leading bits
of the differences from the smallest one are sorted digit by digit, from the last digit to the
first; what they leave undone is put right by insertion, which is little unless numbers crowd.
"""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled

DIGITS, DIGIT = 3, 11  # so many digits of so many bits
# Steps of insertion per number after which other sorts are faster.
PATIENCE = 8


def rising(values: FloatArray) -> FloatArray:
    """Return float64 numbers (n,), sorted upwards.

    Examples
    --------
    >>> rising(np.array([0.5, -2.0, 0.25]))
    array([-2.  ,  0.25,  0.5 ])
    """
    bits = np.ascontiguousarray(values).view(np.int64)
    keys, spare = np.empty(len(bits), dtype=np.uint64), np.empty(len(bits), dtype=np.uint64)
    counts = np.zeros((DIGITS, 1 << DIGIT), dtype=np.int64)
    if by_digits(bits, keys, spare, counts):
        return keys.view(np.float64)
    return np.sort(values)


@compiled
def by_digits(bits: IntArray, keys: IntArray, spare: IntArray, counts: IntArray) -> bool:
    """Write the sorted bits of numbers to `keys` (n,); returns False where others should sort them.

    `spare` (n,) is room, and so are the zeros `counts`.
    """
    n, sign, mask = len(bits), np.uint64(1) << np.uint64(63), np.uint64((1 << DIGIT) - 1)
    least, most = ~np.uint64(0), np.uint64(0)
    for i in range(n):
        # Negative numbers have all bits turned, others the first.
        key = np.uint64(bits[i]) ^ (np.uint64(bits[i] >> 63) | sign)
        least, most = min(least, key), max(most, key)
        keys[i] = key
    infinite = np.uint64(0x7FF0000000000000)
    if most > (infinite | sign) or least < ~(infinite | sign):
        return False  # what is not a number has no place
    length = 0
    while length < 64 and (most - least) >> np.uint64(length):
        length += 1
    shift = np.uint64(max(length - DIGITS * DIGIT, 0))
    for i in range(n):
        rest = (keys[i] - least) >> shift
        for j in range(DIGITS):
            counts[j, rest & mask] += 1
            rest >>= np.uint64(DIGIT)
    for j in range(DIGITS):
        place = 0
        for k in range(1 << DIGIT):
            place, counts[j, k] = place + counts[j, k], place
        down = shift + np.uint64(j * DIGIT)
        source, target = (keys, spare) if j % 2 == 0 else (spare, keys)
        for i in range(n):
            key = source[i]
            digit = ((key - least) >> down) & mask
            target[counts[j, digit]] = key
            counts[j, digit] += 1
    steps = PATIENCE * n
    for i in range(n):
        key, place = spare[i], i
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key
        steps -= i - place
        if steps < 0:
            return False
    for i in range(n):
        key = keys[i]
        keys[i] = key ^ sign if key & sign else ~key
    return True
