"""A threshold per stratum of rows and labels: by class, by cluster of classes, by group.

Every case is one table: ``cells[g, y]`` is the stratum of label y in a row of group g. A
calibration row belongs to the stratum of its group and true label, and a candidate label is
compared with the threshold of its own stratum. Rows of one stratum are exchangeable with a test row
of that stratum, so coverage holds **given the stratum** (Vovk, 2012: Mondrian predictors).

Classes or groups with too few rows need a **fallback**:

``all``
    Their labels are always in. Exact, and large.
``pooled``
    They share one threshold: exact for all of them together, where the rows that said which are
    rare are not the calibration rows; else approximate. Under split ``exact`` the candidate is
    counted with the calibration rows: a unit is rare with at most `min_rows` rows, the candidate
    among them, and all rows of rare units share the threshold, so that it is exact there too.
``marginal``
    They take the threshold of all rows: small, and no conditional statement holds for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import Cuts, Plan, Rank, Seen
from conformix.conformal import kth_largest, pvalue_ranks, rows_needed
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput, TrivialSetsWarning, warn
from conformix.guarantees import Facts, Guarantee
from conformix.guarantees.verdict import Cell, Law, beta_binomial
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.registry import unknown_name

# Cells without a stratum of their own: always in the set, or cut where all rows together are cut.
ALWAYS, EVERY = -1, -2
FALLBACKS = ("all", "marginal", "pooled")
# No class or group has so many rows, and floats still hold the number.
MANY = 2**53
# What is counted as rare: a cluster is never rare, the classes that have none are.
PLURALS = {
    "class": "classes",
    "cluster": "classes",
    "group and class": "pairs of group and class",
    "bin of difficulty": "bins of difficulty",
}


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
        What happens to labels of classes or groups with too few rows.
    n_rare : int
        How many of them there are.
    fixed : bool
        Whether the calibration rows had no part in laying this down, or one like the candidate's.
    joins : tuple of int
        Strata whose rows are also among those of the pool: with the candidate in it, such a unit
        has one row too many to be rare, and with the candidate elsewhere it is rare.

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
    joins: tuple[int, ...] = ()

    by_row: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        return ("strata",) if len(self.cells) > 1 else ()

    @property
    def n_strata(self) -> int:
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

    def units_of(self, y: IntArray, data: RowData) -> IntArray:
        """Return which class, cluster, group or pair labelled rows belong to, rare or not, (n,)."""
        if self.what == "cluster":
            return self.cells[0, y]
        if not self.needs:
            return y
        groups: IntArray = np.unique(data.strata, return_inverse=True)[1].ravel()
        return groups if self.what == "group" else groups * self.cells.shape[1] + y

    def cut(self, values: FloatArray, y: IntArray, data: RowData) -> Cuts:
        stratum = self.strata_of(y, data)
        if not self.joins:
            return Stratified(self, values, stratum)
        # Rows of two strata stand in both.
        twice = np.repeat(np.arange(len(values)), 1 + np.isin(stratum, self.joins))
        again = np.flatnonzero(np.diff(twice) == 0)
        strata = stratum[twice]
        strata[again] = self.n_strata - 1
        return Stratified(self, values[twice], strata)

    def afresh(self) -> Plan:
        return replace(self, fixed=True, joins=())


@dataclass(frozen=True, eq=False)
class Stratified:
    """Thresholds and p-values by stratum: of calibration scores that rise, each with its stratum.

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

    threaded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # One stable sort keeps the scores of each stratum rising.
        order = np.argsort(self.stratum, kind="stable")
        strata = self.stratum[order]
        object.__setattr__(self, "_grouped", self.values[order][strata >= 0])
        ends = np.searchsorted(strata, np.arange(self.partition.n_strata + 1))
        object.__setattr__(self, "_ends", ends - np.count_nonzero(strata < 0))

    @property
    def name(self) -> str:
        return self.partition.what

    @property
    def plan(self) -> Plan:
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
        cuts = np.full(self.partition.n_strata + 2, -np.inf)
        enough = np.flatnonzero(k <= self.counts)
        cuts[enough] = self._grouped[self._ends[enough + 1] - k[enough]]
        cuts[EVERY] = kth_largest(self.values, rank(len(self.values), alpha))
        return cuts

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
        result = np.ones(values.shape)  # labels that are always in
        uniforms = None if tau is None else np.broadcast_to(tau, values.shape)
        for rows, labels, stratum in self.blocks(values.shape[0], data):
            scores, place = self.scores_of(stratum), np.ix_(rows, labels)
            at_random = None if uniforms is None else uniforms[place]
            result[place] = pvalue_ranks(scores, values[place], at_random) / (len(scores) + 1)
        return result

    def up_to(self, values: FloatArray, data: RowData = NO_DATA) -> tuple[IntArray, IntArray]:
        """Return how many scores of each label's stratum are at most its value, and of how many.

        Both are 0 for labels that are always in.
        """
        found, sizes = np.zeros((2, *values.shape), dtype=np.int64)
        for rows, labels, stratum in self.blocks(values.shape[0], data):
            scores, place = self.scores_of(stratum), np.ix_(rows, labels)
            found[place] = np.searchsorted(scores, values[place], side="right")
            sizes[place] = len(scores)
        return found, sizes

    def blocks(self, n: int, data: RowData) -> Iterator[tuple[IntArray, IntArray, int]]:
        """Yield rows and labels that share a stratum."""
        groups = self.partition.groups_of(data)
        for g in range(len(self.partition.cells)) if groups is None else np.unique(groups):
            rows = np.arange(n) if groups is None else np.flatnonzero(groups == g)
            cells = self.partition.cells[g]
            for stratum in np.unique(cells[cells != ALWAYS]):
                yield rows, np.flatnonzero(cells == stratum), int(stratum)

    def promise(self, base: Guarantee, least: str = "1 - alpha") -> Guarantee:
        """Return the conditional statement: exact only where it holds for every stratum."""
        if base.kind == "none":
            return base
        part = self.partition
        condition = f"{part.what} of the row" if part.names else f"{part.what} of y"
        less = " minus a selection term" if base.kind == "approximate" else ""
        sentence = f"P(y in set | {condition}) >= {least}{less}"
        if base.kind == "pac":
            sentence = f"for each {part.what} by itself, not for all at once: {base.statement}"
        whole, rare = True, f"{part.n_rare} rare {PLURALS.get(part.what, part.what + 's')}"
        if part.n_rare and part.fallback == "all":
            sentence += f"; labels of {rare} always in"
        elif part.n_rare and part.fallback == "pooled":
            sentence += f"; {rare} only together"
            whole = part.fixed
        elif part.n_rare:
            sentence += f"; no conditional statement for {rare}"
            whole = False
        if part.names and part.fallback == "marginal":
            sentence += "; none for groups that fit did not see"
            whole = False
        kind = base.kind if whole else "approximate"
        return Guarantee(kind, sentence, f"within every {part.what}: {base.assumption}")

    def warn(self, alpha: float, rank: Rank) -> None:
        """Warn where a stratum has too few rows for a finite threshold."""
        cells = self.partition.cells[: len(self.partition.names) or 1]  # groups seen in fit
        used = np.unique(cells[cells >= 0])
        trivial = used[np.isneginf(self.thresholds(alpha, rank)[used])]
        few = [s for s in trivial if rank(int(self.counts[s]), alpha) > self.counts[s]]
        if few:
            by_class = not self.partition.names
            what = "labels" if by_class else "rows"
            more = ", by_class=True" if " and " in self.partition.what else ""
            if self.partition.fallback == "pooled":  # by the tuning rows these seemed enough
                more += f", min_rows={2 * rows_needed(alpha)}"
            way_out = f'PerGroup(fallback="pooled"{more})'
            if self.partition.what.startswith("bin"):
                way_out = f"PerBin({max(1, len(used) // 2)})"
            if by_class:
                way_out = f'PerClass(fallback="pooled"{more}), or calibration="cluster"'
            warn(
                f"{len(few)} of {len(used)} strata by {self.partition.what} have too few rows for "
                f"alpha={float(alpha):g} (the smallest has {int(self.counts[few].min())}): their "
                f"{what} are never excluded; say calibration={way_out}.",
                TrivialSetsWarning,
            )

    def law(self, hits: BoolArray, y: IntArray, data: RowData, facts: Facts, alpha: float) -> Law:
        """Return the law of the covered rows, given how many of them each stratum has.

        A stratum that calibration rows gathered by counting which classes are rare is not one: its
        calibration rows are fewer than chance would have it. Nor are rows that borrow the threshold
        of all rows exchangeable with those that set it.
        """
        part, stratum = self.partition, self.partition.strata_of(y, data)
        lawful = stratum >= 0
        if part.fallback == "pooled" and part.n_rare and not part.fixed:
            lawful &= stratum != part.n_strata - 1
        certain = stratum == ALWAYS
        lawless = int((~lawful & ~certain).sum())
        used, n_test = np.unique(stratum[lawful], return_counts=True)
        n_cal = [int(n) for n in self.counts[used]]
        cells = [
            Cell(n, facts.rank(n, alpha), int(m)) for n, m in zip(n_cal, n_test, strict=True)
        ]  # fmt: skip
        open_cells = [cell for cell in cells if not cell.certain]
        surely = int(certain.sum()) + sum(cell.n_test for cell in cells if cell.certain)
        if not open_cells and lawless:
            return Law(f"no {part.what} of these rows has a threshold of its own", None)
        covered = int(hits[lawful].sum()) - sum(cell.n_test for cell in cells if cell.certain)
        return beta_binomial(
            covered, open_cells, n_weights=facts.n_chosen_among, certain=surely, lawless=lawless
        )


