"""Margin: how far a label is ahead of its best rival.

``s(x, y) = p_y - max over y' != y of p_y'``. Close to `thr`, but it moves with the certainty of
the row; popular in active learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Margin(Score):
    """The probability less that of the best other label.

    Parameters
    ----------
    temperature : float
        Applied before the score.

    Examples
    --------
    >>> import numpy as np
    >>> Margin()(Ranked(np.array([[0.125, 0.5, 0.375]])))
    array([[-0.375,  0.125, -0.125]])
    """

    name: ClassVar[str] = "margin"
    on_device: ClassVar[bool] = True
    temperature: float = 1.0

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def unit(self, n_classes: int) -> float:
        """Return 2: the margin lies between -1 and 1."""
        return 2.0

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``p_y - max p_y'``; the probability itself where there is a single class."""
        ranked = ranked.at(self.temperature)
        probs = ranked.probs
        if ranked.n_classes == 1:
            return probs
        # The best rival of the top label is the runner-up, which equals it in a tie.
        rival = ranked.xp.where(probs == ranked.top, ranked.runner_up, ranked.top)
        return probs - rival
