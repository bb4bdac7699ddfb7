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

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from conformix.kernels.arrays import FloatArray
from conformix.kernels.host.compiled import compiled

FEATURES = binding.get_host_cpu_features()
# Numbers in a vector: 512 bits, or 256 where longer ones take twice as long (as on Zen 4).
LANES = 32 if FEATURES.get("avx512bw") and binding.get_host_cpu_name() != "znver4" else 16
code: Any = cgutils  # typed in some releases of numba only
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


def _written(typing: Any, left: Any, rows: Any, right: Any, columns: Any, sums: Any) -> Any:
    """Write the products of four rows of `left` with four of `right` to `sums`, (16,) of int32.

    Both are int16 (., width), row after row; no sum of their products is beyond 2^31.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place, half = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES // 2)
        pairs, wide = (ir.VectorType(ir.IntType(bits), LANES) for bits in (16, 32))
        some, other, out = (
            context.make_array(signature.args[k])(context, builder, arguments[k]) for k in (0, 2, 4)
        )
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
        for k, values in enumerate(found):
            there = builder.gep(out.data, [place(k * LANES // 2)])
            builder.store(values, builder.bitcast(there, half.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(left, rows, right, columns, sums), generate


_dots: Any = intrinsic(_written)


@compiled
def patterns_in_units(values: Any, unit: float, out: Any) -> None:
    """Write float32 multiples (n, K) of a unit to `out`, int16 (n, width), and zeros after them."""
    n, n_classes = values.shape
    for i in range(n):
        for k in range(n_classes):
            out[i, k] = np.int16(np.float64(values[i, k]) / unit)
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
    for i in range(n):
        for k in range(n_classes):
            value = values[i, k]
            if coarse != 0.0:
                value -= (value + coarse) - coarse
            out[i, k] = np.int16(((value + fine) - fine) / unit)
        for k in range(n_classes, out.shape[1]):
            out[i, k] = 0


@compiled
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
                _dots(left, rows, right, columns, sums)
                if i + TILE <= n and j + TILE <= m:  # for the compiler: the lengths are known
                    for a in range(TILE):
                        for b in range(TILE):
                            out[i + a, j + b] += unit * sums[TILE * a + b]
                else:
                    for a in range(min(TILE, n - i)):
                        for b in range(min(TILE, m - j)):
                            out[i + a, j + b] += unit * sums[TILE * a + b]
                if mirrored and j < i:
                    for a in range(min(TILE, n - i)):
                        for b in range(TILE):
                            out[j + b, i + a] += unit * sums[TILE * a + b]
