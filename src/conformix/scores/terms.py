"""The scores of a blend as terms that one loop adds up.

A score of the dictionary is a logarithm of a probability, the probability itself, a number of the
label, or a function of the label's place in its row: a table. `Blend` adds scores up one by one, in
passes over blocks of rows; here they are added in the same order to the same bits, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from conformix.kernels import elementary
from conformix.kernels.arrays import FloatArray
from conformix.kernels.blocks import Parts, run_parts, threads_for
from conformix.kernels.patterns import FLOOR, shifts_of
from conformix.kernels.twins import loops
from conformix.scores.learnt import Rarity
from conformix.scores.logs import Logp
from conformix.scores.names import Column
from conformix.scores.rank import Logrank, Rank
from conformix.scores.ranked import LOG_TINY, MOST_LABEL_BITS, TINY, Order, Ranked
from conformix.scores.thr import Thr

LOGP = Logp()
# Of rows whose order nobody asks for.
UNSORTED = Order(np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=bool))


class Terms(NamedTuple):
    """Scores with their coefficients, in the form that the loop takes.

    By runs of scores of one model: the order in which numbers are added decides the last bit.
    """

    loop: Any
    runs: list[tuple[str, Any, FloatArray]]  # the model; kinds and numbers of its terms

    @property
    def sorts(self) -> bool:
        """Whether a term asks for the order of the labels."""
        return any((kinds >= self.loop.BELOW).any() for _, kinds, _ in self.runs)

    def add(self, ranked: Mapping[str, Ranked], out: FloatArray) -> None:
        """Add the terms of ranked rows to `out` (n, K)."""
        for model, kinds, numbers in self.runs:
            own = ranked[model]
            sorts = bool((kinds >= self.loop.BELOW).any())
            order = own.order if sorts else UNSORTED
            # Code for memory that must not be written would be compiled apart.
            probs = own.probs if own.probs.flags.writeable else own.probs.copy()
            log_probs = own.log_probs if (kinds == self.loop.LOG_PROB).any() else probs
            self.loop.terms_into(probs, log_probs, *order, kinds, numbers, out)


def terms_of(scores: Sequence[tuple[Column, float]], n_classes: int, entries: int) -> Terms | None:
    """Return scores as terms; None where one is none, or NumPy adds so few entries up sooner."""
    loop = loops("terms", entries)
    if loop is None:
        return None
    runs: list[tuple[str, Any, FloatArray]] = []
    for model, run in groupby(scores, key=lambda pair: pair[0].model):
        found = [_term(loop, column.score, c, n_classes) for column, c in run]
        terms = [term for term in found if term is not None]
        if len(terms) < len(found):
            return None
        numbers = np.zeros((len(terms), n_classes + 1))
        for own, (_, values) in zip(numbers, terms, strict=True):
            own[: len(values)] = values
        runs.append((model, np.array([kind for kind, _ in terms]), numbers))
    return Terms(loop, runs)


def _term(loop: Any, score: Any, coefficient: float, n_classes: int) -> tuple[int, Any] | None:
    """Return what a score is a function of, and its numbers; by type: others may inherit."""
    options = getattr(score, "temperature", 1.0), getattr(score, "tie_break", "none")
    kind = type(score) if options == (1.0, "none") else None
    places = np.arange(n_classes + 1)
    if kind is Logp:
        return loop.LOG if score.floor else loop.LOG_PROB, (coefficient, score.floor / n_classes)
    if kind is Thr:
        return loop.PROB, (coefficient,)
    if kind is Rarity:
        return loop.LABEL, coefficient * score.factors
    if kind is Rank:
        return loop.BELOW, coefficient * (places / max(n_classes - 1, 1))
    if kind is Logrank:
        return loop.RANK, coefficient * (0.0 - elementary.log(np.maximum(places, 1)))
    return None


def fill_terms(
    ranked: Ranked, columns: Sequence[tuple[int, Column]], room: FloatArray, threads: int
) -> list[int]:
    """Write scores of ranked rows of one model to planes (p, n, K), and return to which.

    Probabilities, their logarithms and patterns are known then, too, and are not computed again.
    Nothing is written where the logarithms are no score, or a loop would not pay.
    """
    values, n_classes = ranked.numbers, ranked.n_classes
    loop, terms = loops("blend", values.size), loops("terms", values.size)
    logs = [j for j, column in columns if column.score == LOGP]
    label_bits = max(1, (n_classes - 1).bit_length())
    fits = ranked.arithmetic == "exact" and values.flags.writeable and room.flags.c_contiguous
    if loop is None or not logs or not fits or label_bits > MOST_LABEL_BITS:
        return []
    planes = [(j, column) for j, column in columns if not np.may_share_memory(room[j], values)]
    listed = [(j, column, _term(terms, column.score, 1.0, n_classes)) for j, column in planes]
    known = [(j, column, *term) for j, column, term in listed if term is not None and j != logs[0]]
    kinds = np.array([kind for _, _, kind, _ in known], dtype=np.int64)
    numbers = np.zeros((len(known), n_classes + 1))
    for own, (*_, found) in zip(numbers, known, strict=True):
        own[: len(found)] = found
    several = threads_for(values.size, threads)
    sort, home, *places = loop.sorting_room(several, n_classes)
    from_logits = ranked.kind == "logits"
    task = loop.Scoring(
        values, from_logits, np.empty_like(values) if from_logits else values, kinds, numbers,
        label_bits if (kinds >= terms.BELOW).any() else 0, room,
        np.array([j for j, *_ in known], dtype=np.int64), logs[0], (TINY, LOG_TINY), FLOOR,
        shifts_of(n_classes)[:2], elementary.cuts(n_classes),
        np.empty(values.shape, dtype=np.float32), np.zeros(len(values), dtype=bool), sort, home,
        np.empty((len(values), 1)), *places,
    )  # fmt: skip
    run_parts(loop.score, Parts(-(-len(values) // task.step), task.step, several), task)
    ranked.probs, ranked.log_probs, ranked.patterns = task.probs, room[logs[0]], task.patterns
    left = np.flatnonzero(task.left)
    if len(left):  # numbers so near to each other that their keys hardly differ
        some = Ranked(values[left], ranked.kind)
        for j, column, *_ in known:
            room[j][left] = column.score(some)
    same = [j for j, column in columns if np.may_share_memory(room[j], values)]
    return [logs[0], *(j for j, *_ in known), *same]
