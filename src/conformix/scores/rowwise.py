"""Row scores: constant over the labels of a row, they move the threshold with its difficulty.

``maxprob = p_max``, ``entropy = -sum p log p``, ``energy = log sum exp z``; each with a sign:
``"-entropy"`` is `Entropy(negative=True)`. Alone they order no labels; beside another score they
give sure rows and unsure rows different thresholds.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from conformix.kernels.arrays import FloatArray
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score


@dataclass(frozen=True)
class RowScore(Score):
    """A number per row, repeated for all its labels."""

    negative: bool = False
    temperature: float = 1.0

    @property
    def rises(self) -> bool:
        """One number for all labels never falls."""
        return True

    @abstractmethod
    def of_row(self, ranked: Ranked) -> FloatArray:
        """Return the number of every row, shape (n, 1)."""

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the number of the row for each of its labels."""
        value = self.of_row(ranked.at(self.temperature))
        return ranked.xp.broadcast_to(0.0 - value if self.negative else value, ranked.probs.shape)


@dataclass(frozen=True)
class Maxprob(RowScore):
    """The largest probability of the row.

    Examples
    --------
    >>> import numpy as np
    >>> Maxprob()(Ranked(np.array([[0.25, 0.75]])))
    array([[0.75, 0.75]])
    """

    name: ClassVar[str] = "maxprob"
    on_device: ClassVar[bool] = True

    def of_row(self, ranked: Ranked) -> FloatArray:
        """Return ``p_max``."""
        return ranked.top


@dataclass(frozen=True)
class Entropy(RowScore):
    """The entropy of the row, in nats.

    Examples
    --------
    >>> import numpy as np
    >>> Entropy(negative=True)(Ranked(np.array([[0.5, 0.5]]))).round(4)
    array([[-0.6931, -0.6931]])
    """

    name: ClassVar[str] = "entropy"
    on_device: ClassVar[bool] = True

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def of_row(self, ranked: Ranked) -> FloatArray:
        """Return ``-sum p log p``."""
        return ranked.entropy


@dataclass(frozen=True)
class Energy(RowScore):
    """The log-sum-exp of the row's logits.

    Examples
    --------
    >>> import numpy as np
    >>> Energy()(Ranked(np.array([[0.0, 0.0]]), "logits")).round(4)
    array([[0.6931, 0.6931]])
    """

    name: ClassVar[str] = "energy"
    on_device: ClassVar[bool] = True

    def unit(self, n_classes: int) -> float:
        """Return ``log K``, the width between certainty and ignorance."""
        return max(math.log(n_classes), 1.0)

    def of_row(self, ranked: Ranked) -> FloatArray:
        """Return ``log sum exp z``."""
        return ranked.log_sum_exp
