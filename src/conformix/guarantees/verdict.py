"""The verdict: whether the coverage measured on labelled rows is less than chance allows.

Coverage of a finite batch scatters for two reasons: the test rows are drawn, and so were the
calibration rows that set the threshold. A verdict therefore needs the law of both together:

* rows that share a threshold which neither they nor their calibration rows chose: with the k-th
  largest of n calibration scores as the threshold, the number of covered rows among m exchangeable
  ones is ``BetaBinomial(m, k, n + 1 - k)``; ties only raise it;
* several thresholds (by class, cluster or group): given how many rows each has, these numbers are
  independent, so their sum follows the convolution;
* weights chosen by the calibration rows, or by test features: equal weights were chosen by none, so
  the rows are judged by what equal weights would have covered. A model that does not hold the
  calibration scores under equal weights is judged by a union: whichever of M candidates was chosen,
  the tail is at most the sum of the M tails, all alike;
* weights chosen on calibration and test rows alike (the pooled test): which of the rows that miss
  the common threshold are test rows is a draw without replacement, hence hypergeometric; with a
  threshold per class or group, a convolution over these.

Where none of these holds no law is known, and the verdict says so.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from conformix.guarantees.ledger import Facts
from conformix.kernels.arrays import FloatArray

# So few covered rows are called broken where they come in a smaller share of all draws.
SUSPICIOUS = 0.01
# Laws longer than this are convolved by Fourier transforms.
LONG = 2**12
# Smaller probabilities are beyond the arithmetic of the convolution.
SMALLEST = 1e-12


class Cell(NamedTuple):
    """Rows that share a threshold: the `rank`-th largest of `n_calibration` scores.

    Examples
    --------
    >>> Cell(n_calibration=9, rank=10, n_test=3).certain
    True
    """

    n_calibration: int
    rank: int
    n_test: int

    @property
    def certain(self) -> bool:
        """Whether every label is in, since rows are too few for that rank."""
        return self.rank > self.n_calibration


def covered_law(cells: Sequence[Cell]) -> FloatArray:
    """Return the probabilities of 0, 1, ..., m covered rows among the m rows of all cells.

    The convolution of ``BetaBinomial(m_c, k_c, n_c + 1 - k_c)`` over the cells c; for scores
    without ties and exchangeable rows within every cell.

    Parameters
    ----------
    cells : sequence of Cell
        Thresholds and the rows they are for.

    Examples
    --------
    >>> covered_law([Cell(1, 1, 1), Cell(1, 1, 1)])
    array([0.25, 0.5 , 0.25])
    """
    laws = sorted((_one_law(cell) for cell in cells), key=len) or [np.ones(1)]
    while len(laws) > 1:  # the shortest first, so that long ones meet few others
        insort(laws, _convolved(laws.pop(0), laws.pop(0)), key=len)
    return laws[0]


def _one_law(cell: Cell) -> FloatArray:
    n, k, m = cell
    if cell.certain:
        return np.append(np.zeros(m), 1.0)
    from scipy.special import betaln, gammaln  # noqa: PLC0415  scipy loads late

    h = np.arange(m + 1.0)
    logs = betaln(h + k, m - h + n + 1 - k) - gammaln(h + 1) - gammaln(m - h + 1)
    law = np.exp(logs - logs.max())  # up to a factor that all h share
    return law / law.sum()  # type: ignore[no-any-return]


def _convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    if min(len(one), len(other)) < 32 or len(one) + len(other) < LONG:
        return np.convolve(one, other)
    from scipy.signal import fftconvolve  # noqa: PLC0415  scipy loads late

    return np.clip(fftconvolve(one, other), 0.0, None)


def shortfall_tail(hits: int, cells: Sequence[Cell], *, n_weights: int = 1) -> float:
    """Return a bound on the probability of at most `hits` covered rows, were rows exchangeable.

    ``min(1, M P(H <= hits))`` with H of `covered_law`: exact up to ties for M = 1.

    Parameters
    ----------
    hits : int
        Covered rows of all cells.
    cells : sequence of Cell
        Thresholds and the rows they are for.
    n_weights : int
        M: how many weight vectors the rows chose among; 1 where they chose none.

    Examples
    --------
    >>> round(shortfall_tail(880, [Cell(500, 451, 1000)]), 3)
    0.118
    >>> shortfall_tail(880, [Cell(500, 451, 1000)], n_weights=66)
    1.0
    """
    return min(1.0, n_weights * float(covered_law(cells)[: hits + 1].sum()))


def pooled_tail(missed: int, *, missed_of_all: int, n_test: int, n_all: int) -> float:
    """Return the probability of at least `missed` test rows among those that miss, by the draw.

    Of ``n_all`` exchangeable rows, ``missed_of_all`` miss a threshold that treats all of them
    alike; which of them are test rows is a draw without replacement.

    Examples
    --------
    >>> round(pooled_tail(2, missed_of_all=2, n_test=2, n_all=4), 4)
    0.1667
    """
    from scipy.stats import hypergeom  # noqa: PLC0415  scipy loads late

    return float(hypergeom.sf(missed - 1, n_all, missed_of_all, n_test))


def pooled_tails(missed: int, cells: Sequence[tuple[int, int, int]]) -> float:
    """Return the same for rows of several cells, each with a threshold that its rows share.

    Given the cells, the draws in them are independent: the numbers of test rows that miss add up.

    Parameters
    ----------
    missed : int
        Test rows that miss the threshold of their cell.
    cells : sequence of (missed_of_all, n_test, n_all)
        The numbers of every cell, see `pooled_tail`.

    Examples
    --------
    >>> round(pooled_tails(4, [(2, 2, 4), (2, 2, 4)]), 4)  # both times all that can
    0.0278
    """
    if len(cells) == 1:
        ((missed_of_all, n_test, n_all),) = cells
        return pooled_tail(missed, missed_of_all=missed_of_all, n_test=n_test, n_all=n_all)
    from scipy.stats import hypergeom  # noqa: PLC0415  scipy loads late

    law: FloatArray = np.ones(1)
    for missed_of_all, n_test, n_all in cells:
        most = min(missed_of_all, n_test)
        law = _convolved(law, hypergeom.pmf(np.arange(most + 1), n_all, missed_of_all, n_test))
    return min(1.0, float(law[missed:].sum()))


class Law(NamedTuple):
    """How likely so few covered rows are, and by which law."""

    name: str
    """The law in words; where none is known, why."""
    pvalue: float | None
    """The tail, or a bound on it; None where no law is known."""
    chance: tuple[float, float] | None = None
    """Where coverage lies but for 1 % of all draws on either side, where one law says so."""
    event: str = "so few are covered"
    """What has that probability."""
    bound: bool = False
    """Whether it may be smaller."""
    chosen: bool = False
    """Whether calibration or test rows chose the weights, which lowers coverage besides."""

    @property
    def says(self) -> str:
        """The tail and the law in words; why there is none where no law is known."""
        if self.pvalue is None:
            return self.name
        share = f"less than {100 * SMALLEST:g} %"
        if self.pvalue >= SMALLEST:
            share = f"{float(f'{100 * self.pvalue:.2g}'):g} %"
        return f"{self.event} in {'at most ' * self.bound}{share} of all draws by {self.name}"


def beta_binomial(
    hits: int, cells: Sequence[Cell], *, n_weights: int = 1, certain: int = 0, lawless: int = 0
) -> Law:
    """Return the law of the covered rows of some cells.

    `certain` rows besides have all labels in their sets, of `lawless` rows besides no law is known.
    """
    n_cal = sum(cell.n_calibration for cell in cells)
    name = f"the beta-binomial law of {n_cal:,} calibration rows"
    if len(cells) > 1:
        name = (
            f"the beta-binomial laws of {len(cells):,} thresholds with {n_cal:,} calibration rows"
        )
    if union := n_weights > 1:
        name += f", times the {n_weights:,} weightings that they chose among"
    if lawless:
        name += f", without {lawless:,} rows of which no law is known"
    law = covered_law(cells)
    tail = min(1.0, n_weights * float(law[: hits + 1].sum()))
    chance = None
    if not union and not lawless:
        ends = np.searchsorted(np.cumsum(law), (SUSPICIOUS, 1 - SUSPICIOUS))
        m = len(law) - 1 + certain
        chance = (float(ends[0] + certain) / m, float(ends[1] + certain) / m)
    return Law(name, tail, chance, bound=union, chosen=union)


def no_law(facts: Facts, *, reference: bool = False) -> str | None:
    """Return why no law is known for rows scored by a fitted rule; None where there is one.

    With `reference`, calibration scores under equal weights are at hand.
    """
    if facts.grouped:
        return (
            "the rows of the fit came in groups, and rows of one group depend on each other (fit "
            "on one row of each)"
        )
    if facts.learnt_scale:
        return (
            "the calibration rows also taught the scale of the scores "
            '(split="holdout" (vfcp) or normalize="scale" keeps them out of it)'
        )
    if not facts.n_chosen_among and not reference:
        return 'the search does not say how many weightings it chose among (search="grid" does)'
    return None


@dataclass(frozen=True)
class Verdict:
    """Coverage measured on labelled rows, and whether it is less than chance allows.

    Parameters
    ----------
    coverage : float
        Share of the rows whose true label is in the set.
    n_rows : int
        How many rows.
    asked : float
        ``1 - alpha``.
    promised : float or None
        What the guarantee of the fit promises: ``1 - alpha`` where it is exact or PAC, else None.
    law : Law
        The law, with the probability of so few covered rows (or a bound on it) were the rows
        exchangeable with the calibration rows; where none is known, why.
    interval : pair of float
        The 95 % interval of the coverage, from the test rows alone: given the fitted sets.
    trivial : bool
        Whether every set holds all labels, since calibration rows are too few for the level.
    used : str, optional
        That these rows had a part in the fit, where they are found to have had.
    all_in : str
        What a trivial set is.
    asked_later : bool
        Whether the level was chosen after the fit, for a look: the sentence then says what would
        have held, since a promise is for a level that was fixed beforehand.

    Examples
    --------
    >>> law = beta_binomial(840, [Cell(500, 451, 1000)])
    >>> found = Verdict(0.84, 1000, 0.9, 0.9, law, (0.816, 0.862))
    >>> found.word
    'broken'
    >>> print(found)
    The promise is broken: 84 % of 1,000 rows are covered and 90 % are promised, less than ...
    """

    coverage: float
    n_rows: int
    asked: float
    promised: float | None
    law: Law
    interval: tuple[float, float]
    trivial: bool = False
    used: str | None = None
    all_in: str = "every set holds all labels"
    asked_later: bool = False

    @property
    def pvalue(self) -> float | None:
        """The tail probability under the law, or a bound on it; None where no law is known."""
        return self.law.pvalue

    @property
    def word(self) -> Literal["kept", "reached", "chance", "broken", "unknown", "trivial", "used"]:
        """The verdict in a word.

        ``kept``: at least what is promised. ``reached``: at least what was asked for, though not
        promised. Below it ``chance``, ``broken`` (less than in 1 % of all draws) or ``unknown``
        (no law is known). ``trivial``: every set holds all labels. ``used``: the rows had a part in
        the fit, and say nothing of new ones.
        """
        if self.trivial:
            return "trivial"
        if self.used is not None:
            return "used"
        if self.coverage >= self.asked:
            return "reached" if self.promised is None else "kept"
        if self.pvalue is None:
            return "unknown"
        return "broken" if self.pvalue < SUSPICIOUS else "chance"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        rows = f"{percent(self.coverage)} of {self.n_rows:,} rows are covered"
        asked, later, promised = percent(self.asked), self.asked_later, self.promised is not None
        all_in = self.all_in.replace("holds", "would hold") if later else self.all_in
        are = "would have been" if later else "are" if promised else "were"
        wanted = f"{asked} {are} {'promised' if promised else 'asked for'}"
        match self.word:
            case "used" | "trivial":
                return (
                    f"No verdict, since {self.used}: {rows}, which says nothing of new rows."
                    if self.word == "used"
                    else f"{all_in.capitalize()}: the calibration rows are too few for a level of "
                    f"{asked}."
                )
            case "kept":
                held = "would have held" if later else "is kept"
                return f"The promise {held}: {rows} and at least {wanted}."
            case "reached":
                does = "would not have promised" if later else "does not promise"
                return f"{rows}: at least the {asked} asked for, which this fit {does}."
            case "unknown":
                low, high = (percent(end) for end in self.interval)
                return (
                    f"{rows} (95 % interval {low} to {high}) and {wanted}; no verdict, since no "
                    f"law of chance is known here: {self.law.says}."
                )
            case "chance":
                both = "chance and the choice of the weights allow"
                allows = both if self.law.chosen else "chance allows"
                return f"{rows} and {wanted}, which {allows}: {self.law.says}."
        what, how = ("promise", "broken") if promised else ("level", "missed")
        return (
            f"The {what} {'would have been' if later else 'is'} {how}: {rows} and {wanted}, less "
            f"than chance allows ({self.law.says}); these rows are unlike the calibration rows."
        )

    def __str__(self) -> str:
        return self.sentence


def percent(share: float) -> str:
    """Return a share as text, with two digits at most."""
    return f"{round(100 * share, 2):g} %"
