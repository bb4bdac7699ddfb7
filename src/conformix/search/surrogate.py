"""A smooth stand-in for the set size, with its gradient.

Steps become sigmoids ``sigma(z) = 1 / (1 + exp(-z))``. With combined scores ``c_i = <w, s_i>`` of
the true labels and ``c_e`` of all labels of the size rows,

* the threshold ``t(w)`` solves ``sum_i sigma((c_i - t) / h_t) = k - 1/2``, hence
  ``dt/dw = sum_i sigma'_i s_i / sum_i sigma'_i``;
* the size is ``sum_e sigma((c_e - t(w)) / h)`` per row, with the gradient
  ``sum_e sigma'_e / h * (s_e - dt/dw)``.

Both widths go to zero together, and the stand-in to the size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conformix.conformal import kth_largest
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray

# Pairs that are summed at once: their scores stay in a core's cache for the second pass over them.
BLOCK = 2**12
# Newton steps for the threshold; halving alone would be there after about sixty.
MOST_STEPS = 100


class Widths(NamedTuple):
    """How wide the sigmoids are: around the size's threshold, and for the threshold itself."""

    size: float
    threshold: float


class Surrogate:
    """The smooth size as a function of the weights.

    Parameters
    ----------
    true_scores : array of shape (n, d)
        Scores of the true labels.
    pairs : array of shape (d, P)
        Scores of all labels of some size rows.
    n_rows : int
        Number of these rows.
    k : int
        The conformal rank, at most n.

    Examples
    --------
    >>> smooth = Surrogate(np.array([[0.2], [0.8]]), np.array([[0.1, 0.2, 0.8, 0.9]]), 2, 2)
    >>> value, slope = smooth(np.array([1.0]), Widths(1e-4, 1e-4))
    >>> round(value, 3)
    1.25
    """

    def __init__(
        self,
        true_scores: FloatArray,
        pairs: FloatArray,
        n_rows: int,
        k: int,
    ) -> None:
        self.true_scores = true_scores
        self.n_rows = n_rows
        self.k = k
        self._true_planes = np.ascontiguousarray(true_scores.T, dtype=np.float64)
        starts = range(0, pairs.shape[1], BLOCK)
        self._blocks = [np.ascontiguousarray(pairs[:, i : i + BLOCK]) for i in starts]

    def threshold(self, weights: FloatArray, width: float) -> tuple[float, FloatArray]:
        """Return the smooth threshold and its gradient, shape (d,)."""
        hard = kth_largest(combine(self.true_scores, weights), self.k)
        reach = width * (2.0 + np.log(len(self.true_scores)))
        low, high, t = hard - reach, hard + reach, hard
        for _ in range(MOST_STEPS):
            sums = _sums(self._true_planes, weights, t, width)
            excess = sums[0] - (self.k - 0.5)
            low, high = (t, high) if excess > 0 else (low, t)
            if abs(excess) < 1e-9 or high - low <= 1e-15 * abs(t):
                break
            newton = t + excess / max(sums[1], 1e-300)
            t = newton if low < newton < high else 0.5 * (low + high)
        return t, sums[2:] / max(sums[1], 1e-300)

    def __call__(self, weights: FloatArray, widths: Widths) -> tuple[float, FloatArray]:
        """Return the smooth mean size and its gradient, shape (d,)."""
        t, slope = self.threshold(weights, widths.threshold)
        sums = np.sum([_sums(block, weights, t, widths.size) for block in self._blocks], axis=0)
        return float(sums[0] / self.n_rows), (sums[2:] - sums[1] * slope) / self.n_rows

    def widths(self, weights: FloatArray, share: float) -> Widths:
        """Return widths for a stage: a share of the way from the typical label to the threshold.

        The threshold's own is no wider than the rows around it lie apart, since with a small
        alpha few rows decide.
        """
        values = np.sort(combine(self.true_scores, weights))
        n = len(values)
        place = n - self.k
        around = max(8, place // 2)
        low, high = values[max(0, place - around)], values[min(n - 1, place + around)]
        scale = values[n // 2] - values[place]
        if scale <= 0:  # the typical label ties with the threshold
            scale = max(values[-1] - values[0], 1e-12)
        size = share * scale
        return Widths(size, min(size, max(share * (high - low) / 2, 1e-6 * scale)))


def _sums(planes: FloatArray, weights: FloatArray, threshold: float, width: float) -> FloatArray:
    from conformix.kernels.host.surrogate import sigmoid_sums  # noqa: PLC0415  numba loads late

    sums = np.zeros(len(weights) + 2)
    sigmoid_sums(planes, weights, threshold, width, sums)
    return sums
