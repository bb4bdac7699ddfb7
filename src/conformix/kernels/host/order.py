"""The members of many small sets in order: row by row, each in less time than a call takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import allocating, compiled, inlined, inner

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


@allocating
def falling(values: FloatArray, sizes: IntArray, order: IntArray, spare: IntArray) -> None:
    """Put the numbers of values in `order`, downwards within each row, equal ones as they are.

    `order` counts 0, 1, ...; `sizes` are the lengths of the rows, and `spare` is room for one.
    """
    start, room = 0, np.empty(RUN)
    for row in range(len(sizes)):
        stop = start + sizes[row]
        _falling(values, order[start:stop], spare, room)
        start = stop


class Sets(NamedTuple):
    """Sets of labels, and where their members are written."""

    values: FloatArray  # (n, K)
    lowest: FloatArray  # (n,) of the same type: labels that reach it are in; or none
    mask: BoolArray  # (n, K), written where there are such numbers
    starts: IntArray  # (n + 1,): where the members of a row begin; none, where one part has all
    labels: IntArray
    # (workers, 2, K + 1): labels that are out are written, too, one after the last that is in.
    found: IntArray
    room: FloatArray  # (workers, RUN)
    step: int  # rows of a part


@inlined
def _write_inside(inside: BoolArray, size: int, found: IntArray) -> None:
    """Write the labels in a set, so many as there are, in their order."""
    count, n_labels = 0, len(inside)
    if size * FEW <= n_labels:
        label = 0
        while count < size and label < n_labels:
            if inside[label]:
                found[count] = label
                count += 1
            label += 1
    else:
        for label in range(n_labels):
            found[count] = label
            count += inside[label]


@compiled
def members(board: IntArray, helpers: int, n: int, task: Sets, part: int, worker: int) -> int:
    """Write the labels in sets, row after row, by falling values, equal ones by label."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    values, lowest, mask, starts, labels, both, rooms, step = task
    n_classes, begin = values.shape[1], 0
    found, spare, room = both[worker, 0], both[worker, 1], rooms[worker]
    for row in range(part * step, min((part + 1) * step, len(values))):
        if len(lowest) > 0:
            limit = lowest[row]
            for label in range(n_classes):
                mask[row, label] = values[row, label] >= limit
        size = 0
        if len(starts) > 0:
            begin = starts[row]
            size = starts[row + 1] - begin
        else:
            for label in range(n_classes):
                size += mask[row, label]
        _write_inside(mask[row], size, found)
        if size > 1:
            _falling(values[row], found[:size], spare, room)
        for place in range(size):
            labels[begin + place] = found[place]
        begin += size
    return 0
