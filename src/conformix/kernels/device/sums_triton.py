"""Running sums down the columns of a matrix as one CUDA kernel: a program walks down some columns.

There are sums alone, and nothing that could be fused.
"""

# The language of kernels has types of its own.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from conformix.kernels.arrays import torch_module

BLOCK = 64
WARPS = 2


@triton.jit(do_not_specialize=["n_rows", "n_columns"])
def _add_up(values, n_rows, n_columns, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n_columns
    total = tl.load(values + at, mask=inside, other=0.0)
    for row in range(1, n_rows):
        place = values + row.to(tl.int64) * n_columns + at
        total = total + tl.load(place, mask=inside, other=0.0)
        tl.store(place, total, mask=inside)


def add_up(columns: Any) -> None:
    """Replace a contiguous float64 tensor (K, n) by the running sums of its columns."""
    n_rows, n_columns = columns.shape
    if n_rows and n_columns:
        with torch_module().cuda.device(columns.device):
            _add_up[(triton.cdiv(n_columns, BLOCK),)](
                columns, n_rows, n_columns, BLOCK=BLOCK, num_warps=WARPS
            )
