"""The rows that tune: their scale, the scores of their true labels, and the labels that may be in.

The search counts the labels in the sets of these rows, with all weights. Of K labels nearly all are
in no set under any weights (`conformix.search.certain`), and none of their scores is needed. Where
the scores rise with the output, the labels within reach are the upper end of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.fit.far import FarOutputs, Reach
from conformix.fit.scored import HeldOutputs, HeldTensor
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor
from conformix.kernels.blocks import row_blocks
from conformix.kernels.cached import cached_property
from conformix.scores.names import Column
from conformix.scores.scale import CACHE_ENTRIES, Normalizer, Transform
from conformix.search.certain import MARGIN, TINY, reach


@dataclass(frozen=True)
class WithinReach:
    """The normalised scores of all labels that some weights may put into a set."""

    scores: FloatArray  # (L, 1, d): L rows of one label
    n_rows: int
    n_classes: int


@dataclass(frozen=True)
class BesideBest:
    """The same without the best labels of every row, which are in whatever the weights are."""

    true_scores: FloatArray  # (n', d), of the rows whose true label is not among the best
    k: int  # the rank of the threshold among these; below one none of the others is in
    scores: FloatArray  # (L, 1, d)
    n_best: int
    n_rows: int
    n_classes: int


class TuningRows:
    """The tuning rows, normalised by what is learnt from them.

    Parameters
    ----------
    source : HeldTensor, HeldOutputs or FarOutputs
        Their scores, or the outputs that these are made of. Scores that nobody else needs are
        normalised where they are, and the search of a large fit holds them once.
    y : integer array of shape (m,)
        Their labels.
    normalizer : Normalizer
        Learns the scale.
    columns : sequence of Column
        Which scores.

    Examples
    --------
    >>> from conformix.scores.scale import NaturalScale
    >>> scores = np.array([[[2.0], [4.0]]])
    >>> source = HeldTensor(scores, spare=True)
    >>> rows = TuningRows(source, np.array([1]), NaturalScale((2.0,)), ())
    >>> rows.true_scores, rows.scores.ravel(), rows.scores is scores
    (array([[2.]]), array([1., 2.]), True)
    """

    def __init__(
        self,
        source: HeldTensor | HeldOutputs | FarOutputs,
        y: IntArray,
        normalizer: Normalizer,
        columns: Sequence[Column],
    ) -> None:
        self.y = y
        self._source: Any = source
        # A normaliser of the library says which rows it looks at; one of the user's sees all.
        looks_at = getattr(normalizer, "rows", None)
        some = slice(None) if looks_at is None else looks_at(*source.shape[:2])
        self.transform: Transform = self._learnt(normalizer, source, some, columns)
        self.true_scores: FloatArray = self.transform(source.true_scores(y))
        # A transform of the user's may hold on to the rows that it was learnt from.
        self._ours = not getattr(self.transform, "holds_rows", True)
        self.in_order = self._ours and source.ordered is not None
        self.here = source.here

    @staticmethod
    def _learnt(normalizer: Any, source: Any, some: slice, columns: Sequence[Column]) -> Transform:
        """Return the scale that some of the rows teach."""
        rises = getattr(normalizer, "of_rising", None)
        if rises is not None and source.ordered is not None and source.ordered.compiled:
            return rises(source.ordered.planes(source.rows[some]), source.threads)  # type: ignore[no-any-return]
        threaded = getattr(normalizer, "threaded", False)
        options = {"threads": source.threads} if threaded else {}
        return normalizer.fit(source.some(some), columns, **options)  # type: ignore[no-any-return]

    @cached_property
    def scores(self) -> FloatArray:
        """Normalised scores of all labels, shape (m, K, d), made at first use."""
        source, self._source = self._source, None
        raw = source.tensor
        # Scores in single precision have no room for what becomes of them.
        wide = not is_tensor(raw) and raw.dtype == np.float64
        if not (source.spare and self._ours and wide):
            return self.transform(raw)
        for block in row_blocks(raw.shape[0], raw.shape[1], CACHE_ENTRIES):
            raw[block] = self.transform(raw[block])
        return raw  # type: ignore[no-any-return]

    def reach(self, k: int) -> Reach:
        """Return which labels may be in a set under some weights, none of them negative."""
        return Reach(self.transform, reach(self.true_scores, k))

    def within_reach(self, k: int) -> WithinReach:
        """Return the labels that are in a set under some weights, none of them negative.

        The threshold is the k-th largest combined score of the true labels. Only where the scores
        rise with the outputs (`in_order`).
        """
        source: HeldOutputs = self._source
        ordered: Any = source.ordered
        labels = self.reach(k).of_sorted(ordered, source.scoring.columns, source.rows)
        return WithinReach(labels[:, None, :], *source.shape[:2])

    def beside_best(self, k: int) -> BesideBest | None:
        """Return the labels that weights on the simplex may put beside the best of their row.

        Where sets are never empty the best labels count as infinite: the true ones among them, of
        rows that stand above the threshold, and those in the sets. None where a row may have other
        best labels under other weights. Only on the host, and where the scores rise with the
        outputs (`in_order`).
        """
        source: HeldOutputs = self._source
        ordered: Any = source.ordered
        columns, rows, (n, n_classes, d) = source.scoring.columns, source.rows, source.shape
        if ordered.on_device or n_classes < 2:
            return None
        two = slice(n_classes - 2, n_classes)
        tops = ordered.map(lambda block, some, _: block.scores(columns, some, two), rows)
        second, best = np.moveaxis(self.transform(np.concatenate(tops)), 1, 0)
        # Of rows whose best label shares its scores with others these are looked at one by one.
        tied = (second == best).all(axis=1)
        every: Any = (
            self.transform(ordered.scores(rows[tied])) if tied.any() else np.ones((0, 1, d))
        )
        shared = (every == every[:, -1:]).all(axis=2)
        second[tied] = np.where(shared[..., None], -np.inf, every).max(axis=1)
        is_best = (self.true_scores == best).all(axis=1)
        below = (self.true_scores <= second).all(axis=1)
        margin = MARGIN * float(np.abs(best).max()) + TINY
        if not ((best - second > margin).all() and (is_best | below).all()):
            return None
        n_best = n - len(every) + int(np.count_nonzero(shared))
        true_scores, rank = self.true_scores[~is_best], k - int(np.count_nonzero(is_best))
        others: FloatArray = every[~shared]
        if 1 <= rank <= len(true_scores) and not tied.all():
            within = Reach(self.transform, reach(true_scores, rank))
            found = within.of_sorted(ordered, columns, rows[~tied], best=False)
            others = np.concatenate([found, others])
        return BesideBest(true_scores, rank, others[:, None, :], n_best, n, n_classes)
