"""The terms of a blend added up, and its evidence, row by row: a row never leaves the cache."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import allocating, compiled, inner
from conformix.kernels.host.elementary import (
    AT_ONCE,
    LINES,
    _exp_of_differences,
    _log_into,
    _powers,
    _sum,
    log_of,
    rows_at_once,
    rows_together,
)
from conformix.kernels.host.patterns import lines_for
from conformix.kernels.host.ranks import tie_groups

# What a term is a function of, and what its numbers are: the coefficient and what is added to the
# probability; the coefficient; or the whole term by label, by the number of labels below, by rank.
LOG, LOG_PROB, PROB, LABEL, BELOW, RANK = range(6)
# Logarithms that are added up at once.
TOGETHER = 2**11


@allocating
def terms_into(
    probs: FloatArray,
    log_probs: FloatArray,
    order: IntArray,
    ties: Any,
    kinds: IntArray,
    numbers: FloatArray,
    out: FloatArray,
) -> None:
    """Add terms of `kinds` (t,) with `numbers` (t, K + 1) to `out` (n, K), in their order.

    `order` (n, K) are the places of the rising probabilities of every row, `ties` (n,) whether it
    may have equal ones; empty where no term asks for them. Terms are added one by one to all rows:
    so many numbers as a cache holds.
    """
    n, n_classes = probs.shape
    places = np.empty((2, n_classes), np.int64)
    terms, room = np.empty(TOGETHER), np.empty((LINES, AT_ONCE))
    flat, total = probs.ravel(), out.ravel()
    for t in range(len(kinds)):
        kind, own, factor = kinds[t], numbers[t], numbers[t, 0]
        if kind >= BELOW:
            for i in range(n):
                _add_by_place(probs[i], order[i], ties[i], kind == BELOW, own, places, out[i])
        elif kind == LABEL:
            for i in range(n):
                for k in range(n_classes):
                    out[i, k] += own[k]
        elif kind == LOG:
            for start in range(0, flat.size, TOGETHER):
                stop = min(start + TOGETHER, flat.size)
                _log_into(flat[start:stop], 0.0, own[1], terms, room)
                for k in range(stop - start):
                    total[start + k] += factor * terms[k]
        else:
            values = log_probs.ravel() if kind == LOG_PROB else flat
            for k in range(flat.size):
                total[k] += factor * values[k]


@inner
def _add_by_place(
    row: FloatArray, order: IntArray, ties: bool, by_below: bool, terms: FloatArray,
    places: IntArray, total: FloatArray,
) -> None:  # fmt: skip
    """Add the term of every place in the order of a row to its label.

    By the number of labels below, or by the rank from the top.
    """
    n_classes = len(order)
    if ties:
        below, rank = places[0], places[1]
        tie_groups(row, order, True, below, rank)
        chosen = below if by_below else rank
        for k in range(n_classes):
            total[np.uint64(order[k])] += terms[np.uint64(chosen[k])]
    elif by_below:
        for k in range(n_classes):
            total[np.uint64(order[k])] += terms[k]
    else:
        for k in range(n_classes):
            total[np.uint64(order[k])] += terms[n_classes - k]


class AddingPlanes(NamedTuple):
    """Planes that are added up with coefficients."""

    planes: FloatArray  # (p, n, K)
    coefficients: FloatArray  # (p,)
    out: FloatArray  # (n, K), which may be one of the planes
    tops: FloatArray  # (n, 1) the largest sum of every row, and
    totals: FloatArray  # (n, 1) ``log sum exp`` of its sums; none where nobody asks for these
    cuts: tuple[float, float]  # of sums of as many numbers
    room: tuple[FloatArray, FloatArray, FloatArray]  # for every worker
    step: int  # rows of a part


@compiled
def planes_into(
    board: IntArray, helpers: int, n: int, task: AddingPlanes, part: int, worker: int
) -> int:
    """Write the sums of planes, added up in their order."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    planes, coefficients, out, tops, totals, cuts, room, step = task
    p, n_rows, n_classes = planes.shape
    powers, largest, lines = room[0][worker], room[1][worker], room[2][worker]
    last, together = min((part + 1) * step, n_rows), rows_together(n_classes)
    for start in range(part * step, last, together):
        stop = min(start + together, last)
        for i in range(start, stop):
            for k in range(n_classes):
                powers[k] = 0.0
            for j in range(p):
                own = coefficients[j]
                if own != 0.0:
                    for k in range(n_classes):
                        powers[k] += own * planes[j, i, k]
            for k in range(n_classes):
                out[i, k] = powers[k]
        if len(totals) == 0:
            continue
        rows = out[start:stop]
        flat = rows.reshape(rows.size)
        _powers(flat, n_classes, largest, powers[: flat.size], lines)
        for i in range(stop - start):
            total = _sum(powers[i * n_classes : (i + 1) * n_classes], cuts[0], cuts[1])
            tops[start + i, 0], totals[start + i, 0] = largest[i], largest[i] + log_of(total)
    return 0


