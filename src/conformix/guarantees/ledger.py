"""The ledger: what holds for a fitted object, how much, under which assumption, and what is empty.

The exact statement comes first where there is one; then the sharp terms of the order statistic;
then the theory of the paper with the numbers of this fit, honestly marked where they are vacuous.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from conformix.guarantees import vc
from conformix.guarantees.order import RankRule, check_delta, count, marginal_bound
from conformix.guarantees.statement import Guarantee, at_least, at_most

EXCHANGEABLE, IID = "exchangeable rows", "i.i.d. rows"


@dataclass(frozen=True)
class Facts:
    """The numbers of a fit on which its guarantees depend.

    Parameters
    ----------
    split : str
        Name of the split, or ``"fixed"`` for weights that the calibration rows had no part in:
        given by hand, the only candidate, or kept by `recalibrate`.
    alpha, tune_alpha : float
        Level of the sets, and of the search.
    n_tune, n_cal, n_test : int
        Tuning and calibration rows, and the test rows whose features chose the weights (also
        before a recalibration).
    n_classes, d : int
        Classes and scores.
    n_weights : int
        How many weight vectors the search chose among; 0 where it does not say.
    separate : bool
        Whether the tuning rows stay out of calibration.
    learnt_scale : bool
        Whether the normalisation, or a score, was learnt on calibration rows.
    rank : RankRule
        Which order statistic is the threshold.
    calibration : str
        Name of the calibration: how thresholds are taken from the calibration scores.
    grouped : bool
        Whether the labelled rows came in groups of rows that depend on each other (``groups=``).
    n_batch : int
        The test rows that scores have learnt from, together with the calibration rows: what is
        promised is for these rows alone, and, once other rows have calibrated, for all but these.
    n_unlabelled : int
        Further rows without labels that scores have learnt from.

    Examples
    --------
    >>> facts = Facts("vfcp", 0.1, 0.1, 500, 500, 0, 10, 3, 5151, True, False)
    >>> facts.rank(facts.n_cal, facts.alpha)
    451
    """

    split: str
    alpha: float
    tune_alpha: float
    n_tune: int
    n_cal: int
    n_test: int
    n_classes: int
    d: int
    n_weights: int
    separate: bool
    learnt_scale: bool
    rank: RankRule = field(default_factory=RankRule)
    calibration: str = "marginal"
    grouped: bool = False
    n_batch: int = 0
    n_unlabelled: int = 0

    @property
    def largest(self) -> float:
        """The size of the largest set: the number of classes."""
        return self.n_classes

    @property
    def all_in(self) -> str:
        """What sets are where calibration rows are too few."""
        return "every set holds all labels"

    @property
    def n_chosen_among(self) -> int:
        """How many weightings the rows chose among: 1 for none, 0 where nobody says."""
        return 1 if self.separate and not self.n_test else self.n_weights


@dataclass(frozen=True)
class ResponseFacts(Facts):
    """The numbers of a fit to responses on the real line: a row has one label, its response.

    Parameters
    ----------
    span : float or None
        The length of the range that every response is assumed to lie within; None where none is.

    Examples
    --------
    >>> facts = ResponseFacts("vfcp", 0.1, 0.1, 500, 500, 0, 1, 3, 5151, True, False, span=5.0)
    >>> facts.largest
    5.0
    """

    span: float | None = None

    @property
    def largest(self) -> float:
        """The length of the longest interval."""
        return math.inf if self.span is None else self.span

    @property
    def all_in(self) -> str:
        """What intervals are where calibration rows are too few."""
        return "every interval is unbounded"


class Entry(NamedTuple):
    """One line of the ledger.

    Examples
    --------
    >>> Entry("Lemma 1 (VC)", "eta = 1.22", "i.i.d. rows", vacuous=True).vacuous
    True
    """

    source: str
    says: str
    needs: str
    vacuous: bool


@dataclass(frozen=True)
class Ledger:
    """What is promised for a fitted object.

    Reads as the one statement that matters most (`kind`, `statement`, `assumption`, `str`);
    `entries` and `table` give everything that is known.

    Parameters
    ----------
    guarantee : Guarantee
        The statement.
    facts : Facts
        The numbers of the fit.
    each_row : bool
        Whether every row has a threshold of its own, so that nothing is known of several together.

    Examples
    --------
    >>> facts = Facts("efcp", 0.05, 0.05, 5000, 5000, 0, 100, 3, 5151, False, False)
    >>> from conformix.guarantees.statement import SELECTED
    >>> ledger = Ledger(SELECTED, facts)
    >>> ledger.kind
    'approximate'
    >>> [entry.says for entry in ledger.entries() if entry.source == "selection, marginal"]
    ['coverage >= 0.9375 on average over calibration draws']
    """

    guarantee: Guarantee
    facts: Facts
    each_row: bool = False

    @property
    def kind(self) -> str:
        """``exact``, ``pac``, ``approximate`` or ``none``."""
        return self.guarantee.kind

    @property
    def statement(self) -> str:
        """What holds."""
        return self.guarantee.statement

    @property
    def assumption(self) -> str:
        """What it needs."""
        return self.guarantee.assumption

    def under(self, calibration: str, promise: Callable[[Guarantee], Guarantee]) -> Ledger:
        """Return the ledger of the same fit under another calibration than the marginal one."""
        facts = replace(self.facts, calibration=calibration)
        return Ledger(promise(self.guarantee), facts)

    def assuming(self, more: str) -> Ledger:
        """Return the ledger with one more assumption of its statement."""
        return replace(self, guarantee=self.guarantee.assuming(more))

    def entries(self, delta: float = 0.1) -> list[Entry]:
        """Return every statement known for this fit, at failure probability `delta`."""
        delta = check_delta(delta)
        sharp = [self._headline(), *self._tuning(), *self._order_terms(delta)]
        return [*sharp, *self._paper(delta)]

    def table(self, delta: float = 0.1) -> str:
        """Return the ledger as text, one statement per line."""
        rows = self.entries(delta)
        width = max(len(row.source) for row in rows)
        return "\n".join(
            f"{row.source:<{width}}  {row.says}{' [vacuous]' if row.vacuous else ''} ({row.needs})"
            for row in rows
        )

    def __str__(self) -> str:
        return str(self.guarantee)

    def _headline(self) -> Entry:
        return Entry(self.kind, self.statement, self.assumption, self.kind == "none")

    def _tuning(self) -> Iterator[Entry]:
        """Yield how many rows chose the weights, where they stay out of calibration."""
        f = self.facts
        if f.separate and f.n_tune:
            says = f"{f.n_tune:,} rows chose the weights: how many does not enter the coverage"
            yield Entry("tuning rows", says, "drawn without a look at the rows", False)

    def _order_terms(self, delta: float) -> Iterator[Entry]:
        """Yield what the Beta law of the k-th largest score says, with a union over candidates."""
        f = self.facts
        if f.learnt_scale:
            yield Entry(
                "order statistic", "does not apply", "scores fixed before calibration", True
            )
            return
        if f.calibration != "marginal":
            says = f"no one number: every {f.calibration} has its own threshold and rows"
            if f.calibration == "vote":
                says = "no one number: every score has its own threshold"
            if f.calibration in ("weighted", "label shift"):
                says = "does not apply to weighted rows"
            yield Entry("order statistic", says, "one threshold for all rows", True)
            return
        k = f.rank(f.n_cal, f.alpha)
        m = 1 if f.separate or f.split == "exact" else f.n_weights
        if m == 0:
            says = "does not apply: the search does not say how many weights it chose among"
            yield Entry("order statistic", says, "candidates counted beforehand", True)
            return
        bound = marginal_bound(f.n_cal, k, n_weights=m)
        name = "rank, marginal" if m == 1 else "selection, marginal"
        # Weights chosen with the features of a batch owe that batch another statement; scores that
        # learnt from one owe it to nobody else, until fresh rows calibrate.
        own = f.n_batch if f.split != "fixed" else 0
        whom = (
            " of a row of the batch" if own else " of a fresh row" if f.n_test + f.n_batch else ""
        )
        says = f"coverage{whom} >= {at_least(bound)} on average over calibration draws"
        yield Entry(name, says, EXCHANGEABLE if m == 1 else IID, bound <= 0)
        if f.split != "exact" and not own and not self.each_row:
            worst = conditional_bound(f.n_cal, k, delta, n_weights=m)
            says = f"coverage{whom} >= {at_least(worst)} for {_sure(delta)} of calibration draws"
            yield Entry("order statistic", says, IID, worst <= 0)
        batch = own or f.n_test
        if batch and f.split != "fixed":
            share = batch_bound(f.n_cal, batch, k, delta, n_weights=m)
            says = f"coverage of this batch >= {at_least(share)} with probability {_sure(delta)}"
            yield Entry("order statistic, batch", says, IID, share <= 0)

    def _paper(self, delta: float) -> Iterator[Entry]:
        f = self.facts
        other = f.calibration != "marginal"  # the theory is about one threshold
        if other or self.each_row or f.learnt_scale or f.n_batch or f.split in ("exact", "fixed"):
            return
        n = f.n_cal
        eta, grid = vc.vc_eta(n, f.d, delta), vc.grid_eta(n, max(f.n_weights, 1), delta)
        yield Entry("Lemma 1 (VC)", f"eta = {eta:.3f}, xi = {f.largest * eta:.1f}", IID, eta >= 1)
        missed = 1 - vc.kappa(n, f.alpha)
        relative = 1 - vc.relative_bound(n, f.d, delta, max(missed, 0.0))
        draws = f"for {_sure(delta)} of calibration draws"
        yield Entry(
            "Vapnik, relative", f"coverage >= {at_least(relative)} {draws}", IID, relative <= 0
        )
        if f.n_weights:
            yield Entry(
                "finite grid (DKW)", f"deviation <= {at_most(grid)} {draws}", IID, grid >= 1
            )
        if f.split == "vfcp":
            level = vc.largest_tune_alpha(f.n_tune, n, alpha=f.alpha, d=f.d, delta=delta)
            says = "infeasible" if level is None else f"tune_alpha <= {level:.4f}"
            yield Entry("Theorem 1, alpha'", says, IID, level is None)
        values = self._theorem(delta)
        if values is not None:
            says = str(values).partition(": ")[2]
            vacuous = values.vacuous_coverage or values.vacuous_size
            yield Entry(values.theorem, says, IID, vacuous)

    def _theorem(self, delta: float) -> vc.TheoremValues | None:
        f = self.facts
        sizes = {"n_classes": f.largest, "d": f.d, "delta": delta}
        if f.split == "vfcp":
            return vc.theorem1(f.n_tune, f.n_cal, alpha=f.alpha, tune_alpha=f.tune_alpha, **sizes)  # type: ignore[arg-type]
        if f.split == "efcp":
            return vc.theorem2(f.n_cal, alpha=f.alpha, **sizes)  # type: ignore[arg-type]
        if f.split in ("dlcp", "dlcp+") and f.n_test:
            theorem = vc.theorem3 if f.split == "dlcp" else vc.theorem4
            return theorem(f.n_cal, f.n_test, alpha=f.alpha, **sizes)  # type: ignore[arg-type]
        return None


def _sure(delta: float) -> str:
    """Return ``1 - delta`` in per cent, never rounded up to all."""
    return f"{100 * (1 - delta):.12g}%"


def batch_bound(n: int, m: int, k: int, delta: float, *, n_weights: int = 1) -> float:
    """Return the share of a batch of m rows that is covered with probability ``1 - delta``.

    The largest ``h/m`` with ``M P(BetaBinomial(m, k, n+1-k) <= h - 1) <= delta``: over calibration
    and batch together, whatever features of the batch chose the weights.

    Examples
    --------
    >>> batch_bound(1000, 500, 901, 0.1)
    0.878
    """
    from scipy.stats import betabinom  # noqa: PLC0415  scipy loads late

    n, m, k = count(n, "n"), count(m, "m"), count(k, "k")
    n_weights, delta = count(n_weights, "n_weights"), check_delta(delta)
    if k > n:
        return 1.0
    # P(covered <= h - 1) rises with h = 1..m, and each takes a sum of h terms.
    below = lambda h: n_weights * betabinom.cdf(h, m, k, n + 1 - k)  # noqa: E731
    return bisect_right(range(m), delta, key=below) / m


def conditional_bound(n: int, k: int, delta: float, *, n_weights: int = 1) -> float:
    """Return the coverage that all but a share delta of the calibration draws reach.

    The ``delta / M`` quantile of ``Beta(k, n+1-k)``.

    Examples
    --------
    >>> round(conditional_bound(1000, 901, 0.1), 4)
    0.8878
    """
    from scipy.special import betaincinv  # noqa: PLC0415  scipy loads late

    n, k, n_weights = count(n, "n"), count(k, "k"), count(n_weights, "n_weights")
    delta = check_delta(delta)
    return 1.0 if k > n else float(betaincinv(k, n + 1 - k, delta / n_weights))
