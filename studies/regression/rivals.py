"""Other ways to make one interval of several scores or models, from their formulas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from conformix.conformal import conformal_rank
from conformix.kernels.arrays import FloatArray
from conformix.regression.average import RegressionAverage
from conformix.regression.bands import bands, widths
from conformix.regression.planes import Planes
from conformix.regression.regressed import RegressedOutputs
from conformix.regression.scale import unscaled
from conformix.regression.scores import regression_columns
from conformix.regression.search import WidthObjective, WidthResult
from studies.regression.models import MEANS
from studies.regression.tasks import Task, Verdict


@dataclass(frozen=True, eq=False)
class Singles:
    """Every score by itself: planes of labelled and test rows, scores of the labelled ones."""

    names: tuple[str, ...]
    here: Planes
    there: Planes
    scores: FloatArray  # (n, d)

    @classmethod
    def of(cls, task: Task) -> Singles:
        """Return the scores that ``auto`` averages, as they are."""
        outputs = task.labelled()
        columns = regression_columns(outputs, "auto")
        scale = unscaled(columns)
        here, there = (scale(RegressedOutputs(some)) for some in (outputs, task.test()))
        return cls(tuple(map(str, columns)), here, there, here.scores(task.y))

    def ends(
        self, j: int, level: float, rows: slice = slice(None), planes: Planes | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the intervals of test rows by one score, calibrated on some labelled rows."""
        own = np.sort(self.scores[rows, j])
        k = conformal_rank(len(own), level)
        threshold = own[k - 1] if k <= len(own) else np.inf
        planes = self.there if planes is None else planes
        return bands(planes.columns([j]), [1.0], threshold)


@dataclass(frozen=True)
class Each:
    """All single scores, each calibrated on all rows: what could be known in hindsight."""

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the first score, and widths and coverages of all."""
        singles = Singles.of(task)
        found = [
            task.verdict(*singles.ends(j, task.alpha)) for j in range(len(singles.names))
        ]  # fmt: skip
        each = {
            name: [float(one.widths.mean()), float(one.covered.mean())]
            for name, one in zip(singles.names, found, strict=True)
        }
        return found[0]._replace(also={"each": each})


@dataclass(frozen=True)
class MajorityVote:
    """What more than half of the intervals hold (Gasparin & Ramdas): coverage 1 - 2 alpha."""

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on sets that need not be intervals."""
        singles = Singles.of(task)
        d = len(singles.names)
        ends = [singles.ends(j, task.alpha) for j in range(d)]
        lower, upper = (np.stack(part, axis=1) for part in zip(*ends, strict=True))
        full = lower <= upper
        y = task.y_test[:, None]
        votes = ((lower <= y) & (y <= upper)).sum(axis=1)
        # Empty intervals begin and end at the same place, and so count nowhere.
        lower, upper = np.where(full, lower, 0.0), np.where(full, upper, 0.0)
        places = np.concatenate([lower, upper], axis=1)
        steps = np.concatenate([np.where(full, 1, 0), np.where(full, -1, 0)], axis=1)
        order = np.argsort(places, axis=1, kind="stable")
        counts = np.cumsum(np.take_along_axis(steps, order, axis=1), axis=1)[:, :-1]
        gaps = np.diff(np.take_along_axis(places, order, axis=1), axis=1)
        return Verdict((gaps * (2 * counts > d)).sum(axis=1), 2 * votes > d)


