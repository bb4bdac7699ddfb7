"""``scores="auto"``: the library's own choice, as a user gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from conformix.estimators.average import ScoreAverage
from conformix.experiments.methods.task import Outcome, Task
from conformix.fit.predictor import Predictor
from conformix.kernels.arrays import IntArray


@dataclass(frozen=True)
class Auto:
    """A blend of the dictionary's scores of all models (`conformix.scores.blend`).

    Parameters
    ----------
    split : {"vfcp", "exact"}
        Which rows the blend learns from, and which calibrate.

    Examples
    --------
    >>> Auto()
    Auto(split='vfcp')
    """

    split: str = "vfcp"

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        cp = ScoreAverage(
            "auto", alpha=task.alpha, split=self.split, kind=task.pool.outputs.kind,
            random_state=task.seed % 2**31, threads=task.threads,
        )  # fmt: skip
        cp.fit(_rows(task, task.calibrate), task.y)
        predictor: Predictor = cp.predictor_
        scores = predictor.scores(predictor.check(_rows(task, task.test)))
        blend = predictor.blend
        assert blend is not None
        pairs = zip(blend.columns, blend.coefficients, strict=True)
        return Outcome(
            mask=predictor.fitted.member(scores, task.alpha),
            guarantee=cp.guarantee_.kind,
            combined=scores[..., 0] if len(predictor.columns) == 1 else None,
            weights={str(column): float(c) for column, c in pairs if c},
            normalizer=cp.normalizer_,
        )


def _rows(task: Task, rows: IntArray) -> Any:
    return {model: values[rows] for model, values in task.pool.outputs.models.items()}
