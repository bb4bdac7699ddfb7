"""`RegressionAverage` as it is, and with a part of it taken away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray
from conformix.regression.average import RegressionAverage
from conformix.regression.scores import regression_columns
from conformix.regression.search import AROUND, WidthObjective, WidthResult, descend, levels_around
from conformix.splits import ValidityFirst
from studies.regression.predictions import Outputs
from studies.regression.tasks import Task, Verdict

Search = Callable[[WidthObjective, np.random.Generator], WidthResult]


@dataclass(frozen=True)
class Averaging:
    """One way to average the scores of all models.

    Parameters
    ----------
    share : float, optional
        Share of the rows that tune; by default the library's.
    around : tuple of float
        Multiples of alpha at which widths are added up.
    pairs : tuple of float, optional
        Lower levels of the pairs of quantiles that have scores; by default alpha/2 and 2 alpha.
    search : {"auto", "once", "single", "equal"} or callable
        The library's search, without bags, among single scores, or none.
    only : tuple of str
        Models to take; by default all.
    options : dict
        Further options of `RegressionAverage`.

    Examples
    --------
    >>> Averaging(share=0.5).around
    (0.5, 1.0, 1.5, 2.0)
    """

    share: float | None = None
    around: tuple[float, ...] = AROUND
    pairs: tuple[float, ...] | None = None
    search: str | Search = "auto"
    only: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        here, there = self._some(task.labelled(self.pairs)), self._some(task.test(self.pairs))
        average = RegressionAverage(
            alpha=task.alpha, random_state=task.draw.run, threads=1,
            **self._options(here, task) | self.options,
        )  # fmt: skip
        found = average.fit(here, task.y).predict_interval(there)
        facts = average.guarantee_.facts
        also = {"n_cal": facts.n_cal if facts.separate else 0}
        return task.verdict(found.lower, found.upper)._replace(also=also)

    def _some(self, outputs: Outputs) -> Outputs:
        return {name: outputs[name] for name in self.only or outputs}

    def _options(self, outputs: Outputs, task: Task) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.around != AROUND:
            options["tune_alpha"] = levels_around(task.alpha, task.n, self.around)
        if self.share is not None:
            options["split"] = ValidityFirst(self.share)
        d = len(regression_columns(outputs, self.options.get("scores", "auto")))
        searches: dict[Any, Any] = {
            "auto": "auto", "once": once, "single": np.eye(d), "equal": np.full((1, d), 1 / d)
        }  # fmt: skip
        options["search"] = searches.get(self.search, self.search)
        return options


def once(objective: WidthObjective, rng: np.random.Generator) -> WidthResult:
    """Return what one search on all tuning rows finds."""
    return descend(objective)


@dataclass(frozen=True)
class Exactly:
    """The exact split: all rows select among weights that were fixed before any of them.

    Single scores, all scores of a model, all of a kind, everything, and weights drawn once.
    """

    drawn: int = 100

    def __call__(self, task: Task) -> Verdict:
        """Return the verdict on the intervals of the test rows."""
        here, there = task.labelled(), task.test()
        average = RegressionAverage(
            alpha=task.alpha, split="exact", search=self.candidates(here), threads=1,
            random_state=task.draw.run,
        )  # fmt: skip
        found = average.fit(here, task.y).predict_interval(there)
        return task.verdict(found.lower, found.upper)

    def candidates(self, outputs: Outputs) -> FloatArray:
        """Return the weights (m, d)."""
        columns = regression_columns(outputs, "auto")
        d = len(columns)
        kinds = [type(column.score).__name__ for column in columns]
        models = [column.model for column in columns]
        rows = [np.ones(d)]
        for names in (kinds, models):
            rows += [
                np.array([one == name for one in names], float) for name in dict.fromkeys(names)
            ]
        rng = np.random.default_rng(0)
        some = [rng.dirichlet(np.full(d, 0.15)) for _ in range(self.drawn)]
        found = np.vstack([np.eye(d), *rows, *some])
        return found / found.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]
