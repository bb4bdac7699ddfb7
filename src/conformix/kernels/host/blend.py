"""Rows of one model as a blend gives them, part by part: what is on the way never leaves the cache.

The loops of `elementary`, `ranks`, `terms`, `patterns` and `products` over some rows at a time, one
after the other as passes of `conformix.scores.blending` call them: the same bits. Where sets are
asked for, rows are checked before and compared after, in the same walk.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.blocks import rooms
from conformix.kernels.host.board import itself, run
from conformix.kernels.host.compiled import compiled, inner, regrouped
from conformix.kernels.host.elementary import AT_ONCE, LINES, _log_into, _softmax, log_of
from conformix.kernels.host.order import RUN, _falling, _write_inside
from conformix.kernels.host.patterns import patterns_into, spread_sums_into
from conformix.kernels.host.products import add_products, patterns_in_units
from conformix.kernels.host.ranks import keys_into, order_into
from conformix.kernels.host.sorting import HOME, address, sort_row
from conformix.kernels.host.terms import evident_into, terms_into

# Numbers of the rows that are worked on at once.
TOGETHER = 2**13
# What becomes of the terms that are added up: nothing, probabilities, or logits with evidence.
LOGITS, PROBS, EVIDENT = range(3)


class Recipe(NamedTuple):
    """What is made of rows."""

    from_logits: bool
    kinds: IntArray  # (t,) and
    numbers: FloatArray  # (t, K + 1): as `terms.terms_into` takes them
    label_bits: int  # of a key that is sorted; 0 where nobody asks for the order
    factors: Any  # (K, width) int16: what patterns are multiplied by; empty where nothing is
    unit: float  # of the products
    becomes: int
    evidence: tuple[float, float, float, float]  # as `terms.evident_into` takes it
    least_spread: float  # what is added to a standard deviation
    least: tuple[float, float]  # the smallest probability that has a logarithm, and this
    floors: tuple[float, float]  # of log-probabilities, for a pattern and for a spread
    shifts: tuple[float, float, float]  # what rounds: for a norm, for a factor, for a spread
    pattern_unit: float
    cuts: tuple[float, float]


class Room(NamedTuple):
    """Room for the rows that every worker works on at once, (workers, r, ...)."""

    step: int  # r, the rows of a part
    given: FloatArray
    probs: FloatArray  # where the outputs are logits
    logs: FloatArray
    blended: FloatArray
    keys: Any  # uint32
    order: IntArray
    ties: Any  # (workers, r) bool
    patterns: Any  # float32
    whole: Any  # (workers, r, width) int16
    sums: FloatArray  # (workers, 2, r)
    spread: FloatArray  # (workers, r, 1)
    lines: FloatArray  # (workers, LINES, AT_ONCE)


def room_for(workers: int, n_classes: int, recipe: Recipe) -> Room:
    """Return room for so many workers."""
    step = rows_of_part(n_classes)
    shape, none = (workers, step, n_classes), (workers, 0, n_classes)
    softens, sorts = recipe.from_logits, recipe.label_bits > 0
    multiplied = shape if len(recipe.factors) > 0 else none
    return Room(
        step, rooms(*shape), rooms(*(shape if softens else none)), rooms(*shape), rooms(*shape),
        rooms(*(shape if sorts else none), dtype=np.uint32),
        rooms(*(shape if sorts else none), dtype=np.int64), rooms(workers, step, dtype=np.bool_),
        rooms(*multiplied, dtype=np.float32),
        rooms(workers, step, recipe.factors.shape[1], dtype=np.int16), rooms(workers, 2, step),
        rooms(workers, step, 1), rooms(workers, LINES, AT_ONCE),
    )  # fmt: skip


class Sets(NamedTuple):
    """The sets of rows, and their labels: by falling numbers, equal ones by label."""

    lowest: FloatArray  # (n,) what a number of the row has to reach; or none: no sets are asked for
    mask: BoolArray  # (n, K)
    labels: IntArray  # (n K,): those of a part begin where its rows would
    counts: IntArray  # (parts,) how many those are; -1 where a row is not seen to be fine
    found: IntArray  # (workers, 2, K + 1): room
    room: FloatArray  # (workers, RUN)


def sets_of(lowest: FloatArray, mask: BoolArray, parts: int, workers: int) -> Sets:
    """Return where the sets of rows go, with room for so many workers."""
    n_classes = mask.shape[1]
    return Sets(
        lowest, mask, np.empty(mask.size, np.int16), np.zeros(parts, np.int64),
        rooms(workers, 2, n_classes + 1, dtype=np.int64), rooms(workers, RUN),
    )  # fmt: skip


NO_SETS = sets_of(np.empty(0), np.empty((0, 0), np.bool_), 0, 0)


class Blending(NamedTuple):
    """Rows, what is made of them, and where it goes."""

    values: FloatArray  # (N, K)
    rows: IntArray  # (n,) of them
    recipe: Recipe
    out: FloatArray  # (M, K); nothing is written where sets are asked for
    places: IntArray  # (n,) rows of it
    left: Any  # (n,) bool: which rows have to be done by others, who sort the numbers themselves
    sort: int  # where the sort of keys is
    home: int
    room: Room
    sets: Sets
    tolerance: float  # of sets: how far rows may sum from one; below zero they are checked


def blending(
    values: FloatArray,
    rows: IntArray,
    recipe: Recipe,
    out: FloatArray,
    places: IntArray,
    room: Room,
    sets: Sets = NO_SETS,
    tolerance: float = -1.0,
) -> Blending:
    """Return what `blend` is given; a part has as many rows as there is room for."""
    sort, left = address(np.dtype(np.uint32)), np.zeros(len(rows), np.bool_)
    return Blending(values, rows, recipe, out, places, left, sort, id(HOME), room, sets, tolerance)


@compiled
def blend(board: IntArray, helpers: int, n: int, task: Blending, part: int, worker: int) -> int:
    """Write what a blend gives for the rows of a part."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    values, rows, recipe, out, places, left, sort, home, room, sets, tolerance = task
    n_classes, start = values.shape[1], part * room.step
    some = min(room.step, len(rows) - start)
    given, z = room.given[worker, :some], room.blended[worker, :some]
    logs, spread = room.logs[worker, :some], room.spread[worker, :some]
    order, ties = room.order[worker, :some], room.ties[worker, :some]
    if not _are_fine(values, rows[start : start + some], recipe.from_logits, tolerance, given, z):
        sets.counts[part] = -1
        return 0
    probs = given
    if recipe.from_logits:
        probs = room.probs[worker, :some]
        _softmax(given, probs, spread, recipe.cuts[0], recipe.cuts[1])
        _take(given, spread, recipe.least[1], logs)
    else:
        flat = probs.reshape(probs.size), logs.reshape(logs.size)
        _log_into(flat[0], recipe.least[0], 0.0, flat[1], room.lines[worker])
    if recipe.label_bits > 0:
        keys, own_left = room.keys[worker, :some], left[start : start + some]
        _order(
            given, recipe.label_bits, recipe.from_logits, sort, home, keys, order, ties, own_left
        )
    terms_into(probs, logs, order, ties, recipe.kinds, recipe.numbers, z)
    if len(recipe.factors) > 0:
        patterns, whole = room.patterns[worker, :some], room.whole[worker, :some]
        patterns_into(logs, recipe.floors[0], recipe.shifts[:2], patterns)
        patterns_in_units(patterns, recipe.pattern_unit, whole)
        add_products(whole, recipe.factors, recipe.unit, False, z)
    if recipe.becomes == EVIDENT:
        _measure(logs, recipe, room.sums[worker, :, :some], spread)
        powers, tops = room.given[worker].reshape(room.given[worker].size), room.sums[worker, 0]
        evident_into(z, spread, recipe.evidence, recipe.cuts, z, powers, tops, room.lines[worker])
    elif recipe.becomes == PROBS:
        _softmax(z, z, spread, recipe.cuts[0], recipe.cuts[1])
    if len(sets.lowest) > 0:
        sets.counts[part] = _in_sets(z, start, sets, worker)
        return 0
    for i in range(some):
        place = places[start + i]
        for k in range(n_classes):
            out[place, k] = z[i, k]
    return 0


