"""Products of rows of small whole numbers, exact, at twice the speed of float32.

A processor multiplies sixteen pairs of 16-bit numbers and adds neighbours up to eight 32-bit ones
in one step, where it multiplies eight pairs of float32, or twice as many of both. Nothing of NumPy
or BLAS does that, and the compiler does not find it in a plain loop. `_dots` says it in a form that
LLVM knows on every processor, with nothing of any one: vectors, a product, and the sum of its even
and its odd places.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba.extending
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import allocating, compiled

FEATURES = binding.get_host_cpu_features()


def target() -> tuple[str, str]:
    """Return the name and the features of the processor that numba compiles for.

    By these it keeps what it has compiled, and they may be those of another processor
    (NUMBA_CPU_NAME): all that read the same code must agree on what is frozen in it.
    """
    name, features = (getattr(config, which, None) for which in ("CPU_NAME", "CPU_FEATURES"))
    here: Any = get_host_cpu_features
    return (
        str(binding.get_host_cpu_name() if name is None else name),
        str(here() if features is None else features),
    )


# Numbers in a vector: 512 bits, or 256 where longer ones take twice as long (as on Zen 4).
LANES = 32 if "+avx512bw" in target()[1].split(",") and target()[0] != "znver4" else 16
# Typed in some releases of numba only.
code: Any = cgutils
intrinsic: Any = numba.extending.intrinsic
# Rows and columns whose products are added up side by side: what is read of one serves four.
TILE = 4
# Rows of the matrix that the nearest cache holds while all patterns come by.
AT_ONCE = 12


@cache
def are_quick() -> bool:
    """Whether this machine has such a step; others multiply in float32, to the same bits.

    Earlier releases of LLVM, as numba has them before 0.62, do not know the form.
    """
    knows = binding.llvm_version_info[0] >= 20 and not getattr(config, "DISABLE_JIT", 0)
    return bool(knows and FEATURES.get("avx2", False))


def width_of(n_classes: int) -> int:
    """Return the length of a row, filled up with zeros to whole vectors.

    Rows whose lengths are multiples of 512 would share few places of a cache: they are longer.
    """
    width = -(-n_classes // LANES) * LANES
    return width + LANES if width % 512 == 0 else width


def _sums_of_tile(context: Any, builder: Any, kinds: Any, arguments: Any) -> list[Any]:
    """Return the products of four rows of one array with four of another, one row after the other.

    In vectors of 32-bit numbers. The arguments are an array, the numbers of four rows, another
    array, those of its rows; arrays are int16 (., width), and no sum is beyond 2^31.
    """
    place, half = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES // 2)
    pairs, wide = (ir.VectorType(ir.IntType(bits), LANES) for bits in (16, 32))
    some, other = (context.make_array(kinds[k])(context, builder, arguments[k]) for k in (0, 2))
    width = code.unpack_tuple(builder, some.shape, 2)[1]

    def start(array: Any, chosen: Any, k: int) -> Any:
        row = builder.extract_value(chosen, k)
        return builder.gep(array.data, [builder.mul(row, width)])

    def read(row: Any, at: Any) -> Any:
        there = builder.bitcast(builder.gep(row, [at]), pairs.as_pointer())
        return builder.sext(builder.load(there, align=2), wide)

    def neighbours(one: Any, two: Any = None) -> Any:
        """Return the sums of neighbours, those of a second vector after the first one's."""
        n = one.type.count * (1 if two is None else 2) // 2
        two = ir.Constant(one.type, ir.Undefined) if two is None else two
        even, odd = (
            builder.shuffle_vector(one, two, ir.VectorType(ir.IntType(32), n)(places))
            for places in (list(range(0, 2 * n, 2)), list(range(1, 2 * n, 2)))
        )
        return builder.add(even, odd)

    lefts = [start(some, arguments[1], k) for k in range(TILE)]
    rights = [start(other, arguments[3], k) for k in range(TILE)]
    zero = ir.Constant(half, None)
    totals = [code.alloca_once_value(builder, zero) for _ in range(TILE * TILE)]
    bounds = place(0), width, place(LANES)
    with code.for_range_slice(builder, *bounds, place) as (at, _):
        ours, theirs = [read(row, at) for row in lefts], [read(row, at) for row in rights]
        for k, total in enumerate(totals):
            product = builder.mul(ours[k // TILE], theirs[k % TILE], flags=["nsw"])
            builder.store(builder.add(builder.load(total), neighbours(product)), total)
    found = [builder.load(total) for total in totals]
    while len(found) > TILE * TILE // half.count:
        found = [neighbours(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
    return found


@intrinsic  # type: ignore[untyped-decorator]
def _dots(typing: Any, left: Any, rows: Any, right: Any, columns: Any, sums: Any) -> Any:
    """Write the products of four rows of `left` with four of `right` to `sums`, (16,) of int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out = context.make_array(signature.args[4])(context, builder, arguments[4])
        for k, values in enumerate(_sums_of_tile(context, builder, signature.args, arguments)):
            there = builder.gep(out.data, [ir.IntType(64)(k * LANES // 2)])
            there = builder.bitcast(there, values.type.as_pointer())
            builder.store(values, there, align=4)
        return context.get_dummy_value()

    return types.void(left, rows, right, columns, sums), generate


@intrinsic  # type: ignore[untyped-decorator]
def _put_dots(
    typing: Any, left: Any, rows: Any, right: Any, columns: Any, unit: Any, fresh: Any, out: Any,
    places: Any,
) -> Any:  # fmt: skip
    """Add the same, in a unit, to `out`, float64 (., m): or write them, where there is nothing yet.

    To four rows of it at `places`, and the columns from the first one of `columns` on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = _sums_of_tile(context, builder, signature.args, arguments)
        one, is_fresh = arguments[4], arguments[5]
        array = context.make_array(signature.args[6])(context, builder, arguments[6])
        line = code.unpack_tuple(builder, array.shape, 2)[1]
        first = builder.extract_value(arguments[3], 0)
        four = ir.VectorType(ir.DoubleType(), TILE)
        units = ir.Constant(four, ir.Undefined)
        for k in range(TILE):
            units = builder.insert_element(units, one, ir.IntType(32)(k))
        for a in range(TILE):
            vector, start = divmod(TILE * a, LANES // 2)
            mask = ir.Constant(
                ir.VectorType(ir.IntType(32), TILE), [start + k for k in range(TILE)]
            )
            sums = builder.shuffle_vector(found[vector], found[vector], mask)
            values = builder.fmul(builder.sitofp(sums, four), units)
            place = builder.mul(builder.extract_value(arguments[7], a), line)
            there = builder.gep(array.data, [builder.add(place, first)])
            there = builder.bitcast(there, four.as_pointer())
            more = builder.fadd(builder.load(there, align=8), values)
            builder.store(builder.select(is_fresh, values, more), there, align=8)
        return context.get_dummy_value()

    kinds = left, rows, right, columns, types.float64, types.boolean, out, places
    return types.void(*kinds), generate


@compiled
def patterns_in_units(values: Any, unit: float, out: Any) -> None:
    """Write float32 multiples (n, K) of a unit to `out`, int16 (n, width), and zeros after them."""
    n, n_classes = values.shape
    units = 1.0 / unit  # in one: the unit is a power of two
    for i in range(n):
        for k in range(n_classes):
            out[i, k] = np.int16(np.float64(values[i, k]) * units)
        for k in range(n_classes, out.shape[1]):
            out[i, k] = 0


@compiled
def factors_in_units(
    values: FloatArray, shifts: tuple[float, float], unit: float, out: Any
) -> None:
    """Write numbers (m, K), rounded to multiples of a unit, in the same way.

    `shifts` are what is added and taken away to round: to the multiples that others have taken out
    of them, or 0 where nobody has, and to those of the unit.
    """
    n, n_classes = values.shape
    coarse, fine = shifts
    units = 1.0 / unit
    for i in range(n):
        for k in range(n_classes):
            value = values[i, k]
            if coarse != 0.0:
                value -= (value + coarse) - coarse
            out[i, k] = np.int16(((value + fine) - fine) * units)
        for k in range(n_classes, out.shape[1]):
            out[i, k] = 0


@allocating
def add_products(left: Any, right: Any, unit: float, mirrored: bool, out: FloatArray) -> None:
    """Add the products of all rows of `left` with all of `right`, in a unit, to `out` (n, m).

    Where both are the same rows, one half may be computed, and `mirrored`.
    """
    n, m = out.shape
    sums = np.empty(TILE * TILE, np.int32)
    for first in range(0, m, AT_ONCE):
        for i in range(first if mirrored else 0, n, TILE):
            # Where fewer than four are left the last one comes again, and is not added.
            rows = i, min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
            last = min(i + TILE, m) if mirrored else m
            for j in range(first, min(first + AT_ONCE, last), TILE):
                columns = j, min(j + 1, m - 1), min(j + 2, m - 1), min(j + 3, m - 1)
                if i + TILE <= n and j + TILE <= m and not mirrored:
                    _put_dots(left, rows, right, columns, unit, False, out, rows)
                else:
                    _dots(left, rows, right, columns, sums)
                    for a in range(min(TILE, n - i)):
                        for b in range(min(TILE, m - j)):
                            out[i + a, j + b] += unit * sums[TILE * a + b]
                if mirrored and j < i:
                    for a in range(min(TILE, n - i)):
                        for b in range(TILE):
                            out[j + b, i + a] += unit * sums[TILE * a + b]
