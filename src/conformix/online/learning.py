"""Scores that learn without labels, on a stream: their sums grow with every row.

What such a score has learnt comes from sums over rows that add up (`conformix.scores.learnt`). A
row is added before its set is issued; no label is needed for that. The matrices are made again once
the rows have grown by a sixty-fourth, so that a row costs little and the scores of the window stay
comparable. When more than `memory` rows are in the sums, all of them are halved, so that old rows
fade, by half for every half memory, and nothing grows.

No bound on the share of errors rests on how scores come about, so all of them go on to hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput
from conformix.scores.learnt import RowSums
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked

# Matrices are made again after this share of rows more.
SHARE = 64


class Learners:
    """The columns of a stream, some of which learn.

    Parameters
    ----------
    columns : sequence of Column
        All columns; those that do not learn stay as they are.
    n_classes : int
        Labels of a row.
    memory : int
        Rows in the sums, at most.

    Examples
    --------
    >>> import numpy as np
    >>> from conformix.data.outputs import check_outputs
    >>> from conformix.scores import score_columns
    >>> learners = Learners(score_columns(("",), ("thr", "rarity")), 2, memory=100)
    >>> learners.add(check_outputs(np.array([[0.7, 0.3]])))
    >>> learners.columns[1].score.factors.round(2)
    array([-0.06,  0.06])
    """

    def __init__(self, columns: Sequence[Column], n_classes: int, memory: int) -> None:
        self.columns = tuple(columns)
        self.n_classes, self.memory = n_classes, memory
        self.places = [j for j, column in enumerate(columns) if column.score.learns]
        self.sums: dict[int, RowSums] = {}
        self.due = 0  # rows in the sums at which the matrices are made again

    def add(self, row: Outputs) -> None:
        """Add a row to the sums, and learn where that is due."""
        if not self.places:
            return
        ranked = {
            model: Ranked(values[:], row.kind, arithmetic=row.arithmetic)
            for model, values in row.models.items()
        }
        for j in self.places:
            model, score = self.columns[j]
            own = score.sums(ranked[model])  # type: ignore[attr-defined]
            self.sums[j] = self.sums[j].plus(own) if j in self.sums else own
        if self.n > self.memory:
            self.sums = {j: _halved(sums) for j, sums in self.sums.items()}
            self.due = 0
        if self.n >= self.due:
            self.due = self.n + max(1, self.n // SHARE)
            self._learn()

    def recall(self, learnt: Mapping[int, tuple[RowSums, Any]], due: int, begun: bool) -> None:
        """Take over the sums and what was learnt, by column, of a stream that goes on."""
        if set(learnt) != set(self.places if begun else ()):
            raise InvalidInput("its online.sums are not one of every score that learns")
        columns: list[Any] = list(self.columns)
        for j, (sums, factors) in learnt.items():
            model, score = columns[j]
            columns[j] = Column(model, replace(score, factors=factors))
            columns[j].score.check(self.n_classes)
            self.sums[j] = sums
        self.columns, self.due = tuple(columns), due

    @property
    def n(self) -> int:
        """How many rows are in the sums, those that faded counted in part."""
        return self.sums[self.places[0]].n if self.sums else 0

    def _learn(self) -> None:
        columns: list[Any] = list(self.columns)
        for j, sums in self.sums.items():
            model, score = columns[j]
            columns[j] = Column(model, score.learnt(sums))
        self.columns = tuple(columns)


def _halved(sums: RowSums) -> RowSums:
    return RowSums(sums.n // 2, sums.products // 2, sums.totals // 2)


__all__ = ["Learners"]
