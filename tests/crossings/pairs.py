"""A covering array: few combinations in which every two values of two axes meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

from crossings.axes import AXES, Combination, may_join, may_stand_together

Pair = tuple[tuple[str, object], tuple[str, object]]
# Values that are drawn less often than others where nothing else decides: they are slow.
SELDOM = {("classes", 300): 4}
PLACES = {axis: place for place, axis in enumerate(AXES)}
# The axis with the most values is filled first: a sixth fewer combinations than in another order.
LONGEST_FIRST = sorted(AXES, key=lambda axis: -len(AXES[axis]))


def completed(
    start: Combination, gain: Callable[[Combination, str, object], int]
) -> Combination | None:
    """Return a whole combination that holds `start`, or None where every one is refused.

    Axis by axis the value with the largest gain that may stand there; a dead end is backed out of.
    """
    free = next((axis for axis in LONGEST_FIRST if axis not in start), None)
    if free is None:
        return start
    for value in sorted(AXES[free], key=lambda value: -gain(start, free, value)):
        longer = start | {free: value}
        if may_join(longer, free):
            whole = completed(longer, gain)
            if whole is not None:
                return whole
    return None


@cache
def allowed_pairs() -> list[Pair]:
    """Return every two values of two axes with a combination that is not refused."""
    listed = []
    for one, other in itertools.combinations(AXES, 2):
        for pair in itertools.product(AXES[one], AXES[other]):
            start = {one: pair[0], other: pair[1]}
            if may_stand_together(start) and completed(start, lambda *_: 0) is not None:
                listed.append(((one, pair[0]), (other, pair[1])))
    return listed


def covering_array() -> list[Combination]:
    """Return combinations that hold every allowed pair at least once; the same in every run.

    Greedy: a combination begins with the first pair that is still missing, and every further value
    is the one that meets the most values it has not met yet.
    """
    missing = dict.fromkeys(allowed_pairs())
    met: dict[tuple[str, object], int] = {}

    def gain(start: Combination, axis: str, value: object) -> int:
        new = (axis, value)
        pairs = sum(_pair(old, new) in missing for old in start.items())
        return 1000 * pairs - met.get(new, 0) * SELDOM.get(new, 1)  # then the value drawn least

    array = []
    while missing:
        start = dict(next(iter(missing)))
        whole = completed(start, gain)
        assert whole is not None  # only pairs with a combination are listed
        combination = {axis: whole[axis] for axis in AXES}
        for pair in itertools.combinations(combination.items(), 2):
            missing.pop(pair, None)
        for item in combination.items():
            met[item] = met.get(item, 0) + 1
        array.append(combination)
    return array


def _pair(one: tuple[str, object], other: tuple[str, object]) -> Pair:
    """Return two values in the order of their axes."""
    return (one, other) if PLACES[one[0]] < PLACES[other[0]] else (other, one)
