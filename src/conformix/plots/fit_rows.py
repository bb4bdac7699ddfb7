"""The rows behind a fit, brought back: a fitted model keeps its weights, not its rows.

The objective that the search minimised is built again from the outputs and labels of ``fit`` and
checked against what the search reported, so that a picture never shows other rows by mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.calibration import resolve_calibration
from conformix.conformal import conformal_rank, kth_largest
from conformix.data.outputs import check_groups
from conformix.errors import InvalidInput
from conformix.fit.fit import size_rows
from conformix.guarantees import RankRule
from conformix.kernels import combine, lift_best
from conformix.kernels.arrays import FloatArray, IntArray, as_generator, to_host
from conformix.search.nonempty import NonEmptyObjective
from conformix.search.objective import SizeObjective
from conformix.splits import Roles, resolve_split


@dataclass(frozen=True, eq=False)
class FitRows:
    """Scores of the tuning rows and of the size rows, on the scale of the fit."""

    names: tuple[str, ...]
    tune: FloatArray  # (n, K, d), normalised scores of the tuning rows
    y: IntArray  # (n,), their labels
    sizes: tuple[FloatArray, ...]  # (n_i, K, d), normalised scores of the size rows
    shared: bool  # whether the size rows are the tuning rows
    rank: Callable[[int], int]  # the rank that sets the threshold of n tuning rows
    allow_empty: bool = True
    threads: int | None = None

    def objective(self) -> SizeObjective:
        """Return the mean size as a function of the weights."""
        k = self.rank(len(self.y))
        if self.allow_empty:
            true_scores = self.tune[np.arange(len(self.y)), self.y]
            return SizeObjective(true_scores, self.sizes, k, threads=self.threads)
        return NonEmptyObjective(self.tune, self.y, self.sizes, k, threads=self.threads)

    def resampled(self, rng: np.random.Generator) -> FitRows:
        """Return as many rows, drawn with replacement; a row keeps all its labels' scores."""
        rows = rng.integers(len(self.y), size=len(self.y))
        tune = self.tune[rows]
        if self.shared:
            sizes: tuple[FloatArray, ...] = (tune,)
        else:
            sizes = tuple(part[rng.integers(len(part), size=len(part))] for part in self.sizes)
        return FitRows(
            self.names, tune, self.y[rows], sizes, self.shared, self.rank,
            self.allow_empty, self.threads,
        )  # fmt: skip

    def standard_error(self, weights: FloatArray) -> float:
        """Return the standard error of the mean size under one weight vector.

        The threshold is an order statistic of the same rows, and its noise matters more than that
        of the sizes. To first order the mean size moves with row i by
        ``size_i - (dS/dc) 1{s_i >= threshold}``, where dS/dc, the labels that one more unit of
        coverage costs, is a difference quotient over about one standard deviation of the rank.
        """
        n, k = len(self.y), self.rank(len(self.y))
        if k > n:
            return 0.0  # every label is in, whatever the rows
        true_scores = self._combined(self.tune, weights)[np.arange(n), self.y]
        step = max(1, round(float(np.sqrt(k * (n - k) / n))))
        ranks = max(k - step, 1), k, min(k + step, n)
        low, at, high = (kth_largest(true_scores, rank) for rank in ranks)
        combined = np.vstack([self._combined(part, weights) for part in self.sizes])
        sizes = (combined >= at).sum(axis=1)
        gained = ((combined >= high) & (combined < low)).sum() / len(sizes)
        slope = gained * n / max(ranks[2] - ranks[0], 1)
        moves = slope * (true_scores >= at)
        if self.shared:
            return float((sizes - moves).std() / np.sqrt(n))
        return float(np.hypot(sizes.std() / np.sqrt(len(sizes)), moves.std() / np.sqrt(n)))

    def _combined(self, scores: FloatArray, weights: FloatArray) -> FloatArray:
        values = combine(scores, weights)
        return values if self.allow_empty else lift_best(values)


