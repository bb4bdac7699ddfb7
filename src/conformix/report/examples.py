"""Example rows: their sets at every level, and what the score of each label is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix import metrics
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.report.rows import Rows

PER_KIND = 2
MOST_LABELS = 8
MOST_PARTS = 7
OTHERS = "other scores"
KINDS = {
    "easy": "one label, and it is the true one",
    "typical": "a set of the median size that holds the true label",
    "hard": "one of the largest sets that hold the true label",
    "missed": "the true label is not in the set",
}


@dataclass(frozen=True, eq=False)
class Example:
    """One row: its best labels and the parts of their scores."""

    kind: str  # of `KINDS`, at the fitted level
    row: int  # place in the file
    truth: int
    labels: IntArray  # (L,), the best labels, best first; the true one is always among them
    parts: FloatArray  # (L, number of parts), ``w_j s_j`` of every label, on the model's scale
    scores: FloatArray  # (L,), their ordered sums
    pvalues: FloatArray  # (L,), conformal p-values
    thresholds: FloatArray  # (A, L), what the score must reach, by level; NaN under split "exact"
    member: BoolArray  # (A, L), whether the label is in the set, by level
    sizes: IntArray  # (A,), size of the whole set, by level


@dataclass(frozen=True, eq=False)
class Examples:
    """The example rows, and the best value of every part that any label of them could reach."""

    rows: tuple[Example, ...]  # the examples, by kind
    # names of the parts: the scores with the largest weights, and the others together
    parts: tuple[str, ...]
    # (number of parts,), largest part over all labels of the compared rows: what a part falls
    # short of
    best: FloatArray


def chosen_rows(rows: Rows) -> list[tuple[str, int]]:
    """Return which rows to show, with their kind: spread evenly over the candidates, not picked."""
    mask = rows.sets(rows.alphas[rows.fitted_place])
    sizes, hits = mask.sum(axis=1), metrics.covered(mask, rows.y)
    typical = np.median(sizes)
    near = np.abs(sizes - typical) == np.abs(sizes - typical).min()
    large = np.sort(sizes[hits])[-max(PER_KIND, hits.sum() // 100) :] if hits.any() else sizes[:0]
    candidates = {
        "easy": hits & (sizes == 1),
        "typical": hits & near,
        "hard": hits & (sizes >= large[0]) if len(large) else hits,
        "missed": ~hits,
    }
    taken: set[int] = set()
    chosen_kinds = []
    for kind, chosen in candidates.items():
        places = [int(i) for i in np.flatnonzero(chosen) if int(i) not in taken]
        wanted = range(PER_KIND if places else 0)
        picks = {places[(2 * j + 1) * len(places) // (2 * PER_KIND)] for j in wanted}
        chosen_kinds += [(kind, row) for row in sorted(picks)]
        taken |= picks
    return chosen_kinds


def examples(rows: Rows) -> Examples:
    """Return the example rows with the parts of their scores."""
    listed = chosen_rows(rows)
    places = np.array([row for _, row in listed], dtype=np.intp)
    fitted, weights = rows.predictor.fitted, rows.weights
    plain = rows.plain_scores(places)
    scores = fitted.rule.transform(plain)
    names, groups = part_groups(rows.names, weights)
    largest = np.maximum(rows.scores.max(axis=(0, 1)), scores.max(axis=(0, 1))) * weights
    pvalues = fitted.pvalues(plain, None, rows.data.take(places))
    thresholds = rows.thresholds(places)
    combined = combine(scores, weights)
    masks = np.stack([rows.sets(alpha)[places] for alpha in rows.alphas])
    explained = []
    for i, (kind, row) in enumerate(listed):
        truth = int(rows.y[row])
        labels = np.argsort(-combined[i], kind="stable")[:MOST_LABELS]
        if truth not in labels:
            labels = np.append(labels[:-1], truth)
        terms = scores[i, labels] * weights
        explained.append(
            Example(
                kind,
                row,
                truth,
                labels,
                np.column_stack([terms[:, group].sum(axis=1) for group in groups]),
                combined[i, labels],
                pvalues[i, labels],
                thresholds[:, i, labels],
                masks[:, i, labels],
                masks[:, i].sum(axis=1),
            )
        )
    return Examples(tuple(explained), names, np.array([largest[group].sum() for group in groups]))


def part_groups(
    names: tuple[str, ...], weights: FloatArray
) -> tuple[tuple[str, ...], list[IntArray]]:
    """Return names and scores of the parts to show: the largest weights, the rest together."""
    used = np.flatnonzero(weights)
    order = used[np.argsort(-np.abs(weights[used]), kind="stable")]
    shown = order if len(order) <= MOST_PARTS + 1 else order[:MOST_PARTS]
    groups = [np.array([j]) for j in np.sort(shown)]
    shown_names = tuple(names[j] for j in np.sort(shown))
    if len(shown) == len(order):
        return shown_names, groups
    return (*shown_names, OTHERS), [*groups, order[MOST_PARTS:]]
