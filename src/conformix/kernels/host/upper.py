"""Sorted rows in one walk each: the masses of their upper ends, and of one label.

What NumPy needs several passes over all labels for, and the interpreter lock between them: the sums
from the smallest probability up, one after the other as `numpy.cumsum` adds them, never leave the
cache, and only the places that are asked for are written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.elementary import cuts
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, inlined, inner
from conformix.kernels.host.elementary import AT_ONCE, LINES, _exp_of_differences, _sum
from conformix.kernels.host.rising import by_digits
from conformix.kernels.host.sorting import BY_DIGITS, HOME, SHORT_RUN, address, sort_row


@inner
def _walk(
    rising: FloatArray,
    start: int,
    mass: FloatArray,
    outputs: FloatArray,
    values: FloatArray,
    labels: IntArray,
    label_numbers: FloatArray,
    sums: FloatArray,
    held: FloatArray,
    lowest: IntArray,
) -> bool:
    """Write what up to four rows, whose probabilities (m, K) rise, say of their places and labels.

    To `mass` (m, K - start) the mass up to and with the tie group of every place from `start` on;
    whether any of these places ties is returned. For a label per row, whose output is among
    `values` (m,), or none: to `labels` (m, 3) where that is in the sorted `outputs`, and the ends
    of its tie group; to `label_numbers` (m, 2) its mass and its probability. `sums` (4, K) is room.
    To `held` (m, K - start) the probabilities of the places, and to `lowest` (m,) where the tie
    group of the first of them begins.
    """
    top, tied = rising.shape[1] - 1, False
    # Sums wait for each other, those of four rows do not.
    m = len(rising)
    b, c, d = min(1, m - 1), min(2, m - 1), min(3, m - 1)
    of_a, of_b, of_c, of_d = rising[0, 0], rising[b, 0], rising[c, 0], rising[d, 0]
    sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0] = of_a, of_b, of_c, of_d
    for j in range(1, top + 1):
        of_a += rising[0, j]
        of_b += rising[b, j]
        of_c += rising[c, j]
        of_d += rising[d, j]
        sums[0, j], sums[1, j], sums[2, j], sums[3, j] = of_a, of_b, of_c, of_d
    for i in range(m):
        upper, up_to, last, ties = rising[i, start:], sums[i, start:], top - start, 0
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
        tied |= ties > 0 or (0 < start <= top and rising[i, start - 1] == rising[i, start])
        if len(values) > 0:
            place, low, high = _place(rising, outputs, i, values[i])
            labels[i, 0], labels[i, 1], labels[i, 2] = place, low, high
            label_numbers[i, 0], label_numbers[i, 1] = sums[i, high], rising[i, place]
        for j in range(last + 1):
            held[i, j] = upper[j]
        low = start
        while low > 0 and rising[i, low - 1] == upper[0]:
            low -= 1
        lowest[i] = low
    return tied


# Rows are sorted by so many digits of so many bits, and what these leave undone is little; numbers
# of both signs, among whose bits those near zero take most room, by one more.
DIGITS, DIGIT = 2, 8


class Sorting(NamedTuple):
    """How rows are sorted, and become probabilities."""

    sort: int  # where the sort is, see `conformix.kernels.host.sorting`
    home: int
    digits: int  # by how many digits rows are sorted, where these tell their numbers apart; or 0
    logits: bool  # whether they are no probabilities yet
    cuts: tuple[float, float]  # those of sums of as many numbers


def sorting(dtype: Any, logits: bool, n_classes: int) -> Sorting:
    """Return how rows of K numbers of a type are sorted, and become probabilities."""
    by_digits = BY_DIGITS and n_classes > SHORT_RUN and dtype == np.float64
    digits = DIGITS + logits if by_digits else 0
    return Sorting(address(dtype), id(HOME), digits, logits, cuts(n_classes))


class Spare(NamedTuple):
    """Room for numbers on the way, for every worker."""

    sums: FloatArray  # (workers, 4, K)
    powers: FloatArray  # (workers, LINES, AT_ONCE)
    keys: IntArray  # (workers, 2, K)
    counts: IntArray  # (workers, digits, values of a digit)


def spare(workers: int, n_classes: int, how: Sorting) -> Spare:
    """Return room for so many workers."""
    return Spare(
        rooms(workers, 4, n_classes), rooms(workers, LINES, AT_ONCE),
        rooms(workers, 2, n_classes, dtype=np.uint64),
        rooms(workers, how.digits, 1 << DIGIT, dtype=np.int64),
    )  # fmt: skip


class Holding(NamedTuple):
    """Rows that are sorted, what is kept of them, and how they are shared by threads."""

    block: FloatArray  # (N, K)
    rows: IntArray  # (n,) of the block
    how: Sorting
    values: FloatArray  # (n,) the outputs of labels, or none
    found: Any  # with the fields of `conformix.scores.sorted_rows.WalkedOver`
    ends: FloatArray  # (n, w) the outputs of the places that are held, or no room
    least: FloatArray  # (n,) the smallest outputs
    keeps: bool  # whether all sorted rows are kept, or those in hand
    # Rows as they are sorted, in double precision, and their probabilities, which may be the same:
    # four of every worker, (workers, 4, K), or all, (1, n, K).
    room: tuple[FloatArray, FloatArray, FloatArray]
    spare: Spare
    ties: BoolArray  # (parts,) whether a place of a part ties
    step: int  # rows of a part


@compiled
def hold(board: IntArray, helpers: int, n: int, task: Holding, part: int, worker: int) -> int:
    """Sort rows, and write what a walk says of them."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    block, rows, how, values, found, ends, least, keeps, room, own_room, ties, step = task
    n_classes, tied = block.shape[1], False
    start, labelled = n_classes - found.mass.shape[1], len(values) > 0
    own_rows = 0 if keeps else worker
    sorted_rows, numbers, rising = room[0][own_rows], room[1][own_rows], room[2][own_rows]
    sums, powers = own_room.sums[worker], own_room.powers[worker]
    keys, counts = own_room.keys[worker], own_room.counts[worker, : how.digits]
    stop = min((part + 1) * step, len(rows))
    for first in range(part * step, stop, 4):
        some = min(4, stop - first)
        base = first if keeps else 0
        for i in range(some):
            own, wide = sorted_rows[base + i], numbers[base + i]
            row = rows[first + i]
            for k in range(n_classes):
                own[k] = block[row, k]
            bits = wide.view(np.int64)
            if BY_DIGITS and how.digits > 0 and by_digits(bits, keys[0], keys[1], counts):
                for k in range(n_classes):
                    bits[k] = keys[0, k]
            else:
                sort_row(how.sort, own, how.home)
            least[first + i] = own[0]
            if len(ends) > 0:
                for k in range(start, n_classes):
                    ends[first + i, k - start] = own[k]
            for k in range(n_classes):
                wide[k] = own[k]
        if how.logits:
            _softmax_of_rising(
                numbers[base : base + some], rising[base : base + some], how.cuts, powers
            )
        last = first + some
        label = slice(first, last) if labelled else slice(0, 0)
        tied |= _walk(
            rising[base : base + some], start, found.mass[first:last],
            numbers[base : base + some], values[label], found.labels[label],
            found.label_numbers[label], sums, found.probs[first:last], found.lowest[first:last],
        )  # fmt: skip
    ties[part] = tied
    return 0


@inner
def _softmax_of_rising(
    logits: FloatArray, probs: FloatArray, cuts: tuple[float, float], lines: FloatArray
) -> None:
    """Write the softmax of some rows (m, K) whose numbers rise; of all at once, as they are short.

    `lines` is room for exponentials.
    """
    m, n_classes = logits.shape
    for i in range(m):
        top = logits[i, n_classes - 1]
        for k in range(n_classes):
            probs[i, k] = logits[i, k] - top
    flat = probs.reshape(probs.size)
    _exp_of_differences(flat, 0.0, flat, lines)
    for i in range(m):
        total = _sum(probs[i], cuts[0], cuts[1])
        for k in range(n_classes):
            probs[i, k] /= total


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