@dataclass(frozen=True)
class PerClass:
    """A threshold per class: ``P(y in set | y = c) >= 1 - alpha`` for every class c.

    Parameters
    ----------
    fallback : {"all", "pooled", "marginal"}
        What happens to classes with fewer than `min_rows` rows, see the module.
    min_rows : int, optional
        By default the smallest number of rows with a finite threshold, ``ceil(1/alpha) - 1``.
    tune : bool
        Whether the weights of the scores are those that make the sets *with thresholds per class*
        smallest; slower than the marginal search, counted weight by weight.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage("paper", kind="logits", calibration=PerClass(), random_state=0)
    >>> cp.fit(logits[:2000], y[:2000]).threshold_.shape
    (10,)
    >>> print(cp.guarantee_.statement)
    P(y in set | class of y) >= 1 - alpha
    """

    name: ClassVar[str] = "class"
    what: ClassVar[str] = "class"
    needs: ClassVar[tuple[str, ...]] = ()
    counts_candidate: ClassVar[bool] = True

    fallback: str = "all"
    min_rows: int | None = None
    tune: bool = False

    @property
    def learns(self) -> bool:
        """Whether rows say which classes are rare in a way that matters to what is promised."""
        return self.fallback != "all"

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per class."""
        cells = np.arange(seen.n_classes)
        counts = seen.expected(seen.y, seen.n_classes)
        rare = rare_units(counts, self.min_rows, self.fallback, seen.alpha)
        cells[rare] = stand_in(self.fallback, pool=seen.n_classes)
        return Partition(
            cells[None, :],
            fallback=self.fallback,
            n_rare=int(rare.sum()),
            fixed=seen.separate or seen.with_candidate,
            joins=joining_units(counts, self.min_rows, self.fallback, seen) if rare.any() else (),
        )


@dataclass(frozen=True)
class PerGroup:
    """A threshold per given group: ``P(y in set | group) >= 1 - alpha`` for every group.

    The groups of the rows are given to `fit` and to every prediction as ``strata=``.

    Parameters
    ----------
    fallback : {"all", "pooled", "marginal"}
        What happens to groups with fewer than `min_rows` rows, and to groups never seen in `fit`.
    min_rows : int, optional
        By default the smallest number of rows with a finite threshold, ``ceil(1/alpha) - 1``.
    by_class : bool
        A threshold for every pair of group and class.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("mmlu_llama13b")
    >>> outputs, y, subject = data.outputs["llama13b_prompt0"], data.labels, data.groups
    >>> cp = cx.ScoreAverage("paper", kind="logits", calibration=PerGroup("pooled"), random_state=0)
    >>> sets = cp.fit(outputs, y, strata=subject).predict_set(outputs[:5], strata=subject[:5])
    >>> print(cp.guarantee_)
    exact: P(y in set | group of the row) >= 1 - alpha (within every group: ...)
    """

    name: ClassVar[str] = "group"
    needs: ClassVar[tuple[str, ...]] = ("strata",)
    tune: ClassVar[bool] = False
    counts_candidate: ClassVar[bool] = True

    fallback: str = "all"
    min_rows: int | None = None
    by_class: bool = False

    @property
    def what(self) -> str:
        """What a stratum is."""
        return "group and class" if self.by_class else "group"

    @property
    def learns(self) -> bool:
        """Whether rows say which groups are rare in a way that matters to what is promised."""
        return self.fallback != "all"

    def learn(self, seen: Seen) -> Plan:
        """Return one stratum per group, or per group and class."""
        n_groups, width = len(seen.names), seen.n_classes if self.by_class else 1
        stratum_of_unit = np.arange(n_groups * width)
        units = np.searchsorted(np.array(seen.names), seen.data.strata) * width
        units += seen.y if self.by_class else 0
        counts = seen.expected(units, len(stratum_of_unit))
        rare = rare_units(counts, self.min_rows, self.fallback, seen.alpha)
        substitute = stand_in(self.fallback, pool=len(stratum_of_unit))
        stratum_of_unit[rare] = substitute
        cells = np.full((n_groups + 1, seen.n_classes), substitute)
        cells[:-1] = stratum_of_unit.reshape(n_groups, width)
        return Partition(
            cells, seen.names, self.what, self.fallback, n_rare=int(rare.sum()),
            fixed=seen.separate or seen.with_candidate,
            joins=joining_units(counts, self.min_rows, self.fallback, seen),
        )  # fmt: skip


def rare_units(
    counts: FloatArray, min_rows: int | None, fallback: str, alpha: float
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which classes or groups have too few rows for a threshold of their own."""
    check_fallback(fallback, min_rows)
    if min_rows is None and fallback == "all":
        return np.zeros(len(counts), dtype=bool)  # the rank itself lets their labels in
    least = rows_needed(alpha) if min_rows is None else min_rows
    return counts < min(least, MANY)


