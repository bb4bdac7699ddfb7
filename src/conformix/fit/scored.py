"""What the algorithm sees: scores, labels and roles, wherever the rows live.

The search needs the scores of all labels, (K, d) numbers, of the rows that tune and count sizes.
A calibration row needs those of its true label alone: d numbers, known before any weight is. So
one pass over the rows gathers all that a fit needs, and its memory is that of the tuning rows.
A tensor (n, K, d) of all rows and what is gathered here go through the same pipeline.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from conformix.data.checks import mapping
from conformix.data.outputs import Form, Outputs, Source, chosen, cut, one_below_the_other
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, of_labels, some_rows, to_device
from conformix.kernels.blocks import entries_for, row_blocks
from conformix.kernels.twins import compile_for
from conformix.scores.ensemble import Ensemble
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked
from conformix.scores.sorted_rows import are_sorted
from conformix.scores.tensor import fill_tensor
from conformix.scores.upper_rows import SortedOutputs, true_label_scores
from conformix.splits import Roles


@dataclass(frozen=True)
class Scoring:
    """How outputs become scores."""

    columns: tuple[Column, ...]  # which score of which model every plane holds
    key: int  # of the row uniforms of randomised scores
    threads: int | None = None
    ensemble: Ensemble | None = None  # whose scores the columns are

    def tensor(self, outputs: Outputs) -> FloatArray:
        """Return the scores (n, K, d) of all labels of some rows."""
        outputs = self._scored(outputs)
        return fill_tensor(outputs, self.columns, key=self.key, threads=self.threads)

    def view(self, outputs: Outputs) -> FloatArray:
        """Return the same, for reading alone: outputs that are the only score are not copied."""
        known = self._as_they_are(outputs)
        return self.tensor(outputs) if known is None else known

    def of_true_labels(
        self, outputs: Outputs, y: IntArray, rows: IntArray | None = None
    ) -> FloatArray:
        """Return the scores (m, d) of the true labels of some rows, or of all, without a tensor."""
        known = self._as_they_are(outputs)
        if known is not None:
            compile_for(known.size)  # labels in sets are put in order by a loop
            return known[np.arange(len(y)) if rows is None else rows, y]  # type: ignore[no-any-return]
        outputs = self._scored(outputs if rows is None else outputs.rows(rows))
        return true_label_scores(outputs, y, self.columns, key=self.key, threads=self.threads)

    def are_outputs(self, outputs: Outputs) -> bool:
        """Whether outputs in host memory are the only score, as they are."""
        if self.ensemble is not None or len(self.columns) > 1 or outputs.on_device:
            return False
        score, values = self.columns[0].score, outputs.models.get(self.columns[0].model)
        here = isinstance(values, np.ndarray) and values.dtype == np.float64
        return here and score.is_output(outputs.kind)

    def plane(self, outputs: Outputs) -> FloatArray | None:
        """Return the only score (n, K), where checked outputs are it and read from no file."""
        if not self.are_outputs(outputs) or outputs.unchecked is not None:
            return None
        values = outputs.models[self.columns[0].model]
        return values if mapping(values) is None else None

    def _as_they_are(self, outputs: Outputs) -> FloatArray | None:
        """Return outputs in host memory (n, K, 1) where they are the only score."""
        if not self.are_outputs(outputs):
            return None
        score, values = self.columns[0].score, outputs.models[self.columns[0].model]
        # The score may refuse some; it hands the others on.
        return score(Ranked(values, outputs.kind, arithmetic=outputs.arithmetic))[:, :, None]  # type: ignore[no-any-return,arg-type]

    def _scored(self, outputs: Outputs) -> Outputs:
        return outputs if self.ensemble is None else self.ensemble.over(outputs)


class OfModels:
    """Rows of one or several models: what their `outputs` say of all of them."""

    outputs: Any

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(self.outputs.models)

    @property
    def n_classes(self) -> int:
        return int(self.outputs.n_classes)

    @property
    def kind(self) -> Form:
        """What the outputs are as they come in."""
        return getattr(self.outputs, "form", None) or self.outputs.kind  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored rows with their roles.

    `scores` (n, K, d) are a tensor, or `Gathered`: those of rows that only calibrate need not be
    held. A fit uses up what was gathered for it, and normalises the scores of the tuning rows
    where they are.
    """

    scores: Any
    y: IntArray  # of any width: the labels of many rows come in few bytes
    roles: Roles
    data: RowData = NO_DATA
    test: Any = None  # (m, K, d), for the transductive splits
    grouped: bool = False
    n_batch: int = 0  # test rows that scores have learnt from, as from the calibration rows
    n_unlabelled: int = 0  # further rows that they have learnt from

    @property
    def n_classes(self) -> int:
        return int(self.scores.shape[1])

    @property
    def n_test(self) -> int:
        return 0 if self.test is None else len(self.test)


