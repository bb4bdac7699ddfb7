"""The order statistic behind every sharp statement, and the ranks that restore a promise.

For i.i.d. rows and fixed weights, the coverage of the k-th largest calibration score, given the
calibration rows, follows ``Beta(k, n+1-k)`` (ties only increase it). Weights chosen among M
candidates on the same rows cost a union over the M.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from conformix.conformal import conformal_rank, rows_needed, simple_fraction
from conformix.errors import InvalidInput, shown


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


# Counts above this are no longer exact in floating point, and no rows of anybody's.
MOST = 2**53


def check_delta(delta: float) -> float:
    """Return a failure probability strictly between 0 and 1."""
    return float(simple_fraction(delta, "delta"))


def count(value: int, name: str, least: int = 1) -> int:
    """Return a number of things: an integer from `least` on."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number < MOST:
        raise InvalidInput(f"{name} must be an integer from {least} on; got {shown(value)}.")
    return number


def pac_rank(n: int, alpha: float, delta: float, *, n_weights: int = 1) -> int:
    """Return the rank whose coverage is at least ``1 - alpha`` with probability ``1 - delta``.

    ``min{k <= n : M I_{1-alpha}(k, n+1-k) <= delta}`` with the regularised incomplete beta
    function I; ``n + 1`` (every label in) where no k will do. Needs i.i.d. rows, and candidates
    fixed beforehand or learnt on separate rows.

    Parameters
    ----------
    n : int
        Calibration rows.
    alpha, delta : float
        Allowed miscoverage, and the probability of a bad calibration draw.
    n_weights : int
        M: how many weight vectors the calibration rows chose among; 1 where they chose none.

    Examples
    --------
    >>> pac_rank(100, 0.1, 0.1), pac_rank(1000, 0.1, 0.05, n_weights=231)
    (95, 933)
    """
    from scipy.special import betaincc  # noqa: PLC0415  scipy loads late

    n, n_weights = count(n, "n"), count(n_weights, "n_weights")
    # I_{1-alpha}(k, n+1-k) as the upper tail at alpha: 1 - alpha would round a small alpha away.
    level, bad = float(simple_fraction(alpha)), check_delta(delta)
    return _smallest_rank(n, lambda k: n_weights * betaincc(n + 1 - k, k, level) <= bad)


def batch_pac_rank(n: int, m: int, alpha: float, delta: float, *, n_weights: int = 1) -> int:
    """Return the rank whose coverage of a batch of m rows is at least ``1 - alpha``.

    With probability ``1 - delta`` over calibration and batch together: the number of covered rows
    is ``BetaBinomial(m, k, n+1-k)`` for fixed weights, with a union over the M candidates. It holds
    for the transductive splits, whose weights may depend on the features of the batch.

    Examples
    --------
    >>> batch_pac_rank(1000, 500, 0.1, 0.1) >= pac_rank(1000, 0.1, 0.1)
    True
    """
    from scipy.stats import betabinom  # noqa: PLC0415  scipy loads late

    n, m, n_weights = count(n, "n"), count(m, "m"), count(n_weights, "n_weights")
    share, bad = 1 - simple_fraction(alpha), check_delta(delta)
    needed = math.ceil(m * share)
    return _smallest_rank(
        n, lambda k: n_weights * betabinom.cdf(needed - 1, m, k, n + 1 - k) <= bad
    )


def marginal_bound(n: int, k: int, *, n_weights: int = 1) -> float:
    """Return a lower bound on the marginal coverage of weights chosen on the calibration rows.

    ``integral over u of max(0, 1 - M P(Beta(k, n+1-k) <= u))``. With ``u0`` where the union bound
    reaches one, ``M P(Beta <= u0) = 1``, it equals ``M k/(n+1) I_{u0}(k+1, n+1-k)``; for M = 1 that
    is ``k/(n+1)``.

    Examples
    --------
    >>> round(marginal_bound(99, 90), 4), round(marginal_bound(5000, 4751, n_weights=5151), 4)
    (0.9, 0.9375)
    """
    from scipy.special import betainc, betaincinv  # noqa: PLC0415  scipy loads late

    n, k, n_weights = count(n, "n"), count(k, "k"), count(n_weights, "n_weights")
    if k > n:
        return 1.0
    reached = betaincinv(k, n + 1 - k, 1 / n_weights)
    return float(n_weights * k / (n + 1) * betainc(k + 1, n + 1 - k, reached))


def restoring_rank(n: int, alpha: float, *, n_weights: int = 1) -> int:
    """Return the smallest rank whose marginal bound reaches ``1 - alpha``; ``n + 1`` if none does.

    Examples
    --------
    >>> restoring_rank(5000, 0.05, n_weights=5151)
    4807
    """
    target = 1 - float(simple_fraction(alpha))
    # k/(n+1) >= 1 - alpha decides for one weight in exact arithmetic; beyond it floats suffice.
    least = conformal_rank(n, alpha)
    if n_weights == 1:
        return least
    reaches = _smallest_rank(n, lambda k: marginal_bound(n, k, n_weights=n_weights) >= target)
    return max(least, reaches)


def n_needed(alpha: float, delta: float, *, tolerance: float = 0.01, n_weights: int = 1) -> int:
    """Return how many calibration rows make the PAC rank cost at most `tolerance` of coverage.

    A number n with ``k_pac <= n`` and ``k_pac / (n+1) <= 1 - alpha + tolerance``, where n - 1 does
    not do. (The condition saw-tooths with the rounding of ranks, so a few smaller n may do too.)

    Parameters
    ----------
    alpha, delta : float
        Allowed miscoverage, and the probability of a bad calibration draw.
    tolerance : float
        How much more than ``1 - alpha`` may be covered on average.
    n_weights : int
        How many weight vectors the calibration rows choose among.

    Examples
    --------
    >>> n_needed(0.1, 0.1, tolerance=0.02)
    357
    """
    most = 1 - simple_fraction(alpha) + simple_fraction(tolerance, "tolerance")

    def enough(n: int) -> bool:
        k = pac_rank(n, alpha, delta, n_weights=n_weights)
        return k <= n and k <= most * (n + 1)

    high = 1
    while not enough(high):
        if high > 10**8:
            raise InvalidInput("no calibration set of up to 10**8 rows reaches that tolerance.")
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _smallest_rank(n: int, enough: Callable[[int], bool]) -> int:
    """Return the smallest k in 1..n with ``enough(k)``, which is monotone; n + 1 if none."""
    low, high = 0, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
