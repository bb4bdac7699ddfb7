"""The selection with a threshold per class: weights that make class-conditional sets small.

The candidate (x, y) stands in one cell, whose threshold it moves: the k-th largest of the cell's
rows and the candidate. All other cells keep theirs. So of the labels in the sets of the n + 1 rows
only those of one cell are counted again for every candidate; per weight vector and cell the n rows
enter through two thresholds and two counts, as in `conformix.fit.exact.tables`.

What is counted must treat the rows of the candidate's cell and the candidate alike. Cells of one
class do: no other cell knows of them. Classes that are rare, or would be but for the candidate, are
counted only while the candidate is among them: which these are depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.calibration.strata import EVERY, Partition
from conformix.conformal import conformal_rank
from conformix.data.row_data import NO_DATA
from conformix.kernels import available_threads, combine, run_blocks
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray

# Weights that one thread works on at a time.
WEIGHTS_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class Cell:
    """Rows that share a threshold, and the labels that are held against it."""

    rows: IntArray  # calibration rows
    labels: IntArray
    k: int  # the rank of its threshold
    settled: bool  # whether its labels are counted wherever the candidate stands

    @property
    def trivial(self) -> bool:
        """Whether every label is in, for want of rows."""
        return self.k > len(self.rows)


def cells_of(part: Partition, y: IntArray, alpha: float) -> dict[int, Cell]:
    """Return the cells of a partition by class, by their strata."""
    stratum = part.strata_of(y, NO_DATA)
    joins = np.array(part.joins, dtype=np.int64)
    pool = part.n_strata - 1 if part.fallback == "pooled" and part.n_rare else None
    found = {}
    for c in np.unique(part.cells[0]).tolist():
        rows = np.arange(len(y)) if c == EVERY else np.flatnonzero(stratum == c)
        labels = np.flatnonzero(part.cells[0] == c)
        if c == pool:
            rows = np.flatnonzero((stratum == c) | np.isin(stratum, joins))
            labels = np.flatnonzero(np.isin(part.cells[0], [c, *part.joins]))
        settled = c >= 0 and c != pool and c not in part.joins
        found[c] = Cell(rows, labels, conformal_rank(len(rows), alpha), settled)
    return found


@dataclass(frozen=True, eq=False)
class ClassTables:
    """What the selection at one level needs of the n rows, for the plausible weights.

    Cells that let every label in count the same under all weights, and are left out.
    """

    weights: FloatArray  # (p, d), in the order that breaks ties
    cells: list[Cell]
    cell_of: IntArray  # (K,), the place of every label's cell; -1 where it is left out
    cuts: FloatArray  # (p, C, 2): ``c_{k-1}`` and ``c_k`` of every cell
    counts: IntArray  # (p, C, 2): the labels of the n rows at these
    scores: FloatArray  # (n, K, d)
    winner: FloatArray  # (d,), of all candidates the best on the n rows alone

    @property
    def settled(self) -> BoolArray:
        """Which cells are counted wherever the candidate stands, (C,)."""
        return np.array([cell.settled for cell in self.cells], dtype=bool)

    def choose(self, scores: FloatArray, threads: int | None = None) -> IntArray:
        """Return which weights each label of each row (r, K, d) selects, shape (r, K)."""
        rows = run_blocks(self._choose, list(scores), available_threads(threads))
        return np.array(rows).reshape(scores.shape[:2])

    def _choose(self, row: FloatArray) -> IntArray:
        values = combine(row, self.weights[:, None, :])  # (p, K)
        low = self.counts[:, :, 1].copy()
        for c, cell in enumerate(self.cells):
            low[:, c] += np.count_nonzero(values[:, cell.labels] >= self.cuts[:, c, 1:], axis=1)
        base = low[:, self.settled].sum(axis=1)
        chosen = np.full(len(row), np.argmin(base))
        for y in np.flatnonzero(self.cell_of >= 0):
            c = self.cell_of[y]
            others = base - low[:, c] if self.cells[c].settled else base
            labels = values[:, self.cells[c].labels]
            chosen[y] = self._winner(c, others, low[:, c], labels=labels, own=values[:, y])
        return chosen

    def _winner(
        self, c: int, others: IntArray, low: IntArray, *, labels: FloatArray, own: FloatArray
    ) -> int:
        """Return the first of the weights with the fewest labels, the candidate in cell c."""
        high, below = self.cuts[:, c, 0], own < self.cuts[:, c, 1]
        total = others + np.where(
            below, low, self.counts[:, c, 0] + np.count_nonzero(labels >= high[:, None], axis=1)
        )
        between = np.flatnonzero(~below & (own < high))
        # At the candidate's own score at least as many labels are in as at the upper cut.
        total[between] = others[between] + self.counts[between, c, 0]
        total[between] += np.count_nonzero(labels[between] >= own[between, None], axis=1)
        known = np.ones(len(total), dtype=bool)
        known[between] = False
        best = total[known].min(initial=np.iinfo(np.int64).max)
        for i in between[np.argsort(total[between], kind="stable")]:
            if total[i] > best:
                break
            known[i] = True
            total[i] += self._between(i, c, own[i])
            best = min(best, total[i])
        return int(np.flatnonzero(known & (total == best))[0])

    def _between(self, i: int, c: int, own: float) -> int:
        """Return the labels of the n rows from a candidate's score up to the upper cut."""
        values = combine(self.scores[:, self.cells[c].labels], self.weights[i])
        return int(np.count_nonzero((values >= own) & (values < self.cuts[i, c, 0])))


