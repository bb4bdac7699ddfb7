"""The k-th largest of a list: quickselect, and a faster way when a good guess is at hand."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import inlined, inner, without_nan
from conformix.kernels.host.engine.lists import pack_marks

# marks as words and as bytes (see `pack_marks`), positions and values of what lies between two
# guesses: uint64, uint8, uint32 and float64
Room: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]

SAMPLE = 256
STRAY = 24


def room_for(n: int) -> Room:
    """Return work arrays for lists of `n` values."""
    words = np.empty(n // 8 + 2, dtype=np.uint64)
    return words, words.view(np.uint8), np.empty(n + 8, dtype=np.uint32), np.empty(n + 8)


@inner
def kth_largest(values: FloatArray, k: int) -> float:
    """Find the k-th largest (1-based) of `values`, which are reordered: Hoare's quickselect."""
    low = 0
    high = len(values) - 1
    target = k - 1
    while low < high:
        # The median of three; `min` and `max` would be compiled once more for this function.
        least, pivot, most = values[low], values[(low + high) >> 1], values[high]
        if least > most:
            least, most = most, least
        if pivot < least:
            pivot = least
        elif pivot > most:
            pivot = most
        i = low
        j = high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return values[target]


@inner
def kth_largest_near(values: FloatArray, k: int, low: float, high: float, room: Room) -> float:
    """`kth_largest`, fast if the answer lies between `low` and `high` with few others.

    One SIMD pass counts what is above and marks what is between; only those are selected from. If
    the answer is not there, or if there is no guess and `low` above `high`, everything is. The
    values stay in order; the arrays of `room` have `room_for` as many.
    """
    words, marks, picked, few = room
    n = len(values)
    above, between = 0, 0
    if low <= high:
        words[n >> 3] = 0  # marks that follow the last
        for i in range(n):
            above += values[i] > high
            marks[i] = (values[i] >= low) & (values[i] <= high)
        between = pack_marks(words[: (n + 7) >> 3], picked)
    if above < k <= above + between:
        if low == high:
            return low
        for i in range(between):
            few[i] = values[picked[i]]
        return kth_largest(few[:between], k - above)
    for i in range(n):
        few[i] = values[i]
    return kth_largest(few[:n], k)


@without_nan
def neighbour(values: FloatArray, value: float, sign: float) -> float:
    """Return the smallest of the values above one or, with a sign of -1, the largest below it."""
    nearest = np.inf
    for i in range(len(values)):
        signed = sign * values[i]
        nearest = min(nearest, signed if signed > sign * value else np.inf)
    return sign * nearest


@inlined
def enclose_kth(values: FloatArray, k: int, few: FloatArray) -> tuple[float, float]:
    """Guess between which numbers the k-th largest lies, by a sample; for long lists.

    The rank of the answer within a sample of s values is off by about ``sqrt(s) / 2``; values of
    the sample a few times further away enclose the answer nearly always.
    """
    n = len(values)
    if n < 4 * SAMPLE:
        return np.inf, -np.inf
    step = n // SAMPLE
    size = (n + step - 1) // step
    for i in range(size):
        few[i] = values[i * step]
    middle = 1 + (k - 1) * size // n
    low, high = -np.inf, np.inf
    if middle > STRAY:
        high = kth_largest(few[:size], middle - STRAY)
    if middle + STRAY <= size:
        low = kth_largest(few[:size], middle + STRAY)
    return low, high
