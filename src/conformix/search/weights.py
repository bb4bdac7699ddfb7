"""The two doors of the search for bare arrays: `search_weights` and `landscape`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from conformix.data.outputs import check_labels, check_scores
from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import (
    FloatArray,
    RandomState,
    as_generator,
    as_tensor,
    is_tensor,
    of_labels,
)
from conformix.kernels.simplex import simplex_grid
from conformix.registry import takes, unknown_name
from conformix.search.goals import bind, resolve_objective
from conformix.search.gradient import GradientSearch
from conformix.search.grid import Candidates, GridSearch
from conformix.search.line import LineSearch
from conformix.search.objective import SearchResult, SizeObjective, tuning_rank
from conformix.search.stability import OneStandardError

# Up to so many scores a grid is fine enough: 100 steps for three, 50 for four.
MOST_GRID_SCORES = 4
# Weights to count on lines, and on how many (row, label) pairs so many are affordable.
BUDGET, BUDGET_PAIRS = 40_000, 2**19
LEAST_BUDGET = 4_000


@dataclass(frozen=True)
class AutoSearch:
    """The exact grid for up to four scores, exact line searches for more.

    What it took, and why, stands in `SearchResult.reason`. Where candidates must be counted or
    fixed beforehand (split ``exact``, a PAC statement on the tuning rows) it is the grid, coarser
    with more scores.

    Examples
    --------
    >>> AutoSearch().picked(d=3, n=1000, n_classes=100)
    (GridSearch(resolution=None), '3 scores: a grid is fine enough and exact')
    >>> AutoSearch().picked(d=20, n=1000, n_classes=100)[0]
    LineSearch(budget=40000, starts=6)
    """

    counted: ClassVar[GridSearch] = GridSearch(None)
    on_simplex: ClassVar[bool] = True

    def picked(self, d: int, n: int, n_classes: int) -> tuple[GridSearch | LineSearch, str]:
        """Return the strategy for d scores of n size rows and K classes, and the reason."""
        if d <= MOST_GRID_SCORES:
            return self.counted, f"{d} scores: a grid is fine enough and exact"
        share = min(1.0, BUDGET_PAIRS / max(1, n * n_classes))
        budget = max(LEAST_BUDGET, int(BUDGET * share))
        reason = f"{d} scores, {n:,} rows, {n_classes:,} classes: no grid is fine enough"
        return LineSearch(budget), reason

    def only_counts(self, d: int) -> bool:
        """Return whether it is the grid."""
        return d <= MOST_GRID_SCORES

    def n_candidates(self, d: int) -> int:
        """Return the number of weights of the grid, or 0 where the weights are continuous."""
        return self.counted.n_candidates(d) if d <= MOST_GRID_SCORES else 0

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return what the picked strategy finds, and the reason why it was picked."""
        n_classes = objective.n_pairs // max(1, objective.n_size)
        search, reason = self.picked(objective.d, objective.n_size, n_classes)
        return replace(search(objective, rng), reason=reason)


Search: TypeAlias = Callable[[SizeObjective, np.random.Generator], SearchResult]
# The strategies of this library, by their names in model files.
STRATEGIES: dict[str, type[Any]] = {
    "auto": AutoSearch,
    "candidates": Candidates,
    "gradient": GradientSearch,
    "grid": GridSearch,
    "line": LineSearch,
    "one_standard_error": OneStandardError,
}
# Those that users may name.
SEARCHES = ("auto", "grid", "gradient", "line")


def resolve_search(search: Any, resolution: int = 100) -> Search:
    """Return a search strategy for a name, a strategy, or an array of candidate weights.

    Examples
    --------
    >>> resolve_search("grid", resolution=20)
    GridSearch(resolution=20)
    """
    if isinstance(search, str):
        if search not in SEARCHES:
            raise unknown_name("search", search, list(SEARCHES))
        options = {"resolution": resolution} if search == "grid" else {}
        return STRATEGIES[search](**options)  # type: ignore[no-any-return]
    if callable(search) and not isinstance(search, type):
        if not takes(search, 2):
            raise InvalidInput(
                "a search must take (objective, rng) and return a SearchResult; got "
                f"{shown(search)}, which takes other arguments."
            )
        return search  # type: ignore[no-any-return]
    if isinstance(search, type) or not hasattr(search, "__len__"):
        raise InvalidInput(
            "search must be a name, a search strategy or an array of weights of shape (m, d); "
            f"got {shown(search)}."
        )
    return Candidates(search)


