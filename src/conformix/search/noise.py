"""How sure is a difference of two sizes: the bootstrap, with the noise of the threshold in it.

A bootstrap sample draws the rows anew, with replacement. The threshold moves to the k-th largest
drawn true-label score and the sizes are those of the drawn size rows at that threshold. Rows that
are both tuning and size rows are drawn together. Labels far from the threshold are counted once
for all samples; only those between the smallest and the largest threshold are looked at again.
"""

from __future__ import annotations

import numpy as np

from conformix.conformal import kth_largest
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.objective import SizeObjective


class Draws:
    """Bootstrap samples of the rows of an objective: how often every row was drawn.

    Parameters
    ----------
    objective : SizeObjective
        Whose rows; plain set sizes only.
    n_draws : int
        Number of samples.
    rng : Generator
        Where they come from.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((50, 4, 2))
    >>> objective = SizeObjective(scores[:, 0], [scores], k=45)
    >>> draws = Draws(objective, 100, np.random.default_rng(0))
    >>> best = np.array([0.5, 0.5])
    >>> draws.standard_error(best, draws.sizes(best))
    0.0
    """

    def __init__(self, objective: SizeObjective, n_draws: int, rng: np.random.Generator) -> None:
        if type(objective) is not SizeObjective:
            raise InvalidInput(
                "standard errors of sizes are there for the mean set size with empty sets allowed; "
                f"got {type(objective).__name__}."
            )
        self.objective = objective
        self.tune = _multiplicities(len(objective.true_scores), n_draws, rng)
        self.size = [
            self.tune if same_rows(objective.true_scores, part)
            else _multiplicities(len(part), n_draws, rng)
            for part in objective.size_parts
        ]  # fmt: skip

    def sizes(self, weights: FloatArray) -> FloatArray:
        """Return the mean size of one weight vector in every sample, shape (n_draws,)."""
        objective = self.objective
        order, values = _rising(combine(objective.true_scores, weights))
        thresholds = np.array([_kth(values, drawn[order], objective.k) for drawn in self.tune])
        low, high = thresholds.min(), thresholds.max()
        totals = np.zeros(len(thresholds), dtype=np.int64)
        for part, drawn in zip(objective.size_parts, self.size, strict=True):
            combined = combine(part, weights)
            totals += drawn @ (combined >= high).sum(axis=1)
            rows, labels = np.nonzero((combined >= low) & (combined < high))
            if len(rows):
                order, near = _rising(combined[rows, labels])
                places = np.searchsorted(near, thresholds)
                for b, place in enumerate(places):
                    totals[b] += drawn[b, rows[order[place:]]].sum()
        return totals / objective.n_size

    def standard_error(self, weights: FloatArray, reference: FloatArray) -> float:
        """Return the standard error of a size less a reference's sizes in the same samples."""
        return float((self.sizes(weights) - reference).std(ddof=1))


def same_rows(true_scores: FloatArray, part: FloatArray) -> bool:
    """Return whether every true-label score vector stands in the same row of `part`.

    Examples
    --------
    >>> part = np.array([[[0.1], [0.9]], [[0.4], [0.6]]])
    >>> same_rows(part[[0, 1], [1, 0]], part), same_rows(part[[1, 0], [1, 0]], part)
    (True, False)
    """
    if len(true_scores) != len(part):
        return False
    found = np.ones(part.shape[:2], dtype=bool)
    for j in range(part.shape[2]):
        found &= part[..., j] == true_scores[:, j, None]
    return bool(found.any(axis=1).all())


def _multiplicities(n: int, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of n rows is drawn in every sample, int64 (n_draws, n)."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=n_draws)


def _rising(values: FloatArray) -> tuple[IntArray, FloatArray]:
    order = np.argsort(values, kind="stable")
    return order, values[order]


def _kth(rising: FloatArray, drawn: IntArray, k: int) -> float:
    """Return the k-th largest of values of which each is there `drawn` times."""
    if k > len(rising):
        return kth_largest(rising, k)
    from_top = np.cumsum(drawn[::-1])
    return float(rising[len(rising) - 1 - int(np.searchsorted(from_top, k))])