@dataclass(frozen=True)
class Cola:
    """COLA-s (Xu et al., arXiv 2511.12065): intersections, with levels that add up to alpha.

    Half of the rows choose how alpha is shared, in parts of alpha/8, by moving one part at a time
    while the intersections get narrower; the other half calibrates every score at its level.
    """

    parts: int = 8

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intersections."""
        singles = Singles.of(task)
        half = task.n // 2
        shares = self.shares(singles, task.alpha, half)
        lower, upper = np.full((2, len(task.y_test)), -np.inf) * [[1], [-1]]
        for j in np.flatnonzero(shares).tolist():
            low, high = singles.ends(j, task.alpha * shares[j] / self.parts, slice(half, None))
            lower, upper = np.maximum(lower, low), np.minimum(upper, high)
        return task.verdict(lower, upper)

    def shares(self, singles: Singles, alpha: float, half: int) -> FloatArray:
        """Return how many parts of alpha every score gets."""
        tune = singles.here.rows(slice(half))
        d = len(singles.names)
        ends = np.full((2, d, self.parts + 1, half), -np.inf)
        ends[1] = np.inf
        for j in range(d):
            for m in range(1, self.parts + 1):
                found = singles.ends(j, alpha * m / self.parts, slice(half), tune)
                ends[0, j, m], ends[1, j, m] = found

        def width(shares: FloatArray) -> float:
            some = np.flatnonzero(shares)
            low, high = (side[some, shares[some]] for side in ends)
            return float(widths(low.max(axis=0), high.min(axis=0)).mean())

        starts = [np.where(np.arange(d) == j, self.parts, 0) for j in range(d)]
        best = min(starts, key=width)
        least = width(best)
        while True:
            tried = [
                best - np.eye(d, dtype=int)[i] + np.eye(d, dtype=int)[j]
                for i in np.flatnonzero(best) for j in range(d) if i != j
            ]  # fmt: skip
            totals = [width(shares) for shares in tried]
            place = int(np.argmin(totals))
            if not totals[place] < least:
                return best  # type: ignore[no-any-return]
            best, least = tried[place], totals[place]


@dataclass(frozen=True)
class Symmetric:
    """SACP (Alami et al., arXiv 2512.06945): residuals over their sums, the candidate's included.

    Of every model's absolute residuals, those of n rows and of the candidate y, each is divided by
    the sum of all; y is in when the mean over the models is at most the k-th smallest of the rows.
    The ends are where both are equal: found by taking the sums at the ends before.
    """

    steps: int = 3

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the sets."""
        means = task.draw.known.means
        own = np.abs(task.y[:, None] - means[: task.n])
        there = means[task.draw.rest]
        k = conformal_rank(task.n, task.alpha)
        ends = []
        middle = there.mean(axis=1)
        for side in (0, 1):
            end = middle
            for _ in range(self.steps):
                at = np.where(np.isfinite(end), end, middle)  # where models disagree too much: none
                shares = 1 / (own.sum(axis=0) + np.abs(at[:, None] - there))  # (m, models)
                cuts = np.partition(own @ shares.T, k - 1, axis=0)[k - 1]
                flat = Planes(there, np.zeros_like(there), shares, shares)
                end = bands(flat, np.ones(there.shape[1]), cuts)[side]
            ends.append(end)
        return task.verdict(ends[0], ends[1])


@dataclass(frozen=True)
class Mondrian:
    """Residuals of boosting with a threshold per bin of sigma, as crepes does it.

    Parameters
    ----------
    bins : int
        Bins of as many labelled rows each.
    """

    bins: int = 5
    model: str = "boosting"

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        sigmas = task.draw.known.sigmas[:, MEANS.index(self.model)]
        edges = np.sort(sigmas[: task.n])[task.n * np.arange(1, self.bins) // self.bins]
        strata = np.searchsorted(edges, sigmas)
        average = RegressionAverage("abs", alpha=task.alpha, calibration="group", threads=1)
        average.fit(task.labelled()[self.model], task.y, strata=strata[: task.n])
        found = average.predict_interval(task.test()[self.model], strata=strata[task.draw.rest])
        return task.verdict(found.lower, found.upper)


@dataclass(frozen=True)
class Alone:
    """One score of one model on all rows.

    Parameters
    ----------
    model, score : str
        Which.
    nominal : bool
        Whether quantiles are those at alpha/2 and 1 - alpha/2.
    """

    model: str
    score: str
    nominal: bool = False

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        pairs = (task.alpha / 2,)
        average = RegressionAverage(self.score, alpha=task.alpha, threads=1)
        average.fit(task.labelled(pairs)[self.model], task.y)
        found = average.predict_interval(task.test(pairs)[self.model])
        return task.verdict(found.lower, found.upper)


# Tuning rows and points of the real line that the likelihood is added up over.
MOST_ROWS, POINTS = 400, 64


def likelihood(objective: WidthObjective, rng: np.random.Generator) -> WidthResult:
    """Return the weights whose density ``exp(-s_w(x, y))``, over its integral, is most likely."""
    rows = np.arange(min(len(objective.planes), MOST_ROWS))
    planes, own = objective.planes.rows(rows), objective.scores[rows]
    slopes = np.maximum((planes.below + planes.above).mean(axis=1) / 2, 1e-12)
    low = planes.centre.min(axis=1) - 6 / slopes
    high = planes.centre.max(axis=1) + 6 / slopes
    grid = low + (high - low) * np.linspace(0, 1, POINTS)[:, None]  # (points, n)
    scores = np.stack([planes.scores(points) for points in grid])
    steps = np.log((high - low) / (POINTS - 1))
    d = objective.d

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        values = -(scores @ weights)
        most = values.max(axis=0)
        mass = np.exp(values - most)
        total = mass.sum(axis=0)
        value = (own @ weights + most + np.log(total) + steps).mean()
        mean = np.einsum("pn,pnd->nd", mass / total, scores)
        return float(value), (own - mean).mean(axis=0)

    start = np.full(d, 3.0 / d)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * d,
                     options={"maxiter": 100})  # fmt: skip
    weights = found.x / found.x.sum() if found.x.sum() > 0 else np.full(d, 1 / d)
    return WidthResult(weights, float("nan"), int(found.nfev), "likelihood")
