"""Scores that learn without labels what the labels of a row say about each other.

When maple and oak are both likely, willow is likelier than its own probability says. Let f(x) be
the pattern of a row: its log-probabilities, floored at -12, centred over the labels, scaled to norm
one (`conformix.kernels.patterns`). Over the rows that a score learns from:

- ``likeness``: the prototype of a label is ``m_y = sum_i p_y(x_i) f(x_i)``, scaled to norm one, and
  the score ``4 f(x) . m_y``;
- ``kin``: R is the correlation matrix of the K columns of f; its negative entries count as zero and
  its diagonal is one; rows are scaled to norm one, and the score is ``4 f(x) . R_y``;
- ``rarity``: ``-log`` of the mean probability of a label, relative to 1/K, as if three more rows
  for every label had been uniform: what is seldom likely at all counts for more when it is.

Each is one matrix (K, K), or K numbers, made of sums over rows that add up exactly, wherever the
rows are. On the rows that it learnt from, a score has values that those rows had no part in: each
row leaves itself out of prototypes and means, and correlations come from the other nine of ten
parts (three of four where there are more than 512 classes).

No label is seen, but what is learnt must not be made of calibration rows alone, nor of rows to be
predicted alone: the scores of these rows would then differ in kind from those of the others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels import available_threads, elementary, patterns
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    as_float64,
    is_tensor,
    quotient,
    root,
    to_device,
    to_host,
    torch_module,
)
from conformix.kernels.blas import run_products
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    Parts,
    entries_at_once,
    parts_of_rows,
    row_blocks,
    run_blocks,
    run_parts,
    shares,
    threads_for,
)
from conformix.kernels.twins import loops
from conformix.scores.ranked import Ranked
from conformix.scores.score import Score

# The width of both scores: products of unit vectors are between -1 and 1.
WIDTH = 4.0
# Parts that the rows are cut into; a row's correlations come from the others. Of many classes every
# part costs a large matrix.
N_PARTS, FEW_PARTS, MANY_CLASSES = 10, 4, 2**9
# A squared norm, relative to what it is the difference of, below which nothing is left of it.
CANCELLED = 2.0**-16
# Classes of which a matrix of all pairs is held (2 GiB).
MOST_CLASSES = 2**14
# Scores that a thread multiplies at once: the matrix is read for many rows.
PRODUCT_ENTRIES = 2**18
# Entries of matrices that all threads hold together (1 GiB).
MOST_ENTRIES = 2**27
# For every label, rows that count as uniform: a mean over few rows says little of rare labels.
UNIFORM_ROWS = 3.0


class RowSums(NamedTuple):
    """Sums over rows, as whole numbers: those of several blocks add up."""

    n: int
    products: Any  # (K, K), in multiples of 2^-40
    totals: Any  # (K,), in multiples of 2^-20

    def plus(self, other: RowSums, sign: int = 1) -> RowSums:
        """Return the sums over the rows of both, or of those that the other has not."""
        return RowSums(
            self.n + sign * other.n,
            self.products + sign * other.products,
            self.totals + sign * other.totals,
        )

    def of(self, labels: slice) -> RowSums:
        """Return the products of some labels with all, (m, K)."""
        return RowSums(self.n, self.products[labels], self.totals)

    @property
    def on_host(self) -> RowSums:
        """The sums in host memory."""
        return RowSums(self.n, to_host(self.products), to_host(self.totals))

    def beside(self, values: Any) -> RowSums:
        """Return the sums where some values are, in host memory or on a device."""
        return RowSums(self.n, to_device(self.products, values), to_device(self.totals, values))


def total_of(sums: Sequence[RowSums], threads: int | None = 1) -> RowSums:
    """Return what several sums add up to, by threads with labels of their own."""
    products = sums[0].products
    if len(sums) == 1 or not isinstance(products, np.ndarray):
        return reduce(RowSums.plus, sums)
    total = np.empty_like(products)

    def add_up(labels: slice) -> None:
        np.add(products[labels], sums[1].products[labels], out=total[labels])
        for others in sums[2:]:
            total[labels] += others.products[labels]

    several = threads_for(total.size, threads)
    run_blocks(add_up, shares(len(total), several), several)
    return RowSums(sum(one.n for one in sums), total, sum(one.totals for one in sums))


def parts_of(n: int, units: IntArray | None, n_classes: int) -> IntArray:
    """Return the part (n,) of every row; rows of one unit, such as a group, go together.

    None of the parts up to the last one is empty.

    Examples
    --------
    >>> parts_of(3, np.array([7, 7, 9]), n_classes=3), parts_of(3, None, n_classes=3)
    (array([0, 0, 1]), array([0, 1, 2]))
    """
    n_parts = N_PARTS if n_classes <= MANY_CLASSES else FEW_PARTS
    places = np.arange(n) if units is None else np.unique(units, return_inverse=True)[1]
    return places % n_parts


T = TypeVar("T", bound="LearningScore")


@dataclass(frozen=True)
class LearningScore(Score):
    """A score that learns from rows without labels before it scores any.

    Parameters
    ----------
    factors : float64 array, optional
        What was learnt. Left out of texts and comparisons.
    """

    sorts: ClassVar[bool] = False
    on_device: ClassVar[bool] = True
    learns: ClassVar[bool] = True

    factors: Any = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factors is not None and not isinstance(self.factors, np.ndarray):
            raise TypeError("factors are learnt, not given")

    def __call__(self, ranked: Ranked) -> FloatArray:
        """Return the scores of all labels of a block of rows, shape (n, K)."""
        if self.factors is None:
            raise InvalidInput(
                f'score "{self}" learns from rows before it scores any; name it among the scores '
                "of ScoreAverage, which keeps rows apart for that."
            )
        return self.of_rows(ranked)

    @abstractmethod
    def of_rows(self, ranked: Ranked) -> FloatArray:
        """Return the scores (n, K) by what was learnt."""

    @abstractmethod
    def sums(self, ranked: Ranked, threads: int = 1) -> RowSums:
        """Return what is added up over a block of rows."""

    def sums_of_parts(
        self, ranked: Ranked, parts: IntArray, threads: int | None = None
    ) -> list[RowSums]:
        """Return what is added up over rows, by parts where these are asked for later."""
        return [self.sums(ranked, available_threads(threads))]

    @abstractmethod
    def learnt(self: T, sums: RowSums, threads: int | None = 1) -> T:
        """Return the score with what some rows teach it."""

    @abstractmethod
    def left_out(
        self,
        ranked: Ranked,
        sums: RowSums,
        parts: IntArray,
        threads: int | None = None,
        own: Sequence[RowSums] = (),
        *,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores (n, K) of rows that are in the sums, as if they were not.

        Every row leaves out itself, or, where that would take a matrix each, its part of the rows:
        `parts` (n,) says which they are, `own` what they add up to, where it is known. On the host
        they are written to `out`, where it is given.
        """

    @abstractmethod
    def check(self, n_classes: int) -> None:
        """Refuse factors that these cannot be."""


