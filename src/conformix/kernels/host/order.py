"""The members of many small sets in order: row by row, each in less time than a call takes."""

from __future__ import annotations

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.compiled import compiled, inner

# Sets that hold so small a part of the labels are found sooner label by label.
FEW = 16
# Neighbours that find their places by counting those before them, all at once; longer runs are
# merged.
RUN = 32


@inner
def _falling(values: FloatArray, own: IntArray, spare: IntArray, room: FloatArray) -> None:
    """Put the numbers of values in `own` downwards, equal ones as they are.

    There is room for as many numbers in `spare`, and for `RUN` values.
    """
    n = len(own)
    for begin in range(0, n, RUN):
        some = own[begin : min(begin + RUN, n)]
        for i in range(len(some)):
            spare[i], room[i] = some[i], values[some[i]]
        for i in range(len(some)):
            value, place = room[i], 0
            for j in range(i):
                place += room[j] >= value
            for j in range(i + 1, len(some)):
                place += room[j] > value
            some[place] = spare[i]
    width = RUN
    while width < n:
        for begin in range(0, n - width, 2 * width):
            end = min(begin + 2 * width, n)
            for i in range(width):
                spare[i] = own[begin + i]
            i, j, place = 0, begin + width, begin
            while i < width:
                if j < end and values[own[j]] > values[spare[i]]:
                    own[place] = own[j]
                    j += 1
                else:
                    own[place] = spare[i]
                    i += 1
                place += 1
        width *= 2


@compiled
def falling(values: FloatArray, sizes: IntArray, order: IntArray, spare: IntArray) -> None:
    """Put the numbers of values in `order`, downwards within each row, equal ones as they are.

    `order` counts 0, 1, ...; `sizes` are the lengths of the rows, and `spare` is room for one.
    """
    start, room = 0, np.empty(RUN)
    for row in range(len(sizes)):
        stop = start + sizes[row]
        _falling(values, order[start:stop], spare, room)
        start = stop


@compiled
def reached(values: FloatArray, lowest: FloatArray, mask: BoolArray) -> None:
    """Write to `mask` (n, K) which values reach the number of their row in `lowest` (n,)."""
    for row in range(len(values)):
        for label in range(values.shape[1]):
            mask[row, label] = values[row, label] >= lowest[row]


@compiled
def members(values: FloatArray, mask: BoolArray, labels: IntArray, spare: IntArray) -> None:
    """Write to `labels` those in the mask (n, K), row after row, by falling values (n, K).

    Equal ones by label. There is room for one more than all, and `spare` (K,).
    """
    count, n_classes, room = 0, values.shape[1], np.empty(RUN)
    for row in range(len(values)):
        size, first = 0, count
        for label in range(n_classes):
            size += mask[row, label]
        if size * FEW <= n_classes:
            label = 0
            while count < first + size:
                if mask[row, label]:
                    labels[count] = label
                    count += 1
                label += 1
        else:
            for label in range(n_classes):
                labels[count] = label
                count += mask[row, label]
        if size > 1:
            _falling(values[row], labels[first:count], spare, room)
