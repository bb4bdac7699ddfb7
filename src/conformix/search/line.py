"""Search for many scores: exact searches along lines through weight space, from several starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult
from conformix.search.span import on_simplex
from conformix.search.walk import Tour, Walk

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
    walk: Walk, ends: list[FloatArray], rng: np.random.Generator, told: str, sketch: Walk
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
    return Tour([*plain, *ends, *walk.visited], evaluated, told)


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
