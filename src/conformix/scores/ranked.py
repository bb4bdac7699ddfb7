"""The shared sort: what every score of a row is a function of.

A row of probabilities is sorted once; order, rank and masses follow from it. All labels of a tie
group share one rank and one mass, so no result depends on how a sort orders equal numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from conformix.data.outputs import Arithmetic, Kind, Outputs
from conformix.errors import InvalidInput
from conformix.kernels import elementary
from conformix.kernels.arrays import FloatArray, IntArray, on_device
from conformix.kernels.blocks import row_blocks, run_blocks, threads_for
from conformix.kernels.cached import cached_property
from conformix.kernels.patterns import CACHE_ENTRIES, patterns
from conformix.kernels.twins import loops


class Order(NamedTuple):
    """The order of the labels of every row."""

    places: IntArray  # (n, K) of the rising entries, in any order among equal ones
    ties: Any  # (n,) bool: whether a row may have equal ones


def rising_order(values: FloatArray) -> Order:
    """Return the order of the entries of every row."""
    n_classes = values.shape[1]
    unknown = np.ones(len(values), dtype=bool)
    if len(values) == 1:  # a row of a stream: one call instead of ten
        return Order(np.argsort(values, axis=1), unknown)
    label_bits = (n_classes - 1).bit_length()
    loop = loops("ranks", values.size)
    if loop is not None and label_bits <= MOST_LABEL_BITS:
        return _order_by_keys(loop, values, label_bits)
    room = (1 << label_bits) - 1
    bits = values.view(np.int64)
    keys = bits >> 63
    keys &= np.iinfo(np.int64).max
    keys ^= bits
    keys &= ~room
    keys |= np.arange(n_classes)
    keys.sort(axis=1)
    unclear = np.flatnonzero(((keys[:, 1:] ^ keys[:, :-1]) <= room).any(axis=1))
    keys &= room
    if len(unclear):
        rising = np.take_along_axis(values[unclear], keys[unclear], axis=1)
        wrong = unclear[(rising[:, 1:] < rising[:, :-1]).any(axis=1)]
        keys[wrong] = np.argsort(values[wrong], axis=1)
    return Order(keys, unknown)


def _order_by_keys(loop: Any, values: FloatArray, label_bits: int) -> Order:
    """Return the same, by a sort of numbers with half the bits."""
    numbers = _writeable(values)
    keys = np.empty(values.shape, dtype=np.uint32)
    order = Order(np.empty(values.shape, dtype=np.int64), np.empty(len(values), dtype=bool))
    loop.keys_into(numbers, label_bits, keys)
    keys.sort(axis=1)
    if loop.order_into(numbers, keys, label_bits, *order):
        left = np.flatnonzero(order.places[:, 0] < 0)
        order.places[left] = np.argsort(values[left], axis=1)
    return order


# Of 32 bits, those that say which label it is: more would leave too few for the numbers.
MOST_LABEL_BITS = 12

# Where no room is made for numbers of labels, nobody asks for them.
NOT_ASKED = np.empty((0, 0), dtype=np.int64)

# Logarithms are cut at the smallest normal number: smaller probabilities carry no information.
TINY = float(np.finfo(np.float64).tiny)
LOG_TINY = float(np.log(TINY))


class Functions(NamedTuple):
    """Exponential, logarithm, and the sums (n, 1) of rows of numbers in [0, 1].

    Row sums are the same bits however the labels are arranged; they are given the order of the
    rows, which only sums that are not exact have to ask for.
    """

    exp: Callable[[FloatArray], FloatArray]
    log: Callable[[FloatArray], FloatArray]
    row_sums: Callable[[FloatArray, Callable[[], IntArray]], FloatArray]


FUNCTIONS: dict[Arithmetic, Functions] = {
    "exact": Functions(
        elementary.exp, elementary.log, lambda values, order: elementary.sums_of(values)
    ),
    "numpy": Functions(
        np.exp, np.log, lambda values, order: np.take(values, order()).sum(axis=1, keepdims=True)
    ),
}


class Ranked:
    """A block of rows of one model, sorted on first use.

    Parameters
    ----------
    block : array of shape (n, K)
        Probabilities or logits.
    kind : {"probs", "logits"}
        What the numbers are.
    u : array of shape (n,), optional
        One number in [0, 1) per row for randomised scores; 0 where none is given.
    arithmetic : {"exact", "numpy"}
        Whose exponential and logarithm.

    Attributes
    ----------
    probs : float64 array of shape (n, K)
        The probabilities, in label order, as are all the others.
    below : integer array of shape (n, K)
        ``#{y' : p_y' < p_y}``.
    rank : integer array of shape (n, K)
        Rank from the top, ``1 + #{y' : p_y' > p_y}``.
    mass_up_to : float64 array of shape (n, K)
        ``sum of p_y' over p_y' <= p_y``.
    u : float64 array of shape (n, 1)
        One number in [0, 1) per row.

    Examples
    --------
    >>> ranked = Ranked(np.array([[0.2, 0.5, 0.2, 0.1]]))
    >>> ranked.rank
    array([[2, 1, 2, 4]])
    >>> ranked.mass_up_to.round(2)
    array([[0.5, 1. , 0.5, 0.1]])
    """

    xp = np  # where array functions come from; rows on a device have PyTorch's

    def __init__(
        self,
        block: FloatArray,
        kind: Kind = "probs",
        u: FloatArray | None = None,
        arithmetic: Arithmetic = "exact",
    ) -> None:
        numbers = np.ascontiguousarray(block, dtype=np.float64)
        self._raw: FloatArray = numbers
        self.kind: Kind = kind
        self.arithmetic: Arithmetic = arithmetic
        self._functions = FUNCTIONS[arithmetic]
        self.u: FloatArray = np.zeros((len(numbers), 1)) if u is None else u.reshape(-1, 1)
        self._tempered: dict[float, Ranked] = {}
        # Order and tie groups of tempered rows are those of the rows, whatever underflows.
        self._untempered: Ranked | None = None

    @cached_property
    def probs(self) -> FloatArray:
        """The probabilities, shape (n, K)."""
        if self.kind == "probs":
            return self._raw
        if self.arithmetic == "exact":
            # Scores that ask for logarithms too have the sums on the way.
            probs, self.__dict__["log_sum_exp"] = elementary.softmax_and_log_sums(self._raw)
            return probs
        return self._normalized(self.exp(_minus(self._raw, self._raw.max(axis=1, keepdims=True))))

    def exp(self, values: FloatArray) -> FloatArray:
        """Return the exponential of some numbers."""
        return self._functions.exp(values)

    def log(self, values: FloatArray) -> FloatArray:
        """Return the logarithm of some numbers."""
        return self._functions.log(values)

    @property
    def numbers(self) -> FloatArray:
        """The outputs as they came, probabilities or logits, as float64, (n, K)."""
        return self._raw

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.probs.shape[1])

    @property
    def logits(self) -> FloatArray:
        """The raw logits, shape (n, K); only where the outputs are logits."""
        if self.kind != "logits":
            raise InvalidInput('scores "logit" and "energy" need kind="logits"; got probabilities.')
        return self._raw

    @cached_property
    def log_sum_exp(self) -> FloatArray:
        """``log sum exp z`` of the logits, shape (n, 1), without overflow."""
        if self.arithmetic == "exact":
            return elementary.log_sum_exp(self.logits)
        top = self.logits.max(axis=1, keepdims=True)
        return top + self.log(self._row_sums(self.exp(_minus(self.logits, top))))

    @cached_property
    def log_probs(self) -> FloatArray:
        """``log p_y``, floored at the log of the smallest normal number, shape (n, K)."""
        if self.kind == "logits":
            return np.maximum(_minus(self.logits, self.log_sum_exp), LOG_TINY)
        if self.arithmetic == "exact":
            return elementary.log(self.probs, TINY)
        return self.log(np.maximum(self.probs, TINY))

    @cached_property
    def patterns(self) -> FloatArray:
        """The log-probabilities, floored, centred and scaled to norm one, shape (n, K)."""
        return patterns(self.log_probs)  # type: ignore[no-any-return]

    def compute(self, threads: int | None = None) -> None:
        """Compute probabilities and patterns now, by threads; their logarithms are not kept."""
        probs = self._raw if self.kind == "probs" else np.empty_like(self._raw)
        found = np.empty(probs.shape, dtype=np.float32)

        def fill(rows: slice) -> None:
            some = Ranked(self._raw[rows], self.kind, arithmetic=self.arithmetic)
            if self.kind == "logits":
                probs[rows] = some.probs
            found[rows] = some.patterns

        blocks = row_blocks(len(probs), probs.shape[1], CACHE_ENTRIES)
        run_blocks(fill, blocks, threads_for(found.size, threads))
        self.probs, self.patterns = probs, found

    @cached_property
    def entropy(self) -> FloatArray:
        """``-sum p log p``, shape (n, 1)."""
        terms = self.probs * self.log_probs
        if self.arithmetic == "exact":
            return self._row_sums(0.0 - terms)
        return 0.0 - np.sort(terms, axis=1).sum(axis=1, keepdims=True)

    def at(self, temperature: float) -> Ranked:
        """Return the same rows with ``p_y^(1/T)``, renormalised; the sort is shared."""
        if temperature == 1:
            return self
        if temperature not in self._tempered:
            self._tempered[temperature] = self._at(temperature)
        return self._tempered[temperature]

    def _at(self, temperature: float) -> Ranked:
        if self.kind == "logits":
            tempered = type(self)(self._raw / temperature, "logits", self.u, self.arithmetic)
        else:
            shares = self.probs / self.top
            if self.arithmetic == "exact":
                powers = self.exp(self.log(shares) / temperature)
            else:
                powers = shares ** (1 / temperature)
            tempered = type(self)(self._normalized(powers), "probs", self.u, self.arithmetic)
        tempered._untempered = self
        return tempered

    def _row_sums(self, values: FloatArray) -> FloatArray:
        return self._functions.row_sums(values, lambda: self._order)

    def _normalized(self, values: FloatArray) -> FloatArray:
        return values / self._row_sums(values)

    @cached_property
    def _order(self) -> IntArray:
        """Places of the rising entries of every row, counted through the whole block, (n, K)."""
        if self._untempered is not None:
            return self._untempered._order
        places = self.order.places
        return places + np.arange(0, places.size, places.shape[1])[:, None]

    @cached_property
    def order(self) -> Order:
        """The same, counted from the start of every row."""
        order = rising_order(self._raw)
        if self.kind == "probs":
            return order
        return Order(order.places, np.ones_like(order.ties))  # what differs as logits may tie

    @cached_property
    def _rising(self) -> FloatArray:
        """The probabilities of every row, sorted."""
        return np.take(self.probs, self._order)

    @cached_property
    def _ties(self) -> tuple[IntArray, IntArray, IntArray]:
        """Rows with ties (m,); first and last sorted position of each place's tie group (m, K)."""
        if self._untempered is not None:
            return self._untempered._ties
        step = self._rising[:, 1:] != self._rising[:, :-1]
        rows = np.flatnonzero(~step.all(axis=1))
        if not len(rows):
            none = np.empty((0, self.n_classes), dtype=np.intp)
            return rows, none, none
        places = np.arange(self.n_classes)
        first = np.zeros((len(rows), self.n_classes), dtype=np.intp)
        first[:, 1:] = np.where(step[rows], places[1:], 0)
        np.maximum.accumulate(first, axis=1, out=first)
        last = np.full(first.shape, self.n_classes - 1, dtype=np.intp)
        last[:, :-1] = np.where(step[rows], places[:-1], self.n_classes - 1)
        backwards = last[:, ::-1]
        np.minimum.accumulate(backwards, axis=1, out=backwards)
        return rows, first, last

    def _positions(self, in_tied_rows: IntArray) -> IntArray:
        """Return sorted positions in label order (n, K), those of tied rows as given."""
        positions = np.tile(np.arange(self.n_classes), (len(self.probs), 1))
        if len(in_tied_rows):
            positions[self._ties[0]] = in_tied_rows
        return self._in_label_order(positions)

    def _in_label_order(self, rising: Any) -> Any:
        out = np.empty(rising.shape, dtype=rising.dtype)
        out.reshape(-1)[self._order] = rising
        return out

    @cached_property
    def below(self) -> IntArray:
        """``#{y' : p_y' < p_y}``, shape (n, K)."""
        if self._untempered is not None:
            return self._untempered.below
        loop = loops("ranks", self.probs.size)
        if loop is None:
            return self._positions(self._ties[1])
        below = np.empty(self.probs.shape, dtype=np.int64)
        loop.ranks_into(_writeable(self.probs), *self.order, below, NOT_ASKED)
        return below

    @cached_property
    def rank(self) -> IntArray:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``, shape (n, K)."""
        if self._untempered is not None:
            return self._untempered.rank
        loop = loops("ranks", self.probs.size)
        if loop is None:
            return self.n_classes - self._positions(self._ties[2])
        rank = np.empty(self.probs.shape, dtype=np.int64)
        loop.ranks_into(_writeable(self.probs), *self.order, NOT_ASKED, rank)
        return rank

    @cached_property
    def log_ranks(self) -> FloatArray:
        """The logarithm of the rank from the top, shape (n, K)."""
        ranks = np.arange(0.0, self.n_classes + 1)
        ranks[0] = 1.0
        return np.take(self.log(ranks), self.rank)

    @cached_property
    def mass_up_to(self) -> FloatArray:
        """Mass of the labels no likelier than y, shape (n, K); added from the smallest up."""
        loop = loops("ranks", self.probs.size)
        if loop is not None:
            own = self
            while own._untempered is not None:
                own = own._untempered
            masses = np.empty(self.probs.shape)
            loop.masses_into(
                _writeable(own.probs), _writeable(self.probs), own.order.places, masses
            )
            return masses
        rows, _, last = self._ties
        if not len(rows):
            return self._in_label_order(self.running_mass)
        mass = self.running_mass.copy()
        mass[rows] = np.take_along_axis(mass[rows], last, axis=1)
        return self._in_label_order(mass)

    @cached_property
    def running_mass(self) -> FloatArray:
        """Sums of the sorted probabilities, from the smallest up, shape (n, K)."""
        return np.cumsum(self._rising, axis=1)

    @cached_property
    def top(self) -> FloatArray:
        """The largest probability of every row, shape (n, 1)."""
        return self.probs.max(axis=1, keepdims=True)

    @cached_property
    def runner_up(self) -> FloatArray:
        """The second largest probability, which equals the largest in a tie, shape (n, 1)."""
        return np.partition(self.probs, -2, axis=1)[:, -2:-1]


def ranked_rows(values: Any, kind: Kind, arithmetic: Arithmetic) -> Any:
    """Return rows of one model, ranked where they are.

    Examples
    --------
    >>> ranked_rows(np.array([[0.2, 0.8]]), "probs", "exact").rank
    array([[2, 1]])
    """
    if on_device(values):
        return import_module("conformix.scores.device").DeviceRanked(values, kind)
    return Ranked(values, kind, arithmetic=arithmetic)


def ranked_models(outputs: Outputs) -> dict[str, Any]:
    """Return some rows of every model, ranked where they are.

    Examples
    --------
    >>> from conformix.data.outputs import check_outputs
    >>> ranked_models(check_outputs({"one": [[0.2, 0.8]]}))["one"].rank
    array([[2, 1]])
    """
    how = outputs.kind, outputs.arithmetic
    return {model: ranked_rows(values[:], *how) for model, values in outputs.models.items()}


class Rising(Ranked):
    """A block of rows whose numbers rise: no sort, and label order is sorted order."""

    def some(self, rows: IntArray) -> Rising:
        """Return some of the rows."""
        part = Rising(self._raw[rows], self.kind, self.u[rows], self.arithmetic)
        if self.kind == "logits" and "probs" in vars(self):
            part.__dict__["probs"] = self.probs[rows]
        return part

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return self._raw.shape

    @cached_property
    def _order(self) -> IntArray:
        return np.arange(self._raw.size).reshape(self._raw.shape)

    @cached_property
    def order(self) -> Order:
        """0, 1, ... in every row."""
        places = np.tile(np.arange(self._raw.shape[1]), (len(self._raw), 1))
        return Order(places, np.ones(len(places), dtype=bool))

    @cached_property
    def _rising(self) -> FloatArray:
        return self.probs

    def _in_label_order(self, rising: Any) -> Any:
        return rising

    @cached_property
    def top(self) -> FloatArray:
        """The last of every row."""
        return self.probs[:, -1:]

    @cached_property
    def runner_up(self) -> FloatArray:
        """The last but one."""
        return self.probs[:, -2:-1]


def _writeable(values: FloatArray) -> FloatArray:
    """Return numbers that a loop takes: code for memory that must not be written is another."""
    return values if values.flags.writeable else values.copy()


def _minus(logits: FloatArray, top: FloatArray) -> FloatArray:
    """Return the difference; beyond the range of floats it is ``-inf``, whose exp is 0."""
    with np.errstate(over="ignore"):
        return logits - top
