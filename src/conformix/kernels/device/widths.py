"""Widths of averaged V-shaped scores in plain PyTorch: `kernels.host.widths` on tensors.

The same operations in the same order; rows are added one after the other, so that sums have the
same bits too.
"""

from __future__ import annotations

from typing import Any

from conformix.kernels.arrays import FloatArray, IntArray, to_device, to_host, torch_module
from conformix.kernels.blocks import row_blocks
from conformix.kernels.plain.widths import FLAT

# Numbers held at once.
ENTRIES = 2**22


def add_widths(
    order: IntArray,
    centre: Any,
    first: Any,
    below: Any,
    above: Any,
    weights: FloatArray,
    thresholds: FloatArray,
    low: float,
    high: float,
    totals: FloatArray,
) -> None:
    """Add the widths of row r under ``weights[:, i]`` to ``totals[r % g, l, i]``, host memory."""
    used, cuts = to_device(weights, centre), to_device(thresholds, centre)
    sums = to_device(totals, centre).clone()
    for rows in row_blocks(len(centre), used.numel() + cuts.numel(), ENTRIES):
        parts = [part[rows] for part in (order, centre, first, below, above)]
        block: Any = (*parts, used, cuts, low, high)
        for r, width in enumerate(_widths(*block), start=rows.start):
            sums[r % len(sums)] += width
    totals[:] = to_host(sums)


def _widths(
    order: Any,
    centre: Any,
    first: Any,
    below: Any,
    above: Any,
    weights: Any,
    thresholds: Any,
    low: float,
    high: float,
) -> Any:
    """Return the widths (rows, L, m) of a block."""
    torch = torch_module()
    n, d = order.shape
    used = weights[order]  # (rows, d, m)
    value, up = centre.new_zeros((2, n, weights.shape[1]))
    down = centre.new_zeros((d + 1, n, weights.shape[1]))
    for i in range(d):
        value = value + used[:, i] * first[:, i, None]
    for i in range(d - 1, -1, -1):
        down[i] = down[i + 1] + used[:, i] * below[:, i, None]
    lower = centre.new_full((n, *thresholds.shape), low)
    upper, lowest, slope = torch.full_like(lower, high), value, -down[0]
    for i in range(d + 1):
        knot = max(i - 1, 0)
        if i > 0:
            up = up + used[:, knot] * above[:, knot, None]
            slope = up - down[i]
        flat = slope.abs() <= FLAT
        inverse = (1.0 / slope.masked_fill(flat, 1.0)).masked_fill(flat, 0.0)[:, None]
        ends = centre[:, knot, None, None] + (thresholds - value[:, None]) * inverse
        lower = torch.maximum(lower, ends.where(inverse < 0, lower.new_tensor(low)))
        upper = torch.minimum(upper, ends.where(inverse > 0, upper.new_tensor(high)))
        if 0 < i < d:
            value = value + slope * (centre[:, i, None] - centre[:, knot, None])
            lowest = torch.minimum(lowest, value)
    width = (upper - lower).clamp(min=0.0)
    return width.where(lowest[:, None] <= thresholds, width.new_zeros(()))
