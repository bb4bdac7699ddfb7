"""Sets as the upper ends of sorted rows: prediction without a tensor of scores.

Where all scores rise with the outputs of one model, and the rule with its scores, a set holds the
labels whose output reaches a number of the row's own. Rows are sorted, the first place that reaches
the threshold is found by bisection, and scores are looked up at these places alone: some ten labels
of a row, and those in the set for their order. Bit for bit what the scores of all labels give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from conformix.data.outputs import Outputs
from conformix.fit.rule import Rule
from conformix.fit.scored import Scoring
from conformix.kernels.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    beside,
    is_tensor,
    to_device,
    to_host,
)
from conformix.kernels.blocks import row_blocks
from conformix.kernels.order import falling_labels
from conformix.scores.names import Column
from conformix.scores.sorted_rows import (
    SortedRows,
    are_sorted,
    first_reaching,
    scores_at,
)
from conformix.scores.upper_rows import SortedOutputs, UpperRows

# Outputs from which on sorting and bisecting is quicker than scoring all labels.
WORTHWHILE = 2**14
# About so many members of sets are put in order at once: each costs up to eighty bytes.
MEMBERS = 2**16


@dataclass(frozen=True)
class UpperEnds:
    """Sets of rows in sorted order, by a rule that rises."""

    scoring: Scoring
    rule: Rule

    def fill(self, block: Any, thresholds: Any, mask: Any) -> IntArray:
        """Write the sets of a block of sorted rows to `mask` (r, K); return their labels.

        These are best first, row after row. `thresholds` is a number, or one per row of the block,
        shape (r, 1).
        """
        return self._best_first(block, *self._places(block, thresholds), mask)

    def depths(self, block: Any, thresholds: Sequence[Any], depth: Any) -> IntArray:
        """Write to `depth` in how many sets each label of a block is (r, K), for some thresholds.

        They rise, so that the first sets are the largest; their labels are returned, best first.
        """
        ends = [self._places(block, threshold) for threshold in thresholds]
        largest = depth > 0  # room for them
        labels = self._best_first(block, *ends[0], largest)
        depth[:] = largest
        for first, _ in ends[1:]:
            depth += _members(block, first)
        return labels

    def _places(self, block: Any, threshold: Any) -> tuple[IntArray, BoolArray]:
        return first_places(block, self.scoring.columns, self.rule, threshold, None)

    def _best_first(self, block: Any, first: IntArray, alike: BoolArray, mask: Any) -> IntArray:
        """Write sets that begin at the places (r,) to `mask`; return their labels, best first.

        By falling combined score, ties by label, row after row.
        """
        if is_tensor(first):
            mask[:] = beside(_members(block, first), mask)  # answers may be wanted elsewhere
            return self._best_first_on_device(block, first)
        sizes, lowest = mask.shape[1] - first, block.outputs_at(first)
        upto = np.cumsum(sizes)  # members up to and with every row
        starts = np.unique(np.searchsorted(upto, np.arange(0, upto[-1] + 1, MEMBERS)))
        parts = [slice(*pair) for pair in pairwise([*starts.tolist(), len(mask)])]
        found = []
        threads = self.scoring.threads
        for part in parts:
            own = lowest[part], sizes[part]
            labels = falling_labels(block.block[part], mask[part], own, threads)
            found.append(self._in_order(block, labels, first, alike, part))
        return np.concatenate(found)

    def _best_first_on_device(self, block: Any, first: Any) -> IntArray:
        # The sort has the labels in order; members alone come to the host.
        n_classes = block.block.shape[1]
        sizes = n_classes - first
        rows = block.numbers(len(first)).repeat_interleave(sizes)
        count = block.numbers(len(rows))
        places = (sizes.cumsum(0) + first).repeat_interleave(sizes) - count - 1
        labels, rows = to_host(block.labels[rows, places]), to_host(rows)
        values = np.empty(len(rows))
        for part in row_blocks(len(rows), 1):
            which = to_device(rows[part], sizes), places[part]
            values[part] = to_host(
                self.rule.of_single_labels(block.scores_at(*which, self.scoring.columns))
            )
        small = labels.astype(np.min_scalar_type(n_classes - 1))
        return small[_alike_by_label(rows, values, labels)]

    def _in_order(
        self,
        block: UpperRows | SortedRows,
        labels: IntArray,
        firsts: IntArray,
        alike: BoolArray,
        part: slice,
    ) -> IntArray:
        """Return the labels of the sets of some rows of the host, best first."""
        # By falling output is by falling score; only labels that score alike may stand in another
        # order, and are put into that of the labels.
        n_classes, chosen = block.block.shape[1], np.flatnonzero(alike[part])
        small = labels.astype(np.min_scalar_type(n_classes - 1))
        if not len(chosen):
            return small
        sizes = n_classes - firsts[part]
        own, starts = sizes[chosen], np.cumsum(sizes) - sizes
        within = np.arange(own.sum()) - np.repeat(np.cumsum(own) - own, own)
        rows, members = np.repeat(part.start + chosen, own), np.repeat(starts[chosen], own) + within
        scores = scores_at(block.at(rows, n_classes - 1 - within), self.scoring.columns)
        order = _alike_by_label(rows, self.rule.of_single_labels(scores), labels[members])
        small[members] = small[members[order]]
        return small


def _alike_by_label(rows: IntArray, values: FloatArray, labels: IntArray) -> Any:
    """Return the places that put labels of a row which score alike into their order.

    Rows rise, and scores fall within them.
    """
    alike = (values[1:] == values[:-1]) & (rows[1:] == rows[:-1]) & (labels[1:] < labels[:-1])
    return np.lexsort((labels, -values, rows)) if alike.any() else slice(None)


def _members(block: Any, first: IntArray) -> BoolArray:
    """Return the labels (n, K) from the places (n,) on."""
    return block.block >= block.outputs_at(first)[:, None]  # type: ignore[no-any-return]


def first_places(
    block: Any, columns: Sequence[Column], rule: Rule, thresholds: Any, rows: IntArray | None
) -> tuple[IntArray, BoolArray]:
    """Return where the sets of some rows (m,) of a block begin, by thresholds that fit (m, 1).

    And, on the host, in which rows labels of the set score alike. All rows where `rows` is None.
    """
    every = block.numbers(len(block.block) if rows is None else len(rows))
    cuts = thresholds
    if not isinstance(cuts, float):
        cuts = to_device(np.ascontiguousarray(np.broadcast_to(cuts, (len(every), 1))), every)
    if not rule.allow_empty:  # the best labels are in, whatever they score
        last = block.block.shape[1] - 1
        best = rule.of_single_labels(block.scores(columns, rows, slice(last, last + 1)))
        cuts = best.clip(max=cuts)

    on_host = not is_tensor(every)  # a device has the labels in order, and all scores at once
    floors = rule.floors(float(np.min(cuts))) if on_host else None
    lines = getattr(rule.transform, "lines", None) if isinstance(block, UpperRows) else None
    if lines is not None:
        low = np.full(len(rule.weights), -np.inf) if floors is None else floors
        # Copies: code for memory that must not be written would be compiled apart.
        limits, weights = np.empty((len(every), 1)), np.array(rule.weights, order="C")
        limits[:] = cuts
        some = every if rows is None else rows
        return block.first_places(some, lines, weights, low, limits.reshape(-1))
    if isinstance(block, UpperRows):
        found = block.in_pieces(
            lambda own, piece: _by_windows(
                block,
                columns,
                (rule, floors),
                cuts if isinstance(cuts, float) else cuts[piece],
                own,
            ),
            every if rows is None else rows,
        )
        firsts, alikes = zip(*found, strict=True)
        return np.concatenate(firsts), np.concatenate(alikes)
    return _by_windows(block, columns, (rule, floors), cuts, rows)


def _by_windows(
    block: Any,
    columns: Sequence[Column],
    how: tuple[Rule, FloatArray | None],
    cuts: Any,
    rows: IntArray | None,
) -> tuple[IntArray, BoolArray]:
    """Return the same by a rule, and scores at or below which it lets nothing in."""
    rule, floors = how
    every = block.numbers(len(block.block) if rows is None else len(rows))
    on_host = not is_tensor(every)
    alike = np.zeros(len(every), dtype=bool)
    above = np.full(len(every), np.nan)  # what the lowest label of the window above scores

    def reaches(scores: FloatArray, which: IntArray) -> BoolArray:
        values = rule.of_single_labels(scores, floors)
        inside: Any = values >= (cuts if isinstance(cuts, float) else cuts[which])
        if on_host:
            same = (values[:, 1:] == values[:, :-1]) & inside[:, :-1]
            alike[which] |= same.any(axis=1) | (values[:, -1] == above[which]) & inside[:, -1]
            above[which] = values[:, 0]
        return inside  # type: ignore[no-any-return]

    return first_reaching(block, columns, reaches, rows), alike


def n_members(ordered: SortedOutputs, rule: Rule, thresholds: Any, rows: IntArray) -> int:
    """Return how many labels are in the sets of some rows, by thresholds that fit (m, 1)."""

    def of_block(block: Any, within: IntArray, places: slice) -> int:
        cuts = thresholds if isinstance(thresholds, float) else thresholds[places]
        first, _ = first_places(block, ordered.columns, rule, cuts, within)
        return len(within) * block.block.shape[1] - int(first.sum())

    return sum(ordered.map(of_block, rows))


def upper_ends(scoring: Scoring, rule: Rule, outputs: Outputs) -> UpperEnds | None:
    """Return how sets of these outputs are found as upper ends, or None where they are not."""
    if outputs.n * outputs.n_classes < WORTHWHILE or not rule.rises:
        return None
    return UpperEnds(scoring, rule) if are_sorted(scoring.columns, outputs) else None
