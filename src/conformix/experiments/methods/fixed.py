"""Nothing to tune: single scores and their uniform average, calibrated on all calibration rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.experiments.methods.task import Outcome, Task
from conformix.experiments.pool import Ensembling
from conformix.fit.rule import Rule
from conformix.scores.scale import resolve_normalizer


@dataclass(frozen=True)
class Fixed:
    """Equal weights on the given scores; with one score, that score alone.

    Parameters
    ----------
    scores : tuple of str
        What is averaged.
    normalize : {"none", "scale"}
        On which scale; a normaliser that learns would need tuning rows.
    ensemble : {"probs", "logits"} or None
        Average the models' outputs first, and score the ensemble.
    """

    scores: tuple[str, ...]
    normalize: str = "scale"
    ensemble: Ensembling | None = None

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        pool = task.pool if self.ensemble is None else task.pool.ensembled(self.ensemble)
        columns = pool.columns(self.scores)
        scores = pool.tensor(columns, task.calibrate)
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(
                f'normalize="{normalizer.name}" learns from tuning rows, and a uniform average '
                "has none."
            )
        weights = np.full(len(columns), 1 / len(columns))
        rule = Rule(normalizer.fit(scores, columns), weights)
        k = conformal_rank(len(task.y), task.alpha)
        threshold = kth_largest(rule.of_true_labels(scores, task.y), k)
        combined = rule.combined(pool.tensor(columns, task.test))
        return Outcome(
            mask=combined >= threshold,
            guarantee="exact",
            combined=combined,
            weights={str(c): float(w) for c, w in zip(columns, weights, strict=True)},
            normalizer=normalizer.name,
        )


@dataclass(frozen=True)
class MajorityVote:
    """The labels that more than half of the single sets hold.

    Every score has its own set at level alpha, so the expected share of sets that miss the truth
    is at most alpha, and by Markov's inequality the vote covers with ``1 - 2 alpha`` only
    (Cherubin, 2019; Gasparin & Ramdas, 2024).

    Parameters
    ----------
    scores : tuple of str
        The voters: every score of every model.
    """

    scores: tuple[str, ...]

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        columns = task.pool.columns(self.scores)
        votes = np.zeros((len(task.test), task.pool.outputs.n_classes), dtype=np.int64)
        task.pool.prepare(columns)
        for column in columns:
            own = task.pool.of_true_labels(column, task.calibrate)
            threshold = kth_largest(own, conformal_rank(len(own), task.alpha))
            votes += task.pool.plane(column, task.test) >= threshold
        return Outcome(mask=2 * votes > len(columns), guarantee="1 - 2 alpha")
