"""Who may see what: the three roles of a row, and the guarantee that follows.

A split assigns rows to the roles of the paper: ``tune`` (I1, labels set the threshold while
searching), ``size`` (I2, sets are counted here, labels never read) and ``calibrate`` (I3, labels
set the final threshold). Rows ``0 .. n-1`` are labelled; ``n .. n+m-1`` are the unlabelled test
rows, which may only ever appear in ``size``.

Splits have plain names beside those of the paper: ``holdout`` (vfcp), ``all-rows`` (efcp),
``batch`` (dlcp), ``batch+`` (dlcp+).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.guarantees import EXACT, EXACT_FULL, SELECTED, TRANSDUCTIVE, Guarantee
from conformix.kernels.arrays import IntArray
from conformix.registry import Registry

__all__ = [
    "SPLITS",
    "DataLeakage",
    "DataLeakagePlus",
    "EfficiencyFirst",
    "Exact",
    "Roles",
    "Split",
    "ValidityFirst",
]


class Roles(NamedTuple):
    """Rising index arrays; overlap is what distinguishes the splits.

    Examples
    --------
    >>> roles = Roles(np.array([1]), np.array([1, 4]), np.array([0, 2, 3]))
    >>> roles.separate, roles.unseen
    (True, array([0, 2, 3]))
    """

    tune: IntArray
    size: IntArray
    calibrate: IntArray

    @property
    def separate(self) -> bool:
        """Whether no row both tunes and calibrates."""
        return len(_outside(self.tune, self.calibrate)) == len(self.tune)

    @property
    def untuned(self) -> Roles:
        """The same without the rows that tune, where their scores are known."""
        return Roles(self.tune[:0], self.size[:0], self.calibrate)

    @property
    def unseen(self) -> IntArray:
        """The calibration rows that neither tune nor count sizes."""
        return _outside(self.calibrate, self.tune, self.size)


def _outside(rows: IntArray, *others: IntArray) -> IntArray:
    """Return the rows that are in none of the others: by marks, since many rows sort slowly."""
    marks = np.zeros(max(part.max(initial=-1) for part in (rows, *others)) + 1, dtype=bool)
    for other in others:
        marks[other] = True
    inside = marks[rows]
    return rows[~inside] if inside.any() else rows


class Split(Protocol):
    """What a fit asks of a split; write a class with these four to add one.

    Examples
    --------
    >>> class Halves:
    ...     name, guarantee, needs_test = "halves", EXACT, False
    ...
    ...     def roles(self, n, n_test, rng, groups=None):
    ...         rows = rng.permutation(n)
    ...         tune, calibrate = np.sort(rows[::2]), np.sort(rows[1::2])
    ...         return Roles(tune, tune, calibrate)
    >>> Halves().roles(4, 0, np.random.default_rng(0)).separate
    True
    """

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the fitted sets."""

    @property
    def needs_test(self) -> bool:
        """Whether `fit` must be given the test features."""

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return the roles of `n` labelled and `n_test` unlabelled rows."""


@dataclass(frozen=True)
class ValidityFirst:
    """VFCP: search on one part, calibrate on the rest; the guarantee is exact.

    Parameters
    ----------
    share : float
        Share of the labelled rows (or of the groups) that goes to tuning. An object keeps its share
        in any case; ``split="vfcp"``, by name, spends no rows where there is nothing to choose or
        to learn: one score, or one candidate on a scale that is not learnt.
    max_rows : int, optional
        At most so many rows tune, a random part of the share; all others calibrate. The search
        holds the scores of all labels of the tuning rows, so this bounds its memory. The number
        does not look at the rows, so the guarantee stays exact; only the weights are chosen from
        fewer rows. By default `fit` takes as many as its memory for scores holds (docs/scale.md).

    Examples
    --------
    >>> roles = ValidityFirst(share=0.25).roles(8, 0, np.random.default_rng(0))
    >>> len(roles.tune), len(roles.calibrate), len(set(roles.tune) & set(roles.calibrate))
    (2, 6, 0)
    >>> fewer = ValidityFirst(share=0.25, max_rows=1).roles(8, 0, np.random.default_rng(0))
    >>> len(fewer.tune), len(fewer.calibrate), set(fewer.tune) <= set(roles.tune)
    (1, 7, True)
    """

    name: ClassVar[str] = "vfcp"
    guarantee: ClassVar[Guarantee] = EXACT
    needs_test: ClassVar[bool] = False

    share: float = 0.5
    max_rows: int | None = None

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return a random part for tuning and sizes, the rest for calibration."""
        self.check()
        units = np.arange(n) if groups is None else groups
        n_units = int(units.max()) + 1
        if n_units < 2:
            what = "rows" if groups is None else "groups"
            raise InvalidInput(
                f"a split in two needs at least 2 {what}, one to tune and one to calibrate; got "
                f"{n_units}."
            )
        drawn = rng.permutation(n_units)[: self.n_units(n_units)]
        if self.max_rows is not None:  # whole units, at least one
            rows = np.cumsum(np.bincount(units, minlength=n_units)[drawn])
            drawn = drawn[: max(1, int(np.searchsorted(rows, self.max_rows, side="right")))]
        tuning = np.zeros(n_units, dtype=bool)
        tuning[drawn] = True
        tune = np.flatnonzero(tuning[units])
        return Roles(tune, tune, np.flatnonzero(~tuning[units]))

    def check(self) -> None:
        """Refuse a share or a number of rows that cannot be."""
        if not 0 < self.share < 1:
            raise InvalidInput(f"share must lie strictly between 0 and 1; got {self.share!r}.")
        whole = isinstance(self.max_rows, int | np.integer) and not isinstance(self.max_rows, bool)
        if self.max_rows is not None and (not whole or self.max_rows < 1):
            raise InvalidInput(
                f"max_rows must be a positive integer or None; got {self.max_rows!r}."
            )

    def n_units(self, n: int) -> int:
        """Return how many of n rows (or groups) are the share."""
        return min(max(round(self.share * n), 1), n - 1)

    def held_in(self, max_rows: int) -> ValidityFirst:
        """Return this split with a bound on the tuning rows, unless it has one of its own."""
        return self if self.max_rows is not None else replace(self, max_rows=max(1, max_rows))


