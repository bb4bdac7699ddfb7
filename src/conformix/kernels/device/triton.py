"""`conformix.kernels.device.engine.count_pairs` as fused CUDA kernels.

`_sift_all` reads a block of pairs once and compares it with all wide cells; the undecided go to
lists of the cell, which `_sift_lists` compares with the narrow cells inside of it. `_count`
combines what is left on the lists of a narrow cell with its weights. Fused products and sums would
round once where `combine` rounds twice, so `_count` is compiled without them; bounds have slack
enough for either. Lists fill in any order, but what is counted are integers.

Programs that add to one number wait for each other, so every cell has `LANES` counters and lists;
a program uses those of its lane.
"""

# The language of kernels has types of its own.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import triton
import triton.language as tl

from conformix.kernels.arrays import FloatArray, to_device, torch_module
from conformix.kernels.device.cells import Brackets, Cells

# At most so many wide and narrow cells.
CELLS = (32, 256)
# Pairs per launch: the lists of a cell can hold all of them.
PAIRS = 2**21
LANES = 32
BLOCK = 128
SIFT_WARPS = 1
# Comparisons that one program of `_count` holds at once.
TILE = 4096
COUNT_WARPS = 4
STAGES = 3  # tiles whose pairs are on their way
# Programs that share a list; most lists are short, and some hold nearly all pairs.
SIFT_WORKERS = 64
COUNT_WORKERS = 8

# Numbers that happen to be 1 would otherwise be compiled in, as numbers without a type.
PLAIN = ["stride", "first", "n_pairs", "n_cells", "room"]