def no_roles(n: int) -> Roles:
    """Return the roles where nothing is left to tune: all rows calibrate."""
    none: IntArray = np.arange(0)
    return Roles(none, none, np.arange(n))


# Outputs of which the upper ends of all rows are held sorted; beyond it those of the tuning rows
# alone, and the others are read again where they are needed.
SORTED_TOGETHER = 2**25

# From scores (r, d) to numbers (r,), each made of its own row alone.
Combination: TypeAlias = Callable[[FloatArray], FloatArray]


class TrueScores(Protocol):
    """The scores (n, d) of the true labels of n rows, held here or elsewhere."""

    def __len__(self) -> int: ...

    @property
    def values(self) -> FloatArray:
        """All of them, here, (n, d)."""

    def take(self, rows: IntArray) -> TrueScores:
        """Return those of some rows, whose numbers rise."""

    def changed(self, rows: IntArray, values: FloatArray) -> TrueScores:
        """Return them with other values (r, d) of some rows."""

    def combined(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, in the order of the rows, (n,)."""

    def rising(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, sorted upwards, equal ones as the rows are, (n,)."""


@dataclass(frozen=True, eq=False)
class HeldScores:
    """True-label scores (n, d) in the memory of this process.

    Examples
    --------
    >>> true = HeldScores(np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]]))
    >>> true.combined(lambda scores: scores.sum(axis=1))
    array([4., 2., 2.])
    >>> true.take(np.array([0, 2])).rising(lambda scores: scores.sum(axis=1))
    array([2., 4.])
    """

    values: FloatArray

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: IntArray) -> HeldScores:
        return HeldScores(self.values[rows])

    def changed(self, rows: IntArray, values: FloatArray) -> HeldScores:
        self.values[rows] = values
        return self

    def combined(self, combine: Combination) -> FloatArray:
        return combine(self.values)

    def rising(self, combine: Combination) -> FloatArray:
        return rising(self.combined(combine))


def rising(values: FloatArray) -> FloatArray:
    """Return numbers sorted upwards, equal ones in their order.

    Examples
    --------
    >>> rising(np.array([0.5, 0.0, -0.0]))
    array([ 0. , -0. ,  0.5])
    """
    found = np.sort(values)  # sooner than a stable sort, after which equal numbers may differ
    first, last = np.searchsorted(found, 0.0), np.searchsorted(found, 0.0, side="right")
    if last - first > 1:  # in their sign alone, and where they are zero
        found[first:last] = values[values == 0]
    return found


def merged(runs: Sequence[FloatArray]) -> FloatArray:
    """Return rising runs as one, equal numbers in the order of the runs.

    A stable sort finds runs that rise already and merges them: linear time for a few of them.

    Examples
    --------
    >>> merged([np.array([0.0, 0.5]), np.array([-0.0, 0.2])])
    array([ 0. , -0. ,  0.2,  0.5])
    """
    values = np.concatenate(runs)
    values.sort(kind="stable")
    return values


class Reader(Protocol):
    """Where the rows can be read once more.

    Both ways ask for ``function(scores, *values)`` of blocks of rows: `scores` are the scores
    (r, K, d) of a block of `rows`, which rise, and `values` the same places of `arrays` (each as
    long as `rows`, or None). Where rows are cut into blocks is the reader's own business.
    """

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        """Yield the places of every block and what the function says of it, in order."""

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        """Return the sum of what the function says: integers, for which no cut matters."""


