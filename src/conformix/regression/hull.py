"""The exact split without a grid over y: the hull of the intervals that may be selected.

Candidates W are fixed beforehand. Of the n labelled rows and a new one the full-conformal procedure
takes, for every y, the weights of smallest total width over the n + 1 rows at their own threshold,
the k-th smallest of n + 1 scores, and holds y if its score is at most that. Whatever y is,

- the threshold under w lies between the order statistics c_(k-1)(w) and c_(k)(w) of the n rows;
- widths rise with the threshold, so the total lies between L-(w) and L+(w), those at the two;
- the selected weights satisfy ``L-(w) <= min over v of L+(v)``;
- and y is in the interval of the new row at c_(k)(w).

So the hull of the intervals at c_(k)(w) over all such w holds the full-conformal set, and covers
with probability at least 1 - alpha. No tie rule is needed. In floats: the procedure that is
enclosed selects by the exact sum of the float widths, which rise with the threshold
(`conformix.regression.search.total_widths`); what the sums round is slack, and only adds weights;
and intervals are rounded outward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    is_tensor,
    to_device,
    to_host,
    torch_module,
)
from conformix.kernels.blocks import row_blocks
from conformix.regression.bands import band_kernels, bands, check_weights
from conformix.regression.planes import Planes
from conformix.regression.search import order_statistics, row_widths, total_widths

# Half a unit in the last place of one.
UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Hull:
    """What n labelled rows leave for rows to come.

    Parameters
    ----------
    weights : array of shape (m, d)
        The candidates, fixed beforehand.
    cuts : array of shape (2, m)
        The order statistics c_(k-1) and c_(k) of the n rows.
    totals : array of shape (2, m)
        Widths of the n rows at the two, added up.
    n : int
        Number of labelled rows.
    y_range : pair of float
        What the response cannot leave; infinite where nothing is assumed.

    Examples
    --------
    >>> zero, one = np.zeros((9, 2)), np.ones((9, 2))
    >>> planes = Planes(np.column_stack([np.zeros(9), np.ones(9)]), zero, one, one)
    >>> hull = Hull.of(np.array([[1.0, 0.0], [0.0, 1.0]]), planes, np.arange(9.0), k=9)
    >>> lower, upper = hull(planes.rows(slice(1)))
    >>> lower.round(9), upper.round(9)
    (array([-8.]), array([8.]))
    """

    weights: FloatArray
    cuts: FloatArray
    totals: FloatArray
    n: int
    y_range: tuple[float, float] = (-np.inf, np.inf)

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        planes: Planes,
        y: FloatArray,
        k: int,
        y_range: tuple[float, float] | None = None,
    ) -> Hull:
        """Return the hull of labelled rows at rank k, ``conformal_rank(n, alpha)``."""
        weights = np.atleast_2d(check_weights(weights, planes.d))
        n = len(planes)
        if not 1 <= k <= n + 1:
            raise InvalidInput(f"k must be a rank from 1 to {n + 1}; got {k}.")
        inside = (-np.inf, np.inf) if y_range is None else (float(y_range[0]), float(y_range[1]))
        scores = planes.scores(np.asarray(to_host(y), dtype=np.float64))
        cuts = order_statistics(scores, weights, (k - 1, k))
        return cls(weights, cuts, total_widths(planes, weights, cuts, inside), n, inside)

    def survivors(self, planes: Planes) -> BoolArray:
        """Return which weights may be selected at some y, boolean (n_new, m)."""
        own = row_widths(planes, self.weights, self.cuts, self.y_range)
        # A sum of n + 1 numbers that are not negative is off by at most n roundings.
        slack = (self.n + 4) * UNIT
        least = (self.totals[0] + own[:, 0]) * (1.0 - slack)
        most = (self.totals[1] + own[:, 1]) * (1.0 + slack)
        return least <= most.min(axis=1, keepdims=True)  # type: ignore[no-any-return]

    def __call__(self, planes: Planes) -> tuple[FloatArray, FloatArray]:
        """Return the hulls of new rows, lower and upper (n_new,); empty ones are (inf, -inf)."""
        lower, upper = no_ends(planes)
        for block in row_blocks(len(planes), self.totals.size):
            selected = self.survivors(planes.rows(block))
            there = is_tensor(planes.centre)
            kernels = None if there else band_kernels(int(selected.sum()), planes.d)
            for i in np.flatnonzero(selected.any(axis=0)):
                rows = block.start + np.flatnonzero(selected[:, i])
                low, high = bands(planes.rows(rows), self.weights[i], self.cuts[1, i], kernels)
                widen(lower, upper, rows, low, high)
        return lower, upper


def no_ends(planes: Planes, n: int | None = None) -> tuple[Any, Any]:
    """Return the ends of empty intervals of n rows, or of these, where the planes are."""
    n = len(planes) if n is None else n
    if is_tensor(planes.centre):
        centre: Any = planes.centre
        return centre.new_full((n,), np.inf), centre.new_full((n,), -np.inf)
    return np.full(n, np.inf), np.full(n, -np.inf)


def widen(lower: Any, upper: Any, rows: IntArray, low: Any, high: Any) -> None:
    """Write the hulls of the intervals of some rows and others into the former."""
    of: Any = torch_module() if is_tensor(lower) else np
    where = to_device(rows, lower)
    lower[where] = of.minimum(lower[where], low)
    upper[where] = of.maximum(upper[where], high)
