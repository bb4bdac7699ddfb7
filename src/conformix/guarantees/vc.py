"""The paper's theory as numbers: Lemma 1 and Theorems 1 to 4, in their corrected versions.

Notation: ``kappa(n, a) = ceil((n+1)(1-a)) / n``. ``eta`` bounds, uniformly over weights and
thresholds, how far the share of covered rows is from its expectation, ``xi = K eta`` the same for
set sizes. All need i.i.d. rows. At usual sizes the numbers are vacuous, and the records say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from conformix.conformal import conformal_rank, simple_fraction
from conformix.errors import InvalidInput
from conformix.guarantees.order import check_delta, count
from conformix.guarantees.statement import at_least


def kappa(n: int, alpha: float) -> float:
    """Return ``ceil((n+1)(1-alpha)) / n``.

    Examples
    --------
    >>> kappa(99, 0.1)
    0.9090909090909091
    """
    return conformal_rank(count(n, "n"), alpha) / n


def vc_eta(n: int, d: int, delta: float, *, nonnegative: bool = True) -> float:
    """Return eta of Lemma 1(a): ``8 sqrt(v log(n+1)/n) + sqrt(2 log(1/delta)/n)``.

    ``v = d + 1`` is the VC dimension of the half-spaces in score space; ``v = d`` for non-negative
    weights. The paper's delta is a deviation; here it is the failure probability.

    Examples
    --------
    >>> round(vc_eta(5000, 3, 0.05) - math.sqrt(2 * math.log(20) / 5000), 3)
    0.572
    """
    n, d = count(n, "n"), count(d, "d")
    v = d if nonnegative else d + 1
    return 8 * math.sqrt(v * math.log(n + 1) / n) + math.sqrt(
        2 * math.log(1 / check_delta(delta)) / n
    )


def relative_bound(n: int, d: int, delta: float, missed: float) -> float:
    """Return Vapnik's relative bound on the miscoverage, given the share `missed` of the rows.

    From ``P(sup (P - P_n)/sqrt(P) > e) <= 4 S(2n) exp(-n e^2/4)`` (Vapnik & Chervonenkis) with the
    growth function ``S(2n) <= (2en/h)^h``, h = d: with ``E = 4 (h log(2en/h) + log(4/delta)) / n``,
    ``P <= P_n + E/2 (1 + sqrt(1 + 4 P_n/E))``. Small shares concentrate faster than large ones.

    Examples
    --------
    >>> relative_bound(5000, 3, 0.05, 0.05) < 0.05 + vc_eta(5000, 3, 0.05)
    True
    """
    n, d = count(n, "n"), count(d, "d")
    if not 0 <= missed <= 1:
        raise InvalidInput(f"missed must be a share between 0 and 1; got {missed!r}.")
    e = 4 * (d * math.log(2 * math.e * n / d) + math.log(4 / check_delta(delta))) / n
    return missed + e / 2 * (1 + math.sqrt(1 + 4 * missed / e))


def grid_eta(n: int, n_weights: int, delta: float) -> float:
    """Return the deviation of M empirical distribution functions at once (DKW and a union).

    ``sqrt(log(2M/delta) / (2n))``, for candidates fixed beforehand.

    Examples
    --------
    >>> round(grid_eta(5000, 5151, 0.05), 3)
    0.035
    """
    n, n_weights = count(n, "n"), count(n_weights, "n_weights")
    return math.sqrt(math.log(2 * n_weights / check_delta(delta)) / (2 * n))


@dataclass(frozen=True)
class TheoremValues:
    """What a theorem of the paper says here, in numbers.

    Parameters
    ----------
    theorem : str
        Which one.
    coverage : float
        Lower bound of the coverage.
    oracle_level : float
        The sets compare with the oracle at this coverage.
    size_gap : float
        ... and are larger by at most this many labels.
    n_classes : int or float
        K, or of responses the length of their range: a gap of as much says nothing.
    failure : float
        Probability that the bound fails.
    feasible : bool
        Whether the theorem's condition on alpha' holds.

    Examples
    --------
    >>> print(TheoremValues("Theorem 2 (EFCP)", 0.9, 0.99, 3.0, 100, 0.1))
    Theorem 2 (EFCP): coverage >= 0.9000; size <= oracle at 0.9900 + 3.00; fails with ... <= 0.1
    """

    theorem: str
    coverage: float
    oracle_level: float
    size_gap: float
    n_classes: float
    failure: float
    feasible: bool = True

    @property
    def vacuous_coverage(self) -> bool:
        """Whether the coverage statement says nothing."""
        return self.coverage <= 0

    @property
    def vacuous_size(self) -> bool:
        """Whether the size statement says nothing."""
        return not self.feasible or self.oracle_level > 1 or self.size_gap >= self.n_classes

    def __str__(self) -> str:
        coverage = "vacuous" if self.vacuous_coverage else f"coverage >= {at_least(self.coverage)}"
        if not self.feasible:
            size = "size: infeasible (no alpha' satisfies its condition)"
        elif self.vacuous_size:
            whole = isinstance(self.n_classes, int)
            most = f"K = {self.n_classes}" if whole else f"range of length {self.n_classes:g}"
            size = f"size: vacuous ({most})"
        else:
            size = f"size <= oracle at {self.oracle_level:.4f} + {self.size_gap:.2f}"
        return f"{self.theorem}: {coverage}; {size}; fails with probability <= {self.failure:g}"


def theorem1(
    n_tune: int,
    n_cal: int,
    *,
    alpha: float,
    tune_alpha: float,
    n_classes: float,
    d: int,
    delta: float,
) -> TheoremValues:
    """Return Theorem 1 (VFCP): exact coverage, and the size against the oracle.

    Condition: ``kappa(n1, alpha') - eta_1 >= kappa(n3, alpha) + eta_3``. Oracle level:
    ``kappa(n1, alpha') + eta_1``. Gap: ``2 xi_2``, with the three events at ``delta / 3`` each.

    Examples
    --------
    >>> values = theorem1(
    ...     5000, 5000, alpha=0.05, tune_alpha=0.04, n_classes=100, d=3, delta=0.1
    ... )
    >>> values.feasible, values.coverage
    (False, 0.95)
    """
    delta = check_delta(delta)
    eta1, eta3 = vc_eta(n_tune, d, delta / 3), vc_eta(n_cal, d, delta / 3)
    level = kappa(n_tune, tune_alpha)
    return TheoremValues(
        "Theorem 1 (VFCP)",
        coverage=1 - float(simple_fraction(alpha)),
        oracle_level=level + eta1,
        size_gap=2 * n_classes * eta1,
        n_classes=n_classes,
        failure=delta,
        feasible=level - eta1 >= kappa(n_cal, alpha) + eta3,
    )


def largest_tune_alpha(
    n_tune: int, n_cal: int, *, alpha: float, d: int, delta: float
) -> float | None:
    """Return the largest alpha' that meets the condition of Theorem 1, or None: infeasible.

    ``alpha' + eta_1 + eta_3 <= alpha`` up to the rounding of the ranks.

    Examples
    --------
    >>> largest_tune_alpha(5000, 5000, alpha=0.05, d=3, delta=0.1) is None
    True
    """
    delta = check_delta(delta)
    needed = kappa(n_cal, alpha) + vc_eta(n_cal, d, delta / 3) + vc_eta(n_tune, d, delta / 3)
    rank = math.ceil(needed * n_tune)
    if rank > n_tune:
        return None
    return (n_tune + 1 - rank) / (n_tune + 1)


def theorem2(n: int, *, alpha: float, n_classes: float, d: int, delta: float) -> TheoremValues:
    """Return Theorem 2 (EFCP): coverage ``kappa - eta``, given the calibration rows.

    Examples
    --------
    >>> round(theorem2(5000, alpha=0.05, n_classes=100, d=3, delta=0.1).coverage, 2)
    0.34
    """
    delta = check_delta(delta)
    eta = vc_eta(n, d, delta / 2)
    return TheoremValues(
        "Theorem 2 (EFCP)", kappa(n, alpha) - eta, kappa(n, alpha) + eta, 2 * n_classes * eta,
        n_classes, delta,
    )  # fmt: skip


def theorem3(
    n: int, m: int, *, alpha: float, n_classes: float, d: int, delta: float
) -> TheoremValues:
    """Return Theorem 3 (DLCP): coverage share and mean size of the test batch of m rows.

    Examples
    --------
    >>> theorem3(10**7, 10**7, alpha=0.05, n_classes=10, d=3, delta=0.1).vacuous_coverage
    False
    """
    delta = check_delta(delta)
    eta, eta_test = vc_eta(n, d, delta / 3), vc_eta(m, d, delta / 3)
    return TheoremValues(
        "Theorem 3 (DLCP)", kappa(n, alpha) - eta - eta_test, kappa(n, alpha) + eta,
        n_classes * eta_test, n_classes, delta,
    )  # fmt: skip


def theorem4(
    n: int, m: int, *, alpha: float, n_classes: float, d: int, delta: float
) -> TheoremValues:
    """Return Theorem 4 (DLCP+): coverage share of the batch, size for a fresh row.

    Examples
    --------
    >>> theorem4(5000, 5000, alpha=0.05, n_classes=100, d=3, delta=0.1).vacuous_size
    True
    """
    delta = check_delta(delta)
    eta, eta_test = vc_eta(n, d, delta / 3), vc_eta(m, d, delta / 3)
    return TheoremValues(
        "Theorem 4 (DLCP+)", kappa(n, alpha) - eta - eta_test, kappa(n, alpha) + eta,
        2 * n_classes * vc_eta(n + m, d, delta / 3), n_classes, delta,
    )  # fmt: skip