@regrouped
def _is_fine(row: FloatArray, logits: bool, tolerance: float) -> bool:
    """Whether a row is seen to be outputs of a model: finite logits, or shares that sum to one."""
    total, most, wrong = 0.0, np.inf if logits else 2.0, 0
    least = -np.inf if logits else -1.0
    for k in range(row.size):
        value = row[k]
        wrong += not least < value < most
        wrong += not (logits or value >= 0.0)
        total += value
    return wrong == 0 and (logits or abs(total - 1.0) <= tolerance)


@inner
def _are_fine(
    values: FloatArray, rows: IntArray, logits: bool, tolerance: float, given: FloatArray,
    z: FloatArray,
) -> bool:  # fmt: skip
    """Read some rows, and whether all of them are seen to be fine; `z` begins with zeros."""
    fine = True
    for i in range(len(rows)):
        row = values[rows[i]]
        for k in range(len(row)):
            given[i, k], z[i, k] = row[k], 0.0
        if tolerance >= 0:
            fine &= _is_fine(given[i], logits, tolerance)
    return fine


@inner
def _in_sets(z: FloatArray, start: int, sets: Sets, worker: int) -> int:
    """Write the sets of rows, of which `start` is the first, and return how many labels are in."""
    n_classes, count = z.shape[1], 0
    found, spare, room = sets.found[worker, 0], sets.found[worker, 1], sets.room[worker]
    labels = sets.labels[start * n_classes : (start + len(z)) * n_classes]
    for i in range(len(z)):
        limit, mask, size = sets.lowest[start + i], sets.mask[start + i], 0
        for k in range(n_classes):
            inside = z[i, k] >= limit
            mask[k] = inside
            size += inside
        _write_inside(mask, size, found)
        if size > 1:
            _falling(z[i], found[:size], spare, room)
        for place in range(size):
            labels[count + place] = found[place]
        count += size
    return count


