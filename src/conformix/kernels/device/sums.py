"""Running sums of rows on a device, one addition after the other, as the host adds.

A parallel scan would add in another order and round differently. Rows are many: all of them take
their next step at the same time.
"""

from __future__ import annotations

from typing import Any

from conformix.kernels.arrays import torch_module
from conformix.kernels.device import fused


def running_sums(rows: Any) -> Any:
    """Return ``numpy.cumsum(rows, axis=1)`` of a float64 tensor (n, K), bit for bit.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> running_sums(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64))
    tensor([[1., 3., 6.]], dtype=torch.float64)
    """
    columns = rows.T.contiguous()  # neighbouring rows are neighbours in memory
    kernel = fused("sums_triton", rows)
    if kernel is not None:
        kernel.add_up(columns)
    else:
        for k in range(1, len(columns)):
            torch_module().add(columns[k - 1], columns[k], out=columns[k])
    return columns.T.contiguous()
