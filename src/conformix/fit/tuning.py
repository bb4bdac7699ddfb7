"""The rows that tune: held once, on the scale on which scores are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, of_labels
from conformix.kernels.blocks import row_blocks
from conformix.scores.names import Column
from conformix.scores.scale import CACHE_ENTRIES, Interpolated, Normalizer, Scaled


class TuningRows:
    """The scores of the tuning rows, normalised by what is learnt from them.

    Parameters
    ----------
    scores : array of shape (m, K, d)
        Scores of all labels.
    y : integer array of shape (m,)
        True labels.
    normalizer : Normalizer
        Learns from these rows how scores are normalised.
    columns : sequence of Column
        Which score of which model every plane holds.
    spare : bool
        Whether nobody else needs these scores: they are then normalised where they are, and the
        search of a large fit holds them once.

    Attributes
    ----------
    transform : Transform
        How scores are normalised.
    true_scores : array of shape (m, d)
        Normalised scores of the true labels.

    Examples
    --------
    >>> from conformix.scores.scale import NaturalScale
    >>> scores = np.array([[[2.0], [4.0]]])
    >>> rows = TuningRows(scores, np.array([1]), NaturalScale((2.0,)), (), spare=True)
    >>> rows.true_scores, rows.scores.ravel(), rows.scores is scores
    (array([[2.]]), array([1., 2.]), True)
    """

    def __init__(
        self,
        scores: FloatArray,
        y: IntArray,
        normalizer: Normalizer,
        columns: Sequence[Column],
        *,
        spare: bool,
    ) -> None:
        self.y = y
        self.transform = normalizer.fit(scores, columns)
        self.true_scores: FloatArray = self.transform(of_labels(scores, y))
        self._raw: Any = scores
        # A transform of the user's may hold on to the rows that it was learnt from.
        ours = isinstance(self.transform, Scaled | Interpolated)
        # Scores in single precision have no room for what becomes of them.
        self._in_place = spare and ours and not is_tensor(scores) and scores.dtype == np.float64

    @cached_property
    def scores(self) -> FloatArray:
        """Normalised scores of all labels, shape (m, K, d), made at first use."""
        raw, self._raw = self._raw, None
        if not self._in_place:
            return self.transform(raw)
        for block in row_blocks(raw.shape[0], raw.shape[1], CACHE_ENTRIES):
            raw[block] = self.transform(raw[block])
        return raw  # type: ignore[no-any-return]
