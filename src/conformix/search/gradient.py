"""Search by gradients of a smooth stand-in for the set size, polished on the set size itself.

The weights are ``softmax(theta)``, each in the inverse of its score's scale: a step in theta
multiplies a weight, so that small ones are within reach. The sigmoids narrow from stage to stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from conformix.conformal import kth_largest
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.line import (
    SWEEPS,
    Tour,
    Walk,
    check_positive,
    finish,
    on_simplex,
    some_size_rows,
)
from conformix.search.objective import SearchResult, SizeObjective

# Pairs that are summed at once: their scores stay in a core's cache for the second pass over them.
BLOCK = 2**12
# Newton steps for the threshold; halving alone would be there after about sixty.
MOST_STEPS = 100


class Widths(NamedTuple):
    """How wide the sigmoids are: around the size's threshold, and for the threshold itself."""

    size: float
    threshold: float


class Surrogate:
    """The smooth size as a function of the weights.

    Parameters
    ----------
    true_scores : array of shape (n, d)
        Scores of the true labels.
    pairs : array of shape (d, P)
        Scores of all labels of some size rows.
    n_rows : int
        Number of these rows.
    k : int
        The conformal rank, at most n.

    Examples
    --------
    >>> smooth = Surrogate(np.array([[0.2], [0.8]]), np.array([[0.1, 0.2, 0.8, 0.9]]), 2, 2)
    >>> value, slope = smooth(np.array([1.0]), Widths(1e-4, 1e-4))
    >>> round(value, 3)
    1.25
    """

    def __init__(
        self,
        true_scores: FloatArray,
        pairs: FloatArray,
        n_rows: int,
        k: int,
    ) -> None:
        self.true_scores = true_scores
        self.n_rows = n_rows
        self.k = k
        self._true_planes = np.ascontiguousarray(true_scores.T, dtype=np.float64)
        starts = range(0, pairs.shape[1], BLOCK)
        self._blocks = [np.ascontiguousarray(pairs[:, i : i + BLOCK]) for i in starts]

    def threshold(self, weights: FloatArray, width: float) -> tuple[float, FloatArray]:
        """Return the smooth threshold and its gradient, shape (d,)."""
        hard = kth_largest(combine(self.true_scores, weights), self.k)
        reach = width * (2.0 + np.log(len(self.true_scores)))
        low, high, t = hard - reach, hard + reach, hard
        for _ in range(MOST_STEPS):
            sums = _sums(self._true_planes, weights, t, width)
            excess = sums[0] - (self.k - 0.5)
            low, high = (t, high) if excess > 0 else (low, t)
            if abs(excess) < 1e-9 or high - low <= 1e-15 * abs(t):
                break
            newton = t + excess / max(sums[1], 1e-300)
            t = newton if low < newton < high else 0.5 * (low + high)
        return t, sums[2:] / max(sums[1], 1e-300)

    def __call__(self, weights: FloatArray, widths: Widths) -> tuple[float, FloatArray]:
        """Return the smooth mean size and its gradient, shape (d,)."""
        t, slope = self.threshold(weights, widths.threshold)
        sums = np.sum([_sums(block, weights, t, widths.size) for block in self._blocks], axis=0)
        return float(sums[0] / self.n_rows), (sums[2:] - sums[1] * slope) / self.n_rows

    def widths(self, weights: FloatArray, share: float) -> Widths:
        """Return widths for a stage: a share of the way from the typical label to the threshold.

        The threshold's own is no wider than the rows around it lie apart, since with a small
        alpha few rows decide.
        """
        values = np.sort(combine(self.true_scores, weights))
        n = len(values)
        place = n - self.k
        around = max(8, place // 2)
        low, high = values[max(0, place - around)], values[min(n - 1, place + around)]
        scale = values[n // 2] - values[place]
        if scale <= 0:  # the typical label ties with the threshold
            scale = max(values[-1] - values[0], 1e-12)
        size = share * scale
        return Widths(size, min(size, max(share * (high - low) / 2, 1e-6 * scale)))


def _sums(planes: FloatArray, weights: FloatArray, threshold: float, width: float) -> FloatArray:
    from conformix.kernels.host.surrogate import sigmoid_sums  # noqa: PLC0415  numba loads late

    sums = np.zeros(len(weights) + 2)
    sigmoid_sums(planes, weights, threshold, width, sums)
    return sums


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
    candidates = []
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
        candidates.append(on_simplex(softmax(theta) * sketch.units))
    sketch.span.evaluated += len(candidates)
    return candidates[int(sketch.objective.counts(np.array(candidates)).argmin())]


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
