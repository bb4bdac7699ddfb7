"""Weights with the spread that resampled rows give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, RandomState, as_generator
from conformix.plots.fit_rows import fit_rows
from conformix.plots.style import INK, PALETTE, axes_for, explain_above, plain, tidy
from conformix.search import resolve_search

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class WeightSpread:
    """Weights that the search finds on bootstrap samples of its rows."""

    names: tuple[str, ...]
    found: FloatArray  # (d,), the weights of the fit
    draws: FloatArray  # (B, d), the weights of every bootstrap sample
    sizes: FloatArray  # (B,), their (optimistic) mean set sizes
    low: FloatArray  # (d,), lower ends of the central 90 % of the draws: order statistics
    high: FloatArray  # (d,), upper ends


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
    >>> cp = cx.ScoreAverage("paper", alpha=0.05, kind="logits", random_state=0).fit(logits, y)
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
    draws = np.array([result.weights for result in results])
    ordered = np.sort(draws, axis=0)
    cut = repetitions // 20  # five per cent on either side
    return WeightSpread(
        rows.names, np.asarray(cp.weights_), draws, np.array([result.size for result in results]),
        ordered[cut], ordered[-1 - cut],
    )  # fmt: skip


def weight_spread(
    cp: Any,
    outputs: Any = None,
    y: Any = None,
    *,
    title: str = "",
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Draw the weights of a fit with their bootstrap spread and return the axes.

    Parameters
    ----------
    cp, outputs, y, **options
        As in `weight_spread_numbers`: a fitted model, what ``fit`` was given, ``repetitions=``,
        ``random_state=`` and so on.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"][:400], data.labels[:400]
    >>> cp = cx.ScoreAverage("paper", alpha=0.05, kind="logits", random_state=0).fit(logits, y)
    >>> ax = weight_spread(cp, logits, y, repetitions=5)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['thr', 'aps', 'rank']
    """
    return plot_weight_spread(weight_spread_numbers(cp, outputs, y, **options), title=title, ax=ax)


def plot_weight_spread(numbers: WeightSpread, *, title: str = "", ax: Axes | None = None) -> Axes:
    """Draw weights and their spread from the numbers and return the axes.

    Parameters
    ----------
    numbers : WeightSpread
        What `weight_spread_numbers` returns.
    title : str
        Title of the axes.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Examples
    --------
    >>> one = np.array([0.4, 0.6])
    >>> numbers = WeightSpread(("thr", "rank"), one, one[None], one[:1], one, one)
    >>> plot_weight_spread(numbers).get_xlabel()
    'weight'
    """
    d = len(numbers.names)
    long = max(len(plain(name)) for name in numbers.names) > 12
    ax = axes_for(ax, 5.2 if long else 4.2, max(1.9, 1.2 + (0.34 if d <= 8 else 0.22) * d))
    tidy(ax, title=title, xlabel="weight")
    places = np.arange(d)
    spans = ax.barh(
        places, numbers.high - numbers.low, left=numbers.low, height=0.5,
        color="#cfe3f2", edgecolor=PALETTE[1], linewidth=0.7, zorder=1.5,
    )  # fmt: skip
    # Equal weights lie side by side, not on top of each other.
    shift = np.linspace(-0.2, 0.2, len(numbers.draws))
    dots = [
        ax.plot(numbers.draws[:, j], j + shift, ".", color=PALETTE[1], markersize=2.6, zorder=2)[0]
        for j in places
    ]
    halo: dict[str, Any] = {"marker": "D", "linestyle": "", "color": "white"}
    ax.plot(numbers.found, places, markersize=10, zorder=3, **halo)
    (diamonds,) = ax.plot(
        numbers.found, places, "D", color=PALETTE[0], markeredgecolor=INK, markeredgewidth=1.1,
        markersize=6.5, linestyle="", zorder=4,
    )  # fmt: skip
    ax.set_yticks(places, [plain(name) for name in numbers.names])
    ax.set_ylim(d - 0.45, -0.55)
    ax.grid(visible=False, axis="y")
    ax.set_xlim(-0.02, min(1.02, 0.05 + max(numbers.draws.max(), numbers.found.max())))
    texts = ["found", f"{len(numbers.draws)} bootstrap samples", "central 90 %"]
    explain_above(ax, [diamonds, dots[0], spans], texts, columns=1 if long else 3)
    return ax