def refuse_responses(cp: Any) -> None:
    """Refuse a model of responses where the labels of sets are counted."""
    if hasattr(type(cp), "predict_interval"):
        raise InvalidInput(
            "this picture counts labels, and a model of responses has none: "
            "plots.sorted_intervals and plots.coverage_by_difficulty draw its intervals, and "
            "report(outputs, y) has widths and coverage over weights and levels."
        )


def fit_rows(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    test: Any = None,
    groups: Any = None,
    as_given: bool = False,
) -> FitRows:
    """Return the rows on which the weights of a fitted model were searched.

    They come from what ``fit`` was given, checked against the search; split ``"exact"`` keeps its
    scores. `as_given` takes all rows for tuning and for sizes, whatever the split of the fit was.
    """
    refuse_responses(cp)
    facts, predictor = cp.guarantee_.facts, cp.predictor_
    fitted, names = predictor.fitted, tuple(cp.score_names_)
    if resolve_calibration(cp.calibration).tune:
        raise InvalidInput(
            "weights that were tuned for thresholds per class are not drawn yet; fit with a "
            "calibration that has tune=False."
        )
    if not fitted.nested:
        return FitRows(
            names, fitted.scores, fitted.y, (fitted.scores,), True,
            lambda n: conformal_rank(n, fitted.alpha), True, fitted.threads,
        )  # fmt: skip
    if outputs is None or y is None:
        raise InvalidInput(
            "a fitted model does not keep its rows; pass the outputs and labels of fit too."
        )
    checked = predictor.check(outputs)
    labels = predictor.labels(y, checked.n)
    rows = np.arange(checked.n)
    roles = Roles(rows, rows, rows)
    test_scores = None
    if not as_given and fitted.search is not None:
        roles, test_scores = _roles(cp, checked.n, test, check_groups(groups, checked.n))
    scores, transform = to_host(predictor.scores(checked)), fitted.rule.transform
    tune = transform(scores[roles.tune])
    shared = np.array_equal(roles.tune, roles.size)
    sizes = [tune] if shared else map(transform, size_rows(scores, test_scores, roles))
    rule = RankRule() if facts.separate else facts.rank
    result = FitRows(
        names, tune, labels[roles.tune], tuple(sizes), shared,
        lambda n: rule(n, facts.tune_alpha), fitted.rule.allow_empty, predictor.threads,
    )  # fmt: skip
    if not as_given and fitted.search is not None:
        _check_same(result, fitted.search)
    return result


def _roles(cp: Any, n: int, test: Any, groups: IntArray | None) -> tuple[Roles, FloatArray | None]:
    """Return the roles of the fit, drawn again from its seed, and the scores of the test rows."""
    split = resolve_split(cp.split)
    scores = None
    if split.needs_test:
        if test is None:
            raise InvalidInput(
                f'split "{split.name}" counted sizes on the test rows; pass them as test=.'
            )
        scores = to_host(cp.predictor_.scores(cp.predictor_.check(test, "test")))
    seeded = isinstance(cp.random_state, int | np.integer)
    if cp.guarantee_.facts.separate and not seeded:
        raise InvalidInput(
            f"the tuning rows were drawn with random_state={cp.random_state!r} and cannot be drawn "
            "again; fit with an integer, or say as_given=True to take all rows given."
        )
    rng = as_generator(cp.random_state if seeded else 0)
    return split.roles(n, 0 if scores is None else len(scores), rng, groups), scores


def _check_same(rows: FitRows, search: Any) -> None:
    """Refuse rows on which the found weights do not have the size that the search reported."""
    objective = rows.objective()
    same = objective.n_size == search.n_size
    if not same or int(objective.counts(search.weights[None])[0]) != search.count:
        raise InvalidInput(
            "these are not the rows of the fit: the found weights have another mean size on them; "
            "pass what fit was given, or say as_given=True to take all rows given."
        )
