"""Intervals of averaged V-shaped scores in plain PyTorch: `kernels.host.bands` on tensors.

Products, sums and quotients one by one, never fused, in the order of the compiled loops: the same
bits. Its compiled twin says what is computed, and proves that intervals are rounded outward.
"""

from __future__ import annotations

from typing import Any

from conformix.kernels.arrays import FloatArray, to_device, torch_module
from conformix.kernels.plain.bands import FAR, FLAT, TINY, UNIT, roundings

INFINITE = float("inf")


def fill_bands(
    centre: Any, offset: Any, below: Any, above: Any, weights: FloatArray, thresholds: FloatArray
) -> tuple[Any, Any]:
    """Return the ends of ``{y : combined(y) <= thresholds[l, i]}``, outward, tensors (L, n)."""
    torch = torch_module()
    cuts = to_device(thresholds, centre)
    sums = roundings(weights)
    lower = cuts.new_full((len(cuts), len(centre)), -INFINITE)
    upper, empty = torch.full_like(lower, INFINITE), torch.ones_like(lower, dtype=torch.bool)
    for knot in centre.unbind(dim=1):
        value, slack, left, left_error, right, right_error = _support(
            centre, offset, below, above, weights, knot, sums
        )
        room = (cuts - value) + slack
        empty &= room < 0
        step = _step(room, -left, left_error, sums)
        end = knot - step
        shift = 4 * UNIT * step.abs() + 3 * UNIT * end.abs()
        lower = torch.maximum(lower, end - shift)
        step = _step(room, right, right_error, sums)
        end = knot + step
        shift = 4 * UNIT * step.abs() + 3 * UNIT * end.abs()
        upper = torch.minimum(upper, end + shift)
    empty |= lower > upper
    return lower.masked_fill(empty, INFINITE), upper.masked_fill(empty, -INFINITE)


def _support(
    centre: Any, offset: Any, below: Any, above: Any, weights: FloatArray, knot: Any, sums: int
) -> tuple[Any, ...]:
    """Return the value at a knot and its slack, the slopes to its left and right and theirs."""
    torch = torch_module()
    value, reach, left, left_size, right, right_size = knot.new_zeros((6, len(knot)))
    for j, w in enumerate(weights.tolist()):
        c = centre[:, j]
        falling = below[:, j] * (c - knot).clamp(min=0.0)
        rising = above[:, j] * (knot - c).clamp(min=0.0)
        part = w * (offset[:, j] + falling + rising)
        value = part if j == 0 else value + part
        reach = reach + w * (offset[:, j].abs() + falling + rising)
        down, up = w * below[:, j], w * above[:, j]
        left = left + torch.where(c < knot, up, -down)
        left_size = left_size + torch.where(c < knot, up, down)
        right = right + torch.where(c <= knot, up, -down)
        right_size = right_size + torch.where(c <= knot, up, down)
    slack = (2 * sums + 12) * UNIT * reach + TINY
    share = (sums + 1) * UNIT if sums > 0 else 0.0
    return value, slack, left, share * left_size, right, share * right_size


def _step(room: Any, slope: Any, error: Any, sums: int) -> Any:
    """Return how far from a knot the end may be, infinite where the slope may be flat."""
    torch = torch_module()
    least = (slope - error) * (1.0 - (sums + 6) * UNIT)
    steep = least > FLAT
    divisor = torch.where(room >= 0, least, slope + error)
    step = (room / torch.where(steep, divisor, 1.0)).clamp(min=-FAR)
    return step.masked_fill(~steep.expand_as(step), INFINITE)
