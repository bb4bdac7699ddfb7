"""Exact coverage without splitting: the candidate point takes part in the selection.

Full-conformal selection in the spirit of ModSel-CP (Liang, Zhu & Barber, arXiv 2408.07066),
specialised to score weights. Give the choice of weights the hypothetical point (x, y) too, and the
rule treats the n + 1 points alike: coverage is at least ``1 - alpha`` by exchangeability, with all
rows used for everything. Per weight vector the n rows enter through two thresholds, two counts and
the few scores between; only weights with ``min(count(c_{k-1}) + 1, count(c_k))`` at most
``min count(c_k) + K`` can ever win, since one more point moves a count by at most K plus that gap.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.arrays import BoolArray, FloatArray, IntArray
from conformix.conformal import conformal_rank, pvalue_ranks, warn_if_trivial
from conformix.errors import InvalidInput
from conformix.guarantees import EXACT_FULL, Guarantee
from conformix.inputs import row_blocks
from conformix.kernels import available_threads, combine, run_blocks
from conformix.normalize import Transform, Unscaled, resolve_normalizers
from conformix.pipeline import Rule
from conformix.scores.names import Column
from conformix.search.candidates import Candidates, check_candidates
from conformix.search.grid import GridSearch, auto_resolution
from conformix.search.objective import SizeObjective, tuning_rank
from conformix.search.result import SearchResult
from conformix.search.simplex import preference, simplex_grid
from conformix.splits import Exact

# Test rows that one thread works on at a time.
ROWS_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class Tables:
    """What the selection at one level needs of the n rows, for the plausible weights.

    Parameters
    ----------
    weights : float64 array of shape (p, d)
        Plausible weights, by rising count at ``c_{k-1}``.
    cuts, counts, order, starts, gaps
        See `conformix.kernels.selection.select_weights`.
    best, best_count : int
        The winner among all candidates on the n rows alone, and its count.
    """

    weights: FloatArray
    cuts: FloatArray
    counts: IntArray
    order: IntArray
    starts: IntArray
    gaps: FloatArray
    best: int
    best_count: int


@dataclass(frozen=True, eq=False)
class FullFitted:
    """The fitted exact split: the calibration scores and the candidate weights.

    Parameters
    ----------
    scores : float64 array of shape (n, K, d)
        Normalised scores of the calibration rows.
    y : integer array of shape (n,)
        Their labels.
    weights : float64 array of shape (M, d)
        Candidates, in the order that breaks ties.
    transform : Transform
        The normalisation, for new rows.
    alpha : float
        The level of the fit; p-values select at this level.
    normalizer : str
        Name of the normalisation.
    threads : int or None
        Threads to use.
    """

    scores: FloatArray
    y: IntArray
    weights: FloatArray
    transform: Transform
    alpha: float
    normalizer: str = "none"
    guarantee: Guarantee = EXACT_FULL
    threads: int | None = None
    _tables: dict[int, Tables] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    held_out_size = None

    @property
    def search(self) -> SearchResult:
        """The winner on the n rows alone (EFCP), for reading only."""
        return self.efcp(self.alpha)

    @property
    def rule(self) -> Rule:
        """The rule of the EFCP winner, for reading only."""
        return Rule(self.transform, self.search.weights)

    @property
    def calibration(self) -> FloatArray:
        """Combined true-label scores under the EFCP winner, sorted upwards; for reading only."""
        return np.sort(combine(self.scores[np.arange(self.n), self.y], self.search.weights))

    def threshold(self, alpha: float) -> float:
        """Refuse: every candidate label has a threshold of its own."""
        raise InvalidInput(
            'split "exact" has no single threshold: every candidate label selects its own weights; '
            "use predict_set or predict_pvalues."
        )

    def efcp(self, alpha: float) -> SearchResult:
        """Return the winner on the n rows alone at one level."""
        n_classes = self.scores.shape[1]
        best, count = 0, self.n * n_classes
        if conformal_rank(self.n, alpha) <= self.n:
            tables = self.tables(alpha)
            best, count = tables.best, tables.best_count
        return SearchResult(
            self.weights[best], count, self.n, len(self.weights), "full-conformal selection"
        )

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.y)

    def tables(self, alpha: float) -> Tables:
        """Return the tables of one level, made at first use."""
        k = conformal_rank(self.n, alpha)
        with self._lock:
            if k not in self._tables:
                self._tables[k] = make_tables(self.scores, self.y, self.weights, k, self.threads)
            return self._tables[k]

    def member(self, scores: FloatArray, alpha: float) -> BoolArray:
        """Return the sets of some rows (r, K, d) as a boolean array (r, K)."""
        if conformal_rank(self.n, alpha) > self.n:
            return np.ones(scores.shape[:2], dtype=bool)
        tables = self.tables(alpha)
        scores = self.transform(scores)
        chosen = self.choose(scores, tables)
        own = combine(scores, tables.weights[chosen])
        return own >= tables.cuts[chosen, 1]

    def ranks(self, scores: FloatArray, tau: FloatArray | None = None) -> FloatArray:
        """Return ``n + 1`` times the p-values under the weights selected for each label, (r, K)."""
        scores = self.transform(scores)
        weights = self.weights
        chosen: IntArray = np.zeros(scores.shape[:2], dtype=np.int64)
        if conformal_rank(self.n, self.alpha) <= self.n:  # else all weights tie: the first wins
            tables = self.tables(self.alpha)
            weights, chosen = tables.weights, self.choose(scores, tables)
        own = combine(scores, weights[chosen])
        true_scores = self.scores[np.arange(self.n), self.y]
        found = np.empty(chosen.shape)
        uniforms = None if tau is None else np.broadcast_to(tau, chosen.shape)
        for i in np.unique(chosen):
            here = chosen == i
            calibration = np.sort(combine(true_scores, weights[i]))
            found[here] = pvalue_ranks(
                calibration, own[here], None if uniforms is None else uniforms[here]
            )
        return found

    def choose(self, scores: FloatArray, tables: Tables) -> IntArray:
        """Return which weights each label of each row selects, shape (r, K)."""
        from conformix.kernels.selection import select_weights  # noqa: PLC0415  numba loads late

        chosen = np.zeros(scores.shape[:2], dtype=np.int64)

        def work(rows: slice) -> None:
            planes = SizeObjective.planes(scores[rows])
            part = np.zeros((rows.stop - rows.start, scores.shape[1]), dtype=np.int64)
            select_weights(
                planes, tables.weights, tables.cuts, tables.counts, tables.order,
                tables.starts, tables.gaps, part,
            )  # fmt: skip
            chosen[rows] = part

        blocks = row_blocks(len(scores), 1, ROWS_AT_ONCE)
        run_blocks(work, blocks, available_threads(self.threads))
        return chosen


def fit_exact(
    scores: FloatArray,
    y: IntArray,
    columns: Sequence[Column],
    *,
    alpha: float,
    split: Exact,
    search: Any,
    normalize: Any,
    rng: np.random.Generator,
    groups: IntArray | None = None,
    threads: int | None = None,
) -> FullFitted:
    """Return the fitted exact split.

    Parameters
    ----------
    scores, y, columns, alpha, rng, groups, threads
        As in `conformix.pipeline.fit`.
    split : Exact
        Whether a shortlist is learnt on rows set aside.
    search : GridSearch or Candidates
        Where the candidate weights come from; they must be fixed beforehand.
    normalize : str or normaliser
        ``auto`` is ``none``. One that learns needs rows set aside.
    """
    roles = split.roles(len(y), 0, rng, groups)
    aside, rest = roles.tune, roles.calibrate
    normalizer = (
        Unscaled() if normalize == "auto" else resolve_normalizers(normalize, separate=True)[0]
    )
    if normalizer.learns and not len(aside):
        raise InvalidInput(
            f'normalize="{normalizer.name}" learns from the calibration rows alone, which breaks '
            'the symmetry that split "exact" rests on; say normalize="none" or "scale", or set '
            "rows aside with Exact(shortlist=...)."
        )
    weights = candidate_weights(search, len(columns))
    transform = normalizer.fit(scores[aside] if len(aside) else scores, columns)
    if len(aside):
        normalized = transform(scores[aside])
        k = tuning_rank(len(aside), alpha)
        true_scores = normalized[np.arange(len(aside)), y[aside]]
        counts = SizeObjective(true_scores, [normalized], k, threads=threads).counts(weights)
        # Stable, so that equal counts keep the order that breaks ties.
        weights = weights[np.sort(np.argsort(counts, kind="stable")[: split.shortlist])]
    warn_if_trivial(len(rest), alpha)
    kept = transform(scores[rest] if len(aside) else scores)
    return FullFitted(kept, y[rest], weights, transform, alpha, normalizer.name, threads=threads)


def candidate_weights(search: Any, d: int) -> FloatArray:
    """Return the candidate weights of a search in the order that breaks ties, shape (M, d)."""
    if isinstance(search, GridSearch):
        resolution = auto_resolution(d) if search.resolution is None else search.resolution
        grid = simplex_grid(d, resolution)
        return grid[preference(grid)] / resolution
    if isinstance(search, Candidates):
        weights = np.unique(check_candidates(search.weights, d), axis=0)
        return weights[preference(weights)]
    raise InvalidInput(
        'split "exact" needs candidate weights that are fixed beforehand: search="grid", '
        f"GridSearch(resolution=...) or an array of weights; got {search!r}."
    )


def make_tables(
    scores: FloatArray, y: IntArray, weights: FloatArray, k: int, threads: int | None = None
) -> Tables:
    """Return the tables of rank k (1 <= k <= n) for candidates in the order that breaks ties.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of the calibration rows.
    y : integer array of shape (n,)
        Their labels.
    weights : array of shape (M, d)
        Candidates.
    k : int
        The conformal rank.
    threads : int or None
        Threads to use.
    """
    true_scores = scores[np.arange(len(y)), y]
    lower = SizeObjective(true_scores, [scores], k, threads=threads)
    upper = SizeObjective(true_scores, [scores], k - 1, threads=threads)
    at_low = lower.counts(weights)
    at_high = upper.counts(weights) if k > 1 else np.zeros_like(at_low)
    can_win = np.minimum(at_high + 1, at_low) <= at_low.min() + scores.shape[1]
    plausible = np.flatnonzero(can_win)
    plausible = plausible[np.argsort(at_high[plausible], kind="stable")]
    some = weights[plausible]
    high = upper.thresholds(some) if k > 1 else np.full(len(some), np.inf)
    cuts = np.column_stack([high, lower.thresholds(some)])
    starts, gaps = ragged_gaps(lower, some, cuts)
    counts = np.column_stack([at_high, at_low])[plausible]
    best = int(np.argmin(at_low))  # the first of equals: candidates come in the tie order
    return Tables(some, cuts, counts, plausible, starts, gaps, best, int(at_low[best]))


def ragged_gaps(
    objective: SizeObjective, weights: FloatArray, cuts: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the label scores of the n rows between the two cuts of every weight vector.

    Returns
    -------
    starts : int64 array of shape (p + 1,)
        Where the scores of each weight vector begin.
    gaps : float64 array
        All scores, rising within each weight vector. There can be many (over a thousand for
        some weights), hence no cap.
    """
    from conformix.kernels.selection import fill_gaps, gap_sizes  # noqa: PLC0415  numba late

    (scores,) = objective.size_parts
    high, low = np.ascontiguousarray(cuts.T)
    blocks = objective.row_blocks(scores)

    def count(rows: slice) -> IntArray:
        sizes = np.zeros(len(weights), dtype=np.int64)
        gap_sizes(objective.planes(scores[rows]), weights, low, high, sizes)
        return sizes

    by_block = np.array(objective.run(count, blocks))
    starts = np.concatenate([[0], np.cumsum(by_block.sum(axis=0))])
    gaps = np.empty(starts[-1])
    # Every block writes behind the blocks before it, so that threads never meet.
    places = starts[:-1] + np.cumsum(by_block, axis=0) - by_block

    def fill(job: tuple[slice, IntArray]) -> None:
        rows, place = job
        fill_gaps(objective.planes(scores[rows]), weights, low, high, place, gaps)

    objective.run(fill, zip(blocks, places, strict=True))
    for i in range(len(weights)):
        gaps[starts[i] : starts[i + 1]].sort()
    return starts, gaps
