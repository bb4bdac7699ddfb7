"""Waiting awake: a thread that looks at a flag, without the interpreter lock.

Now and then it lets others go first who want its core: whoever it waits for may be one of them.
"""

from __future__ import annotations

import os
import platform
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from conformix.kernels.host.compiled import compiled

# Typed in some releases of numba only.
intrinsic: Any = numba.extending.intrinsic
make_array: Any = arrayobj.make_array
declared: Any = cgutils.get_or_insert_function

# Looks between two that let others go first (a microsecond or two).
PATIENCE = 64


@intrinsic  # type: ignore[untyped-decorator]
def _read(typing_context: Any, flag: Any) -> Any:
    """Return ``flag[0]`` as it is now: a plain read may be made once, before a loop."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(flag), code


@intrinsic  # type: ignore[untyped-decorator]
def _pause(typing_context: Any) -> Any:
    """Tell an x86 that this is a loop that waits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine().lower() in {"x86_64", "amd64"}:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(declared(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), code


@intrinsic  # type: ignore[untyped-decorator]
def _give_way(typing_context: Any) -> Any:
    """Let a thread run that waits for this core, where the system is a POSIX one."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if os.name == "posix":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(declared(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), code


@compiled
def is_set(flag: Any, looks: int) -> bool:
    """Return whether ``flag[0]`` differs from zero within so many looks at it."""
    for look in range(looks):
        if _read(flag) != 0:
            return True
        if look % PATIENCE == 0:
            _give_way()
        _pause()
    return False