@dataclass(frozen=True, eq=False)
class SourceReader:
    """Rows that are scored where their outputs are read."""

    source: Source
    scoring: Scoring

    @property
    def plane(self) -> FloatArray | None:
        """The only score (n, K) of all rows, where outputs in memory are it."""
        outputs = self.source
        return self.scoring.plane(outputs) if isinstance(outputs, Outputs) else None

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        return self.source.map(partial(_of_scores, self.scoring, function), rows, arrays)

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        scored = partial(_of_scores, self.scoring, function)
        return int(self.source.fold(scored, operator.add, rows, arrays) or 0)


def _of_scores(
    scoring: Scoring, function: Callable[..., Any], outputs: Outputs, *values: Any
) -> Any:
    of_outputs = getattr(function, "of_outputs", None)  # what needs no tensor of scores
    if of_outputs is not None:
        return of_outputs(scoring, outputs, *values)
    return function(scoring.tensor(outputs), *values)


@dataclass(frozen=True, eq=False)
class TensorReader:
    """Rows of a tensor (n, K, d) that is all in memory; one block of them is copied at a time.

    Examples
    --------
    >>> reader = TensorReader(np.arange(6.0).reshape(3, 2, 1))
    >>> list(reader.map(np.sum, np.array([0, 2]), ()))
    [(slice(0, 2, None), np.float64(10.0))]
    """

    tensor: Any

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        width = self.tensor.shape[1] * self.tensor.shape[2]
        for block in row_blocks(len(rows), width, entries_for(self.tensor)):
            yield block, function(some_rows(self.tensor, rows[block]), *cut(arrays, block))

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        return sum(total for _, total in self.map(function, rows, arrays))


@dataclass(frozen=True, eq=False)
class HeldTensor:
    """The scores (m, K, d) of all labels of some rows."""

    tensor: FloatArray
    spare: bool = False  # whether nobody else needs them: they may be changed where they are

    ordered: ClassVar[None] = None
    threads: ClassVar[int] = 1
    here: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.tensor.shape

    def true_scores(self, y: IntArray) -> FloatArray:
        """Return the scores (m, d) of the true labels."""
        return of_labels(self.tensor, y)  # type: ignore[no-any-return]

    def some(self, rows: slice) -> FloatArray:
        """Return the scores (r, K, d) of some rows."""
        return self.tensor[rows]


@dataclass(frozen=True, eq=False)
class HeldOutputs:
    """Outputs of rows in memory, for the scores of all their labels, made when asked for.

    Where all scores rise with the outputs of one model, the rows have been sorted once (`ordered`).
    """

    outputs: Outputs
    scoring: Scoring
    ordered: SortedOutputs | None = None
    chosen: IntArray | None = None  # rising: which of the outputs' rows are meant; None: all

    spare: ClassVar[bool] = True  # every `tensor` is a new one
    here: ClassVar[bool] = True

    @property
    def threads(self) -> int | None:
        return self.scoring.threads

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self), self.outputs.n_classes, len(self.scoring.columns)

    def __len__(self) -> int:
        return self.outputs.n if self.chosen is None else len(self.chosen)

    @property
    def rows(self) -> IntArray:
        return np.arange(self.outputs.n) if self.chosen is None else self.chosen

    @property
    def tensor(self) -> FloatArray:
        """The scores (m, K, d) of all labels."""
        return self._of(slice(None))

    def true_scores(self, y: IntArray) -> FloatArray:
        """Return the scores (m, d) of the true labels."""
        if self.ordered is not None:
            return self.ordered.true_scores(y, self.rows)
        return self.scoring.of_true_labels(self.outputs, y, self.rows)

    def some(self, rows: slice) -> FloatArray:
        """Return the scores (r, K, d) of some rows, in whatever order of the labels is at hand."""
        return self._of(rows) if self.ordered is None else self.ordered.scores(self.rows[rows])

    def _of(self, rows: slice) -> FloatArray:
        some = self.rows[rows]
        if not len(some):
            return np.empty((0, *self.shape[1:]))
        return self.scoring.tensor(self.outputs.rows(some))


