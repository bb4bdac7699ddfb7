"""What the labels of a row say about each other: patterns, their sums and products, exactly.

A row's pattern is its log-probabilities, floored, centred over the labels and scaled to unit norm.
Matrix products and sums over rows, as BLAS computes them, depend on how many rows come at once and
in which order: the last bits differ between a batch and its rows one by one, and where scores tie
that changes sets. Here all factors are whole multiples of a power of two, so few of them that every
partial sum is a float64 without rounding. Any order, any number of threads, fused or not, on the
host or on a device: the same bits.

- A product is one of two rows of norm one: of patterns in multiples of 2^-12 and of a matrix in
  multiples of 2^-11. With K labels, at most 2^14, rounding adds at most ``sqrt(K) 2^-13 <= 1/64``
  to the norm of the first and, with 1.01 before, ``sqrt(K) 2^-12 <= 1/32`` to that of the second.
  By Cauchy and Schwarz the sum over any of their products is below 1.06, in multiples of 2^-23:
  whole numbers below 2^24, which float32 has without rounding. Hence the host multiplies 16-bit
  numbers, or float32, in a quarter of the time or half. Rounding moves a product by some 2e-4.
- A matrix is kept in multiples of 2^-26, and only rounded where it multiplies. Where what is left
  of a difference counts (`fine_multiplier`) it multiplies as it is: multiples of 2^-38.
- Terms of a sum over rows are at most one, in multiples of 2^-20. Their products are multiples of
  2^-40, and sums over 2^12 rows have 52 bits; such sums are added up as 64-bit integers.
- Squares in a norm, or in a standard deviation, have as many bits as the number of labels leaves
  room for.

Functions take arrays or tensors.
"""

from __future__ import annotations

import operator
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    as_float64,
    is_tensor,
    quotient,
    root,
    to_device,
)
from conformix.kernels.blas import multiplying, run_products, several_products
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    Parts,
    available_threads,
    parts_of_rows,
    rooms,
    row_blocks,
    run_blocks,
    run_parts,
    shares,
    threads_for,
)
from conformix.kernels.cached import cached_property
from conformix.kernels.twins import loops

# The log-probability below which all labels are alike.
FLOOR = -12.0
# The same where only their spread counts, and the bits behind the point that are kept of them.
SPREAD_FLOOR, SPREAD_BITS = -60.0, 12
FACTOR_BITS, SUM_BITS = 26, 20
# Half the bits of a factor, and labels up to which what they leave adds up in 32 bits.
HALF_BITS, MOST_IN_PIECES = 13, 2**13
# Bits behind the point of the two numbers that a product is of: 23 in all.
PATTERN_BITS, MATRIX_BITS = 12, 11
ROWS_AT_ONCE = 2**12
# Zeros after a row of whole numbers, fewer than in two of a processor's longest vectors.
MOST_ZEROS = 64
# Sum of squares of patterns that has room in 31 bits, and rows that surely have no larger one.
SQUARES_AT_ONCE = 127
# Numbers that are added up at once on the host, where that is so many rows or more.
SUMMED_ENTRIES, FEWEST_ROWS = 2**15, 2**8
# Labels up to which 16-bit numbers are added up sooner than BLAS multiplies: by several threads; by
# one where there are some thirty or more.
FEW_LABELS = 2**7
# Products of two numbers that take as long as a logarithm.
AT_A_TIME = 2**6
# Numbers on the host that are rounded and added up at once: the cache holds them.
CACHE_ENTRIES = 2**15
# Rows whose sums, at most one a row in multiples of 2^-40, stay below 2^63.
MOST_ROWS = 2**22


def shift_to(bits: int) -> float:
    """Return what is added and taken away to round to multiples of 2^-bits."""
    return 1.5 * 2.0 ** (52 - bits)


