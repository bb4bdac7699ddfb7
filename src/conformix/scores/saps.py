"""SAPS (Huang, Xi, Zhang, Yao, Qiu & Wei, 2024): the top probability and the rank, nothing else.

``s(x, y) = -u p_max`` for the top label and ``-(p_max + penalty * (r_y - 2 + u))`` for rank
``r_y > 1``; deterministic with ``u = 0``, unless said otherwise. It wins where small probabilities
are noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Saps(Score):
    """Minus the top probability and a constant per rank.

    Parameters
    ----------
    penalty : float
        What a rank costs.
    randomized : bool
        Use one ``u`` per row, as in APS.
    u : float
        What stands for ``u`` where nothing is random; 1 is TorchCP's deterministic form.
    temperature : float
        Applied before the score.

    Examples
    --------
    >>> import numpy as np
    >>> Saps(penalty=0.25)(Ranked(np.array([[0.125, 0.5, 0.375]])))
    array([[-0.75, -0.  , -0.5 ]])
    """

    name: ClassVar[str] = "saps"
    on_device: ClassVar[bool] = True
    penalty: float = 0.2
    randomized: bool = False
    temperature: float = 1.0
    u: float = 0.0

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def unit(self, n_classes: int) -> float:
        """Return the width of the top probability and of the largest penalty."""
        return 1.0 + abs(self.penalty) * max(n_classes - 1, 0)

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``-u p_max`` at the top, ``-(p_max + penalty * (rank - 2 + u))`` below."""
        ranked = ranked.at(self.temperature)
        u = ranked.u if self.randomized else self.u
        deeper = ranked.top + self.penalty * (ranked.rank - 2 + u)
        return -ranked.xp.where(ranked.rank == 1, u * ranked.top, deeper)