@dataclass(frozen=True, eq=False)
class Gathered:
    """The scores of n rows, as far as a fit needs them.

    Examples
    --------
    >>> from conformix.data.outputs import check_outputs
    >>> from conformix.scores import score_columns
    >>> scoring = Scoring(score_columns(("",), ("thr", "rank")), key=0)
    >>> tuning = HeldOutputs(check_outputs([[0.7, 0.3]]), scoring)
    >>> true = HeldScores(np.array([[0.2, 0.0], [0.7, 1.0], [0.5, 1.0]]))
    >>> some = Gathered((3, 2, 2), np.array([1]), tuning, true)
    >>> some.take(np.array([1])).shape
    (1, 2, 2)
    >>> some.take(np.array([0, 2])).true.combined(lambda values: values[:, 0])
    array([0.2, 0.5])
    """

    shape: tuple[int, int, int]  # n, K and d
    tensor_rows: IntArray  # rising numbers of the m rows whose scores of all labels can be had
    tuning: HeldOutputs | HeldTensor | Any  # their outputs, or their scores, here or elsewhere
    true: TrueScores  # the scores (n, d) of the true labels of all rows
    reader: Reader | None = None  # None where rows came from an iterator, which ends
    ordered: SortedOutputs | None = None  # all rows, sorted, where they are held so

    @property
    def tensor(self) -> FloatArray:
        return self.tuning.tensor

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: IntArray) -> Any:
        """Return the scores of some rows: an array where all are here, else `GatheredRows`."""
        if not self.tuning.here:
            return GatheredRows(self, rows)
        if np.array_equal(rows, self.tensor_rows):
            return self.tensor
        if len(rows) and self._are_here(rows[:1]) and self._are_here(rows):
            return some_rows(self.tensor, np.searchsorted(self.tensor_rows, rows))
        return GatheredRows(self, rows)

    def _are_here(self, rows: IntArray) -> bool:
        here = self.tensor_rows
        places = np.searchsorted(here, rows)
        return bool(len(here)) and bool((here.take(places, mode="clip") == rows).all())

    def map(self, function: Callable[..., Any], *arrays: Any) -> Iterator[tuple[slice, Any]]:
        return self._all_rows.map(function, *arrays)

    def sum(self, function: Callable[..., int], *arrays: Any) -> int:
        return self._all_rows.sum(function, *arrays)

    @property
    def _all_rows(self) -> GatheredRows:
        return GatheredRows(self, np.arange(len(self)))


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """Some rows of what was gathered; it stands for their scores (r, K, d)."""

    whole: Gathered
    rows: IntArray

    @property
    def shape(self) -> tuple[int, int, int]:
        return (len(self.rows), *self.whole.shape[1:])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def true(self) -> TrueScores:
        return self.whole.true.take(self.rows)

    @property
    def ordered(self) -> SortedOutputs | None:
        """All rows of the whole, sorted, where they are held so."""
        return self.whole.ordered

    @property
    def plane(self) -> FloatArray | None:
        """The only score (n, K) of all rows of the whole, where outputs in memory are it."""
        reader = self.whole.reader
        return reader.plane if isinstance(reader, SourceReader) else None

    def map(self, function: Callable[..., Any], *arrays: Any) -> Iterator[tuple[slice, Any]]:
        return self._reader.map(function, self.rows, arrays)

    def sum(self, function: Callable[..., int], *arrays: Any) -> int:
        return self._reader.sum(function, self.rows, arrays)

    @property
    def _reader(self) -> Reader:
        if self.whole.reader is None:
            raise InvalidInput(
                "these settings need the rows a second time, and an iterator ends; give the "
                "batches as a list, a function that returns an iterator, or a source of "
                "conformix.data.batches."
            )
        return self.whole.reader


def true_scores(scores: Any, y: IntArray) -> TrueScores:
    """Return the scores of the true labels, of a tensor or of gathered rows, which have them."""
    if isinstance(scores, Gathered | GatheredRows):
        return scores.true
    return HeldScores(of_labels(scores, y))


def rows_of(scores: Any, rows: IntArray) -> Any:
    """Return the scores of some rows, without a copy where that is all rows in order."""
    if isinstance(scores, Gathered):
        return scores.take(rows)
    whole = np.array_equal(rows, np.arange(len(scores)))
    return scores if whole else some_rows(scores, rows)