def joining_units(
    counts: FloatArray, min_rows: int | None, fallback: str, seen: Seen
) -> tuple[int, ...]:
    """Return the units that are rare only while the candidate is not one of theirs.

    Counted with the candidate, a unit of n rows is rare where n is at most `min_rows`: n - 1 rows
    are then too few to calibrate the last one. A candidate of a rare unit is compared with the rows
    of all rare units, and so with those of units that have `min_rows` rows without it.
    """
    if fallback != "pooled" or not seen.with_candidate:
        return ()
    least = rows_needed(seen.alpha) if min_rows is None else min_rows
    return tuple(np.flatnonzero((counts == least) & (counts > 0)).tolist())


def check_fallback(fallback: str, min_rows: int | None) -> None:
    """Refuse a fallback that is not known, and a number of rows that is none."""
    if fallback not in FALLBACKS:
        raise unknown_name("fallback", fallback, list(FALLBACKS))
    counts = isinstance(min_rows, int | np.integer) and not isinstance(min_rows, bool)
    if min_rows is not None and not (counts and min_rows >= 0):
        raise InvalidInput(f"min_rows must be a number of rows or None; got {min_rows!r}.")


def stand_in(fallback: str, pool: int) -> int:
    """Return the stratum of rare classes or groups under a fallback."""
    return {"all": ALWAYS, "marginal": EVERY, "pooled": pool}[fallback]
