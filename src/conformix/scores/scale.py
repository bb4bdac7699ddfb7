"""On which scale scores are averaged.

Averaging adds numbers, so their scale decides. ``none`` takes scores as they are; ``scale``
divides each by its natural width, known beforehand; ``ecdf`` replaces each by the empirical
distribution function of all label scores of the tuning rows, interpolated and frozen. A normaliser
works on every score by itself and keeps the order of its values.

What it does to the guarantee: ``none`` and ``scale`` nothing. ``ecdf`` nothing where the tuning
rows are not the calibration rows (VFCP); where they are (EFCP, DLCP, DLCP+) the scores depend on
the calibration rows, and no finite-sample bound is known.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from conformix.errors import InvalidInput, shown
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    as_float64,
    is_tensor,
    places,
    refuse_masked,
    to_device,
    to_host,
    torch_module,
)
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    available_threads,
    row_blocks,
    run_blocks,
    threads_for,
)
from conformix.kernels.cached import cached_property
from conformix.kernels.twins import loops
from conformix.registry import unknown_name
from conformix.scores.names import Column

__all__ = [
    "NORMALIZERS",
    "Ecdf",
    "Interpolated",
    "NaturalScale",
    "Normalizer",
    "Scaled",
    "Unscaled",
]

# Half of the knots are even in rank, half are ever closer towards the top, where thresholds lie.
MAX_KNOTS = 2**12
# Values sorted per score: so many, or those of so many rows, at most. Beyond it rows are thinned.
SOME_VALUES, SOME_ROWS = 2**16, 2**9
MAX_VALUES = 2**22
# What a value costs that is sorted among all others, in outputs that are sorted by rows.
SORTED = 16
# Values that a thread sorts at least; of so many for each of them a sample says where to cut.
FEWEST_SORTED, SAMPLED = 2**14, 32
# Values of sorted rows that are put together at once, about: a core's cache holds them.
MERGED = 2**15
# Values normalised at once: the eight arrays on the way stay in a core's cache.
CACHE_ENTRIES = 2**15
# Scores from which on tables of buckets are made (their kernel compiles at its first call), and the
# same where a compiler is loaded already. Tables that are there are used for any number of them.
WORTHWHILE, WORTHWHILE_THEN = 2**17, 2**12


class Transform(Protocol):
    """A fitted normaliser: works on the last axis of any array of scores."""

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the normalised scores, shape (..., d)."""


class Normalizer(Protocol):
    """What a fit asks of a normaliser; write a class with these three to add one.

    Examples
    --------
    >>> class Halved:
    ...     name, learns = "halved", False
    ...
    ...     def fit(self, scores, columns):
    ...         return Scaled((0.5,) * scores.shape[-1])
    >>> Halved().fit(np.zeros((1, 2, 1)), ())(np.array([3.0]))
    array([1.5])
    """

    @property
    def name(self) -> str:
        """The name in tables."""

    @property
    def learns(self) -> bool:
        """Whether `fit` looks at the rows; if not, every guarantee stays."""

    def fit(self, scores: FloatArray, columns: Sequence[Column]) -> Transform:
        """Return the transform learnt from the scores (n, K, d) of the tuning rows."""


