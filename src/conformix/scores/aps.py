"""APS (Romano, Sesia & Candès, 2020): the mass of the labels no likelier than y.

``s(x, y) = sum of p_y' over p_y' <= p_y - u p_y``. The paper's form is ``u = 0``; randomised, ``u``
is one number per row, uniform over the key of the fit (`uniforms`). It adapts to the difficulty of
the row: its sets are larger, but more even.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import LookedUp, Score


@dataclass(frozen=True)
class Aps(Score):
    """The mass of the labels no likelier than the label, less a random share of its own.

    Parameters
    ----------
    randomized : bool
        Subtract ``u p_y`` with one ``u`` per row; rows with equal outputs share theirs.
    u : float
        What stands for ``u`` where nothing is random: 0 is the paper's form, 1 counts the label's
        own probability against it, as the deterministic forms of TorchCP and MAPIE do.
    temperature : float
        Applied before the score: probabilities ``p_y^(1/T)``, renormalised.

    Examples
    --------
    >>> import numpy as np
    >>> Aps()(Ranked(np.array([[0.25, 0.5, 0.25]])))
    array([[0.5, 1. , 0.5]])
    """

    name: ClassVar[str] = "aps"
    on_device: ClassVar[bool] = True
    randomized: bool = False
    temperature: float = 1.0
    u: float = 0.0

    @property
    def rises(self) -> bool:
        """A mass less a share of the label's own is rounded: it may fall by a last bit."""
        return not self.randomized and self.u == 0

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return that it is the mass, where nothing is tempered or subtracted."""
        return LookedUp("mass_up_to") if self.rises and self.temperature == 1 else None

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the mass of ``{y' : p_y' <= p_y}``, less ``u p_y``."""
        ranked = ranked.at(self.temperature)
        if not self.randomized and self.u == 0:
            return ranked.mass_up_to
        u = ranked.u if self.randomized else self.u
        return ranked.mass_up_to - u * ranked.probs
