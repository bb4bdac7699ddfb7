"""The order of the labels of a row, and their places in it, ties together, in one walk each.

Rows are sorted as whole numbers of 32 bits: the upper ones say where between the row's smallest and
largest number a number is, the lower ones whose it is. Two in one place are compared then.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import allocating, compiled, inner

LARGEST = np.iinfo(np.int64).max
# Steps back for every label, beyond which a sort of the numbers themselves is faster.
MOVES = 8


@inner
def tie_groups(
    row: FloatArray, places: IntArray, ties: bool, below: IntArray, rank: IntArray
) -> None:
    """Write how many values are lower, and the rank from the top, at every place of a sorted row.

    `places` (K,) are those of the rising values, among which there may be `ties`.
    """
    n_classes, first = len(row), 0
    if not ties:  # the most frequent case, in loops without a branch
        for k in range(n_classes):
            below[k], rank[k] = k, n_classes - k
        return
    for j in range(1, n_classes + 1):
        if j == n_classes or row[places[j]] != row[places[j - 1]]:
            for k in range(first, j):
                below[k], rank[k] = first, n_classes - j + 1
            first = j


@inner
def _rising_bits(value: float) -> Any:
    """Return the bits of a number, as a whole number that rises with it; -0 is 0."""
    bits = np.float64(value + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & LARGEST)


@compiled
def keys_into(values: FloatArray, label_bits: int, keys: Any) -> None:
    """Write whole numbers of 32 bits that rise, but for ties of their upper bits, as `values`."""
    n, n_classes = values.shape
    for i in range(n):
        row, own = values[i], keys[i]
        first = last = _rising_bits(row[0])
        for k in range(n_classes):  # whole numbers, which are compared many at a time
            bits = _rising_bits(row[k])
            first, last = min(first, bits), max(last, bits)
        width, shift = np.uint64(last) - np.uint64(first), np.uint64(0)
        while (width >> shift) >> np.uint64(32 - label_bits):
            shift += np.uint64(1)
        for k in range(n_classes):
            place = (np.uint64(_rising_bits(row[k])) - np.uint64(first)) >> shift
            own[k] = np.uint32(place << np.uint64(label_bits)) | np.uint32(k)


@compiled
def order_into(values: FloatArray, keys: Any, label_bits: int, order: IntArray, ties: Any) -> int:
    """Write the places of the rising `values` of every row, by its sorted keys.

    And whether it may have `ties` (n,): where no two keys have the same upper bits it has none.
    Returns the number of rows with so many ties of upper bits that they were left; the first place
    of such a row is -1.
    """
    n, n_classes = values.shape
    room, left = np.uint32((1 << label_bits) - 1), 0
    for i in range(n):
        row, own, places = values[i], keys[i], order[i]
        clear, moves = True, 0
        for k in range(n_classes):
            places[k] = np.int64(own[k] & room)
        for k in range(1, n_classes):
            clear &= (own[k] ^ own[k - 1]) > room
        ties[i] = not clear
        for k in range(n_classes if clear else 1, n_classes):
            here, label = k, places[k]
            while here > 0 and row[label] < row[places[here - 1]]:
                places[here] = places[here - 1]
                here -= 1
            places[here] = label
            moves += k - here
            if moves > MOVES * n_classes:
                places[0] = -1
                left += 1
                break
    return left


@allocating
def ranks_into(
    values: FloatArray, order: IntArray, ties: Any, below: IntArray, rank: IntArray
) -> None:
    """Write, by label, how many of its row score lower (n, K), and its rank from the top.

    `order` (n, K) are the places of the rising values of every row, `ties` (n,) whether it may have
    equal ones. What has no rows is not asked for.
    """
    n, n_classes = values.shape
    lower, upper = np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    for i in range(n):
        tie_groups(values[i], order[i], ties[i], lower, upper)
        for k in range(n_classes if len(below) else 0):
            below[i, order[i, k]] = lower[k]
        for k in range(n_classes if len(rank) else 0):
            rank[i, order[i, k]] = upper[k]


@compiled
def masses_into(values: FloatArray, probs: FloatArray, order: IntArray, mass: FloatArray) -> None:
    """Write, by label, the sum of the probabilities (n, K) of all whose value is no larger.

    `order` (n, K) are the places of the rising values of every row; sums are from the first place
    up, one after the other as `numpy.cumsum` adds them.
    """
    n, n_classes = values.shape
    for i in range(n):
        row, own, places, first = values[i], probs[i], order[i], 0
        total = own[places[0]]
        for j in range(1, n_classes + 1):
            if j == n_classes or row[places[j]] != row[places[j - 1]]:
                for k in range(first, j):
                    mass[i, places[k]] = total
                first = j
            if j < n_classes:
                total += own[places[j]]
