"""One number of every row, made of the bits of its outputs: what equal rows have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled


class Bits(NamedTuple):
    """Rows whose bits are weighed and added up."""

    values: FloatArray  # (n, K)
    rows: IntArray  # (m,): which of them
    odd: IntArray  # (K,) factors
    sums: IntArray  # (m,), to which those of these rows are added
    wide: FloatArray  # (workers, K)
    bits: IntArray  # the same memory as integers
    step: int  # rows of a part


@compiled
def add_bits(board: IntArray, helpers: int, n: int, task: Bits, part: int, worker: int) -> int:
    """Add the bits of the outputs of rows, weighed, to one number each.

    Examples
    --------
    >>> from conformix.kernels.helpers import NO_BOARD
    >>> rows, sums, room = np.array([[0.5, -0.0], [0.5, 0.0]]), np.zeros(2, int), np.empty((1, 2))
    >>> bits = Bits(rows, np.arange(2), np.array([1, 3]), sums, room, room.view(np.int64), 2)
    >>> add_bits(NO_BOARD, 0, 1, bits, -1, 0)
    0
    >>> bool(sums[0] == sums[1] != 0)
    True
    """
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    values, rows, odd, sums, rooms, same, step = task
    wide, bits = rooms[worker], same[worker]
    for i in range(part * step, min((part + 1) * step, len(rows))):
        row, total = values[rows[i]], np.int64(0)
        for k in range(len(row)):
            wide[k] = np.float64(row[k]) + 0.0  # of two zeros one
        for k in range(len(row)):
            total += (bits[k] ^ (bits[k] >> 32)) * odd[k]
        sums[i] += total
    return 0