@dataclass(frozen=True)
class Scaled:
    """Scores times a fixed factor each.

    Parameters
    ----------
    factors : tuple of float
        One factor per score.

    Examples
    --------
    >>> Scaled((1.0, 0.5))(np.array([2.0, 2.0]))
    array([2., 1.])
    """

    factors: tuple[float, ...]

    holds_rows: ClassVar[bool] = False

    @property
    def rises(self) -> bool:
        """Whether larger scores stay no smaller: no factor is negative."""
        return all(factor >= 0 for factor in self.factors)

    @property
    def leaves_scores(self) -> bool:
        """Whether scores stay as they are: all factors are one, and nobody else maps them."""
        return type(self) is Scaled and all(factor == 1 for factor in self.factors)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return ``factor_j * s_j``; the scores themselves where all factors are one."""
        if self.leaves_scores:
            return scores
        return _by_score(scores, lambda j, values: values * self.factors[j])


@dataclass(frozen=True, eq=False)
class Interpolated:
    """Scores mapped by one rising, piecewise linear function each.

    Parameters
    ----------
    knots, levels : tuples of arrays
        Where the functions bend, and their values there.

    Examples
    --------
    >>> line = Interpolated((np.array([0.0, 4.0]),), (np.array([0.0, 1.0]),))
    >>> line(np.array([[1.0], [9.0]]))  # clipped at the ends
    array([[0.25],
           [1.  ]])
    """

    knots: tuple[FloatArray, ...]
    levels: tuple[FloatArray, ...]

    holds_rows: ClassVar[bool] = False
    rises: ClassVar[bool] = True

    @property
    def ends(self) -> FloatArray:
        """The smallest and the largest values, shape (2, d)."""
        return np.array([[levels[end] for levels in self.levels] for end in (0, -1)])

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Return the functions of the scores."""
        least = WORTHWHILE_THEN if "numba" in sys.modules else WORTHWHILE
        tables = "_lookups" in vars(self) or math.prod(scores.shape) >= least
        tables &= not is_tensor(scores)
        lines: Any = self._lookups if tables else (None,) * len(self.knots)

        def line(j: int, values: FloatArray) -> FloatArray:
            if lines[j] is not None:
                return lines[j](values)  # type: ignore[no-any-return]
            if is_tensor(values):
                return rising_line(values, *self._sent_to(values)[j])
            return rising_line(values, self.knots[j], self.levels[j])

        return _by_score(scores, line)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and sent to workers: tables are made again where they pay."""
        return {"knots": self.knots, "levels": self.levels}

    def _sent_to(self, values: Any) -> list[tuple[Any, Any]]:
        """Return knots and levels of every score on the device of some values, sent there once."""
        sent: dict[Any, list[tuple[Any, Any]]] = vars(self).setdefault("_sent", {})
        if values.device not in sent:
            both = zip(self.knots, self.levels, strict=True)
            sent[values.device] = [(to_device(k, values), to_device(h, values)) for k, h in both]
        return sent[values.device]

    @cached_property
    def _lookups(self) -> tuple[Any, ...]:
        """Tables with which many scores are looked up, to the same bits."""
        tables = import_module("conformix.kernels.host.lookup")  # numba, where it pays
        return tuple(map(tables.lookup, self.knots, self.levels))

    @cached_property
    def lines(self) -> Any:
        """The same tables, those of all scores in one; None where a score has none."""
        tables = import_module("conformix.kernels.host.lookup")
        return tables.joined_lines(self._lookups)

    def floors(self, weights: FloatArray, least: float) -> FloatArray:
        """Return the scores (d,) at or below which a label combines to less than `least`.

        Every score is tried at its knots with all others at their highest. Products with weights
        that are not negative, and sums, rise with their terms in floats too: what falls short here
        falls short to the last bit.

        Examples
        --------
        >>> half = np.array([0.0, 0.5, 1.0])
        >>> Interpolated((half, half), (half, half)).floors(np.array([0.5, 0.5]), 0.9)
        array([0.5, 0.5])
        """
        factors, floors = weights.tolist(), np.full(len(weights), -np.inf)
        # Added up as `combine` does, from zero and one after the other.
        highest = [w * float(levels[-1]) for w, levels in zip(factors, self.levels, strict=True)]
        before = 0.0
        for j, (knots, levels) in enumerate(zip(self.knots, self.levels, strict=True)):
            low, high = 0, len(levels)
            while low < high:
                middle = (low + high) // 2
                total = before + factors[j] * float(levels[middle])
                for product in highest[j + 1 :]:
                    total += product
                if total < least:
                    low = middle + 1
                else:
                    high = middle
            if low:
                floors[j] = knots[low - 1]
            before += highest[j]
        return floors

    def raw_floors(self, least: Sequence[float]) -> list[float]:
        """Return scores (d,) at or below which the functions do not exceed some numbers (d,).

        Examples
        --------
        >>> half = np.array([0.0, 0.5, 1.0])
        >>> Interpolated((half, half), (half, half)).raw_floors([0.7, 1.0])
        [0.5, inf]
        """
        floors = []
        for knots, levels, bound in zip(self.knots, self.levels, least, strict=True):
            no_larger = int(np.searchsorted(levels, bound, side="right"))
            if no_larger == len(levels):
                floors.append(math.inf)
            else:
                floors.append(float(knots[no_larger - 1]) if no_larger else -math.inf)
        return floors


def rising_line(values: FloatArray, knots: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the linear interpolation of rising `levels`, itself rising to the last bit.

    ``numpy.interp`` may overshoot the next level by one rounding, which would swap two labels.
    """
    if is_tensor(values):
        return _rising_line_on_device(values, to_device(knots, values), to_device(levels, values))
    if len(knots) == 1:
        return np.full(values.shape, levels[0])
    left = knots.searchsorted(values, side="right") - 1
    left = np.minimum(np.maximum(left, 0), len(knots) - 2)  # sooner than `clip` for a few numbers
    right = left + 1
    start, low, high = knots[left], levels[left], levels[right]
    # The share of the way to the next knot, not a slope: that overflows between tiny knots.
    way = np.maximum(values - start, 0.0) / (knots[right] - start)
    return np.minimum(low + np.minimum(way, 1.0) * (high - low), high)


