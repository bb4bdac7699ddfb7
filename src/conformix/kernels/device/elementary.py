"""`conformix.kernels.elementary` for tensors: PyTorch operation by operation, or one Triton kernel.

Separate PyTorch operations are never fused with each other; ``torch.compile`` would do that and is
not for these functions. Triton is told not to (`conformix.kernels.device.elementary_triton`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from conformix.kernels.arrays import torch_module
from conformix.kernels.device import fused
from conformix.kernels.elementary import Tables, exponential, host_tables, logarithm, sums_of


def exp(values: Any) -> Any:
    """Return exp of a tensor as float64, on its device.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> exp(torch.tensor([0.0, -torch.inf]))
    tensor([1., 0.], dtype=torch.float64)
    """
    kernels = fused("elementary_triton", values)
    numbers = values.double()
    return kernels.exp(numbers) if kernels else exponential(numbers, tables_on(values.device))


def log(values: Any) -> Any:
    """Return log of a tensor as float64, on its device.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> log(torch.tensor([1.0, 0.0]))
    tensor([0., -inf], dtype=torch.float64)
    """
    kernels = fused("elementary_triton", values)
    numbers = values.double()
    return kernels.log(numbers) if kernels else logarithm(numbers, tables_on(values.device))


def softmax(logits: Any) -> Any:
    """Return rows (n, K) of logits as probabilities; see `conformix.kernels.elementary.softmax`.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> softmax(torch.tensor([[0.0, 0.0]]))
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    powers, _ = _powers(logits)
    return powers / sums_of(powers)


def log_sum_exp(logits: Any) -> Any:
    """Return ``log sum exp`` of rows (n, K) of logits, shape (n, 1).

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> log_sum_exp(torch.tensor([[0.0, -torch.inf]]))
    tensor([[0.]], dtype=torch.float64)
    """
    powers, top = _powers(logits)
    return top + log(sums_of(powers))


def _powers(logits: Any) -> tuple[Any, Any]:
    numbers = logits.double()
    top = numbers.amax(dim=1, keepdim=True)
    return exp(numbers - top), top


@cache
def tables_on(device: Any) -> Tables:
    """Return the tables as tensors on a device."""
    torch = torch_module()
    on_host = host_tables()
    arrays = [value for value in on_host if isinstance(value, np.ndarray)]
    tensors = [torch.as_tensor(array.copy(), device=device) for array in arrays]
    return Tables(torch, torch.int64, torch.float64, False, *tensors)
