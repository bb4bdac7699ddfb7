"""One row of the report's own data and its set, for somebody who has never heard of sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix import metrics
from conformix.kernels import combine
from conformix.report.rows import Rows

# More labels than this are counted, not named.
MOST_NAMED = 5


@dataclass(frozen=True)
class Opening:
    """A row that shows what a set is."""

    row: int  # place in the file
    sentences: tuple[str, ...]  # what its set holds, one sentence per level


def opening(rows: Rows) -> Opening:
    """Return the row to begin with, and what its set is at every level."""
    row = telling_row(rows)
    place = np.array([row])
    order = np.argsort(-combine(rows.scores_of(place), rows.weights)[0], kind="stable")
    truth = rows.classes[int(rows.y[row])]
    sentences = []
    for alpha in rows.alphas:
        inside = rows.sets(alpha)[row]
        members = [rows.classes[y] for y in order if inside[y]]
        held = "holds" if inside[rows.y[row]] else "misses"
        sentences.append(
            f"For example, row {row:,} (counted from 0) has {in_braces(members)}, which {held} its "
            f"true label, {truth}."
        )
    return Opening(row, tuple(sentences))


def telling_row(rows: Rows) -> int:
    """Return the first row with two labels that hold the truth, or as near to that as there is."""
    mask = rows.sets(rows.alphas[rows.fitted_place])
    sizes, hits = mask.sum(axis=1), metrics.covered(mask, rows.y)
    # Two labels before three and more, these before one, one before none.
    rank = np.where(sizes >= 2, sizes, len(rows.classes) + 2 - sizes)
    return int(np.lexsort((np.arange(rows.n), rank, ~hits))[0])


def in_braces(members: list[str]) -> str:
    """Return a set in words and braces.

    Examples
    --------
    >>> in_braces(["cat", "dog"])
    'the set {cat, dog}'
    >>> in_braces([])
    'the empty set'
    """
    if not members:
        return "the empty set"
    named, more = members[:MOST_NAMED], len(members) - MOST_NAMED
    return f"the set {{{', '.join(named)}{f' and {more:,} more' if more > 0 else ''}}}"
