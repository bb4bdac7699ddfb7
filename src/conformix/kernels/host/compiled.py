"""Kernels compiled by numba at their first call, and kept on disk where there is room for that.

numba keeps what it compiled beside the source, or in the user's cache folder; where neither can be
written (a read-only installation without a home) it refuses to decorate at all. Such a process
compiles for itself: slower to start, the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Return the function as machine code that releases the interpreter lock."""
    jit: Any = numba.njit  # typed in some of its releases only
    try:
        return jit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder to keep it in
        return jit(nogil=True)(function)
