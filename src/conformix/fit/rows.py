"""Labelled rows, wherever they live: what a fit asks of them.

Three kinds answer alike: rows in the memory of this machine, mapped files and CUDA tensors among
them (`ArrayRows`), rows that come in batches (`conformix.fit.batches`), and rows in the chunks of
Dask arrays (`conformix.fit.chunks`). A fit never asks which it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from conformix.data.batches import Batches
from conformix.data.checks import is_chunked, mapping, place
from conformix.data.chunks import chunked
from conformix.data.frames import class_columns, in_class_order
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import (
    Form,
    Outputs,
    Source,
    check_groups,
    check_outputs,
    matching,
    taken,
)
from conformix.data.passes import BatchOutputs, Passes
from conformix.data.row_data import RowData, check_rows
from conformix.errors import InvalidInput, SmallBatchWarning, shown, warn
from conformix.fit.far import FarOutputs, far_scores, refuse_beyond_memory, score_bytes
from conformix.fit.scored import OfModels, Scored, Scoring, gather_rows, no_roles
from conformix.fit.settings import Settings, is_symmetric
from conformix.kernels.arrays import IntArray
from conformix.scores.blend import PLAINLY, Blend, Computing
from conformix.scores.sorted_rows import are_sorted
from conformix.splits import Roles, Split

# Where a split keeps the scores of all rows, the machine's memory is looked at beyond this.
TENSOR_BYTES = 2**30
# The same for outputs that are mapped from files, as they are where memory is scarce.
MAPPED_BYTES = 2**29
# What the scores of the tuning rows may take, gathered or not: both draw the same rows.
HELD_BYTES = 2**29
# With fewer test rows than this a transductive split can fit its weights to the batch.
SMALL_BATCH = 100


class Rows(Protocol):
    """Labelled rows of one or several models."""

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in order."""

    @property
    def n_classes(self) -> int: ...

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Names of the classes, where there are any."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def outputs(self) -> Source:
        """The outputs of all rows."""

    @property
    def groups(self) -> IntArray | None:
        """The group of every row, where rows of one group stay together."""

    @property
    def test(self) -> Source | None:
        """Outputs of the unlabelled test rows."""

    @property
    def unlabelled(self) -> Source | None:
        """Outputs of rows that only teach scores."""

    @property
    def each_row(self) -> bool:
        """Whether scores learn from every row that is predicted, one at a time."""

    def take(self, rows: IntArray) -> ArrayRows:
        """Return some of the rows, brought to the memory of this process."""

    def blended(self, blend: Blend, how: Computing = PLAINLY) -> Rows:
        """Return the rows with a blend of their models in place of these.

        `how` is for those that compute it now.
        """

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return the scores of these rows, as far as a fit needs them, and the roles.

        Without a split no row tunes and all calibrate. Roles that were drawn before are kept.
        """


@dataclass(frozen=True, eq=False)
class ArrayRows(OfModels):
    """Labelled rows in the memory of this machine, in mapped files, or on a CUDA device."""

    outputs: Outputs
    y: IntArray
    data: RowData  # what the rows bring along for the calibration
    groups: IntArray | None = None  # rows of one group stay together
    test: Source | None = None  # of the unlabelled test rows
    classes: tuple[Any, ...] | None = None
    unlabelled: Source | None = None  # of rows that only teach scores
    each_row: bool = False  # whether scores learn from every row that is predicted, one at a time

    @property
    def n(self) -> int:
        return self.outputs.n

    def blended(self, blend: Blend, how: Computing = PLAINLY) -> ArrayRows:
        return replace(self, outputs=blend.computed(self.outputs, *how))

    def take(self, rows: IntArray) -> ArrayRows:
        groups = None if self.groups is None else self.groups[rows]
        outputs = self.outputs.rows(rows)
        return replace(
            self, outputs=outputs, y=self.y[rows], data=self.data.take(rows), groups=groups
        )

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return the scores that a fit needs: those that tune whole, of others the true labels'.

        All scores of all rows where the split keeps them, and on a device that does not sort.
        """
        n, d = self.outputs.n, len(scoring.columns)
        large = are_too_many(self.outputs, d)
        test: Any = None
        if split is None:
            roles = no_roles(n)
        else:
            check_test(split, None if self.test is None else self.test.n)
            far = large and not is_symmetric(split) and not hasattr(split, "held_in")
            test = self._test_scores(split, scoring, far=far)
            if roles is None:
                roles = split.roles(n, 0 if test is None else len(test), rng, self.groups)
        gathered = not self.outputs.on_device or are_sorted(scoring.columns, self.outputs)
        if gathered and (split is None or hasattr(split, "held_in")):
            scores: Any = gather_rows(self.outputs, self.y, roles.tune, scoring)
        elif split is not None and far:
            true = gather_rows(self.outputs, self.y, np.arange(0), scoring).true
            scores = far_scores(true, roles.tune, self.outputs, scoring, split.name)
        else:
            if large and split is not None:
                refuse_beyond_memory(split.name, score_bytes(n, self.n_classes, d))
            scores = scoring.tensor(self.outputs.settled())
        return Scored(scores, self.y, roles, self.data, test, grouped=self.groups is not None)

    def _test_scores(self, split: Split, scoring: Scoring, *, far: bool) -> Any:
        """Return the scores of the test rows where the split uses them."""
        if not split.needs_test or self.test is None:
            return None
        here, there = self.outputs, self.test
        if not isinstance(there, Outputs) and here.on_device:
            there = taken(there)
        if isinstance(there, Outputs):
            if there.home != here.home and (there.on_device or here.on_device):
                raise InvalidInput(
                    "test must be where outputs are (move one with .to(device)); got outputs "
                    f"{place(here.home)} and test {place(there.home)}."
                )
            if not far:
                return scoring.tensor(there)
        away = FarOutputs(there, scoring, split=split.name)
        return away if far else away.tensor


