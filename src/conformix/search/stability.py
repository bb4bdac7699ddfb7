"""How stable weights are, and weights that are stable and readable.

Many weights are nearly as good as the best. `OneStandardError` takes the simplest that are not
told apart from the best; `near_optimal_region` says how far the good ones reach;
`bootstrap_weights` how much they move when the rows are drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from conformix.conformal import kth_largest
from conformix.data.outputs import check_labels, check_scores
from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray, RandomState, as_generator, to_host
from conformix.kernels.simplex import simplex_grid
from conformix.search.line import Walk, around, on_simplex
from conformix.search.objective import SearchResult, SizeObjective


class Draws:
    """Bootstrap samples of the rows of an objective: how often every row was drawn.

    Parameters
    ----------
    objective : SizeObjective
        Whose rows; plain set sizes only.
    n_draws : int
        Number of samples.
    rng : Generator
        Where they come from.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((50, 4, 2))
    >>> objective = SizeObjective(scores[:, 0], [scores], k=45)
    >>> draws = Draws(objective, 100, np.random.default_rng(0))
    >>> best = np.array([0.5, 0.5])
    >>> draws.standard_error(best, draws.sizes(best))
    0.0
    """

    def __init__(self, objective: SizeObjective, n_draws: int, rng: np.random.Generator) -> None:
        if not objective.plain:
            raise InvalidInput(
                "standard errors of sizes are there for the mean set size with empty sets allowed; "
                f"got {type(objective).__name__}."
            )
        self.objective = objective
        self.tune = _multiplicities(len(objective.true_scores), n_draws, rng)
        self.size = [
            self.tune if same_rows(objective.true_scores, part)
            else _multiplicities(len(part), n_draws, rng)
            for part in objective.size_parts
        ]  # fmt: skip

    def sizes(self, weights: FloatArray) -> FloatArray:
        """Return the mean size of one weight vector in every sample, shape (n_draws,)."""
        objective = self.objective
        order, values = _rising(combine(objective.true_scores, weights))
        thresholds = np.array([_kth(values, drawn[order], objective.k) for drawn in self.tune])
        low, high = thresholds.min(), thresholds.max()
        totals = np.zeros(len(thresholds), dtype=np.int64)
        for part, drawn in zip(objective.size_parts, self.size, strict=True):
            combined = combine(part, weights)
            totals += drawn @ (combined >= high).sum(axis=1)
            rows, labels = np.nonzero((combined >= low) & (combined < high))
            if len(rows):
                order, near = _rising(combined[rows, labels])
                places = np.searchsorted(near, thresholds)
                for b, place in enumerate(places):
                    totals[b] += drawn[b, rows[order[place:]]].sum()
        return totals / objective.n_size

    def standard_error(self, weights: FloatArray, reference: FloatArray) -> float:
        """Return the standard error of a size less a reference's sizes in the same samples."""
        return float((self.sizes(weights) - reference).std(ddof=1))


def same_rows(true_scores: FloatArray, part: FloatArray) -> bool:
    """Return whether every true-label score vector stands in the same row of `part`.

    Examples
    --------
    >>> part = np.array([[[0.1], [0.9]], [[0.4], [0.6]]])
    >>> same_rows(part[[0, 1], [1, 0]], part), same_rows(part[[1, 0], [1, 0]], part)
    (True, False)
    """
    if len(true_scores) != len(part):
        return False
    matches = np.ones(part.shape[:2], dtype=bool)
    for j in range(part.shape[2]):
        matches &= part[..., j] == true_scores[:, j, None]
    return bool(matches.any(axis=1).all())


