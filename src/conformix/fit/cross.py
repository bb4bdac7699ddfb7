"""Cross-conformal rules: one per fold, and the ranks of new rows among the rows of all folds.

With ``s_f(x, y)`` the combined score of fold f's model, and f(i) the fold of row i, a label y has
the rank ``1 + #{i : s_f(i)(x_i, y_i) <= s_f(i)(x, y)}``, counted over all n rows or over the rows
of the label's own cell (its class, its group). The label is in when rank / (n + 1) exceeds alpha.

What is proven in a cell c of n_c rows, spread over F_c folds of m_f rows each: given the cells of
all rows, the split p-value ``p_f = (1 + #{i in f and c : ...}) / (m_f + 1)`` is valid, since the
rows of f and c and the new row are exchangeable and the model has seen none of them. The rank is
``1 - F_c + sum_f (m_f + 1) p_f``, so that a label is missed only if the mean of the p_f, weighted
by ``m_f + 1``, is at most ``e = (alpha (n_c + 1) + F_c - 1) / (n_c + F_c)``. A weighted mean of
p-values is that small with probability 2e at most: ``(2 - p / e)_+ / (2e)`` is a convex function of
p whose mean is at most 1, and at e it is ``1 / (2e)``. Hence coverage in the cell is at least
``1 - 2 alpha - 2 (1 - 1/F_c) / (n_c / F_c + 1)``. With one row per fold (the jackknife+) the
tournament of Barber et al. goes through in the cell, whose rows all other rows train alike:
``1 - 2 alpha``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conformix.calibration.cuts import Plan
from conformix.conformal import conformal_rank, last_rank_out, simple_fraction
from conformix.data.checks import on_host
from conformix.data.labels import label_indices
from conformix.data.outputs import Arithmetic, Form, Outputs, check_outputs, matching
from conformix.data.row_data import NO_DATA, RowData, check_rows
from conformix.errors import InvalidInput
from conformix.fit.rule import Rule
from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_least
from conformix.guarantees.verdict import Law, Verdict
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, of_labels
from conformix.kernels.cached import cached_property
from conformix.metrics.coverage import share_interval
from conformix.predictions.sets import PredictionSets
from conformix.scores import Column
from conformix.scores.tensor import fill_tensor

NEEDS = (
    "exchangeable rows; model, weights and scale of a fold chosen without it, by one procedure "
    f"that does not depend on the order of rows; {LABELS}"
)


class FoldRule(NamedTuple):
    """The rule of one fold, and the rows that it has not seen: their combined scores, rising."""

    rule: Rule
    values: FloatArray  # (n_f,)
    y: IntArray  # of these rows, in the same order
    data: RowData = NO_DATA  # what they bring along


def rows_of_folds(folds: Sequence[Any]) -> tuple[IntArray, RowData]:
    """Return labels and row data of the rows of all folds."""
    data = folds[0].data
    for fold in folds[1:]:
        data = data.followed_by(fold.data)
    return np.concatenate([fold.y for fold in folds]), data


def cross_coverage(alpha: float, sizes: Sequence[int]) -> float:
    """Return what cross-conformal sets cover at least, for folds of these sizes.

    ``1 - 2 alpha - min{2(1 - 1/F)/(n/F + 1), (1 - F/n)/(F + 1)}``; the second term needs folds of
    one size and is left out otherwise.

    Examples
    --------
    >>> round(cross_coverage(0.1, [100] * 5), 4)
    0.7842
    >>> cross_coverage(0.1, [1] * 50)  # jackknife+
    0.8
    """
    f, n = len(sizes), int(np.sum(sizes))
    lost = 2 * (1 - 1 / f) / (n / f + 1)
    if len(set(sizes)) == 1:
        lost = min(lost, (1 - f / n) / (f + 1))
    return 1 - 2 * float(simple_fraction(alpha)) - lost


def cell_coverage(alpha: float, sizes: Sequence[int], *, one_row_each: bool = False) -> float:
    """Return what is covered at least in a cell that has so many rows of every fold.

    Parameters
    ----------
    alpha : float
        The level.
    sizes : sequence of int
        Rows of the cell in every fold; folds without any take no part.
    one_row_each : bool
        Whether every fold has one row, of whatever cell (jackknife+).

    Examples
    --------
    >>> round(cell_coverage(0.1, [30, 20, 0, 50]), 4)
    0.7612
    >>> cell_coverage(0.1, [1, 0, 2])  # too few rows: every label is in
    1.0
    """
    rows = [size for size in sizes if size]
    f, n, level = len(rows), int(np.sum(rows)), float(simple_fraction(alpha))
    if conformal_rank(n, alpha) > n:
        return 1.0
    if f == 1:
        return 1 - level  # one split p-value
    return 1 - 2 * level - (0.0 if one_row_each else 2 * (1 - 1 / f) / (n / f + 1))


def check_fold_scheme(scheme: Any, *, what: str, way_out: str, average: str) -> None:
    """Refuse a calibration whose cells the folds do not share, or whose rows count differently.

    `what` is ranked, and `way_out` and `average` are what to say and what to use instead.
    """
    if not getattr(scheme, "has_pac", True) or "sample_weight" in scheme.needs:
        raise InvalidInput(
            f'calibration "{scheme.name}" gives rows importance, and what is proven of folds is a '
            "mean of their p-values by numbers of rows, which chance has no part in; say "
            f"{way_out.rpartition('say ')[2]}, or use {average}."
        )
    if getattr(scheme, "learns", True) and not getattr(scheme, "counts_candidate", False):
        raise InvalidInput(
            f'calibration "{scheme.name}" learns from rows outside a fold, and would lay down '
            f"other cells in each: no {what} would be ranked among the same rows; {way_out}."
        )


class Folds:
    """What is ranked among the rows of all folds, and what is proven of it."""

    alpha: float
    folds: tuple[Any, ...]  # with ``values`` that rise, ``y`` and ``data``
    plan: Plan

    @cached_property
    def cuts(self) -> list[Any]:
        """The rows of every fold by cell."""
        return [self.plan.cut(fold.values, fold.y, fold.data) for fold in self.folds]

    def row_data(self, n: int, strata: Any = None) -> RowData:
        """Return what n rows bring along, checked against what the calibration needs."""
        return check_rows(strata, None, n, self.plan.needs, self.calibration)

    @property
    def calibration(self) -> str:
        """Name of the calibration."""
        return str(self.cuts[0].name)

    @property
    def guarantee(self) -> Guarantee:
        """What is proven for these folds."""
        sizes = [len(fold.values) for fold in self.folds]
        if not self.plan.by_row:
            share = cross_coverage(self.alpha, sizes)
            if share <= 0:
                return Guarantee("none", "the bound says nothing for folds of this size", NEEDS)
            return Guarantee("exact", f"P(y in set) >= {at_least(share)}", NEEDS)
        by_cell = np.array([cuts.counts for cuts in self.cuts]).T
        alone = set(sizes) == {1}
        shares = [cell_coverage(self.alpha, row.tolist(), one_row_each=alone) for row in by_cell]
        share = min(shares, default=1.0)
        base = Guarantee("exact", "", NEEDS)
        if share <= 0:
            cell = self.calibration
            told = f"the bound says nothing for a {cell} of so few rows in so many folds"
            return Guarantee("none", told, f"within every {cell}: {NEEDS}")
        return self.cuts[0].promise(base, at_least(share))  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class CrossPredictor(Folds):
    """The rules of all folds with what their inputs must look like: all that prediction needs."""

    columns: tuple[Column, ...]
    models: tuple[str, ...]
    n_classes: int
    kind: Form
    key: int
    alpha: float
    folds: tuple[FoldRule, ...]
    plan: Plan
    threads: int | None = None
    arithmetic: Arithmetic = "exact"
    classes: tuple[Any, ...] | None = None

    blend: ClassVar[None] = None
    no_sum_of_parts: ClassVar[str] = (
        "a label of folds is in by its ranks among the rows of every fold, so there is no sum of "
        "parts to show; predict_pvalues has the share of rows that it beats."
    )

    def __repr__(self) -> str:
        scores = ", ".join(dict.fromkeys(str(column.score) for column in self.columns))
        return (
            f"{type(self).__name__}({scores} over {self.n_classes:,} classes, {len(self.folds)} "
            f"folds, alpha {self.alpha:g}, guarantee {self.guarantee.kind})"
        )

    @property
    def scored_models(self) -> tuple[str, ...]:
        """The models whose outputs are scored: all, since folds take no ensemble."""
        return self.models

    def check(self, outputs: Any, name: str) -> Outputs:
        """Return checked outputs of one fold's model, as those of the fit."""
        if isinstance(outputs, Outputs):
            return outputs  # checked before
        checked = check_outputs(on_host(outputs), self.kind, name=name)
        return matching(checked, self.models, self.n_classes, name)

    def scores(self, outputs: Outputs) -> FloatArray:
        """Return the score tensor (n, K, d) of checked outputs."""
        return fill_tensor(outputs, self.columns, key=self.key, threads=self.threads)

    def labels(self, y: Any, n: int, name: str = "y") -> IntArray:
        """Return true labels of n rows, given by index or by class name, as indices (n,)."""
        return label_indices(y, self.classes, n, self.n_classes, name=name)

    def by_fold(self, outputs: Sequence[Any]) -> list[Outputs]:
        """Return the outputs of every fold's model on the same new rows, checked."""
        if len(outputs) != len(self.folds):
            raise InvalidInput(
                f"outputs must come from the {len(self.folds)} fold models; got {len(outputs)}."
            )
        checked: list[Outputs] = []
        for number, one in enumerate(outputs):
            checked.append(self.check(one, f"outputs of fold {number}"))
            if checked[-1].n != checked[0].n:
                raise InvalidInput(
                    f"outputs of all folds must be of the same rows; fold {number} has "
                    f"{checked[-1].n} rows and fold 0 has {checked[0].n}."
                )
        return checked

    def weighted_scores(
        self, outputs: Sequence[Any]
    ) -> list[tuple[tuple[Column, ...], FloatArray, FloatArray]]:
        """Return what every fold averages: columns, weights (d,) and scores (n, K, d)."""
        return [
            (self.columns, fold.rule.weights, fold.rule.transform(self.scores(one)))
            for fold, one in zip(self.folds, self.by_fold(outputs), strict=True)
        ]

    def ranks(self, outputs: Sequence[Any], **rows: Any) -> tuple[IntArray, IntArray]:
        """Return the rank of every label, (m, K), and among how many rows, broadcasting to it."""
        by_fold = self.by_fold(outputs)
        data = self.row_data(by_fold[0].n, **rows)
        total: Any = 1
        among: Any = 0
        for checked, fold, cuts in zip(by_fold, self.folds, self.cuts, strict=True):
            values = np.concatenate(
                [fold.rule.combined(self.scores(checked.rows(block))) for block in checked.blocks()]
            )
            up_to, size = cuts.up_to(values, data)
            total, among = total + up_to, among + size
        return np.asarray(total), np.asarray(among)

    def member(self, outputs: Sequence[Any], alpha: float, **rows: Any) -> BoolArray:
        """Return the sets of new rows as a boolean array (m, K)."""
        # #{> s} < (1 - alpha)(n + 1) is 1 + #{<= s} > alpha (n + 1).
        ranks, among = self.ranks(outputs, **rows)
        sizes, place = np.unique(among, return_inverse=True)
        out = np.array([last_rank_out(int(n), alpha) for n in sizes])
        return ranks > out[place].reshape(among.shape)  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class CrossRows:
    """Labelled rows that had no part in a cross-conformal fit, to be judged by it."""

    predictor: CrossPredictor
    outputs: list[Outputs]  # of every fold's model
    y: IntArray
    data: dict[str, Any]

    no_law: ClassVar[str] = (
        "a row is ranked among the rows of all folds, whose models have rows in common"
    )

    @classmethod
    def of(
        cls, predictor: CrossPredictor, outputs: Sequence[Any], y: Any, **rows: Any
    ) -> CrossRows:
        """Return the rows, checked; `rows` may hold ``strata``."""
        by_fold = predictor.by_fold(outputs)
        return cls(predictor, by_fold, predictor.labels(y, by_fold[0].n), rows)

    def sets(self, alpha: float) -> PredictionSets:
        """Return the sets of these rows at a level."""
        simple_fraction(alpha)
        member = self.predictor.member(self.outputs, alpha, **self.data)
        return PredictionSets(member, self.predictor.classes)

    @property
    def truth(self) -> IntArray:
        """What the measures compare sets with."""
        return self.y

    def bare(self, sets: Any) -> Any:
        """Return sets as measures take them: without names of classes, since labels are indices."""
        return np.asarray(sets)

    def hits(self, sets: Any) -> BoolArray:
        """Return whether the labels are in their sets, (m,)."""
        return np.asarray(of_labels(np.asarray(sets), self.y), dtype=bool)

    def verdict(self, alpha: float, sets: Any) -> Verdict:
        """Return the verdict on the sets of these rows: coverage, and that no law of it is known.

        What is proven (`CrossPredictor.guarantee`) lies below ``1 - alpha``, which is asked for.
        """
        hits = self.hits(sets)
        interval = share_interval(int(hits.sum()), len(hits))
        asked = float(1 - simple_fraction(alpha))
        law = Law(self.no_law, None)
        return Verdict(float(hits.mean()), len(hits), asked, None, law, interval)
