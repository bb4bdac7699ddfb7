"""Correlations of labels over parts of rows, and what they score rows that had no part in them.

What `conformix.scores.learnt.Kin` does with every part, as parts of two loops that threads share:
the operations there, in the same order where that counts. Sums of products are whole numbers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, inlined
from conformix.kernels.host.patterns import correlated
from conformix.kernels.host.products import LANES, TILE, _dots, _put_dots, width_of

# Rows whose products of two patterns, in units of 2^-24, add up in 32 bits whatever they are.
AT_ONCE = 127


class Members(NamedTuple):
    """Rows by part, and labels by block: a task of every part has those of one block."""

    patterns: Any  # (n, K) float32
    unit: float  # they are whole multiples of it
    rows: IntArray  # (n,) those of one part after those of another
    ends: IntArray  # (parts + 1,): where these begin
    block: int  # labels of a task
    blocks: int  # tasks of a part


class Adding(NamedTuple):
    """Sums over the rows of every part."""

    members: Members
    scales: tuple[int, int]  # what sums of products, and of patterns, are multiplied by
    products: IntArray  # (parts, K, K)
    totals: IntArray  # (parts, K)
    columns: Any  # (workers, K, width) int16: room
    sums: Any  # (workers, 16) int32: room


def columns_for(workers: int, n_classes: int) -> tuple[Any, Any]:
    """Return room for so many workers and labels."""
    width = -(-AT_ONCE // LANES) * LANES
    columns = rooms(workers, n_classes, width, dtype=np.int16)
    return columns, rooms(workers, TILE**2, dtype=np.int32)


@compiled
def add_up(board: IntArray, helpers: int, n: int, task: Adding, part: int, worker: int) -> int:
    """Add up the products of any two columns of the patterns of a part, of a block of labels."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    members, scales, all_products, all_totals, all_columns, all_sums = task
    patterns, unit, rows, ends, step, blocks = members
    which, first = part // blocks, (part % blocks) * step
    products, totals = all_products[which], all_totals[which]
    n_classes = len(totals)
    columns, sums = all_columns[worker, :n_classes], all_sums[worker]
    last = min(first + step, n_classes)
    for i in range(first, last):
        for k in range(n_classes):
            products[i, k] = 0
        totals[i] = 0
    for start in range(ends[which], ends[which + 1], AT_ONCE):
        m = min(AT_ONCE, ends[which + 1] - start)
        _turn_over(patterns, unit, rows[start : start + m], columns)
        for i in range(first, last):
            for r in range(m):
                totals[i] += scales[1] * columns[i, r]
        for i in range(first, last, TILE):
            # Where fewer than four are left the last one comes again, and is not added.
            own = i, min(i + 1, last - 1), min(i + 2, last - 1), min(i + 3, last - 1)
            # Where all labels are those of one task, one half is computed, and mirrored.
            for j in range(0, n_classes if blocks > 1 else i + TILE, TILE):
                end = n_classes - 1
                others = j, min(j + 1, end), min(j + 2, end), min(j + 3, end)
                _dots(columns, own, columns, others, sums)
                for a in range(min(TILE, last - i)):
                    for b in range(min(TILE, n_classes - j)):
                        products[i + a, j + b] += scales[0] * sums[TILE * a + b]
    for i in range(n_classes if blocks == 1 else 0):
        for k in range(i + 1, n_classes):
            products[i, k] = products[k, i]
    return 0


@inlined
def _turn_over(patterns: Any, unit: float, rows: IntArray, columns: Any) -> None:
    """Write some patterns as whole numbers, label by label, and zeros after them."""
    n_classes, width = columns.shape
    units = 1.0 / unit  # in one: the unit is a power of two
    for r in range(width):
        if r < len(rows):
            for k in range(n_classes):
                columns[k, r] = np.int16(np.float64(patterns[rows[r], k]) * units)
        else:
            for k in range(n_classes):
                columns[k, r] = 0