def array_rows(
    outputs: Any,
    y: Any,
    settings: Settings,
    *,
    test: Any = None,
    groups: Any = None,
    classes: Any = None,
    strata: Any = None,
    sample_weight: Any = None,
    unlabelled: Any = None,
) -> ArrayRows:
    """Return labelled rows as a user gives them, checked.

    Where all rows are scored in one pass, their numbers are checked in that pass.
    """
    if classes is None and y is not None:
        classes = class_columns(outputs, y)
    outputs, test, unlabelled = (
        in_class_order(rows, classes) for rows in (outputs, test, unlabelled)
    )
    labelled = check_outputs(outputs, settings.kind, later=not settings.blends)
    names = check_classes(classes, labelled.n_classes)
    labels = label_indices(y, names, labelled.n, labelled.n_classes)
    scheme = settings.calibration
    group_ids = check_groups(groups, labelled.n)
    data = check_rows(strata, sample_weight, labelled.n, scheme.needs, scheme.name)
    checked = None
    each_row = is_each(test)
    if settings.weights is None and not each_row:
        checked = other_rows(test, settings.kind, "test", labelled)
    others = other_rows(unlabelled, settings.kind, "unlabelled", labelled)
    return ArrayRows(labelled, labels, data, group_ids, checked, names, others, each_row)


def is_each(test: Any) -> bool:
    """Whether scores are to learn from every row that is predicted, one at a time."""
    if isinstance(test, str) and test != "each":
        raise InvalidInput(f'test must hold real numbers, or be "each"; got {shown(test)}.')
    return isinstance(test, str)


def other_rows(values: Any, kind: Form, name: str, like: Source) -> Source | None:
    """Return outputs of rows without labels of the same models, wherever they live, checked.

    They are arrays, Dask arrays or batches (`conformix.data.batches`).
    """
    if values is None:
        return None
    models, n_classes = tuple(like.models), like.n_classes
    if is_chunked(values):
        return chunked(values, kind, name).matching(models, n_classes, name)
    if isinstance(values, Batches) or callable(values) or hasattr(values, "__next__"):
        passes = Passes(values, kind, labelled=False, hold=True, name=name)
        passes.head = replace(
            passes.head, outputs=matching(passes.head.outputs, models, n_classes, name)
        )
        return BatchOutputs(passes)
    return matching(check_outputs(values, kind, name=name), models, n_classes, name)


def on_host(source: Source | None) -> Source | None:
    """Return rows that go with others which are read on hosts: tensors are brought there."""
    return source.to_host() if isinstance(source, Outputs) else source


def are_too_many(outputs: Outputs, d: int) -> bool:
    """Whether the scores of all rows are so many that they may not fit into memory."""
    mapped = any(mapping(values) is not None for values in outputs.models.values())
    most = MAPPED_BYTES if mapped else TENSOR_BYTES
    return not outputs.on_device and score_bytes(outputs.n, outputs.n_classes, d) > most


def rows_held(n_classes: int, d: int) -> int:
    """Return of how many rows the search holds all scores by default, at least one.

    Examples
    --------
    >>> rows_held(100, 3), rows_held(1_000, 3), rows_held(20_000, 3)
    (223696, 22369, 1118)
    """
    return max(1, HELD_BYTES // score_bytes(1, n_classes, d))


def check_test(split: Split, n_test: int | None) -> None:
    """Refuse a transductive split without test rows, and warn where they are few."""
    if not split.needs_test:
        return
    if n_test is None:
        raise InvalidInput(
            f'split "{split.name}" counts sizes on the test rows; pass them: '
            "fit(outputs, y, test=test_outputs)."
        )
    if n_test < SMALL_BATCH:
        warn(
            f'split "{split.name}" fits its weights to a test batch of only {n_test} rows; '
            f'below {SMALL_BATCH} its coverage can fall well short, use "all-rows" (efcp) or '
            '"holdout" (vfcp).',
            SmallBatchWarning,
        )
