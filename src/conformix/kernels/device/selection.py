"""The selection of the exact split in plain PyTorch: `kernels.host.selection` on tensors.

Weights are taken one after the other, each for all rows and labels of a block at once; the numbers
compared are those of `combine`, and what is counted are integers, so the same weights are selected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformix.kernels.arrays import FloatArray, IntArray, to_device, torch_module
from conformix.kernels.blocks import row_blocks
from conformix.kernels.combine import combine

# Whether later weights can still win is asked once in so many weights: asking stops the device.
ASK_EVERY = 16
ENTRIES = 2**24
NEVER = 2**62


def select_weights(
    scores: Any,
    weights: FloatArray,
    cuts: FloatArray,
    counts: IntArray,
    order: IntArray,
    gap: Callable[[int], Any],
) -> Any:
    """Return which weights each label of each row selects, int64 tensor (r, K).

    As `conformix.kernels.host.selection.select_weights`; ``gap(i)`` returns the scores between the
    two cuts of weights i, rising.
    """
    torch = torch_module()
    places = to_device(order, scores)
    chosen = torch.zeros(scores.shape[:2], dtype=torch.int64, device=scores.device)
    best = torch.full_like(chosen, NEVER)
    for i in range(len(weights)):
        if i % ASK_EVERY == 0 and counts[i, 0] > int(best.max()):
            break
        values = combine(scores, weights[i])
        total = _totals(values, cuts[i], counts[i], best, lambda i=i: gap(i))
        better = (total < best) | ((total == best) & (int(order[i]) < places[chosen]))
        best = torch.where(better, total, best)
        chosen.masked_fill_(better, i)
    return chosen


def _totals(values: Any, cuts: FloatArray, counts: IntArray, best: Any, gap: Any) -> Any:
    """Return the labels of the n rows and of its own row at the threshold of each label, (r, K)."""
    high, low = float(cuts[0]), float(cuts[1])
    reached = values >= low
    at_high = int(counts[0]) + (values >= high).sum(dim=1, keepdim=True)
    at_low = int(counts[1]) + reached.sum(dim=1, keepdim=True)
    total = at_high.where(reached, at_low)
    rows, labels = (reached & (values < high)).nonzero(as_tuple=True)
    if len(rows):
        scores = values[rows, labels]
        above = int(counts[0]) + _at_least(values, rows, scores)
        if bool((above <= best[rows, labels]).any()):
            known = gap()
            above = above + len(known) - torch_module().searchsorted(known, scores)
        total[rows, labels] = above
    return total


def _at_least(values: Any, rows: Any, scores: Any) -> Any:
    """Return how many labels of the same row score at least as much, (m,)."""
    blocks = row_blocks(len(rows), values.shape[1], ENTRIES)
    counts = [(values[rows[b]] >= scores[b, None]).sum(dim=1) for b in blocks]
    return torch_module().cat(counts)


def gap_scores(scores: Any, weights: FloatArray, low: float, high: float) -> Any:
    """Return the combined scores (n, K, d) with ``low <= score < high``, rising."""
    blocks = []
    for rows in row_blocks(scores.shape[0], scores.shape[1], ENTRIES):
        values = combine(scores[rows], weights)
        blocks.append(values[(values >= low) & (values < high)])
    return torch_module().cat(blocks).sort().values  # type: ignore[attr-defined]


def leave_out(
    scores: Any, y: IntArray, weights: FloatArray, cuts: FloatArray, counts: IntArray
) -> Any:
    """Return whether each row is covered by what the other rows select, boolean tensor (n,)."""
    torch = torch_module()
    blocks = []
    for rows in row_blocks(scores.shape[0], scores.shape[1], ENTRIES):
        labels = to_device(y[rows], scores)[:, None]
        best = torch.full_like(labels, NEVER)
        covered = torch.zeros_like(labels, dtype=torch.bool)
        for i in range(len(weights)):
            values: Any = combine(scores[rows], weights[i])
            truth = values.gather(1, labels)
            among = truth >= float(cuts[i, 0])
            cut = torch.where(among, truth.new_tensor(cuts[i, 1]), truth.new_tensor(cuts[i, 0]))
            total = torch.where(among, int(counts[i, 1]), int(counts[i, 0]))
            total = total - (values >= cut).sum(dim=1, keepdim=True)
            better = total < best
            best = torch.where(better, total, best)
            covered = torch.where(better, truth >= cut, covered)
        blocks.append(covered[:, 0])
    return torch.cat(blocks)
