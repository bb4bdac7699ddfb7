"""Labels above the threshold of every weight, in plain PyTorch.

A (row, label) pair is compared with whole cells of weights first. In a cell it is certainly in,
certainly out, or undecided; only undecided pairs are combined with the weights of the cell. No
array of pairs times weights is held. `conformix.kernels.device.triton` does the same, fused.
"""

from __future__ import annotations

from typing import Any

from conformix.kernels.arrays import FloatArray, to_device
from conformix.kernels.device.cells import Brackets, Cells

# At most so many cells: more of them leave fewer pairs open, but each is compared with every pair.
CELLS = (64,)
# Comparisons held at once (128 MiB of float64).
ENTRIES = 2**24


def count_pairs(
    planes: Any,
    weights: FloatArray,
    thresholds: FloatArray,
    levels: list[Cells],
    brackets: list[Brackets],
) -> Any:
    """Return ``#{pairs : combine(s, w) >= t(w)}`` for every weight vector, int64 tensor (M,).

    Parameters
    ----------
    planes : float64 tensor of shape (d, P)
        Scores of P pairs.
    weights, thresholds : float64 arrays of shape (M, d) and (M,)
        Weights and their thresholds.
    levels, brackets
        Levels of cells over the weights, as `CELLS` asks for, and what they know of the thresholds.
    """
    cells, known = levels[-1], brackets[-1]
    counts = planes.new_zeros(len(weights)).long()
    own, cuts = to_device(weights, planes), to_device(thresholds, planes)
    for c, n_own in enumerate(cells.counts):
        members = to_device(cells.members[c, :n_own], planes)
        inside, open_pairs = _compare(planes, cells, known, c)
        left = planes.index_select(1, open_pairs.nonzero().squeeze(1))
        counts[members] += inside.sum() + _count_in(left, own[members], cuts[members])
    return counts


def _compare(planes: Any, cells: Cells, brackets: Brackets, c: int) -> tuple[Any, Any]:
    """Return which pairs are certainly in under all weights of cell c, and which are undecided."""
    value = planes[0] * float(cells.centre[c, 0])
    for j in range(1, len(planes)):
        value += planes[j] * float(cells.centre[c, j])
    radius = planes.new_zeros(())
    for j in range(len(planes)):
        if j == cells.anchor:
            continue
        apart = planes[j] - float(brackets.slope[c, j])
        if cells.anchor >= 0:
            apart -= planes[cells.anchor]
        radius = apart.abs_().mul_(float(cells.half[c, j])).add_(radius)
    inside = value - radius >= float(brackets.ceiling[c])
    outside = value + radius < float(brackets.floor[c])
    return inside, ~(inside | outside)


def _count_in(planes: Any, weights: Any, thresholds: Any) -> Any:
    """Return the exact counts; products and sums are rounded one by one, in combine's order."""
    counts = planes.new_zeros(len(weights)).long()
    step = max(1, ENTRIES // len(weights))
    for first in range(0, planes.shape[1], step):
        part = planes[:, first : first + step]
        value = weights[:, 0, None] * part[0]
        for j in range(1, len(planes)):
            value += weights[:, j, None] * part[j]
        counts += (value >= thresholds[:, None]).sum(dim=1)
    return counts
