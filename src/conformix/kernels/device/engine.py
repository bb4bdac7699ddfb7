"""The exact engine on a device: the same counts as `conformix.kernels.host.engine`, with PyTorch.

Thresholds of all weights first, from the true-label scores alone. Then one pass over the labels, in
blocks: most are in, or out, for every weight, which bounds over cells of weights decide at once;
the others are collected and counted exactly, and no array of pairs times weights is held. Bounds
move outwards by more than rounding can do, and what is counted is `combine`, bit for bit, so the
counts are those of the host, ties included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, as_tensor, on_device, to_device, to_host
from conformix.kernels.blocks import row_blocks
from conformix.kernels.device.cells import Brackets, Cells, fit_brackets, weight_cells
from conformix.kernels.device.thresholds import all_thresholds
from conformix.kernels.simplex import first_best

# Cells over the weights in which thresholds are looked for; rows are few beside labels.
THRESHOLD_CELLS = 128
# Pairs (row, label) held at once as planes, where the scores are not planes already.
PAIRS_AT_ONCE = 2**26
ANCHOR_ROWS = 512
# At most so many cells where PyTorch counts: more of them leave fewer pairs open, but each is
# compared with every pair.
CELLS = (64,)
# Comparisons held at once (128 MiB of float64).
ENTRIES = 2**24


def counts_and_thresholds(
    true_scores: FloatArray,
    size_parts: Sequence[Any],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> tuple[IntArray, FloatArray]:
    """Return the counts and the thresholds of weights (M, d), each (M,), in host memory.

    Parameters
    ----------
    true_scores : array of shape (n, d)
        Scores of the true labels of the labelled rows.
    size_parts : tensors of shape (n_i, K, d)
        Scores of all labels of the size rows; arrays where PyTorch stands in for numba.
    k : int
        The threshold is the k-th largest combined true score, ``1 <= k <= n``.
    weights : array of shape (M, d)
        Of any sign, on the simplex or not.
    threads : int
        Not used: the device has its own.
    """
    import torch  # noqa: PLC0415  there already where a part is a tensor

    tensors = [as_tensor(part) for part in size_parts]
    home = tensors[0].device if tensors else torch.device("cpu")
    weights = np.ascontiguousarray(weights, dtype=np.float64)
    rows = as_tensor(true_scores).to(home, torch.float64)
    counter, n_cells = pair_counter(rows)
    few = true_scores[:: 1 + len(true_scores) // ANCHOR_ROWS]
    thresholds = thresholds_of(rows, k, weights)
    levels = [cells.anchored(few) for cells in weight_cells(weights, *n_cells)]
    ends = [end for tensor in tensors if len(tensor) for end in tensor.aminmax()]
    scale = max((abs(float(end)) for end in ends), default=0.0)
    brackets = [fit_brackets(cells, weights, thresholds, scale) for cells in levels]
    counts = np.zeros(len(weights), dtype=np.int64)
    for planes in _planes(tensors):
        counts += to_host(counter(planes, weights, thresholds, levels, brackets))
    return counts, thresholds


def thresholds_of(rows: Any, k: int, weights: FloatArray) -> FloatArray:
    """Return the k-th largest of ``combine(rows, w)`` for weights (M, d), in host memory, (M,).

    `rows` is a tensor (n, d), and ``1 <= k <= n``.
    """
    few = to_host(rows[:: 1 + len(rows) // ANCHOR_ROWS])
    (apart,) = weight_cells(weights, THRESHOLD_CELLS)
    return all_thresholds(rows, k, weights, apart.anchored(few))


def candidate_counts(
    true_scores: FloatArray,
    size_parts: Sequence[Any],
    k: int,
    weights: FloatArray,
    threads: int = 1,
) -> IntArray:
    """Return the counts alone; see `counts_and_thresholds`."""
    return counts_and_thresholds(true_scores, size_parts, k, weights, threads)[0]


def smallest_count(
    true_scores: FloatArray,
    size_parts: Sequence[Any],
    k: int,
    weights: FloatArray,
    keys: FloatArray | IntArray,
    threads: int = 1,
) -> tuple[int, int]:
    """Return index and count of the winner; `keys` (M, d) break ties.

    Counting for all weights costs a device less than finding out which need not be counted.
    """
    counts = candidate_counts(true_scores, size_parts, k, weights, threads)
    winner = first_best(counts, keys)
    return winner, int(counts[winner])


def pair_counter(like: Any) -> tuple[Any, tuple[int, ...]]:
    """Return what counts pairs, and the cells it asks for: Triton's kernel where CUDA has one."""
    if like.device.type == "cuda":
        try:
            from conformix.kernels.device import triton  # noqa: PLC0415  CUDA tensors only
        except ImportError:
            return count_pairs, CELLS
        return triton.count_pairs, triton.CELLS
    return count_pairs, CELLS


def _planes(tensors: Sequence[Any]) -> Iterator[Any]:
    """Yield all pairs as float64 planes (d, pairs), without a copy where they are planes."""
    for tensor in tensors:
        n, n_classes, d = tensor.shape
        planes = tensor.movedim(-1, 0)
        if planes.is_contiguous() and on_device(tensor) and str(tensor.dtype) == "torch.float64":
            yield planes.reshape(d, n * n_classes)
            continue
        for rows in row_blocks(n, n_classes, PAIRS_AT_ONCE):
            yield planes[:, rows].double().contiguous().reshape(d, -1)


def count_pairs(
    planes: Any,
    weights: FloatArray,
    thresholds: FloatArray,
    levels: list[Cells],
    brackets: list[Brackets],
) -> Any:
    """Return ``#{pairs : combine(s, w) >= t(w)}`` for every weight vector, int64 tensor (M,).

    A pair of ``planes`` (d, P) is compared with whole cells of weights first. In a cell it is
    certainly in, certainly out, or undecided; only the undecided are combined with its weights.
    """
    cells, known = levels[-1], brackets[-1]
    counts = planes.new_zeros(len(weights)).long()
    factors, cuts = to_device(weights, planes), to_device(thresholds, planes)
    for c, n_members in enumerate(cells.counts):
        members = to_device(cells.members[c, :n_members], planes)
        inside, open_pairs = _compare(planes, cells, known, c)
        left = planes.index_select(1, open_pairs.nonzero().squeeze(1))
        counts[members] += inside.sum() + _count_in(left, factors[members], cuts[members])
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
