"""Search for many scores: exact searches along lines through weight space, from several starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from conformix.conformal import kth_largest
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.simplex import preference
from conformix.search.objective import SearchResult, SizeObjective


class Span:
    """Counts along directions from one base point, which is combined only once."""

    def __init__(self, objective: SizeObjective) -> None:
        self.objective = objective
        self.base: FloatArray = np.zeros(objective.d)
        self.evaluated = 0
        self._rooms: dict[int, FloatArray] = {}

    def move_to(self, base: FloatArray) -> None:
        """Take another base point, shape (d,), on the simplex."""
        self.base = base
        self._rooms.clear()

    def here(self) -> int:
        """Return the count of the base point."""
        return int(self.counts(np.zeros((0, len(self.base))), np.zeros((1, 0)))[0])

    def counts(self, directions: FloatArray, steps: FloatArray) -> IntArray:
        """Return the counts at ``base + steps @ directions``, int64 (m,).

        Directions are (r, d), steps (m, r); the weights there are not negative, and not all zero.
        """
        narrow = self.objective.with_scores(lambda scores: self._columns(scores, directions))
        points = np.column_stack([np.ones(len(steps)), steps])
        self.evaluated += len(points)
        # Sets do not change with the length of the weights; where they sum to one, the engine's
        # bounds are tighter. A direction from weights to others leaves their sum as it is.
        totals = 1.0 + steps @ directions.sum(axis=1).round(12)
        return narrow.counts(points / totals[:, None])

    def _columns(self, scores: FloatArray, directions: FloatArray) -> FloatArray:
        """Return ``<base, s>`` and ``<direction, s>`` of scores (..., d) as (..., 1 + r)."""
        wanted = 1 + len(directions)
        room = self._rooms.get(id(scores))
        if room is None or len(room) < wanted:
            fresh = np.empty((wanted, *scores.shape[:-1]))
            if room is None:
                fill_combined(scores, self.base, fresh[0])
            else:
                fresh[0] = room[0]
            room = self._rooms[id(scores)] = fresh
        for place, direction in enumerate(directions, start=1):
            fill_combined(scores, direction, room[place])
        return np.moveaxis(room[:wanted], 0, -1)


def fill_combined(scores: FloatArray, weights: FloatArray, out: FloatArray) -> None:
    """Write the combination of scores (..., d) to `out` (...), leaving out weights of zero."""
    used = np.flatnonzero(weights)
    out.fill(0.0)
    for place, j in enumerate(used):
        if place == 0:
            np.multiply(scores[..., j], weights[j], out=out)
        else:
            out += np.multiply(scores[..., j], weights[j], dtype=np.float64)


def on_simplex(weights: FloatArray) -> FloatArray:
    """Return non-negative weights that sum to one; what rounding left below zero is zero.

    Examples
    --------
    >>> on_simplex(np.array([3.0, 1.0, -1e-17]))
    array([0.75, 0.25, 0.  ])
    """
    weights = np.maximum(weights, 0.0)
    weights[weights < 1e-12 * weights.max()] = 0.0
    return weights / weights.sum()


def spreads(objective: SizeObjective) -> FloatArray:
    """Return the scale of every score, shape (d,): weights are of one order in its inverse.

    The way from the typical true label to the threshold of the score on its own, since that is
    where labels are told apart; where the two tie, the mean absolute deviation, or one.
    """
    true = objective.true_scores
    k = min(objective.k, len(true))
    ends = np.array([kth_largest(column, k) for column in true.T])
    width = np.median(true, axis=0) - ends
    away = np.abs(true - true.mean(axis=0)).mean(axis=0)
    width = np.where(width > 1e-9 * away, width, away)
    return np.where(width > 0, width, 1.0)


# A weight is tried from a ten-thousandth to ten thousand times what would balance the scores,
FAR = np.geomspace(1e-4, 1e4, 25)
# and at these multiples of what it is.
NEAR = np.array([0.25, 0.5, 0.71, 0.84, 0.92, 0.96, 1.04, 1.09, 1.19, 1.41, 2.0, 4.0])
# Between the neighbours of the best point so many more are tried, if it is this close to winning.
REFINED, WORTH_REFINING = 10, 1.01
# Two weights at once: multiples of what they are, and shares of the balance for one that is zero.
MULTIPLES = np.array([0.0, 0.25, 0.5, 0.75, 0.9, 1.1, 1.33, 2.0])
SHARES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
# A sweep over all scores that wins less than this share is the last one.
LITTLE = 5e-4
# Weights near the best: how far their logarithms stray, and shares of the way to every corner.
JITTERS = (0.05, 0.2, 0.5, 1.0)
NUDGES = (0.02, 0.05, 0.1, 0.2, 0.4)
NEAR_PER_PLACE = 10
# Steps towards other weights; negative ones lead away from them.
STEPS = np.concatenate([np.geomspace(0.03, 4.0, 10), -np.geomspace(0.03, 4.0, 8)])


class Walk:
    """Moves from weights to better weights until a budget of counted weights is spent."""

    def __init__(self, objective: SizeObjective, budget: int) -> None:
        self.objective = objective
        self.budget = budget
        self.span = Span(objective.within_reach())  # no weight on the way is negative
        self.units = 1.0 / spreads(objective)
        self.visited: list[FloatArray] = []
        self.counts: list[int] = []

    @property
    def left(self) -> int:
        return self.budget - self.span.evaluated

    @property
    def best(self) -> FloatArray:
        return self.visited[int(np.argmin(self.counts))]

    def start(self, weights: FloatArray) -> None:
        """Stand at `weights` (d,)."""
        self.span.move_to(weights)
        self._note(weights, self.span.here())

    def sweep(self, most: int) -> None:
        """Search along every score in turn, at most so often, while that wins something."""
        for _ in range(most):
            before = self.counts[-1]
            for j in range(len(self.span.base)):
                if self.left > 0:
                    self.coordinate(j)
            if self.counts[-1] >= before * (1.0 - LITTLE):
                break

    def coordinate(self, j: int) -> bool:
        """Search exactly over the weight of score j, from none to all; whether it moved."""
        base = self.span.base
        if base[j] == 1.0:
            return False
        axis = np.zeros((1, len(base)))
        axis[0, j] = 1.0
        tried = amounts(base, j, self.units)
        counts = self.span.counts(axis, tried[:, None] - base[j])
        here = int(counts[np.searchsorted(tried, base[j])])
        place = int(counts.argmin())
        if counts[place] <= here * WORTH_REFINING:
            closer = between(tried, place)
            counts = np.concatenate([counts, self.span.counts(axis, closer[:, None] - base[j])])
            tried = np.concatenate([tried, closer])
            place = int(counts.argmin())
        return self._move(base + (tried[place] - base[j]) * axis[0], int(counts[place]), here)

    def pairs(self) -> bool:
        """Search over two weights at once, one of them in use; whether anything moved."""
        moved = False
        for i in np.flatnonzero(self.span.base > 0):
            for j in range(len(self.span.base)):
                if j != i and self.left > 0 and 0 < self.span.base[i] < 1:
                    moved |= self.pair(int(i), j)
        return moved

    def pair(self, i: int, j: int) -> bool:
        """Search over the weights of scores i and j, on a coarse grid around what they are."""
        base = self.span.base
        axes = np.zeros((2, len(base)))
        axes[0, i] = axes[1, j] = 1.0
        balance = self.units[j] * (base @ (1.0 / self.units))
        other = base[j] * (MULTIPLES - 1.0) if base[j] > 0 else balance * SHARES
        grid = np.array([(a, b) for a in base[i] * (MULTIPLES - 1.0) for b in other])
        return self.try_steps(axes, grid[1.0 + grid.sum(axis=1) > 1e-9])

    def towards(self, target: FloatArray) -> bool:
        """Search along the line through the incumbent and `target` (d,), on both sides."""
        direction = (target - self.span.base)[None]
        inside = ((self.span.base + STEPS[:, None] * direction) >= 0).all(axis=1)
        return bool(inside.any()) and self.try_steps(direction, STEPS[inside, None])

    def evolve(self, rng: np.random.Generator, patience: int) -> None:
        """Search towards mutated weights until so many in a row won nothing."""
        idle = 0
        while self.left > 0 and idle < patience:
            idle = 0 if self.towards(mutated(self.span.base, self.units, rng)) else idle + 1

    def try_steps(self, directions: FloatArray, steps: FloatArray) -> bool:
        """Move to the best of ``base + steps @ directions`` if it beats the base point."""
        counts = self.span.counts(directions, np.vstack([np.zeros(len(directions)), steps]))
        place = int(counts[1:].argmin())
        return self._move(
            self.span.base + steps[place] @ directions, int(counts[place + 1]), int(counts[0])
        )

    def _move(self, weights: FloatArray, count: int, here: int) -> bool:
        if count >= here:
            return False
        weights = on_simplex(weights)
        self.span.move_to(weights)
        self._note(weights, count)
        return True

    def _note(self, weights: FloatArray, count: int) -> None:
        self.visited.append(weights)
        self.counts.append(count)


def amounts(base: FloatArray, j: int, units: FloatArray) -> FloatArray:
    """Return the amounts of score j to try, rising, beside the others as they are: 0 to very much.

    Examples
    --------
    >>> tried = amounts(np.array([0.5, 0.5]), 1, np.ones(2))
    >>> tried[[0, -1]], 0.5 in tried
    (array([   0., 5000.]), True)
    """
    others = base @ (1.0 / units) - base[j] / units[j]
    far = units[j] * others * FAR
    return np.unique(np.concatenate([[0.0, base[j]], far[far > 0], base[j] * NEAR]))


def between(tried: FloatArray, place: int) -> FloatArray:
    """Return amounts between the neighbours of one that was tried, on a geometric grid.

    Examples
    --------
    >>> between(np.array([0.0, 1.0, 2.0, 4.0]), 2).round(1)[[0, -1]]
    array([1.1, 3.5])
    """
    low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
    low = max(low, tried[1] * 1e-2)
    return np.geomspace(low, max(high, 2.0 * low), REFINED + 2)[1:-1]


def mutated(base: FloatArray, units: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return weights whose logarithms are jittered; now and then a score comes in or goes out.

    Examples
    --------
    >>> weights = mutated(np.array([0.5, 0.5]), np.ones(2), np.random.default_rng(0))
    >>> round(float(weights.sum()), 12)
    1.0
    """
    weights = base * np.exp(rng.choice([0.1, 0.3, 1.0]) * rng.standard_normal(len(base)))
    if rng.random() < 0.5:
        j = int(rng.integers(len(base)))
        weights[j] += units[j] * (base @ (1.0 / units)) * 10.0 ** rng.uniform(-2.5, 0.0)
    if rng.random() < 0.3 and (weights > 0).sum() > 2:
        weights[rng.choice(np.flatnonzero(weights > 0))] = 0.0
    return on_simplex(weights)


