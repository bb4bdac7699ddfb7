"""APS (Romano, Sesia & Candès, 2020): the mass of the labels no likelier than y.

``s(x, y) = sum of p_y' over p_y' <= p_y``, the form of the paper (``u = 0`` of the randomised
one). It adapts to the difficulty of the row; its sets are larger, but more even over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Aps(Score):
    """The mass of the labels no likelier than the label.

    Examples
    --------
    >>> import numpy as np
    >>> Aps()(Ranked(np.array([[0.25, 0.5, 0.25]])))
    array([[0.5, 1. , 0.5]])
    """

    name: ClassVar[str] = "aps"

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the mass of ``{y' : p_y' <= p_y}``."""
        return ranked.mass_up_to