@dataclass(frozen=True)
class EfficiencyFirst:
    """EFCP: all labelled rows do everything; the guarantee loses a selection term.

    Examples
    --------
    >>> EfficiencyFirst().roles(3, 0, np.random.default_rng(0)).calibrate
    array([0, 1, 2])
    """

    name: ClassVar[str] = "efcp"
    guarantee: ClassVar[Guarantee] = SELECTED
    needs_test: ClassVar[bool] = False

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return all labelled rows for every role."""
        rows = np.arange(n)
        return Roles(rows, rows, rows)


@dataclass(frozen=True)
class DataLeakage:
    """DLCP: sizes are counted on the test features; transductive.

    Examples
    --------
    >>> DataLeakage().roles(3, 2, np.random.default_rng(0)).size
    array([3, 4])
    """

    name: ClassVar[str] = "dlcp"
    guarantee: ClassVar[Guarantee] = TRANSDUCTIVE
    needs_test: ClassVar[bool] = True

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return the labelled rows for tuning and calibration, the test rows for sizes."""
        rows = np.arange(n)
        return Roles(rows, np.arange(n, n + n_test), rows)


@dataclass(frozen=True)
class DataLeakagePlus:
    """DLCP+: sizes are counted on the labelled and the test features; transductive.

    Examples
    --------
    >>> DataLeakagePlus().roles(3, 2, np.random.default_rng(0)).size
    array([0, 1, 2, 3, 4])
    """

    name: ClassVar[str] = "dlcp+"
    guarantee: ClassVar[Guarantee] = TRANSDUCTIVE
    needs_test: ClassVar[bool] = True

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return the labelled rows for tuning and calibration, all rows for sizes."""
        rows = np.arange(n)
        return Roles(rows, np.arange(n + n_test), rows)


@dataclass(frozen=True)
class Exact:
    """Full-conformal selection: all rows do everything and the guarantee is exact.

    Every candidate label of a test row takes part in the choice of the weights
    (`conformix.fit.exact`), so the rule treats calibration and test rows alike.

    Parameters
    ----------
    shortlist : int, optional
        Keep only so many candidate weights, the best ones on rows set aside for that purpose. One
        candidate needs no rows set aside.
    share : float
        Share of the rows (or of the groups) set aside for the shortlist; they stay out of
        calibration. Not used without a shortlist.

    Examples
    --------
    >>> Exact().roles(3, 0, np.random.default_rng(0)).calibrate
    array([0, 1, 2])
    """

    name: ClassVar[str] = "exact"
    guarantee: ClassVar[Guarantee] = EXACT_FULL
    needs_test: ClassVar[bool] = False
    symmetric: ClassVar[bool] = True

    shortlist: int | None = None
    share: float = 0.2

    def roles(
        self, n: int, n_test: int, rng: np.random.Generator, groups: IntArray | None = None
    ) -> Roles:
        """Return the rows of the shortlist (none by default), and all others for the rest."""
        if self.shortlist is None:
            rows = np.arange(n)
            return Roles(rows[:0], rows, rows)
        if not isinstance(self.shortlist, int | np.integer) or self.shortlist < 1:
            raise InvalidInput(f"shortlist must be a positive integer; got {self.shortlist!r}.")
        aside, _, rest = ValidityFirst(self.share).roles(n, n_test, rng, groups)
        return Roles(aside, rest, rest)


SPLITS: Registry[Split] = Registry(
    "split",
    {
        "vfcp": ValidityFirst(),
        "efcp": EfficiencyFirst(),
        "dlcp": DataLeakage(),
        "dlcp+": DataLeakagePlus(),
        "exact": Exact(),
    },
    aliases={"holdout": "vfcp", "all-rows": "efcp", "batch": "dlcp", "batch+": "dlcp+"},
    elsewhere={"split": "holdout", "full": "exact", "transductive": "batch"},
)


def in_plain_words(name: str) -> str:
    """Return the plain word for a split, with the name of the paper beside it.

    Examples
    --------
    >>> in_plain_words("vfcp"), in_plain_words("exact")
    ('holdout (vfcp)', 'exact')
    """
    plain = next((word for word, one in SPLITS.aliases.items() if one == name), None)
    return name if plain is None else f"{plain} ({name})"


def resolve_split(split: Any) -> Split:
    """Return a split for its name, or the split itself."""
    if isinstance(split, str):
        return SPLITS[split]
    if isinstance(split, type) or not hasattr(split, "roles"):
        raise InvalidInput(
            f"split must be one of {', '.join(map(in_plain_words, SPLITS))}, or a split object; "
            f"got {shown(split)}."
        )
    return split  # type: ignore[no-any-return]


def bounded(split: Split, max_rows: int) -> Split:
    """Return a split with at most so many tuning rows, where it can bound them."""
    return split.held_in(max_rows) if hasattr(split, "held_in") else split
