"""RANK (Luo & Zhou, 2024): how many labels are less likely.

``s(x, y) = #{y' : p_y' < p_y} / (K - 1)``. It ignores how confident the model is, which helps
where the probabilities mislead but their order does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, quotient
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


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

    def __post_init__(self) -> None:
        if self.tie_break not in ("none", "prob"):
            raise InvalidInput(f'tie_break must be "none" or "prob"; got {self.tie_break!r}.')

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return ``#{y' : p_y' < p_y} / (K - 1)``; zero where there is a single class."""
        below = ranked.below + ranked.probs if self.tie_break == "prob" else ranked.below
        return quotient(below, max(ranked.n_classes - 1, 1))  # type: ignore[no-any-return]
