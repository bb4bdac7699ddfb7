"""RC3P: a threshold per class, for labels that are among the best few of their row only.

Class-conditional sets are large because hard classes get low thresholds, which many rows reach for
labels that are far down their list. RC3P (Shi et al., 2024) also asks for a rank. As a score: the
combined score where the label is among the ``k(y)`` best of its row, else a tier below. With
``k(y)`` frozen on the tuning rows that is a score like any other, and class-wise calibration is
exact. It helps scores that do not look at ranks, such as `aps`; an average that holds `rank` gains
little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from conformix.calibration.strata import PerClass
from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray


@dataclass(frozen=True)
class RankedPerClass(PerClass):
    """A threshold and a largest rank per class (RC3P); ``P(y in set | y = c) >= 1 - alpha``.

    Parameters
    ----------
    fallback, min_rows
        As in `PerClass`.
    tune : bool
        As in `PerClass`; the search does not see the ranks.
    share : float
        How much of alpha the rank may use up: k(y) is the smallest k whose top-k error among the
        tuning rows of class y is at most ``share * alpha``.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar100")
    >>> logits, y = data.outputs["wideresnet_16_4"], data.labels
    >>> sizes = {}
    >>> for calibration in ("class", "rc3p"):
    ...     cp = cx.ScoreAverage("aps", kind="logits", calibration=calibration, random_state=0)
    ...     sets = cp.fit(logits[:6000], y[:6000]).predict_set(logits[6000:])
    ...     sizes[calibration] = sets.sizes.mean()
    >>> sizes["rc3p"] < sizes["class"]
    np.True_
    """

    name: ClassVar[str] = "rc3p"
    learns: ClassVar[bool] = True  # type: ignore[misc]  # the ranks

    share: float = 0.5

    def limits(self, ranks: IntArray, y: IntArray, n_classes: int, alpha: float) -> IntArray:
        """Return the largest rank k(y) of every class, shape (K,); K where a class has no rows.

        Parameters
        ----------
        ranks : integer array of shape (n,)
            Rank from the top of the true labels of the tuning rows.
        y : integer array of shape (n,)
            Their labels.
        n_classes : int
            K.
        alpha : float
            The level.
        """
        if not 0 < self.share <= 1:
            raise InvalidInput(f"share must lie in (0, 1]; got {self.share!r}.")
        # In fractions, as ranks are: .7 times .1 times 100 rows are 7 rows, in floats they are 6.
        allowed = simple_fraction(alpha)
        allowed *= 1 if self.share == 1 else simple_fraction(self.share, "share")
        depths = np.full(n_classes, n_classes)
        for c in np.unique(y):
            class_ranks = np.sort(ranks[y == c])
            beyond = math.floor(allowed * len(class_ranks))  # may rank lower
            depths[c] = class_ranks[len(class_ranks) - 1 - beyond]
        return depths