def in_multiples(values: Any, bits: int) -> Any:
    """Return numbers rounded to multiples of 2^-bits; they are below ``2^(51 - bits)``."""
    shift = shift_to(bits)
    return (values + shift) - shift


def norm_bits(n_classes: int, largest: int) -> int:
    """Return the bits behind the point of numbers whose K squares, of mean 4^largest, add up."""
    return (53 - 2 * largest - n_classes.bit_length()) // 2


def unit_bits(n_classes: int) -> int:
    """Return the bits behind the point of numbers up to one in a norm."""
    return min(FACTOR_BITS, norm_bits(n_classes, 0))


def shifts_of(n_classes: int) -> tuple[float, float, float]:
    """Return what rounds floored log-probabilities for a pattern, the pattern, and for a spread."""
    rough = min(SUM_BITS, norm_bits(n_classes, 3))  # a variance between -12 and 0 is at most 36
    spread = min(SPREAD_BITS, norm_bits(n_classes, 6))  # 60^2 is below 4^6
    return shift_to(rough), shift_to(PATTERN_BITS), shift_to(spread)


def patterns(log_probs: Any) -> Any:
    """Return the patterns (n, K) of rows of log-probabilities; zero where all labels are alike.

    ``max(log p, -12)``, less its mean over the labels, over its norm. Of arrays in float32.

    Examples
    --------
    >>> patterns(np.log([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])).round(3)
    array([[ 0.816, -0.408, -0.408],
           [ 0.   ,  0.   ,  0.   ]], dtype=float32)
    """
    rough, fine, _ = shifts_of(int(log_probs.shape[1]))
    loop = None if is_tensor(log_probs) else loops("patterns", log_probs.size)
    if loop is not None:
        out = np.empty(log_probs.shape, dtype=np.float32)
        loop.patterns_into(np.ascontiguousarray(log_probs), FLOOR, (rough, fine), out)
        return out
    values = (log_probs.clip(min=FLOOR) + rough) - rough
    mean = quotient(values.sum(1)[:, None], log_probs.shape[1])
    centred = ((values - mean) + rough) - rough
    return narrow((over_norm(centred) + fine) - fine)


def spreads(log_probs: Any) -> Any:
    """Return the standard deviation (n, 1) over the labels of rows of log-probabilities.

    Of ``max(log p, -60)``, in multiples of 2^-12 or, of very many labels, of fewer bits.

    Examples
    --------
    >>> spreads(np.log([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])).round(3)
    array([[0.327],
           [0.   ]])
    """
    n_classes = int(log_probs.shape[1])
    shift = shifts_of(n_classes)[2]
    loop = None if is_tensor(log_probs) else loops("patterns", log_probs.size)
    if loop is not None:
        sums = np.empty((2, len(log_probs), 1))
        loop.spread_sums_into(np.ascontiguousarray(log_probs), SPREAD_FLOOR, shift, *sums[..., 0])
        total, squares = sums
    else:
        values = (log_probs.clip(min=SPREAD_FLOOR) + shift) - shift
        total, squares = values.sum(1)[:, None], (values * values).sum(1)[:, None]
    mean = quotient(total, n_classes)
    return root((quotient(squares, n_classes) - mean * mean).clip(min=0.0))


def narrow(values: Any) -> Any:
    """Return numbers of few bits as float32 on the host; devices multiply in float64."""
    return values if is_tensor(values) else values.astype(np.float32)


def over_norm(values: Any) -> Any:
    """Return rows over their norms, whose squares add up without rounding; zero rows stay."""
    square = (values * values).sum(1)[:, None]
    return values / root(square + (square == 0))


