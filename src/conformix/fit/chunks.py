"""Labelled rows in the chunks of Dask arrays: the work is done where the chunks are.

Workers score their chunks and keep the scores of the true labels. Here arrive the labels and the
outputs of the tuning rows, which are searched here, and in the end one number per calibration row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from conformix.data.chunks import Chunked, chunked, column_of, here, packed, unpacked
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Arithmetic, Outputs, Source, check_groups, chosen, taken
from conformix.data.row_data import RowData, check_rows
from conformix.data.workers import computed, fold, persisted
from conformix.fit.far import FarOutputs, far_scores, refuse_rows_beyond_memory
from conformix.fit.predictor import Predictor
from conformix.fit.rows import ArrayRows, check_test, is_each, on_host, other_rows
from conformix.fit.scored import (
    Combination,
    HeldScores,
    OfModels,
    Scored,
    Scoring,
    SourceReader,
    assembled,
    merged,
    no_roles,
    rising,
    side_by_side,
    summarised,
)
from conformix.fit.settings import Settings, is_symmetric
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores.blend import PLAINLY, Blend, Computing
from conformix.splits import Roles, Split


@dataclass(frozen=True, eq=False)
class ChunkScores:
    """True-label scores (n, d) in chunks of rows: of every row one number comes back, never d."""

    chunks: tuple[Any, ...]  # delayed scores (r, d) of every chunk, kept by the workers
    sizes: tuple[int, ...]  # rows of every chunk
    rows: IntArray | None = None  # which rows these are, rising; by default all

    def __len__(self) -> int:
        return sum(self.sizes) if self.rows is None else len(self.rows)

    @property
    def values(self) -> FloatArray:
        """All of them, fetched."""
        return np.concatenate(computed(*self._each(_combined, _same)))

    def take(self, rows: IntArray) -> ChunkScores:
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def changed(self, rows: IntArray, values: FloatArray) -> HeldScores:
        return HeldScores(self.values).changed(rows, values)

    def combined(self, combine: Combination) -> FloatArray:
        return np.concatenate(computed(*self._each(_combined, combine)))

    def rising(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, sorted by the workers: runs, merged in a tree."""
        from dask import delayed  # noqa: PLC0415  there already

        runs = self._each(_run, combine)
        (values,) = computed(fold(runs, delayed(merged, pure=False)))
        return values  # type: ignore[no-any-return]

    def _each(self, work: Callable[..., FloatArray], combine: Combination) -> list[Any]:
        """Return the tasks ``work(combine, scores, chosen)`` of all chunks."""
        from dask import delayed  # noqa: PLC0415

        task = delayed(work, pure=False)
        shared = delayed(combine, pure=False, traverse=False)
        chosen: list[Any] = [None] * len(self.chunks)
        if self.rows is not None:
            chosen = packed(self.rows, sum(self.sizes), self.sizes)
        return [task(shared, *one) for one in zip(self.chunks, chosen, strict=True)]


def _same(scores: FloatArray) -> FloatArray:
    return scores


def _combined(combine: Combination, scores: FloatArray, chosen: Any) -> FloatArray:
    """Return the numbers of the chosen rows of a chunk, given by their bits."""
    chosen_scores = scores if chosen is None else scores[unpacked(chosen, len(scores))]
    return combine(chosen_scores)


def _run(combine: Combination, scores: FloatArray, chosen: Any) -> FloatArray:
    return rising(_combined(combine, scores, chosen))


