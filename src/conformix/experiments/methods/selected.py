"""One score of several, selected or tuned on the rows on which the average tunes its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.errors import InvalidInput
from conformix.experiments.methods.task import Outcome, Task
from conformix.fit.settings import is_symmetric
from conformix.kernels.arrays import IntArray
from conformix.scores import Column
from conformix.search import first_best
from conformix.splits import Roles, resolve_split

# Columns whose scores are computed together, from one sort.
AT_ONCE = 8


@dataclass(frozen=True)
class Selected:
    """The score with the smallest sets on the tuning rows.

    An average whose candidate weights are the corners of the simplex, one column at a time: many
    columns need no tensor of all of them. With one score at many temperatures or penalties it is
    that score, tuned; with different scores, the selection of Yang & Kuchibhotla (2024).

    Parameters
    ----------
    scores : tuple of str
        The candidates, for every model.
    split : str
        Which rows select, and which calibrate, as for the average.
    """

    scores: tuple[str, ...]
    split: str = "vfcp"

    def __call__(self, task: Task) -> Outcome:
        """Return the sets of the test rows."""
        split = resolve_split(self.split)
        if is_symmetric(split):
            raise InvalidInput('split "exact" averages; a selected score takes another split.')
        columns = task.pool.columns(self.scores)
        n_test = len(task.test) if split.needs_test else 0
        places = split.roles(len(task.calibrate), n_test, task.rng())
        rows = np.concatenate([task.calibrate, task.test])
        tune, size, calibrate = (rows[part] for part in places)
        counts = set_counts(task, columns, Roles(tune, size, calibrate))
        # Ties go the way they go between weights.
        best = columns[first_best(counts, np.eye(len(columns)))]
        own = task.pool.of_true_labels(best, calibrate)
        threshold = kth_largest(own, conformal_rank(len(own), task.alpha))
        combined = task.pool.plane(best, task.test)
        return Outcome(combined >= threshold, split.guarantee.kind, combined, {str(best): 1.0})


def set_counts(task: Task, columns: Sequence[Column], roles: Roles) -> IntArray:
    """Return the labels in all sets of the size rows, for every column by itself."""
    k = conformal_rank(len(roles.tune), task.alpha)
    counts = []
    for start in range(0, len(columns), AT_ONCE):
        some = columns[start : start + AT_ONCE]
        task.pool.prepare(some)
        for column in some:
            threshold = kth_largest(task.pool.of_true_labels(column, roles.tune), k)
            counts.append(int((task.pool.plane(column, roles.size) >= threshold).sum()))
    return np.array(counts)
