"""Passes over all size rows with a fixed tree, block by block and in parallel.

A pass keeps one block of rows per thread in memory and nothing between passes: whatever the
scores, memory stays within a few megabytes per thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.engine.blocks import (
    Block,
    largest_block,
    magnitude,
    read_block,
    row_blocks,
)
from conformix.kernels.host.engine.brackets import Brackets
from conformix.kernels.host.engine.cells import Cells
from conformix.kernels.host.engine.rounding import rounding_slack
from conformix.kernels.host.engine.walk import Tally, empty_tally, walk
from conformix.kernels.threads import Buffers, run_blocks


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
    blocks = row_blocks(size_parts)
    buffers = Buffers((cells.weights.shape[1], largest_block(blocks) * (cells.levels + 1)))

    def visit(block: Block) -> Tally:
        found = empty_tally(cells)
        with buffers.borrow() as lists:
            pairs = read_block(block, lists)
            scale = magnitude(lists, pairs) + problem.brackets.largest
            walk(*problem, actions, rounding_slack(cells, scale), lists, pairs, found)
        return found

    return reduce(_add, run_blocks(visit, blocks, threads), empty_tally(cells))


def _add(total: Tally, found: Tally) -> Tally:
    return Tally(total.counts + found.counts, total.sure + found.sure)
