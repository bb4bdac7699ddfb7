"""The searches for narrow intervals against plain loops: three scores on a grid, and 24 scores.

``python -m benchmarks.regression`` prints seconds of the wall and of all cores, best of five; the
loops take one weight after the other, whole arrays of rows at a time, and are timed on a part of
the weights.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from conformix.conformal import conformal_rank
from conformix.kernels import twins
from conformix.kernels.simplex import simplex_grid
from conformix.regression.bands import bands
from conformix.regression.hull import Hull
from conformix.regression.planes import Planes
from conformix.regression.search import WidthObjective, descend, levels_around, search_widths
from conformix.regression.search import exact_grid as grid_search

REPEATS = 5
# Of the weights of the grid, one in so many goes through the plain loop.
SHARE = 50


def problem(n: int, d: int, seed: int = 0) -> tuple[Planes, np.ndarray]:
    """Return rows with plain and normalised residuals of models of several skills."""
    rng = np.random.default_rng(seed)
    spread = np.exp(0.5 * rng.standard_normal(n))
    y = 3 * rng.standard_normal(n)
    truth = y - spread * rng.standard_normal(n)
    centre = truth[:, None] + rng.standard_normal((n, d)) * rng.uniform(0.1, 1.0, d)
    sigma = spread[:, None] * np.exp(0.3 * rng.standard_normal((n, d)))
    kind = np.arange(d) % 3
    slope = np.where(kind == 0, 1.0, 1 / sigma)
    return Planes(centre, np.where(kind == 2, np.log(sigma), 0.0), slope, slope), y


def seconds(call: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the least seconds of the wall, and of all cores."""
    wall, cores = [], []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - start)
        cores.append(time.process_time() - busy)
    return min(wall), min(cores)


def plain_width(planes: Planes, y: np.ndarray, weights: np.ndarray, levels) -> float:
    """Return the objective of one weight vector: scores, a sort, and a walk over sorted knots."""
    scores = np.sort((planes.scores(y) * weights).sum(axis=1))
    order = np.argsort(planes.centre, axis=1)
    knots, _, below, above = (np.take_along_axis(p, order, axis=1) for p in planes.parts)
    w = weights[order]
    values = np.stack([planes.scores(knots[:, i]) @ weights for i in range(planes.d)], axis=1)
    down = np.cumsum((w * below)[:, ::-1], axis=1)[:, ::-1]
    up = np.cumsum(w * above, axis=1)
    slopes = np.hstack([-down[:, :1], up - np.hstack([down[:, 1:], np.zeros((len(y), 1))])])
    rows, total = np.arange(len(y)), 0.0
    for level in levels:
        t = scores[conformal_rank(len(y), level) - 1]
        inside = values <= t
        first, last = inside.argmax(axis=1), planes.d - 1 - inside[:, ::-1].argmax(axis=1)
        lower = knots[rows, first] + (t - values[rows, first]) / slopes[rows, first]
        upper = knots[rows, last] + (t - values[rows, last]) / slopes[rows, last + 1]
        total += np.where(inside.any(axis=1), upper - lower, 0.0).mean()
    return float(total)


def grid(n: int = 4_000) -> None:
    """Print the exact grid of 5,151 weights over three scores."""
    planes, y = problem(n, 3)
    weights = simplex_grid(3, 100) / 100
    for levels in ((0.1,), levels_around(0.1, n)):
        ours = seconds(lambda levels=levels: grid_search(planes, y, levels, 100))
        some = weights[::SHARE]
        loop = seconds(lambda s=some, v=levels: [plain_width(planes, y, w, v) for w in s], 1)
        values = WidthObjective(planes, y, levels)(some)
        theirs = [plain_width(planes, y, w, levels) for w in some]
        assert np.abs(values / theirs - 1).max() < 1e-9
        told(f"grid, 5,151 weights, {n:,} rows, {len(levels)} levels", ours, loop, SHARE)


def many(n: int = 1_000, d: int = 24) -> None:
    """Print the searches over 24 scores."""
    planes, y = problem(n, d)
    levels = levels_around(0.1, n)
    objective = WidthObjective(planes, y, levels)
    ours = seconds(lambda: descend(objective))
    n_weights = descend(objective).n_evaluated
    tried = np.random.default_rng(0).dirichlet(np.ones(d), 20)
    loop = seconds(lambda: [plain_width(planes, y, w, levels) for w in tried], 1)
    told(f"{d} scores, {n:,} rows, {len(levels)} levels, descent", ours, loop, n_weights / 20)
    bagged = seconds(lambda: search_widths(planes, y, levels, random_state=0))
    told("the same, mean of four on parts", bagged, loop, 4 * n_weights / 20 * 2 / 3)


def intervals(n: int = 10_000) -> None:
    """Print intervals of rows to come, and hulls."""
    planes, y = problem(n, 3)
    told(f"intervals, {n:,} rows, 3 scores", seconds(lambda: bands(planes, [0.2, 0.3, 0.5], 2.0)))
    single = planes.columns([1])
    told(f"intervals, {n:,} rows, 1 score", seconds(lambda: bands(single, [1.0], 2.0)))
    candidates = simplex_grid(3, 15) / 15
    hull = Hull.of(candidates, planes.rows(slice(500)), y[:500], conformal_rank(500, 0.1))
    told(f"hulls, {n:,} rows, {len(candidates)} candidates", seconds(lambda: hull(planes)))


def told(
    case: str, ours: tuple[float, float], loop: tuple[float, float] | None = None, scale: float = 1
) -> None:
    """Print one line: milliseconds, and how many times longer the plain loop takes."""
    rest = (
        ""
        if loop is None
        else f"   plain loop {loop[1] * scale:8.2f} s, {loop[1] * scale / ours[1]:6.0f} times"
    )
    print(
        f"{case:<52} wall {ours[0] * 1e3:8.1f} ms, cores {ours[1] * 1e3:8.1f} ms{rest}", flush=True
    )


def main() -> None:
    """Run everything, warm."""
    twins.spend_patience()
    grid()
    many()
    intervals()


if __name__ == "__main__":
    main()