@dataclass(frozen=True, eq=False)
class ChunkRows(OfModels):
    """Labelled rows in chunks; see `conformix.fit.rows.Rows`."""

    outputs: Chunked
    y: Any  # an array or a Dask array (n,), not looked at yet
    data: RowData
    groups: IntArray | None = None
    classes: tuple[Any, ...] | None = None
    test: Source | None = None
    unlabelled: Source | None = None
    each_row: bool = False

    @property
    def n(self) -> int:
        return self.outputs.n

    def take(self, rows: IntArray) -> ArrayRows:
        refuse_rows_beyond_memory(len(rows), self.outputs)
        y = label_indices(here(self.y), self.classes, self.n, self.n_classes)
        groups = None if self.groups is None else self.groups[rows]
        return ArrayRows(
            taken(self.outputs, rows), y[rows], self.data.take(rows), groups, self.test,
            self.classes, self.unlabelled,
        )  # fmt: skip

    def blended(self, blend: Blend, how: Computing = PLAINLY) -> ChunkRows:
        return replace(self, outputs=blend.in_blocks(self.outputs))

    def as_fitted(self, predictor: Predictor) -> ChunkRows:
        """Return the rows as a fitted model reads them: by its blend, in its arithmetic."""
        rows = self if predictor.blend is None else self.blended(predictor.blend)
        through = partial(_as_fitted, predictor.blend, predictor.arithmetic)
        return replace(rows, outputs=replace(rows.outputs, through=through))

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return true-label scores that stay with the workers, and all of the tuning rows."""
        there = replace(scoring, threads=1)  # a task is one core
        n_test, test = 0, None
        if split is None:
            roles = no_roles(self.n)
        else:
            check_test(split, None if self.test is None else self.test.n)
            if split.needs_test and self.test is not None:
                n_test, test = self.test.n, FarOutputs(self.test, there, split=split.name)
            if roles is None:
                roles = split.roles(self.n, n_test, rng, self.groups)
        bounded = split is None or hasattr(split, "held_in")
        true, models, labels = self._first_pass(roles.tune if bounded else np.arange(0), there)
        if bounded:
            reader = SourceReader(self.outputs, there)
            scores: Any = assembled(true, models, roles.tune, self.outputs, scoring, reader=reader)
        elif split is not None and is_symmetric(split):
            scores = FarOutputs(self.outputs, scoring, split=split.name).tensor
        else:
            assert split is not None
            scores = far_scores(true, roles.tune, self.outputs, there, split.name)
        return Scored(scores, labels, roles, self.data, test, grouped=self.groups is not None)

    def _first_pass(
        self, tune: IntArray, scoring: Scoring
    ) -> tuple[ChunkScores, dict[str, FloatArray], IntArray]:
        """Return true-label scores, outputs of the tuning rows (m, K) by model, and labels (n,)."""
        from dask import delayed  # noqa: PLC0415  there already: outputs are its arrays

        n, sizes = self.outputs.shape[0], self.outputs.sizes
        work = delayed(_summary, pure=False, nout=2)
        shared = delayed((self.outputs.light, scoring, self.classes), pure=False, traverse=False)
        labels = list(column_of(self.y, sizes).to_delayed(optimize_graph=False))
        steps = zip(
            self.outputs.delayed(), labels, packed(tune, n, sizes), self.outputs.starts, strict=True
        )
        pairs = [tuple(work(shared, *step)) for step in steps]
        # Both halves of a summary at once, so that no chunk is scored twice; the second is let go.
        there = persisted(*(true for true, _ in pairs), *(rest for _, rest in pairs))
        back = computed(*there[len(pairs) :])
        models = side_by_side([outputs for outputs, _ in back])
        y = np.concatenate([labels for _, labels in back])
        return ChunkScores(there[: len(pairs)], sizes), models, y


def _as_fitted(blend: Blend | None, arithmetic: Arithmetic, outputs: Outputs) -> Outputs:
    outputs = replace(outputs, arithmetic=arithmetic)
    return outputs if blend is None else blend.over(outputs)


def chunk_rows(
    outputs: Any,
    y: Any,
    settings: Settings,
    *,
    test: Any = None,
    groups: Any = None,
    classes: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    unlabelled: Any = None,
) -> ChunkRows:
    """Return labelled rows of Dask arrays as a user gives them, checked as far as they are here."""
    chunks = chunked(outputs, settings.kind)
    n, n_classes = chunks.shape
    scheme = settings.calibration
    data = check_rows(here(strata), here(sample_weight), n, scheme.needs, scheme.name)
    names = check_classes(classes, n_classes)
    checked, each_row = None, is_each(test)
    if settings.weights is None and not each_row:
        checked = on_host(other_rows(test, settings.kind, "test", chunks))
    others = on_host(other_rows(unlabelled, settings.kind, "unlabelled", chunks))
    ids = check_groups(here(groups), n)
    return ChunkRows(chunks, y, data, ids, names, checked, others, each_row)


def _summary(shared: Any, chunk: list[Any], y: Any, bits: Any, first: int) -> Any:
    """Return of one chunk the true-label scores, and a pair for the client.

    The pair are the outputs of the tuning rows, and labels in as few bytes as K asks for.
    """
    light, scoring, classes = shared
    n, n_classes = chunk[0].shape
    labels = label_indices(y, classes, n, n_classes, first=first)
    tune = unpacked(bits, n)
    true_blocks, tuning_blocks, start = [], [], 0
    for outputs in light.blocks(chunk, first):
        rows = slice(start, start + outputs.n)
        start = rows.stop
        keep = chosen(tune, rows.start, outputs.n)[1]
        scores, models = summarised(outputs, labels[rows], keep, scoring)
        true_blocks.append(scores)
        tuning_blocks.append(models)
    small = labels.astype(np.min_scalar_type(n_classes - 1))
    return np.concatenate(true_blocks), (side_by_side(tuning_blocks), small)