@inner
def _order(
    values: FloatArray, label_bits: int, from_logits: bool, sort: int, home: int, keys: Any,
    order: IntArray, ties: Any, left: Any,
) -> None:  # fmt: skip
    """Write the order of the labels of rows, and whether they may have ties.

    Where rows are `left` to others, it is any order.
    """
    keys_into(values, label_bits, keys)
    for i in range(len(values)):
        sort_row(sort, keys[i], home)
    any_left = order_into(values, keys, label_bits, order, ties) > 0
    for i in range(len(values)):
        ties[i] |= from_logits  # probabilities tie where logits do not
        left[i] = any_left and order[i, 0] < 0
        for k in range(values.shape[1] if left[i] else 0):
            order[i, k] = k


class Scoring(NamedTuple):
    """Rows whose scores go to planes of their own, one for every term."""

    values: FloatArray  # (n, K)
    from_logits: bool
    probs: FloatArray  # (n, K): room where these are logits
    kinds: IntArray  # (t,) and
    numbers: FloatArray  # (t, K + 1): as `terms.terms_into` takes them
    label_bits: int  # of a key that is sorted; 0 where nobody asks for the order
    planes: FloatArray  # (p, n, K)
    columns: IntArray  # (t,) of these planes
    logs: int  # the plane of the logarithms
    least: tuple[float, float]  # the smallest probability that has a logarithm, and this
    floor: float  # of log-probabilities, for a pattern
    shifts: tuple[float, float]  # what rounds: for a norm, for a factor
    cuts: tuple[float, float]
    patterns: Any  # (n, K) float32
    left: Any  # (n,) bool: which rows have to be done by others, who sort the numbers themselves
    sort: int
    home: int
    sums: FloatArray  # (n, 1): room
    keys: Any  # (workers, r, K) uint32: room
    order: IntArray  # (workers, r, K): room
    ties: Any  # (workers, r) bool: room
    lines: FloatArray  # (workers, LINES, AT_ONCE): room
    step: int  # r, the rows of a part