class Scoring(NamedTuple):
    """Scores of the rows of every part, by correlations over the others."""

    members: Members
    products: IntArray  # (K, K): sums over all rows, as whole numbers
    totals: IntArray  # (K,)
    lacking: IntArray  # (parts, K, K): those over the rows of a part
    lacking_totals: IntArray  # (parts, K)
    counts: IntArray  # (parts,): over how many rows the others go
    cancelled: float  # a variance relative to its square, below which nothing is left of it
    shifts: tuple[float, float, float]  # what rounds: for a norm, for a factor, for a product
    units: tuple[float, float]  # of a factor as it multiplies, and of a score
    scores: FloatArray  # (n, K)
    spread: FloatArray  # (workers, 3, K): room
    matrix: Any  # (workers, K, width) int16: room
    own: Any  # (workers, 4, width) int16: room
    sums: Any  # (workers, 16) int32: room


def matrices_for(workers: int, n_classes: int) -> tuple[FloatArray, Any, Any, Any]:
    """Return room for so many workers and labels."""
    width = width_of(n_classes)
    matrix, own = (rooms(workers, rows, width, dtype=np.int16) for rows in (n_classes, TILE))
    matrix[:], own[:] = 0, 0  # nobody writes what is beyond the labels
    return rooms(workers, 3, n_classes), matrix, own, rooms(workers, TILE**2, dtype=np.int32)


@compiled
def score(board: IntArray, helpers: int, n: int, task: Scoring, part: int, worker: int) -> int:
    """Score the rows of a part for a block of labels."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    (
        members, products, totals, all_lacking, all_lacking_totals, counts, cancelled, shifts,
        units, scores, all_spreads, matrices, all_own, all_sums,
    ) = task  # fmt: skip
    patterns, unit, rows, ends, step, blocks = members
    which, first = part // blocks, (part % blocks) * step
    lacking, lacking_totals = all_lacking[which], all_lacking_totals[which]
    spread, sum_of, row = all_spreads[worker, 0], all_spreads[worker, 1], all_spreads[worker, 2]
    matrix, own, sums = matrices[worker], all_own[worker], all_sums[worker]
    n_classes, count = len(totals), counts[which]
    whole, in_factor = 1.0 / unit, 1.0 / units[0]  # both units are powers of two
    last = min(first + step, n_classes)
    for k in range(n_classes):
        square = np.float64(products[k, k] - lacking[k, k])
        sum_of[k] = np.float64(totals[k] - lacking_totals[k])
        variance = square - sum_of[k] * sum_of[k] / count
        spread[k] = math.sqrt(variance if variance > cancelled * square else np.inf)
    for i in range(first, last):
        for k in range(n_classes):
            row[k] = np.float64(products[i, k] - lacking[i, k])
        norm = correlated(i, row, sum_of, spread, count, shifts[0])
        for k in range(n_classes):
            factor = (row[k] / norm + shifts[1]) - shifts[1]
            matrix[i, k] = np.int16(((factor + shifts[2]) - shifts[2]) * in_factor)
    for start in range(ends[which], ends[which + 1], TILE):
        some = min(TILE, ends[which + 1] - start)
        for a in range(some):
            given = patterns[rows[start + a]]
            for k in range(n_classes):
                own[a, k] = np.int16(np.float64(given[k]) * whole)
        _write(own, matrix, first, last, units[1], rows[start : start + some], sums, scores)
    return 0


@inlined
def _write(
    own: Any,
    matrix: Any,
    first: int,
    last: int,
    unit: float,
    rows: IntArray,
    sums: Any,
    scores: FloatArray,
) -> None:
    """Write the products of up to four patterns with some rows of the matrix, in a unit."""
    some = len(rows)
    # Where fewer than four are left the last one comes again, and is not written.
    places = 0, min(1, some - 1), min(2, some - 1), min(3, some - 1)
    for j in range(first, last, TILE):
        columns = j, min(j + 1, last - 1), min(j + 2, last - 1), min(j + 3, last - 1)
        if some == TILE and j + TILE <= last:
            there = rows[0], rows[1], rows[2], rows[3]
            _put_dots(own, places, matrix, columns, unit, True, scores, there)
            continue
        _dots(own, places, matrix, columns, sums)
        for a in range(some):
            for b in range(min(TILE, last - j)):
                scores[rows[a], j + b] = unit * sums[TILE * a + b]
