"""THR (Sadinle, Lei & Wasserman, 2019): the probability itself.

``s(x, y) = p_y``. With the true probabilities it gives the smallest expected set; it wins where
the model is well calibrated, and suffers where the model is over-confident.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.data.outputs import Kind
from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import LookedUp, Score


@dataclass(frozen=True)
class Thr(Score):
    """The probability of the label.

    Parameters
    ----------
    temperature : float
        Applied before the score: probabilities ``p_y^(1/T)``, renormalised.

    Examples
    --------
    >>> import numpy as np
    >>> Thr()(Ranked(np.array([[0.2, 0.8]])))
    array([[0.2, 0.8]])
    """

    name: ClassVar[str] = "thr"
    sorts: ClassVar[bool] = False
    on_device: ClassVar[bool] = True
    temperature: float = 1.0

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def is_output(self, kind: Kind) -> bool:
        """Whether outputs are the probabilities themselves."""
        return kind == "probs" and self.temperature == 1

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return that it is the probability, where nothing is tempered."""
        return LookedUp("probs") if self.temperature == 1 else None

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``p_y``."""
        return ranked.at(self.temperature).probs