@dataclass(frozen=True)
class PatternScore(LearningScore):
    """A product of a row's pattern with a row of a matrix (K, K) for every label."""

    def unit(self, n_classes: int) -> float:
        """Return four: products of unit vectors, times four."""
        return WIDTH

    def sums(self, ranked: Ranked, threads: int = 1) -> RowSums:
        """Return what is added up over a block of rows."""
        if ranked.n_classes > MOST_CLASSES:
            raise InvalidInput(
                f'score "{self}" holds a matrix of all pairs of classes, for at most '
                f"{MOST_CLASSES:,} of them; got {ranked.n_classes:,}."
            )
        return self.sums_of(ranked, threads)

    @abstractmethod
    def sums_of(self, ranked: Ranked, threads: int) -> RowSums:
        """Return the sums whose numbers grow with the square of the classes."""

    def of_rows(self, ranked: Ranked) -> FloatArray:
        """Return ``4 f(x) . factors_y``."""
        return WIDTH * patterns.multiplier(self.factors)(ranked.patterns)  # type: ignore[no-any-return]

    def learnt(self: P, sums: RowSums, threads: int | None = 1) -> P:
        """Return the score with the matrix that some rows make."""
        return replace(self, factors=to_host(self.matrix(sums, available_threads(threads))))

    @abstractmethod
    def matrix(self, sums: RowSums, threads: int = 1) -> Any:
        """Return the matrix (K, K) that some rows make, of rows with norm one, where the sums are.

        Made of operations that round alike everywhere: the same bits on a device.
        """

    def check(self, n_classes: int) -> None:
        """Refuse a matrix whose products are not exact."""
        patterns.check_factors(self.factors, n_classes)