def around(best: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    """Return weights near `best` (d,), itself first: jittered, and moved towards all corners.

    Examples
    --------
    >>> around(np.array([0.5, 0.5]), 50, np.random.default_rng(0)).shape
    (48, 2)
    """
    d = len(best)
    targets = np.vstack([np.eye(d), np.full((1, d), 1.0 / d)])
    steps = [best + t * (targets - best) for t in NUDGES]
    each = max(1, (samples - 1 - len(NUDGES) * (d + 1)) // len(JITTERS))
    clouds = [best * np.exp(width * rng.standard_normal((each, d))) for width in JITTERS]
    every = np.maximum(np.vstack([best[None], *clouds, *steps]), 0.0)
    return every / every.sum(axis=1, keepdims=True)


class Tour(NamedTuple):
    """Where a search has been."""

    visited: list[FloatArray]  # every weight vector (d,) that was once the best of its walk
    evaluated: int  # how many weights were counted on the way
    strategy: str  # what was searched, for people

    def ranked(
        self, objective: SizeObjective, others: FloatArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the distinct weights, best first, counted as they are, and their counts."""
        every = self.visited if others is None else [*self.visited, *others]
        weights = np.unique(np.array(every), axis=0)
        weights = weights[preference(weights)]
        counts = objective.counts(weights)
        order = np.argsort(counts, kind="stable")  # ties keep the order of preference
        return weights[order], counts[order]

    def shortlist(
        self, objective: SizeObjective, size: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return so many good weights: visited ones and others near the best."""
        best = self.ranked(objective)[0][0]
        near = around(best, NEAR_PER_PLACE * size, rng)
        return self.ranked(objective, near)[0][:size]

    def result(self, objective: SizeObjective) -> SearchResult:
        weights, counts = self.ranked(objective)
        return SearchResult(
            weights=weights[0],
            count=int(counts[0]),
            n_size=objective.n_size,
            n_evaluated=self.evaluated + len(weights),
            strategy=self.strategy,
        )


# Starts are followed on so many (row, label) pairs at most, the best of them on all rows.
SKETCH_PAIRS = 2**17
# Of the budget, what goes to the starts; of the ends, how many go on with all rows.
SKETCH_SHARE = 0.5
FINALISTS = 3
SWEEPS = 4
# Random weights among which starts are chosen: near the corners, one per so many of the budget.
SPARSE, DRAWN_SHARE = 0.2, 80
PATIENCE = 30


@dataclass(frozen=True)
class LineSearch:
    """Small sets by exact line searches from several starts, for five to fifty scores.

    From the best corners, from equal weights and from weights of equal spread, the weight of every
    score in turn is searched exactly, then two at a time, then along lines towards mutated
    weights. A line is a problem of two scores, which the exact engine counts at all points at once.

    Parameters
    ----------
    budget : int
        Number of weights whose sets are counted, on lines and elsewhere; it may end sooner.
    starts : int
        Number of starting points.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> scores = cx.score_tensor(data.outputs["vgg16"][:500], ("thr", "aps", "rank", "margin",
    ...                          "logp"), kind="logits")
    >>> found = cx.search.search_weights(scores, data.labels[:500], alpha=0.05, random_state=0,
    ...                                  search=LineSearch(budget=2_000))
    >>> found.size
    1.0...
    """

    budget: int = 40_000
    starts: int = 6

    on_simplex: ClassVar[bool] = True

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the best weights found; all that is drawn comes from `rng`."""
        return self.tour(objective, rng).result(objective)

    def tour(self, objective: SizeObjective, rng: np.random.Generator | None = None) -> Tour:
        """Return all weights that were once the best of their walk."""
        check_positive("budget", self.budget)
        check_positive("starts", self.starts)
        objective = objective.on_host()
        rng = np.random.default_rng(0) if rng is None else rng
        sketch = Walk(some_size_rows(objective, SKETCH_PAIRS, rng), self.budget)
        ends = []
        for start in first_weights(sketch, rng)[: self.starts]:
            if sketch.span.evaluated < SKETCH_SHARE * self.budget:
                sketch.start(start)
                sketch.sweep(SWEEPS)
                ends.append((sketch.counts[-1], sketch.visited[-1]))
        ends.sort(key=lambda end: end[0])
        finals = [weights for _, weights in ends]
        walk = Walk(objective, sketch.left)
        return finish(walk, finals, rng, f"line search from {len(ends)} starts", sketch)


def finish(
    walk: Walk, ends: list[FloatArray], rng: np.random.Generator, strategy: str, sketch: Walk
) -> Tour:
    """Return what the best of some ends lead to on all rows."""
    budget = walk.budget
    for place, end in enumerate(ends[:FINALISTS], start=1):
        walk.budget = budget * place // min(FINALISTS, len(ends))
        if walk.left > 0:
            walk.start(end)
            walk.sweep(SWEEPS)
            while walk.left > 0 and walk.pairs():
                walk.sweep(SWEEPS)
    walk.budget = budget
    if walk.visited:
        walk.start(walk.best)
        walk.evolve(rng, PATIENCE)
    evaluated = sketch.span.evaluated + walk.span.evaluated
    # Whatever was found, it is no worse than any single score and the plain average.
    plain = [*np.eye(walk.objective.d), np.full(walk.objective.d, 1.0 / walk.objective.d)]
    return Tour([*plain, *ends, *walk.visited], evaluated, strategy)


def first_weights(walk: Walk, rng: np.random.Generator) -> list[FloatArray]:
    """Return where to start: good random weights, the best corners, equal spread, equal weights."""
    d = walk.objective.d
    drawn = rng.dirichlet(np.full(d, SPARSE), size=walk.budget // DRAWN_SHARE)
    drawn = np.concatenate([drawn, drawn * walk.units])
    tried = np.array([*np.eye(d), *(on_simplex(w) for w in drawn)])  # a small budget draws none
    counts = walk.objective.counts(tried)
    walk.span.evaluated += len(tried)
    corners = np.argsort(counts[:d], kind="stable")
    lucky = d + np.argsort(counts[d:], kind="stable")
    broad = [on_simplex(walk.units), np.full(d, 1.0 / d)]
    first = [tried[i] for i in (*lucky[:1], *corners[:1])]
    return [*first, *broad, *(tried[i] for i in (*lucky[1:2], *corners[1:]))]


def some_size_rows(objective: SizeObjective, pairs: int, rng: np.random.Generator) -> SizeObjective:
    """Return the objective over a sample of its size rows, about so many (row, label) pairs."""
    share = pairs / max(1, sum(part[..., 0].size for part in objective.size_parts))
    if share >= 1:
        return objective

    def rows(n: int) -> IntArray:
        return np.sort(rng.permutation(n)[: max(1, round(n * share))])

    return objective.with_size_rows(rows)


def check_positive(name: str, value: object) -> None:
    """Refuse what is no positive integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} must be a positive integer; got {value!r}.")
