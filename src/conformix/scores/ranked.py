"""The shared sort: what every score of a row is a function of.

A row of probabilities is sorted once; order, rank and masses follow from it. All labels of a tie
group share one rank and one mass, so no result depends on how a sort orders equal numbers.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from conformix.arrays import FloatArray, IntArray
from conformix.inputs import Kind


class Ranked:
    """A block of rows of one model, sorted on first use.

    Parameters
    ----------
    block : array of shape (n, K)
        Probabilities or logits.
    kind : {"probs", "logits"}
        What the numbers are.

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

    Examples
    --------
    >>> ranked = Ranked(np.array([[0.2, 0.5, 0.2, 0.1]]))
    >>> ranked.rank
    array([[2, 1, 2, 4]])
    >>> ranked.mass_up_to.round(2)
    array([[0.5, 1. , 0.5, 0.1]])
    """

    def __init__(self, block: FloatArray, kind: Kind = "probs") -> None:
        numbers = np.ascontiguousarray(block, dtype=np.float64)
        self.probs: FloatArray = softmax(numbers) if kind == "logits" else numbers

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.probs.shape[1])

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.probs, axis=1)

    @cached_property
    def _group_ends(self) -> tuple[IntArray, IntArray]:
        """First and last sorted position of the tie group at every sorted position."""
        rising = np.take_along_axis(self.probs, self._order, axis=1)
        n_classes = self.n_classes
        step = rising[:, 1:] != rising[:, :-1]
        places = np.arange(n_classes)
        first = np.zeros(rising.shape, dtype=np.intp)
        first[:, 1:] = np.where(step, places[1:], 0)
        np.maximum.accumulate(first, axis=1, out=first)
        last = np.full(rising.shape, n_classes - 1, dtype=np.intp)
        last[:, :-1] = np.where(step, places[:-1], n_classes - 1)
        backwards = last[:, ::-1]
        np.minimum.accumulate(backwards, axis=1, out=backwards)
        return first, last

    def _in_label_order(self, rising: FloatArray) -> FloatArray:
        out = np.empty_like(rising)
        np.put_along_axis(out, self._order, rising, axis=1)
        return out

    @cached_property
    def below(self) -> IntArray:
        """``#{y' : p_y' < p_y}``, shape (n, K)."""
        return self._in_label_order(self._group_ends[0])

    @cached_property
    def rank(self) -> IntArray:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``, shape (n, K)."""
        return self.n_classes - self._in_label_order(self._group_ends[1])

    @cached_property
    def mass_up_to(self) -> FloatArray:
        """Mass of the labels no likelier than y, shape (n, K); added from the smallest up."""
        rising = np.take_along_axis(self.probs, self._order, axis=1)
        mass = np.cumsum(rising, axis=1)
        return self._in_label_order(np.take_along_axis(mass, self._group_ends[1], axis=1))


def softmax(logits: FloatArray) -> FloatArray:
    """Return ``exp(z) / sum exp(z)`` by row, without overflow.

    Examples
    --------
    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)