P = TypeVar("P", bound=PatternScore)


def pattern_sum(scores: Sequence[Any], coefficients: Sequence[float]) -> patterns.Multiplier:
    """Return what a sum of scores of patterns of one model multiplies these by, once for all.

    No coefficient is negative.

    Examples
    --------
    >>> both = pattern_sum([Kin(factors=np.eye(2)), Likeness(factors=np.eye(2))], [0.5, 1.0])
    >>> both.matrix.tolist()
    [[6.0, 0.0], [0.0, 6.0]]
    """
    total = WIDTH * coefficients[0] * scores[0].factors
    for score, coefficient in zip(scores[1:], coefficients[1:], strict=True):
        total += WIDTH * coefficient * score.factors
    scale = 2.0 ** math.ceil(math.log2(max(WIDTH * sum(coefficients), 1e-30)))
    # Rounded now: half the memory.
    rounded = patterns.narrow(patterns.in_multiples(total / scale, patterns.MATRIX_BITS))
    return patterns.multiplier(rounded, scale)


@dataclass(frozen=True)
class Likeness(PatternScore):
    """How like a row's pattern is to that of the rows in which a label is likely.

    Examples
    --------
    >>> rows = Ranked(np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]]))
    >>> score = Likeness().learnt(Likeness().sums(rows))
    >>> score(rows).round(1)
    array([[ 4. ,  4. , -3.6],
           [ 3.9,  4. , -3.9],
           [-3.8, -3.8,  4. ]])
    """

    name: ClassVar[str] = "likeness"

    def sums_of(self, ranked: Ranked, threads: int) -> RowSums:
        """Return ``sum_i p_y(x_i) f(x_i)``."""
        products = patterns.prototype_sums(ranked.probs, ranked.patterns, threads)
        return RowSums(len(ranked.probs), to_host(products), 0)

    def matrix(self, sums: RowSums, threads: int = 1) -> Any:
        """Return the prototypes."""
        return self._prototypes(sums, threads)[0]

    def _prototypes(self, sums: RowSums, threads: int) -> tuple[Any, Any]:
        units, norms = patterns.unit_rows(sums.products, threads)
        return units, norms * 2.0 ** (-2 * patterns.SUM_BITS)

    def left_out(
        self,
        ranked: Ranked,
        sums: RowSums,
        parts: IntArray,
        threads: int | None = None,
        own: Sequence[RowSums] = (),
        *,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores of rows that leave themselves out of the prototypes.

        With ``d = f . m`` the product with ``m - p f`` is ``d - p f.f``, and the square of its norm
        ``m.m - 2 p d + p^2 f.f``. Where nothing is left of a prototype the score is zero.
        """
        several = available_threads(threads)
        units, norms = self._prototypes(sums.beside(ranked.patterns), several)
        xp, scores = ranked.xp, ranked.xp.empty_like(ranked.probs) if out is None else out
        prototypes = patterns.fine_multiplier(units)
        loop: Any = None if is_tensor(scores) else loops("likeness", scores.size)
        pieces = [] if loop is None else prototypes.in_units(scores.size)
        if pieces and scores.flags.c_contiguous and ranked.probs.flags.writeable:
            n, n_classes = scores.shape
            matrices, in_units = zip(*pieces, strict=True)
            amount = _amount(n_classes, n_classes)
            shared = parts_of_rows(n, amount, several, most=loop.ROWS_AT_ONCE)
            task = loop.Leaving(
                ranked.patterns, 2.0**-patterns.PATTERN_BITS, ranked.probs, norms, matrices,
                in_units, CANCELLED, WIDTH, scores,
                loop.room_for(shared.threads, n_classes, shared.step), shared.step,
            )  # fmt: skip
            run_parts(loop.score, shared, task)
            return scores  # type: ignore[no-any-return]

        def leave_out(rows: slice) -> None:
            p = ranked.probs[rows]
            products = prototypes(ranked.patterns[rows])
            if loop is not None:
                scores[rows] = products
                loop.leave_out(scores[rows], ranked.patterns[rows], p, norms, CANCELLED, WIDTH)
                return
            f = as_float64(ranked.patterns[rows])
            length = (f * f).sum(1)[:, None]
            along = norms * products
            square = norms * norms - 2.0 * p * along + p * p * length
            there = square > CANCELLED * norms * norms
            norm = root(xp.where(there, square, 1.0))
            scores[rows] = xp.where(there, WIDTH * ((along - p * length) / norm), 0.0)

        _run(leave_out, scores, threads, PRODUCT_ENTRIES, ranked.n_classes)
        return scores


@dataclass(frozen=True)
class Kin(PatternScore):
    """How high the labels score that go with a label, by their correlations over rows.

    Examples
    --------
    >>> rows = Ranked(np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.1, 0.8]]))
    >>> score = Kin().learnt(Kin().sums(rows))
    >>> score.factors.round(2)  # the first two labels go together
    array([[0.74, 0.67, 0.  ],
           [0.67, 0.74, 0.  ],
           [0.  , 0.  , 1.  ]])
    """

    name: ClassVar[str] = "kin"

    def sums_of(self, ranked: Ranked, threads: int) -> RowSums:
        """Return the sums of products of two columns of f, and of the columns."""
        return _correlated(ranked.patterns).on_host

    def matrix(self, sums: RowSums, threads: int = 1) -> Any:
        """Return the positive correlations, one on the diagonal; a label that never varies has 0.

        Row and column of an entry play the same part, so the matrix is symmetric before its rows
        are scaled, to the last bit.
        """
        n_classes, own = len(sums.totals), sums.products.diagonal()
        if is_tensor(sums.products):
            return self._of_labels(sums, own, slice(0, n_classes))
        units = np.empty((n_classes, n_classes))

        def fill(labels: slice) -> None:
            units[labels] = self._of_labels(sums.of(labels), own, labels)

        several = threads_for(units.size, threads)
        run_blocks(fill, shares(n_classes, several), several)
        return units

    def _of_labels(self, sums: RowSums, own: Any, labels: slice) -> Any:
        """Return rows (m, K) of the matrix.

        By products (m, K) of these labels with all, and those of all labels with themselves (K,).
        """
        products, totals, own = sums.products, as_float64(sums.totals), as_float64(own)
        n = max(sums.n, 1)
        variance = own - quotient(totals * totals, n)
        xp = torch_module() if is_tensor(products) else np
        spread = root(xp.where(variance > CANCELLED * own, variance, np.inf))
        loop = None if is_tensor(products) else loops("patterns", len(totals) ** 2)
        if loop is not None:
            units = np.empty(products.shape)
            bits = patterns.unit_bits(len(totals)), patterns.FACTOR_BITS
            shifts = patterns.shift_to(bits[0]), patterns.shift_to(bits[1])
            loop.correlations_into(products, totals, spread, n, shifts, labels.start, units)
            return units
        covariance = as_float64(products) - quotient(totals[labels, None] * totals[None, :], n)
        positive = (covariance / (spread[labels, None] * spread[None, :])).clip(0.0, 1.0)
        places = xp.arange(len(products))
        positive[places, places + labels.start] = 1.0
        return patterns.unit_rows(positive)[0]

    def left_out(
        self,
        ranked: Ranked,
        sums: RowSums,
        parts: IntArray,
        threads: int | None = None,
        own: Sequence[RowSums] = (),
        *,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the scores of rows by the correlations over the other parts."""
        scores = ranked.xp.empty_like(ranked.probs) if out is None else out
        everything, places = sums.beside(ranked.patterns), np.arange(parts.max() + 1)
        known = len(own) == len(places)
        shared = SharedParts.of(ranked, parts, threads, 2)
        if shared is not None and known and scores.flags.c_contiguous:
            shared.score(everything, own, scores)
            return scores

        def score(place: int, labels: slice) -> None:
            rows = to_device(np.flatnonzero(parts == places[place]), scores)
            some = ranked.patterns[rows]
            lacking = own[place] if known else _correlated(some)
            squares = everything.products.diagonal() - lacking.products.diagonal()
            entries = DEVICE_ENTRIES if is_tensor(scores) else PRODUCT_ENTRIES
            for block in row_blocks(labels.stop - labels.start, ranked.n_classes, entries):
                own_labels = slice(labels.start + block.start, labels.start + block.stop)
                others = everything.of(own_labels).plus(lacking.of(own_labels), -1)
                units = self._of_labels(others, squares, own_labels)
                scores[rows, own_labels] = patterns.multiplier(units, WIDTH)(some)

        _run_tasks(score, len(places), ranked, threads, fewest=2 if known else None)
        return scores

    def sums_of_parts(
        self, ranked: Ranked, parts: IntArray, threads: int | None = None
    ) -> list[RowSums]:
        """Return the sums of every part, where all their matrices are few numbers."""
        places, n_classes = np.arange(parts.max() + 1), ranked.n_classes
        if len(places) * n_classes**2 > MOST_ENTRIES:
            return [self.sums(ranked, available_threads(threads))]
        # Two blocks would take as long as the half of a whole that is mirrored.
        shared = SharedParts.of(ranked, parts, threads, 3)
        if shared is not None:
            return shared.sums()
        rows = [to_device(np.flatnonzero(parts == part), ranked.patterns) for part in places]
        if is_tensor(ranked.patterns):
            return [_correlated(ranked.patterns[some]) for some in rows]
        several = threads_for(ranked.patterns.size, threads)
        columns = run_blocks(lambda some: patterns.Columns(ranked.patterns[some]), rows, several)
        products = np.empty((len(places), n_classes, n_classes), dtype=np.int64)

        def add_up(place: int, labels: slice) -> None:
            every = labels == slice(0, n_classes)
            products[place, labels] = columns[place].products(None if every else labels)

        _run_tasks(add_up, len(places), ranked, threads, fewest=3)
        totals = [of_part.totals for of_part in columns]
        return [RowSums(*one) for one in zip(map(len, rows), products, totals, strict=True)]