def scores_of_tuning_rows(scores: Any, rows: IntArray) -> HeldTensor | HeldOutputs:
    """Return the scores of the tuning rows, or the outputs that they are made of."""
    if isinstance(scores, Gathered) and np.array_equal(rows, scores.tensor_rows):
        return scores.tuning
    tensor = rows_of(scores, rows)
    return HeldTensor(tensor, spare=tensor is not scores)


def rows_in_place(scores: Any, y: IntArray, rows: IntArray) -> Any:
    """Return some of the labelled rows of a tensor, or of gathered ones, without copying scores.

    Examples
    --------
    >>> some = rows_in_place(np.zeros((5, 2, 1)), np.zeros(5, dtype=int), np.array([1, 4]))
    >>> some.shape, summed(some, np.size)
    ((2, 2, 1), 4)
    """
    if isinstance(scores, Gathered):
        return scores.take(rows)
    if np.array_equal(rows, np.arange(len(scores))):
        return scores
    true = HeldScores(of_labels(scores, y))
    return GatheredRows(
        Gathered(scores.shape, np.arange(0), NOTHING, true, TensorReader(scores)), rows
    )


def in_blocks(
    scores: Any, function: Callable[..., Any], *arrays: Any
) -> Iterator[tuple[slice, Any]]:
    """Yield ``function(block, *values)`` for blocks of rows, of a tensor or of gathered rows."""
    if isinstance(scores, Gathered | GatheredRows):
        yield from scores.map(function, *arrays)
        return
    n, width = scores.shape[:2]
    for block in row_blocks(n, width, entries_for(scores)):
        yield block, function(scores[block], *cut(arrays, block))


def summed(scores: Any, function: Callable[..., int], *arrays: Any) -> int:
    """Return the sum of integers ``function(block, *values)`` over blocks of rows."""
    if isinstance(scores, Gathered | GatheredRows):
        return scores.sum(function, *arrays)
    return sum(total for _, total in in_blocks(scores, function, *arrays))


def with_planes(scores: Any, y: IntArray, rows: IntArray, planes: Mapping[int, FloatArray]) -> Any:
    """Return scores in which some rows, those that tune, have other planes (m, K).

    `planes` are by the place of the score. A tensor is changed where it is.
    """
    gathered = isinstance(scores, Gathered)
    tensor = scores.tensor if gathered else scores
    some = slice(None) if gathered else to_device(rows, tensor)
    for j, plane in planes.items():
        tensor[some, :, j] = to_device(plane, tensor)
    if not gathered:
        return tensor
    true = scores.true.changed(rows, of_labels(tensor, y[rows]))
    # Rows that are elsewhere tune and calibrate: their scores are needed as they are.
    return replace(scores, tuning=HeldTensor(tensor, spare=scores.tuning.here), true=true)


def with_known_rows(scored: Scored, roles: Roles, known: Any) -> Scored:
    """Return scored rows with the scores (m, K, d) of those that tune, which are known.

    Of gathered rows none has been scored for tuning. A tensor is changed where it is.
    """
    scores, y = scored.scores, scored.y
    if not isinstance(scores, Gathered):
        planes = {j: known[:, :, j] for j in range(known.shape[2])}
        return replace(scored, scores=with_planes(scores, y, roles.tune, planes), roles=roles)
    true = scores.true
    if not roles.separate:  # else nobody asks for those of rows that tune
        true = true.changed(roles.tune, of_labels(known, y[roles.tune]))
    tuning = HeldTensor(known, spare=True)
    scores = replace(scores, tensor_rows=roles.tune, tuning=tuning, true=true)
    return replace(scored, scores=scores, roles=roles)


def can_be_read(scores: Any) -> bool:
    """Whether the scores of all labels of these rows can be had."""
    return not isinstance(scores, GatheredRows) or scores.whole.reader is not None


