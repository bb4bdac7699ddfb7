"""Rows of one model in sorted order, and the scores of labels at places of them.

Scores are functions of sorted rows, and permuting the labels of a row permutes its scores bit for
bit. So the score of a label is that of its place in the sorted row. Numbers alone are sorted, in
the precision that they come in, instead of numbers with their labels; and what a sorted row says is
looked up at the places that are asked for, instead of being put back into the order of the labels.

A calibration row is asked at one place, that of its true label. Where all scores rise with the
output (`Score.rises`), a weighted mean does too, and a set is the upper end of a sorted row: it is
found by bisection over the places, and no score of any other label is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain, count, pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np

from conformix.data.checks import are_near_one
from conformix.data.outputs import Arithmetic, Kind, Outputs
from conformix.kernels import run_blocks
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    is_tensor,
    joined,
    of_labels,
    to_device,
    to_host,
)
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    SHORT_CALLERS,
    batched,
    row_blocks,
    shares,
    threads_for,
)
from conformix.kernels.cached import cached_property
from conformix.kernels.twins import compile_for, loops
from conformix.scores.names import SCORES, Column
from conformix.scores.ranked import Ranked, Rising
from conformix.scores.tensor import fill_tensor, uniforms_of

# Outputs of the rows that one thread sorts at once: so many that its calls are few and long.
SORTED_ENTRIES = 2**20
# Where calls are long, threads wait for each other as if outputs were so many times as many.
LONG_CALLS = 2
# Labels of sorted rows that are looked up in the time in which one is sorted.
LOOKED_UP = 4
# Blocks that a thread sorts between two looks at the memory of a mapped file.
BLOCKS_PER_THREAD = 8
# Labels of a row that are looked at together, from the top; then four times as many each time.
WINDOWS = (4, 8, 20)
# Labels of a row whose scores are held, from the top.
HELD_PLACES = sum(WINDOWS)
# Outputs of a block that stays sorted (2 MiB, and as much again or more of what is known of them);
# so many windows of it are made at once, that many rows ask for.
KEPT_SORTED, MADE_AT_ONCE = 2**18, 2


class SortedRows:
    """A block of rows, sorted upwards on first use.

    Parameters
    ----------
    block : array of shape (n, K)
        Probabilities or logits.
    kind : {"probs", "logits"}
        What the numbers are.
    u : array of shape (n,), optional
        One number in [0, 1) per row for randomised scores.
    arithmetic : {"exact", "numpy"}
        Whose exponential and logarithm.

    Examples
    --------
    >>> rows = SortedRows(np.array([[0.5, 0.2, 0.3]]))
    >>> rows.of_labels(np.array([2])).mass_up_to
    array([[0.5]])
    """

    def __init__(
        self,
        block: FloatArray,
        kind: Kind = "probs",
        u: FloatArray | None = None,
        arithmetic: Arithmetic = "exact",
    ) -> None:
        # NumPy 2.4 with AVX-512 sorts half precision wrongly where 0.0 and -0.0 meet.
        self.block = block.astype(np.float32) if block.dtype == np.float16 else block
        self._how: Any = (kind, u, arithmetic)
        self._walked: Walk | None = None
        self._labels: Any = None  # whose outputs the walk has found

    @cached_property
    def outputs(self) -> FloatArray:
        """The outputs of every row, rising, (n, K), in the precision that they came in."""
        return np.sort(self.block, axis=1)

    @cached_property
    def ranked(self) -> Rising:
        """What scores are functions of, in sorted order."""
        return Rising(self.outputs, *self._how)

    @property
    def unsorted(self) -> Ranked:
        """What scores are functions of, in the order of the labels."""
        return Ranked(self.block, *self._how)

    def of_labels(self, y: IntArray) -> Places:
        """Return one label of every row."""
        rows = np.arange(len(self.block))
        walk = self._walk(y)
        if walk is not None:
            return Places(self.ranked, rows, walk.labels[:, 0], walk=walk)
        high = np.full(len(rows), self.block.shape[1] - 1)
        # Of several equal numbers any place will do: all of them score alike.
        values = self.block[rows, y]
        return Places(self.ranked, rows, _first_place(self.outputs, rows, high, values))

    def begin(self, y: IntArray | None = None) -> None:
        """Make room for the sorted rows, and for what a walk over them says of the labels y.

        Threads then fill it, each for some of the rows: all that takes long.
        """
        self.outputs = np.empty(self.block.shape, self.block.dtype)
        wide = self.block.dtype == np.float64
        self.ranked = Rising(self.outputs if wide else np.empty(self.block.shape), *self._how)
        self.ranked.make_room()
        walk = self._walk(y)
        if walk is not None:
            walk.make_room()

    def fill(self, rows: slice) -> None:
        """Sort some rows, and walk over them."""
        some = self.outputs[rows]
        np.copyto(some, self.block[rows])
        some.sort(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):  # they may not be checked yet
            if some.dtype != np.float64:
                self.ranked.numbers[rows] = some
            self.ranked.fill(rows)
            if self._walked is not None:
                self._walked.fill(rows)

    def are_fine(self, rows: slice, tolerance: float) -> bool:
        """Whether the numbers of rows that are filled in are seen to be outputs of a model.

        Their ends say that logits are finite: NaN comes last. Of probabilities the first is not
        negative, and their sum is known; none is larger. Others may be fine, too.
        """
        some = self.outputs[rows]
        if self._how[0] == "logits":
            return bool(np.isfinite(some[:, 0]).all() and np.isfinite(some[:, -1]).all())
        if self._walked is None:
            return False
        return bool((some[:, 0] >= 0).all()) and are_near_one(self._walked.sums(rows), tolerance)

    def at(self, rows: IntArray, places: IntArray) -> Places:
        """Return the labels at sorted places (m,) of some rows (m,), which rise."""
        some, within = np.unique(rows, return_inverse=True)
        return Places(self.ranked.some(some), within, places)

    def _walk(self, y: IntArray | None = None) -> Walk | None:
        """Return the walk over the upper ends of all rows; None where NumPy is as fast.

        Whoever asks for labels y (n,) first, one of every row, has their places on the way.
        """
        kernel = loops("upper", self.block.size)
        known = self._walked is not None and (y is None or np.array_equal(y, self._labels))
        if kernel is not None and not known:
            values = None if y is None else self.block[np.arange(len(y)), y]
            start = max(self.block.shape[1] - HELD_PLACES, 0)
            self._walked = Walk(kernel, self.ranked, start, values=values)
            self._labels = y
        return self._walked

    def _window(self, rows: IntArray | None, places: slice) -> Window:
        """Return neighbouring places of some rows, all where `rows` is None."""
        walk = self._walk()
        if walk is not None and places.start < walk.start:
            walk = Walk(walk.kernel, self.ranked, places.start, rows=rows)
        return Window(self.ranked, slice(None) if rows is None else rows, places, walk=walk)

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
        labels: Any = self._window(rows, places)
        n_rows = len(self.block) if rows is None else len(rows)
        if planes is None:
            planes = np.empty((len(columns), n_rows, places.stop - places.start))
        for plane, column in zip(planes, columns, strict=True):
            plane[:] = column.score(labels)
        return np.moveaxis(planes, 0, -1)

    def planes(
        self, columns: Sequence[Column], rows: IntArray | None, places: slice
    ) -> tuple[FloatArray, IntArray]:
        """Return planes (d, r, w) with the scores of neighbouring places, and the rows in them."""
        scores = self.scores(columns, rows, places)
        return np.moveaxis(scores, -1, 0), np.arange(len(scores))

    def some(self, rows: IntArray) -> SortedRows:
        """Return some of the rows, not sorted yet."""
        part = copy(self)
        part.forget()
        kind, u, arithmetic = self._how
        part.block, part._how = self.block[rows], (kind, None if u is None else u[rows], arithmetic)
        return part

    def forget(self) -> None:
        """Give up what was sorted."""
        for name in ("outputs", "ranked"):
            self.__dict__.pop(name, None)
        self._walked = self._labels = None

    def upper(self, columns: Sequence[Column], y: IntArray | None) -> UpperRows:
        """Return the upper ends of the rows, and the scores of the labels y."""
        return UpperRows(self, columns, y)

    at_once: ClassVar[int] = 2**16  # labels of a window whose scores are held

    @staticmethod
    def numbers(rows: int) -> IntArray:
        """Return 0, 1, ... where the rows are."""
        return np.arange(rows)


class UpperRows(SortedRows):
    """A block of rows of which only the upper ends are held sorted: their scores.

    What lies deeper is sorted again, which few rows ask for. Few rows stay sorted, and the last
    window is made of them when it is asked for.
    """

    def __init__(self, source: SortedRows, columns: Sequence[Column], y: IntArray | None) -> None:
        self.block, self._how, self._columns = source.block, source._how, columns
        self._source = source
        self.true: FloatArray | None = None  # the scores of the labels y, where they are known
        if y is not None:
            self.true = scores_at(source.of_labels(y), columns)
        # One window by itself each: that of some rows is one copy of neighbouring numbers.
        self._windows: list[tuple[slice, FloatArray]] = []
        stop = self.block.shape[1]
        self._stays_sorted = self.block.size <= KEPT_SORTED
        for width in WINDOWS[:MADE_AT_ONCE] if self._stays_sorted else WINDOWS:
            places = slice(max(stop - width, 0), stop)
            planes = np.empty((len(columns), len(self.block), stop - places.start))
            source.scores(columns, None, places, planes)
            self._windows.append((places, planes))
            stop = places.start
        if not self._stays_sorted:
            source.forget()

    def scores(
        self,
        columns: Sequence[Column],
        rows: IntArray | None,
        places: slice,
        planes: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores (m, w, d) of neighbouring places of some rows."""
        if places.start < self._windows[-1][0].start:
            if self._stays_sorted:
                return self._source.scores(columns, rows, places, planes)
            deeper = self._source.some(np.arange(len(self.block)) if rows is None else rows)
            return deeper.scores(columns, None, places, planes)
        if planes is None:
            for window, held in self._windows:
                if window == places:
                    return np.moveaxis(held if rows is None else held.take(rows, axis=1), 0, -1)
            n_rows = len(self.block) if rows is None else len(rows)
            planes = np.empty((len(columns), n_rows, places.stop - places.start))
        for window, held in self._windows:
            start, stop = max(window.start, places.start), min(window.stop, places.stop)
            if start < stop:
                within = slice(start - window.start, stop - window.start)
                some = held if rows is None else held.take(rows, axis=1)
                planes[..., start - places.start : stop - places.start] = some[..., within]
        return np.moveaxis(planes, 0, -1)

    def planes(
        self, columns: Sequence[Column], rows: IntArray | None, places: slice
    ) -> tuple[FloatArray, IntArray]:
        """Return planes (d, r, w) with the scores of neighbouring places, and the rows in them."""
        for window, held in self._windows:
            if window == places:
                return held, np.arange(len(self.block)) if rows is None else rows
        return super().planes(columns, rows, places)

    def true_scores(self, columns: Sequence[Column], y: IntArray, rows: IntArray) -> FloatArray:
        """Return the scores (m, d) of one label each of some rows (m,)."""
        return scores_at(self._source.some(rows).of_labels(y), columns)


