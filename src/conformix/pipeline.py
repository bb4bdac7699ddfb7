"""Fit and predict on score tensors, as the paper's Algorithm 2 reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.arrays import BoolArray, FloatArray, IntArray
from conformix.conformal import kth_largest, pvalue_ranks, warn_if_trivial
from conformix.errors import InvalidInput, SmallBatchWarning, warn
from conformix.guarantees import (
    EXACT,
    UNBOUNDED,
    Facts,
    Guarantee,
    Ledger,
    RankRule,
    pac_guarantee,
)
from conformix.inputs import row_blocks
from conformix.kernels import combine, lift_best
from conformix.normalize import Transform, resolve_normalizer
from conformix.scores.names import Column
from conformix.search.auto import AutoSearch
from conformix.search.nonempty import NonEmptyObjective
from conformix.search.objective import SizeObjective, tuning_rank
from conformix.search.result import SearchResult
from conformix.search.weights import Search
from conformix.splits import Roles, Split

# With fewer test rows than this a transductive split can fit its weights to the batch.
SMALL_BATCH = 100


@dataclass(frozen=True)
class Rule:
    """How scores become one number per label; the same in calibration and prediction.

    Parameters
    ----------
    transform : Transform
        The fitted normalisation.
    weights : float64 array of shape (d,)
        The weights of the scores.
    allow_empty : bool
        Whether a set may be empty; if not, the best labels of a row count as ``+inf``.
    """

    transform: Transform
    weights: FloatArray
    allow_empty: bool = True

    def combined(self, scores: FloatArray) -> FloatArray:
        """Return the combined scores (n, K) of all labels of some rows (n, K, d)."""
        values = combine(self.transform(scores), self.weights)
        return values if self.allow_empty else lift_best(values)

    def of_true_labels(self, scores: FloatArray, y: IntArray) -> FloatArray:
        """Return the combined scores (n,) of the true labels."""
        rows = np.arange(len(y))
        if self.allow_empty:
            return combine(self.transform(scores[rows, y]), self.weights)
        found = np.empty(len(y))
        for block in row_blocks(*scores.shape[:2]):
            found[block] = self.combined(scores[block])[rows[: len(y[block])], y[block]]
        return found


@dataclass(frozen=True)
class Fitted:
    """Everything that prediction needs, and how it came about.

    Parameters
    ----------
    rule : Rule
        Normalisation, weights and the policy on empty sets.
    calibration : float64 array of shape (n,)
        Combined true-label scores of the calibration rows, sorted upwards.
    ledger : Ledger
        What holds for the sets.
    normalizer : str
        Name of the normalisation in use.
    search : SearchResult or None
        What the search found; None where the weights were given.
    held_out_size : float or None
        Mean set size on rows that chose neither weights nor size, where there are any.
    """

    rule: Rule
    calibration: FloatArray
    ledger: Ledger
    normalizer: str
    search: SearchResult | None = None
    held_out_size: float | None = None

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.calibration)

    def threshold(self, alpha: float) -> float:
        """Return the k-th largest calibration score at level `alpha`."""
        return kth_largest(self.calibration, self.ledger.facts.rank(self.n, alpha))

    def member(self, scores: FloatArray, alpha: float) -> BoolArray:
        """Return the sets of some rows (r, K, d) as a boolean array (r, K)."""
        return self.rule.combined(scores) >= self.threshold(alpha)

    def ranks(self, scores: FloatArray, tau: FloatArray | None = None) -> FloatArray:
        """Return ``n + 1`` times the p-values of some rows, smoothed where `tau` is given."""
        return pvalue_ranks(self.calibration, self.rule.combined(scores), tau)


def fit(
    scores: FloatArray,
    y: IntArray,
    columns: Sequence[Column],
    *,
    alpha: float,
    split: Split,
    search: Search,
    normalize: Any,
    rng: np.random.Generator,
    test: FloatArray | None = None,
    groups: IntArray | None = None,
    tune_alpha: float | None = None,
    allow_empty: bool = True,
    delta: float | None = None,
    threads: int | None = None,
) -> Fitted:
    """Return weights and threshold: Algorithm 2 of the paper.

    Parameters
    ----------
    scores : array of shape (n, K, d)
        Scores of all labels of the labelled rows; higher fits better.
    y : integer array of shape (n,)
        True labels.
    columns : sequence of Column
        Which score of which model every plane holds.
    alpha, tune_alpha : float
        Allowed miscoverage, and the level used while searching (by default the same).
    split, search, normalize
        Who may see what, how weights are found, and on which scale scores are averaged.
    rng : Generator
        Where the split draws from.
    test : array of shape (m, K, d), optional
        Scores of the unlabelled test rows, for the transductive splits.
    groups : integer array of shape (n,), optional
        Rows of one group stay on one side of the split.
    allow_empty : bool
        Whether a set may be empty.
    delta : float, optional
        Take the PAC rank: coverage for all but a share delta of the calibration draws.
    threads : int or None
        Threads for the search.
    """
    roles = split.roles(len(y), check_test(split, test), rng, groups)  # who may see what
    separate = not np.intersect1d(roles.tune, roles.calibrate).size
    if delta is not None and not separate and isinstance(search, AutoSearch):
        search = search.grid  # the union bound of a PAC rank needs weights that are counted
    rank = rank_rule(split, search, len(columns), delta, separate=separate, test=test)
    tune_level = alpha if tune_alpha is None else tune_alpha
    # Where the tuning rows calibrate too, they are searched with the rank that will be used.
    k = tuning_rank(len(roles.tune), tune_level, RankRule() if separate else rank)
    normalizer = resolve_normalizer(normalize, separate=separate)
    tune = _rows(scores, roles.tune), y[roles.tune]
    transform = normalizer.fit(tune[0], columns)  # on which scale scores are averaged
    parts = [transform(part) for part in size_parts(scores, test, roles)]
    objective = _objective(*tune, parts, k, transform, allow_empty=allow_empty, threads=threads)
    found = search(objective, rng)  # the weights with the smallest sets
    rule = Rule(transform, found.weights, allow_empty)
    facts = Facts(
        split.name, float(alpha), float(tune_level), len(roles.tune), len(roles.calibrate),
        0 if test is None else len(test), scores.shape[1], len(columns),
        _n_candidates(search, len(columns)), separate, normalizer.learns and not separate, rank,
    )  # fmt: skip
    cal = _rows(scores, roles.calibrate), y[roles.calibrate]
    ledger = Ledger(stated(split.guarantee, facts), facts)
    fitted = calibrated(*cal, rule, alpha=alpha, ledger=ledger, normalizer=normalizer.name)
    unseen = np.setdiff1d(roles.calibrate, np.union1d(roles.tune, roles.size))
    size = mean_size(scores[unseen], rule, fitted.threshold(alpha))
    return replace(fitted, search=found, held_out_size=size)


def _objective(
    tune: FloatArray,
    y: IntArray,
    parts: list[FloatArray],
    k: int,
    transform: Transform,
    *,
    allow_empty: bool,
    threads: int | None,
) -> SizeObjective:
    """Return the sizes on `parts` (normalised) with the threshold set on the tuning rows."""
    if allow_empty:
        true_scores = transform(tune[np.arange(len(y)), y])
        return SizeObjective(true_scores, parts, k, threads=threads)
    return NonEmptyObjective(transform(tune), y, parts, k, threads=threads)


def calibrated(
    scores: FloatArray,
    y: IntArray,
    rule: Rule,
    *,
    alpha: float,
    ledger: Ledger,
    normalizer: str = "none",
) -> Fitted:
    """Return the calibration of a given rule on labelled rows (n, K, d)."""
    warn_if_trivial(len(y), alpha, ledger.facts.rank)
    return Fitted(rule, np.sort(rule.of_true_labels(scores, y)), ledger, normalizer)


def fixed_ledger(
    n: int, n_classes: int, d: int, *, alpha: float, delta: float | None = None
) -> Ledger:
    """Return the ledger of weights that the calibration rows had no part in."""
    rank = RankRule(delta)
    facts = Facts("fixed", float(alpha), float(alpha), 0, n, 0, n_classes, d, 1, True, False, rank)
    return Ledger(stated(EXACT, facts), facts)


def _n_candidates(search: Search, d: int) -> int:
    """Return how many weights a search chooses among, fixed beforehand; 0 where it cannot say."""
    return int(search.n_candidates(d)) if hasattr(search, "n_candidates") else 0


def stated(guarantee: Guarantee, facts: Facts) -> Guarantee:
    """Return the statement that holds in the end: PAC where asked for, none where voided."""
    if facts.learnt_scale:
        return UNBOUNDED
    rank = facts.rank
    if rank.delta is not None:
        return pac_guarantee(rank.delta, n_weights=rank.n_weights, batch=rank.batch)
    return guarantee


def rank_rule(
    split: Split,
    search: Search,
    d: int,
    delta: float | None,
    *,
    separate: bool,
    test: FloatArray | None,
) -> RankRule:
    """Return which order statistic is the threshold, with the union it has to pay for."""
    if delta is None or separate:
        return RankRule(delta)
    if not _n_candidates(search, d):
        raise InvalidInput(
            'guarantee="pac" with split "efcp", "dlcp" or "dlcp+" needs candidate weights that are '
            f"counted beforehand: a grid or an array; got {search!r}."
        )
    batch = len(test) if split.needs_test and test is not None else None
    return RankRule(delta, _n_candidates(search, d), batch)


def mean_size(scores: FloatArray, rule: Rule, threshold: float) -> float | None:
    """Return the mean set size on the rows of `scores`, or None where there are none."""
    if not len(scores):
        return None
    blocks = row_blocks(*scores.shape[:2])
    return float(sum((rule.combined(scores[b]) >= threshold).sum() for b in blocks) / len(scores))


def size_parts(scores: FloatArray, test: FloatArray | None, roles: Roles) -> list[FloatArray]:
    """Return the scores of the size rows, labelled and test rows apart (no copy where whole)."""
    n = len(scores)
    labelled, unlabelled = roles.size[roles.size < n], roles.size[roles.size >= n] - n
    parts = [_rows(scores, labelled)] if len(labelled) else []
    if test is not None and len(unlabelled):
        parts.append(_rows(test, unlabelled))
    return parts


def _rows(scores: FloatArray, rows: IntArray) -> FloatArray:
    """Return ``scores[rows]``, without a copy where that is all rows in order."""
    return scores if np.array_equal(rows, np.arange(len(scores))) else scores[rows]


def check_test(split: Split, test: FloatArray | None) -> int:
    """Return the number of test rows that `split` will use."""
    if not split.needs_test:
        return 0
    if test is None:
        raise InvalidInput(
            f'split "{split.name}" counts sizes on the test rows; pass them: '
            "fit(outputs, y, test=test_outputs)."
        )
    if len(test) < SMALL_BATCH:
        warn(
            f'split "{split.name}" fits its weights to a test batch of only {len(test)} rows; '
            f'below {SMALL_BATCH} its coverage can fall well short, use "efcp" or "vfcp".',
            SmallBatchWarning,
        )
    return len(test)
