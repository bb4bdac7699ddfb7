"""Blocks of rows: the size parts cut up, each read as float64 planes when its turn comes.

Counts add up over rows, so blocks are independent and can be read in any order by any thread. The
block size does not depend on the number of threads. A block is copied to planes ``(d, pairs)``
whatever the strides and the precision of the user's array, so that no full copy is ever made and
the kernels see one layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled

BLOCK_PAIRS = 1 << 17  # a block and the lists below it stay in the second-level cache
SMALL_BLOCK_PAIRS = 1 << 14
BLOCKS = 8  # wanted at least, for threads to share


class Block(NamedTuple):
    """Rows ``first`` to ``last`` of one size part."""

    part: FloatArray
    first: int
    last: int


def row_blocks(size_parts: Sequence[FloatArray]) -> list[Block]:
    """All rows of all parts, in blocks of at most about `BLOCK_PAIRS` (row, label) pairs."""
    total = sum(part.shape[0] * part.shape[1] for part in size_parts)
    pairs = min(BLOCK_PAIRS, max(SMALL_BLOCK_PAIRS, total // BLOCKS))
    blocks = []
    for part in size_parts:
        step = max(1, pairs // max(1, part.shape[1]))
        blocks += [Block(part, i, min(i + step, len(part))) for i in range(0, len(part), step)]
    return blocks


def largest_block(blocks: Sequence[Block]) -> int:
    """Return the number of pairs in the largest block."""
    return max(((b.last - b.first) * b.part.shape[1] for b in blocks), default=0)


def read_block(block: Block, planes: FloatArray) -> int:
    """Copy a block to the front of `planes` (d, capacity); returns its number of pairs."""
    rows = block.part[block.first : block.last]
    pairs = rows.shape[0] * rows.shape[1]
    for j in range(rows.shape[2]):
        np.copyto(planes[j, :pairs].reshape(rows.shape[:2]), rows[:, :, j])
    return pairs


def magnitude(planes: FloatArray, pairs: int) -> float:
    """Largest absolute value of ``planes[:, :pairs]``; inf if anything is not finite."""
    value = float(np.int64(_largest_bits(planes, pairs)).view(np.float64))
    return value if np.isfinite(value) else np.inf


@compiled
def _largest_bits(planes: FloatArray, pairs: int) -> int:
    """Largest magnitude as bits: without the sign, floats sort like integers, NaN above inf.

    An integer maximum is a SIMD loop; a float maximum is not, because of NaN.
    """
    largest = 0
    for j in range(len(planes)):
        bits = planes[j, :pairs].view(np.int64)
        for i in range(pairs):
            largest = max(largest, bits[i] & 0x7FFFFFFFFFFFFFFF)
    return largest
