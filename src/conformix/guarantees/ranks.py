"""Which order statistic of the calibration scores is the threshold: the conformal one, or PAC."""

from __future__ import annotations

from dataclasses import dataclass

from conformix.conformal import conformal_rank, rows_needed
from conformix.guarantees.order import batch_pac_rank, pac_rank


@dataclass(frozen=True)
class RankRule:
    """How many calibration scores the threshold must reach.

    Parameters
    ----------
    delta : float or None
        None: the conformal rank ``ceil((n+1)(1-alpha))``. Else the PAC rank, whose coverage is at
        least ``1 - alpha`` for all but a share delta of the calibration draws.
    n_weights : int
        How many weight vectors the calibration rows chose among.
    batch : int or None
        Number of rows of the test batch that the statement is about; None: a fresh row.

    Examples
    --------
    >>> RankRule()(100, 0.1), RankRule(delta=0.1)(100, 0.1)
    (91, 95)
    """

    delta: float | None = None
    n_weights: int = 1
    batch: int | None = None

    def rows_needed(self, alpha: float, most: int) -> int:
        """Return the smallest number of rows with a finite threshold; ``most + 1`` beyond `most`.

        Examples
        --------
        >>> RankRule().rows_needed(0.01, 500), RankRule(delta=0.1).rows_needed(0.01, 500)
        (99, 230)
        """
        if self.delta is None:
            return min(rows_needed(alpha), most + 1)
        low, high = 0, most + 1  # the more rows, the sooner the rank is one of them
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self(middle, alpha) <= middle else (middle, high)
        return high

    def __call__(self, n: int, alpha: float) -> int:
        """Return the rank for n calibration rows, from 1 to n + 1."""
        if self.delta is None or n == 0:  # without rows every label is in, whatever is promised
            return conformal_rank(n, alpha)
        if self.batch is None:
            return pac_rank(n, alpha, self.delta, n_weights=self.n_weights)
        return batch_pac_rank(n, self.batch, alpha, self.delta, n_weights=self.n_weights)