def class_tables(
    scores: FloatArray,
    y: IntArray,
    weights: FloatArray,
    part: Partition,
    alpha: float,
    *,
    threads: int | None = None,
) -> ClassTables:
    """Return the tables of one level for candidates (M, d) in the order that breaks ties."""
    by_stratum = {c: cell for c, cell in cells_of(part, y, alpha).items() if not cell.trivial}
    by_stratum = {c: cell for c, cell in by_stratum.items() if c >= 0 or c == EVERY}
    cells, places = list(by_stratum.values()), {c: i for i, c in enumerate(by_stratum)}
    cell_of = np.array([places.get(c, -1) for c in part.cells[0].tolist()])
    cuts = np.empty((len(weights), len(cells), 2))
    counts = np.empty(cuts.shape, dtype=np.int64)

    def work(some: slice) -> None:
        for i in range(some.start, some.stop):
            values = combine(scores, weights[i])
            true = values[np.arange(len(y)), y]
            for c, cell in enumerate(cells):
                falling = np.sort(true[cell.rows])[::-1]
                cuts[i, c] = falling[cell.k - 2] if cell.k > 1 else np.inf, falling[cell.k - 1]
                own = values[:, cell.labels]
                counts[i, c] = [np.count_nonzero(own >= cut) for cut in cuts[i, c]]

    steps = range(0, len(weights), WEIGHTS_AT_ONCE)
    blocks = [slice(i, min(i + WEIGHTS_AT_ONCE, len(weights))) for i in steps]
    run_blocks(work, blocks, available_threads(threads))
    settled = np.array([cell.settled for cell in cells], dtype=bool)
    base = counts[:, settled, 1].sum(axis=1)
    can_win = _plausible(base, counts, settled, n_labels=sum(len(cell.labels) for cell in cells))
    winner = weights[np.argmin(base)]  # the first of equals
    return ClassTables(
        weights[can_win], cells, cell_of, cuts[can_win], counts[can_win], scores, winner
    )


def _plausible(base: IntArray, counts: IntArray, settled: BoolArray, n_labels: int) -> BoolArray:
    """Return which weights can win for some candidate: the row adds `n_labels` at most."""
    can_win: Any = base <= base.min() + n_labels  # a candidate whose cell is left out
    for c in range(len(settled)):
        others = base - counts[:, c, 1] if settled[c] else base
        at_least, at_most = others + counts[:, c, 0], others + counts[:, c, 1]
        can_win = can_win | (at_least <= at_most.min() + n_labels)
    return can_win  # type: ignore[no-any-return]
