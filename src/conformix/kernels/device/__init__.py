"""The same counts on a device: PyTorch, and Triton where it pays; products and sums unfused."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def fused(name: str, like: Any) -> Any:
    """Return the Triton kernels `name` for CUDA tensors such as this; None where there is none."""
    if like.device.type != "cuda":
        return None
    try:
        return import_module(f"conformix.kernels.device.{name}")
    except ImportError:
        return None
