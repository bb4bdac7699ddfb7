"""Scores of the rank alone, bent: ``logrank = -log r_y`` and ``invrank = 1 / r_y``.

`rank` counts every place alike; these two tell the first places apart and let the tail run
together, which suits problems whose truth is nearly always near the top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class Logrank(Score):
    """Minus the logarithm of the rank from the top.

    Examples
    --------
    >>> import numpy as np
    >>> Logrank()(Ranked(np.array([[0.2, 0.5, 0.3]]))).round(2)
    array([[-1.1 ,  0.  , -0.69]])
    """

    name: ClassVar[str] = "logrank"

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``-log r_y``, with zero (not minus zero) at the top."""
        return 0.0 - np.log(ranked.rank)


@dataclass(frozen=True)
class Invrank(Score):
    """One over the rank from the top.

    Examples
    --------
    >>> import numpy as np
    >>> Invrank()(Ranked(np.array([[0.2, 0.5, 0.3]]))).round(2)
    array([[0.33, 1.  , 0.5 ]])
    """

    name: ClassVar[str] = "invrank"
    on_device: ClassVar[bool] = True

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``1 / r_y``."""
        return 1.0 / ranked.rank