class Walk:
    """Masses and tie groups of the upper ends of sorted rows, and of one label of each.

    Compiled, and made at the first question, or before it, part by part: in one pass, where
    `SortedLabels` needs several and gives the same bits.
    """

    def __init__(
        self,
        kernel: Any,
        ranked: Rising,
        start: int,
        *,
        values: FloatArray | None = None,
        rows: IntArray | None = None,
    ) -> None:
        self.kernel, self.start = kernel, start  # the first place that is asked for
        self._ranked, self._rows = ranked, rows  # of all rows, or of these alone
        self._values = values

    @cached_property
    def _results(self) -> tuple[FloatArray, list[bool], IntArray, FloatArray]:
        found = self.make_room()
        self.fill(slice(0, len(found[0])))
        return found

    def make_room(self) -> tuple[FloatArray, list[bool], IntArray, FloatArray]:
        """Make room for masses, and for labels with theirs; parts of it are filled one by one."""
        n, n_classes = self._ranked.shape
        n_rows = n if self._rows is None else len(self._rows)
        n_labels = 0 if self._values is None else n
        mass, labels = np.empty((n_rows, n_classes - self.start)), np.empty((n_labels, 3), np.int64)
        self._results = mass, [], labels, np.empty(n_labels)
        return self._results

    def fill(self, some: slice) -> None:
        """Walk over some of the rows."""
        mass, tied, labels, label_mass = self._results
        rising = self._ranked.probs
        rows = np.arange(some.start, some.stop)
        if self._rows is not None:
            rows = self._rows[some].astype(np.int64)
        outputs, values = rising, np.empty(0)
        if self._values is not None:
            outputs, values = self._ranked.numbers, self._values[some].astype(np.float64)
        found = self.kernel.walk(
            rising, rows, self.start, mass[some], outputs, values, labels[some], label_mass[some],
            np.empty((4, rising.shape[1])),
        )  # fmt: skip
        tied.append(found)

    @property
    def labels(self) -> IntArray:
        """Where the labels are, and the first and last places of their tie groups, (n, 3)."""
        return self._results[2]

    @property
    def label_mass(self) -> FloatArray:
        """The masses (n,) of the labels."""
        return self._results[3]

    @property
    def tied(self) -> bool:
        """Whether any place from the first on ties."""
        return any(self._results[1])

    def ends(self, rows: Any, places: slice) -> tuple[IntArray, IntArray]:
        """Return the ends (m, w) of the tie groups of neighbouring places of some rows, or all."""
        rising, which = self._ranked.probs, np.arange(len(self._ranked.probs))[rows]
        first, last = np.empty((2, len(which), places.stop - places.start), np.int64)
        self.kernel.tie_ends(rising, which, places.start, first, last)
        return first, last

    def sums(self, rows: slice) -> FloatArray:
        """Return the sums (m,) of rows that are filled in."""
        return self._results[0][rows, -1]

    def mass(self, rows: Any, places: slice) -> FloatArray:
        """Return the masses (m, w) of neighbouring places of some rows."""
        rows = rows if self._rows is None else slice(None)
        return self._results[0][rows, places.start - self.start : places.stop - self.start]