def _multiplicities(n: int, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Return how often each of n rows is drawn in every sample, int64 (n_draws, n)."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=n_draws)


def _rising(values: FloatArray) -> tuple[IntArray, FloatArray]:
    order = np.argsort(values, kind="stable")
    return order, values[order]


def _kth(rising: FloatArray, drawn: IntArray, k: int) -> float:
    """Return the k-th largest of values of which each is there `drawn` times."""
    if k > len(rising):
        return kth_largest(rising, k)
    from_top = np.cumsum(drawn[::-1])
    return float(rising[len(rising) - 1 - int(np.searchsorted(from_top, k))])


TOWARDS = ("few", "uniform")
# Where the way from the best weights to the uniform ones is tried.
WAY = np.concatenate([[0.0], np.geomspace(0.002, 1.0, 28)])


@dataclass(frozen=True)
class OneStandardError:
    """The simplest weights whose size is within one standard error of the smallest.

    The standard error is that of the difference to the best weights on the same rows, by a
    bootstrap that draws the rows of the threshold again too (`conformix.search.stability`). Under
    VFCP all of it happens on the tuning rows, so the guarantee stays exact.

    Parameters
    ----------
    search : str, strategy or array of weights
        Finds the best weights.
    towards : {"few", "uniform"}
        ``few`` leaves out scores one by one, each time the one that is missed least, and sweeps
        over the weights of the others; ``uniform`` goes straight towards equal weights.
    errors : float
        How many standard errors are given up for simplicity.
    n_draws : int
        Number of bootstrap samples.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> scores = cx.score_tensor(data.outputs["vgg16"][:500], ("thr", "aps", "rank"), kind="logits")
    >>> simple = OneStandardError("grid", towards="few")
    >>> found = cx.search.search_weights(scores, data.labels[:500], alpha=0.05, search=simple)
    >>> int((found.weights > 0).sum())
    1
    """

    search: Any = "auto"
    towards: str = "few"
    errors: float = 1.0
    n_draws: int = 100

    ends_among: ClassVar[bool] = False

    @property
    def first(self) -> Any:
        """The search that finds the best weights."""
        from conformix.search.weights import resolve_search  # noqa: PLC0415  it knows this class

        return resolve_search(self.search)

    @property
    def listed(self) -> FloatArray | None:
        """The weights that were given to begin from, unchecked; None where none were."""
        return getattr(self.first, "listed", None)

    def only(self, d: int) -> FloatArray | None:
        """Return the one weight vector (d,) to begin from, where there is one."""
        from conformix.search.weights import only_candidate  # noqa: PLC0415

        return only_candidate(self.first, d)

    def __call__(
        self, objective: SizeObjective, rng: np.random.Generator | None = None
    ) -> SearchResult:
        """Return the simplest weights near the best; all that is drawn comes from `rng`."""
        if self.towards not in TOWARDS:
            raise InvalidInput(f'towards must be "few" or "uniform"; got {self.towards!r}.')
        if not self.errors >= 0:
            raise InvalidInput(f"errors must be a number from 0 on; got {self.errors!r}.")
        rng = np.random.default_rng(0) if rng is None else rng
        best = self.first(objective, rng)
        if objective.k > len(objective.true_scores):
            return best
        draws = Draws(objective, self.n_draws, rng)
        path = few_path if self.towards == "few" else uniform_path
        tried, evaluated = path(objective, best.weights)
        counts = objective.counts(tried)
        reference = draws.sizes(best.weights)
        chosen, count = best.weights, best.count
        for weights, labels in zip(tried, counts, strict=True):  # from the simplest on
            error = draws.standard_error(weights, reference)
            if labels - best.count <= self.errors * error * objective.n_size:
                chosen, count = weights, int(labels)
                break
        return replace(
            best,
            weights=chosen,
            count=count,
            n_evaluated=best.n_evaluated + evaluated,
            strategy=f"{best.strategy}, then towards {self.towards} within {self.errors:g} s.e.",
        )


def few_path(objective: SizeObjective, best: FloatArray) -> tuple[FloatArray, int]:
    """Return weights with 1, 2, ... scores in use, down from `best`, and how many were counted.

    The score that goes is the one without which the rest, as it is, makes the fewest labels.
    """
    walk = Walk(objective, budget=2**62)
    path = [best]
    used = np.flatnonzero(best > 0)
    while len(used) > 1:
        without = np.array([_dropped(path[-1], int(j)) for j in used])
        counts = objective.counts(without)
        walk.span.evaluated += len(without)
        least = int(counts.argmin())
        used = np.delete(used, least)
        walk.start(without[least])
        if len(used) > 1:
            for j in used:
                walk.coordinate(int(j))
        path.append(walk.visited[-1])
        used = np.flatnonzero(path[-1] > 0)
    return np.array(path[::-1]), walk.span.evaluated


def _dropped(weights: FloatArray, j: int) -> FloatArray:
    rest = weights.copy()
    rest[j] = 0.0
    return on_simplex(rest)


def uniform_path(objective: SizeObjective, best: FloatArray) -> tuple[FloatArray, int]:
    """Return the weights on the way from equal ones to `best`, and how many they are."""
    d = len(best)
    return best + WAY[::-1, None] * (np.full(d, 1.0 / d) - best), len(WAY)


@dataclass(frozen=True)
class Region:
    """Weights whose size is nearly the smallest.

    Parameters
    ----------
    weights : array of shape (m, d)
        All of them, the best first.
    sizes : array of shape (m,)
        Their mean sizes.
    exact : bool
        Whether these are all such weights of a grid; if not, they are a sample.

    Examples
    --------
    >>> Region(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([1.0, 1.01]), exact=True).ranges
    array([[0.2, 0.5],
           [0.5, 0.8]])
    """

    weights: FloatArray
    sizes: FloatArray
    exact: bool

    @property
    def ranges(self) -> FloatArray:
        """Smallest and largest weight of every score, shape (d, 2)."""
        return np.column_stack([self.weights.min(axis=0), self.weights.max(axis=0)])


def near_optimal_region(
    objective: SizeObjective,
    *,
    within: float = 0.01,
    resolution: int | None = 100,
    best: Any = None,
    samples: int = 2_000,
    random_state: RandomState = 0,
) -> Region:
    """Return the weights whose size is within a share `within` of the smallest.

    Parameters
    ----------
    objective : SizeObjective
        The sizes.
    within : float
        How much larger than the smallest a size may be, as a share of it.
    resolution : int or None
        With a number, all weights of the grid; with None, a sample around `best`: its logarithms
        jittered more and less, and steps towards every corner and the uniform weights.
    best : array of shape (d,), optional
        The weights to sample around.
    samples : int
        Number of sampled weights.
    random_state : int, Generator or None
        Draws the sample.

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((50, 4, 2))
    >>> objective = SizeObjective(scores[:, 0], [scores], k=45)
    >>> region = near_optimal_region(objective, within=0.05, resolution=10)
    >>> bool((region.sizes <= 1.05 * region.sizes[0]).all()), region.exact
    (True, True)
    """
    if not within >= 0:
        raise InvalidInput(f"within must be a share from 0 on; got {within!r}.")
    if resolution is not None:
        tried: FloatArray = simplex_grid(objective.d, resolution) / resolution
    elif best is None:
        raise InvalidInput("a sampled region needs the weights to sample around: best=.")
    else:
        start = np.asarray(best, dtype=np.float64)
        tried = around(start, samples, as_generator(random_state))
    sizes: FloatArray = objective(tried)
    near = np.flatnonzero(sizes <= sizes.min() * (1.0 + within))
    near = near[np.argsort(sizes[near], kind="stable")]
    return Region(tried[near], sizes[near], exact=resolution is not None)


def bootstrap_weights(
    scores: Any,
    y: Any,
    *,
    alpha: float,
    search: Any = "auto",
    n_draws: int = 20,
    random_state: RandomState = 0,
    threads: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the weights found on rows drawn again, and their sizes there.

    Parameters
    ----------
    scores, y, alpha, search, threads
        As in `conformix.search.search_weights`.
    n_draws : int
        Number of bootstrap samples, each as large as the data; one search for each.
    random_state : int, Generator or None
        Draws the samples, and for searches that draw.

    Returns
    -------
    weights : array of shape (n_draws, d)
        The winners.
    sizes : array of shape (n_draws,)
        Their mean sizes, each on its own sample (optimistic).

    Examples
    --------
    >>> scores = np.random.default_rng(0).random((50, 4, 2))
    >>> weights, sizes = bootstrap_weights(scores, np.zeros(50, int), alpha=0.1, n_draws=5)
    >>> weights.shape, sizes.shape
    ((5, 2), (5,))
    """
    from conformix.search.weights import search_weights  # noqa: PLC0415  it knows this module

    rng = as_generator(random_state)
    tensor = check_scores(to_host(scores))
    labels = check_labels(y, *tensor.shape[:2])
    results = []
    for _ in range(n_draws):
        rows = rng.integers(len(labels), size=len(labels))
        results.append(
            search_weights(
                tensor[rows], labels[rows], alpha=alpha, search=search, random_state=rng,
                threads=threads,
            )
        )  # fmt: skip
    sizes = np.array([result.size for result in results])
    return np.array([result.weights for result in results]), sizes