@inner
def evident_into(
    z: FloatArray,
    spread: FloatArray,
    numbers: tuple[float, float, float, float],
    cuts: tuple[float, float],
    out: FloatArray,
    powers: FloatArray,
    tops: FloatArray,
    lines: FloatArray,
) -> None:
    """Write ``log softmax(z) + e`` of rows (n, K) to `out`, which may be the same array.

    The operations of `scores.evidence.Evidence.logits`, with its `numbers`; `cuts` are those of
    sums of as many numbers. There is room for the numbers of `rows_together`, for as many, and for
    `LINES` rows of `AT_ONCE`.
    """
    n, n_classes = z.shape
    of_spread, of_top, narrowest, widest = numbers
    given, step = z.reshape(z.size), rows_together(n_classes)
    for start in range(0, n, step):
        some = min(step, n - start)
        first, many = start * n_classes, some * n_classes
        _powers(given[first : first + many], n_classes, tops, powers[:many], lines)
        for i in range(some):
            row, own = z[start + i], out[start + i]
            total = _sum(powers[i * n_classes : (i + 1) * n_classes], cuts[0], cuts[1])
            total = tops[i] + log_of(total)
            known = min(max(spread[start + i, 0], narrowest), widest)
            lift = of_spread * known + of_top * (tops[i] - total)
            for k in range(n_classes):
                own[k] = (row[k] - total) + lift


def room_for(workers: int, n_classes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return room for the powers of so many rows at once, for every worker."""
    step = rows_at_once(n_classes)
    return rooms(workers, step * n_classes), rooms(workers, step), lines_for(workers)


@allocating
def evident(
    z: FloatArray,
    spread: FloatArray,
    numbers: tuple[float, float, float, float],
    cuts: tuple[float, float],
    out: FloatArray,
) -> None:
    """Write what `evident_into` says of rows."""
    step = rows_together(z.shape[1])
    powers, lines = np.empty(step * z.shape[1]), np.empty((LINES, AT_ONCE))
    evident_into(z, spread, numbers, cuts, out, powers, np.empty(step), lines)


class TakingOdds(NamedTuple):
    """Rows of logits, with what becomes their odds."""

    z: FloatArray  # (n, K)
    totals: FloatArray  # (n, 1)
    log_level: float
    most: float
    out: FloatArray  # (n, K)
    lines: FloatArray  # (workers, LINES, AT_ONCE): room
    step: int  # rows of a part


@compiled
def odds_into(
    board: IntArray, helpers: int, n: int, task: TakingOdds, part: int, worker: int
) -> int:
    """Write ``exp(min(z - total - log_level, most))`` of rows."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    z, totals, log_level, most, out, lines, step = task
    first, last = part * step, min((part + 1) * step, len(z))
    for i in range(first, last):
        for k in range(z.shape[1]):
            log_odds = (z[i, k] - totals[i, 0]) - log_level
            out[i, k] = most if log_odds > most else log_odds
    rows = out[first:last]
    flat = rows.reshape(rows.size)
    _exp_of_differences(flat, 0.0, flat, lines[worker])
    return 0
