"""NumPy's sort of a row, for compiled loops: called where it is, without the interpreter.

NumPy tells programs in C where the functions of a type are (`PyArray_ArrFuncs` of its C-API, which
stays as it is within a major release; others are not asked). Threads whose loops call the sort
there need not wait for each other between rows, as those do who come back to Python for
`numpy.sort`. Where the address is not known, numba's own sort is called.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from importlib import import_module
from typing import Any

import numba
import numba.extending
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.np import arrayobj

# Typed in some releases of numba only.
intrinsic: Any = numba.extending.intrinsic
make_array: Any = arrayobj.make_array

# Where NumPy 2 has the function that returns the functions of a type, and NumPy 1 these, in bytes
# from the start of a type; the first sort is the quick one.
FUNCTIONS_OF_TYPE, FUNCTIONS_IN_TYPE, QUICK_SORT = 365, 64, 33

# Whether NumPy sorts long runs of numbers sooner than digits do, which need no comparisons: by
# AVX-512, whose way of packing numbers is slow on Zen 4. Runs up to `SHORT_RUN` do without it.
CPU: Any = binding.get_host_cpu_name()
SORTS_WIDE = bool(binding.get_host_cpu_features().get("avx512dq")) and CPU != "znver4"
BY_DIGITS, SHORT_RUN = CPU == "znver4", 256

# Whoever sorts numbers needs no array around them, but may be given one.
HOME = np.empty(0)


@cache
def address(dtype: Any) -> int:
    """Return where the sort of contiguous numbers of a type is.

    Examples
    --------
    >>> address(np.dtype(np.float64)) == address(np.dtype(np.float32))
    False
    """
    found = of_numpy(dtype)
    if found is not None and _sorts(found, dtype):
        return found
    own = _own(dtype)
    return int(own.address)


def of_numpy(dtype: Any) -> int | None:
    """Return where NumPy's sort is; None where this NumPy, or Python, does not say."""
    release = int(np.__version__.split(".")[0])
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    pointers = ctypes.POINTER(ctypes.c_void_p)
    if release == 1:
        functions = ctypes.c_void_p.from_address(id(dtype) + FUNCTIONS_IN_TYPE).value
    elif release == 2:
        table_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
        table_of.restype, table_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        module: Any = import_module("numpy._core._multiarray_umath")
        table = ctypes.cast(table_of(module._ARRAY_API, None), pointers)
        functions_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)
        functions = functions_of(table[FUNCTIONS_OF_TYPE])(dtype)
    else:
        return None
    return ctypes.cast(functions, pointers)[QUICK_SORT] if functions else None


def _sorts(there: int, dtype: Any) -> bool:
    """Whether what is at an address sorts."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)
    values = np.random.default_rng(0).random(300).astype(dtype)
    expected = np.sort(values)
    kind(there)(values.ctypes.data, len(values), id(HOME))
    return bool((values == expected).all())


@cache
def _own(dtype: Any) -> Any:
    """Return numba's sort of a type, for those who call from C."""
    of_type = numba.from_dtype(dtype)  # type: ignore[no-untyped-call]
    pointer, size = types.CPointer(of_type), types.intp  # type: ignore[no-untyped-call]

    @numba.cfunc(types.int32(pointer, size, types.voidptr))  # type: ignore[untyped-decorator]
    def sort(start: Any, length: int, _: Any) -> int:
        numba.carray(start, length).sort()  # type: ignore[attr-defined]
        return 0

    return sort


@intrinsic  # type: ignore[untyped-decorator]
def sort_row(typing_context: Any, there: Any, row: Any, home: Any) -> Any:
    """Sort the contiguous numbers of a row in their place, by what is at an address.

    `home` is the address of some array.
    """

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there, row, home = arguments
        array = make_array(signature.args[1])(context, builder, row)
        anything, size = ir.IntType(8).as_pointer(), ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [anything, size, anything])
        function = builder.inttoptr(there, kind.as_pointer())
        start = builder.bitcast(array.data, anything)
        length = builder.extract_value(array.shape, 0)
        builder.call(function, [start, length, builder.inttoptr(home, anything)])
        return context.get_dummy_value()

    return types.void(types.int64, row, types.int64), code