class Multiplier:
    """A matrix (m, K) that patterns are multiplied by: factors that are rounded.

    A processor that multiplies 16-bit numbers quickly (`conformix.kernels.host.products`) does it
    with pieces of the factors, each in multiples of 2^-bits of what the one before has left. Others
    do it in float32, or in float64 where there are more bits than that has room for.

    Parameters
    ----------
    factors : array or tensor of shape (m, K)
        Rows of norm one, or a little more; in float32 they are rounded already.
    pieces : tuple of int
        How many bits behind the point the pieces have; the last one says how many count.
    scale : float
        A power of two that multiplies all products.
    """

    def __init__(self, factors: Any, pieces: tuple[int, ...], scale: float = 1.0) -> None:
        self._factors, self._pieces, self._scale = factors, pieces, scale

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again at first use: whole numbers are as long as vectors here."""
        return {name: self.__dict__[name] for name in ("_factors", "_pieces", "_scale")}

    @property
    def matrix(self) -> Any:
        """What patterns are multiplied by, (m, K)."""
        return self._rounded * self._scale

    @cached_property
    def _rounded(self) -> Any:
        """The same as NumPy and devices multiply by it, without its power of two."""
        if not is_tensor(self._factors) and self._factors.dtype == np.float32:
            return self._factors
        rounded = in_multiples(self._factors, self._pieces[-1])
        return narrow(rounded) if self._pieces[-1] <= MATRIX_BITS else rounded

    @cached_property
    def _whole(self) -> list[tuple[IntArray, float]]:
        """The pieces as whole numbers, and their units."""
        found = []
        for before, bits in zip((None, *self._pieces), self._pieces, strict=False):
            found.append((_factors_in_units(self._factors, bits, before), self._scale * 2.0**-bits))
        return found

    def __call__(self, rows: Any) -> Any:
        """Return the products (n, m) of patterns (n, K), in float64."""
        if is_tensor(rows):
            return self._scale * (rows @ as_float64(to_device(self._rounded, rows)).T)
        out = np.zeros((len(rows), len(self._factors)))
        self.add(rows, out)
        return out

    def add(self, rows: FloatArray, out: FloatArray, room: IntArray | None = None) -> None:
        """Add the products of patterns on the host to an array (n, m) of float64.

        `room`, int16 (n, K + 64) or more, is for the patterns as whole numbers.
        """
        loop = self._loop(rows.size)
        if loop is None:
            found = _product(rows.astype(self._rounded.dtype, copy=False), self._rounded.T)
            out += self._scale * as_float64(found)
            return
        left = _patterns_in_units(rows, room)
        for right, unit in self._whole:
            loop.add_products(left, right, unit * 2.0**-PATTERN_BITS, False, out)

    def in_units(self, numbers: int) -> list[tuple[IntArray, float]]:
        """Return the pieces as whole numbers, with the units of their products with patterns.

        None of them where so many numbers are not multiplied in this way.
        """
        if self._loop(numbers) is None:
            return []
        return [(whole, unit * 2.0**-PATTERN_BITS) for whole, unit in self._whole]

    def ready(self, numbers: int) -> Multiplier:
        """Return it with all that products of so many numbers ask for, before threads do so."""
        if self._loop(numbers) is not None:
            _ = self._whole
        return self

    def _loop(self, numbers: int) -> Any:
        """Return the loops that multiply so many numbers; None where NumPy does."""
        loop = loops("products", numbers)
        few = self._factors.shape[1] <= MOST_IN_PIECES
        return loop if loop is not None and few and loop.are_quick() else None


def _patterns_in_units(values: FloatArray, room: IntArray | None = None) -> IntArray:
    """Return patterns (n, K) as multiples of 2^-12, with zeros after them."""
    loop = import_module("conformix.kernels.host.products")
    shape = len(values), loop.width_of(values.shape[1])
    out = np.empty(shape, np.int16)
    if room is not None:
        out = room.ravel()[: out.size].reshape(shape)
    loop.patterns_in_units(np.ascontiguousarray(values), 2.0**-PATTERN_BITS, out)
    return out


def _factors_in_units(factors: FloatArray, bits: int, before: int | None) -> IntArray:
    """Return factors as multiples of 2^-bits, less what a piece with fewer bits has of them."""
    loop = import_module("conformix.kernels.host.products")
    out = np.empty((len(factors), loop.width_of(factors.shape[1])), np.int16)
    shifts = 0.0 if before is None else shift_to(before), shift_to(bits)
    # Code for memory that must not be written would be compiled apart.
    numbers = np.require(factors, np.float64, ["C", "W"])
    loop.factors_in_units(numbers, shifts, 2.0**-bits, out)
    return out


def multiplier(factors: Any, scale: float = 1.0) -> Multiplier:
    """Return a matrix as patterns are multiplied by it: rounded, and times a power of two.

    Examples
    --------
    >>> multiplier(np.eye(2))(np.array([[0.5, -0.5]], dtype=np.float32))
    array([[ 0.5, -0.5]])
    """
    return Multiplier(factors, (MATRIX_BITS,), scale)


def fine_multiplier(factors: Any) -> Multiplier:
    """Return a matrix in multiples of 2^-26 as patterns are multiplied by it, not rounded further.

    Of two pieces: multiples of 2^-13, and what is left. Sums of products with the latter are at
    most ``sqrt(K) 2^-14``, in multiples of 2^-38: whole numbers below 2^31.
    """
    return Multiplier(factors, (HALF_BITS, FACTOR_BITS))


def _product(left: Any, right: Any, out: FloatArray | None = None) -> Any:
    if is_tensor(left):
        return left @ right
    with multiplying(left.shape[0] * left.shape[1] * right.shape[1]):
        return np.matmul(left, right, out=out)


def unit_rows(values: Any, threads: int = 1) -> tuple[Any, Any]:
    """Return the rows (m, K) of a matrix scaled to norm one, and their norms (m,).

    Rows of zeros stay.

    Examples
    --------
    >>> units, norms = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> units.round(6).tolist(), norms.tolist()
    ([[0.6, 0.8], [0.0, 0.0]], [5.0, 0.0])
    """
    loop = None if is_tensor(values) else loops("patterns", values.size)
    if loop is not None and values.dtype == np.int64:
        units, norms = np.empty(values.shape), np.empty(len(values))
        shifts = shift_to(unit_bits(values.shape[1])), shift_to(FACTOR_BITS)

        def fill(rows: slice) -> None:
            loop.unit_rows_into(values[rows], shifts, units[rows], norms[rows])

        several = threads_for(values.size, threads)
        run_blocks(fill, shares(len(values), several), several)
        return units, norms
    values = as_float64(values)
    sizes = abs(values)
    largest = (sizes.amax(1) if is_tensor(values) else sizes.max(1))[:, None]
    scaled = values / (largest + (largest == 0))
    rough = in_multiples(scaled, unit_bits(int(values.shape[1])))
    norm = root((rough * rough).sum(1)[:, None])
    units = in_multiples(scaled / (norm + (norm == 0)), FACTOR_BITS)
    return units, (largest * norm)[:, 0]


def prototype_sums(probs: Any, patterns: Any, threads: int = 1) -> Any:
    """Return ``probs.T @ patterns`` (K, K) of rows (n, K), as `summed_products` says.

    Examples
    --------
    >>> rows = np.array([[0.75, 0.25]]), np.array([[0.5, -0.5]], dtype=np.float32)
    >>> prototype_sums(*rows) / 2**40
    array([[ 0.375, -0.375],
           [ 0.125, -0.125]])
    """
    n, n_classes = probs.shape
    few = not is_tensor(probs) and n_classes <= FEW_LABELS and probs.flags.c_contiguous
    loop = loops("likeness", n * n_classes) if few else None
    if loop is None or not loop.are_quick():
        return summed_products(probs, patterns, threads)
    several = available_threads(threads)
    step = loop.rows_of_part(n, several)
    n_parts = -(-n // step)
    parts = Parts(n_parts, step, min(several, n_parts))
    units = 2.0**SUM_BITS, 2.0**PATTERN_BITS
    task = loop.adding(probs, patterns, units, shift_to(SUM_BITS), parts)
    run_parts(loop.add_up, parts, task)
    # In units of both.
    return np.add.reduce(task.products[:, :n_classes]) << (SUM_BITS - PATTERN_BITS)


def summed_products(left: Any, right: Any, threads: int = 1) -> Any:
    """Return ``left.T @ right`` (m, K) of numbers (n, m) and (n, K) up to one, as int64.

    In multiples of 2^-40. On the host by several threads, with rows of their own where the sums of
    all threads are fewer than the numbers that are added up, else with columns. Where both are the
    same array, NumPy computes one half and mirrors it, by itself: half the time.

    Examples
    --------
    >>> summed_products(np.array([[0.5, 1.0]]), np.array([[0.25, 0.0]])) / 2**40
    array([[0.125, 0.   ],
           [0.25 , 0.   ]])
    """
    n, n_classes = max(len(left), 1), int(right.shape[1])
    several = threads_for(n * left.shape[1] * (1 + n_classes // AT_A_TIME), threads)
    # Of few labels a block that the cache holds; of many, turning sums to integers counts.
    few = 0 if is_tensor(left) else SUMMED_ENTRIES // n_classes
    step = few if FEWEST_ROWS <= few < ROWS_AT_ONCE else ROWS_AT_ONCE

    def of_rows(rows: slice) -> Any:
        blocks = row_blocks(rows.stop - rows.start, 1, step)
        each = (slice(rows.start + b.start, rows.start + b.stop) for b in blocks)
        pairs = ((left[b], None if right is left else right[b]) for b in each)
        return reduce(operator.add, (_whole_products(*pair) for pair in pairs))

    if several == 1 or right is left or is_tensor(left):
        with several_products(min(n, step) * int(left.shape[1]) * n_classes):
            return of_rows(slice(0, n))
    if several * left.shape[1] <= n:
        return reduce(operator.add, run_products(of_rows, shares(n, several), several))
    out = np.zeros((left.shape[1], n_classes), dtype=np.int64)

    def add_up(labels: slice) -> None:
        for rows in row_blocks(n, 1, step):
            out[labels] += _whole(_product(terms(left[rows, labels]).T, terms(right[rows])))

    run_products(add_up, shares(len(out), several), several)
    return out


def _whole_products(left: Any, right: Any | None) -> Any:
    """Return the same of a block of rows; of one array with itself where there is no other."""
    first = terms(left)
    return _whole(_product(first.T, first if right is None else terms(right)))


def _whole(products: Any) -> Any:
    """Return sums of products as whole multiples of 2^-40; the sums themselves are gone."""
    products *= 2.0 ** (2 * SUM_BITS)
    return whole(products)


class Columns:
    """The columns of patterns (n, K) on the host, for the products of any two of them.

    Whole numbers, on a machine that multiplies these quickly. By Cauchy and Schwarz no sum over
    rows is beyond the largest sum of squares of a column. So many rows are added up at once that
    this has room in 32 bits: all of them mostly, and else as many as any have.

    Examples
    --------
    >>> columns = Columns(np.array([[0.5, -0.5], [1.0, 0.0]], dtype=np.float32))
    >>> columns.products() / 2**40
    array([[ 1.25, -0.25],
           [-0.25,  0.25]])
    >>> columns.totals / 2**20
    array([ 1.5, -0.5])
    """

    def __init__(self, rows: FloatArray) -> None:
        self._rows = rows
        self._loop = loops("products", rows.size)
        if self._loop is None or not self._loop.are_quick():
            self._loop, self.totals = None, summed(rows)
            return
        # In float32, of so few rows at once that its rounding is less than the room that is left.
        parts = (rows[some] for some in row_blocks(len(rows), 1, ROWS_AT_ONCE))
        squares: Any = sum(np.float64(np.einsum("ij,ij->j", part, part)) for part in parts)
        largest = float(squares.max())
        step = len(rows) if largest < SQUARES_AT_ONCE else SQUARES_AT_ONCE
        blocks = row_blocks(len(rows), 1, step)
        self._whole = [_patterns_in_units(rows[some].T) for some in blocks]
        in_units = sum(part.sum(axis=1, dtype=np.int64) for part in self._whole)
        self.totals = in_units * 2 ** (SUM_BITS - PATTERN_BITS)

    def products(self, labels: slice | None = None) -> IntArray:
        """Return the sums of products of some columns with all, (m, K), in multiples of 2^-40.

        Of all columns one half is computed, and mirrored.
        """
        if self._loop is None:
            some = self._rows if labels is None else self._rows[:, labels]
            return summed_products(some, self._rows)  # type: ignore[no-any-return]
        some_labels = slice(None) if labels is None else labels
        n_classes = self._rows.shape[1]
        # In multiples of 2^-24, at most one a row: float64 has them without rounding.
        out = np.zeros((len(self.totals[some_labels]), n_classes))
        for part in self._whole:
            self._loop.add_products(part[some_labels], part, 1.0, labels is None, out)
        return whole(out) * 2 ** (2 * SUM_BITS - 2 * PATTERN_BITS)


def summed(values: Any, threads: int = 1) -> Any:
    """Return the sums (K,) over rows (n, K) of numbers up to one, in multiples of 2^-20, int64."""
    loop = None if is_tensor(values) else loops("patterns", values.size)
    if loop is not None and values.dtype == np.float64:
        # Code for memory that must not be written would be compiled apart.
        some = np.require(values, np.float64, ["C", "W"])
        n, n_classes = some.shape
        parts = parts_of_rows(n, n_classes, threads)
        sums = rooms(parts.threads, n_classes)
        sums[:] = 0.0
        run_parts(loop.add_rows, parts, loop.Summing(some, shift_to(SUM_BITS), sums, parts.step))
        # Sums of no more than 2^33 rows have room in 53 bits.
        return whole(np.add.reduce(sums[:, :n_classes]) * 2.0**SUM_BITS)
    entries = DEVICE_ENTRIES if is_tensor(values) else CACHE_ENTRIES
    blocks = row_blocks(len(values), values.shape[1], entries)
    sums = (whole(terms(values[rows]) * 2.0**SUM_BITS).sum(0) for rows in blocks)
    return sum(sums, start=whole(values[:0]).sum(0))


def terms(values: Any) -> Any:
    """Return numbers as terms of a sum; in float32 they have few bits already."""
    if not is_tensor(values) and values.dtype == np.float32:
        return values.astype(np.float64)
    return in_multiples(values, SUM_BITS)


def whole(values: Any) -> Any:
    """Return whole numbers as int64."""
    return values.long() if is_tensor(values) else values.astype(np.int64)


def check_factors(factors: Any, n_classes: int) -> None:
    """Refuse a matrix whose products are not exact.

    Examples
    --------
    >>> check_factors(np.eye(2), 2)
    >>> check_factors(np.full((2, 2), 0.9), 2)
    Traceback (most recent call last):
    conformix.errors.InvalidInput: the matrix of a score must have 2 rows of norm at most one, ...
    """
    proper = factors.shape == (n_classes, n_classes) and factors.dtype == np.float64
    if proper:
        proper = bool(np.isfinite(factors).all()) and bool((np.abs(factors) <= 1.01).all())
    if proper:
        fine = (in_multiples(factors, FACTOR_BITS) == factors).all()
        proper = bool(fine) and bool(((factors * factors).sum(axis=1) <= 1.02).all())
    if not proper:
        raise InvalidInput(
            f"the matrix of a score must have {n_classes} rows of norm at most one, in multiples "
            f"of 2^-{FACTOR_BITS}."
        )
