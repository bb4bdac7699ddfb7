"""Drift: whether fresh labelled rows are exchangeable with the calibration rows.

If they are, the combined true-label scores of both come from one bag, and the p-values of the fresh
true labels are uniform. The check compares the two samples of scores (Kolmogorov-Smirnov, exact or
conservative under ties) and says in which direction they differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformity_ranks, simple_fraction
from conformix.kernels.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class DriftReport:
    """The outcome of a drift check.

    Parameters
    ----------
    pvalue : float
        Probability of a difference at least as large, were the rows exchangeable.
    level : float
        Probability of a false alarm.
    direction : {"worse", "better"}
        Where the largest difference lies: fresh true labels fit worse or better than those of
        the calibration rows.
    pvalues : array of shape (m,)
        Conformal p-values of the fresh true labels, rising; the diagonal ``(i + 1) / m`` against
        them is the plot to draw.
    n_calibration : int
        Number of calibration rows.
    used : str, optional
        That the rows had a part in the fit, where they are found to have had.
    what : {"true labels", "responses"}
        What fits worse or better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> drift_report(rng.normal(size=500), rng.normal(size=300))
    DriftReport(no sign of drift: p = 0.99 on 300 fresh rows)
    >>> drift_report(rng.normal(size=500), rng.normal(size=300) - 1).drifted
    True
    """

    pvalue: float
    level: float
    direction: str
    pvalues: FloatArray
    n_calibration: int
    used: str | None = None
    what: str = "true labels"

    @property
    def drifted(self) -> bool:
        """Whether exchangeability is rejected at `level`."""
        return self.pvalue <= self.level

    @property
    def verdict(self) -> str:
        """One sentence for people."""
        if self.used is not None:
            return f"no drift check: {self.used}"
        rows = f"p = {self.pvalue:.2g} on {len(self.pvalues):,} fresh rows"
        if not self.drifted:
            return f"no sign of drift: {rows}"
        advice = {"worse": "expect lower coverage, recalibrate", "better": "expect larger coverage"}
        return (
            f"drift: {self.what} fit {self.direction} than in calibration; {rows}; "
            + advice[self.direction]
        )

    def __repr__(self) -> str:
        return f"DriftReport({self.verdict})"


def drift_report(
    calibration: FloatArray, fresh: FloatArray, *, level: float = 0.01, n_weights: int = 1
) -> DriftReport:
    """Return the verdict on two samples of combined true-label scores.

    Parameters
    ----------
    calibration : array of shape (n,)
        Scores of the calibration rows, in any order.
    fresh : array of shape (m,)
        Scores of the fresh rows.
    level : float
        Probability of a false alarm, strictly between 0 and 1.
    n_weights : int
        How many weightings the calibration rows chose among: a chosen one fits them better than
        fresh rows, drift or not, so the p-value is multiplied by their number. 1 where the
        weights were chosen on other rows, or on both samples alike.
    """
    from scipy.stats import ks_2samp  # noqa: PLC0415  scipy loads late

    simple_fraction(level, "level")
    calibration = np.sort(calibration)
    test = ks_2samp(fresh, calibration, method="auto")
    ranks = conformity_ranks(calibration, fresh)
    return DriftReport(
        pvalue=min(1.0, n_weights * float(test.pvalue)),
        level=level,
        # More fresh rows than expected below some score: they fit worse.
        direction="worse" if test.statistic_sign > 0 else "better",
        pvalues=np.sort(ranks / (len(calibration) + 1)),
        n_calibration=len(calibration),
    )
