"""Labelled rows that come in batches: read once where that is enough, and held only to tune."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformix.data.batches import RowSample
from conformix.data.labels import check_classes
from conformix.data.outputs import Source, check_groups, chosen, taken
from conformix.data.passes import BatchOutputs, Block, Passes
from conformix.data.row_data import RowData, check_rows
from conformix.errors import InvalidInput
from conformix.fit.far import FarOutputs, far_scores, refuse_rows_beyond_memory
from conformix.fit.rows import ArrayRows, check_test, is_each, on_host, other_rows
from conformix.fit.scored import (
    HeldScores,
    OfModels,
    Scored,
    Scoring,
    SourceReader,
    assembled,
    no_roles,
    side_by_side,
    summarised,
)
from conformix.fit.settings import Settings, is_symmetric
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.kernels.cached import cached_property
from conformix.scores.blend import PLAINLY, Blend, Computing
from conformix.scores.names import score_columns
from conformix.splits import Roles, Split

# What a batch may bring along besides outputs and labels.
BROUGHT = ("strata", "sample_weight", "groups")


@dataclass(frozen=True, eq=False)
class BatchRows(OfModels):
    """Labelled rows of a source of batches (`conformix.data.batches`).

    Where the source knows its number of rows, or they are read before any is scored, the split
    draws the rows that it would draw in memory, and a fit is the same bit for bit. Otherwise they
    are a uniform sample of another draw; the guarantee is the same.
    """

    outputs: BatchOutputs
    needs: tuple[str, ...]  # what every row must bring along for the calibration
    calibration: str  # its name, for errors
    classes: tuple[Any, ...] | None = None
    test: Source | None = None
    unlabelled: Source | None = None
    each_row: bool = False

    @property
    def n(self) -> int:
        return self.outputs.n

    @property
    def grouped(self) -> bool:
        """Whether rows bring groups along, as the first ones show."""
        return "groups" in self.outputs.passes.head.row_data

    @cached_property
    def groups(self) -> IntArray | None:
        if not self.grouped:
            return None
        n = len(self.outputs.passes.survey())
        return check_groups(np.concatenate(self.outputs.passes.row_data["groups"]), n)

    def take(self, rows: IntArray) -> ArrayRows:
        refuse_rows_beyond_memory(len(rows), self.outputs)
        outputs = taken(self.outputs, rows)  # the labels are noted on the way
        y = self.outputs.passes.survey()
        groups = None if self.groups is None else self.groups[rows]
        return ArrayRows(
            outputs, y[rows], self.data.take(rows), groups, self.test,
            self.classes, self.unlabelled,
        )  # fmt: skip

    def blended(self, blend: Blend, how: Computing = PLAINLY) -> BatchRows:
        return replace(self, outputs=blend.in_blocks(self.outputs))

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return what one pass over the batches gathers."""
        n_test, source, passes = 0, self.outputs, self.outputs.passes
        test = None
        if split is not None:
            check_test(split, None if self.test is None else self.test.n)
            if split.needs_test and self.test is not None:
                n_test, test = self.test.n, FarOutputs(self.test, scoring, split=split.name)
        bounded = hasattr(split, "held_in")
        if roles is None and bounded and (self.grouped or passes.n_known is not None):
            roles = split.roles(self.n, n_test, rng, self.groups)  # type: ignore[union-attr]
        rows = Pass(scoring, split if bounded and roles is None else None, rng)
        tune = roles.tune if bounded and roles is not None else np.arange(0)
        for block in source.blocks():
            rows.take(block, tune)
        labels, models = passes.survey(), side_by_side(rows.tuning)
        n, true = len(labels), HeldScores(np.concatenate(rows.true))
        if rows.sample is not None:
            roles, models = rows.drawn(n)
        if split is None:
            roles = no_roles(n)
        elif roles is None:
            roles = split.roles(n, n_test, rng, self.groups)
        if split is None or bounded:
            reader = SourceReader(source, scoring) if passes.again else None
            scores: Any = assembled(true, models, roles.tune, source, scoring, reader=reader)
        elif is_symmetric(split):
            scores = FarOutputs(source, scoring, split=split.name).tensor
        else:
            scores = far_scores(true, roles.tune, source, scoring, split.name)
        return Scored(scores, labels, roles, self.data, test, grouped=self.grouped)

    @cached_property
    def data(self) -> RowData:
        """What the rows brought along, checked."""
        passes = self.outputs.passes
        n = len(passes.survey())
        unknown = sorted(set(passes.row_data) - set(BROUGHT))
        if unknown:
            raise InvalidInput(
                f"a batch may bring strata, sample_weight and groups along; got {unknown[0]!r}."
            )
        whole = {name: np.concatenate(values) for name, values in passes.row_data.items()}
        check_groups(whole.get("groups"), n)  # those of later batches alone are too few
        strata, weight = whole.get("strata"), whole.get("sample_weight")
        return check_rows(strata, weight, n, self.needs, self.calibration)


