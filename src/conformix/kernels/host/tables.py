"""Rows of small tables, read for four numbers at once.

A processor gathers slowly: one entry of one table after the other. Here the entries that a number
asks for lie side by side and are read in one step, and four such rows are turned over to columns.
In a form that LLVM knows on every processor, with nothing of any one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from conformix.kernels.arrays import FloatArray

code: Any = cgutils  # typed in some releases of numba only
AT_ONCE = 4


def reader(table: FloatArray, shift: int) -> Any:
    """Return what reads the rows of a table (2^b, m) that the bits of four numbers ask for.

    ``read(numbers, at, room)`` takes the bits `shift` to ``shift + b`` of ``numbers[at : at + 4]``
    for the number of a row, and writes its entries to ``room[:m, at : at + 4]``. Both are float64
    arrays with four numbers there, whatever these are.
    """
    n, width = table.shape
    stride = 1 << (width - 1).bit_length()
    filled = np.zeros((n, stride))
    filled[:, :width] = table

    def written(typing: Any, numbers: Any, at: Any, room: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, double = ir.IntType(64), ir.DoubleType()
            whole, four = (ir.VectorType(one, AT_ONCE) for one in (place, double))
            given, out = (
                context.make_array(signature.args[k])(context, builder, arguments[k])
                for k in (0, 2)
            )
            kept = ir.Constant(ir.ArrayType(double, filled.size), filled.ravel().tolist())
            rows = code.global_constant(builder, "table", kept)
            rows.align = 8 * stride

            def at_place(data: Any, where: Any, kind: Any) -> Any:
                return builder.bitcast(builder.gep(data, [where]), kind.as_pointer())

            def mixed(pair: list[Any], places: list[int]) -> Any:
                mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)
                return builder.shuffle_vector(*pair, mask)

            bits = builder.load(at_place(given.data, arguments[1], whole), align=8)
            bits = builder.lshr(bits, ir.Constant(whole, [shift] * AT_ONCE))
            bits = builder.and_(bits, ir.Constant(whole, [n - 1] * AT_ONCE))
            starts = builder.mul(bits, ir.Constant(whole, [stride] * AT_ONCE))
            first = builder.bitcast(rows, double.as_pointer())
            found = []
            for k in range(AT_ONCE):
                start = builder.extract_element(starts, ir.Constant(ir.IntType(32), k))
                row = at_place(first, start, ir.VectorType(double, stride))
                found.append(builder.load(row, align=8 * stride))
            halves = [mixed(found[k : k + 2], list(range(2 * stride))) for k in (0, 2)]
            line = code.unpack_tuple(builder, out.shape, 2)[1]
            for column in range(width):
                entries = mixed(halves, [k * stride + column for k in range(AT_ONCE)])
                there = builder.add(builder.mul(line, place(column)), arguments[1])
                builder.store(entries, at_place(out.data, there, four), align=8)
            return context.get_dummy_value()

        return types.void(numbers, at, room), generate

    read: Any = intrinsic(written)
    return read