def _rising_line_on_device(values: Any, knots: Any, levels: Any) -> Any:
    """Return `rising_line` by the same operations in the same order, for tensors."""
    values = values.double().contiguous()
    if len(knots) == 1:
        return levels.expand(values.shape)
    left = (places(knots, values, "right") - 1).clamp(0, len(knots) - 2)
    right = left + 1
    start, low, high = knots[left], levels[left], levels[right]
    way = (values - start).clamp(min=0.0) / (knots[right] - start)
    return (low + way.clamp(max=1.0) * (high - low)).minimum(high)


def _by_score(scores: FloatArray, function: Any) -> FloatArray:
    """Return ``function(j, scores[..., j])`` for every j, one contiguous plane per score.

    Scores of fewer bits are widened first: what is computed does not depend on how they were held.
    """
    d = scores.shape[-1]
    rows: Any = scores.reshape(-1, d) if scores.ndim < 3 else scores
    shape = (d, *rows.shape[:-1])
    tensors = is_tensor(rows)
    planes: Any = rows[:0].double().new_empty(shape) if tensors else np.empty(shape)
    entries = DEVICE_ENTRIES if tensors else CACHE_ENTRIES
    for block in row_blocks(len(rows), math.prod(rows.shape[1:-1]), entries):
        for j in range(d):
            planes[j, block] = function(j, as_float64(rows[block, ..., j]))
    axes = (*range(1, planes.ndim), 0)
    normalized: Any = planes.permute(axes) if tensors else planes.transpose(axes)
    return normalized if scores.ndim == 3 else normalized.reshape(scores.shape)


@dataclass(frozen=True)
class Unscaled:
    """``none``: scores as they are.

    Examples
    --------
    >>> Unscaled().learns
    False
    """

    name = "none"
    learns = False

    def rows(self, n: int, n_classes: int) -> slice:
        """Return that no row is looked at."""
        return slice(0)

    def fit(self, scores: FloatArray, columns: Sequence[Column]) -> Transform:
        """Return the identity."""
        return Scaled((1.0,) * scores.shape[-1])


@dataclass(frozen=True)
class NaturalScale:
    """``scale``: every score divided by its natural width, or by given numbers.

    Parameters
    ----------
    widths : tuple of float, optional
        The divisors, one per score; by default each score's own `unit`.

    Examples
    --------
    >>> NaturalScale((1.0, 2.0)).fit(np.zeros((1, 2, 2)), ())(np.array([3.0, 3.0]))
    array([3. , 1.5])
    """

    widths: tuple[float, ...] | None = None

    name = "scale"
    learns = False

    def rows(self, n: int, n_classes: int) -> slice:
        """Return that no row is looked at."""
        return slice(0)

    def fit(self, scores: FloatArray, columns: Sequence[Column]) -> Transform:
        """Return division by the widths."""
        widths = self.widths
        if widths is None:
            widths = tuple(column.score.unit(scores.shape[1]) for column in columns)
        if len(widths) != scores.shape[-1] or not all(0 < w < np.inf for w in widths):
            raise InvalidInput(
                f"normalize must hold {scores.shape[-1]} positive widths, one per score; got "
                f"{list(widths)}."
            )
        return Scaled(tuple(1.0 / w for w in widths))