def rows_of_part(n_classes: int) -> int:
    """Return how many rows are worked on at once."""
    return max(1, TOGETHER // n_classes)


def sorting_room(
    workers: int, n_classes: int
) -> tuple[int, int, Any, IntArray, Any, FloatArray, int]:
    """Return where the sort of keys is, room to sort for so many workers, and rows of a part."""
    step = rows_of_part(n_classes)
    return (
        address(np.dtype(np.uint32)), id(HOME), rooms(workers, step, n_classes, dtype=np.uint32),
        rooms(workers, step, n_classes, dtype=np.int64), rooms(workers, step, dtype=np.bool_),
        rooms(workers, LINES, AT_ONCE), step,
    )  # fmt: skip


@compiled
def score(board: IntArray, helpers: int, n: int, task: Scoring, part: int, worker: int) -> int:
    """Write the terms of the rows of a part to planes, and the patterns of these rows."""
    if part < 0:
        return run(board, helpers, n, itself(board, helpers, n, task))
    start, stop = part * task.step, min((part + 1) * task.step, len(task.values))
    given, logs = task.values[start:stop], task.planes[task.logs, start:stop]
    probs = given
    if task.from_logits:
        probs, sums = task.probs[start:stop], task.sums[start:stop]
        _softmax(given, probs, sums, task.cuts[0], task.cuts[1])
        _take(given, sums, task.least[1], logs)
    else:
        flat = probs.reshape(probs.size), logs.reshape(logs.size)
        _log_into(flat[0], task.least[0], 0.0, flat[1], task.lines[worker])
    order, ties = task.order[worker, : stop - start], task.ties[worker, : stop - start]
    if task.label_bits > 0:
        keys, left = task.keys[worker, : stop - start], task.left[start:stop]
        _order(
            given, task.label_bits, task.from_logits, task.sort, task.home, keys, order, ties, left
        )
    for t in range(len(task.kinds)):
        plane = task.planes[task.columns[t], start:stop]
        for i in range(stop - start):
            for k in range(plane.shape[1]):
                plane[i, k] = 0.0
        own, numbers = task.kinds[t : t + 1], task.numbers[t : t + 1]
        terms_into(probs, logs, order, ties, own, numbers, plane)
    patterns_into(logs, task.floor, task.shifts, task.patterns[start:stop])
    return 0


@inner
def _take(logits: FloatArray, sums: FloatArray, least: float, out: FloatArray) -> None:
    """Write logits less the logarithms of their sums (n, 1), or `least` where that is more."""
    for i in range(len(logits)):
        for k in range(logits.shape[1]):
            log = logits[i, k] - sums[i, 0]
            out[i, k] = least if log < least else log


@inner
def _measure(logs: FloatArray, recipe: Recipe, sums: FloatArray, spread: FloatArray) -> None:
    """Write ``log(sd + c)`` of rows of log-probabilities: what `log_spreads` says of one model."""
    spread_sums_into(logs, recipe.floors[1], recipe.shifts[2], sums[0], sums[1])
    n_classes = logs.shape[1]
    for i in range(len(logs)):
        mean = sums[0, i] / n_classes
        variance = max(sums[1, i] / n_classes - mean * mean, 0.0)
        spread[i, 0] = log_of(math.sqrt(variance) + recipe.least_spread)