def search_weights(
    scores: Any,
    y: Any,
    *,
    alpha: float,
    search: Any = "grid",
    resolution: int = 100,
    objective: Any = "size",
    size_scores: Any = None,
    random_state: RandomState = None,
    threads: int | None = None,
) -> SearchResult:
    """Return the weights that make the sets smallest at level `alpha`.

    Parameters
    ----------
    scores : array or tensor of shape (n, K, d)
        Scores of all labels of the labelled rows; higher fits better. Those of a CUDA tensor are
        counted on its device.
    y : integer array of shape (n,)
        True labels.
    alpha : float
        Allowed miscoverage.
    search : str, strategy or array of shape (m, d)
        ``"auto"``, ``"grid"``, ``"line"``, ``"gradient"``, a strategy object, or the candidate
        weights themselves.
    resolution : int
        Resolution of the grid.
    objective : str or goal
        What is minimised: ``"size"``, another name of `conformix.search.OBJECTIVES`, or a goal
        such as ``CappedSize(5)``.
    size_scores : array of shape (m, K, d), optional
        Scores of the rows on which sizes are counted; by default the labelled rows.
    random_state : int, Generator or None
        For strategies that draw.
    threads : int or None
        Threads to use; None takes the available cores.

    Returns
    -------
    SearchResult
        Ties are broken by ``sum w_j^2``, then lexicographically.

    Examples
    --------
    >>> import conformix as cx
    >>> scores = cx.score_tensor([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], ("thr", "rank"))
    >>> search_weights(scores, [0, 1, 0], alpha=0.3, resolution=4).weights
    array([0.5, 0.5])
    """
    bound = _objective(scores, y, alpha, size_scores, threads, objective=objective)
    return bound.described(resolve_search(search, resolution)(bound, as_generator(random_state)))


def landscape(
    scores: Any,
    y: Any,
    *,
    alpha: float,
    resolution: int = 100,
    objective: Any = "size",
    size_scores: Any = None,
    threads: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean set size, or another objective, of every weight of the simplex grid.

    Parameters
    ----------
    scores, y, alpha, resolution, objective, size_scores, threads
        As in `search_weights`.

    Returns
    -------
    weights : array of shape (M, d)
        All grid weights, lexicographically.
    sizes : array of shape (M,)
        Their mean set sizes; both are tensors on the same device where `scores` is a tensor.

    Examples
    --------
    >>> import conformix as cx
    >>> scores = cx.score_tensor([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]], ("thr", "rank"))
    >>> weights, sizes = landscape(scores, [0, 1, 0], alpha=0.3, resolution=2)
    >>> sizes
    array([1., 1., 1.])
    """
    bound = _objective(scores, y, alpha, size_scores, threads, objective=objective)
    weights = simplex_grid(bound.d, resolution) / resolution
    sizes = bound(weights)
    if is_tensor(scores):
        return tuple(as_tensor(part).to(scores.device) for part in (weights, sizes))  # type: ignore[return-value]
    return weights, sizes


def _objective(
    scores: Any, y: Any, alpha: float, size_scores: Any, threads: int | None, *, objective: Any
) -> SizeObjective:
    labelled = check_scores(scores)
    n, n_classes, d = labelled.shape
    labels = check_labels(y, n, n_classes)
    size = labelled if size_scores is None else check_scores(size_scores, name="size_scores")
    if tuple(size.shape[1:]) != (n_classes, d):
        raise InvalidInput(
            f"size_scores must have shape (m, {n_classes}, {d}) like scores; got "
            f"{tuple(size.shape)}."
        )
    true_scores = of_labels(labelled, labels)
    plain = SizeObjective(true_scores, [size], tuning_rank(n, alpha), threads=threads)
    return bind(plain, resolve_objective(objective), lambda: labelled, labels, alpha)


def only_candidate(search: Any, d: int) -> FloatArray | None:
    """Return the one weight vector (d,) that a search can find, or None where it has a choice.

    One score has weight 1 whatever the search, and given candidates may be one. A strategy of
    somebody else's may choose as it likes.

    Examples
    --------
    >>> only_candidate(GridSearch(100), 1), only_candidate(GridSearch(100), 2) is None
    (array([1.]), True)
    >>> only_candidate(Candidates([[0.2, 0.8]]), 2)
    array([0.2, 0.8])
    """
    if hasattr(search, "only"):
        return search.only(d)  # type: ignore[no-any-return]
    return np.ones(1) if d == 1 and getattr(search, "on_simplex", False) else None


def counted(search: Search) -> Search:
    """Return a search whose candidates are counted beforehand: the grid, where it has the choice.

    Examples
    --------
    >>> counted(AutoSearch())
    GridSearch(resolution=None)
    """
    return getattr(search, "counted", search)  # type: ignore[no-any-return]


def n_candidates(search: Search, d: int) -> int:
    """Return how many weights a search chooses among, fixed beforehand; 0 where it cannot say.

    Examples
    --------
    >>> n_candidates(GridSearch(100), 3), n_candidates(LineSearch(), 3)
    (5151, 0)
    """
    return int(search.n_candidates(d)) if hasattr(search, "n_candidates") else 0


def candidate_weights(search: Search, d: int) -> FloatArray | None:
    """Return the candidates that a search lists, in the order that breaks ties, shape (M, d).

    None where it lists none.

    Examples
    --------
    >>> candidate_weights(GridSearch(2), 2)
    array([[0.5, 0.5],
           [0. , 1. ],
           [1. , 0. ]])
    """
    search = counted(search)
    return search.candidate_weights(d) if hasattr(search, "candidate_weights") else None
