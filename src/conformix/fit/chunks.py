"""Labelled rows in the chunks of Dask arrays: the work is done where the chunks are.

Workers score their chunks and keep the scores of the true labels. Here arrive the labels and the
outputs of the tuning rows, which are searched here, and in the end one number per calibration row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from conformix.conformal import simple_fraction
from conformix.data.checks import by_model, is_chunked
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Kind, Outputs, check_groups, check_outputs
from conformix.data.row_data import RowData, check_rows
from conformix.data.workers import computed, fold, persisted
from conformix.errors import InvalidInput
from conformix.fit.scored import (
    Combination,
    OfModels,
    Scored,
    Scoring,
    assembled,
    cut,
    merged,
    no_roles,
    rising,
    side_by_side,
    summarised,
)
from conformix.fit.settings import Settings, check_out_of_core
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.splits import Roles, Split

if TYPE_CHECKING:
    from conformix.fit.predictor import Predictor


@dataclass(frozen=True, eq=False)
class Chunked:
    """Outputs in chunks of rows, the same for all models: Dask arrays (n, K) by name."""

    models: dict[str, Any]
    kind: Kind

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every chunk."""
        return tuple(next(iter(self.models.values())).chunks[0])

    @property
    def starts(self) -> list[int]:
        """The first row of every chunk."""
        return [0, *np.cumsum(self.sizes).tolist()[:-1]]

    @property
    def shape(self) -> tuple[int, int]:
        n, n_classes = next(iter(self.models.values())).shape
        return int(n), int(n_classes)

    @property
    def n_classes(self) -> int:
        return self.shape[1]

    def delayed(self) -> list[list[Any]]:
        """Return the chunks that are still to be computed: one list of models per chunk."""
        columns = [values.to_delayed(optimize_graph=False)[:, 0] for values in self.models.values()]
        return [list(chunk) for chunk in zip(*columns, strict=True)]


def chunked(outputs: Any, kind: Kind) -> Chunked:
    """Return the outputs of one or several models in common chunks of rows, none of them empty."""
    import dask.array as da  # noqa: PLC0415  there already where an argument is chunked

    models = by_model(outputs, "outputs") if isinstance(outputs, Mapping) else {"": outputs}
    arrays: dict[str, Any] = {}
    for name, values in models.items():
        array = values if isinstance(values, da.Array) else da.from_array(values)
        if array.ndim != 2:
            raise InvalidInput(f"outputs must be a (n, K) matrix; got shape {array.shape}.")
        if any(math.isnan(size) for size in array.shape):
            raise InvalidInput(
                "outputs must have chunks of known size; call .compute_chunk_sizes() first."
            )
        if 0 in array.shape:
            raise InvalidInput(f"outputs must not be empty; got shape {array.shape}.")
        rows = next(iter(arrays.values()), array).chunks[0]
        rows = tuple(size for size in rows if size)  # a filter may leave chunks empty
        if arrays and sum(rows) != array.shape[0]:
            raise InvalidInput("outputs of several models must share one shape (n, K).")
        arrays[name] = array.rechunk({0: rows, 1: -1})
    if len({array.shape for array in arrays.values()}) > 1:
        raise InvalidInput("outputs of several models must share one shape (n, K).")
    return Chunked(arrays, kind)


def column_of(values: Any, sizes: tuple[int, ...]) -> list[Any]:
    """Return one number per row in the same chunks, still to be computed."""
    import dask.array as da  # noqa: PLC0415

    there = isinstance(values, da.Array)
    column: Any = values if there else np.asarray(values)
    if column.ndim != 1 or column.shape[0] != sum(sizes):
        raise InvalidInput(
            f"y must hold one label per row, shape ({sum(sizes)},); got shape {column.shape}."
        )
    # Names may be objects, for which Dask chooses no chunks by itself.
    array = column.rechunk((sizes,)) if there else da.from_array(column, (sizes,))
    return list(array.to_delayed(optimize_graph=False))


def packed(rows: IntArray, n: int, sizes: tuple[int, ...]) -> list[Any]:
    """Return which rows of every chunk are among `rows`, one bit per row.

    A task carries these bits: an eighth of a byte for every row, and not eight bytes.

    Examples
    --------
    >>> packed(np.array([0, 4]), 5, (3, 2))
    [array([128], dtype=uint8), array([64], dtype=uint8)]
    """
    among = np.zeros(n, dtype=bool)
    among[rows] = True
    ends = np.cumsum(sizes)
    return [np.packbits(part) for part in np.split(among, ends[:-1])]


