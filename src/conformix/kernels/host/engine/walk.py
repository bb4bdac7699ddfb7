"""A block of rows falls through the tree of cells: the kernel of all counting.

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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.host.compiled import compiled
from conformix.kernels.host.engine.brackets import Brackets
from conformix.kernels.host.engine.cells import MAX_DEPTH, Cells
from conformix.kernels.host.engine.lists import (
    CellTest,
    count_certain,
    count_in,
    share_undecided,
    sift,
)

SKIP, SIFT, LAZY, BOUND, COUNT = range(5)  # the walk descends below actions before BOUND

# Sifting costs about as much as testing the list twice more, so it has to halve it to pay.
WORTH_SIFTING = 0.6


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
    found: Tally,
) -> None:
    """Add the block ``lists[:, :n_pairs]`` to `found`; the rest of `lists` is room for lists."""
    begins = np.zeros(MAX_DEPTH + 3, dtype=np.int64)  # the list below depth l: index l + 1
    ends = np.zeros(MAX_DEPTH + 3, dtype=np.int64)
    sure = np.zeros(MAX_DEPTH + 3, dtype=np.int64)
    ends[0] = n_pairs
    cell = begins[0]  # zero; functions are compiled once more for a literal 0
    while cell < len(cells.start):
        action = actions[cell]
        if action == SKIP:
            cell = cells.skip[cell]
            continue
        up = cells.depth[cell]
        own = up + 1
        begin, end = begins[up], ends[up]
        begins[own], ends[own], sure[own] = begin, end, sure[up]
        test = _cell_test(cells, brackets, cell, slack)
        if action == BOUND:
            sure[own] += count_certain(lists, begin, end, test)
        elif action != LAZY or share_undecided(lists, begin, end, test) < WORTH_SIFTING:
            inside, kept = sift(lists, begin, end, test, lists, end)
            begins[own], ends[own] = end, end + kept
            sure[own] += inside
        found.sure[cell] += sure[own]
        if action == COUNT:
            first, last = cells.start[cell], cells.stop[cell]
            for i in range(first, last):
                found.counts[i] += sure[own]
            count_in(
                lists, begins[own], ends[own],
                cells.weights[first:last], thresholds[first:last], found.counts[first:last],
            )  # fmt: skip
        cell = cell + 1 if action < BOUND else cells.skip[cell]


@compiled
def _cell_test(cells: Cells, brackets: Brackets, cell: int, slack: float) -> CellTest:
    """Collect what the loops over lists need to know of a cell."""
    return (
        cells.centre[cell],
        cells.half[cell],
        brackets.slope[cell],
        brackets.floor[cell] - slack,
        brackets.ceiling[cell] + slack,
        cells.anchor[cell],
        brackets.witness[cell],
    )