class SortedLabels:
    """What a score asks of `Ranked`, for some labels of sorted rows; arrays are (m, w).

    Numbers of a row are (m, 1).
    """

    xp = np

    def __init__(
        self,
        ranked: Ranked,
        rows: Any,
        places: Any,
        untempered: SortedLabels | None = None,
        walk: Walk | None = None,
    ) -> None:
        self._ranked, self._rows, self._places, self._walk = ranked, rows, places, walk
        self._untempered = untempered  # None, not itself: a cycle would stay in memory

    def at(self, temperature: float) -> SortedLabels:
        """Return the same labels with ``p_y^(1/T)``, renormalised; order and ties are shared."""
        if temperature == 1:
            return self
        return type(self)(self._ranked.at(temperature), self._rows, self._places, self)

    def _at_places(self, values: FloatArray) -> FloatArray:
        return values[self._rows, self._places]

    def _tie_groups(self) -> tuple[IntArray, IntArray]:
        raise NotImplementedError

    @cached_property
    def ends(self) -> tuple[IntArray, IntArray]:
        """First and last sorted place of the labels' tie groups, (m, w) or (1, w) each."""
        return self._tie_groups() if self._untempered is None else self._untempered.ends

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self._ranked.n_classes

    @property
    def u(self) -> FloatArray:
        """One number in [0, 1) per row."""
        return self._ranked.u[self._rows]

    def log(self, values: FloatArray) -> FloatArray:
        """Return the logarithm of some numbers."""
        return self._ranked.log(values)

    @property
    def probs(self) -> FloatArray:
        """The probabilities of the labels."""
        return self._at_places(self._ranked.probs)

    @property
    def log_probs(self) -> FloatArray:
        """Their logarithms, floored."""
        return self._at_places(self._ranked.log_probs)

    @property
    def logits(self) -> FloatArray:
        """The raw logits of the labels."""
        return self._at_places(self._ranked.logits)

    @property
    def log_sum_exp(self) -> FloatArray:
        """``log sum exp z`` of the row."""
        return self._ranked.log_sum_exp[self._rows]

    @property
    def entropy(self) -> FloatArray:
        """The entropy of the row."""
        return self._ranked.entropy[self._rows]

    @property
    def top(self) -> FloatArray:
        """The largest probability of the row."""
        return self._ranked.top[self._rows]

    @property
    def runner_up(self) -> FloatArray:
        """The second largest probability of the row."""
        return self._ranked.runner_up[self._rows]

    @property
    def below(self) -> IntArray:
        """``#{y' : p_y' < p_y}``."""
        return self.ends[0]

    @property
    def rank(self) -> IntArray:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``."""
        return self.n_classes - self.ends[1]

    @property
    def log_ranks(self) -> FloatArray:
        """The logarithm of the rank from the top."""
        return self.log(self.rank.astype(np.float64))


class Places(SortedLabels):
    """One label each of rows (m,), which may repeat, at places (m,); arrays are (m, 1).

    With a walk, they are its labels, of all rows.
    """

    def _at_places(self, values: FloatArray) -> FloatArray:
        return values[self._rows, self._places][:, None]

    def _tie_groups(self) -> tuple[IntArray, IntArray]:
        if self._walk is not None:
            return self._walk.labels[:, 1:2], self._walk.labels[:, 2:]
        rising, rows, places = self._ranked.probs, self._rows, self._places
        values = rising[rows, places]
        first, last = places.astype(np.intp), places.astype(np.intp)
        left = rising[rows, np.maximum(places - 1, 0)] == values
        tied = np.flatnonzero(left & (places > 0))
        first[tied] = _first_place(rising, rows[tied], places[tied], values[tied])
        right = rising[rows, np.minimum(places + 1, self.n_classes - 1)] == values
        tied = np.flatnonzero(right & (places < self.n_classes - 1))
        last[tied] = _last_place(rising, rows[tied], places[tied], values[tied])
        return first[:, None], last[:, None]

    @property
    def mass_up_to(self) -> FloatArray:
        """Mass of the labels no likelier than y, added from the smallest up."""
        if self._walk is not None:
            return self._walk.label_mass[:, None]
        return self._ranked.running_mass[self._rows, self.ends[1][:, 0]][:, None]


class Window(SortedLabels):
    """Neighbouring places, a slice of them, of rows (m,) or of all; arrays are (m, w)."""

    def _tie_groups(self) -> tuple[IntArray, IntArray]:
        rising, start, stop = self._ranked.probs, self._places.start, self._places.stop
        first = last = np.arange(start, stop)[None, :]
        if self._walk is not None:
            return self._walk.ends(self._rows, self._places) if self._walk.tied else (first, last)
        seen = rising[self._rows, max(start - 1, 0) : min(stop + 1, self.n_classes)]
        tied = np.flatnonzero((seen[:, 1:] == seen[:, :-1]).any(axis=1))
        if not len(tied):
            return first, last
        first, last = (np.repeat(first, len(seen), axis=0) for _ in range(2))
        rows = tied if isinstance(self._rows, slice) else self._rows[tied]
        places = Places(
            self._ranked, np.repeat(rows, stop - start), np.tile(np.arange(start, stop), len(tied))
        )
        first[tied], last[tied] = (ends.reshape(len(tied), -1) for ends in places.ends)
        return first, last

    @property
    def mass_up_to(self) -> FloatArray:
        """Mass of the labels no likelier than y, added from the smallest up."""
        if self._walk is not None:
            return self._walk.mass(self._rows, self._places)
        mass = self._ranked.running_mass
        return mass[np.arange(len(mass))[self._rows][:, None], self.ends[1]]


def _first_place(
    rising: FloatArray, rows: IntArray, places: IntArray, values: FloatArray
) -> IntArray:
    """Return the first place (m,) of some rows whose number is `values`, that at `places`."""
    low, high = np.zeros_like(places), places
    while (open_ := low < high).any():
        middle = (low + high) // 2
        reached = rising[rows, middle] >= values
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle + 1, low)
    return low


def _last_place(
    rising: FloatArray, rows: IntArray, places: IntArray, values: FloatArray
) -> IntArray:
    """Return the last place (m,) of some rows whose number is `values`, that at `places`."""
    low, high = places, np.full_like(places, rising.shape[1] - 1)
    while (open_ := low < high).any():
        middle = (low + high + 1) // 2
        reached = rising[rows, middle] <= values
        low = np.where(open_ & reached, middle, low)
        high = np.where(open_ & ~reached, middle - 1, high)
    return low


def scores_at(places: Any, columns: Sequence[Column]) -> FloatArray:
    """Return the scores (m, d) of labels at places of sorted rows."""
    return np.concatenate([column.score(places) for column in columns], axis=1)


def windows(n_classes: int) -> Iterator[slice]:
    """Yield neighbouring places of sorted rows, from the top, until all K are among them.

    Examples
    --------
    >>> list(windows(6))
    [slice(2, 6, None), slice(0, 2, None)]
    """
    below, widths = n_classes, chain(WINDOWS, (WINDOWS[-1] * 4**i for i in count(1)))
    while below:
        places = slice(max(below - next(widths), 0), below)
        yield places
        below = places.start


def parts_of_rows(
    source: Any, rows: IntArray | None, which: IntArray, places: slice
) -> Iterator[tuple[IntArray, IntArray | None]]:
    """Yield parts of `which` that a window is looked at of together, and the rows that they mean.

    These are among `rows` (m,), or all; None where they are all of the source.
    """
    for part in row_blocks(len(which), places.stop - places.start, source.at_once):
        some = which[part]
        if rows is not None:
            chosen: Any = to_device(rows, which)[some]
        else:
            chosen = None if len(some) == len(source.block) else some
        yield some, chosen


def upper_windows(
    source: Any,
    columns: Sequence[Column],
    reaches: Callable[[FloatArray, IntArray], BoolArray],
    rows: IntArray | None = None,
) -> Iterator[tuple[IntArray, FloatArray, BoolArray]]:
    """Yield the upper ends of sorted rows, window by window, down to where labels are out.

    Each time: which of `rows` (m,), all rows by default; the scores (m', w, d) of their next labels
    from the top, rising; and which of these are in (m', w), as ``reaches(scores, which)`` says.
    Scores must rise with the output and `reaches` with the scores: below a label that is out, all
    are.
    """
    which = source.numbers(len(source.block) if rows is None else len(rows))
    for places in windows(source.block.shape[1]):
        deeper = []
        for some, chosen in parts_of_rows(source, rows, which, places):
            scores = source.scores(columns, chosen, places)
            inside = reaches(scores, some)
            yield some, scores, inside
            deeper.append(some[inside[:, 0]])
        which = joined(deeper)
        if not len(which):
            return


def first_reaching(
    source: Any,
    columns: Sequence[Column],
    reaches: Callable[[FloatArray, IntArray], BoolArray],
    rows: IntArray | None = None,
) -> IntArray:
    """Return the first sorted place of some rows from which on all labels are in; K if none is.

    Arguments are those of `upper_windows`.

    Examples
    --------
    >>> rows = SortedRows(np.array([[0.5, 0.2, 0.3], [0.1, 0.1, 0.8]]))
    >>> thr = (Column("", SCORES["thr"]()),)
    >>> first_reaching(rows, thr, lambda scores, which: scores[..., 0] >= 0.25)
    array([1, 2])
    """
    n_rows = len(source.block) if rows is None else len(rows)
    first = 0 * source.numbers(n_rows) + source.block.shape[1]
    for which, _, inside in upper_windows(source, columns, reaches, rows):
        first[which] -= inside.sum(1)
    return first


T = TypeVar("T")


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
        self.columns = tuple(columns)
        self.on_device = outputs.on_device
        self._asked = 1 if outputs.on_device else threads
        compile_for(0 if outputs.on_device else outputs.n * outputs.n_classes)

        def upper(block: Any, rows: slice) -> Any:
            return block.upper(columns, None if y is None else y[rows])

        found = list(over_sorted(outputs, columns, upper, key=key, threads=threads, y=y))
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
) -> Iterator[tuple[slice, T]]:
    """Yield what a function says of blocks of rows, checked and sorted, one after the other.

    Rows are checked and sorted by all threads: these are few long calls. The function makes many
    short ones, between which threads wait for each other, so a few threads have a block each.

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
    """
    entries = outputs.n * outputs.n_classes
    several = 1 if outputs.on_device else threads_for(LONG_CALLS * entries, threads)
    few = min(several, SHORT_CALLERS)

    checks = Checks(outputs, columns, before=over is not None)

    def opened(rows: slice) -> Any:
        if several == few:
            checks.begin(rows)
        part = outputs.rows(rows)
        part = part if over is None else over(part)
        block = sorted_rows(part, slice(0, part.n), columns, key)[columns[0].model]
        if not outputs.on_device:
            block.begin(None if y is None else y[rows])
        return block

    def alone(rows: slice) -> T:
        block = opened(rows)
        if not outputs.on_device:
            every = slice(0, len(block.block))
            block.fill(every)
            checks.end(rows, block, every)
        return function(block, rows)

    # Pages of a mapped file are given back now and then.
    at_once = few * (BLOCKS_PER_THREAD if several == few else 1)
    for some in batched(list(sorted_slices(outputs, several)), at_once):
        if several == few:
            found = run_blocks(alone, some, few)
        else:
            found = _shared(checks, function, run_blocks(opened, some, few), some, several)
        yield from zip(some, found, strict=True)
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
            compiled = loops("upper", outputs.n * outputs.n_classes) is not None
            alone = set(unchecked.tolerances) == {model}
            if compiled and alone and unchecked.form in ("probs", "logits"):
                self._tolerance = unchecked.tolerances[model]

    def begin(self, rows: slice) -> None:
        """Check some rows, unless they are checked when they are sorted."""
        if self._tolerance is None:
            self._outputs.read(rows)

    def end(self, rows: slice, block: SortedRows, within: slice) -> None:
        """Check some rows that are sorted by now, as those `within` a block."""
        if self._tolerance is not None and not block.are_fine(within, self._tolerance):
            self._outputs.read(rows)


def _shared(
    checks: Checks,
    function: Callable[[Any, slice], T],
    blocks: Sequence[Any],
    places: Sequence[slice],
    threads: int,
) -> list[T]:
    """Return what a function says of some blocks that several threads check and sort together."""
    n_rows = sum(len(block.block) for block in blocks)
    pieces = [
        (which, rows)
        for which, block in enumerate(blocks)
        for rows in row_blocks(len(block.block), 1, -(-n_rows // threads))
    ]

    def fill(piece: tuple[int, slice]) -> None:
        which, rows = piece
        first = places[which].start
        there = slice(first + rows.start, first + rows.stop)
        checks.begin(there)
        blocks[which].fill(rows)
        checks.end(there, blocks[which], rows)

    run_blocks(fill, pieces, threads)
    every = range(len(blocks))
    return run_blocks(lambda which: function(blocks[which], places[which]), every, len(blocks))


def sorted_slices(outputs: Outputs, threads: int) -> Iterator[slice]:
    """Yield blocks of rows of which a few are sorted at once: by all threads, or by a device.

    On the host as many for each of the few, which end together.
    """
    n, n_classes, few = outputs.n, outputs.n_classes, min(threads, SHORT_CALLERS)
    if outputs.on_device:
        return row_blocks(n, n_classes, DEVICE_ENTRIES)
    rounds = -(-n * n_classes // (SORTED_ENTRIES * threads))
    return shares(n, few * max(rounds, 1))


def are_symmetric(columns: Sequence[Column]) -> bool:
    """Whether no score asks which label is which, as what is learnt does, and the user's may."""
    ours = {SCORES[name] for name in SCORES if not SCORES[name].learns}
    return all(type(column.score) in ours for column in columns)


def rise(columns: Sequence[Column], outputs: Outputs) -> bool:
    """Whether all scores are of one model, and rise with its outputs."""
    if columns[0].model not in outputs.models:
        return False  # an ensemble, which has no model's order
    model = outputs.models[columns[0].model]
    one_model = len({column.model for column in columns}) == 1
    blended_in_order = getattr(model, "rises", True)
    return (
        one_model
        and outputs.arithmetic == "exact"
        and are_symmetric(columns)
        and all(column.score.rises for column in columns)
        and blended_in_order
    )


def are_sorted(columns: Sequence[Column], outputs: Outputs) -> bool:
    """Whether scores that rise need sorted rows, for one of them or within a blend.

    Others are had sooner label by label.
    """
    blended = any(hasattr(values, "rises") for values in outputs.models.values())
    sort = blended or any(column.score.sorts for column in columns)
    return sort and rise(columns, outputs)


def sorted_rows(
    outputs: Outputs, rows: slice, columns: Sequence[Column], key: int = 0
) -> dict[str, Any]:
    """Return a block of rows of every model, to be sorted."""
    uniforms = uniforms_of(outputs, rows, columns, key)
    sources: dict[str, Any] = {}
    if outputs.on_device:
        from conformix.scores.device import DeviceRows as Rows  # noqa: PLC0415  for tensors only
    else:
        Rows = SortedRows  # type: ignore[assignment,misc]
    for model, values in outputs.models.items():
        if getattr(values, "rises", False):  # a blend of one model, which has the model's order
            sources[model] = values.sorted_rows(rows)  # type: ignore[attr-defined]
        else:
            sources[model] = Rows(values[rows], outputs.kind, uniforms, outputs.arithmetic)
    return sources


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

    def fill(rows: slice) -> None:
        ranked: dict[str, Any] = {}
        for model, source in sorted_rows(outputs, rows, columns, key).items():
            # Scores that look at no order are had sooner in the order of the labels.
            ranked[model] = source.of_labels(y[rows]) if sort else source.unsorted
        for j, column in enumerate(columns):
            values = column.score(ranked[column.model])
            scores[rows, j] = values[:, 0] if sort else values[np.arange(len(values)), y[rows]]
        outputs.release_pages()

    several = threads_for(outputs.n * outputs.n_classes, threads)
    share = -(-outputs.n // several) * outputs.n_classes
    blocks = row_blocks(outputs.n, outputs.n_classes, min(SORTED_ENTRIES, share))
    run_blocks(fill, blocks, several)
    return scores
