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
from conformix.kernels.twins import loops
from conformix.scores.learnt import Rarity
from conformix.scores.logs import Logp
from conformix.scores.names import Column
from conformix.scores.rank import Logrank, Rank
from conformix.scores.ranked import Order, Ranked
from conformix.scores.thr import Thr

# Of rows whose order nobody asks for.
UNSORTED = Order(np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=bool))


class Terms(NamedTuple):
    """Scores with their coefficients, in the form that the loop takes.

    By runs of scores of one model: the order in which numbers are added decides the last bit.
    """

    loop: Any
    runs: list[tuple[str, Any, FloatArray]]  # the model; kinds and numbers of its terms

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
