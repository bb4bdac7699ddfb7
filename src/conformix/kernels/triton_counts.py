"""The counts of `conformix.kernels.torch_counts` as two fused CUDA kernels.

`_sift` reads a block of pairs once and compares it with all cells; the undecided go to one list
per cell. `_count` combines the pairs of a cell's list with its weights. Fused products and sums
would round once where `combine` rounds twice, so `_count` is compiled without them; bounds have
slack enough for either. Lists fill in any order, but what is counted are integers.
"""

# The language of kernels has types of its own.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from conformix.arrays import FloatArray, to_device, torch_module
from conformix.kernels.weight_cells import Brackets, Cells

# Pairs per launch: a list can hold all of them, for every cell (fewer than 1,024: 32-bit places).
PAIRS = 2**21
BLOCK = 256
SIFT_WARPS = 1
TILE_PAIRS = 32
WORKERS = 512  # programs that share the list of a cell


# Numbers that happen to be 1 would otherwise be compiled in, as numbers without a type.
PLAIN = ["stride", "first", "n_pairs", "n_cells", "capacity"]


@triton.jit(do_not_specialize=PLAIN)
def _sift(
    planes, stride, first, n_pairs, tests, n_cells, sure, lengths, lists, capacity,
    D: tl.constexpr, ANCHOR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compare pairs with cells; ``tests[c]`` holds centre, half and slope (d each), two ends."""
    local = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = local < n_pairs
    stride = stride.to(tl.int64)
    here = planes + first.to(tl.int64) + local
    s0 = tl.load(here, mask=valid, other=0.0)
    s1 = tl.load(here + (1 if D > 1 else 0) * stride, mask=valid, other=0.0)
    s2 = tl.load(here + (2 if D > 2 else 0) * stride, mask=valid, other=0.0)
    s3 = tl.load(here + (3 if D > 3 else 0) * stride, mask=valid, other=0.0)
    base = s0
    if ANCHOR >= 0:
        base = tl.load(here + ANCHOR * stride, mask=valid, other=0.0)
    for c in range(n_cells):
        test = tests + c * (3 * D + 2)
        value = tl.zeros([BLOCK], tl.float64)
        radius = tl.zeros([BLOCK], tl.float64)
        for j in tl.static_range(D):
            if j == 0:
                s = s0
            elif j == 1:
                s = s1
            elif j == 2:
                s = s2
            elif j == 3:
                s = s3
            else:
                s = tl.load(here + j * stride, mask=valid, other=0.0)
            value += s * tl.load(test + j)
            if j != ANCHOR:
                apart = s - tl.load(test + 2 * D + j)
                if ANCHOR >= 0:
                    apart -= base
                radius += tl.abs(apart) * tl.load(test + D + j)
        inside = (value - radius >= tl.load(test + 3 * D + 1)) & valid
        outside = value + radius < tl.load(test + 3 * D)
        undecided = (valid & ~(inside | outside)).to(tl.int32)
        both = tl.sum(inside.to(tl.int32) + (undecided << 16), axis=0)
        n_inside = both & 0xFFFF
        n_undecided = both >> 16
        if n_inside > 0:
            tl.atomic_add(sure + c, n_inside.to(tl.int64))
        if n_undecided > 0:
            start = tl.atomic_add(lengths + c, n_undecided)
            place = tl.cumsum(undecided, axis=0) - undecided
            target = lists + c * capacity + start + place
            tl.store(target, local, mask=undecided > 0)


@triton.jit(do_not_specialize=PLAIN[:2] + PLAIN[-1:])
def _count(
    planes, stride, first, members, n_members, weights, thresholds, lengths, lists, capacity,
    counts,
    D: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, WORKERS: tl.constexpr,
):  # fmt: skip
    """Count for the weights of one cell over the pairs of its list."""
    c = tl.program_id(0)
    stride = stride.to(tl.int64)
    length = tl.load(lengths + c)
    column = tl.arange(0, WIDTH)
    own = tl.load(members + c * WIDTH + column)
    cut = tl.load(thresholds + own)
    total = tl.zeros([TILE, WIDTH], tl.int32)
    for start in range(tl.program_id(1) * TILE, length, WORKERS * TILE):
        place = start + tl.arange(0, TILE)
        valid = place < length
        pair = tl.load(lists + c * capacity + place, mask=valid, other=0)
        here = planes + first.to(tl.int64) + pair
        value = tl.load(here)[:, None] * tl.load(weights + own * D)[None, :]
        for j in tl.static_range(1, D):
            s = tl.load(here + j * stride)
            value = value + s[:, None] * tl.load(weights + own * D + j)[None, :]
        total += ((value >= cut[None, :]) & valid[:, None]).to(tl.int32)
    if tl.program_id(1) * TILE < length:
        found = tl.sum(total, axis=0).to(tl.int64)
        tl.atomic_add(counts + own, found, mask=column < tl.load(n_members + c))


def count_pairs(
    planes: Any, weights: FloatArray, thresholds: FloatArray, cells: Cells, brackets: Brackets
) -> Any:
    """Return ``#{pairs : combine(s, w) >= t(w)}`` for every weight vector, int64 tensor (M,).

    Parameters as in `conformix.kernels.torch_counts.count_pairs`.
    """
    torch = torch_module()
    d, n_pairs = planes.shape
    n_cells, width = cells.members.shape
    wide = max(16, triton.next_power_of_2(width))
    members = planes.new_zeros((n_cells, wide)).long()
    members[:, :width] = to_device(cells.members, planes)
    n_members = to_device(cells.counts, planes)
    ends = torch.stack([to_device(end, planes) for end in (brackets.floor, brackets.ceiling)], 1)
    boxes = [to_device(part, planes) for part in (cells.centre, cells.half, brackets.slope)]
    tests = torch.cat([*boxes, ends], dim=1).contiguous()
    own, cuts = to_device(weights, planes), to_device(thresholds, planes)
    capacity = min(PAIRS, n_pairs)
    lists = torch.empty((n_cells, capacity), dtype=torch.int32, device=planes.device)
    lengths = torch.zeros(n_cells, dtype=torch.int32, device=planes.device)
    sure = torch.zeros(n_cells, dtype=torch.int64, device=planes.device)
    counts = torch.zeros(len(weights), dtype=torch.int64, device=planes.device)
    for first in range(0, n_pairs, PAIRS):
        here = min(PAIRS, n_pairs - first)
        lengths.zero_()
        _sift[(triton.cdiv(here, BLOCK),)](
            planes, planes.stride(0), first, here, tests, n_cells, sure, lengths, lists, capacity,
            D=d, ANCHOR=cells.anchor, BLOCK=BLOCK, num_warps=SIFT_WARPS,
        )  # fmt: skip
        _count[(n_cells, WORKERS)](
            planes, planes.stride(0), first, members, n_members, own, cuts, lengths, lists,
            capacity, counts,
            D=d, WIDTH=wide, TILE=TILE_PAIRS, WORKERS=WORKERS, num_warps=4,
            enable_fp_fusion=False,
        )  # fmt: skip
    return counts.index_add_(0, *_spread(members, n_members, sure))


def _spread(members: Any, n_members: Any, sure: Any) -> tuple[Any, Any]:
    """Return all weights, and for each the pairs that are certainly in throughout its cell."""
    own = torch_module().arange(members.shape[1], device=members.device) < n_members[:, None]
    return members[own], sure[:, None].expand_as(members)[own]