class SharedParts:
    """Work on a matrix of every part of the rows that compiled loops share.

    Parameters
    ----------
    loop : module
        `conformix.kernels.host.kin`.
    ranked : Ranked
        The rows.
    parts : integer array of shape (n,)
        Which part every row is of.
    threads : int
        How many share it.
    blocks : int
        In how many blocks of labels they do.
    """

    def __init__(
        self, loop: Any, ranked: Ranked, parts: IntArray, threads: int, blocks: int
    ) -> None:
        self._loop, self._threads, self._n_classes = loop, threads, ranked.n_classes
        self._counts = counts = np.bincount(parts)
        step = -(-ranked.n_classes // blocks)
        rows = np.argsort(parts, kind="stable")
        ends = np.concatenate([[0], np.cumsum(counts)])
        self._members = loop.Members(
            ranked.patterns, 2.0**-patterns.PATTERN_BITS, rows, ends, step,
            -(-ranked.n_classes // step),
        )  # fmt: skip

    @classmethod
    def of(
        cls, ranked: Ranked, parts: IntArray, threads: int | None, fewest: int
    ) -> SharedParts | None:
        """Return who shares them, in blocks where so many pay; None where NumPy does it all."""
        if is_tensor(ranked.patterns):
            return None
        loop, products = (loops(name, ranked.patterns.size) for name in ("kin", "products"))
        if loop is None or not products.are_quick():
            return None
        n_parts, n_classes = int(parts.max()) + 1, ranked.n_classes
        several = threads_for(_amount(n_parts * n_classes**2, n_classes), threads)
        blocks = several // n_parts
        # Each holds a matrix of numbers of two bytes.
        several = max(1, min(several, 4 * MOST_ENTRIES // n_classes**2))
        return cls(loop, ranked, parts, several, blocks if blocks >= fewest else 1)

    def sums(self) -> list[RowSums]:
        """Return what is added up over every part."""
        n_parts, n_classes = len(self._counts), self._n_classes
        products = np.empty((n_parts, n_classes, n_classes), dtype=np.int64)
        totals = np.empty((n_parts, n_classes), dtype=np.int64)
        more = patterns.SUM_BITS - patterns.PATTERN_BITS
        room = self._loop.columns_for(self._threads, n_classes)
        task = self._loop.Adding(self._members, (4**more, 2**more), products, totals, *room)
        self._run(self._loop.add_up, task)
        return [RowSums(*one) for one in zip(self._counts.tolist(), products, totals, strict=True)]

    def score(self, everything: RowSums, own: Sequence[RowSums], scores: FloatArray) -> None:
        """Write the scores of all rows, each by what the other parts add up to."""
        lacking = _stacked([one.products for one in own])
        totals = _stacked([one.totals for one in own])
        bits = patterns.unit_bits(self._n_classes), patterns.FACTOR_BITS, patterns.MATRIX_BITS
        unit = 2.0**-patterns.MATRIX_BITS
        task = self._loop.Scoring(
            self._members, everything.products, everything.totals, lacking, totals,
            np.maximum(everything.n - np.array([one.n for one in own]), 1), CANCELLED,
            tuple(map(patterns.shift_to, bits)),
            (unit, WIDTH * unit * 2.0**-patterns.PATTERN_BITS), scores,
            *self._loop.matrices_for(self._threads, self._n_classes),
        )  # fmt: skip
        self._run(self._loop.score, task)

    def _run(self, kernel: Any, task: Any) -> None:
        run_parts(kernel, Parts(len(self._counts) * self._members.blocks, 1, self._threads), task)


def _stacked(arrays: Sequence[Any]) -> Any:
    """Return arrays as one: what they are views of, where that is all of them in their order."""
    whole = arrays[0].base
    if whole is None or whole.shape != (len(arrays), *arrays[0].shape):
        return np.stack(arrays)
    there = (array.__array_interface__["data"] for array in arrays)
    alike = all(own.__array_interface__["data"] == at for own, at in zip(whole, there, strict=True))
    return whole if alike else np.stack(arrays)


def _run_tasks(
    work: Callable[[int, slice], None],
    n_parts: int,
    ranked: Ranked,
    threads: int | None,
    *,
    fewest: int | None,
) -> None:
    """Do some work on a matrix of every part of the rows, in blocks of labels if that is sooner.

    As many blocks as threads would be idle otherwise, where these are the `fewest` that pay, and as
    many threads as there is memory for: each holds some six blocks of a matrix.
    """
    n_classes = ranked.n_classes
    several = threads_for(_amount(n_parts * n_classes**2, n_classes), threads)
    n_blocks = several // n_parts
    if fewest is None or n_blocks < fewest or is_tensor(ranked.probs):
        n_blocks = 1
    blocks = list(shares(n_classes, n_blocks))
    held = 6 * (blocks[0].stop - blocks[0].start) * n_classes
    tasks = [(part, labels) for part in range(n_parts) for labels in blocks]
    several = max(1, min(several, MOST_ENTRIES // held))
    run_products(lambda task: work(*task), tasks, several)


def _run(
    work: Callable[[slice], None],
    scores: Any,
    threads: int | None,
    entries: int = patterns.CACHE_ENTRIES,
    products: int = 0,
) -> None:
    """Do some work on all rows of scores (n, K), in blocks of so many, or one for each thread.

    Scores are sums of so many `products` each.
    """
    several = threads_for(_amount(scores.shape[0] * scores.shape[1], products), threads)
    share = -(-len(scores) // several) * scores.shape[1]
    entries = entries_at_once(min(entries, share), len(scores), scores.shape[1], several)
    entries = DEVICE_ENTRIES if is_tensor(scores) else entries
    run_products(work, row_blocks(len(scores), scores.shape[1], entries), several)


def _amount(numbers: int, products: int) -> int:
    """Return how many plain numbers are as much work as some that are sums of products."""
    return numbers * (1 + products // patterns.AT_A_TIME)


def _correlated(rows: Any) -> RowSums:
    if is_tensor(rows):
        return RowSums(len(rows), patterns.summed_products(rows, rows), patterns.summed(rows))
    columns = patterns.Columns(rows)
    return RowSums(len(rows), columns.products(), columns.totals)


@dataclass(frozen=True)
class Rarity(LearningScore):
    """How seldom a label is likely: one number per label, the same in all rows.

    Examples
    --------
    >>> rows = Ranked(np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.7, 0.2, 0.1]]))
    >>> Rarity().learnt(Rarity().sums(rows))(rows)[0].round(2)
    array([-0.18,  0.03,  0.19])
    """

    name: ClassVar[str] = "rarity"

    def of_rows(self, ranked: Ranked) -> FloatArray:
        """Return the numbers of the labels."""
        values = to_device(self.factors, ranked.probs)
        return ranked.xp.broadcast_to(values, ranked.probs.shape)

    def sums(self, ranked: Ranked, threads: int = 1) -> RowSums:
        """Return the sums of the probabilities."""
        return RowSums(len(ranked.probs), 0, to_host(patterns.summed(ranked.probs, threads)))

    def learnt(self, sums: RowSums, threads: int | None = 1) -> Rarity:
        """Return the score with the constants that some rows make."""
        return replace(self, factors=0.0 - elementary.log(to_host(_share(_mass(sums), sums.n))))

    def left_out(
        self,
        ranked: Ranked,
        sums: RowSums,
        parts: IntArray,
        threads: int | None = None,
        own: Sequence[RowSums] = (),
        *,
        out: FloatArray | None = None,
    ) -> FloatArray:
        """Return the constants of rows that leave themselves out."""
        mass = _mass(sums.beside(ranked.probs))
        scores: Any = ranked.xp.empty_like(ranked.probs) if out is None else out
        here = not is_tensor(scores) and ranked.arithmetic == "exact" and scores.flags.c_contiguous
        loop = loops("patterns", scores.size) if here else None
        if loop is not None and ranked.probs.flags.writeable:
            n, n_classes = scores.shape
            parts_of_loop = parts_of_rows(n, n_classes, available_threads(threads))
            task = loop.Shares(
                ranked.probs, mass, UNIFORM_ROWS, _rows_of_label(sums.n - 1, n_classes), scores,
                loop.lines_for(parts_of_loop.threads), parts_of_loop.step,
            )  # fmt: skip
            run_parts(loop.rarities, parts_of_loop, task)
            return scores  # type: ignore[no-any-return]

        def leave_out(rows: slice) -> None:
            scores[rows] = 0.0 - ranked.log(_share(mass - ranked.probs[rows], sums.n - 1))

        _run(leave_out, scores, threads)
        return scores  # type: ignore[no-any-return]

    def check(self, n_classes: int) -> None:
        """Refuse anything but one finite number per label."""
        proper = self.factors.shape == (n_classes,) and self.factors.dtype == np.float64
        if not proper or not np.isfinite(self.factors).all():
            raise InvalidInput(f'score "{self}" must hold {n_classes} finite numbers.')


def _mass(sums: RowSums) -> Any:
    return as_float64(sums.totals) * 2.0**-patterns.SUM_BITS


def _share(mass: Any, n: int) -> Any:
    """Return the share of labels, relative to 1/K, with some more rows that are uniform."""
    return quotient(mass.clip(min=0.0) + UNIFORM_ROWS, _rows_of_label(n, mass.shape[-1]))


def _rows_of_label(n: int, n_classes: int) -> float:
    """Return how many of n rows a label has if all have as many, with those that are uniform."""
    return n / n_classes + UNIFORM_ROWS
