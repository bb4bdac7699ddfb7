"""What the labels of a row say about each other: patterns, their sums and products, exactly.

A row's pattern is its log-probabilities, floored, centred over the labels and scaled to unit norm.
Matrix products and sums over rows, as BLAS computes them, depend on how many rows come at once and
in which order: the last bits differ between a batch and its rows one by one, and where scores tie
that changes sets. Here all factors are whole multiples of a power of two, so few of them that every
partial sum is a float64 without rounding. Any order, any number of threads, fused or not, on the
host or on a device: the same bits.

- Factors of a product are rows of norm one (at most 1.01 with rounding) in multiples of 2^-26. The
  sum over any of their products is at most 1.03 by Cauchy and Schwarz, in multiples of 2^-52.
- Terms of a sum over rows are at most one, in multiples of 2^-20. Their products are multiples of
  2^-40, and sums over 2^12 rows have 52 bits; such sums are added up as 64-bit integers.
- Squares in a norm have as many bits as the number of labels leaves room for.

Functions take arrays or tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, is_tensor, quotient, root, to_device
from conformix.kernels.blas import multiplying
from conformix.kernels.twins import loops

# The log-probability below which all labels are alike.
FLOOR = -12.0
FACTOR_BITS, SUM_BITS = 26, 20
ROWS_AT_ONCE = 2**12
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


def patterns(log_probs: Any) -> Any:
    """Return the patterns (n, K) of rows of log-probabilities; zero where all labels are alike.

    ``max(log p, -12)``, less its mean over the labels, over its norm.

    Examples
    --------
    >>> patterns(np.log([[0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3]])).round(3)
    array([[ 0.816, -0.408, -0.408],
           [ 0.   ,  0.   ,  0.   ]])
    """
    n_classes = int(log_probs.shape[1])
    bits = min(SUM_BITS, norm_bits(n_classes, 3))  # a variance between -12 and 0 is at most 36
    loop = None if is_tensor(log_probs) else loops("patterns", log_probs.size)
    if loop is not None:
        out = np.empty(log_probs.shape)
        shifts = shift_to(bits), shift_to(FACTOR_BITS)
        loop.patterns_into(np.ascontiguousarray(log_probs), FLOOR, shifts, out)
        return out
    values = in_multiples(log_probs.clip(min=FLOOR), bits)
    centred = in_multiples(values - quotient(values.sum(1)[:, None], n_classes), bits)
    return in_multiples(over_norm(centred), FACTOR_BITS)


def over_norm(values: Any) -> Any:
    """Return rows over their norms, whose squares add up without rounding; zero rows stay."""
    square = (values * values).sum(1)[:, None]
    return values / root(square + (square == 0))


def products(rows: Any, factors: FloatArray, out: FloatArray | None = None) -> Any:
    """Return the products (n, K) of patterns (n, K) with the rows of a matrix (K, K).

    In `out`, where there is one.

    Examples
    --------
    >>> products(np.array([[0.5, -0.5]]), np.eye(2))
    array([[ 0.5, -0.5]])
    """
    return _product(rows, to_device(factors, rows).T, out)


def _product(left: Any, right: Any, out: FloatArray | None = None) -> Any:
    if is_tensor(left):
        return left @ right
    with multiplying(left.shape[0] * left.shape[1] * right.shape[1]):
        return np.matmul(left, right, out=out)


def unit_rows(values: Any) -> tuple[Any, Any]:
    """Return the rows (m, K) of a matrix scaled to norm one, and their norms (m,).

    Rows of zeros stay.

    Examples
    --------
    >>> units, norms = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> units.round(6).tolist(), norms.tolist()
    ([[0.6, 0.8], [0.0, 0.0]], [5.0, 0.0])
    """
    sizes = abs(values)
    largest = (sizes.amax(1) if is_tensor(values) else sizes.max(1))[:, None]
    scaled = values / (largest + (largest == 0))
    rough = in_multiples(scaled, unit_bits(int(values.shape[1])))
    norm = root((rough * rough).sum(1)[:, None])
    units = in_multiples(scaled / (norm + (norm == 0)), FACTOR_BITS)
    return units, (largest * norm)[:, 0]


def summed_products(left: Any, right: Any) -> Any:
    """Return ``left.T @ right`` (K, K) of numbers (n, K) up to one, in multiples of 2^-40, int64.

    Where both are the same array NumPy computes one half and mirrors it: half the time.

    Examples
    --------
    >>> summed_products(np.array([[0.5, 1.0]]), np.array([[0.25, 0.0]])) / 2**40
    array([[0.125, 0.   ],
           [0.25 , 0.   ]])
    """
    total = 0
    for start in range(0, len(left), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        first = in_multiples(left[some], SUM_BITS)
        second = first if right is left else in_multiples(right[some], SUM_BITS)
        total = total + whole(_product(first.T, second) * 2.0 ** (2 * SUM_BITS))
    return total


def summed(values: Any) -> Any:
    """Return the sums (K,) over rows (n, K) of numbers up to one, in multiples of 2^-20, int64."""
    return whole(in_multiples(values, SUM_BITS) * 2.0**SUM_BITS).sum(0)


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
