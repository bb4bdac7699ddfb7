"""Logarithmic scores: the log-probability, and the raw logit.

``logp = log p_y`` spreads out small probabilities, where sets at small alpha are decided. ``logit``
is ``log p_y`` plus the row's log-sum-exp ("energy"): rows with much evidence score higher.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from conformix.data.outputs import Kind
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score, is_number


@dataclass(frozen=True)
class Logp(Score):
    """The log-probability, floored so that it is finite.

    Parameters
    ----------
    temperature : float
        Applied before the score.
    floor : float
        Mass that is spread evenly over the labels first, ``log(p_y + floor / K)``: probabilities
        far below it all count as small, none as impossible.

    Examples
    --------
    >>> import numpy as np
    >>> Logp()(Ranked(np.array([[0.5, 0.5, 0.0]]))).round(1).tolist()
    [[-0.7, -0.7, -708.4]]
    >>> Logp(floor=0.03)(Ranked(np.array([[0.5, 0.5, 0.0]]))).round(1).tolist()
    [[-0.7, -0.7, -4.6]]
    """

    name: ClassVar[str] = "logp"
    sorts: ClassVar[bool] = False
    on_device: ClassVar[bool] = True
    temperature: float = 1.0
    floor: float = 0.0

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.floor) or self.floor < 0:
            raise InvalidInput(f"floor must be a non-negative number; got {self.floor!r}.")

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``log p_y``, or ``log(p_y + floor / K)``."""
        ranked = ranked.at(self.temperature)
        if not self.floor:
            return ranked.log_probs
        return ranked.log(ranked.probs + self.floor / ranked.n_classes)


@dataclass(frozen=True)
class Logit(Score):
    """The raw logit of the label, where the outputs are logits.

    Examples
    --------
    >>> import numpy as np
    >>> Logit()(Ranked(np.array([[3.0, -1.0]]), "logits"))
    array([[ 3., -1.]])
    """

    name: ClassVar[str] = "logit"
    sorts: ClassVar[bool] = False
    on_device: ClassVar[bool] = True

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def is_output(self, kind: Kind) -> bool:
        """Whether outputs are the logits themselves."""
        return kind == "logits"

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the logit."""
        values = ranked.logits
        if len(values) and float(values.min()) == -math.inf:
            raise InvalidInput(
                'score "logit" needs finite logits, and a class that is ruled out by -inf has '
                "none; leave the score out."
            )
        return values
