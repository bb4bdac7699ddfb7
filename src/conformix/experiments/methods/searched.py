"""The average of the paper, and the oracle that it is measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformix.experiments.methods.task import Outcome, Task
from conformix.fit.fit import fit_scores
from conformix.fit.rule import Rule
from conformix.fit.settings import Settings
from conformix.guarantees.oracle import find_oracle
from conformix.scores import Column
from conformix.scores.scale import resolve_normalizer
from conformix.search import GridSearch
from conformix.splits import resolve_split


@dataclass(frozen=True)
class Average:
    """The method of the paper: scores averaged with the weights that make the sets smallest.

    Parameters
    ----------
    scores : tuple of str
        What is averaged: every score of every model.
    split : str
        ``vfcp``, ``efcp``, ``dlcp``, ``dlcp+`` or ``exact``.
    normalize : str
        ``none``, ``scale``, ``ecdf`` or ``auto``.
    resolution : int or None
        Of the weight grid; None takes 100, or less where many scores make the grid too large.
    """

    scores: tuple[str, ...]
    split: str = "vfcp"
    normalize: str = "scale"
    resolution: int | None = None

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        search = GridSearch(self.resolution)
        return fitted_outcome(task, self.scores, self.split, search, self.normalize)


@dataclass(frozen=True)
class Oracle:
    """The best weights in hindsight: searched with the labels of the test rows. A measure only.

    Parameters
    ----------
    scores, normalize, resolution
        As in `Average`; ``auto`` and ``ecdf`` are fitted on the test rows.
    """

    scores: tuple[str, ...]
    normalize: str = "scale"
    resolution: int | None = None

    def __call__(self, task: Task) -> Outcome:
        """Return the smallest sets whose coverage on the test rows is at least ``1 - alpha``."""
        columns = task.pool.columns(self.scores)
        scores, y = task.test_scores(columns), task.pool.labels[task.test]
        normalizer = resolve_normalizer(self.normalize, separate=True)
        transform = normalizer.fit(scores, columns)
        search = GridSearch(self.resolution)
        best = find_oracle(transform(scores), y, alpha=task.alpha, search=search)
        combined = Rule(transform, best.weights).combined(scores)
        weights = named(columns, best.weights)
        return Outcome(combined >= best.threshold, "none", combined, weights, normalizer.name)


def fitted_outcome(
    task: Task, scores: Sequence[str], split: str, search: Any, normalize: str
) -> Outcome:
    """Return the sets of a searched average: fit on the calibration rows, predict the test rows."""
    columns = task.pool.columns(scores)
    labelled, test = task.calibration_scores(columns), task.test_scores(columns)
    scale = None if normalize == "auto" else resolve_normalizer(normalize, separate=True)
    settings = Settings(
        alpha=task.alpha, split=resolve_split(split), search=search, scale=scale,
        threads=task.threads,
    )  # fmt: skip
    features = test if settings.split.needs_test else None
    fitted = fit_scores(labelled, task.y, columns, settings, task.rng(), test=features)
    combined = fitted.rule.combined(test) if fitted.nested else None
    return Outcome(
        mask=fitted.member(test, task.alpha),
        guarantee=fitted.ledger.kind,
        combined=combined,
        weights=named(columns, fitted.rule.weights),
        normalizer=fitted.normalizer,
    )


def named(columns: Sequence[Column], weights: Any) -> dict[str, float]:
    """Return the weights that are not zero by the name of their score."""
    pairs = zip(columns, weights, strict=True)
    return {str(column): float(weight) for column, weight in pairs if weight != 0}
