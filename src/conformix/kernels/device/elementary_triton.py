"""The exponential and the logarithm of `conformix.kernels.elementary` as one CUDA kernel each.

The kernels are compiled without fused products and sums. Their language reads a decimal literal as
a number of single precision in some places, so all but small whole numbers and powers of two come
from a float64 tensor.
"""

# The language of kernels has types of its own.
# mypy: ignore-errors
from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import triton
import triton.language as tl

from conformix.kernels import elementary as host
from conformix.kernels.arrays import torch_module
from conformix.kernels.device.elementary import tables_on

BLOCK = 1024
WARPS = 4

SEGMENTS = tl.constexpr(host.SEGMENTS)
LIFT = tl.constexpr(host.LIFT * host.SEGMENTS)
CENTRES = tl.constexpr(host.CENTRES)
FIRST_BITS = tl.constexpr(host.FIRST_BITS)
FRACTION = tl.constexpr(host.FRACTION)
WITHIN = tl.constexpr(host.WITHIN)
LOW_BITS = tl.constexpr(host.LOW_BITS)
SUBNORMAL_LIFT = tl.constexpr(host.SUBNORMAL_LIFT)

EXP_NUMBERS = (
    host.EXP_LOW, host.EXP_HIGH, host.NEAR_LOW, host.NEAR_HIGH, host.PER_UNIT, host.SHIFT,
    host.STEP, host.STEP_REST, host.E3, host.E4, host.E5, host.E6, host.SMALLEST_NORMAL,
)  # fmt: skip
LOG_NUMBERS = (
    host.SMALLEST_NORMAL, 2.0**host.SUBNORMAL_LIFT, host.LN2_UPPER, host.LN2_REST,
    host.L3, host.L5, host.L6, host.L7, math.inf, math.nan,
)  # fmt: skip


@triton.jit(do_not_specialize=["n"])
def _exp(values, out, n, numbers, root_bits, tails, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(values + at, mask=at < n, other=0.0)
    x = tl.where(x < tl.load(numbers), tl.load(numbers), x)
    x = tl.where(x > tl.load(numbers + 1), tl.load(numbers + 1), x)
    shift = tl.load(numbers + 5)
    shifted = x * tl.load(numbers + 4) + shift
    k = shifted.to(tl.int64, bitcast=True)
    turns = shifted - shift
    r = (x - turns * tl.load(numbers + 6)) - turns * tl.load(numbers + 7)
    place = k & (SEGMENTS - 1)
    square = r * r
    high = (tl.load(numbers + 9) + r * tl.load(numbers + 10)) + square * tl.load(numbers + 11)
    series = (0.5 + r * tl.load(numbers + 8)) + square * high
    c = r + (tl.load(tails + place) + square * series)
    base = tl.load(root_bits + place)
    turn = k - place
    scale = (base + (turn << 45)).to(tl.float64, bitcast=True)
    near = scale + scale * c
    small = x < 0.0
    lift = tl.where(small, turn + LIFT, turn - SEGMENTS)
    lifted = (base + (lift << 45)).to(tl.float64, bitcast=True)
    more = lifted * c
    total = lifted + more
    lost = (lifted - total) + more
    above = 1.0 + total
    once = (above + (((1.0 - above) + total) + lost)) - 1.0
    low = tl.where(total < 1.0, once, total) * tl.load(numbers + 12)
    far = tl.where(small, low, total * 2.0)
    inside = (x >= tl.load(numbers + 2)) & (x <= tl.load(numbers + 3))
    tl.store(out + at, tl.where(inside, near, far), mask=at < n)


@triton.jit(do_not_specialize=["n"])
def _log(values, out, n, numbers, inverses, logs, logs_rest, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    given = tl.load(values + at, mask=at < n, other=1.0)
    subnormal = given < tl.load(numbers)
    bits = tl.where(subnormal, given * tl.load(numbers + 1), given).to(tl.int64, bitcast=True)
    offset = bits - FIRST_BITS
    place = (offset >> WITHIN) & (CENTRES - 1)
    exponent = offset >> FRACTION
    m_bits = bits - (exponent << FRACTION)
    m = m_bits.to(tl.float64, bitcast=True)
    upper = (m_bits - (m_bits & LOW_BITS)).to(tl.float64, bitcast=True)
    c = tl.load(inverses + place)
    first = upper * c - 1.0
    second = (m - upper) * c
    r = first + second
    r_rest = second - (r - first)
    e = tl.where(subnormal, exponent - SUBNORMAL_LIFT, exponent).to(tl.float64)
    h = e * tl.load(numbers + 2) + tl.load(logs + place)
    rest = e * tl.load(numbers + 3) + tl.load(logs_rest + place)
    square = r * r
    high = (r * tl.load(numbers + 7) - tl.load(numbers + 6)) - square * 0.125
    series = (-0.5 + r * tl.load(numbers + 4)) + square * (
        (-0.25 + r * tl.load(numbers + 5)) + square * high
    )
    total = h + r
    lost = r - (total - h)
    y = total + (lost + (rest + (r_rest + square * series)))
    infinity = tl.load(numbers + 8)
    positive = (given > 0.0) & (given < infinity)
    beyond = tl.where(given > 0.0, given, tl.load(numbers + 9))
    outside = tl.where(given == 0.0, -infinity, beyond)
    tl.store(out + at, tl.where(positive, y, outside), mask=at < n)


def exp(values: Any) -> Any:
    """Return exp of a float64 tensor on a CUDA device."""
    tables = tables_on(values.device)
    numbers = _constants(EXP_NUMBERS, values.device)
    return _launched(_exp, values, numbers, tables.root_bits, tables.tails)


def log(values: Any) -> Any:
    """Return log of a float64 tensor on a CUDA device."""
    tables = tables_on(values.device)
    numbers = _constants(LOG_NUMBERS, values.device)
    return _launched(_log, values, numbers, tables.inverses, tables.logs, tables.logs_rest)


@cache
def _constants(numbers: tuple[float, ...], device: Any) -> Any:
    return torch_module().as_tensor(np.array(numbers), device=device)


def _launched(kernel: Any, values: Any, *tables: Any) -> Any:
    numbers = values.contiguous()
    out = torch_module().empty_like(numbers)
    if n := numbers.numel():
        with torch_module().cuda.device(values.device):
            kernel[(triton.cdiv(n, BLOCK),)](
                numbers, out, n, *tables, BLOCK=BLOCK, num_warps=WARPS, enable_fp_fusion=False
            )
    return out
