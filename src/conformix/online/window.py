"""The scores of the last true labels: a ring, and the thresholds of all candidates among them.

Every step asks for the k-th largest combined score of the window under each of M candidates. One
score comes and one goes, so that most of these stay what they were: combined scores are kept, and
where a threshold lies among them; only those that moved are looked up anew. The numbers are the
same as if all were sorted at every step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray


class Window:
    """The scores (d,) of the true labels of the last rows.

    Parameters
    ----------
    size : int
        How many rows are held.
    d : int
        Scores of a row.

    Examples
    --------
    >>> window = Window(3, 1)
    >>> for score in (0.5, 0.1, 0.4, 0.2):
    ...     window.add(np.array([score]))
    >>> window.combined(np.array([1.0]))
    array([0.2, 0.1, 0.4])
    >>> window.thresholds(np.array([[1.0], [2.0]]), place=1)
    array([0.2, 0.4])
    """

    def __init__(self, size: int, d: int) -> None:
        self.size, self.seen = size, 0
        self._ring = np.empty((size, d))
        self._candidates: Any = None  # those that combined scores are kept of
        self._under = np.empty((0, 0))  # (M, size)
        self._cuts: Any = None  # (M,), the thresholds, and
        self._places: Any = None  # (M,), where each lies among the sorted scores; -1: not known

    def __len__(self) -> int:
        return min(self.seen, self.size)

    @property
    def scores(self) -> FloatArray:
        """The scores as they stand in the ring, (n, d)."""
        return self._ring[: len(self)]

    def recall(self, scores: FloatArray, seen: int) -> None:
        """Take over a ring, after so many rows."""
        self.seen = seen
        self._ring[: len(scores)] = scores
        self._candidates = None

    def add(self, scores: FloatArray) -> None:
        """Put the scores (d,) of a true label in the place of the oldest."""
        place = self.seen % self.size
        self._ring[place] = scores
        if self._candidates is not None:
            self._replace(place, combine(scores, self._candidates))
        self.seen += 1

    def combined(self, weights: FloatArray) -> FloatArray:
        """Return the combined scores (n,) of the window."""
        return combine(self.scores, weights)

    def thresholds(self, candidates: FloatArray, place: int) -> FloatArray:
        """Return what stands at a place, from 0, of the sorted combined scores of each candidate.

        Parameters
        ----------
        candidates : array of shape (M, d)
            Weights; the same object as before, where they are the same.
        place : int
            Below ``len(self)``.
        """
        n = len(self)
        if candidates is not self._candidates:
            self._keep(candidates, n)
        moved = np.flatnonzero(self._places != place)
        if len(moved):
            some = self._under[:, :n] if len(moved) == len(self._under) else self._under[moved, :n]
            self._cuts[moved] = np.partition(some, place, axis=1)[:, place]
            self._places[moved] = place
        return self._cuts  # type: ignore[no-any-return]

    def _keep(self, candidates: FloatArray, n: int) -> None:
        self._candidates = candidates
        self._under = np.empty((len(candidates), self.size))
        self._under[:, :n] = combine(self.scores, candidates[:, None, :])
        self._cuts = np.zeros(len(candidates))
        self._places = np.full(len(candidates), -1)

    def _replace(self, place: int, column: FloatArray) -> None:
        """Put one combined score per candidate (M,) in its place, and follow the thresholds."""
        known = self._places >= 0
        self._places += known & (column < self._cuts)
        if self.seen >= self.size:
            gone = self._under[:, place]
            self._places -= known & (gone < self._cuts)
            self._places[gone == self._cuts] = -1  # perhaps the last of its kind
        self._under[:, place] = column

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what can be worked out again."""
        return vars(self) | {"_candidates": None, "_under": None, "_cuts": None, "_places": None}


__all__ = ["Window"]
