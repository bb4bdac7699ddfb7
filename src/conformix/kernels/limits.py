"""Labels beyond a rank of their own fall to a lower tier: what RC3P does to combined scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, to_device


@dataclass(frozen=True, eq=False)
class RankLimits:
    """Combined scores, less `drop` where a label is not among its row's best few.

    Label y keeps its score where that is at least the ``ranks[y]``-th largest of the row, that is,
    where ``#{y' : s' > s} < ranks[y]``: labels that tie stay together.

    Parameters
    ----------
    ranks : int64 array of shape (K,)
        How many of the best labels of a row label y must be among.
    drop : float
        How far the others fall: further than scores differ otherwise. ``-inf`` instead would put
        a label into every set as soon as a few calibration rows of its class rank low.

    Examples
    --------
    >>> RankLimits(np.array([3, 1, 3]), drop=9.0)(np.array([[0.5, 0.3, 0.2]]))
    array([[ 0.5, -8.7,  0.2]])
    """

    ranks: IntArray
    drop: float

    def __call__(self, combined: FloatArray) -> FloatArray:
        """Return the limited scores (n, K)."""
        if is_tensor(combined):
            return self._on_device(combined)
        falling = np.sort(combined, axis=1)[:, ::-1]
        return np.where(combined >= falling[:, self.ranks - 1], combined, combined - self.drop)

    def _on_device(self, combined: Any) -> Any:
        falling = combined.sort(dim=1, descending=True).values
        inside = combined >= falling[:, to_device(self.ranks - 1, combined)]
        return combined.where(inside, combined - self.drop)


def true_ranks(combined: FloatArray, y: IntArray) -> IntArray:
    """Return the rank from the top of the true label of every row, ``1 + #{s' > s}``, (n,).

    Examples
    --------
    >>> true_ranks(np.array([[0.5, 0.3, 0.2]]), np.array([1]))
    array([2])
    """
    own = combined[np.arange(len(y)), y]
    return 1 + (combined > own[:, None]).sum(axis=1)
