"""The upper ends of sorted rows, which are all that most rows are ever asked for.

Where all scores rise with the outputs of one model, the labels in a set, and those that a search
looks at, are the upper end of a sorted row. Rows are sorted in a room of the thread's own, a few at
a time, which its cache holds; the largest probabilities of each are kept with their masses, and
whole rows are sorted once more where somebody asks for what lies deeper, as few do.

What a score says of a place is read off these numbers where nothing has to be computed
(`Score.looked_up`), by compiled loops, so that a block takes a few calls and threads hardly wait
for each other. Other scores are computed once for all that is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from conformix.data.checks import are_near_one
from conformix.data.outputs import Outputs
from conformix.kernels import run_blocks
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    is_tensor,
    joined,
    of_labels,
    to_host,
)
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    SHORT_CALLERS,
    Parts,
    batched,
    parts_of_rows,
    rooms,
    row_blocks,
    run_parts,
    shares,
    threads_for,
)
from conformix.kernels.cached import cached_property
from conformix.kernels.twins import compile_for, loops
from conformix.scores.names import Column
from conformix.scores.ranked import Rising
from conformix.scores.sorted_rows import (
    HELD_PLACES,
    Places,
    SortedRows,
    Walk,
    WalkedOver,
    Window,
    are_symmetric,
    outputs_at,
    scores_at,
    sorted_rows,
)
from conformix.scores.tensor import fill_tensor

# Outputs of the rows that a thread has in hand, at most, and as many for each of a few that share
# them; that are shared where all rows are held; and of those that one sorts at once.
BLOCK_OUTPUTS, HELD_OUTPUTS, CACHED_OUTPUTS = 2**20, 2**23, 2**17
# Labels of a row from which on so many times as many outputs are in hand.
MANY_LABELS, ROOMY = 4 * HELD_PLACES, 2
NO_VALUES = np.empty(0)
# Where calls are long, threads wait for each other as if outputs were so many times as many.
LONG_CALLS = 2
# Labels of sorted rows that are looked up in the time in which one is sorted.
LOOKED_UP = 2
# Blocks that a thread sorts between two looks at the memory of a mapped file.
BLOCKS_PER_THREAD = 8


T = TypeVar("T")


class Readings(NamedTuple):
    """How the scores of places are had: by which kind of number, from which tables, or computed."""

    kinds: IntArray  # (d,), see `conformix.kernels.host.lookup`
    tables: FloatArray  # (d, K + 1)
    computed: tuple[Column, ...]  # whose planes are held


def readings(columns: Sequence[Column], n_classes: int) -> Readings:
    """Return how the scores of the columns are had from upper ends."""
    kernel: Any = import_module("conformix.kernels.host.lookup")  # numba, where it is there already
    computed: list[Column] = []
    kinds = np.empty(len(columns), dtype=np.int64)
    tables = np.zeros((len(columns), n_classes + 1))
    numbers = {
        "probs": kernel.PROB, "mass_up_to": kernel.MASS, "below": kernel.BELOW, "rank": kernel.RANK
    }  # fmt: skip
    for j, column in enumerate(columns):
        known = column.score.looked_up(n_classes)
        if known is None:
            kinds[j] = kernel.PLANE + len(computed)
            computed.append(column)
            continue
        kinds[j] = numbers[known.by]
        if known.table is not None:
            tables[j] = known.table
    return Readings(kinds, tables, tuple(computed))


class UpperRows:
    """A block of rows in host memory, sorted, of which the upper ends are held.

    Parameters
    ----------
    source : SortedRows
        The rows, not sorted yet.
    columns : sequence of Column
        Scores that rise with the outputs.
    y : integer array of shape (n,), optional
        Labels whose scores are wanted: `true` (n, d).
    width : int
        How many places are held.
    known : Readings, optional
        How the scores are had, where that is known.
    threads : int or None
        Threads that share the rows, here and wherever they are looked at.
    rows : integer array of shape (n,), optional
        Which rows of the source, where they are read in place; by default all of them.
    """

    at_once: ClassVar[int] = 2**16  # labels of a window whose scores are held
    numbers = staticmethod(SortedRows.numbers)

    def __init__(
        self,
        source: SortedRows,
        columns: Sequence[Column],
        y: IntArray | None,
        width: int = HELD_PLACES,
        known: Readings | None = None,
        *,
        threads: int | None = 1,
        rows: IntArray | None = None,
    ) -> None:
        self._threads, self._rows = threads, rows
        self.block, self._source, self._columns = source.block, source, tuple(columns)
        n, n_classes = len(source.block) if rows is None else len(rows), source.block.shape[1]
        self._n = n
        self._start = max(n_classes - width, 0)
        self._walks: Any = loops("upper", n * n_classes)
        self._lookup: Any = loops("lookup", n * n_classes)
        self._readings = readings(columns, n_classes) if known is None else known
        self._how = self._walks.sorting(self.block.dtype, source.kind == "logits", n_classes)
        shape, n_labels = (n, n_classes - self._start), 0 if y is None else n
        self._walked = WalkedOver(
            np.empty(shape), np.empty((n_labels, 3), np.int64), np.empty((n_labels, 2)),
            np.empty(shape), np.empty(n, np.int64),
        )  # fmt: skip
        self._planes = np.empty((len(self._readings.computed), *shape))
        self._least = np.empty(n, self.block.dtype)  # the smallest output of every row
        as_they_are = source.kind == "probs" and self.block.dtype == np.float64
        self._outputs = self._walked.probs if as_they_are else np.empty(shape, self.block.dtype)
        self._values = NO_VALUES
        if y is not None:
            with np.errstate(invalid="ignore"):  # they may not be checked yet
                self._values = self.block[np.arange(n), y].astype(np.float64)
        self._computed_true = np.empty((n_labels, len(columns)))
        self._ties: list[bool] = []  # of every piece, which threads may add at once

    def filled(self) -> UpperRows:
        """Return this, with all rows sorted, and what is wanted of them kept."""
        n_classes = self.block.shape[1]
        if self._in_place:
            rows = np.arange(self._n) if self._rows is None else self._rows
            self._hold(slice(0, self._n), self.block, rows, self._parts(self._n, n_classes))
            return self

        def fill(rows: slice) -> None:
            some = self.block[rows]
            usual = some.flags.c_contiguous and some.flags.writeable
            parts = Parts(1, len(some), 1)
            self._hold(rows, some if usual else some.copy(), np.arange(len(some)), parts)

        several = threads_for(LONG_CALLS * self._n * n_classes, self._threads)
        share = -(-self._n * n_classes // several)
        run_blocks(fill, row_blocks(self._n, n_classes, min(share, CACHED_OUTPUTS)), several)
        return self

    @property
    def _in_place(self) -> bool:
        """Whether rows are read where they are.

        Compiled loops have one type of memory; scores that are computed ask for sorted rows.
        """
        usual = self.block.flags.c_contiguous and self.block.flags.writeable
        return usual and not self._readings.computed

    def _parts(self, n: int, width: float) -> Parts:
        """Return the parts of `n` rows that threads share, each as long as so many outputs."""
        return parts_of_rows(n, width, self._threads)

    def _hold(self, rows: slice, some: FloatArray, which: IntArray, parts: Parts) -> None:
        """Sort rows (r,) of a block, and keep what is wanted of them in the place of `rows`."""
        r, n_classes = len(which), some.shape[1]
        # Four rows of a thread are sorted at once; scores that are computed ask for all.
        keeps = bool(self._readings.computed)
        shape = (1, r, n_classes) if keeps else (parts.threads, 4, n_classes)
        found = rooms(*shape, dtype=some.dtype)
        numbers = found if some.dtype == np.float64 else rooms(*shape)
        probs = rooms(*shape) if self._source.kind == "logits" else numbers
        own, values = self._walked.part(rows), self._values[rows]
        ends = self._outputs[rows] if self._outputs is not self._walked.probs else found[0, :0]
        ties = np.empty(parts.n, dtype=bool)
        task = self._walks.Holding(
            some, which, self._how, values, own, ends, self._least[rows], keeps,
            (found, numbers, probs), self._walks.spare(parts.threads, n_classes, self._how), ties,
            parts.step,
        )  # fmt: skip
        run_parts(self._walks.hold, parts, task)
        tied = bool(ties.any())
        self._ties.append(tied)
        if self._readings.computed:
            rising = self._source.rising(numbers[0, :r], rows)
            rising.probs = probs[0, :r]
            self._compute(rows, rising, Walk(self._walks, rising, self._start, own, tied))

    def _compute(self, rows: slice, rising: Rising, walk: Walk) -> None:
        window: Any = Window(rising, slice(None), slice(self._start, rising.shape[1]), walk=walk)
        for plane, column in zip(self._planes, self._readings.computed, strict=True):
            plane[rows] = column.score(window)
        if not len(self._values):
            return
        places = walk.found.labels[:, 0]
        labels: Any = Places(rising, np.arange(len(places)), places, walk=walk)
        for j, column in enumerate(self._columns):
            if self._readings.kinds[j] >= self._lookup.PLANE:
                self._computed_true[rows, j] = column.score(labels)[:, 0]

    @cached_property
    def true(self) -> FloatArray | None:
        """The scores (n, d) of the labels y, where there are some."""
        if not len(self._values):
            return None
        (mass, probs), (_, first, last) = self._walked.label_numbers.T, self._walked.labels.T
        for j, kind in enumerate(self._readings.kinds.tolist()):
            if kind < self._lookup.PLANE:
                self._computed_true[:, j] = self._read(j, probs, mass, first, last)
        return self._computed_true

    def _read(
        self, j: int, probs: FloatArray, mass: FloatArray, first: IntArray, last: IntArray
    ) -> FloatArray:
        """Return score j, which is looked up, of labels with these numbers and tie groups."""
        kind, table = self._readings.kinds[j], self._readings.tables[j]
        if kind == self._lookup.PROB:
            return probs
        if kind == self._lookup.MASS:
            return mass
        if kind == self._lookup.RANK:
            table, first = table[::-1], last
        if first.ndim == 2 and not first.strides[0]:  # the same of all rows, without ties
            return np.broadcast_to(table[first[0]], first.shape)
        return table[first]  # type: ignore[no-any-return]

    def are_fine(self, tolerance: float) -> bool:
        """Whether the numbers are seen to be outputs of a model; others may be fine, too.

        The last of sorted logits is finite: NaN comes last, and minus infinity, which keeps a class
        out, first. Of probabilities the first is not negative, and their sum is known; none is
        larger.
        """
        if self._source.kind == "logits":
            return bool(np.isfinite(self._outputs[:, -1]).all())
        return bool((self._least >= 0).all()) and are_near_one(self._walked.mass[:, -1], tolerance)

    @cached_property
    def _upper(self) -> Any:
        found, known = self._walked, self._readings
        return self._lookup.Upper(
            found.probs, found.mass, found.lowest, self._planes, known.kinds, known.tables
        )

    def scores(
        self,
        columns: Sequence[Column],
        rows: IntArray | None,
        places: slice,
        planes: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores (m, w, d) of neighbouring places of some rows, as a view of `planes`.

        All rows where `rows` is None; new planes (d, m, w) where there are none.
        """
        n_rows = self._n if rows is None else len(rows)
        if planes is None:
            planes = np.empty((len(columns), n_rows, places.stop - places.start))
        if places.start < self._start:
            whole = self._whole(np.arange(n_rows) if rows is None else rows)
            return whole.scores(columns, None, places, planes)
        if rows is None and not self._start:
            self._copy_into(planes, places)
        else:
            which = np.arange(n_rows) if rows is None else rows
            parts = self._parts(n_rows, planes.shape[2] / LOOKED_UP)
            start = places.start - self._start
            task = self._lookup.Reading(self._upper, which, start, planes, self._desk(parts))
            run_parts(self._lookup.scores_into, parts, task)
        return np.moveaxis(planes, 0, -1)

    def _copy_into(self, planes: FloatArray, places: slice) -> None:
        """Write the scores of neighbouring places of all rows, where all places are held."""
        for plane, own in zip(planes, self._by_score(places), strict=True):
            plane[:] = own

    def planes(self, rows: IntArray) -> list[FloatArray]:
        """Return the scores (m, K) of all places of some rows: one array per score, not to change.

        Those that are held are no copies.
        """
        every = slice(0, self.block.shape[1])
        whole = self if not self._start and len(rows) == self._n else self._whole(rows)
        return list(whole._by_score(every))

    def _by_score(self, places: slice) -> Iterator[FloatArray]:
        """Yield the scores (n, w) of neighbouring places, where all are held, one by one."""
        shape = self._n, places.stop - places.start
        first = last = np.broadcast_to(np.arange(places.start, places.stop), shape)
        if any(self._ties):
            first, last = np.empty((2, *shape), np.int64)
            every = np.arange(self._n)
            self._walks.tie_ends(self._walked.probs, every, places.start, first, last)
        probs, mass = self._walked.probs[:, places], self._walked.mass[:, places]
        for j, kind in enumerate(self._readings.kinds.tolist()):
            if kind < self._lookup.PLANE:
                yield self._read(j, probs, mass, first, last)
            else:
                yield self._planes[kind - self._lookup.PLANE][:, places]

    def some(self, rows: IntArray) -> SortedRows:
        """Return some of the rows, not sorted yet."""
        return self._source.some(self._of_source(rows))

    def _of_source(self, rows: IntArray) -> IntArray:
        return rows if self._rows is None else self._rows[rows]

    def at(self, rows: IntArray, places: IntArray) -> Places:
        """Return the labels at sorted places (m,) of some rows (m,), which rise."""
        some, within = np.unique(rows, return_inverse=True)
        return self.some(some).at(within, places)

    def true_scores(self, columns: Sequence[Column], y: IntArray, rows: IntArray) -> FloatArray:
        """Return the scores (m, d) of one label each of some rows (m,)."""
        return self._source.true_scores(columns, y, self._of_source(rows))

    def outputs_at(self, places: IntArray) -> FloatArray:
        """Return the outputs (n,) at a place of every row; infinity beyond the last."""
        found: FloatArray = outputs_at(self._outputs, np.maximum(places - self._start, 0))
        deep = np.flatnonzero(places < self._start)
        for part in row_blocks(len(deep), self.block.shape[1], self.at_once):
            some = deep[part]
            found[some] = self.some(some).outputs_at(places[some])
        return found

    def first_places(
        self, rows: IntArray, lines: Any, weights: FloatArray, floors: FloatArray, cuts: FloatArray
    ) -> tuple[IntArray, BoolArray]:
        """Return from where on labels of some rows (m,) are in: combined scores reach cuts (m,).

        And in which rows two of these score alike. `lines` are the scale; scores up to `floors`
        (d,) are out.
        """
        first = np.full(len(rows), self.block.shape[1])
        alike = np.zeros(len(rows), dtype=bool)
        parts = self._parts(len(rows), HELD_PLACES / LOOKED_UP)
        task = self._lookup.Reaching(
            self._upper, rows, lines, weights, floors, cuts, first, alike, self._desk(parts)
        )
        run_parts(self._lookup.reach, parts, task)
        if self._start:
            for deep, whole in self._deep(rows, np.flatnonzero(first == self._start)):
                every = np.arange(len(deep))
                first[deep], alike[deep] = whole.first_places(
                    every, lines, weights, floors, cuts[deep]
                )
        return first, alike

    def within(
        self, rows: IntArray, lines: Any, floors: FloatArray, skipped: int = 0
    ) -> FloatArray:
        """Return the scores (d, L) on their lines of labels of some rows with one above its floor.

        Without so many places from the top as are `skipped`.
        """
        width = max(self._width - skipped, 1)
        labels = np.empty((len(self._columns), len(rows) * width))
        deeper = np.empty(len(rows), dtype=bool)
        parts = self._parts(len(rows), HELD_PLACES / LOOKED_UP)
        counts = np.zeros(parts.n, dtype=np.int64)
        task = self._lookup.Within(
            self._upper, rows, skipped, lines, floors, labels, labels.view(np.int64), deeper,
            counts, self._desk(parts),
        )  # fmt: skip
        run_parts(self._lookup.within, parts, task)
        found: list[FloatArray] = [
            labels[:, part * parts.step * width :][:, :count] for part, count in enumerate(counts)
        ]
        if self._start:
            for deep, whole in self._deep(rows, np.flatnonzero(deeper)):
                found.append(whole.within(np.arange(len(deep)), lines, floors, self._width))
        return joined(found, axis=1)

    def in_pieces(self, function: Callable[[IntArray, slice], T], rows: IntArray) -> list[T]:
        """Return what a function of Python says of pieces of some rows (m,), by threads.

        It is given the rows of a piece, and where they are among those.
        """
        several = threads_for(len(rows) * HELD_PLACES // LOOKED_UP, self._threads)
        pieces = list(shares(len(rows), several)) if len(rows) else [slice(0, 0)]
        return run_blocks(lambda piece: function(rows[piece], piece), pieces, several)

    def _desk(self, parts: Parts) -> Any:
        """Return what walks down rows need beside them."""
        return self._lookup.desk(parts.threads, len(self._columns), parts.step)

    @property
    def _width(self) -> int:
        return self.block.shape[1] - self._start

    def _deep(self, rows: IntArray, deep: IntArray) -> Iterator[tuple[IntArray, UpperRows]]:
        """Yield some of `rows`, by their numbers in `deep`, with all places."""
        for part in row_blocks(len(deep), self.block.shape[1], self.at_once):
            yield deep[part], self._whole(rows[deep[part]])

    def _whole(self, rows: IntArray) -> UpperRows:
        """Return some of the rows, sorted again, with all places."""
        how = self.block.shape[1], self._readings
        source = self._source if self._in_place else self.some(rows)
        which = self._of_source(rows) if self._in_place else None
        whole = UpperRows(source, self._columns, None, *how, threads=self._threads, rows=which)
        return whole.filled()


def are_compiled(outputs: Outputs) -> bool:
    """Whether compiled loops look at the upper ends of rows; else NumPy does, or a device."""
    if outputs.on_device or (outputs.kind == "logits" and outputs.arithmetic != "exact"):
        return False  # the loops have one exponential
    size = outputs.n * outputs.n_classes
    return loops("upper", size) is not None and loops("lookup", size) is not None


class SortedOutputs:
    """All rows of one model in memory, or on a device, sorted once, in blocks.

    Parameters
    ----------
    outputs : Outputs
        Numbers that are not checked yet are checked as the rows are sorted.
    columns : sequence of Column
        Scores that rise with the outputs.
    key : int
        Of the uniform numbers of randomised scores.
    threads : int or None
        Threads to use.
    y : integer array of shape (n,), optional
        Labels whose scores are wanted of all rows.
    """

    def __init__(
        self,
        outputs: Outputs,
        columns: Sequence[Column],
        key: int = 0,
        threads: int | None = None,
        y: IntArray | None = None,
    ) -> None:
        compile_for(0 if outputs.on_device else outputs.n * outputs.n_classes)
        self.columns = tuple(columns)
        self.on_device = outputs.on_device
        self.compiled = are_compiled(outputs)  # whether the blocks are `UpperRows`
        self._asked = 1 if outputs.on_device else threads

        found = list(
            over_sorted(
                outputs, columns, lambda block, _: block, key=key, threads=threads, y=y, holds=True
            )
        )
        self._slices, self._blocks = [rows for rows, _ in found], [block for _, block in found]
        # The scores (n, d) of the labels, where these are known.
        self.true = None if y is None else np.concatenate([b.true for b in self._blocks])

    def map(
        self,
        function: Callable[[Any, IntArray, slice], T],
        rows: IntArray,
        width: int = HELD_PLACES,
    ) -> list[T]:
        """Return ``function(block, within, places)`` of all blocks that hold some of the `rows`.

        `rows` rise; `within` says where in the block some of them are, `places` where in `rows`.
        About `width` labels of a row are looked at.
        """

        def of_block(which: int) -> T:
            return function(self._blocks[which], within[which], places[which])

        starts = [span.start for span in self._slices]
        ends = np.searchsorted(rows, [*starts, self._slices[-1].stop]).tolist()
        places = [slice(*pair) for pair in pairwise(ends)]
        within = [rows[place] - start for place, start in zip(places, starts, strict=True)]
        some = [i for i in range(len(starts)) if len(within[i])]
        if self.compiled:  # loops share the rows of a block
            return [of_block(i) for i in some]
        several = threads_for(len(rows) * width // LOOKED_UP, self._asked)
        return run_blocks(of_block, some, several)

    def true_scores(self, y: IntArray, rows: IntArray) -> FloatArray:
        """Return the scores (m, d) of one label each of some rows, in host memory.

        With the labels of all rows at hand they are known.
        """
        if self.true is not None:
            return self.true[rows]
        if not len(rows):
            return np.empty((0, len(self.columns)))

        def of_block(block: Any, within: IntArray, places: slice) -> FloatArray:
            return to_host(block.true_scores(self.columns, y[places], within))  # type: ignore[no-any-return]

        n_classes = self._blocks[0].block.shape[1]
        return np.concatenate(self.map(of_block, rows, n_classes))

    def planes(self, rows: IntArray) -> list[FloatArray]:
        """Return the scores (m, K) of some rows, labels in sorted order, as d arrays to look at.

        Where compiled loops have sorted the rows; those that these hold are no copies.
        """
        found = self.map(lambda block, within, _: block.planes(within), rows)
        return found[0] if len(found) == 1 else [joined(some) for some in zip(*found, strict=True)]

    def scores(self, rows: IntArray) -> FloatArray:
        """Return the scores (m, K, d) of some rows, labels in sorted order, as d planes."""
        every = slice(0, self._blocks[0].block.shape[1])
        shape = len(rows), every.stop, len(self.columns)

        def of_block(block: Any, within: IntArray, _: slice) -> Any:
            return block.scores(self.columns, within, every)

        if is_tensor(self._blocks[0].block):
            return joined(self.map(of_block, rows)) if len(rows) else np.empty(shape)  # type: ignore[no-any-return]
        planes = np.empty((shape[2], *shape[:2]))

        def fill(block: Any, within: IntArray, places: slice) -> None:
            block.scores(self.columns, within, every, planes[:, places])

        self.map(fill, rows, LONG_CALLS * LOOKED_UP * every.stop)  # they are sorted once more
        return np.moveaxis(planes, 0, -1)


def over_sorted(
    outputs: Outputs,
    columns: Sequence[Column],
    function: Callable[[Any, slice], T],
    *,
    key: int = 0,
    threads: int | None = None,
    y: IntArray | None = None,
    over: Callable[[Outputs], Outputs] | None = None,
    holds: bool = False,
) -> Iterator[tuple[slice, T]]:
    """Yield what a function says of blocks of rows, checked and sorted, one after the other.

    Compiled loops share the rows of a block, which are sorted and looked at by all threads; else
    threads have blocks of their own.

    Parameters
    ----------
    outputs : Outputs
        Numbers that are not checked yet are checked.
    columns : sequence of Column
        Scores of one model that rise with its outputs.
    function : callable
        Of a block of sorted rows, and which rows these are.
    key : int
        Of the uniform numbers of randomised scores.
    threads : int or None
        Threads to use.
    y : integer array of shape (n,), optional
        Labels that will be asked for, one of every row.
    over : callable, optional
        What is sorted instead of the outputs of a block: their blend.
    holds : bool
        Whether all blocks are held: then they may be large. Others find room where the last was.
    """
    entries = outputs.n * outputs.n_classes
    several = 1 if outputs.on_device else threads_for(LONG_CALLS * entries, threads)
    compiled = are_compiled(outputs)
    together = compiled and over is None  # else every thread has a blend to make
    known = readings(columns, outputs.n_classes) if compiled else None
    checks = Checks(outputs, columns, before=over is not None)

    def opened(rows: slice) -> SortedRows:
        checks.begin(rows, several if together else 1)
        part = outputs.rows(rows)
        part = part if over is None else over(part)
        return sorted_rows(part, slice(0, part.n), columns, key)[columns[0].model]

    def alone(rows: slice) -> T:
        own = None if y is None else y[rows]
        block: Any = opened(rows)
        if compiled:
            shared_by = threads if together else 1
            block = UpperRows(block, columns, own, known=known, threads=shared_by).filled()
        else:
            block = block.upper(columns, own)
        checks.end(rows, block)
        return function(block, rows)

    # Pages of a mapped file are given back now and then. Of many labels few are held.
    roomy = ROOMY if outputs.n_classes >= MANY_LABELS else 1
    shared = HELD_OUTPUTS if holds else roomy * BLOCK_OUTPUTS * min(several, SHORT_CALLERS)
    slices = list(sorted_slices(outputs, several, shared if together else 0))
    for some in batched(slices, 1 if together else several * BLOCKS_PER_THREAD):
        yield from zip(some, run_blocks(alone, some, several), strict=True)
        outputs.release_pages()


class Checks:
    """Checks of numbers of which nothing is known yet: before or after rows are sorted.

    What sorted rows say of themselves is known at once. Whatever they leave open is looked at as
    it came, and refused by its first bad row.

    Parameters
    ----------
    outputs : Outputs
        Of one or several models.
    columns : sequence of Column
        Scores of the one that is sorted.
    before : bool
        Whether rows must be checked before anything is made of them.
    """

    def __init__(self, outputs: Outputs, columns: Sequence[Column], *, before: bool) -> None:
        unchecked, model = outputs.unchecked, columns[0].model
        self._outputs, self._tolerance = outputs, None
        if unchecked is not None and not before and not outputs.on_device:
            # Without a walk nobody adds them up, and other models are not sorted.
            alone = set(unchecked.tolerances) == {model}
            if are_compiled(outputs) and alone and unchecked.form in ("probs", "logits"):
                self._tolerance = unchecked.tolerances[model]

    def begin(self, rows: slice, threads: int) -> None:
        """Check some rows by threads, unless they are checked when they are sorted."""
        if self._tolerance is not None or self._outputs.unchecked is None:
            return
        if threads < 2:
            self._outputs.read(rows)
            return
        pieces = [
            slice(rows.start + piece.start, rows.start + piece.stop)
            for piece in shares(rows.stop - rows.start, threads)
        ]
        run_blocks(self._outputs.read, pieces, threads)

    def end(self, rows: slice, block: Any) -> None:
        """Check some rows that are sorted by now."""
        if self._tolerance is not None and not block.are_fine(self._tolerance):
            self._outputs.read(rows)


def sorted_slices(outputs: Outputs, threads: int, shared: int) -> Iterator[slice]:
    """Yield blocks of rows that are sorted at once: by all threads together, or one by each.

    With so many outputs as are `shared` at once, or none. Those of a device are as large as it has
    room for.
    """
    n, n_classes = outputs.n, outputs.n_classes
    if outputs.on_device:
        return row_blocks(n, n_classes, DEVICE_ENTRIES)
    rounds = max(-(-n * n_classes // (shared or BLOCK_OUTPUTS * threads)), 1)
    return shares(n, rounds if shared else rounds * threads)


def true_label_scores(
    outputs: Outputs,
    y: IntArray,
    columns: Sequence[Column],
    *,
    key: int = 0,
    threads: int | None = None,
) -> FloatArray:
    """Return ``of_labels(fill_tensor(outputs, columns, key=key), y)``, bit for bit, sooner.

    Scores of the user's own are computed for all labels.
    """
    if outputs.on_device or not are_symmetric(columns):
        whole = fill_tensor(outputs, columns, key=key, threads=threads)
        return of_labels(whole, y)  # type: ignore[no-any-return]
    scores = np.empty((outputs.n, len(columns)))
    sort = any(column.score.sorts for column in columns)
    compile_for(outputs.n * outputs.n_classes)
    compiled = are_compiled(outputs)

    def fill(rows: slice) -> None:
        own, found = y[rows], None
        for model, source in sorted_rows(outputs, rows, columns, key).items():
            which = [j for j, column in enumerate(columns) if column.model == model]
            some = [columns[j] for j in which]
            if not which:
                continue
            if not sort:  # these are had sooner in the order of the labels
                ranked, every = source.unsorted, np.arange(len(own))
                found = np.stack([column.score(ranked)[every, own] for column in some], axis=1)
            elif compiled:
                found = UpperRows(source, some, own, 1).filled().true
            else:
                found = scores_at(source.of_labels(own), some)
            scores[rows, which] = found
        outputs.release_pages()

    several = threads_for(outputs.n * outputs.n_classes, threads)
    share = -(-outputs.n // several) * outputs.n_classes
    blocks = row_blocks(outputs.n, outputs.n_classes, min(BLOCK_OUTPUTS, share))
    run_blocks(fill, blocks, several)
    return scores
