"""One expert made of many scores, with coefficients that make the true labels most likely.

``z_y = c_1 s_1(x, y) + ... + c_p s_p(x, y)``, and the blend's probabilities are the softmax of z
over the labels of the row. The coefficients are not negative and maximise the likelihood of the
tuning labels, shrunk towards the plain mean of the models' log-probabilities. A set size at
alpha = .01 rests on the few rows at the threshold; a likelihood is a mean over all rows, and finds
good coefficients from a hundred of them (`conformix.scores.likelihood`). Of many labels it has one
thing more, which no likelihood sees: `conformix.scores.evidence`. ``scores="auto"`` is this; see
docs/frontier.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from conformix.conformal import rows_needed, simple_fraction
from conformix.data.outputs import Arithmetic, Kind, LaterOutputs, Outputs
from conformix.errors import InvalidInput
from conformix.kernels import available_threads
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, to_device, to_host
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    parts_of_rows,
    row_blocks,
    run_blocks,
    run_parts,
    shares,
    threads_for,
)
from conformix.kernels.cached import cached_property
from conformix.kernels.elementary import cuts, log, softmax
from conformix.kernels.patterns import CACHE_ENTRIES, Multiplier, spreads
from conformix.kernels.twins import compile_for, loops
from conformix.scores.blending import Blending
from conformix.scores.evidence import (
    LEAST_SPREAD,
    Evidence,
    Totals,
    fit_evidence,
    log_spreads,
    mean_spread,
)
from conformix.scores.learnt import PatternScore, pattern_sum
from conformix.scores.likelihood import most_likely
from conformix.scores.names import Column, parse_score
from conformix.scores.ranked import Ranked, ranked_models
from conformix.scores.sorted_rows import rise
from conformix.scores.tensor import fill_planes, fill_tensor
from conformix.scores.terms import LOGP

__all__ = ["DICTIONARY", "Blend", "fit_blend", "plan_rows"]


S = TypeVar("S", bound=Any)


@dataclass(frozen=True, eq=False)
class Blend:
    """Scores added up with coefficients, then made probabilities by a softmax over the labels.

    Parameters
    ----------
    columns : tuple of Column
        Which scores of which models.
    coefficients : float64 array of shape (p,)
        One number per column, none negative.
    name : str
        What the blend is called beside the models.
    evidence : Evidence, optional
        What is added to its log-probabilities, row by row; its outputs are logits then.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.data.outputs import check_outputs
    >>> columns = cx.scores.score_columns(("",), ("logp",))
    >>> half = Blend(columns, np.array([0.5]))  # a temperature of 2
    >>> half.over(check_outputs([[0.9, 0.1]])).models["blend"][0:1]
    array([[0.75, 0.25]])
    """

    columns: tuple[Column, ...]
    coefficients: FloatArray
    name: str = "blend"
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        numbers = np.asarray(self.coefficients)
        proper = numbers.shape == (len(self.columns),) and bool(np.isfinite(numbers).all())
        if not proper or (numbers < 0).any():
            raise InvalidInput(
                f"a blend of {len(self.columns)} scores needs as many coefficients, finite and "
                "not negative."
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again at first use."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def over(self, outputs: Outputs) -> Outputs:
        """Return the blend of some outputs in their place, computed when rows are asked for."""
        return self.instead(outputs, Blended(outputs, self))

    def in_blocks(self, source: S) -> S:
        """Return outputs that come in blocks with the blend in the place of every block's."""
        kind = self.kind_of(source.kind)
        return replace(source, through=self.over, named=(self.name,), becomes=kind)

    def instead(self, outputs: Outputs, values: Any) -> Outputs:
        """Return outputs with what the blend makes of them in their place."""
        return replace(
            outputs, models={self.name: values}, kind=self.kind_of(outputs.kind), unchecked=None
        )

    def kind_of(self, kind: Kind) -> Kind:
        """Return what the blend gives for outputs of a kind: logits where it has evidence."""
        return kind if self.evidence is None else "logits"

    def spread_of(self, ranked: Mapping[str, Any]) -> Any:
        """Return what `outputs_of` asks of ranked rows beside their logits, (n, 1) or None."""
        return None if self.evidence is None else log_spreads(*ranked.values())

    def outputs_of(self, z: Any, spread: Any, kind: Kind, arithmetic: Arithmetic = "exact") -> Any:
        """Return logits z (n, K) as what the blend gives for outputs of a kind.

        z may be gone: an array is changed where it is, if that pays.
        """
        if self.evidence is not None:
            return self.evidence.logits(z, spread, None if is_tensor(z) else z)
        if kind == "logits":
            return z
        if is_tensor(z):
            return _device().DeviceRanked(z, "logits").probs
        return softmax(z, z) if arithmetic == "exact" else Ranked(z, "logits", None, "numpy").probs

    def logits(self, outputs: Outputs) -> Any:
        """Return ``z`` of all labels of some rows, shape (n, K)."""
        return self.added_up(ranked_models(outputs))

    def of_rows(self, outputs: Outputs) -> Any:
        """Return what the blend gives for all labels of some rows, shape (n, K)."""
        ranked = ranked_models(outputs)
        z = self.added_up(ranked)
        return self.outputs_of(z, self.spread_of(ranked), outputs.kind, outputs.arithmetic)

    def added_up(self, ranked: Mapping[str, Any]) -> FloatArray:
        """Return ``z`` of ranked rows of all models."""
        total = self.without_products(ranked)
        for model, score in self.of_patterns.items():
            total += score(ranked[model].patterns)
        return total

    def without_products(self, ranked: Mapping[str, Any]) -> FloatArray:
        """Return what the scores add up to that are no products of patterns."""
        probs = next(iter(ranked.values())).probs
        total = probs.new_zeros(probs.shape) if is_tensor(probs) else np.zeros(probs.shape)
        for column, coefficient in self.plain:
            total += coefficient * column.score(ranked[column.model])
        return total

    @property
    def plain(self) -> list[tuple[Column, float]]:
        """The scores that count and are no products of patterns, with their coefficients."""
        return [
            (column, coefficient)
            for column, coefficient in zip(self.columns, self.coefficients.tolist(), strict=True)
            if coefficient and not isinstance(column.score, PatternScore)
        ]

    @cached_property
    def of_patterns(self) -> dict[str, Multiplier]:
        """The scores of patterns, by model: one product for all."""
        terms: dict[str, list[tuple[Any, float]]] = {}
        for column, coefficient in zip(self.columns, self.coefficients.tolist(), strict=True):
            if coefficient and isinstance(column.score, PatternScore):
                terms.setdefault(column.model, []).append((column.score, coefficient))
        return {model: pattern_sum(*zip(*some, strict=True)) for model, some in terms.items()}

    def computed(
        self,
        outputs: Outputs,
        threads: int | None = None,
        room: FloatArray | None = None,
        known: KnownRows | None = None,
    ) -> Outputs:
        """Return the blend of some outputs in their place, computed now where it fits memory.

        In `room`, an array that nobody needs any longer, where it is large enough. What is `known`
        of some rows is not computed again, and may be at the end of the room.
        """
        lazy = self.over(outputs)
        values: Any = lazy.models[self.name]
        size = outputs.n * outputs.n_classes
        if outputs.on_device or size > COMPUTED_TOGETHER:
            return lazy
        taken = 0 if known is None else known.values.size
        fits = room is not None and room.size - taken >= size
        whole = (room.ravel()[:size] if fits else np.empty(size)).reshape(values.shape)  # type: ignore[union-attr]
        compile_for(whole.size)
        several = available_threads(threads)
        if known is None:
            Blending(self, outputs, several).fill(whole)
            return self.instead(outputs, whole)
        unknown = np.ones(outputs.n, dtype=bool)
        unknown[known.rows] = False
        others = np.flatnonzero(unknown)

        def put_known(rows: slice) -> None:
            whole[known.rows[rows]] = known.values[rows]

        Blending(self, outputs, several, others).fill(whole, others)
        few = threads_for(known.values.size // COPIED, threads)
        run_blocks(put_known, shares(len(known.rows), few), few)
        return self.instead(outputs, whole)

    def without(self, dropped: Sequence[Column]) -> Blend:
        """Return the blend with the coefficients of some columns at zero."""
        stays = [c not in dropped for c in self.columns]
        return replace(self, coefficients=np.where(stays, self.coefficients, 0.0))


class KnownRows(NamedTuple):
    """What a blend gives for rows that taught it, by matrices that they had no part in."""

    rows: IntArray  # which of all rows they are; they rise
    values: Any  # (m, K)


class Computing(NamedTuple):
    """With what `Blend.computed` computes rows."""

    threads: int | None = None
    room: FloatArray | None = None  # an array that nobody needs any longer
    known: KnownRows | None = None


PLAINLY = Computing()


@dataclass(frozen=True, eq=False)
class Blended(LaterOutputs):
    """The outputs of a blend."""

    blend: Blend

    def __getitem__(self, rows: slice) -> FloatArray:
        """Return rows of the blend: logits or probabilities, see `Blend.kind_of`."""
        some = self.outputs.rows(rows)
        return self.blend.of_rows(some if some.stays_on_device else some.to_host())  # type: ignore[no-any-return]

    @property
    def rises(self) -> bool:
        """Whether rows are sorted as those of a model: where that is quick, and all scores rise.

        On the host a blend is had sooner label by label.
        """
        plain = self.outputs.on_device and self.blend.evidence is None
        return plain and rise(self.blend.columns, self.outputs)

    def sorted_rows(self, rows: slice) -> Any:
        """Return some rows in the order of the model."""
        return _device().sorted_blend(self.blend, self.outputs.rows(rows))


def _device() -> Any:
    return import_module("conformix.scores.device")  # PyTorch, for tensors only


# Numbers that are copied in the time in which one is blended.
COPIED = 2**4
# Outputs of a blend that a fit holds (256 MiB); beyond it they are computed when asked for.
COMPUTED_TOGETHER = 2**25

DICTIONARY = ("logp(floor=0.01)", "logp", "logrank", "rank", "thr")
"""The scores of every model: its log-probability with and without a floor, two readings of the
order of its labels, and the probability itself."""

LEARNT = ("likeness", "kin", "rarity")
"""The scores of every model that learn what its labels say about each other."""

# The scores whose mean over the models, with nothing learnt, is the blend: a logit ensemble.
ANCHOR = parse_score("logp(floor=0.01)")
# How many times as hard coefficients of different models are drawn to each other as to the prior.
TOGETHER = 5.0
# Labels beyond which no matrix of them is learnt by default.
MOST_RELATED = 2**11
HIGH_FLOOR = parse_score("logp(floor=0.1)")
# Planned rows from which on coefficients are learnt where no probability is zero.
FEWEST_ROWS = 16
# Rows of which a blend learns enough.
ENOUGH_ROWS = 4000
# Numbers held at once while the coefficients are fitted (128 MiB).
MOST_NUMBERS = 2**24
# Labels and tuning rows from which on a blend has evidence, of one model and of several, and how
# many rows teach it at most.
MANY_CLASSES, EVIDENT_ROWS, EVIDENT_ROWS_OF_SEVERAL, MOST_EVIDENT_ROWS = 2**5, 2**6, 2**9, 1000
# Temperatures of the blend among which split "exact" selects.
LADDER = (0.7, 1.0, 1.4)


def dictionary_columns(outputs: Outputs) -> tuple[Column, ...]:
    """Return the columns of the dictionary for the models of some outputs, tuning rows.

    Two labels say nothing about each other that each does not say of itself, and of very many
    labels the tuning rows say too little for the size of the matrices. A model that gives labels no
    probability at all, as forests and neighbours do, has one more floor.
    """
    scores = _scores(2 < outputs.n_classes <= MOST_RELATED)
    columns = tuple(Column(model, score) for model in outputs.models for score in scores)
    zeros = [model for model in outputs.models if has_zeros(outputs, model)]
    return columns + tuple(Column(model, HIGH_FLOOR) for model in zeros)


@cache
def _scores(related: bool) -> tuple[Any, ...]:
    """Return the scores of a model, with those that learn or without."""
    return tuple(map(parse_score, DICTIONARY + LEARNT if related else DICTIONARY))


def has_zeros(outputs: Outputs, model: str) -> bool:
    """Whether a model gives some label of some row the probability zero."""
    blocks = row_blocks(outputs.n, outputs.n_classes) if outputs.kind == "probs" else ()
    return any(float(outputs.models[model][rows].min()) == 0 for rows in blocks)


def prior_of(columns: Sequence[Column]) -> FloatArray:
    """Return where coefficients are drawn to: the mean of the models' log-probabilities, (p,)."""
    n_models = len({column.model for column in columns})
    if all(column.score != ANCHOR for column in columns):
        return np.zeros(len(columns))
    return np.array([float(column.score == ANCHOR) / n_models for column in columns])


def ridge_of(columns: Sequence[Column], together: float = TOGETHER) -> FloatArray:
    """Return what coefficients pay for leaving their prior and each other, shape (p, p).

    With m models m / 2 times the squared distance from the prior: a coefficient is about 1/m, and
    a spread of ``1 / sqrt(m)`` lets it go to zero or to one. And so many times as much for the
    distances of a score's coefficients from their mean over the models: what models of the same
    data have in common is learnt from fewer rows than what sets them apart.

    Examples
    --------
    >>> from conformix.scores import score_columns
    >>> columns = score_columns(("a", "b"), ("logp",))
    >>> ridge_of(columns) @ [1, 1]  # both move alike
    array([1., 1.])
    >>> ridge_of(columns) @ [1, -1]
    array([ 6., -6.])
    """
    scores: dict[Any, int] = {}
    numbers = np.array([scores.setdefault(column.score, len(scores)) for column in columns])
    alike = (numbers[:, None] == numbers).astype(float)
    apart = np.eye(len(columns)) - alike / alike.sum(axis=0)
    n_models = len({column.model for column in columns})
    return np.asarray(n_models / 2 * (np.eye(len(columns)) + together * apart))


def plan_rows(
    n: int, alpha: float, n_scores: int, n_classes: int, *, reserved: int | None = None
) -> int:
    """Return how many of n labelled rows the blend learns from; the others calibrate.

    A third of the rows, at most what a likelihood and its matrices need. From there up to three
    fifths of the rows, until the number that calibrates makes ``(rows + 1) * alpha`` a whole
    number: any other wastes part of alpha by rounding. Where that takes more than three fifths, as
    many fewer rows learn. In any case so many rows calibrate that the threshold is finite: where n
    is no more than these, none is left to learn from, and the blend is its prior. It is its prior,
    too, where fewer than sixteen rows are planned and no probability is zero (`can_teach`).

    Parameters
    ----------
    n : int
        Labelled rows.
    alpha : float
        Allowed miscoverage.
    n_scores : int
        Number of coefficients.
    n_classes : int
        K.
    reserved : int, optional
        Rows that a finite threshold takes; by default ``ceil(1/alpha) - 1``.

    Examples
    --------
    >>> plan_rows(1000, 0.01, n_scores=8, n_classes=100)  # 599 calibrate, 600 * .01 = 6
    401
    >>> plan_rows(300, 0.01, n_scores=8, n_classes=100)
    101
    >>> plan_rows(230, 0.01, n_scores=5, n_classes=100)  # 99 waste nothing, 180 would 45 % of alpha
    131
    >>> plan_rows(280, 0.01, n_scores=8, n_classes=100)  # 199 calibrate, 200 * .01 = 2
    81
    >>> plan_rows(120, 0.01, n_scores=5, n_classes=100)  # 99 calibrate: no fewer would do
    21
    >>> plan_rows(99, 0.01, n_scores=5, n_classes=100)
    0
    """
    level = simple_fraction(alpha)
    spare = n - (rows_needed(alpha) if reserved is None else reserved)
    if spare <= 0:
        return 0
    affordable = max(MOST_NUMBERS // (n_scores * n_classes), 1)
    wanted = min(n / 3, ENOUGH_ROWS, affordable)
    least = min(max(math.ceil(wanted), 1), n - 1, spare)
    most = min(max(3 * n // 5, least), spare)
    whole = math.floor(Fraction(n - least + 1) * level)  # alpha times calibration rows plus one
    for count in range(max(whole, 1), whole + 2):
        rest = math.ceil(Fraction(count) / level) - 1
        if n - most <= rest < n:
            return n - rest
    return least


def can_teach(outputs: Outputs, columns: Sequence[Column]) -> bool:
    """Whether rows that were set aside by a plan are enough to learn coefficients from.

    Of fewer than sixteen rows a network's coefficients are mostly noise, and their prior has
    smaller sets. Forests and neighbours, which give probabilities of zero, tie under the prior, and
    learn more from a single row. Number and outputs decide, never labels.
    """
    coarse = any(column.score == HIGH_FLOOR for column in columns)
    return outputs.n >= FEWEST_ROWS or (outputs.n > 0 and coarse)


def has_evidence(n_models: int, n: int, n_classes: int) -> bool:
    """Whether a blend has the evidence of rows, by numbers alone.

    Of few labels it gains nothing, and of few tuning rows it is noise: several models, which mend
    each other already, need more of them than one. Of very many labels a blend keeps the order of
    its model instead, for speed.

    Examples
    --------
    >>> has_evidence(n_models=1, n=400, n_classes=100)
    True
    >>> has_evidence(n_models=3, n=400, n_classes=100)
    False
    """
    enough = EVIDENT_ROWS if n_models == 1 else EVIDENT_ROWS_OF_SEVERAL
    return n >= enough and MANY_CLASSES <= n_classes <= MOST_RELATED


class BlendFit(NamedTuple):
    """A blend, and what it gives for the rows that taught it."""

    blend: Blend
    of_teachers: Any  # (n, K), by matrices that they had no part in


def fit_blend(
    outputs: Outputs,
    y: IntArray,
    columns: Sequence[Column],
    *,
    name: str = "blend",
    threads: int | None = None,
    left_out: Mapping[int, FloatArray] = MappingProxyType({}),
    room: FloatArray | None = None,
) -> BlendFit:
    """Return the blend of some scores that makes the labels most likely.

    Parameters
    ----------
    outputs : Outputs
        Checked outputs of the tuning rows, on the host or on a device: the blend is the same.
    y : integer array of shape (n,)
        Their labels.
    columns : sequence of Column
        What is blended.
    name : str
        What to call the blend.
    threads : int or None
        Threads for the scores.
    left_out : mapping of int to array of shape (n, K)
        By place of a column that has learnt from these rows: what they score themselves.
    room : float64 array of shape (p, n, K), optional
        An array whose planes those are, in which the other scores find room, and what the blend
        gives for these rows, in the place of the last one.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.data.outputs import check_outputs
    >>> data = cx.datasets.load("cifar10")
    >>> outputs = check_outputs({"vgg16": data.outputs["vgg16"][:500]}, "logits")
    >>> columns = cx.scores.score_columns(("vgg16",), ("logp", "rank"))
    >>> fitted = fit_blend(outputs, data.labels[:500], columns)
    >>> bool(fitted.blend.coefficients[0] < 1)  # the network is over-confident
    True
    """
    listed = tuple(columns)
    fixed = [j for j in range(len(listed)) if j not in left_out]
    shape = (len(listed), outputs.n, outputs.n_classes)
    planes: Any
    if outputs.on_device:
        known = fill_tensor(outputs, [listed[j] for j in fixed])
        planes = known.new_empty(shape)  # type: ignore[attr-defined]
        planes[fixed] = known.movedim(-1, 0)  # type: ignore[attr-defined]
    else:
        planes = np.empty(shape) if room is None else room
        some = [planes[j] for j in fixed]
        if some:
            fill_planes(some, outputs, [listed[j] for j in fixed], threads=threads, in_loops=True)
    for j, plane in left_out.items():
        if room is None:
            planes[j] = plane
    scores = planes.movedim(0, -1) if outputs.on_device else np.moveaxis(planes, 0, -1)
    coefficients = most_likely(scores, y, prior_of(listed), ridge_of(listed), threads)
    # What has learnt, and counts for nothing, would cost a matrix.
    used = [j for j in range(len(listed)) if coefficients[j] or not listed[j].score.learns]
    blend = Blend(tuple(listed[j] for j in used), coefficients[used], name)
    evident = has_evidence(len(outputs.models), outputs.n, outputs.n_classes)
    spread: Any = _spreads(planes, listed, outputs, threads) if evident else None
    z, totals = _added_up(planes, coefficients, threads, evident)
    if evident:
        teach = slice(0, outputs.n, -(-outputs.n // MOST_EVIDENT_ROWS))
        own = None if totals is None else totals.rows(teach)
        evidence = fit_evidence(z[teach], y[teach], spread[teach], threads, own)
        blend = replace(blend, evidence=evidence)
        if totals is not None:
            return BlendFit(blend, evidence.logits(z, spread, z, totals))
    return BlendFit(blend, _turned(blend, z, spread, outputs.kind, threads))


def _added_up(
    planes: Any, coefficients: FloatArray, threads: int | None, evident: bool
) -> tuple[Any, Totals | None]:
    """Return logits (n, K) of rows whose scores are planes (p, n, K), in the place of the last.

    And what they come to, where evidence asks for that and it is had on the way.
    """
    z = planes[-1]
    loop = None if is_tensor(z) else loops("terms", z.size)
    if loop is not None and planes.flags.c_contiguous:
        n, n_classes = z.shape
        parts, shape = parts_of_rows(n, n_classes, threads), (n if evident else 0, 1)
        totals, room = Totals(*np.empty((2, *shape))), loop.room_for(parts.threads, n_classes)
        task = loop.AddingPlanes(
            planes, coefficients, z, *totals, cuts(n_classes), room, parts.step
        )
        run_parts(loop.planes_into, parts, task)
        return z, totals if evident else None
    counted = [(c, plane) for c, plane in zip(coefficients.tolist(), planes, strict=True) if c]

    def fill(rows: slice) -> None:
        total: Any = 0.0
        for coefficient, plane in counted:
            total += coefficient * plane[rows]
        z[rows] = total

    run_blocks(fill, *_blocks_of(z, threads))
    return z, None


def _spreads(
    planes: Any, columns: Sequence[Column], outputs: Outputs, threads: int | None
) -> FloatArray:
    """Return what `log_spreads` says of rows, (n, 1), by log-probabilities among their scores."""
    found = np.empty((outputs.n, 1))
    logs = {c.model: plane for c, plane in zip(columns, planes, strict=True) if c.score == LOGP}

    if len(logs) == len(outputs.models):
        some = [to_host(spreads(logs[model])) for model in outputs.models]
        return mean_spread([log(spread + LEAST_SPREAD) for spread in some])  # type: ignore[no-any-return]

    def fill(rows: slice) -> None:
        models = ranked_models(outputs.rows(rows)).values()
        found[rows] = to_host(log_spreads(*models))

    run_blocks(fill, *_blocks_of(planes[0], threads))
    return found


def _turned(blend: Blend, z: Any, spread: Any, kind: Kind, threads: int | None) -> Any:
    """Return logits (n, K) of rows with so much spread as what the blend gives, in their place."""

    def turn(rows: slice) -> None:
        own = None if spread is None else to_device(spread[rows], z)
        found = blend.outputs_of(z[rows], own, kind)
        if is_tensor(z) or not np.may_share_memory(found, z):
            z[rows] = found

    run_blocks(turn, *_blocks_of(z, threads))
    return z


def _blocks_of(z: Any, threads: int | None) -> tuple[list[slice], int]:
    n, n_classes = z.shape
    entries = DEVICE_ENTRIES if is_tensor(z) else CACHE_ENTRIES
    several = 1 if is_tensor(z) else threads_for(n * n_classes, threads)
    return list(row_blocks(n, n_classes, entries)), several
