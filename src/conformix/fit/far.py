"""Rows whose scores are not held here: what a search asks of them, block by block.

Splits that tune on all rows would hold all scores of all rows. But a search that only counts labels
needs the scores of the true labels, d numbers per row, and those of the labels that some weights
may put into a set (`conformix.search.certain` has the proof), which are few. Whoever has the rows
finds these labels, and only they come here; where even they are too many, the sizes of the sets are
counted there for all weights, and integers are added up. What looks at all scores of all labels
(sets that are never empty, other objectives, line searches) brings them here, where memory allows.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from conformix.conformal import kth_largest
from conformix.data.outputs import Outputs, Source, taken
from conformix.errors import InvalidInput
from conformix.fit.scored import Gathered, Scoring, SourceReader, TrueScores
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, joined, stacked
from conformix.kernels.blocks import row_blocks
from conformix.kernels.cached import cached_property
from conformix.kernels.plain.engine import count_reached
from conformix.scores.names import Column
from conformix.scores.scale import Transform
from conformix.scores.sorted_rows import are_sorted, upper_windows
from conformix.scores.upper_rows import SortedOutputs
from conformix.search.certain import one_above
from conformix.search.objective import CACHE_ENTRIES, SizeObjective

# What the labels within reach may take here (4 GiB, and a quarter of the machine's memory at most);
# beyond it they are counted where they are.
REACHED_BYTES = 2**32
# They are put together in parts of this size (64 MiB): many small ones cost the search, and one
# of all would be held twice while it is made.
PART_BYTES = 2**26


@dataclass(frozen=True, eq=False)
class FarOutputs:
    """Outputs that are read where they are; they stand for the scores (m, K, d) of their rows."""

    source: Source
    scoring: Scoring
    rows: IntArray | None = None  # rising: which are meant; None: all
    true: TrueScores | None = None  # of all rows of the source, where these have labels
    split: str = ""  # for errors

    ordered: ClassVar[None] = None
    spare: ClassVar[bool] = True  # every `tensor` is a new one
    here: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.source.n if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self), self.source.n_classes, len(self.scoring.columns)

    @property
    def threads(self) -> int | None:
        return self.scoring.threads

    @property
    def tensor(self) -> FloatArray:
        """The scores (m, K, d) of all labels, brought here where memory allows."""
        refuse_beyond_memory(self.split, score_bytes(*self.shape))
        return self.scoring.tensor(taken(self.source, self.rows))

    def true_scores(self, y: IntArray) -> FloatArray:
        """Return the scores (m, d) of the true labels."""
        true: Any = self.true
        return (true if self.rows is None else true.take(self.rows)).values  # type: ignore[no-any-return]

    def some(self, rows: slice) -> FloatArray:
        """Return the scores (r, K, d) of some rows."""
        every = np.arange(len(self)) if self.rows is None else self.rows
        if not len(every[rows]):
            return np.empty((0, *self.shape[1:]))
        return self.scoring.tensor(taken(self.source, every[rows]))


def far_scores(
    true: TrueScores, tune: IntArray, source: Source, scoring: Scoring, split: str = ""
) -> Gathered:
    """Return the scores of n rows of which only those of the true labels are held."""
    tuning = FarOutputs(source, scoring, tune, true, split)
    shape = (len(true), *tuning.shape[1:])
    return Gathered(shape, tune, tuning, true, SourceReader(source, scoring))


@dataclass(frozen=True, eq=False)
class Reach:
    """Which labels may be in a set: those with a normalised score above its number.

    They are told apart by their raw scores where the scale says from where on these exceed it.
    """

    transform: Transform
    cuts: Sequence[float]  # (d,), see `conformix.search.certain.reach`

    def labels(self, scoring: Scoring, outputs: Outputs) -> FloatArray:
        """Return the normalised scores (L, d) of the labels of a block that may be in."""
        columns = scoring.columns
        rises = not getattr(self.transform, "holds_rows", True)  # as every scale of ours
        if rises and are_sorted(columns, outputs):
            ordered = SortedOutputs(outputs, columns, scoring.key, scoring.threads)
            return self.of_sorted(ordered, columns, np.arange(outputs.n))
        scores = scoring.tensor(outputs)
        return self.transform(scores[self._may_be_in(scores)])

    def of_sorted(
        self,
        ordered: SortedOutputs,
        columns: Sequence[Column],
        rows: IntArray,
        *,
        best: bool = True,
    ) -> FloatArray:
        """Return the same of sorted rows: the labels that may be in are their upper ends.

        With the `best` label of every row among them, or, on the host, without.
        """
        d = len(columns)
        # Made before threads ask for them.
        lines: Any = getattr(self.transform, "lines", None) if ordered.compiled else None
        floors = None if lines is None else np.array(self._floors)

        def of_block(block: Any, some: IntArray, places: slice) -> FloatArray:
            if lines is not None:
                return block.within(some, lines, floors, 0 if best else 1)  # type: ignore[no-any-return]
            if ordered.compiled:
                found = block.in_pieces(lambda own, _: of_windows(block, own), some)
                return joined(found, axis=1)  # type: ignore[no-any-return]
            return of_windows(block, some)

        def of_windows(block: Any, some: IntArray) -> FloatArray:
            planes: list[list[FloatArray]] = [[] for _ in range(d)]
            seen = np.zeros(len(some), dtype=bool)
            for which, scores, inside in upper_windows(block, columns, self._may_be_in, some):
                if not best:
                    inside[~seen[which], -1] = False
                    seen[which] = True
                for j in range(d):
                    planes[j].append(scores[..., j][inside])
            return self.transform(stacked([joined(plane) for plane in planes]).T).T

        return joined(ordered.map(of_block, rows), axis=1).T  # type: ignore[no-any-return]

    def _may_be_in(self, scores: FloatArray, _: IntArray | None = None) -> BoolArray:
        # Labels that are out need not be normalised; a few more that are out do no harm.
        raw_floors = getattr(self.transform, "raw_floors", None)
        values = self.transform(scores) if raw_floors is None else scores
        cuts = self.cuts if raw_floors is None else self._floors
        return one_above(values, cuts)  # type: ignore[no-any-return]

    @cached_property
    def _floors(self) -> list[float]:
        return self.transform.raw_floors(self.cuts)  # type: ignore[attr-defined,no-any-return]

    def counts(
        self, scoring: Scoring, weights: FloatArray, thresholds: FloatArray, outputs: Outputs
    ) -> IntArray:
        """Return the labels in the sets of a block for every weight vector, int64 (m,)."""
        planes = self.labels(scoring, outputs).T
        counts = np.zeros(len(weights), dtype=np.int64)
        for some in row_blocks(planes.shape[1], 1, CACHE_ENTRIES):
            count_reached(np.ascontiguousarray(planes[:, some]), weights, thresholds, counts)
        return counts


def size_objective(
    true_scores: FloatArray,
    parts: Sequence[FarOutputs],
    reach: Reach,
    k: int,
    *,
    threads: int | None,
) -> SizeObjective:
    """Return the sizes on rows that are elsewhere, for weights that are not negative."""
    labels = _labels_within_reach(parts, reach)
    if labels is None:
        return FarObjective(true_scores, parts, reach, k, threads=threads)
    shape = sum(len(part) for part in parts), parts[0].shape[1]
    size_parts = [some[:, None, :] for some in labels]  # rows of one label each
    return SizeObjective(true_scores, size_parts, k, threads=threads, shape=shape)


def _labels_within_reach(parts: Sequence[FarOutputs], reach: Reach) -> list[FloatArray] | None:
    """Return the normalised scores (L, d) of labels that may be in; None where they are many."""
    whole: list[FloatArray] = []
    small: list[FloatArray] = [np.empty((0, parts[0].shape[2]))]
    held_bytes = 0
    most = min(REACHED_BYTES, machine_memory() / 4)
    for part in parts:
        for _, labels in part.source.map(partial(reach.labels, part.scoring), part.rows):
            held_bytes += labels.nbytes
            if held_bytes > most:
                return None
            small.append(labels)
            if sum(some.nbytes for some in small) > PART_BYTES:
                whole.append(np.concatenate(small))
                small.clear()
    return [*whole, np.concatenate(small)] if small else whole


class FarObjective(SizeObjective):
    """Set sizes as a function of the weights, counted where the rows are.

    Parameters
    ----------
    true_scores, k, threads
        As in `conformix.search.objective.SizeObjective`.
    parts : sequence of FarOutputs
        The size rows.
    reach : Reach
        Which of their labels may be in.
    """

    plain = False  # no engine has the scores

    def __init__(
        self,
        true_scores: FloatArray,
        parts: Sequence[FarOutputs],
        reach: Reach,
        k: int,
        *,
        threads: int | None = None,
    ) -> None:
        shape = sum(len(part) for part in parts), parts[0].shape[1]
        super().__init__(true_scores, (), k, threads=threads, shape=shape)
        self.parts, self.reach = tuple(parts), reach

    def thresholds(self, weights: FloatArray) -> FloatArray:
        """Return the k-th largest combined true-label score for every weight vector, (m,)."""

        def threshold(w: FloatArray) -> float:
            return kth_largest(combine(self.true_scores, w), self.k)

        return np.array(self.run(threshold, list(weights)))

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the labels in all sets of the size rows for every weight vector, int64 (m,)."""
        if self.k > len(self.true_scores):
            return np.full(len(weights), self.n_pairs)
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        thresholds = self.thresholds(weights)
        total = np.zeros(len(weights), dtype=np.int64)
        for part in self.parts:
            count = partial(self.reach.counts, part.scoring, weights, thresholds)
            total += part.source.fold(count, operator.add, part.rows)
        return total


def score_bytes(n: int, n_classes: int, d: int) -> int:
    """Return the memory of the scores of all labels of n rows."""
    return 8 * n * n_classes * d


def machine_memory() -> float:
    """Return the bytes of memory that this machine has; no bound where it does not say."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def refuse_rows_beyond_memory(n: int, source: Source) -> None:
    """Refuse to bring the outputs of so many rows here that they do not fit."""
    needed, there = score_bytes(n, source.n_classes, len(tuple(source.models))), machine_memory()
    if needed > there:
        raise InvalidInput(
            f"these settings bring the outputs of {n:,} rows here, {needed / 1e9:.1f} GB, and this "
            f'machine has {there / 1e9:.1f} GB; say split="holdout" (vfcp), whose tuning rows are '
            "bounded."
        )


def refuse_beyond_memory(split: str, needed: int) -> None:
    """Refuse a split that keeps the scores of all rows where the machine's memory is too small."""
    there = machine_memory()
    if needed > there:
        raise InvalidInput(
            f'split "{split}" keeps the scores of all rows, {needed / 1e9:.1f} GB, and this '
            f'machine has {there / 1e9:.1f} GB; say split="holdout" (vfcp), which holds its tuning '
            "rows only."
        )
