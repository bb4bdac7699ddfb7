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
from dataclasses import dataclass
from itertools import chain, count, filterfalse
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from conformix.data.outputs import Arithmetic, Kind, Outputs
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    joined,
    to_device,
)
from conformix.kernels.blocks import row_blocks
from conformix.kernels.cached import cached_property
from conformix.scores.names import SCORES, Column
from conformix.scores.ranked import Ranked, Rising
from conformix.scores.tensor import uniforms_of

# Labels of a row that are looked at together, from the top; then four times as many each time.
WINDOWS = (4, 8, 20)
# Labels of a row whose scores are held, from the top.
HELD_PLACES = sum(WINDOWS)


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
        # NumPy 2.4 with AVX-512 sorts half precision wrongly where 0.0 and -0.0 meet. Whole numbers
        # have no infinity, where sets without any label begin; loops know two types of the rest.
        if block.dtype not in (np.float32, np.float64):
            half = block.dtype == np.float16
            block = block.astype(np.float32 if half else np.float64)
        self.block = block
        self.kind = kind
        self._how: Any = (kind, u, arithmetic)
        self.true: FloatArray | None = None  # the scores of labels that were asked for

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
        high = np.full(len(rows), self.block.shape[1] - 1)
        # Of several equal numbers any place will do: all of them score alike.
        values = self.block[rows, y]
        return Places(self.ranked, rows, _first_place(self.outputs, rows, high, values))

    def at(self, rows: IntArray, places: IntArray) -> Places:
        """Return the labels at sorted places (m,) of some rows (m,), which rise."""
        some, within = np.unique(rows, return_inverse=True)
        return Places(self.ranked.some(some), within, places)

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
        labels: Any = Window(self.ranked, slice(None) if rows is None else rows, places)
        n_rows = len(self.block) if rows is None else len(rows)
        if planes is None:
            planes = np.empty((len(columns), n_rows, places.stop - places.start))
        for plane, column in zip(planes, columns, strict=True):
            plane[:] = column.score(labels)
        return np.moveaxis(planes, 0, -1)

    def some(self, rows: IntArray) -> SortedRows:
        """Return some of the rows, not sorted yet."""
        kind, u, arithmetic = self._how
        own = None if u is None else u[rows]
        return SortedRows(self.block[rows], kind, own, arithmetic)

    def rising(self, sorted_block: FloatArray, rows: slice) -> Rising:
        """Return some rows (r, K), whose sorted numbers are given, as what scores ask."""
        kind, u, arithmetic = self._how
        return Rising(sorted_block, kind, None if u is None else u[rows], arithmetic)

    def true_scores(self, columns: Sequence[Column], y: IntArray, rows: IntArray) -> FloatArray:
        """Return the scores (m, d) of one label each of some rows (m,)."""
        return scores_at(self.some(rows).of_labels(y), columns)

    def upper(self, columns: Sequence[Column], y: IntArray | None) -> SortedRows:
        """Return the rows, all sorted, and the scores of the labels y."""
        self.true = None if y is None else scores_at(self.of_labels(y), columns)
        return self

    def outputs_at(self, places: IntArray) -> FloatArray:
        """Return the outputs (n,) at a place of every row; infinity beyond the last."""
        return outputs_at(self.outputs, places)

    at_once: ClassVar[int] = 2**16  # labels of a window whose scores are held

    @staticmethod
    def numbers(rows: int) -> IntArray:
        """Return 0, 1, ... where the rows are."""
        return np.arange(rows)


class WalkedOver(NamedTuple):
    """What a walk says of rows: of their places from the first that is asked for, and of labels."""

    mass: FloatArray  # (m, w): up to and with the tie group
    labels: IntArray  # (m, 3): where they are, and the first and last places of their tie groups
    label_numbers: FloatArray  # (m, 2): masses and probabilities
    probs: FloatArray  # (m, w)
    lowest: IntArray  # (m,): where the tie group of the first one begins

    def part(self, rows: slice) -> WalkedOver:
        """Return what is said of some rows."""
        return WalkedOver(*(values[rows] for values in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Walk:
    """What compiled loops know of sorted rows already, with the bits of `SortedLabels`."""

    kernel: Any
    ranked: Rising
    start: int  # the first place that masses are known of
    found: WalkedOver
    tied: bool  # whether any place from there on ties

    def ends(self, places: slice) -> tuple[IntArray, IntArray]:
        """Return the ends (n, w) of the tie groups of neighbouring places."""
        rising = self.ranked.probs
        first, last = np.empty((2, len(rising), places.stop - places.start), np.int64)
        self.kernel.tie_ends(rising, np.arange(len(rising)), places.start, first, last)
        return first, last

    def mass(self, places: slice) -> FloatArray:
        """Return the masses (n, w) of neighbouring places."""
        return self.found.mass[:, places.start - self.start : places.stop - self.start]


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
            return self._walk.found.labels[:, 1:2], self._walk.found.labels[:, 2:]
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
            return self._walk.found.label_numbers[:, :1]
        return self._ranked.running_mass[self._rows, self.ends[1][:, 0]][:, None]


class Window(SortedLabels):
    """Neighbouring places, a slice of them, of rows (m,) or of all; arrays are (m, w).

    With a walk, of all.
    """

    def _tie_groups(self) -> tuple[IntArray, IntArray]:
        rising, start, stop = self._ranked.probs, self._places.start, self._places.stop
        first = last = np.arange(start, stop)[None, :]
        if self._walk is not None:
            return self._walk.ends(self._places) if self._walk.tied else (first, last)
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
            return self._walk.mass(self._places)
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


def outputs_at(outputs: FloatArray, places: IntArray) -> FloatArray:
    """Return the outputs (n,) at a place of every sorted row (n, K); infinity beyond the last."""
    n, n_classes = outputs.shape
    found = outputs[np.arange(n), places.clip(max=n_classes - 1)]
    found[places == n_classes] = np.inf
    return found  # type: ignore[no-any-return]


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


# Scores that do not ask which label is which, by type: the user's may inherit from ours.
SYMMETRIC = frozenset(filterfalse(attrgetter("learns"), map(SCORES.__getitem__, SCORES)))


def are_symmetric(columns: Sequence[Column]) -> bool:
    """Whether no score asks which label is which, as what is learnt does, and the user's may."""
    return all(type(column.score) in SYMMETRIC for column in columns)


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
