"""RAPS (Angelopoulos, Bates, Malik & Jordan, 2021): APS with a penalty on deep ranks.

``s(x, y) = aps(x, y) - penalty * max(r_y - k_reg, 0)`` with ``r_y`` the rank from the top. It wins
where APS lets a long tail of tiny probabilities in; the penalty has to be tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.kernels.arrays import FloatArray
from conformix.scores.aps import Aps
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Raps(Score):
    """APS less a penalty for every rank below the first `k_reg`.

    Parameters
    ----------
    penalty : float
        What a rank costs.
    k_reg : int
        How many ranks are free.
    randomized : bool
        Subtract ``u p_y`` with one ``u`` per row, as in APS.
    u : float
        What stands for ``u`` where nothing is random, as in APS.
    temperature : float
        Applied before the score.

    Examples
    --------
    >>> import numpy as np
    >>> Raps(penalty=0.5, k_reg=1)(Ranked(np.array([[0.25, 0.5, 0.25]])))
    array([[0., 1., 0.]])
    """

    name: ClassVar[str] = "raps"
    on_device: ClassVar[bool] = True
    penalty: float = 0.1
    k_reg: int = 2
    randomized: bool = False
    temperature: float = 1.0
    u: float = 0.0

    @property
    def rises(self) -> bool:
        """As in APS."""
        return not self.randomized and self.u == 0

    def unit(self, n_classes: int) -> float:
        """Return the width of the mass and of the largest penalty."""
        return 1.0 + abs(self.penalty) * max(n_classes - self.k_reg, 0)

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``aps - penalty * max(rank - k_reg, 0)``."""
        mass = Aps(self.randomized, self.temperature, self.u)(ranked)
        return mass - self.penalty * (ranked.rank - self.k_reg).clip(0)
