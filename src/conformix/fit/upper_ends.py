"""Sets as the upper ends of sorted rows: prediction without a tensor of scores.

Where all scores rise with the outputs of one model, and the rule with its scores, a set holds the
labels whose output reaches a number of the row's own. Rows are sorted, the first place that reaches
the threshold is found by bisection, and scores are looked up at these places alone: some ten labels
of a row, and those in the set for their order. Bit for bit what the scores of all labels give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.data.outputs import Outputs
from conformix.fit.rule import Rule
from conformix.fit.scored import Scoring
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, falling_within_rows
from conformix.scores.names import Column
from conformix.scores.sorted_rows import (
    SortedOutputs,
    SortedRows,
    first_reaching,
    rise,
    scores_at,
    sorted_rows,
    sorting_pays,
)

# Outputs from which on sorting and bisecting is quicker than scoring all labels.
WORTHWHILE = 2**14


@dataclass(frozen=True)
class UpperEnds:
    """Sets of rows in sorted order, by a rule that rises."""

    scoring: Scoring
    rule: Rule

    def sets(self, outputs: Outputs, rows: slice, thresholds: Any) -> tuple[BoolArray, IntArray]:
        """Return the sets (r, K) of a block of rows, and their labels, best first, row after row.

        `thresholds` is a number, or one per row of the block, shape (r, 1).
        """
        columns = self.scoring.columns
        block = sorted_rows(outputs, rows, columns, self.scoring.key)[columns[0].model]
        n, n_classes = block.block.shape
        first = first_places(block, columns, self.rule, thresholds, np.arange(n))
        lowest = block.outputs[np.arange(n), np.minimum(first, n_classes - 1)]
        lowest[first == n_classes] = np.inf
        mask: BoolArray = block.block >= lowest[:, None]
        return mask, self._best_first(block, mask, first)

    def _best_first(self, block: SortedRows, mask: BoolArray, first: IntArray) -> IntArray:
        """Return the labels in the sets by falling combined score, ties by label, row after row.

        By falling output is by falling score; only labels that score alike may stand in another
        order, and are put into that of the labels.
        """
        n_classes = mask.shape[1]
        sizes = n_classes - first
        rows, labels = np.divmod(np.flatnonzero(mask), n_classes)
        small = labels.astype(np.min_scalar_type(n_classes - 1))
        several = sizes > 1
        if not several.any():
            return small
        chosen = np.flatnonzero(np.repeat(several, sizes))  # sets of one label are in order
        rows, labels, sizes = rows[chosen], labels[chosen], sizes[several]
        order = falling_within_rows(block.block[rows, labels], sizes)
        labels = labels[order]
        places = np.repeat(np.cumsum(sizes) + first[several], sizes) - np.arange(len(rows)) - 1
        scores = scores_at(block.at(rows, places), self.scoring.columns)
        values = self.rule.of_single_labels(scores)
        alike = (values[1:] == values[:-1]) & (rows[1:] == rows[:-1]) & (labels[1:] < labels[:-1])
        if alike.any():
            order = order[np.lexsort((labels, -values, rows))]
        small[chosen] = small[chosen[order]]
        return small


def first_places(
    block: SortedRows, columns: Sequence[Column], rule: Rule, thresholds: Any, rows: IntArray
) -> IntArray:
    """Return where the sets of some rows (m,) of a block begin, by thresholds that fit (m, 1)."""
    cuts = np.broadcast_to(thresholds, (len(rows), 1))[:, 0]
    if not rule.allow_empty:  # the best labels are in, whatever they score
        last = np.full(len(rows), block.block.shape[1] - 1)
        top = rule.of_single_labels(scores_at(block.at(rows, last), columns))
        cuts = np.minimum(cuts, top)

    def reaches(scores: FloatArray, which: IntArray) -> BoolArray:
        return rule.of_single_labels(scores) >= cuts[which, None]

    return first_reaching(block, columns, reaches, rows)


def n_members(ordered: SortedOutputs, rule: Rule, thresholds: Any, rows: IntArray) -> int:
    """Return how many labels are in the sets of some rows, by thresholds that fit (m, 1)."""

    def of_block(block: SortedRows, within: IntArray, places: slice) -> int:
        cuts = thresholds if isinstance(thresholds, float) else thresholds[places]
        first = first_places(block, ordered.columns, rule, cuts, within)
        return len(within) * block.block.shape[1] - int(first.sum())

    return sum(ordered.map(of_block, rows))


def upper_ends(scoring: Scoring, rule: Rule, outputs: Outputs) -> UpperEnds | None:
    """Return how sets of these outputs are found as upper ends, or None where they are not."""
    if outputs.n * outputs.n_classes < WORTHWHILE or not rule.rises:
        return None
    ordered = rise(scoring.columns, outputs) and sorting_pays(scoring.columns, outputs)
    return UpperEnds(scoring, rule) if ordered else None
