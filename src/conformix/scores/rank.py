"""RANK (Luo & Zhou, 2024): how many labels are less likely.

``s(x, y) = #{y' : p_y' < p_y} / (K - 1)``. It ignores how confident the model is, which helps
where the probabilities mislead but their order does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Rank(Score):
    """The share of the other labels that are less likely.

    Examples
    --------
    >>> import numpy as np
    >>> Rank()(Ranked(np.array([[0.2, 0.5, 0.2, 0.1]])))
    array([[0.33333333, 1.        , 0.33333333, 0.        ]])
    """

    name: ClassVar[str] = "rank"

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``#{y' : p_y' < p_y} / (K - 1)``; zero where there is a single class."""
        return ranked.below / max(ranked.n_classes - 1, 1)
