"""Rows fall through the tree of cells, block by block: the kernel of all counting.

In a cell a pair (row, label) is certainly in, certainly out, or undecided; only undecided pairs go
down to the children. What happens at a cell is its action:

========= ======================================================================================
`SKIP`    nothing; the walk passes over everything below.
`SIFT`    keep the undecided pairs as the list for the children.
`LAZY`    the same if that makes the list much shorter; else children get the list as it is.
`BOUND`   only count the pairs that are certainly in; pass over everything below.
`COUNT`   sift, then count exactly for all weights of the cell:
          ``(certainly in on the way down) + #{undecided : combine(w, s) >= t(w)}``.
========= ======================================================================================

Counts add up over rows, so blocks are independent and can be read in any order by any thread. The
block size does not depend on the number of threads. A block is copied to planes ``(d, pairs)``
whatever the strides and the precision of the user's array, so that no full copy is ever made and
the kernels see one layout; a pass keeps one block per thread in memory and nothing afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import Buffers, run_blocks, shares
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.engine.brackets import Brackets
from conformix.kernels.host.engine.cells import MAX_DEPTH, Cells, rounding_slack
from conformix.kernels.host.engine.lists import (
    RUN,
    Desk,
    count_in,
    make_desk,
    mark,
    pack_marks,
    take,
)

SKIP, SIFT, LAZY, BOUND, COUNT = range(5)  # the walk descends below actions before BOUND

# Sifting costs about as much as testing the list twice more, so it has to halve it to pay. Probes
# of the list tell; rows differ more than the labels of a row, so many short ones see more than few
# long.
WORTH_SIFTING = 0.6
PROBE = 32
PROBES = 32


class Tally(NamedTuple):
    """What a pass found: exact `counts` (M,) in counted cells, pairs `sure` to be in (C,)."""

    counts: IntArray
    sure: IntArray


def empty_tally(cells: Cells) -> Tally:
    """All zero."""
    return Tally(
        np.zeros(len(cells.weights), dtype=np.int64), np.zeros(len(cells.start), dtype=np.int64)
    )


@compiled
def walk(
    cells: Cells,
    thresholds: FloatArray,
    brackets: Brackets,
    actions: IntArray,
    slack: float,
    lists: FloatArray,
    n_pairs: int,
    tally: Tally,
    stack: IntArray,
    desk: Desk,
) -> None:
    """Add the block ``lists[:, :n_pairs]`` to `tally`; the rest of `lists` is room for lists."""
    # Every use of a tuple loads all of it, which takes the compiler long.
    start, stop, skip, depth, anchor = (
        cells.start, cells.stop, cells.skip, cells.depth, cells.anchor,
    )  # fmt: skip
    boxes = (cells.centre, cells.half, brackets.slope, brackets.witness)
    weights, floor, ceiling = cells.weights, brackets.floor, brackets.ceiling
    counts, certain = tally.counts, tally.sure
    words, marks, picked, scratch = desk
    begins, ends, sure = stack[0], stack[1], stack[2]  # zeros; the list below depth l: index l + 1
    ends[0] = n_pairs
    cell = begins[0]  # zero; functions are compiled once more for a literal 0
    while cell < len(start):
        action = actions[cell]
        if action == SKIP:
            cell = skip[cell]
            continue
        up = depth[cell]
        level = up + 1
        begin, end = begins[up], ends[up]
        # Runs of a long list are probes at first, where sifting may not pay.
        probing = action == LAZY and end - begin >= 4 * PROBES * PROBE
        run, step = RUN, RUN
        if probing:
            run, step = PROBE, (end - begin) // PROBES
        place, inside, n_kept = begin, 0, 0
        while place < end:
            n = min(run, end - place)
            words[n >> 3] = 0  # marks that follow the last
            inside += mark(
                lists, place, n, boxes, cell, floor[cell] - slack, ceiling[cell] + slack,
                anchor[cell], marks, scratch,
            )  # fmt: skip
            if action != BOUND:
                n_undecided = pack_marks(words[: (n + 7) >> 3], picked)
                if not probing:
                    take(lists, place, picked[:n_undecided], lists, end + n_kept)
                n_kept += n_undecided
            place += step
            if probing and end - place < PROBE:  # that was the last probe
                if n_kept >= WORTH_SIFTING * (PROBES * PROBE):
                    inside = 0
                    break
                probing, run, step = False, RUN, RUN
                place, inside, n_kept = begin, 0, 0
        if not probing:
            begin, end = end, end + n_kept
        begins[level], ends[level], sure[level] = begin, end, sure[up] + inside
        certain[cell] += sure[level]
        if action == COUNT:
            first, last = start[cell], stop[cell]
            for i in range(first, last):
                counts[i] += sure[level]
            count_in(lists, begin, end, weights, thresholds, counts, first, last, scratch[0])
        cell = cell + 1 if action < BOUND else skip[cell]


class Problem(NamedTuple):
    """What all passes share: the tree, its exact thresholds (M,), and brackets of its cells."""

    cells: Cells
    thresholds: FloatArray
    brackets: Brackets


def run_pass(
    problem: Problem, actions: IntArray, size_parts: Sequence[FloatArray], threads: int
) -> Tally:
    """Return what is found when every cell does what `actions` (C,) say, for all size rows."""
    cells = problem.cells
    blocks = cut_rows(size_parts)
    buffers = Buffers((cells.weights.shape[1], largest_block(blocks) * (cells.levels + 1)))

    def visit(block: Block) -> Tally:
        tally = empty_tally(cells)
        with buffers.borrow() as lists:
            pairs = read_block(block, lists)
            scale = magnitude(lists, pairs) + problem.brackets.largest
            stack = np.zeros((3, MAX_DEPTH + 3), dtype=np.int64)
            slack = rounding_slack(cells, scale)
            walk(*problem, actions, slack, lists, pairs, tally, stack, make_desk())
        return tally

    return reduce(_add, run_blocks(visit, blocks, threads), empty_tally(cells))


def _add(total: Tally, tally: Tally) -> Tally:
    return Tally(total.counts + tally.counts, total.sure + tally.sure)


BLOCK_PAIRS = 1 << 17  # a block and the lists below it stay in the second-level cache
SMALL_BLOCK_PAIRS = 1 << 14
BLOCKS = 8  # wanted at least, for threads to share


class Block(NamedTuple):
    """Rows ``first`` to ``last`` of one size part."""

    part: FloatArray
    first: int
    last: int


def cut_rows(size_parts: Sequence[FloatArray]) -> list[Block]:
    """All rows of all parts, in blocks alike, of about `BLOCK_PAIRS` (row, label) pairs at most."""
    total = sum(part.shape[0] * part.shape[1] for part in size_parts)
    pairs = min(BLOCK_PAIRS, max(SMALL_BLOCK_PAIRS, total // BLOCKS))
    blocks = []
    for part in size_parts:
        n = max(1, min(round(part.shape[0] * part.shape[1] / pairs), len(part)))
        blocks += [Block(part, rows.start, rows.stop) for rows in shares(len(part), n)]
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
    block = planes[:, :pairs]
    value = max(float(block.max()), -float(block.min())) if pairs else 0.0
    return value if np.isfinite(value) else np.inf
