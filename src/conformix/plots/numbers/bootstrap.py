"""How stable the weights are: the search repeated on resampled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, RandomState, as_generator
from conformix.plots.numbers.fit_rows import fit_rows
from conformix.search import resolve_search


@dataclass(frozen=True, eq=False)
class WeightSpread:
    """Weights that the search finds on bootstrap samples of its rows.

    Parameters
    ----------
    names : tuple of str
        Names of the d scores.
    found : float64 array of shape (d,)
        The weights of the fit.
    draws : float64 array of shape (B, d)
        The weights of every bootstrap sample.
    sizes : float64 array of shape (B,)
        Their (optimistic) mean set sizes.
    low, high : float64 arrays of shape (d,)
        Ends of the central 90 % of the draws: order statistics, by score.
    """

    names: tuple[str, ...]
    found: FloatArray
    draws: FloatArray
    sizes: FloatArray
    low: FloatArray
    high: FloatArray


def weight_spread_numbers(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    test: Any = None,
    groups: Any = None,
    repetitions: int = 50,
    search: Any = None,
    random_state: RandomState = 0,
    as_given: bool = False,
) -> WeightSpread:
    """Return the weights found on bootstrap samples of the tuning rows.

    The cost is that of `repetitions` searches.

    Parameters
    ----------
    cp : ScoreAverage
        A fitted model whose weights were searched.
    outputs, y, test, groups
        What ``fit`` was given.
    repetitions : int
        Number of bootstrap samples.
    search : optional
        Another search than that of the fit, such as a coarser grid.
    random_state : int, Generator or None
        Draws the samples.
    as_given : bool
        Take all rows given instead of the tuning rows of the fit.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:400], data.labels[:400]
    >>> cp = cx.ScoreAverage(alpha=0.05, kind="logits", random_state=0).fit(logits, y)
    >>> spread = weight_spread_numbers(cp, logits, y, repetitions=5)
    >>> spread.draws.shape, bool((abs(spread.draws.sum(axis=1) - 1) < 1e-9).all())
    ((5, 3), True)
    """
    if repetitions < 1:
        raise InvalidInput(f"repetitions must be a positive integer; got {repetitions!r}.")
    if cp.search_ is None:
        raise InvalidInput("weights that no search found have no spread; fit without weights=.")
    rows = fit_rows(cp, outputs, y, test=test, groups=groups, as_given=as_given)
    strategy = resolve_search(cp.search if search is None else search)
    rng = as_generator(random_state)
    results = [strategy(rows.resampled(rng).objective(), rng) for _ in range(repetitions)]
    draws = np.array([found.weights for found in results])
    ordered = np.sort(draws, axis=0)
    cut = repetitions // 20  # five per cent on either side
    return WeightSpread(
        rows.names, np.asarray(cp.weights_), draws, np.array([found.size for found in results]),
        ordered[cut], ordered[-1 - cut],
    )  # fmt: skip
