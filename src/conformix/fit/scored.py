"""What the algorithm sees: scores, labels and roles, wherever the rows live.

The search needs the scores of all labels, (K, d) numbers, of the rows that tune and count sizes.
A calibration row needs those of its true label alone: d numbers, known before any weight is. So
one pass over the rows gathers all that a fit needs, and its memory is that of the tuning rows.
A tensor (n, K, d) of all rows and what is gathered here go through the same pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from conformix.data.outputs import Kind, Outputs
from conformix.data.row_data import NO_DATA, RowData
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, of_labels, some_rows
from conformix.kernels.blocks import row_blocks
from conformix.scores.names import Column
from conformix.scores.one_label import true_label_scores
from conformix.scores.scale import CACHE_ENTRIES, Normalizer
from conformix.scores.tensor import fill_tensor
from conformix.splits import Roles


@dataclass(frozen=True)
class Scoring:
    """How outputs become scores."""

    columns: tuple[Column, ...]  # which score of which model every plane holds
    key: int  # of the row uniforms of randomised scores
    threads: int | None = None

    def tensor(self, outputs: Outputs) -> FloatArray:
        """Return the scores (n, K, d) of all labels of some rows."""
        return fill_tensor(outputs, self.columns, key=self.key, threads=self.threads)

    def of_true_labels(self, outputs: Outputs, y: IntArray) -> FloatArray:
        """Return the scores (n, d) of the true labels of some rows, without a tensor."""
        return true_label_scores(outputs, y, self.columns, key=self.key, threads=self.threads)


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
    def kind(self) -> Kind:
        return self.outputs.kind  # type: ignore[no-any-return]


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
    test: FloatArray | None = None  # (m, K, d), for the transductive splits
    grouped: bool = False

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


# From scores (r, d) to numbers (r,), each made of its own row alone.
Combination: TypeAlias = Callable[[FloatArray], FloatArray]


class TrueScores(Protocol):
    """The scores (n, d) of the true labels of n rows, held here or elsewhere."""

    def __len__(self) -> int: ...

    def take(self, rows: IntArray) -> TrueScores:
        """Return those of some rows, whose numbers rise."""

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
    return np.sort(values, kind="stable")


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
class BlockReader:
    """Rows that this process reads."""

    blocks: Callable[[], Iterable[Outputs]]  # begins again: the outputs of all rows, in order
    scoring: Scoring

    def map(
        self, function: Callable[..., Any], rows: IntArray, arrays: tuple[Any, ...]
    ) -> Iterator[tuple[slice, Any]]:
        first = 0
        for outputs in self.blocks():
            places, within = chosen(rows, first, outputs.n)
            first += outputs.n
            if len(within):
                scores = self.scoring.tensor(outputs)
                block = scores if len(within) == outputs.n else some_rows(scores, within)
                yield places, function(block, *cut(arrays, places))

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        return sum(total for _, total in self.map(function, rows, arrays))


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
        for block in row_blocks(len(rows), self.tensor.shape[1] * self.tensor.shape[2]):
            yield block, function(some_rows(self.tensor, rows[block]), *cut(arrays, block))

    def sum(self, function: Callable[..., int], rows: IntArray, arrays: tuple[Any, ...]) -> int:
        return sum(total for _, total in self.map(function, rows, arrays))


def chosen(rows: IntArray, first: int, n: int) -> tuple[slice, IntArray]:
    """Return the places in rising `rows` of a block of n rows, and where in the block they are.

    Examples
    --------
    >>> chosen(np.array([1, 4, 5]), 3, 2)
    (slice(1, 2, None), array([1]))
    """
    start, stop = np.searchsorted(rows, [first, first + n])
    return slice(int(start), int(stop)), rows[start:stop] - first


def cut(arrays: tuple[Any, ...], rows: Any) -> list[Any]:
    """Return the same rows of several arrays, None where there is none."""
    return [None if array is None else array[rows] for array in arrays]


@dataclass(frozen=True, eq=False)
class Gathered:
    """The scores of n rows, as far as a fit needs them.

    Examples
    --------
    >>> scores = np.arange(12.0).reshape(3, 2, 2)
    >>> true = HeldScores(scores[[0, 1, 2], [0, 0, 1]])
    >>> some = Gathered((3, 2, 2), np.array([1]), scores[[1]], true)
    >>> some.take(np.array([1])).shape
    (1, 2, 2)
    >>> some.take(np.array([0, 2])).true.combined(lambda values: values[:, 0])
    array([ 0., 10.])
    """

    shape: tuple[int, int, int]  # n, K and d
    tensor_rows: IntArray  # rising numbers of the m rows whose scores are all here
    tensor: FloatArray  # their scores (m, K, d)
    true: TrueScores  # the scores (n, d) of the true labels of all rows
    reader: Reader | None = None  # None where rows came from an iterator, which ends

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: IntArray) -> Any:
        """Return the scores of some rows: an array where all are here, else `GatheredRows`."""
        if np.array_equal(rows, self.tensor_rows):
            return self.tensor
        first_is_here = bool(len(rows)) and bool(np.isin(rows[:1], self.tensor_rows).all())
        if first_is_here and np.isin(rows, self.tensor_rows).all():
            return some_rows(self.tensor, np.searchsorted(self.tensor_rows, rows))
        return GatheredRows(self, rows)

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
    none: IntArray = np.arange(0)
    return GatheredRows(Gathered(scores.shape, none, scores[:0], true, TensorReader(scores)), rows)


def in_blocks(
    scores: Any, function: Callable[..., Any], *arrays: Any
) -> Iterator[tuple[slice, Any]]:
    """Yield ``function(block, *values)`` for blocks of rows, of a tensor or of gathered rows."""
    if isinstance(scores, Gathered | GatheredRows):
        yield from scores.map(function, *arrays)
        return
    for block in row_blocks(*scores.shape[:2]):
        yield block, function(scores[block], *cut(arrays, block))


def summed(scores: Any, function: Callable[..., int], *arrays: Any) -> int:
    """Return the sum of integers ``function(block, *values)`` over blocks of rows."""
    if isinstance(scores, Gathered | GatheredRows):
        return scores.sum(function, *arrays)
    return sum(total for _, total in in_blocks(scores, function, *arrays))


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
    like: Outputs,
    scoring: Scoring,
    *,
    reader: Reader | None,
) -> Gathered:
    """Return the scores of a pass: `models` hold the outputs of the rows with all scores.

    `like` are any outputs of the same models.
    """
    tensor: FloatArray = np.empty((0, like.n_classes, len(scoring.columns)))
    if len(tensor_rows):
        tensor = scoring.tensor(replace(like, models=models, unchecked=None))
    return Gathered((len(true), *tensor.shape[1:]), tensor_rows, tensor, true, reader)


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

    def blocks() -> Iterator[Outputs]:
        for rows in outputs.blocks():
            yield outputs.read(rows)
            outputs.release_pages()

    true_blocks, model_blocks, first = [], [], 0
    for block in blocks():
        keep = chosen(tensor_rows, first, block.n)[1]
        scores, models = summarised(block, y[first : first + block.n], keep, scoring)
        true_blocks.append(scores)
        model_blocks.append(models)
        first += block.n
    true, models = HeldScores(np.concatenate(true_blocks)), side_by_side(model_blocks)
    model_blocks.clear()  # what is kept of the outputs is held once
    return assembled(
        true, models, tensor_rows, outputs, scoring, reader=BlockReader(blocks, scoring)
    )


class TuningRows:
    """The scores (m, K, d) of the tuning rows, normalised by what is learnt from them.

    Where nobody else needs these scores (`spare`) they are normalised where they are, and the
    search of a large fit holds them once.

    Examples
    --------
    >>> from conformix.scores.scale import NaturalScale
    >>> scores = np.array([[[2.0], [4.0]]])
    >>> rows = TuningRows(scores, np.array([1]), NaturalScale((2.0,)), (), spare=True)
    >>> rows.true_scores, rows.scores.ravel(), rows.scores is scores
    (array([[2.]]), array([1., 2.]), True)
    """

    def __init__(
        self,
        scores: FloatArray,
        y: IntArray,
        normalizer: Normalizer,
        columns: Sequence[Column],
        *,
        spare: bool,
    ) -> None:
        self.y = y
        self.transform = normalizer.fit(scores, columns)
        self.true_scores: FloatArray = self.transform(of_labels(scores, y))
        self._raw: Any = scores
        # A transform of the user's may hold on to the rows that it was learnt from.
        ours = not getattr(self.transform, "holds_rows", True)
        # Scores in single precision have no room for what becomes of them.
        self._in_place = spare and ours and not is_tensor(scores) and scores.dtype == np.float64

    @cached_property
    def scores(self) -> FloatArray:
        """Normalised scores of all labels, shape (m, K, d), made at first use."""
        raw, self._raw = self._raw, None
        if not self._in_place:
            return self.transform(raw)
        for block in row_blocks(raw.shape[0], raw.shape[1], CACHE_ENTRIES):
            raw[block] = self.transform(raw[block])
        return raw  # type: ignore[no-any-return]
