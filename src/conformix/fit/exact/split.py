"""The exact split: fitted on all rows and the candidate, and the sets and p-values of new rows.

Where no set may be empty, the labels with the largest p-value of a row, all that tie, have the
p-value 1: they are in whatever the level, and any set that is not empty holds them anyway. This is
done after the selection, not within it as by the lift of one rule: every label has weights of its
own, and it may be that none is the best label of its row under its own. Sets only grow, so that
what is promised stays, and more may be covered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from conformix.calibration.cuts import (
    Calibration,
    Cuts,
    Marginal,
    Plan,
    Seen,
    SinglePlan,
    laid_down_alike,
)
from conformix.conformal import conformal_rank, pvalue_ranks, simple_fraction
from conformix.data.row_data import NO_DATA, RowData, group_names
from conformix.errors import InvalidInput
from conformix.fit.exact.by_class import ClassTables, class_tables
from conformix.fit.exact.tables import Tables, make_tables
from conformix.fit.rule import Rule
from conformix.fit.scored import Scored
from conformix.fit.settings import Settings
from conformix.guarantees import EXACT_FULL, Facts, Ledger
from conformix.kernels import available_threads, combine, lift_best, run_blocks
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    as_tensor,
    beside,
    of_labels,
    some_rows,
    to_device,
    to_host,
    torch_counts,
)  # fmt: skip
from conformix.kernels.blocks import row_blocks
from conformix.kernels.cached import cached_property
from conformix.kernels.simplex import preference
from conformix.kernels.twins import host_kernels
from conformix.scores.names import Column
from conformix.scores.scale import Transform, Unscaled
from conformix.search.objective import SearchResult, SizeObjective, tuning_rank
from conformix.search.weights import Search, candidate_weights

# Test rows that one thread works on at a time.
ROWS_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class FullFitted:
    """What the exact split leaves: the calibration scores and the candidate weights."""

    scores: FloatArray  # (n, K, d), normalised, of the calibration rows
    y: IntArray
    weights: FloatArray  # (M, d), in the order that breaks ties
    transform: Transform
    alpha: float  # p-values select at this level
    normalizer: str = "none"
    threads: int | None = None
    grouped: bool = False
    n_unlabelled: int = 0  # rows that taught scores
    plan: Plan = field(default_factory=SinglePlan)
    data: RowData = NO_DATA  # what the calibration rows bring along
    tuned: bool = False  # whether sets with a threshold per class are what the selection counts
    allow_empty: bool = True  # if not, the largest p-values of a row count as 1
    _tables: dict[Any, Any] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    held_out_size: ClassVar[None] = None
    reference: ClassVar[None] = None
    cuts: ClassVar[None] = None
    limits: ClassVar[None] = None
    nested: ClassVar[bool] = False
    additive: ClassVar[bool] = False

    @property
    def needs(self) -> tuple[str, ...]:
        return self.plan.needs

    def warn(self, alpha: float) -> None:
        self.cuts_under(self.weights[0]).warn(alpha, conformal_rank)

    def at_level(self, alpha: float) -> FullFitted:
        """Return what gives the sets at one level: itself, since every label selects."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again at first use, and the lock, which cannot travel."""
        return {name: v for name, v in self.__dict__.items() if name not in ("_tables", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _tables={}, _lock=threading.Lock())

    @property
    def all_weights(self) -> FloatArray:
        return self.weights

    @cached_property
    def ledger(self) -> Ledger:
        n, n_classes, d = self.scores.shape
        alpha, m = float(self.alpha), len(self.weights)
        facts = Facts(
            "exact", alpha, alpha, n, n, 0, n_classes, d, m, False, False, grouped=self.grouped,
            n_unlabelled=self.n_unlabelled,
        )  # fmt: skip
        cuts = self.cuts_under(self.weights[0])
        ledger = Ledger(EXACT_FULL.taught_apart(self.n_unlabelled), facts)
        return ledger.under(cuts.name, cuts.promise)

    @property
    def search(self) -> SearchResult:
        """The winner on the n rows alone (EFCP), for reading only."""
        return self.efcp(self.alpha)

    @property
    def rule(self) -> Rule:
        """The rule of the EFCP winner, for reading only."""
        return Rule(self.transform, self.search.weights, self.allow_empty)

    @property
    def calibration(self) -> FloatArray:
        """Combined true-label scores under the EFCP winner, sorted upwards; for reading only."""
        return np.sort(combine(of_labels(self.scores, self.y), self.search.weights))

    def threshold(self, alpha: float) -> float:
        raise InvalidInput(
            'split "exact" has no single threshold: every candidate label selects its own weights; '
            "use predict_set or predict_pvalues."
        )

    def efcp(self, alpha: float) -> SearchResult:
        """Return the winner on the n rows alone at one level."""
        n_classes = self.scores.shape[1]
        best, count = 0, self.n * n_classes
        if self.tuned:
            winner = self.class_tables(alpha).winner
            cuts = self.cuts_under(winner).at(alpha, conformal_rank)
            count = int(np.count_nonzero(to_host(combine(self.scores, winner)) >= cuts))
            return SearchResult(
                winner, count, self.n, len(self.weights), "full-conformal selection"
            )
        if conformal_rank(self.n, alpha) <= self.n:
            tables = self.tables(alpha)
            best, count = tables.best, tables.best_count
        return SearchResult(
            self.weights[best], count, self.n, len(self.weights), "full-conformal selection"
        )

    @property
    def n(self) -> int:
        return len(self.y)

    def tables(self, alpha: float) -> Tables:
        """Return the tables of one level, made at first use."""
        k = conformal_rank(self.n, alpha)
        with self._lock:
            if k not in self._tables:
                self._tables[k] = make_tables(self.scores, self.y, self.weights, k, self.threads)
            return self._tables[k]  # type: ignore[no-any-return]

    def class_tables(self, alpha: float) -> ClassTables:
        """Return the tables of one level where every class has a threshold, made at first use."""
        key = simple_fraction(alpha)
        with self._lock:
            if key not in self._tables:
                scores = np.asarray(to_host(self.scores))
                part: Any = self.plan  # a partition by class: only such schemes tune
                self._tables[key] = class_tables(
                    scores, self.y, self.weights, part, alpha, threads=self.threads
                )
            return self._tables[key]  # type: ignore[no-any-return]

    def cuts_under(self, weights: FloatArray) -> Cuts:
        """Return how thresholds are taken from the calibration rows under some weights (d,)."""
        values = combine(of_labels(self.scores, self.y), weights)
        order = np.argsort(values, kind="stable")
        return self.plan.cut(values[order], self.y[order], self.data.take(order))

    def at(self, alpha: float, data: RowData = NO_DATA) -> Any:
        return self.cuts_under(self.weights[0]).at(alpha, conformal_rank, data)

    def row_thresholds(self, alpha: float, data: RowData = NO_DATA) -> None:
        """Every label has weights of its own."""

    def member(self, scores: FloatArray, alpha: float, data: RowData = NO_DATA) -> BoolArray:
        member = self._reaching(scores, alpha, data)
        empty = np.arange(0) if self.allow_empty else np.flatnonzero(~to_host(member.any(1)))
        if len(empty):
            pvalues = self._pvalues(some_rows(scores, empty), alpha, None, data.take(empty))
            member[to_device(empty, member)] = to_device(np.isinf(lift_best(pvalues)), member)
        return member

    def _reaching(self, scores: FloatArray, alpha: float, data: RowData) -> BoolArray:
        """Return which labels reach the threshold under the weights that they select, (r, K)."""
        if self.plan.by_row:

            def reached(cuts: Cuts, values: FloatArray, rows: IntArray) -> BoolArray:
                return values >= cuts.at(alpha, conformal_rank, data.take(rows))  # type: ignore[no-any-return]

            return self._under_chosen(scores, alpha, reached).astype(bool)
        if conformal_rank(self.n, alpha) > self.n:
            return np.ones(tuple(scores.shape[:2]), dtype=bool)
        tables = self.tables(alpha)
        # The selection is where the calibration rows are; the answer goes where its caller is.
        scores = self.transform(beside(scores, self.scores))
        chosen = self.choose(scores, tables)
        values = combine(scores, to_device(tables.weights, scores)[chosen])
        return values >= to_device(tables.cuts[:, 1], scores)[chosen]

    def ranks(self, scores: FloatArray, alpha: float, tau: FloatArray | None = None) -> FloatArray:
        """Return ``n + 1`` times the p-values under the weights selected for each label, (r, K)."""
        weights, chosen, values = self._chosen(scores, alpha)
        true_scores = of_labels(self.scores, self.y)
        ranks = np.empty(chosen.shape)
        uniforms = None if tau is None else np.broadcast_to(tau, chosen.shape)
        for i in np.unique(chosen):
            here = chosen == i
            calibration = np.sort(combine(true_scores, weights[i]))
            ranks[here] = pvalue_ranks(
                calibration, values[here], None if uniforms is None else uniforms[here]
            )
        return ranks

    def pvalues(
        self, scores: FloatArray, tau: FloatArray | None = None, data: RowData = NO_DATA
    ) -> FloatArray:
        pvalues = self._pvalues(scores, self.alpha, tau, data)
        if self.allow_empty:
            return pvalues
        # Whichever number smooths them, the same labels count as 1.
        plain = pvalues if tau is None else self._pvalues(scores, self.alpha, None, data)
        return np.where(np.isinf(lift_best(plain)), 1.0, pvalues)

    def _pvalues(
        self, scores: FloatArray, alpha: float, tau: FloatArray | None, data: RowData
    ) -> FloatArray:
        """Return the p-values of all labels under the weights that they select at a level."""
        if not self.plan.by_row:
            return self.ranks(scores, alpha, tau) / (self.n + 1)

        def pvalues(cuts: Cuts, values: FloatArray, rows: IntArray) -> FloatArray:
            return cuts.pvalues(values, None if tau is None else tau[rows], data.take(rows))

        return self._under_chosen(scores, alpha, pvalues)

    def _chosen(self, scores: FloatArray, alpha: float) -> tuple[FloatArray, IntArray, FloatArray]:
        """Return weights (p, d), which of them each label selects, and its score under them."""
        scores = self.transform(beside(scores, self.scores))
        weights = self.weights
        chosen: IntArray = np.zeros(tuple(scores.shape[:2]), dtype=np.int64)
        if self.tuned:
            by_class = self.class_tables(alpha)
            weights = by_class.weights
            chosen = by_class.choose(np.asarray(to_host(scores)), self.threads)
        elif conformal_rank(self.n, alpha) <= self.n:  # else all weights tie: the first wins
            tables = self.tables(alpha)
            weights, chosen = tables.weights, to_host(self.choose(scores, tables))
        return weights, chosen, to_host(combine(scores, to_device(weights[chosen], scores)))

    def selected(
        self, scores: FloatArray, alpha: float, data: RowData = NO_DATA
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weights (r, K, d) that labels select, and their thresholds (r, K)."""

        def cuts_at(cuts: Cuts, values: FloatArray, rows: IntArray) -> Any:
            return cuts.at(alpha, conformal_rank, data.take(rows))

        weights, chosen, _ = self._chosen(scores, alpha)
        return weights[chosen], self._under_chosen(scores, alpha, cuts_at)

    def _under_chosen(
        self,
        scores: FloatArray,
        alpha: float,
        read: Callable[[Cuts, FloatArray, IntArray], Any],
    ) -> FloatArray:
        """Return what the cuts say of each label under the weights that it selects, (r, K).

        ``read(cuts, values, rows)`` is asked once for each of these weights, about the rows in
        which some label selects them.
        """
        weights, chosen, values = self._chosen(scores, alpha)
        result = np.empty(chosen.shape)
        for i in np.unique(chosen):
            here = chosen == i
            rows = np.flatnonzero(here.any(axis=1))
            found = read(self.cuts_under(weights[i]), values[rows], rows)
            result[rows] = np.where(here[rows], found, result[rows])
        return result

    def choose(self, scores: FloatArray, tables: Tables) -> IntArray:
        """Return which weights each label of each row selects, shape (r, K)."""
        if torch_counts(scores):
            kernels = import_module("conformix.kernels.device.selection")
            choices = kernels.select_weights(
                as_tensor(scores), tables.weights, tables.cuts, tables.counts, tables.order,
                tables.gap_on_device,
            )  # fmt: skip
            return beside(choices, scores)  # type: ignore[no-any-return]
        chosen = np.zeros(scores.shape[:2], dtype=np.int64)
        open_rows = np.arange(len(scores))
        while len(open_rows):
            choices, wanted = self._ask(scores[open_rows], tables)
            chosen[open_rows] = choices
            # Rows that met a gap nobody had asked for yet are asked again once it is known.
            open_rows = open_rows[choices[:, 0] < 0]
            if wanted.any():
                with self._lock:
                    tables.learn_gaps(wanted)
        return chosen

    def _ask(self, scores: FloatArray, tables: Tables) -> tuple[IntArray, BoolArray]:
        kernels = host_kernels("selection", scores.size * len(tables.weights))
        gaps = tables.gaps

        def work(rows: slice) -> tuple[IntArray, BoolArray]:
            part = np.zeros((rows.stop - rows.start, scores.shape[1]), dtype=np.int64)
            wanted = np.zeros(len(tables.weights), dtype=bool)
            kernels.select_weights(
                SizeObjective.planes(scores[rows]), tables.weights, tables.cuts, tables.counts,
                tables.order, tables.by_low, tables.certain, gaps.starts, gaps.stops, gaps.values,
                gaps.marks, part, wanted,
            )  # fmt: skip
            return part, wanted

        blocks = row_blocks(len(scores), 1, ROWS_AT_ONCE)
        done = run_blocks(work, blocks, available_threads(self.threads))
        return np.concatenate([part for part, _ in done]), np.any([w for _, w in done], axis=0)


def fit_exact(
    scored: Scored, columns: Sequence[Column], settings: Settings, rng: np.random.Generator
) -> FullFitted:
    """Return the fitted exact split.

    Parameters
    ----------
    scored : Scored
        Scores, labels and roles: rows that tune are set aside for a shortlist, all others take
        part in the selection.
    columns : sequence of Column
        Which score of which model every plane holds.
    settings : Settings
        Where the candidate weights come from: fixed beforehand, or with a shortlist visited by a
        search on the rows set aside. An automatic scale is none; one that learns needs such rows.
    rng : Generator
        For searches that draw.
    """
    scores, y, d, alpha = scored.scores, scored.y, len(columns), settings.alpha
    aside, rest = scored.roles.tune, scored.roles.calibrate
    normalizer = Unscaled() if settings.scale is None else settings.scale
    if normalizer.learns and not len(aside):
        raise InvalidInput(
            f'normalize="{normalizer.name}" learns from the calibration rows alone, which breaks '
            'the symmetry that split "exact" rests on; say normalize="none" or "scale", or set '
            "rows aside with Exact(shortlist=...)."
        )
    search: Any = settings.search
    shortlist = settings.split.shortlist  # type: ignore[attr-defined]
    only = settings.only_weights(d)
    # Weights found on the rows set aside, unless there is but one candidate.
    learnt = only is None and hasattr(search, "tour") and len(aside) > 0
    weights: FloatArray = np.zeros((0, d))
    if not learnt:
        weights = fixed_candidates(search, d) if only is None else only[None, :]
    transform = normalizer.fit(some_rows(scores, aside) if len(aside) else scores, columns)
    if len(aside):
        normalized = transform(some_rows(scores, aside))
        k = tuning_rank(len(aside), alpha)
        true_scores = of_labels(normalized, y[aside])
        objective = SizeObjective(true_scores, [normalized], k, threads=settings.threads)
        if learnt:
            weights = search.tour(objective, rng).shortlist(objective, shortlist, rng)
            weights = weights[preference(weights)]
        counts = objective.counts(weights)
        # Stable, so that equal counts keep the order that breaks ties.
        weights = weights[np.sort(np.argsort(counts, kind="stable")[:shortlist])]
    fitted = FullFitted(
        transform(some_rows(scores, rest) if len(aside) else scores), y[rest], weights, transform,
        alpha, normalizer.name, threads=settings.threads, grouped=scored.grouped,
        n_unlabelled=scored.n_unlabelled, data=scored.data.take(rest),
        tuned=bool(settings.calibration.tune), allow_empty=settings.allow_empty,
    )  # fmt: skip
    names, apart = group_names(scored.data), None  # of rows that were set aside too
    if settings.calibration_apart and len(aside):
        best = weights[np.argmin(objective.counts(weights))]
        apart = Seen(
            combine(true_scores, best), y[aside], scored.data.take(aside), names,
            scored.n_classes, len(rest), alpha, separate=True, rng=rng,
        )  # fmt: skip
    fitted = replace(fitted, plan=laid_down(settings.calibration, fitted, names, rng, apart))
    fitted.warn(alpha)
    return fitted


def laid_down(
    scheme: Calibration,
    fitted: FullFitted,
    names: tuple[Any, ...],
    rng: np.random.Generator,
    apart: Seen | None = None,
) -> Plan:
    """Return the plan of a calibration, from rows apart, or from rows and candidate alike.

    `names` are those of the groups.
    """
    if scheme.name == Marginal.name:
        return SinglePlan()
    if apart is not None:
        return scheme.learn(apart)
    return laid_down_alike(
        scheme, fitted.y, fitted.data, names, n_classes=fitted.scores.shape[1],
        alpha=fitted.alpha, rng=rng,
    )  # fmt: skip


def fixed_candidates(search: Search, d: int) -> FloatArray:
    """Return the candidates of a search, or say that it has none that are fixed beforehand."""
    weights = candidate_weights(search, d)
    if weights is None:
        raise InvalidInput(
            'split "exact" needs candidate weights that are fixed beforehand: search="grid", '
            "GridSearch(resolution=...) or an array of weights; a search of its own needs rows set "
            f"aside, Exact(shortlist=...); got {search!r}."
        )
    return weights
