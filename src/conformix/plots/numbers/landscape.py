"""Set size over the weights: the landscape, its single scores, and who is nearly as good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.kernels.simplex import grid_size, simplex_grid
from conformix.plots.numbers.fit_rows import fit_rows
from conformix.search.grid import AUTO_RESOLUTIONS

# A picture of more than three scores needs no more grid weights than this.
ENOUGH_WEIGHTS = 2_000
# Beside a coarse grid: weights on the way from the found ones to each score, and around them.
STEPS, AROUND = 10, 500


@dataclass(frozen=True, eq=False)
class WeightLandscape:
    """Mean set size of many weights, on the rows of the search.

    Parameters
    ----------
    names : tuple of str
        Names of the d scores.
    weights : float64 array of shape (m, d)
        The simplex grid; for more than three scores a coarse grid with weights around the winner.
    sizes : float64 array of shape (m,)
        Their mean set sizes.
    found : float64 array of shape (d,)
        The weights of the fit.
    found_size : float
        Their mean set size on the same rows; ``search_.size`` of the fit.
    single_sizes : float64 array of shape (d,)
        Mean set size of every score alone.
    standard_error : float
        Of the mean size under the best weights, the noise of the threshold included.
    level : float
        Weights with a size up to this are nearly as good as the best.
    within : str
        What the level is, in words.
    """

    names: tuple[str, ...]
    weights: FloatArray
    sizes: FloatArray
    found: FloatArray
    found_size: float
    single_sizes: FloatArray
    standard_error: float
    level: float
    within: str

    @property
    def near_optimal(self) -> BoolArray:
        """Which weights are nearly as good as the best, shape (m,)."""
        return self.sizes <= self.level


def weights_numbers(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    test: Any = None,
    groups: Any = None,
    resolution: int | None = None,
    within: float | Literal["se"] = "se",
    as_given: bool = False,
) -> WeightLandscape:
    """Return the set size over the weights of a fitted model, with what is near the optimum.

    Parameters
    ----------
    cp : ScoreAverage
        A fitted model. Under split ``"exact"`` the rows are in the model, and the found weights
        are the winner on them alone, for reading only.
    outputs, y, test, groups
        What ``fit`` was given; the tuning rows are found again and checked against ``search_``.
    resolution : int, optional
        Resolution of the grid; by default 100 up to three scores, coarse beyond.
    within : float or "se"
        Weights are near-optimal up to a share (0.01: one per cent) or one standard error above
        the smallest size.
    as_given : bool
        Take all rows given instead of the tuning rows of the fit.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:1000], data.labels[:1000]
    >>> cp = cx.ScoreAverage(alpha=0.05, kind="logits", random_state=0).fit(logits, y)
    >>> numbers = weights_numbers(cp, logits, y)
    >>> numbers.weights.shape, numbers.found_size == cp.search_.size == min(numbers.sizes)
    ((5151, 3), np.True_)
    """
    rows = fit_rows(cp, outputs, y, test=test, groups=groups, as_given=as_given)
    objective = rows.objective()
    found = np.asarray(cp.weights_)
    weights = _weights(found, resolution)
    sizes = objective(weights)
    found_size = float(objective(found[None])[0])
    best = found if found_size <= sizes.min() else weights[np.argmin(sizes)]
    error = rows.standard_error(best)
    lowest = float(min(found_size, sizes.min()))
    level, told = _level(lowest, error, within)
    return WeightLandscape(
        rows.names, weights, sizes, found, found_size, objective(np.eye(len(found))),
        error, level, told,
    )  # fmt: skip


def _level(lowest: float, error: float, within: float | str) -> tuple[float, str]:
    if isinstance(within, str):
        if within != "se":
            raise InvalidInput(f'within must be "se" or a share such as 0.01; got {within!r}.')
        return lowest + error, "within one standard error"
    if not within >= 0:
        raise InvalidInput(f'within must be "se" or a share such as 0.01; got {within!r}.')
    return lowest * (1 + within), f"within {100 * within:g} %"


def _weights(found: FloatArray, resolution: int | None) -> FloatArray:
    """Return the weights to look at: the whole grid, or a coarse one and what lies near `found`."""
    d = len(found)
    if d <= 3 or resolution is not None:
        resolution = 100 if resolution is None else resolution
        return simplex_grid(d, resolution) / resolution
    coarse = next((m for m in AUTO_RESOLUTIONS if grid_size(d, m) <= ENOUGH_WEIGHTS), 1)
    steps = np.linspace(0, 1, STEPS, endpoint=False)[:, None, None]
    towards = ((1 - steps) * found + steps * np.eye(d)).reshape(-1, d)
    rng = np.random.default_rng(0)  # the same picture every time
    share = rng.uniform(0, 0.3, size=(AROUND, 1))
    around = (1 - share) * found + share * rng.dirichlet(np.ones(d), size=AROUND)
    return np.vstack([found, simplex_grid(d, coarse) / coarse, towards[d:], around])
