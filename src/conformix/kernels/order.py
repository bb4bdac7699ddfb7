"""The members of sets in order, best first: many small sets at once, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.blocks import Parts, parts_of_rows, rooms, run_parts
from conformix.kernels.twins import loops

NO_LIMITS, NO_STARTS = np.empty(0), np.empty(0, dtype=np.int64)
# Labels of a row that are looked through in the time in which one is sorted.
LOOKED_THROUGH = 4


def falling_within_rows(values: FloatArray, sizes: IntArray) -> IntArray:
    """Return the permutation that sorts every row downwards; equal values keep their order."""
    if len(sizes) == 1:
        return np.argsort(-values, kind="stable")
    order, longest = np.arange(len(values)), sizes.max(initial=0)
    kernel = loops("order", len(values))
    if kernel is not None:
        spare = np.empty(longest, dtype=np.int64)
        kernel.falling(values.astype(np.float64), sizes.astype(np.int64), order, spare)
    if kernel is not None or longest < 2:
        return order
    starts = np.cumsum(sizes) - sizes
    # Rows of like length are sorted as one matrix, padded to the next power of two: many times
    # faster than one long sort by two keys, and at most twice the memory.
    widths = 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    for width in np.unique(widths[sizes > 1]).tolist():
        rows = np.flatnonzero((widths == width) & (sizes > 1))
        places = starts[rows, None] + np.arange(width)
        inside = np.arange(width) < sizes[rows, None]
        padded = np.full(places.shape, np.inf)
        padded[inside] = -values[places[inside]]
        within = np.argsort(padded, axis=1, kind="stable")
        order[places[inside]] = (starts[rows, None] + within)[inside]
    return order


def falling_labels(
    values: FloatArray,
    mask: BoolArray,
    reached: tuple[FloatArray, IntArray] | None = None,
    threads: int | None = 1,
) -> IntArray:
    """Return the labels in a mask (n, K), row after row, by falling values (n, K), ties by label.

    Where it is said what is `reached` the mask is written first, by threads that share the rows:
    labels whose values reach the number of their row (n,), of which there are so many (n,).

    Examples
    --------
    >>> falling_labels(np.array([[0.1, 0.9, 0.5]]), np.array([[True, True, False]]))
    array([1, 0])
    """
    usual = values.flags.c_contiguous and values.flags.writeable and mask.flags.c_contiguous
    kernel: Any = loops("order", values.size) if usual else None
    if kernel is None:
        return _falling_labels(values, mask, reached)
    n, n_classes = mask.shape
    parts, starts = Parts(1, n, 1), NO_STARTS
    if reached is not None:
        parts = parts_of_rows(n, n_classes / LOOKED_THROUGH, threads)
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(reached[1], out=starts[1:])
    labels = np.empty(np.count_nonzero(mask) if reached is None else starts[-1], dtype=np.int64)
    limits = (NO_LIMITS if reached is None else reached[0]).astype(values.dtype)
    found = rooms(parts.threads, 2, n_classes + 1, dtype=np.int64)
    room = rooms(parts.threads, kernel.RUN)
    sets = kernel.Sets(values, limits, mask, starts, labels, found, room, parts.step)
    run_parts(kernel.members, parts, sets)
    return labels


def _falling_labels(
    values: FloatArray, mask: BoolArray, reached: tuple[FloatArray, IntArray] | None
) -> IntArray:
    if reached is not None:
        np.greater_equal(values, reached[0][:, None], out=mask)
    rows, labels = np.divmod(np.flatnonzero(mask), mask.shape[1])
    sizes = np.bincount(rows, minlength=len(mask))
    return labels[falling_within_rows(values[rows, labels], sizes)]  # type: ignore[no-any-return]
