"""A few directions of weight space at a time: a problem of two or three scores.

Along ``w + a u + b v`` the combined score of every label is ``<w, s> + a <u, s> + b <v, s>``: an
average of two or three scores again, however many there are. The exact engine counts for all
points of such a line or plane in one pass, at a small part of what as many weights over all scores
would cost. Sums are added in another order there than in `combine`; whatever wins is counted again
as it is.
"""

from __future__ import annotations

import numpy as np

from conformix.conformal import kth_largest
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.search.objective import SizeObjective


class Span:
    """Counts along directions from one base point, which is combined only once.

    Parameters
    ----------
    objective : SizeObjective
        What is counted, over all scores.
    """

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

        Parameters
        ----------
        directions : array of shape (r, d)
            Where to go from the base point.
        steps : array of shape (m, r)
            How far, with ``1 + sum(step) > 0``.
        """
        narrow = self.objective.with_scores(lambda scores: self._columns(scores, directions))
        points = np.column_stack([np.ones(len(steps)), steps])
        self.evaluated += len(points)
        # Sets do not change with the length of the weights; where they sum to one, the engine's
        # bounds are tighter.
        return narrow.counts(points / points.sum(axis=1, keepdims=True))

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
    kept = np.maximum(weights, 0.0)
    kept[kept < 1e-12 * kept.max()] = 0.0
    return kept / kept.sum()


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