@dataclass(frozen=True)
class Ecdf:
    """``ecdf``: the share of all label scores of the tuning rows that are no larger.

    The deployable form of the pooled ranks in the paper's released code: fitted once, then a
    fixed function. Between the observed values it is interpolated, since steps would make ties.

    Examples
    --------
    >>> scores = np.array([[[1.0], [3.0]], [[2.0], [4.0]]])
    >>> Ecdf().fit(scores, ())(np.array([[1.0], [2.5], [9.0]])).ravel()
    array([0.25 , 0.625, 1.   ])
    """

    name = "ecdf"
    learns = True
    threaded = True  # `fit` takes a number of threads

    def rows(self, n: int, n_classes: int) -> slice:
        """Return which of n rows are looked at: all, or evenly so many that sorting is quick."""
        values = min(max(SOME_VALUES, SOME_ROWS * n_classes), MAX_VALUES)
        return slice(None, None, max(1, math.ceil(n * n_classes / values)))

    def fit(
        self, scores: FloatArray, columns: Sequence[Column], threads: int | None = 1
    ) -> Transform:
        """Return the interpolated distribution functions of the scores of all these rows."""
        planes = [scores[..., j] for j in range(scores.shape[-1])]
        entries = 0 if is_tensor(scores) else math.prod(scores.shape)
        several = threads_for(SORTED * entries, threads)
        # The sort of a score is shared, too, where there are more threads than scores.
        curve = partial(_curve, threads=-(-several // len(planes)))
        curves = run_blocks(curve, planes, several)
        return Interpolated(tuple(c[0] for c in curves), tuple(c[1] for c in curves))

    def of_rising(self, planes: Sequence[FloatArray], threads: int | None = 1) -> Transform:
        """Return the same from the scores (r, K) of sorted rows, which rise: one array per score.

        Examples
        --------
        >>> rising = np.array([[1.0, 3.0], [2.0, 4.0]])
        >>> Ecdf().of_rising([rising])(np.array([[1.0], [2.5], [9.0]])).ravel()
        array([0.25 , 0.625, 1.   ])
        """
        several = available_threads(threads)
        curves = [_curve(plane, several, rises=True) for plane in planes]
        return Interpolated(tuple(c[0] for c in curves), tuple(c[1] for c in curves))


def _curve(
    values: FloatArray, threads: int = 1, *, rises: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return knots and levels of a distribution function: where it bends, and how high."""
    found = _distinct(values, threads, rises=rises)
    knots, counts = found.at(_kept(found.n))
    # Of two zeros sorts may leave either first.
    return knots + 0.0, counts / found.n_values


@lru_cache(maxsize=8)
def _kept(n: int) -> IntArray:
    """Return which of n distinct values are knots: rising numbers, for nobody to change."""
    if n <= MAX_KNOTS:
        return np.arange(n)
    even = np.linspace(0, 1, MAX_KNOTS // 2)
    towards_top = 1 - (1.0 / n) ** even
    places = np.concatenate([even, towards_top]) * (n - 1)
    chosen = np.sort(places.round().astype(np.intp))
    return chosen[np.concatenate([[True], chosen[1:] != chosen[:-1]])]


class Part(NamedTuple):
    """Values (m,), rising; where each distinct one begins; how many of them are no larger."""

    rising: FloatArray
    first: IntArray  # (u,)
    counts: IntArray  # (u,)


class Distinct(Protocol):
    """Values that are sorted and counted."""

    @property
    def n(self) -> int:
        """How many distinct ones there are."""

    @property
    def n_values(self) -> int:
        """How many there are."""

    def at(self, places: IntArray) -> tuple[FloatArray, IntArray]:
        """Return the distinct values at rising places, and how many values are no larger."""


class InParts(NamedTuple):
    """The same in parts, each with values above those of the one before."""

    parts: list[Part]

    @property
    def n(self) -> int:
        return sum(len(part.first) for part in self.parts)

    @property
    def n_values(self) -> int:
        return sum(int(part.counts[-1]) for part in self.parts)

    def at(self, places: IntArray) -> tuple[FloatArray, IntArray]:
        found, counts, below, n_values = [], [], 0, 0
        for part in self.parts:
            start, stop = np.searchsorted(places, [below, below + len(part.first)])
            # Of a device the knots alone come to the host.
            some = to_device(places[start:stop] - below, part.rising)
            found.append(to_host(part.rising[part.first[some]]))
            counts.append(to_host(part.counts[some]) + n_values)
            below, n_values = below + len(part.first), n_values + int(part.counts[-1])
        return np.concatenate(found), np.concatenate(counts)


class Merged:
    """The same of rows that rise, as `conformix.kernels.host.rising.merged` leaves them."""

    def __init__(self, merging: Any) -> None:
        self._rising, self._starts = merging.out, merging.starts
        self._begin, _, distinct = merging.sizes.T
        self._below = np.concatenate([[0], np.cumsum(distinct)])  # distinct ones, by part
        self.n, self.n_values = int(self._below[-1]), len(merging.out)

    def at(self, places: IntArray) -> tuple[FloatArray, IntArray]:
        each = np.diff(places.searchsorted(self._below))  # how many of them are in every part
        begin, parts = self._begin, np.arange(len(self._begin))
        own = places + np.repeat(begin + parts - self._below[:-1], each)
        begin = np.repeat(begin, each)
        return self._rising[begin + self._starts[own]], begin + self._starts[own + 1]


def _distinct(values: FloatArray, threads: int, *, rises: bool) -> Distinct:
    """Return the values of rows (r, K), sorted by threads.

    Rows that repeat are among the values once, and are counted as often as they come. `rises` says
    that the values of every row do already.
    """
    if is_tensor(values):
        return InParts([_grouped(values.double().reshape(-1).sort().values)])  # type: ignore[attr-defined]
    # Ranks are the same numbers in all sorted rows without ties: most are counted unsorted.
    alike = values[:, 0] == values[0, 0]
    if values.strides[0] and 2 * np.count_nonzero(alike) > len(values):
        alike = (values == values[:1]).all(axis=1)
    n_alike = np.count_nonzero(alike)
    if 2 * n_alike <= len(values):
        return _merged(values, threads) if rises else _sorted(values, threads)
    (part,) = _sorted(np.concatenate([values[:1], values[~alike]]), 1).parts
    one_row = np.searchsorted(np.sort(values[0]), part.rising[part.first], side="right")
    return InParts([part._replace(counts=part.counts + (n_alike - 1) * one_row)])


def _merged(values: FloatArray, threads: int) -> Distinct:
    """Return all numbers of an array (r, K) whose rows rise: every part has those between two."""
    kernel: Any = loops("rising", values.size)
    usual = values.flags.c_contiguous and values.flags.writeable
    if kernel is None or not usual:
        return _sorted(values, threads)
    several = max(1, min(threads, values.size // FEWEST_SORTED))
    n_parts = max(several, values.size // MERGED)
    return Merged(kernel.merged(values, _edges(values.reshape(-1), n_parts), several))


def _edges(numbers: FloatArray, parts: int) -> FloatArray:
    """Return where numbers are cut into so many parts of about the same length, by a sample."""
    step = max(1, len(numbers) // (parts * SAMPLED))
    return np.sort(numbers[::step])[SAMPLED::SAMPLED][: parts - 1]


def _sorted(values: FloatArray, threads: int) -> InParts:
    """Return all numbers of an array as float64, rising: every thread has those between two."""
    numbers = as_float64(values).reshape(-1)
    kernel = loops("rising", len(numbers))
    sort: Any = np.sort if kernel is None else kernel.rising
    several = min(threads, len(numbers) // FEWEST_SORTED)
    if several < 2:
        return InParts([_grouped(sort(numbers))])
    edges = _edges(numbers, several)

    def between(which: int) -> Part | None:
        inside = numbers >= edges[which - 1] if which else numbers < edges[0]
        if 0 < which < len(edges):
            inside &= numbers < edges[which]
        some = numbers.compress(inside)
        return _grouped(sort(some)) if len(some) else None

    found = run_blocks(between, range(len(edges) + 1), several)
    parts = [part for part in found if part is not None]
    whole = sum(len(part.rising) for part in parts) == len(numbers)
    return InParts(parts if whole else [_grouped(sort(numbers))])


def _grouped(rising: FloatArray) -> Part:
    """Return sorted values with the places where groups of equal ones begin and end."""
    # By places, not by counts: beside the sorted values only one array of their length is held.
    if is_tensor(rising):
        fresh: Any = torch_module().ones(len(rising) + 1, dtype=bool, device=rising.device)  # type: ignore[attr-defined]
        fresh[1:-1] = rising[1:] != rising[:-1]
        starts = fresh.nonzero()[:, 0]
    else:
        fresh = np.ones(len(rising) + 1, dtype=bool)
        np.not_equal(rising[1:], rising[:-1], out=fresh[1:-1])
        starts = np.flatnonzero(fresh)
    return Part(rising, starts[:-1], starts[1:])


NORMALIZERS: dict[str, Normalizer] = {
    "none": Unscaled(),
    "scale": NaturalScale(),
    "ecdf": Ecdf(),
}


def resolve_normalizer(normalize: Any, *, separate: bool) -> Normalizer:
    """Return the normaliser for a name, for widths, or the normaliser itself.

    Where the tuning rows stay out of calibration (`separate`), ``auto`` is ``ecdf``, which won or
    tied nearly everywhere (docs/normalisation.md); elsewhere it is ``scale``, which looks at no row
    and so touches no guarantee.
    """
    if isinstance(normalize, str):
        if normalize == "auto":
            return NORMALIZERS["ecdf" if separate else "scale"]
        if normalize not in NORMALIZERS:
            raise unknown_name("normalize", normalize, ["auto", *sorted(NORMALIZERS)])
        return NORMALIZERS[normalize]
    if hasattr(normalize, "fit"):
        return normalize  # type: ignore[no-any-return]
    refuse_masked(normalize, "normalize")
    try:
        widths = tuple(float(width) for width in to_host(normalize, "normalize"))
    except (TypeError, ValueError, OverflowError, NotImplementedError, RuntimeError):
        raise InvalidInput(
            "normalize must be a name, one positive width per score, or a normaliser; got "
            f"{shown(normalize)}."
        ) from None
    return NaturalScale(widths)
