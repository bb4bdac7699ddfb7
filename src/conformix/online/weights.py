"""Weights that follow the sizes of the last sets, so that they follow a drift."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.kernels.simplex import preference, simplex_grid

RULES = ("leader", "hedge", "fading")


class AdaptiveWeights:
    """Weights over a candidate set, chosen by the sizes of the last steps.

    Every candidate is charged the size of the set that it would have issued. Charges are forgotten
    outside a sliding window, or fade, so that the weights follow a drift. The choice for step t
    uses steps before t only, so that it never touches the coverage of step t.

    Parameters
    ----------
    candidates : array of shape (M, d)
        Weight vectors.
    window : int
        How many steps are remembered.
    rule : {"leader", "hedge", "fading"}
        ``leader``: the candidate with the smallest total size, ties by the order of the grid.
        ``hedge``: the mean of the candidates under exponential weights,
        ``exp(-eta (L_j - min L))`` with ``eta = sqrt(8 log(M) / T) / K``, T the steps remembered.
        ``fading``: the smallest total, where every step leaves ``1 - 1 / window`` of those before:
        M numbers are held instead of ``window M``.

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
        # The same, a plane of neighbours per score: what is combined with all of them reads these.
        self.planes = np.asfortranarray(self.candidates)
        self.window, self.rule = window, rule
        fades = rule == "fading"
        self._sizes = np.zeros((0 if fades else window, len(candidates)), dtype=np.int64)
        self._totals: Any = np.zeros(len(candidates), dtype=np.float64 if fades else np.int64)
        self._seen = 0
        self.current: FloatArray = self.candidates[0]

    def charge(self, sizes: Any, n_classes: int) -> None:
        """Add the sizes (M,) that the candidates would have issued, and choose again."""
        if self.rule == "fading":
            self._totals = self._totals * (1 - 1 / self.window) + sizes
        else:
            place = self._seen % self.window
            self._totals += sizes - self._sizes[place]
            self._sizes[place] = sizes
        self._seen += 1
        self._choose(n_classes)

    @property
    def charged(self) -> int:
        """How many steps were charged."""
        return self._seen

    @property
    def remembered(self) -> Any:
        """What is remembered: sizes (T, M) as they stand in the ring, or one row of totals."""
        if self.rule == "fading":
            return self._totals[None, :]
        return self._sizes[: min(self._seen, self.window)]

    def recall(self, sizes: Any, charged: int, n_classes: int) -> None:
        """Take over what was remembered, and choose again."""
        if sizes.shape[1:] != self._totals.shape:
            raise InvalidInput(
                f"sizes must be those of the {len(self._totals)} candidates; got {sizes.shape}."
            )
        self._seen = charged
        if self.rule == "fading":
            self._totals = np.array(sizes[0], dtype=np.float64)
        else:
            self._sizes[: len(sizes)] = sizes
            self._totals = self._sizes.sum(axis=0)
        if charged:
            self._choose(n_classes)

    def _choose(self, n_classes: int) -> None:
        if self.rule != "hedge":
            self.current = self.candidates[int(np.argmin(self._totals))]
            return
        remembered = min(self._seen, self.window)
        eta = np.sqrt(8 * np.log(max(len(self._totals), 2)) / remembered) / n_classes
        chances = np.exp(-eta * (self._totals - self._totals.min()))
        self.current = (chances / chances.sum()) @ self.candidates


def candidate_grid(candidates: Any, d: int) -> FloatArray:
    """Return candidate weights (M, d): a grid of that resolution, or the given ones."""
    if isinstance(candidates, int | np.integer) and not isinstance(candidates, bool):
        return simplex_grid(d, int(candidates)) / candidates
    from conformix.search.grid import check_candidates  # noqa: PLC0415  one use

    return check_candidates(candidates, d)


__all__ = ["AdaptiveWeights"]
