"""Waiting awake: a thread that sleeps between two calls of a fit wakes up too late for the second.

To put a thread to sleep and to wake it takes a tenth of a millisecond, and some systems then let it
share a core with whoever woke it: as long as many calls of a fit take. So a thread looks at a flag
for a while, without the interpreter lock, before it sleeps.
"""

from __future__ import annotations

import platform
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.np import arrayobj

from conformix.kernels.host.compiled import compiled

# Typed in some releases of numba only.
intrinsic: Any = numba.extending.intrinsic
make_array: Any = arrayobj.make_array
# Whether the processor is an x86, which can be told that a loop waits.
_HAS_PAUSE = platform.machine().lower() in {"x86_64", "amd64"}


@intrinsic  # type: ignore[untyped-decorator]
def _read(typing_context: Any, flag: Any) -> Any:
    """Return ``flag[0]`` as it is now: a plain read would be made once, before the loop."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(flag), code


@intrinsic  # type: ignore[untyped-decorator]
def _pause(typing_context: Any) -> Any:
    """Tell the processor that this is a loop that waits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _HAS_PAUSE:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", fnty=kind), [])
        return context.get_dummy_value()

    return types.void(), code


@compiled
def is_set(flag: Any, looks: int) -> bool:
    """Return whether ``flag[0]`` differs from zero within so many looks at it."""
    for _ in range(looks):
        if _read(flag) != 0:
            return True
        _pause()
    return False
