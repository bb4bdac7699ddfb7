"""Weights that adapt: follow what would have been small, over a window of the past.

Every candidate weight vector is charged the size of the set that it would have issued. Charges are
forgotten outside a sliding window, so that the weights follow a drift. The choice for step t uses
steps before t only, so that it never touches the coverage of step t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.kernels.simplex import preference, simplex_grid

RULES = ("leader", "hedge")


class AdaptiveWeights:
    """Weights over a candidate set, chosen by the sizes of the last steps.

    Parameters
    ----------
    candidates : array of shape (M, d)
        Weight vectors.
    window : int
        How many steps are remembered.
    rule : {"leader", "hedge"}
        ``leader``: the candidate with the smallest total size, ties by the order of the grid.
        ``hedge``: the mean of the candidates under exponential weights,
        ``exp(-eta (L_j - min L))`` with ``eta = sqrt(8 log(M) / T) / K``, T the steps remembered.

    Examples
    --------
    >>> weights = AdaptiveWeights(np.array([[1.0, 0.0], [0.0, 1.0]]), window=5)
    >>> weights.charge(np.array([3, 1]), n_classes=10)
    >>> weights.candidates[0], weights.current
    (array([0., 1.]), array([1., 0.]))
    """

    def __init__(self, candidates: FloatArray, window: int, rule: str = "leader") -> None:
        if rule not in RULES:
            raise InvalidInput(f"adapt must be one of {', '.join(RULES)} or None; got {rule!r}.")
        self.candidates = candidates[preference(candidates)]
        self.window, self.rule = window, rule
        self._sizes = np.zeros((window, len(candidates)), dtype=np.int64)
        self._totals = np.zeros(len(candidates), dtype=np.int64)
        self._seen = 0
        self.current: FloatArray = self.candidates[0]

    def charge(self, sizes: Any, n_classes: int) -> None:
        """Add the sizes (M,) that the candidates would have issued, and choose again."""
        place = self._seen % self.window
        self._totals += sizes - self._sizes[place]
        self._sizes[place] = sizes
        self._seen += 1
        if self.rule == "leader":
            self.current = self.candidates[int(np.argmin(self._totals))]
            return
        remembered = min(self._seen, self.window)
        eta = np.sqrt(8 * np.log(max(len(self._totals), 2)) / remembered) / n_classes
        chances = np.exp(-eta * (self._totals - self._totals.min()))
        self.current = (chances / chances.sum()) @ self.candidates


def candidate_grid(candidates: Any, d: int) -> FloatArray:
    """Return candidate weights (M, d): a grid of that resolution, or the given ones.

    Examples
    --------
    >>> candidate_grid(2, 2).shape
    (3, 2)
    """
    if isinstance(candidates, int | np.integer) and not isinstance(candidates, bool):
        return simplex_grid(d, int(candidates)) / candidates
    from conformix.search.grid import check_candidates  # noqa: PLC0415  one use

    return check_candidates(candidates, d)
