"""Means, paired savings and their intervals, over random splits of one data set.

Splits of one pool are independent draws *given the pool*. The plain t-interval over splits is
therefore a statement about the mean over all splits of these rows. Test rows of different splits
overlap, so for a statement about new rows the variance is widened by the correction of Nadeau &
Bengio (2003): ``1/J + n_test / n_calibrate`` in place of ``1/J``. Where many cases are compared
the level is divided by their number (Bonferroni), so that all intervals hold together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.experiments.rows import Row
from conformix.kernels.arrays import FloatArray

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over splits with its interval.

    Parameters
    ----------
    mean, low, high : float
        The mean and the ends of its interval.
    sd : float
        Standard deviation over splits.
    n : int
        Number of splits.

    Examples
    --------
    >>> Estimate(0.5, 0.4, 0.6, sd=0.1, n=9)
    0.5 [0.4, 0.6]
    """

    mean: float
    low: float
    high: float
    sd: float
    n: int

    def __repr__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def interval(
    values: Any, *, level: float = LEVEL, comparisons: int = 1, overlap: float = 0.0
) -> Estimate:
    """Return the mean of one number per split with its t-interval.

    Parameters
    ----------
    values : array of shape (J,)
        One number per split.
    level : float
        Probability that the interval covers, or that all of `comparisons` intervals do.
    comparisons : int
        Number of intervals that shall hold together.
    overlap : float
        ``n_test / n_calibrate`` for a statement about new rows; 0 for one about these rows.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0])
    2 [-0.4841, 4.484]
    """
    from scipy.stats import t  # noqa: PLC0415  scipy loads late

    numbers = np.asarray(values, dtype=np.float64)
    n = len(numbers)
    if not n:
        raise InvalidInput("an interval needs at least one split; got none.")
    mean = float(numbers.mean())
    if n == 1:
        return Estimate(mean, -np.inf, np.inf, np.nan, 1)
    sd = float(numbers.std(ddof=1))
    quantile = float(t.ppf(1 - (1 - level) / comparisons / 2, n - 1))
    half = quantile * sd * float(np.sqrt(1 / n + overlap))
    return Estimate(mean, mean - half, mean + half, sd, n)


def check_spread(runs: int) -> None:
    """Refuse a number of splits that leaves no spread to judge by."""
    if runs < 2:
        raise InvalidInput(f"runs must be at least 2, for intervals over splits; got {runs}.")


class Results:
    """Rows of one experiment, looked up by method and level.

    Parameters
    ----------
    rows : iterable of dict
        As `conformix.experiments.run` returns them.

    Examples
    --------
    >>> rows = [{"method": m, "alpha": 0.1, "run": r, "size": s, "n_test": 1, "n_calibrate": 4}
    ...         for m, s in (("thr", 4.0), ("average", 3.0)) for r in (0, 1)]
    >>> Results(rows).saving("average", "thr", alpha=0.1)
    0.25 [0.25, 0.25]
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._by_case: dict[tuple[str, float], dict[int, Row]] = {}
        for row in self.rows:
            self._by_case.setdefault((row["method"], row["alpha"]), {})[row["run"]] = row

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order of their first row."""
        return list(dict.fromkeys(method for method, _ in self._by_case))

    @property
    def alphas(self) -> list[float]:
        """Levels, rising."""
        return sorted({alpha for _, alpha in self._by_case})

    @property
    def overlap(self) -> float:
        """Test rows per calibration row."""
        return float(self.rows[0]["n_test"] / self.rows[0]["n_calibrate"])

    def of(self, method: str, alpha: float) -> dict[int, Row]:
        """Return the rows of one method at one level, by run."""
        rows = self._by_case.get((method, alpha))
        if rows is None:
            raise InvalidInput(f"there are no rows of {method!r} at alpha={alpha:g}.")
        return rows

    def values(self, method: str, *, alpha: float, field: str = "size") -> FloatArray:
        """Return one number per split, NaN where a method has none; by run."""
        rows = self.of(method, alpha)
        numbers = [rows[run][field] for run in sorted(rows)]
        return np.array([np.nan if value is None else value for value in numbers])

    def estimate(self, method: str, *, alpha: float, field: str = "size") -> Estimate:
        """Return the mean of a field over splits, with its interval."""
        return interval(self.values(method, alpha=alpha, field=field))

    def guarantee(self, method: str, alpha: float) -> str:
        """Return what the method guarantees."""
        return str(next(iter(self.of(method, alpha).values()))["guarantee"])

    def pairs(
        self, method: str, other: str, *, alpha: float, field: str = "size"
    ) -> tuple[FloatArray, FloatArray]:
        """Return the numbers of two methods on the splits that both have seen."""
        mine, theirs = self.of(method, alpha), self.of(other, alpha)
        runs = sorted(mine.keys() & theirs.keys())
        pairs = [(mine[run][field], theirs[run][field]) for run in runs]
        both = np.array([pair for pair in pairs if None not in pair], dtype=float).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def difference(
        self, method: str, other: str, *, alpha: float, field: str = "size", **options: Any
    ) -> Estimate:
        """Return the mean of ``method - other`` over the same splits; see `interval`."""
        mine, theirs = self.pairs(method, other, alpha=alpha, field=field)
        return interval(mine - theirs, **options)

    def saving(
        self, method: str, other: str, *, alpha: float, field: str = "size", **options: Any
    ) -> Estimate:
        """Return the share by which sets of `method` are smaller than those of `other`.

        ``1 - exp(mean log(size / other size))`` over the same splits; the ends come from the
        t-interval of the mean log ratio. Options as in `interval`.
        """
        mine, theirs = self.pairs(method, other, alpha=alpha, field=field)
        tiny = np.finfo(float).tiny  # sets that are all empty
        logs = np.log(np.maximum(mine, tiny)) - np.log(np.maximum(theirs, tiny))
        ratio = interval(logs, **options)
        low, high = 1 - float(np.exp(ratio.high)), 1 - float(np.exp(ratio.low))
        return Estimate(1 - float(np.exp(ratio.mean)), low, high, ratio.sd, ratio.n)

    def smallest(self, methods: Iterable[str], *, alpha: float, field: str = "size") -> str:
        """Return which of some methods has the smallest mean over splits."""
        return min(methods, key=lambda m: float(self.values(m, alpha=alpha, field=field).mean()))


def percent(saving: Estimate) -> str:
    """Return a saving as text."""
    numbers = [100 * part for part in (saving.mean, saving.low, saving.high)]
    # One digit more where whole percents would round an effect away.
    digits = 0 if abs(numbers[0]) >= 10 else 1
    mean, low, high = (f"{part:.{digits}f}" for part in numbers)
    return f"{mean} % [{low}, {high}]"


def in_words(saving: Estimate) -> str:
    """Return a saving in words, whichever its sign."""
    if saving.mean >= 0:
        return f"{percent(saving)} smaller"
    increase = Estimate(-saving.mean, -saving.high, -saving.low, saving.sd, saving.n)
    return f"{percent(increase)} larger"
