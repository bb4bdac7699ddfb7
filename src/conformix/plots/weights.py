"""Mean set size over the weights, as parallel axes or a triangle: numbers, then ink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import BoolArray, FloatArray
from conformix.kernels.simplex import grid_size, simplex_grid
from conformix.plots.fit_rows import fit_rows
from conformix.plots.style import (
    INK,
    NORMAL,
    PALETTE,
    SMALL,
    axes_for,
    explain_above,
    plain,
    tidy,
)
from conformix.plots.triangle import plot_triangle
from conformix.search.grid import AUTO_RESOLUTIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# A picture of more than three scores needs no more grid weights than this.
ENOUGH_WEIGHTS = 2_000
# Beside a coarse grid: weights on the way from the found ones to each score, and around them.
STEPS, AROUND = 10, 500


@dataclass(frozen=True, eq=False)
class WeightLandscape:
    """Mean set size of many weights, on the rows of the search."""

    names: tuple[str, ...]
    # (m, d), the simplex grid; for more than three scores a coarse grid with weights around the
    # winner
    weights: FloatArray
    sizes: FloatArray  # (m,), their mean set sizes
    found: FloatArray  # (d,), the weights of the fit
    found_size: float  # their mean set size on the same rows; ``search_.size`` of the fit
    single_sizes: FloatArray  # (d,), mean set size of every score alone
    # of the mean size under the best weights, the noise of the threshold included
    standard_error: float
    level: float  # weights with a size up to this are nearly as good as the best
    within: str  # what the level is, in words

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
    >>> cp = cx.ScoreAverage("paper", alpha=0.05, kind="logits", random_state=0).fit(logits, y)
    >>> numbers = weights_numbers(cp, logits, y)
    >>> numbers.weights.shape, numbers.found_size == cp.search_.size == min(numbers.sizes)
    ((5151, 3), np.True_)
    """
    rows = fit_rows(cp, outputs, y, test=test, groups=groups, as_given=as_given)
    objective = rows.objective()
    fit_weights = np.asarray(cp.weights_)
    weights = _weights(fit_weights, resolution)
    sizes = objective(weights)
    fit_size = float(objective(fit_weights[None])[0])
    best = fit_weights if fit_size <= sizes.min() else weights[np.argmin(sizes)]
    error = rows.standard_error(best)
    lowest = float(min(fit_size, sizes.min()))
    level, within_words = _level(lowest, error, within)
    return WeightLandscape(
        rows.names, weights, sizes, fit_weights, fit_size, objective(np.eye(len(fit_weights))),
        error, level, within_words,
    )  # fmt: skip


def _level(lowest: float, error: float, within: float | str) -> tuple[float, str]:
    if isinstance(within, str):
        if within != "se":
            raise InvalidInput(f'within must be "se" or a share such as 0.01; got {within!r}.')
        return lowest + error, "within one standard error"
    if not within >= 0:
        raise InvalidInput(f'within must be "se" or a share such as 0.01; got {within!r}.')
    return lowest * (1 + within), f"within {100 * within:g} %"


def _weights(fit_weights: FloatArray, resolution: int | None) -> FloatArray:
    """Return the weights to look at: the whole grid, or a coarse one and those near the fit's."""
    d = len(fit_weights)
    if d <= 3 or resolution is not None:
        resolution = 100 if resolution is None else resolution
        return simplex_grid(d, resolution) / resolution
    coarse = next((m for m in AUTO_RESOLUTIONS if grid_size(d, m) <= ENOUGH_WEIGHTS), 1)
    steps = np.linspace(0, 1, STEPS, endpoint=False)[:, None, None]
    towards = ((1 - steps) * fit_weights + steps * np.eye(d)).reshape(-1, d)
    rng = np.random.default_rng(0)  # the same picture every time
    share = rng.uniform(0, 0.3, size=(AROUND, 1))
    around = (1 - share) * fit_weights + share * rng.dirichlet(np.ones(d), size=AROUND)
    return np.vstack([fit_weights, simplex_grid(d, coarse) / coarse, towards[d:], around])


# More lines than this hide each other.
LINES = 150
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 13,
    "color": PALETTE[0],
    "markeredgecolor": INK,
}


def weights(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Draw the set size over the weights of a fitted model and return the axes.

    A line for two scores, a triangle for three; for more, every near-optimal weight vector is a
    line over the scores.

    Parameters
    ----------
    cp, outputs, y, **options
        As in `weights_numbers`: a fitted model, what ``fit`` was given, ``within=``,
        ``resolution=`` and so on.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:1000], data.labels[:1000]
    >>> cp = cx.ScoreAverage(("thr", "rank"), alpha=0.05, kind="logits", random_state=0)
    >>> weights(cp.fit(logits, y), logits, y).get_ylabel()
    'mean set size'
    """
    return plot_weights(weights_numbers(cp, outputs, y, **options), title=title, ax=ax)


def plot_weights(numbers: WeightLandscape, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw the set size over the weights from its numbers and return the axes.

    Parameters
    ----------
    numbers : WeightLandscape
        What `weights_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> one = np.ones(1)
    >>> numbers = WeightLandscape(("thr",), one[None], one, one, 1.0, one, 0.0, 1.0, "within 1 %")
    >>> plot_weights(numbers).get_xlabel()
    'weight of thr'
    """
    if len(numbers.names) == 3:
        return plot_triangle(
            numbers.weights, numbers.sizes, names=numbers.names, best=numbers.found,
            best_size=numbers.found_size, level=numbers.level, within=numbers.within,
            title=title, ax=ax,
        )  # fmt: skip
    return (_line if len(numbers.names) < 3 else _parallel)(numbers, title, ax)


