"""Many numbers in rising order, by their bits: no comparisons, and no branch that is hard to guess.

The bits of a float, its sign turned, are an integer in the order of the numbers. The leading bits
of the differences from the smallest one are sorted digit by digit, from the last digit to the
first; what they leave undone is put right by insertion, which is little unless numbers crowd.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import Parts, rooms, run_parts
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.sorting import HOME, SORTS_WIDE, address, sort_row

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
    if SORTS_WIDE:
        return np.sort(values)
    bits = np.ascontiguousarray(values).view(np.int64)
    keys, spare = np.empty(len(bits), dtype=np.uint64), np.empty(len(bits), dtype=np.uint64)
    counts = np.empty((DIGITS, 1 << DIGIT), dtype=np.int64)
    if by_digits(bits, keys, spare, counts):
        return keys.view(np.float64)
    return np.sort(values)


def merged(rows: FloatArray, edges: FloatArray, threads: int) -> Merging:
    """Return the numbers of rising rows (r, K), together, in one part more than there are edges.

    Examples
    --------
    >>> found = merged(np.array([[0.1, 0.5, 0.5], [0.2, 0.3, 0.9]]), np.array([0.4]), threads=1)
    >>> found.out, found.sizes.tolist()
    (array([0.1, 0.2, 0.3, 0.5, 0.5, 0.9]), [[0, 3, 3], [3, 3, 2]])
    """
    n = len(edges) + 1
    task = Merging(
        rows, edges, np.empty(rows.size), np.empty(rows.size + n, dtype=np.int64),
        np.empty((n, 3), dtype=np.int64), rooms(threads, len(rows), 2, dtype=np.int64),
        np.empty(0 if SORTS_WIDE else rows.size, np.uint64),
        rooms(threads, DIGITS, 1 << DIGIT, dtype=np.int64), address(rows.dtype), id(HOME),
    )  # fmt: skip
    run_parts(merge, Parts(n, 1, threads), task)
    return task


class Merging(NamedTuple):
    """Rows whose numbers rise, put together: every part has those between two edges."""

    rows: FloatArray  # (r, K)
    edges: FloatArray  # (parts - 1,), rising: the first number of every part but the first
    out: FloatArray  # (r K,) all numbers, rising
    # (r K + parts,): where each distinct number of a part begins in it, and where the part ends; a
    # part begins where it does in `out`, and one place further for every part before.
    starts: IntArray
    sizes: IntArray  # (parts, 3): where it begins, numbers, distinct numbers
    ends: IntArray  # (workers, r, 2): room
    keys: IntArray  # (r K,): room; none where all are sorted by NumPy
    counts: IntArray  # (workers, digits, values of a digit): room
    sort: int  # where the sort is, see `conformix.kernels.host.sorting`
    home: int


@compiled
def merge(board: IntArray, helpers: int, n: int, task: Merging, part: int, worker: int) -> int:
    """Sort the numbers of all rows, part by part, and find the distinct ones."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    rows, edges, out, starts, sizes, all_ends, all_keys, of_digits, sort, home = task
    begin, size, ends, counts = 0, 0, all_ends[worker], of_digits[worker, :DIGITS]
    for i in range(len(rows)):
        first, last = _between(rows[i], edges, part)
        ends[i, 0], ends[i, 1] = first, last
        begin += first
        size += last - first
    some, place = out[begin : begin + size], 0
    for i in range(len(rows)):
        row = rows[i]
        for k in range(ends[i, 0], ends[i, 1]):
            some[place] = row[k]
            place += 1
    keys = all_keys[begin : begin + size]
    spare = starts[begin + part : begin + part + size].view(np.uint64)  # not written yet
    if not SORTS_WIDE and len(keys) and by_digits(some.view(np.int64), keys, spare, counts):
        bits = some.view(np.uint64)
        for k in range(size):
            bits[k] = keys[k]
    else:
        sort_row(sort, some, home)
    distinct, first = 0, begin + part
    for k in range(size):
        if k == 0 or some[k] != some[k - 1]:
            starts[first + distinct] = k
            distinct += 1
    starts[first + distinct] = size
    sizes[part, 0], sizes[part, 1], sizes[part, 2] = begin, size, distinct
    return 0


@inlined
def _between(row: FloatArray, edges: FloatArray, part: int) -> tuple[int, int]:
    """Return where numbers of a rising row are that belong to a part: the first, and the end."""
    begin, end = 0, len(row)
    for side in range(2):
        edge = part - 1 + side
        if 0 <= edge < len(edges):
            low, high = 0, len(row)
            while low < high:
                middle = (low + high) >> 1
                if row[middle] < edges[edge]:
                    low = middle + 1
                else:
                    high = middle
            begin, end = (low, end) if side == 0 else (begin, low)
    return begin, end


@compiled
def by_digits(bits: IntArray, keys: IntArray, spare: IntArray, counts: IntArray) -> bool:
    """Write the sorted bits of numbers to `keys` (n,); returns False where others should sort them.

    `spare` (n,) is room, and so are `counts`, for as many digits of two to some power of values.
    """
    n, sign, mask = len(bits), np.uint64(1) << np.uint64(63), np.uint64(counts.shape[1] - 1)
    digits, n_bits = len(counts), int(np.log2(counts.shape[1]))
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
    shift = np.uint64(max(length - digits * n_bits, 0))
    for j in range(digits):
        for k in range(counts.shape[1]):
            counts[j, k] = 0
    for i in range(n):
        rest = (keys[i] - least) >> shift
        for j in range(digits):
            counts[j, rest & mask] += 1
            rest >>= np.uint64(n_bits)
    for j in range(digits):
        place = 0
        for k in range(counts.shape[1]):
            place, counts[j, k] = place + counts[j, k], place
        down = shift + np.uint64(j * n_bits)
        source, target = (keys, spare) if j % 2 == 0 else (spare, keys)
        _move(source, target, counts[j], least, down, mask)
    for i in range(n if digits % 2 == 0 else 0):  # where the last digit has left them
        spare[i] = keys[i]
    if not _inserted(spare, keys):
        return False
    for i in range(n):
        key = keys[i]
        keys[i] = key ^ sign if key & sign else ~key
    return True


@inlined
def _move(
    source: IntArray, target: IntArray, places: IntArray, least: Any, down: Any, mask: Any
) -> None:
    """Write keys in the order of a digit, which begins at the bit `down`, those alike as they are.

    `places` are those of the first key of every digit.
    """
    for i in range(len(source)):
        key = source[i]
        digit = ((key - least) >> down) & mask
        target[places[digit]] = key
        places[digit] += 1


@inlined
def _inserted(almost: IntArray, keys: IntArray) -> bool:
    """Write what digits have sorted to `keys`, put right; returns False where that takes long."""
    steps = PATIENCE * len(keys)
    for i in range(len(keys)):
        key, place = almost[i], i
        while place > 0 and keys[place - 1] > key:
            keys[place] = keys[place - 1]
            place -= 1
        keys[place] = key
        steps -= i - place
        if steps < 0:
            return False
    return True