def summarised(
    outputs: Outputs, y: IntArray, keep: IntArray, scoring: Scoring
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Return the true-label scores (r, d) of a block, and the outputs of the rows to keep."""
    true = scoring.of_true_labels(outputs, y)
    return true, {name: np.array(values[keep]) for name, values in outputs.models.items()}


def assembled(
    true: TrueScores,
    models: dict[str, FloatArray],
    tensor_rows: IntArray,
    source: Source,
    scoring: Scoring,
    *,
    reader: Reader | None,
) -> Gathered:
    """Return the scores of a pass: `models` hold the outputs of the rows with all scores.

    `source` has the rows.
    """
    if not models:
        models = dict.fromkeys(source.models, np.empty((0, source.n_classes)))
    tuning = with_order(HeldOutputs(Outputs(models, source.kind), scoring))
    return Gathered((len(true), *tuning.shape[1:]), tensor_rows, tuning, true, reader)


NOTHING = HeldOutputs(Outputs({"": np.empty((0, 1))}, "probs"), Scoring((), 0))


def side_by_side(blocks: Sequence[dict[str, FloatArray]]) -> dict[str, FloatArray]:
    """Return the outputs of several blocks as those of one, by model."""
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def gather_rows(outputs: Outputs, y: IntArray, tensor_rows: IntArray, scoring: Scoring) -> Gathered:
    """Return what is gathered from an array, in memory or mapped from a file, block by block.

    Examples
    --------
    >>> from conformix.data.outputs import check_outputs
    >>> from conformix.scores import score_columns
    >>> outputs = check_outputs([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]], later=True)
    >>> scoring = Scoring(score_columns(("",), ("thr",)), key=0)
    >>> scores = gather_rows(outputs, np.array([0, 1, 0]), np.array([2]), scoring)
    >>> scores.true.rising(np.ravel)
    array([0.5, 0.7, 0.8])
    """
    plane = scoring.plane(outputs)
    if plane is not None:  # nothing is checked, nor computed, on the way
        true, all_rows = scoring.of_true_labels(outputs, y), SourceReader(outputs, scoring)
        tuning = with_order(HeldOutputs(outputs.rows(tensor_rows), scoring))
        return Gathered((*plane.shape, 1), tensor_rows, tuning, HeldScores(true), all_rows)
    # A device has room for what fits on it.
    few = outputs.n * outputs.n_classes <= SORTED_TOGETHER or outputs.on_device
    if few and are_sorted(scoring.columns, outputs):
        ordered = SortedOutputs(outputs, scoring.columns, scoring.key, scoring.threads, y)
        outputs = replace(outputs, unchecked=None)
        tuning = HeldOutputs(outputs, scoring, ordered, tensor_rows)
        true = ordered.true_scores(y, np.arange(outputs.n))
        shape, reader = (outputs.n, *tuning.shape[1:]), SourceReader(outputs, scoring)
        return Gathered(shape, tensor_rows, tuning, HeldScores(true), reader, ordered)
    # The true labels of the tuning rows are scored with all their others.
    others = np.setdiff1d(np.arange(outputs.n), tensor_rows, assume_unique=True)
    true = np.empty((outputs.n, len(scoring.columns)))
    kept = []
    for places, block in outputs.map(lambda block: block):
        first = places.start
        kept.append(block.rows(chosen(tensor_rows, first, block.n)[1]))
        rest = chosen(others, first, block.n)[1]
        if len(rest):
            some = None if len(rest) == block.n else rest
            true[first + rest] = scoring.of_true_labels(block, y[first + rest], some)
    outputs = replace(outputs, unchecked=None)  # for whoever reads the rows again
    tuning = HeldOutputs(one_below_the_other(kept), scoring)
    kept.clear()  # what is kept of the outputs is held once
    if len(tensor_rows):
        tuning = with_order(tuning)
        true[tensor_rows] = tuning.true_scores(y[tensor_rows])
    shape, reader = (outputs.n, *tuning.shape[1:]), SourceReader(outputs, scoring)
    return Gathered(shape, tensor_rows, tuning, HeldScores(true), reader)


def with_order(held: HeldOutputs) -> HeldOutputs:
    """Return rows sorted where their scores rise with the outputs."""
    columns = held.scoring.columns
    if not len(held) or not are_sorted(columns, held.outputs):
        return held
    how = held.scoring
    return replace(held, ordered=SortedOutputs(held.outputs, columns, how.key, how.threads))