@triton.jit
def _compare(
    here, stride, local, valid, lane, begin, end, tests, sure, lengths, lists, room,
    D: tl.constexpr, ANCHOR: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compare pairs with the cells from `begin` to `end`.

    ``tests[c]`` holds centre, half and slope (d each), then the middle and half the width of the
    bracket: a pair is in where ``value >= radius``, out where ``-value > radius``.
    """
    base = tl.zeros([BLOCK], tl.float64)
    if ANCHOR >= 0:
        base = tl.load(here + ANCHOR * stride, mask=valid, other=0.0)
    s0 = tl.load(here, mask=valid, other=0.0) - base
    s1 = tl.load(here + (1 if D > 1 else 0) * stride, mask=valid, other=0.0) - base
    s2 = tl.load(here + (2 if D > 2 else 0) * stride, mask=valid, other=0.0) - base
    s3 = tl.load(here + (3 if D > 3 else 0) * stride, mask=valid, other=0.0) - base
    for c in range(begin, end):
        test = tests + c * (3 * D + 2)
        value = base - tl.load(test + 3 * D)
        radius = tl.zeros([BLOCK], tl.float64) + tl.load(test + 3 * D + 1)
        for j in tl.static_range(D):
            if j != ANCHOR:
                if j == 0:
                    s = s0
                elif j == 1:
                    s = s1
                elif j == 2:
                    s = s2
                elif j == 3:
                    s = s3
                else:
                    s = tl.load(here + j * stride, mask=valid, other=0.0) - base
                value += s * tl.load(test + j)
                radius += tl.abs(s - tl.load(test + 2 * D + j)) * tl.load(test + D + j)
        inside = (value >= radius) & valid
        undecided = (valid & ~(inside | (-value > radius))).to(tl.int32)
        both = tl.sum(inside.to(tl.int32) + (undecided << 16), axis=0)
        n_inside = both & 0xFFFF
        n_undecided = both >> 16
        own = c * LANES + lane
        if n_inside > 0:
            tl.atomic_add(sure + own, n_inside.to(tl.int64))
        if n_undecided > 0:
            start = tl.atomic_add(lengths + own, n_undecided)
            place = tl.cumsum(undecided, axis=0) - undecided
            target = lists + own.to(tl.int64) * room + start + place
            tl.store(target, local, mask=undecided > 0)


@triton.jit(do_not_specialize=PLAIN)
def _sift_all(
    planes, stride, first, n_pairs, n_cells, tests, sure, lengths, lists, room,
    D: tl.constexpr, ANCHOR: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compare a block of pairs with all cells."""
    local = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = planes + first.to(tl.int64) + local
    _compare(
        here, stride.to(tl.int64), local, local < n_pairs, tl.program_id(0) % LANES, 0, n_cells,
        tests, sure, lengths, lists, room, D, ANCHOR, BLOCK, LANES,
    )  # fmt: skip


@triton.jit(do_not_specialize=PLAIN)
def _sift_lists(
    planes, stride, first, above_lengths, above_lists, starts, tests, sure, lengths, lists, room,
    D: tl.constexpr, ANCHOR: tl.constexpr, BLOCK: tl.constexpr, LANES: tl.constexpr,
    WORKERS: tl.constexpr,
):  # fmt: skip
    """Compare the pairs on one list of a wide cell with the narrow cells inside of it."""
    lane = tl.program_id(1)
    own = tl.program_id(0) * LANES + lane
    length = tl.load(above_lengths + own)
    begin = tl.load(starts + tl.program_id(0))
    end = tl.load(starts + tl.program_id(0) + 1)
    for start in range(tl.program_id(2) * BLOCK, length, WORKERS * BLOCK):
        place = start + tl.arange(0, BLOCK)
        valid = place < length
        local = tl.load(above_lists + own.to(tl.int64) * room + place, mask=valid, other=0)
        here = planes + first.to(tl.int64) + local
        _compare(
            here, stride.to(tl.int64), local, valid, lane, begin, end, tests, sure, lengths, lists,
            room, D, ANCHOR, BLOCK, LANES,
        )  # fmt: skip


@triton.jit(do_not_specialize=PLAIN)
def _count(
    planes, stride, first, members, n_members, weights, thresholds, lengths, lists, room, counts,
    D: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr,
    WORKERS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Count for the weights of one cell over the pairs of one of its lists."""
    c = tl.program_id(0)
    own_list = c * LANES + tl.program_id(1)
    length = tl.load(lengths + own_list)
    begin = tl.program_id(2) * TILE
    if begin >= length:
        return
    stride = stride.to(tl.int64)
    column = tl.arange(0, WIDTH)
    own = tl.load(members + c * WIDTH + column)
    cut = tl.load(thresholds + own)
    w0 = tl.load(weights + own * D)
    w1 = tl.load(weights + own * D + (1 if D > 1 else 0))
    w2 = tl.load(weights + own * D + (2 if D > 2 else 0))
    w3 = tl.load(weights + own * D + (3 if D > 3 else 0))
    total = tl.zeros([TILE, WIDTH], tl.int32)
    for start in tl.range(begin, length, WORKERS * TILE, num_stages=STAGES):
        place = start + tl.arange(0, TILE)
        valid = place < length
        pair = tl.load(lists + own_list.to(tl.int64) * room + place, mask=valid, other=0)
        here = planes + first.to(tl.int64) + pair
        value = tl.load(here)[:, None] * w0[None, :]
        for j in tl.static_range(1, D):
            if j == 1:
                w = w1
            elif j == 2:
                w = w2
            elif j == 3:
                w = w3
            else:
                w = tl.load(weights + own * D + j)
            value = value + tl.load(here + j * stride)[:, None] * w[None, :]
        total += ((value >= cut[None, :]) & valid[:, None]).to(tl.int32)
    found = tl.sum(total, axis=0).to(tl.int64)
    tl.atomic_add(counts + own, found, mask=column < tl.load(n_members + c))


class Level(NamedTuple):
    """Cells of one width on the device: what is compared, and what is found."""

    tests: Any
    sure: Any
    lengths: Any
    lists: Any

    @classmethod
    def of(cls, cells: Cells, brackets: Brackets, planes: Any, room: int) -> Level:
        """Return a level with nothing found yet."""
        torch = torch_module()
        middle = (brackets.floor + brackets.ceiling) / 2
        half = (brackets.ceiling - brackets.floor) / 2
        tests = np.column_stack([cells.centre, cells.half, brackets.slope, middle, half])
        shape = (len(tests), LANES)
        return cls(
            to_device(tests, planes),
            torch.zeros(shape, dtype=torch.int64, device=planes.device),
            torch.zeros(shape, dtype=torch.int32, device=planes.device),
            torch.empty((*shape, room), dtype=torch.int32, device=planes.device),
        )


def count_pairs(
    planes: Any,
    weights: FloatArray,
    thresholds: FloatArray,
    levels: list[Cells],
    brackets: list[Brackets],
) -> Any:
    """Return what `conformix.kernels.device.engine.count_pairs` does, from two levels of cells."""
    torch = torch_module()
    d, n_pairs = planes.shape
    cells = levels[-1]
    n_wide, (n_cells, width) = len(levels[0].counts), cells.members.shape
    across = max(16, triton.next_power_of_2(width))
    members = planes.new_zeros((n_cells, across)).long()
    members[:, :width] = to_device(cells.members, planes)
    n_members, parents = to_device(cells.counts, planes), to_device(cells.parents, planes)
    starts = to_device(np.searchsorted(cells.parents, np.arange(n_wide + 1)), planes)
    own, cuts = to_device(weights, planes), to_device(thresholds, planes)
    room = triton.cdiv(triton.cdiv(min(PAIRS, n_pairs), BLOCK), LANES) * BLOCK
    wide, narrow = (Level.of(*level, planes, room) for level in zip(levels, brackets, strict=True))
    counts = torch.zeros(len(weights), dtype=torch.int64, device=planes.device)
    shared = {"D": d, "LANES": LANES}
    sift = {"ANCHOR": cells.anchor, "BLOCK": BLOCK, "num_warps": SIFT_WARPS, **shared}
    for first in range(0, n_pairs, PAIRS):
        here = min(PAIRS, n_pairs - first)
        block = planes, planes.stride(0), first
        wide.lengths.zero_()
        narrow.lengths.zero_()
        _sift_all[(triton.cdiv(here, BLOCK),)](*block, here, n_wide, *wide, room, **sift)
        _sift_lists[(n_wide, LANES, SIFT_WORKERS)](
            *block, wide.lengths, wide.lists, starts, *narrow, room, WORKERS=SIFT_WORKERS, **sift
        )
        _count[(n_cells, LANES, COUNT_WORKERS)](
            *block, members, n_members, own, cuts, narrow.lengths, narrow.lists, room, counts,
            WIDTH=across, TILE=max(1, TILE // across), WORKERS=COUNT_WORKERS, STAGES=STAGES,
            num_warps=COUNT_WARPS, enable_fp_fusion=False, **shared,
        )  # fmt: skip
    sure = narrow.sure.sum(dim=1) + wide.sure.sum(dim=1)[parents]
    return counts.index_add_(0, *_spread(members, n_members, sure))


def _spread(members: Any, n_members: Any, sure: Any) -> tuple[Any, Any]:
    """Return all weights, and for each the pairs that are certainly in throughout its cell."""
    own = torch_module().arange(members.shape[1], device=members.device) < n_members[:, None]
    return members[own], sure[:, None].expand_as(members)[own]