def unpacked(bits: Any, n: int) -> IntArray:
    """Return the rows of a chunk whose bits are set.

    Examples
    --------
    >>> unpacked(np.array([128], dtype=np.uint8), 3)
    array([0])
    """
    return np.flatnonzero(np.unpackbits(bits, count=n))


def outputs_of(names: tuple[str, ...], kind: Kind, chunk: list[Any], first: int) -> Outputs:
    """Return a chunk as outputs whose numbers are checked when they are read."""
    models = {name: np.asarray(values) for name, values in zip(names, chunk, strict=True)}
    return check_outputs(models, kind, first=first, later=True)


@dataclass(frozen=True, eq=False)
class ChunkScores:
    """True-label scores (n, d) in chunks of rows: of every row one number comes back, never d."""

    chunks: tuple[Any, ...]  # delayed scores (r, d) of every chunk, kept by the workers
    sizes: tuple[int, ...]  # rows of every chunk
    rows: IntArray | None = None  # which rows these are, rising; by default all

    def __len__(self) -> int:
        return sum(self.sizes) if self.rows is None else len(self.rows)

    def take(self, rows: IntArray) -> ChunkScores:
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

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

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return true-label scores that stay with the workers, and all of the tuning rows."""
        n, n_classes = self.outputs.shape
        roles = no_roles(n) if split is None else split.roles(n, 0, rng, self.groups)
        there = replace(scoring, threads=1)  # a task is one core
        true, models, labels = self._first_pass(roles.tune, there)
        like = Outputs({name: np.empty((0, n_classes)) for name in self.models}, self.kind)
        reader = ChunkReader(self.outputs, there)
        scores = assembled(true, models, roles.tune, like, scoring, reader=reader)
        return Scored(scores, labels, roles, self.data, grouped=self.groups is not None)

    def _first_pass(
        self, tune: IntArray, scoring: Scoring
    ) -> tuple[ChunkScores, dict[str, FloatArray], IntArray]:
        """Return true-label scores, outputs of the tuning rows (m, K) by model, and labels (n,)."""
        from dask import delayed  # noqa: PLC0415  there already: outputs are its arrays

        n, sizes = self.outputs.shape[0], self.outputs.sizes
        work = delayed(_summary, pure=False, nout=2)
        shared = delayed((self.models, self.kind, scoring, self.classes))
        steps = zip(
            self.outputs.delayed(), column_of(self.y, sizes), packed(tune, n, sizes),
            self.outputs.starts,
            strict=True,
        )  # fmt: skip
        pairs = [tuple(work(shared, *step)) for step in steps]
        # Both halves of a summary at once, so that no chunk is scored twice; the second is let go.
        there = persisted(*(true for true, _ in pairs), *(rest for _, rest in pairs))
        here = computed(*there[len(pairs) :])
        models = side_by_side([outputs for outputs, _ in here])
        labels = np.concatenate([labels for _, labels in here])
        return ChunkScores(there[: len(pairs)], sizes), models, labels


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
    check_out_of_core(settings)
    if unlabelled is not None:
        raise InvalidInput(
            "unlabelled is for scores that learn, and these need NumPy arrays; got Dask arrays, so "
            "leave it out, or give arrays to fit (they may be mapped from files)."
        )
    if test is not None:
        raise InvalidInput('test has no use under split "vfcp", the one for Dask arrays.')
    chunks = chunked(outputs, settings.kind)
    n, n_classes = chunks.shape
    scheme = settings.calibration
    data = check_rows(_host(strata), _host(sample_weight), n, scheme.needs, scheme.name)
    names = check_classes(classes, n_classes)
    return ChunkRows(chunks, y, data, check_groups(groups, n), names)


def _host(values: Any) -> Any:
    return computed(values)[0] if is_chunked(values) else values


def _summary(shared: Any, chunk: list[Any], y: Any, bits: Any, first: int) -> Any:
    """Return of one chunk the true-label scores, and a pair for the client.

    The pair are the outputs of the tuning rows, and labels in as few bytes as K asks for.
    """
    names, kind, scoring, classes = shared
    outputs = outputs_of(names, kind, chunk, first)
    labels = label_indices(y, classes, outputs.n, outputs.n_classes, first=first)
    tune = unpacked(bits, outputs.n)
    true_blocks, tuning_blocks = [], []
    for rows in outputs.blocks():
        places = tune[(tune >= rows.start) & (tune < rows.stop)] - rows.start
        scores, models = summarised(outputs.read(rows), labels[rows], places, scoring)
        true_blocks.append(scores)
        tuning_blocks.append(models)
    small = labels.astype(np.min_scalar_type(outputs.n_classes - 1))
    return np.concatenate(true_blocks), (side_by_side(tuning_blocks), small)


@dataclass(frozen=True, eq=False)
class ChunkReader:
    """Rows that workers read once more; see `conformix.fit.scored.Reader`."""

    chunks: Chunked
    scoring: Scoring

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        places, tasks = self._tasks(_answers, function, rows, arrays)
        for where, answers in zip(places, computed(*tasks), strict=True):
            for within, answer in answers:
                yield slice(where.start + within.start, where.start + within.stop), answer

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of the answers, added by the workers: one integer comes back."""
        from dask import delayed  # noqa: PLC0415

        _, tasks = self._tasks(_total, function, rows, arrays)
        (total,) = computed(fold(tasks, delayed(sum, pure=False))) if tasks else (0,)
        return int(total)

    def _tasks(
        self, work: Any, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> tuple[list[slice], list[Any]]:
        """Return for every chunk with some of the rows their places, and the task on them."""
        from dask import delayed  # noqa: PLC0415  there already

        sizes = self.chunks.sizes
        task = delayed(work, pure=False)
        shared = delayed((tuple(self.chunks.models), self.chunks.kind, self.scoring))
        shared_function = delayed(function, pure=False, traverse=False)
        ends = np.searchsorted(rows, np.cumsum(sizes)).tolist()
        places, tasks = [], []
        for chunk, bits, first, start, stop in zip(
            self.chunks.delayed(), packed(rows, self.chunks.shape[0], sizes), self.chunks.starts,
            [0, *ends], ends,
            strict=False,
        ):  # fmt: skip
            if start < stop:
                places.append(slice(start, stop))
                values = cut(arrays, places[-1])
                tasks.append(task(shared, shared_function, chunk, (bits, first), values))
        return places, tasks


def _answers(
    shared: Any, function: Callable[..., Any], chunk: list[Any], chosen: Any, arrays: Any
) -> list[tuple[slice, Any]]:
    """Return ``function`` of blocks of the chosen rows of one chunk, and their places in these."""
    names, kind, scoring = shared
    bits, first = chosen
    outputs = outputs_of(names, kind, chunk, first)
    rows = unpacked(bits, outputs.n)
    answers, place = [], 0
    for block in outputs.blocks():
        begin, end = np.searchsorted(rows, [block.start, block.stop])
        if begin == end:
            continue
        part = outputs.read(block)
        scores = scoring.tensor(part)[rows[begin:end] - block.start]
        where = slice(place, place + int(end - begin))
        place = where.stop
        answers.append((where, function(scores, *cut(arrays, where))))
    return answers


def _total(*task: Any) -> int:
    return sum(total for _, total in _answers(*task))


def predict_chunks(
    predictor: Predictor, outputs: Any, alpha: float | None = None, **rows: Any
) -> Any:
    """Return the sets of Dask outputs as a Dask array of booleans (n, K) in the same chunks.

    Nothing is computed until the array is.
    """
    import dask.array as da  # noqa: PLC0415

    if rows:
        raise InvalidInput(
            f"{next(iter(rows))} does not go with Dask arrays; predict the chunks with "
            "predict_batches."
        )
    level = predictor.alpha if alpha is None else alpha
    if isinstance(level, Sequence) or np.ndim(level):
        raise InvalidInput("sets of Dask arrays are predicted one level at a time.")
    simple_fraction(level)
    fitted = predictor.fitted
    chunks = chunked(outputs, predictor.kind)
    if set(chunks.models) != set(predictor.models) or chunks.shape[1] != predictor.n_classes:
        raise InvalidInput(
            f"outputs must come from the fitted models {sorted(predictor.models)} with "
            f"{predictor.n_classes} classes; got {sorted(chunks.models)} with {chunks.shape[1]}."
        )
    if fitted.needs:
        raise InvalidInput(
            f'calibration "{fitted.ledger.facts.calibration}" needs {fitted.needs[0]} of every '
            "row; predict the chunks with predict_batches."
        )
    at_level: Any = fitted.at_level(level)
    light = replace(predictor, fitted=at_level, threads=1, classes=None)
    return da.map_blocks(
        _predict_chunk, *(chunks.models[name] for name in predictor.models), level=level,
        predictor=light, dtype=bool, meta=np.empty((0, 0), dtype=bool),
    )  # fmt: skip


def _predict_chunk(*chunk: Any, predictor: Predictor, level: float) -> BoolArray:
    models = dict(zip(predictor.models, chunk, strict=True))
    checked = predictor.check({name: np.asarray(v) for name, v in models.items()}, later=True)
    mask = np.empty((checked.n, checked.n_classes), dtype=bool)
    for rows, scores in predictor.blocks(checked):
        mask[rows] = predictor.fitted.member(scores, level)
    return mask