def batch_rows(
    source: Any,
    settings: Settings,
    *,
    classes: Any = None,
    test: Any = None,
    unlabelled: Any = None,
) -> BatchRows:
    """Return the rows of a source of batches, the first of them read and checked."""
    split: Any = settings.split
    if settings.weights is None and hasattr(split, "check"):
        split.check()
    passes = Passes(source, settings.kind)
    outputs, head = BatchOutputs(passes), passes.head
    passes.classes = check_classes(classes, outputs.n_classes)
    if are_read_twice(outputs, settings):
        passes.hold()
    scheme, kind = settings.calibration, settings.kind
    checked, each_row = None, is_each(test)
    if settings.weights is None and not each_row:
        checked = on_host(other_rows(test, kind, "test", head.outputs))
    others = on_host(other_rows(unlabelled, kind, "unlabelled", head.outputs))
    return BatchRows(outputs, scheme.needs, scheme.name, passes.classes, checked, others, each_row)


def are_read_twice(outputs: BatchOutputs, settings: Settings) -> bool:
    """Whether one pass is not enough: what is learnt or drawn beforehand, or looks at all labels.

    Sets that are never empty, and labels beyond a rank of their own, are calibrated with the scores
    of all labels; a split that bounds no tuning rows searches in those of all rows.
    """
    if settings.blends or not settings.allow_empty or hasattr(settings.calibration, "limits"):
        return True
    columns = score_columns(outputs.models, settings.scores)
    split = settings.split_for(len(columns))
    return (
        any(column.score.learns for column in columns)
        or "groups" in outputs.passes.head.row_data
        or (split is not None and not hasattr(split, "held_in"))
    )


@dataclass(eq=False)
class Pass:
    """What one pass over the rows keeps."""

    scoring: Scoring
    split: Any  # which rows tune, where that is drawn on the way
    rng: np.random.Generator
    true: list[FloatArray] = field(default_factory=list)
    tuning: list[dict[str, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sample: RowSample | None = None
        if self.split is not None:
            self.sample = RowSample(self.split.max_rows, self.rng)

    def take(self, block: Block, tune: IntArray) -> None:
        """Take in a block of rows, and keep the outputs of those that tune."""
        outputs = block.outputs
        keep = chosen(tune, block.first, outputs.n)[1]
        true, tuning = summarised(outputs, block.y, keep, self.scoring)
        self.true.append(true)
        self.tuning.append(tuning)
        if self.sample is not None:
            self.sample.offer(outputs, block.first)

    def drawn(self, n: int) -> tuple[Roles, dict[str, FloatArray]]:
        """Return the roles of n rows that were drawn on the way, and the outputs of what tunes."""
        if n < 2:
            self.split.roles(n, 0, self.rng)  # says that one row cannot be split
        assert self.sample is not None
        rows, models = self.sample.smallest(min(self.split.n_units(n), self.split.max_rows))
        rest = np.setdiff1d(np.arange(n), rows, assume_unique=True)
        return Roles(rows, rows, rest), models
