"""A threshold per stratum of rows and labels: by class, by cluster of classes, by group.

Every case is one table: ``cells[g, y]`` is the stratum of label y in a row of group g. A
calibration row belongs to the stratum of its group and true label, and a candidate label is
compared with the threshold of its own stratum. Rows of one stratum are exchangeable with a test row
of that stratum, so coverage holds **given the stratum** (Vovk, 2012: Mondrian predictors).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import Cuts, Plan, Rank
from conformix.conformal import kth_largest, pvalue_ranks
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput, TrivialSetsWarning, warn
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray

# Cells without a stratum of their own: always in the set, or cut where all rows together are cut.
ALWAYS, EVERY = -1, -2
# What is counted as rare: a cluster is never rare, the classes that have none are.
PLURALS = {"class": "classes", "cluster": "classes", "group and class": "pairs of group and class"}


@dataclass(frozen=True, eq=False)
class Partition:
    """Which stratum a label of a row belongs to.

    Parameters
    ----------
    cells : int64 array of shape (G + 1, K)
        Stratum of every label in every group; the last row is for groups that are not named (the
        only row where there are no groups). `ALWAYS` and `EVERY` stand for no stratum.
    names : tuple
        Names of the groups, sorted; empty without groups.
    what : str
        What a stratum is, for the statement: ``class``, ``group``, ...
    fallback : {"all", "pooled", "marginal"}
        What happens to labels of classes or groups with too few rows (`schemes`).
    n_rare : int
        How many of them there are.
    fixed : bool
        Whether the calibration rows had no part in laying this down.

    Examples
    --------
    >>> by_class = Partition(np.arange(3)[None, :])
    >>> by_class.strata_of(np.array([2, 0]), NO_DATA)
    array([2, 0])
    """

    cells: IntArray
    names: tuple[Any, ...] = ()
    what: str = "class"
    fallback: str = "all"
    n_rare: int = 0
    fixed: bool = True

    by_row: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        """Groups, where there are any."""
        return ("strata",) if len(self.cells) > 1 else ()

    @property
    def n_strata(self) -> int:
        """Number of strata."""
        return max(int(self.cells.max()) + 1, 0)

    def groups_of(self, data: RowData) -> IntArray | None:
        """Return the group number of some rows, G for unknown ones; None without groups."""
        if not self.needs:
            return None
        names = np.array(self.names)
        if data.strata.dtype.kind != names.dtype.kind:
            raise InvalidInput(
                f"strata must hold {'text' if names.dtype.kind == 'U' else 'integers'} as in fit; "
                f"got {data.strata.dtype}."
            )
        place = np.minimum(np.searchsorted(names, data.strata), len(names) - 1)
        return np.where(names[place] == data.strata, place, len(names))

    def strata_of(self, y: IntArray, data: RowData) -> IntArray:
        """Return the strata of labelled rows, shape (n,)."""
        groups = self.groups_of(data)
        return self.cells[0 if groups is None else groups, y]

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        """Return the cuts from combined true-label scores (n,), sorted upwards."""
        return Stratified(self, values, self.strata_of(y, data))

    def afresh(self) -> Plan:
        """Return the partition for rows that had no part in it."""
        return replace(self, fixed=True)


@dataclass(frozen=True, eq=False)
class Stratified:
    """Thresholds and p-values by stratum.

    Parameters
    ----------
    partition : Partition
        The strata.
    values : float64 array of shape (n,)
        Combined true-label scores of all calibration rows, sorted upwards.
    stratum : integer array of shape (n,)
        The stratum of each of them.

    Examples
    --------
    >>> from conformix.conformal import conformal_rank
    >>> by_class = Partition(np.arange(2)[None, :])
    >>> cuts = Stratified(by_class, np.array([0.1, 0.2, 0.7, 0.8]), np.array([0, 1, 0, 1]))
    >>> cuts.at(0.5, conformal_rank)
    array([[0.1, 0.2]])
    """

    partition: Partition
    values: FloatArray
    stratum: IntArray
    _grouped: FloatArray = field(init=False, repr=False)
    _ends: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # One stable sort keeps the scores of each stratum rising.
        order = np.argsort(self.stratum, kind="stable")
        strata = self.stratum[order]
        object.__setattr__(self, "_grouped", self.values[order][strata >= 0])
        ends = np.searchsorted(strata, np.arange(self.partition.n_strata + 1))
        object.__setattr__(self, "_ends", ends - np.count_nonzero(strata < 0))

    @property
    def name(self) -> str:
        """What a stratum is."""
        return self.partition.what

    @property
    def plan(self) -> Plan:
        """The partition."""
        return self.partition

    @property
    def counts(self) -> IntArray:
        """Calibration rows in every stratum."""
        return np.diff(self._ends)

    def scores_of(self, stratum: int) -> FloatArray:
        """Return the calibration scores of one stratum, rising."""
        if stratum == EVERY:
            return self.values
        return self._grouped[self._ends[stratum] : self._ends[stratum + 1]]

    def thresholds(self, alpha: float, rank: Rank) -> FloatArray:
        """Return one threshold per stratum, then those of `EVERY` and of `ALWAYS`."""
        sizes, inverse = np.unique(self.counts, return_inverse=True)
        k = np.array([rank(int(n), alpha) for n in sizes], dtype=np.int64)[inverse.ravel()]
        found = np.full(self.partition.n_strata + 2, -np.inf)
        enough = np.flatnonzero(k <= self.counts)
        found[enough] = self._grouped[self._ends[enough + 1] - k[enough]]
        found[EVERY] = kth_largest(self.values, rank(len(self.values), alpha))
        return found

    def table(self, alpha: float, rank: Rank) -> Any:
        """Return the thresholds by label (K,), by group (dict), or by both (dict of (K,))."""
        cells = self.thresholds(alpha, rank)[self.partition.cells]
        if not self.partition.names:
            return cells[0]
        one = (self.partition.cells == self.partition.cells[:, :1]).all()
        by_group = zip(self.partition.names, cells, strict=False)
        return {name: float(row[0]) if one else row for name, row in by_group}

    def at(self, alpha: float, rank: Rank, data: RowData = NO_DATA) -> FloatArray:
        """Return the thresholds of some rows, shape (r, K), or (1, K) without groups."""
        groups = self.partition.groups_of(data)
        cells = self.partition.cells if groups is None else self.partition.cells[groups]
        return self.thresholds(alpha, rank)[cells]

    def pvalues(
        self, values: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        """Return ``(1 + #{c_i <= s}) / (n_s + 1)`` over the n_s rows of each label's stratum."""
        found = np.ones(values.shape)  # labels that are always in
        uniforms = None if tau is None else np.broadcast_to(tau, values.shape)
        for rows, labels, stratum in self._parts(values.shape[0], data):
            own, place = self.scores_of(stratum), np.ix_(rows, labels)
            at_random = None if uniforms is None else uniforms[place]
            found[place] = pvalue_ranks(own, values[place], at_random) / (len(own) + 1)
        return found

    def _parts(self, n: int, data: RowData) -> Iterator[tuple[IntArray, IntArray, int]]:
        """Yield rows and labels that share a stratum."""
        groups = self.partition.groups_of(data)
        for g in range(len(self.partition.cells)) if groups is None else np.unique(groups):
            rows = np.arange(n) if groups is None else np.flatnonzero(groups == g)
            cells = self.partition.cells[g]
            for stratum in np.unique(cells[cells != ALWAYS]):
                yield rows, np.flatnonzero(cells == stratum), int(stratum)

    def promise(self, base: Guarantee) -> Guarantee:
        """Return the conditional statement: exact only where it holds for every stratum."""
        if base.kind == "none":
            return base
        part = self.partition
        given = f"{part.what} of the row" if part.names else f"{part.what} of y"
        less = " minus a selection term" if base.kind == "approximate" else ""
        told = f"P(y in set | {given}) >= 1 - alpha{less}"
        if base.kind == "pac":
            told = f"for each {part.what} by itself, not for all at once: {base.statement}"
        whole, rare = True, f"{part.n_rare} rare {PLURALS.get(part.what, part.what + 's')}"
        if part.n_rare and part.fallback == "all":
            told += f"; labels of {rare} always in"
        elif part.n_rare and part.fallback == "pooled":
            told += f"; {rare} only together"
            whole = part.fixed
        elif part.n_rare:
            told += f"; no conditional statement for {rare}"
            whole = False
        if part.names and part.fallback == "marginal":
            told += "; none for groups that fit did not see"
            whole = False
        kind = base.kind if whole else "approximate"
        return Guarantee(kind, told, f"within every {part.what}: {base.assumption}")

    def warn(self, alpha: float, rank: Rank) -> None:
        """Warn where a stratum has too few rows for a finite threshold."""
        cells = self.partition.cells[: len(self.partition.names) or 1]  # groups seen in fit
        used = np.unique(cells[cells >= 0])
        trivial = used[np.isneginf(self.thresholds(alpha, rank)[used])]
        few = [s for s in trivial if rank(int(self.counts[s]), alpha) > self.counts[s]]
        if few:
            what = "labels" if not self.partition.names else "rows"
            warn(
                f"{len(few)} of {len(used)} strata by {self.partition.what} have too few rows for "
                f"alpha={float(alpha):g} (the smallest has {int(self.counts[few].min())}): their "
                f'{what} are never excluded; say fallback="pooled", or cluster the classes.',
                TrivialSetsWarning,
            )
