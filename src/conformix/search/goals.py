"""What else weights can be searched for: singletons, capped sizes, costs, even coverage.

A goal turns weights into integer costs on a bound objective (`conformix.search.goals`), and every
search speaks to it as it speaks to the mean size.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import check_numbers
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, to_host
from conformix.kernels.twins import host_kernels
from conformix.registry import Registry
from conformix.search.objective import SearchResult, SizeObjective

# Costs and penalties are counted in millionths of a label.
UNIT = 10**6
# Thresholds and row sizes are held for this many weight vectors at once.
WEIGHTS_AT_ONCE = 256


class Goal(Protocol):
    """What `objective=` takes: a name for tables, and costs of weights on a bound objective."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the total cost of every weight vector, int64 (m,), in millionths."""


class GoalObjective(SizeObjective):
    """The costs of a goal as a function of the weights.

    Parameters
    ----------
    plain : SizeObjective
        True-label scores of the tuning rows, and the size rows.
    goal : Goal
        What is minimised.
    tune_scores : array of shape (n, K, d)
        Scores of all labels of the tuning rows.
    y : integer array of shape (n,)
        Their true labels.
    alpha : float
        The level of the search.
    """

    follows_size = False  # a smooth size is no stand-in for it
    plain = False

    def __init__(
        self,
        plain: SizeObjective,
        goal: Goal,
        tune_scores: FloatArray,
        y: IntArray,
        alpha: float,
    ) -> None:
        super().__init__(plain.true_scores, plain.size_parts, plain.k, threads=plain.threads)
        self.goal = goal
        self.tune_scores = tune_scores
        self.y = y
        self.target = 1.0 - float(simple_fraction(alpha))

    def with_scores(self, change: Callable[[FloatArray], FloatArray]) -> Self:
        """Return this objective over other scores: ``change`` maps arrays (..., d) to (..., r)."""
        other = super().with_scores(change)
        if getattr(self.goal, "reads_tune_scores", False):
            other.tune_scores = change(self.tune_scores)
        return other

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the total cost of every weight vector, int64 (m,)."""
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        starts = range(0, len(weights), WEIGHTS_AT_ONCE)
        costs = [self.goal.costs(self, weights[i : i + WEIGHTS_AT_ONCE]) for i in starts]
        return np.concatenate(costs).astype(np.int64)

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the mean cost per size row of every weight vector, shape (m,)."""
        return self.counts(weights) / (UNIT * self.n_size)

    def labels(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows, int64 (m,)."""
        return super().counts(weights)

    def described(self, result: SearchResult) -> SearchResult:
        """Return a search result that says what was minimised, beside the size."""
        result = super().described(result)
        value = result.count / (UNIT * self.n_size)
        count = int(self.labels(result.weights[None])[0])
        return replace(result, count=count, objective=self.goal.name, value=value)

    def covered(self, weights: FloatArray) -> BoolArray:
        """Return whether the true label of every tuning row is in its set, bool (m, n)."""
        thresholds = self.thresholds(weights)
        combined = np.array([combine(self.true_scores, w) for w in weights])
        return combined >= thresholds[:, None]

    def cost_of_rows(
        self, weights: FloatArray, of_size: IntArray, of_label: IntArray | None = None
    ) -> IntArray:
        """Return the costs of the size rows by set size and by label, int64 (m,)."""
        kernels = self.kernels("counting", weights)
        thresholds = self.thresholds(weights)

        def block_costs(block: FloatArray) -> IntArray:
            costs = np.zeros(len(weights), dtype=np.int64)
            each = np.zeros(block.shape[1], dtype=np.int64) if of_label is None else of_label
            kernels.row_costs(self.planes(block), weights, thresholds, of_size, each, costs)
            return costs

        blocks = [part[rows] for part in self.size_parts for rows in self.row_blocks(part)]
        return np.sum(self.run(block_costs, blocks), axis=0, dtype=np.int64)

    def tune_sizes(self, weights: FloatArray) -> IntArray:
        """Return the sizes of the sets of the tuning rows, int64 (m, n)."""
        kernels = host_kernels("counting", self.tune_scores.size * len(weights))
        thresholds = self.thresholds(weights)
        sizes = np.empty((len(weights), len(self.tune_scores)), dtype=np.int64)

        def fill(rows: slice) -> None:
            part = np.empty((len(weights), rows.stop - rows.start), dtype=np.int64)
            kernels.row_sizes(self.planes(self.tune_scores[rows]), weights, thresholds, part)
            sizes[:, rows] = part

        self.run(fill, self.row_blocks(self.tune_scores))
        return sizes


# Up to so many different label costs the exact engine counts each group of labels by itself.
FEW_COSTS = 8


@dataclass(frozen=True)
class MeanSize:
    """Smallest mean set size: the default.

    Examples
    --------
    >>> MeanSize().name
    'size'
    """

    name: ClassVar[str] = "size"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the labels in all sets, in millionths."""
        return bound.labels(weights) * UNIT


@dataclass(frozen=True)
class Singletons:
    """Most sets with exactly one label; the cost is the share of the others.

    Examples
    --------
    >>> Singletons().name
    'singletons'
    """

    name: ClassVar[str] = "singletons"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the number of sets that do not hold one label, in millionths."""
        of_size = np.full(_most_labels(bound) + 1, UNIT, dtype=np.int64)
        of_size[1:2] = 0
        return bound.cost_of_rows(weights, of_size)


@dataclass(frozen=True)
class CappedSize:
    """Smallest mean of ``min(size, cap)``: beyond the cap a set is of no use, however large.

    Parameters
    ----------
    cap : int
        What a set costs at most.

    Examples
    --------
    >>> CappedSize(5).name
    'size up to 5'
    """

    cap: int

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"size up to {self.cap}"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the sum of the capped sizes, in millionths."""
        if isinstance(self.cap, bool) or not isinstance(self.cap, int | np.integer) or self.cap < 1:
            raise InvalidInput(f"cap must be a positive integer; got {self.cap!r}.")
        of_size = np.minimum(np.arange(_most_labels(bound) + 1), self.cap) * UNIT
        return bound.cost_of_rows(weights, of_size)


@dataclass(frozen=True)
class LabelCosts:
    """Smallest mean cost of the labels in a set, where labels cost differently.

    Parameters
    ----------
    values : sequence of K numbers
        What each label costs, from 0 on; counted in millionths, so that the largest total of all
        size rows, ``n * sum(values)``, must stay below 9.2e12.

    Examples
    --------
    >>> LabelCosts((1.0, 5.0)).name
    'label costs'
    """

    values: tuple[float, ...]
    name: ClassVar[str] = "label costs"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return the summed costs of the labels in all sets, in millionths."""
        n_classes = _most_labels(bound)
        each = np.rint(self._checked(n_classes, bound.n_size) * UNIT).astype(np.int64)
        kinds = np.unique(each)
        if len(kinds) > FEW_COSTS:
            return bound.cost_of_rows(weights, np.zeros(n_classes + 1, dtype=np.int64), each)
        groups = [(int(kind), np.flatnonzero(each == kind)) for kind in kinds if kind > 0]
        total = np.zeros(len(weights), dtype=np.int64)
        for kind, labels in groups:
            of_group = [part[:, labels] for part in bound.size_parts]
            plain = SizeObjective(bound.true_scores, of_group, bound.k, threads=bound.threads)
            total += kind * plain.counts(weights)
        return total

    def _checked(self, n_classes: int, n_rows: int) -> FloatArray:
        costs = check_numbers(self.values, "label costs")
        if costs.shape != (n_classes,):
            raise InvalidInput(
                f"label costs must be {n_classes} numbers, one per label; got an array of shape "
                f"{costs.shape}."
            )
        wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0)))
        if len(wrong):
            raise InvalidInput(
                f"label costs must be finite and not negative; label {wrong[0]} costs "
                f"{costs[wrong[0]]:g}."
            )
        _refuse_overflow("the sum of the label costs", sum(costs.tolist()), n_rows)
        return costs


@dataclass(frozen=True)
class ClassGap:
    """Mean size plus a penalty for uneven coverage of the classes.

    ``size + strength * gap``; the gap is the mean over classes of ``|coverage - (1 - alpha)|`` on
    the tuning rows, classes without rows left out (`metrics.class_coverage_gap`).

    Parameters
    ----------
    strength : float
        How many labels per set a gap of one would be worth.

    Examples
    --------
    >>> ClassGap(20.0).name
    'size + 20 class gap'
    """

    strength: float = 10.0

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"size + {self.strength:g} class gap"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return sizes and penalty of all size rows, in millionths."""
        return _penalised(bound, weights, self.strength, class_gaps(bound, weights))


def class_gaps(bound: GoalObjective, weights: FloatArray) -> FloatArray:
    """Return the class coverage gap on the tuning rows of every weight vector, shape (m,)."""
    rows = np.bincount(bound.y)
    present = rows > 0
    gaps = []
    for hits in bound.covered(weights):
        reached = np.bincount(bound.y, weights=hits, minlength=len(rows))[present]
        gaps.append(np.abs(reached / rows[present] - bound.target).mean())
    return np.array(gaps)


@dataclass(frozen=True)
class SizeStratified:
    """Mean size plus a penalty for uneven coverage over set sizes.

    ``size + strength * violation``; the violation is the largest ``|coverage - (1 - alpha)|`` over
    strata of set size on the tuning rows (`metrics.size_stratified_violation`).

    Parameters
    ----------
    strength : float
        How many labels per set a violation of one would be worth.
    edges : tuple of int
        Upper ends of the strata.

    Examples
    --------
    >>> SizeStratified(5.0).name
    'size + 5 size-stratified violation'
    """

    strength: float = 10.0
    edges: tuple[int, ...] = (1, 3, 10, 100)
    reads_tune_scores: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"size + {self.strength:g} size-stratified violation"

    def costs(self, bound: GoalObjective, weights: FloatArray) -> IntArray:
        """Return sizes and penalty of all size rows, in millionths."""
        strata = np.searchsorted(np.asarray(self.edges), bound.tune_sizes(weights), side="left")
        n_strata = len(self.edges) + 1
        worst = []
        for stratum, hits in zip(strata, bound.covered(weights), strict=True):
            rows = np.bincount(stratum, minlength=n_strata)
            reached = np.bincount(stratum, weights=hits, minlength=n_strata)
            seen = rows > 0
            worst.append(np.abs(reached[seen] / rows[seen] - bound.target).max())
        return _penalised(bound, weights, self.strength, np.array(worst))


def _penalised(
    bound: GoalObjective, weights: FloatArray, strength: float, gaps: FloatArray
) -> IntArray:
    if not isinstance(strength, numbers.Real) or not 0 <= strength <= UNIT:
        raise InvalidInput(f"strength must be a number between 0 and {UNIT:,}; got {strength!r}.")
    _refuse_overflow("strength plus labels", float(strength) + _most_labels(bound), bound.n_size)
    penalty = np.rint(strength * gaps * bound.n_size * UNIT).astype(np.int64)
    return bound.labels(weights) * UNIT + penalty


def _refuse_overflow(what: str, of_row: float, n_rows: int) -> None:
    """Refuse a largest cost of one row that, over all rows, is no 64-bit number of millionths."""
    most = 2**63 / (UNIT * n_rows)
    if not of_row < most:
        raise InvalidInput(
            f"{what} must stay below {most:.3g} with {n_rows:,} size rows; got {of_row:.3g}."
        )


def _most_labels(bound: GoalObjective) -> int:
    return max(part.shape[1] for part in bound.size_parts)


# The goals of this library, by their names in model files.
GOALS: dict[str, type[Any]] = {
    "size": MeanSize,
    "singletons": Singletons,
    "capped": CappedSize,
    "label_costs": LabelCosts,
    "class_gap": ClassGap,
    "size_stratified": SizeStratified,
}
# Those that users may name: all of their options have defaults.
OBJECTIVES: Registry[Goal] = Registry(
    "objective",
    {name: GOALS[name]() for name in ("size", "singletons", "class_gap", "size_stratified")},
)


def resolve_objective(objective: Any) -> Goal:
    """Return the goal for a name, or the goal itself.

    Examples
    --------
    >>> resolve_objective("singletons")
    Singletons()
    """
    return OBJECTIVES.resolve(objective, needs="costs")


def is_mean_size(goal: Goal) -> bool:
    """Whether a goal is the mean set size, for which bounds and fast searches hold."""
    return isinstance(goal, MeanSize)


def bind(
    sizes: SizeObjective,
    goal: Goal,
    tune_scores: Callable[[], FloatArray],
    y: IntArray,
    alpha: float,
) -> SizeObjective:
    """Return the objective to search: `sizes` itself for the mean size, else the bound goal.

    `tune_scores` gives the scores (n, K, d) of all labels of the tuning rows, if they are needed.
    """
    if is_mean_size(goal):
        return sizes
    if not sizes.plain:
        raise InvalidInput(
            f'objective "{goal.name}" is searched with one threshold and empty sets allowed; say '
            'objective="size" here.'
        )
    return GoalObjective(sizes.on_host(), goal, to_host(tune_scores()), y, alpha)
