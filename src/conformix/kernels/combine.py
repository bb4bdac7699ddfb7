"""The one arithmetic: the ordered weighted sum of scores, and what is done to it afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, to_device


def combine(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``w[0]*s[..., 0] + w[1]*s[..., 1] + ...``, added in that order in float64.

    Parameters
    ----------
    scores : array of shape (..., d)
        Scores; higher fits better.
    weights : array of shape (d,), or broadcasting against `scores`
        One weight per score.

    Returns
    -------
    float64 array of shape (...)
        The combined scores. A matrix product may add in another order and differ in the last
        bit, which is why none is used here.

    Examples
    --------
    >>> combine(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, 0.5]))
    array([1.5, 3.5])
    """
    if is_tensor(scores):
        return _combine_tensor(scores, to_device(weights, scores))
    total = np.multiply(scores[..., 0], weights[..., 0], dtype=np.float64)
    for j in range(1, scores.shape[-1]):
        total += np.multiply(scores[..., j], weights[..., j], dtype=np.float64)
    return total


def lift_best(combined: FloatArray) -> FloatArray:
    """Return combined scores whose row maxima, all tied ones, are ``+inf``.

    With the same lift in search, calibration and prediction no set is empty and the guarantee
    stays; putting the best label back into empty sets afterwards would over-cover.

    Parameters
    ----------
    combined : array of shape (n, K)
        Combined scores.

    Examples
    --------
    >>> lift_best(np.array([[0.2, 0.7], [0.5, 0.5]]))
    array([[0.2, inf],
           [inf, inf]])
    """
    if is_tensor(combined):
        return _lift_tensor(combined)  # type: ignore[no-any-return]
    return np.where(combined == combined.max(axis=1, keepdims=True), np.inf, combined)


def _lift_tensor(combined: Any) -> Any:
    return combined.masked_fill(combined == combined.max(dim=1, keepdim=True).values, np.inf)


def _combine_tensor(scores: Any, weights: Any) -> Any:
    """Return the same sum on a device: products and sums one by one, never fused into one."""
    total = scores[..., 0].double() * weights[..., 0]
    for j in range(1, scores.shape[-1]):
        total += scores[..., j].double() * weights[..., j]
    return total


@dataclass(frozen=True, eq=False)
class RankLimits:
    """Combined scores, less `drop` where a label is not among its row's best few.

    Label y keeps its score where that is at least the ``ranks[y]``-th largest of the row, that is,
    where ``#{y' : s' > s} < ranks[y]``: labels that tie stay together. `drop` is further than
    scores of the tuning rows differ; ``-inf`` would put a label into every set as soon as a few
    calibration rows of its class rank low.
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
    """Return the rank from the top of the true label of every row, ``1 + #{s' > s}``, (n,)."""
    truth = combined[np.arange(len(y)), y]
    return 1 + (combined > truth[:, None]).sum(axis=1)
