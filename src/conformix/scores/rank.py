"""Scores of the rank of a label: the share below, or the place from the top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels import elementary
from conformix.kernels.arrays import FloatArray, quotient
from conformix.scores.ranked import Ranked
from conformix.scores.score import LookedUp, Score


@dataclass(frozen=True)
class Rank(Score):
    """The share of the other labels that are less likely.

    Parameters
    ----------
    tie_break : {"none", "prob"}
        ``"prob"`` adds ``p_y`` inside the rank step, as the released code of the paper does:
        labels of one rank in different rows are then ordered by their probability.

    Examples
    --------
    >>> import numpy as np
    >>> Rank()(Ranked(np.array([[0.2, 0.5, 0.2, 0.1]])))
    array([[0.33333333, 1.        , 0.33333333, 0.        ]])
    """

    name: ClassVar[str] = "rank"
    on_device: ClassVar[bool] = True
    tie_break: Literal["none", "prob"] = "none"

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def __post_init__(self) -> None:
        if self.tie_break not in ("none", "prob"):
            raise InvalidInput(f'tie_break must be "none" or "prob"; got {self.tie_break!r}.')

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return the shares by the number of labels below, where no probability is added."""
        if self.tie_break != "none":
            return None
        return LookedUp("below", np.arange(n_classes + 1) / max(n_classes - 1, 1))

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``#{y' : p_y' < p_y} / (K - 1)``; zero where there is a single class."""
        below = ranked.below + ranked.probs if self.tie_break == "prob" else ranked.below
        return quotient(below, max(ranked.n_classes - 1, 1))  # type: ignore[no-any-return]


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
    on_device: ClassVar[bool] = True

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return minus the logarithms by rank."""
        return LookedUp("rank", 0.0 - elementary.log(_ranks(n_classes)))

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``-log r_y``, with zero (not minus zero) at the top."""
        return 0.0 - ranked.log_ranks


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

    @property
    def rises(self) -> bool:
        """The larger output never scores lower."""
        return True

    def looked_up(self, n_classes: int) -> LookedUp | None:
        """Return the inverses by rank."""
        return LookedUp("rank", 1.0 / _ranks(n_classes))

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``1 / r_y``."""
        return 1.0 / ranked.rank


def _ranks(n_classes: int) -> FloatArray:
    """Return all ranks; before them a one, which is none."""
    return np.maximum(np.arange(n_classes + 1.0), 1.0)