def _size_text(numbers: WeightLandscape) -> str:
    return f"found: {numbers.found_size:.2f}"


def _level_text(numbers: WeightLandscape) -> str:
    return f"{numbers.within} (up to {numbers.level:.2f})"


def _line(numbers: WeightLandscape, title: str, ax: Axes | None) -> Axes:
    ax = axes_for(ax)
    first = plain(numbers.names[0])
    tidy(ax, title=title, xlabel=f"weight of {first}", ylabel="mean set size")
    share = numbers.weights[:, 0]
    order = np.argsort(share)
    ax.plot(share[order], numbers.sizes[order], color=PALETTE[1], linewidth=1.4, marker="")
    if len(numbers.names) == 2:
        ends = [0.0, 1.0]
        ax.plot(ends, numbers.single_sizes[::-1], "s", color=PALETTE[1], markersize=4)
        top = numbers.sizes.max() - numbers.sizes.min()
        ax.set_xlabel(f"weight of {first} (the rest: {plain(numbers.names[1])})")
        for end, size, side in zip(
            ends, numbers.single_sizes[::-1], ("left", "right"), strict=True
        ):
            name = plain(numbers.names[0 if end else 1], 20)
            ax.text(
                end + (0.02 if end == 0 else -0.02), size + 0.03 * top, f"{name}: {size:.2f}",
                ha=side, va="bottom", fontsize=SMALL, color=INK,
            )  # fmt: skip
    near = ax.fill_between(
        share[order], 0, 1, where=numbers.near_optimal[order], step="mid", color="#dcebd5",
        transform=ax.get_xaxis_transform(), zorder=0.6, linewidth=0,
    )  # fmt: skip
    (star,) = ax.plot(numbers.found[0], numbers.found_size, linestyle="", zorder=5, **STAR)
    ax.margins(y=0.12)
    ax.set_xlim(-0.05, 1.05)
    # One score leaves no choice, so nothing is near the optimum but itself.
    shown = 1 if len(numbers.names) == 1 else 2
    explain_above(ax, [star, near][:shown], [_size_text(numbers), _level_text(numbers)][:shown])
    return ax


def _parallel(numbers: WeightLandscape, title: str, ax: Axes | None) -> Axes:
    from matplotlib.collections import LineCollection  # noqa: PLC0415  an extra, loaded late
    from matplotlib.colors import Normalize  # noqa: PLC0415

    d, upright = len(numbers.names), _fit_side_by_side(numbers.names)
    ax = axes_for(ax, max(5.0, 1.8 + 0.62 * d), 3.2) if upright else axes_for(ax, 6, 1.3 + 0.2 * d)
    tidy(ax, title=title)
    places = np.arange(d)
    good = np.flatnonzero(numbers.near_optimal)
    good = good[np.argsort(numbers.sizes[good], kind="stable")]
    shown = good[np.linspace(0, len(good) - 1, min(len(good), LINES)).astype(int)][::-1]
    turn = slice(None) if upright else slice(None, None, -1)
    lines = LineCollection(
        [np.column_stack([places, row])[:, turn] for row in numbers.weights[shown]],
        cmap="viridis_r", norm=Normalize(float(numbers.sizes[good].min()), numbers.level),
        linewidths=0.9, alpha=0.75, zorder=2,
    )  # fmt: skip
    lines.set_array(numbers.sizes[shown])
    ax.add_collection(lines)
    both = (places, numbers.found)[turn]
    ax.plot(*both, color=INK, linewidth=3.6, zorder=3)  # an outline, for black and white
    (star,) = ax.plot(
        *both, color=PALETTE[0], linewidth=2.0, marker="o", markersize=6,
        markeredgecolor=INK, zorder=4,
    )  # fmt: skip
    _name_scores(ax, numbers, float(numbers.weights[good].max()), upright=upright)
    bar = ax.figure.colorbar(lines, ax=ax, pad=0.02, aspect=25)
    bar.set_label("mean set size", fontsize=SMALL, color=INK)
    bar.ax.tick_params(labelsize=SMALL, width=0.7, length=3)
    bar.outline.set_linewidth(0.6)
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    sample = ax.plot([], [], color=lines.get_cmap()(0.4))
    texts = [_size_text(numbers), _level_text(numbers)]
    explain_above(ax, [star, *sample], texts, columns=2 if upright else 1)
    return ax


def _fit_side_by_side(names: Sequence[str]) -> bool:
    """Say whether names can stand side by side below the axes; else they go down the left side."""
    return len(names) <= 12 and max(len(plain(name)) for name in names) <= 10


def _name_scores(ax: Any, numbers: WeightLandscape, largest: float, *, upright: bool) -> None:
    """Put every score, with its mean size alone, on one axis and weights on the other."""
    d, between = len(numbers.names), "\n" if upright else "   "
    both = zip(numbers.names, numbers.single_sizes, strict=True)
    texts = [f"{plain(name)}{between}{size:.2f}" for name, size in both]
    top = max(0.05, largest, float(numbers.found.max())) * 1.06
    what = "score, and its mean set size alone"
    if upright:
        ax.set_xticks(range(d), texts)
        ax.set(xlim=(-0.3, d - 0.7), ylim=(-0.02 * top, top))
        ax.set_xlabel(what, fontsize=SMALL, color=INK)
        ax.set_ylabel("weight", fontsize=NORMAL, color=INK)
    else:
        ax.set_yticks(range(d), texts)
        ax.set(ylim=(d - 0.5, -0.5), xlim=(-0.02 * top, top))
        ax.set_ylabel(what, fontsize=SMALL, color=INK)
        ax.set_xlabel("weight", fontsize=NORMAL, color=INK)
