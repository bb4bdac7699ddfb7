"""Where numbers live: tensors at the door, checked on their own device.

The sentences of refusals are written once, for arrays (`conformix.data.outputs`). Here one number
per block says whether all is well; only a block that is not goes to the host, where its fault is
named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import is_tensor, plain_tensor, to_host, torch_module


def common_home(named: Mapping[str, Any], name: str) -> Any:
    """Return the device that all tensors share; None where all are arrays.

    Examples
    --------
    >>> common_home({"vgg": np.zeros((2, 3))}, "outputs") is None
    True
    """
    homes = {key: value.device if is_tensor(value) else None for key, value in named.items()}
    if len(set(homes.values())) <= 1:
        return next(iter(homes.values()))
    told = ", ".join(f"{key!r} {place(home)}" for key, home in homes.items())
    raise InvalidInput(
        f"{name} of several models must be in one place; got {told} (move them with .to(device))."
    )


def on_host(outputs: Any) -> Any:
    """Return the outputs of one or several models with every tensor as an array of the host.

    For estimators that work row by row or fold by fold, where a device has nothing to gain.

    Examples
    --------
    >>> on_host([[0.5, 0.5]])
    [[0.5, 0.5]]
    """
    if is_tensor(getattr(outputs, "logits", None)):
        outputs = outputs.logits
    if isinstance(outputs, Mapping):
        return {key: to_host(value) for key, value in outputs.items()}
    if isinstance(outputs, list | tuple):
        return [to_host(value) for value in outputs]
    return to_host(outputs)


def place(home: Any) -> str:
    """Return where something is, for people."""
    return "in a NumPy array" if home is None else f"on {home}"


def dense_and_real(tensor: Any, name: str) -> Any:
    """Return a tensor without its history, or say why it cannot be read as numbers."""
    plain = plain_tensor(tensor, name)
    if tensor.is_complex() or str(tensor.dtype) == "torch.bool":
        raise InvalidInput(f"{name} must hold real numbers; got dtype {tensor.dtype}.")
    return plain


def is_half(values: Any) -> bool:
    """Whether numbers are of half precision, whose sums are coarser.

    Examples
    --------
    >>> is_half(np.zeros(3, dtype=np.float16))
    True
    """
    if is_tensor(values):
        return bool(values.is_floating_point() and values.element_size() <= 2)
    return getattr(values, "dtype", None) == np.float16


def is_suspect(block: Any, *, probabilities: bool, tolerance: float) -> bool:
    """Whether a block (rows, K) on a device may be wrong: one answer, worked out there."""
    wide = block.double()
    fine = wide.isfinite().all()
    if probabilities:
        fine = fine & (wide >= 0).all() & (wide <= 1 + tolerance).all()
        fine = fine & ((wide.sum(dim=1) - 1).abs() <= tolerance).all()
    return not bool(fine)


def all_finite(tensor: Any) -> bool:
    """Whether all numbers on a device are finite: one pass, row by row where the sum overflows."""
    return bool(tensor.sum().isfinite()) or all(bool(row.isfinite().all()) for row in tensor)


def as_wide(tensor: Any) -> Any:
    """Return float32 and float64 tensors as they are, all others as float64."""
    torch = torch_module()
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.double()
