"""Search by gradients of a smooth stand-in for the set size, polished on the set size itself.

The weights are ``softmax(theta)``, each in the inverse of its score's scale: a step in theta
multiplies a weight, so that small ones are within reach. The sigmoids narrow from stage to stage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.line import SWEEPS, check_positive, finish, some_size_rows
from conformix.search.objective import SizeObjective
from conformix.search.result import SearchResult
from conformix.search.span import on_simplex
from conformix.search.surrogate import Surrogate, Widths
from conformix.search.walk import Tour, Walk

# The stand-in is summed over at most so many (row, label) pairs.
SURROGATE_PAIRS = 2**17
# Widths of the sigmoids, as shares of the way from the typical true label to the threshold.
STAGES = (0.5, 0.2, 0.1, 0.05, 0.02)
STEPS_PER_STAGE = 40
# A corner in the interior of the simplex: the other weights are smaller by this factor.
CORNER = 4.0
# A gradient costs about as much as counting so many weights on a line.
COST = 20


@dataclass(frozen=True)
class GradientSearch:
    """Small sets by gradient descent on a smooth size, for five to fifty scores.

    Parameters
    ----------
    budget : int
        Number of weights whose sets are counted; a gradient is worth twenty of them.
    starts : int
        Number of starting points: weights of equal spread, then near the best corners.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> scores = cx.score_tensor(data.outputs["vgg16"][:500], ("thr", "aps", "rank", "margin",
    ...                          "logp"), kind="logits")
    >>> found = cx.search.search_weights(scores, data.labels[:500], alpha=0.05, random_state=0,
    ...                                  search=GradientSearch(budget=2_000, starts=2))
    >>> found.size
    1.0...
    """

    budget: int = 20_000
    starts: int = 4

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
        if not objective.follows_size:
            raise InvalidInput(
                'search="gradient" follows the slope of the mean size; for another objective say '
                'search="line" or "grid".'
            )
        rng = np.random.default_rng(0) if rng is None else rng
        sketch = Walk(some_size_rows(objective, SURROGATE_PAIRS, rng), self.budget)
        corners = objective.counts(np.eye(objective.d))
        sketch.span.evaluated += len(corners)
        best_first = np.argsort(corners, kind="stable")
        ends = [np.eye(objective.d)[best_first[0]], on_simplex(sketch.units)]
        if objective.k <= len(objective.true_scores):
            for theta in _starts(best_first)[: self.starts]:
                if sketch.span.evaluated < self.budget / 2:
                    ends.append(best_stage(sketch, theta))
        for place, end in enumerate(ends):  # where slopes end, steps may go on
            sketch.start(end)
            sketch.sweep(1 if place > 1 else SWEEPS)
            ends[place] = sketch.visited[-1]
        counts = sketch.objective.counts(np.array(ends))
        ends = [ends[i] for i in np.argsort(counts, kind="stable")]
        sketch.span.evaluated += len(ends)
        walk = Walk(objective, sketch.left)
        return finish(walk, ends, rng, f"gradients from {self.starts} starts", sketch)


def _starts(best_first: IntArray) -> list[FloatArray]:
    """Return thetas: all zero, then minus `CORNER` for all but one of the best scores."""
    d = len(best_first)
    return [np.zeros(d), *(-CORNER * (np.arange(d) != j) for j in best_first)]


def best_stage(sketch: Walk, theta: FloatArray) -> FloatArray:
    """Return the best weights after any stage, from wide sigmoids to narrow ones."""
    from scipy.optimize import minimize  # noqa: PLC0415  loads late

    smooth = stand_in(sketch.objective, sketch.units)
    found = []
    for share in STAGES:
        widths = smooth.widths(softmax(theta), share)

        def value_and_slope(theta: FloatArray, widths: Widths = widths) -> tuple[float, FloatArray]:
            weights = softmax(theta)
            size, slope = smooth(weights, widths)
            # The logarithm, so that a step means the same whatever the size.
            return np.log(size), weights * (slope - weights @ slope) / size

        done = minimize(
            value_and_slope, theta, jac=True, method="L-BFGS-B",
            options={"maxiter": STEPS_PER_STAGE},
        )  # fmt: skip
        theta = done.x
        sketch.span.evaluated += COST * done.nfev
        found.append(on_simplex(softmax(theta) * sketch.units))
    sketch.span.evaluated += len(found)
    return found[int(sketch.objective.counts(np.array(found)).argmin())]


def stand_in(objective: SizeObjective, units: FloatArray) -> Surrogate:
    """Return the smooth size of an objective, its scores in the given units."""
    planes = [np.moveaxis(part, -1, 0).reshape(objective.d, -1) for part in objective.size_parts]
    pairs = np.concatenate(planes, axis=1) * units[:, None]
    true = objective.true_scores * units
    return Surrogate(true, pairs, objective.n_size, objective.k)


def softmax(theta: FloatArray) -> FloatArray:
    """Return positive weights that sum to one.

    Examples
    --------
    >>> softmax(np.array([0.0, 0.0]))
    array([0.5, 0.5])
    """
    weights = np.exp(theta - theta.max())
    return weights / weights.sum()
