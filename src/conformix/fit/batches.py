"""Labelled rows that come in batches: one pass, in the memory of the tuning rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformix.data.batches import Batches, RowSample, from_iterable
from conformix.data.labels import check_classes, label_indices
from conformix.data.outputs import Kind, Outputs, check_outputs
from conformix.data.row_data import RowData, check_rows
from conformix.errors import InvalidInput
from conformix.fit.predictor import matching
from conformix.fit.scored import (
    BlockReader,
    HeldScores,
    OfModels,
    Scored,
    Scoring,
    assembled,
    chosen,
    no_roles,
    side_by_side,
    summarised,
)
from conformix.fit.settings import Settings, check_out_of_core
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.splits import Roles, Split


@dataclass(frozen=True, eq=False)
class Block:
    """A small block of checked rows."""

    outputs: Outputs
    y: Any
    row_data: dict[str, Any]
    first: int


@dataclass(frozen=True, eq=False)
class BatchRows(OfModels):
    """Labelled rows of a source of batches (`conformix.data.batches`).

    Where the source knows its number of rows, the split draws the rows that it would draw in
    memory, and a fit is the same bit for bit. Where it does not, they are a uniform sample of
    another draw; the guarantee is the same.
    """

    batches: Batches
    head: Block  # the first rows
    rest: Iterator[Block]  # all others, in the pass that has begun
    needs: tuple[str, ...]  # what every row must bring along for the calibration
    calibration: str  # its name, for errors
    classes: tuple[Any, ...] | None = None

    @property
    def outputs(self) -> Outputs:  # type: ignore[override]
        """Those of the first rows."""
        return self.head.outputs

    def scored(
        self,
        scoring: Scoring,
        split: Split | None,
        rng: np.random.Generator,
        roles: Roles | None = None,
    ) -> Scored:
        """Return what one pass over the batches gathers."""
        rows = Pass(scoring, self.classes, self.batches.n, split, rng)
        rows.take(self.head)
        for block in self.rest:
            rows.take(replace(block, outputs=self._matching(block.outputs)))
        labels = np.concatenate(rows.labels)
        reader = None
        if self.batches.again:
            reader = BlockReader(lambda: self._again(labels), scoring)
        roles, models = rows.roles_and_models(len(labels))
        scores = assembled(
            HeldScores(np.concatenate(rows.true)), models, roles.tune, self.outputs, scoring,
            reader=reader,
        )  # fmt: skip
        return Scored(scores, labels, roles, self._row_data(rows.row_data, len(labels)))

    def _matching(self, outputs: Outputs) -> Outputs:
        return matching(outputs, self.models, self.n_classes, "outputs")

    def _again(self, labels: IntArray) -> Iterator[Outputs]:
        """Yield the outputs of another pass over the same rows, which their labels must show.

        A loader that shuffles, or an iterator that has ended, would calibrate with other rows'
        labels.
        """
        first = 0
        for block in blocks_of(self.batches, self.kind):
            outputs = self._matching(block.outputs)
            y = label_indices(block.y, self.classes, outputs.n, outputs.n_classes)
            if not np.array_equal(y, labels[first : first + outputs.n]):
                break
            first += outputs.n
            yield outputs
        else:
            if first == len(labels):
                return
        raise InvalidInput(
            "batches that are read a second time must hold the same rows in the same order, and "
            "these do not: do not shuffle, let a function return a fresh iterator, or give an "
            "iterator."
        )

    def _row_data(self, blocks: dict[str, list[Any]], n: int) -> RowData:
        """Return what the rows brought along, checked."""
        whole = {name: np.concatenate(values) for name, values in blocks.items()}
        unknown = sorted(set(whole) - {"strata", "sample_weight"})
        if unknown:
            raise InvalidInput(
                f"a batch may bring strata and sample_weight along; got {unknown[0]!r}."
            )
        strata, weight = whole.get("strata"), whole.get("sample_weight")
        return check_rows(strata, weight, n, self.needs, self.calibration)


def batch_rows(source: Any, settings: Settings, *, classes: Any = None) -> BatchRows:
    """Return the rows of a source of batches, the first of them read and checked."""
    check_out_of_core(settings)
    batches = from_iterable(source)
    blocks = blocks_of(batches, settings.kind)
    head = next(blocks, None)
    if head is None:
        raise InvalidInput("there are no rows to fit: the batches are empty.")
    names = check_classes(classes, head.outputs.n_classes)
    scheme = settings.calibration
    return BatchRows(batches, head, blocks, scheme.needs, scheme.name, names)


def blocks_of(batches: Batches, kind: Kind) -> Iterator[Block]:
    """Yield small blocks of checked rows from batches of any size."""
    first = 0
    for batch in batches:
        if not isinstance(batch, tuple) or len(batch) not in (2, 3):
            raise InvalidInput(
                "a batch must be a tuple (outputs, y), or (outputs, y, {...}) with strata or "
                f"sample_weight; got {type(batch).__name__}."
            )
        outputs, y = batch[0], batch[1]
        row_data = batch[2] if len(batch) == 3 else {}
        checked = check_outputs(outputs, kind, first=first, later=True).to_host()
        if y is None or len(y) != checked.n:
            n_labels = "none" if y is None else f"{len(y)}"
            raise InvalidInput(f"y of a batch must hold {checked.n} labels; got {n_labels}.")
        for rows in checked.blocks():
            data = {name: np.asarray(values)[rows] for name, values in row_data.items()}
            yield Block(checked.read(rows), y[rows], data, first + rows.start)
        first += checked.n


@dataclass(eq=False)
class Pass:
    """What one pass over the rows keeps."""

    scoring: Scoring
    classes: Any
    n: int | None  # the number of rows, where it is known
    split: Any  # which rows tune; None where weights are settled, and none do
    rng: np.random.Generator
    true: list[FloatArray] = field(default_factory=list)
    labels: list[IntArray] = field(default_factory=list)
    row_data: dict[str, list[Any]] = field(default_factory=dict)
    tuning: list[dict[str, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roles: Roles | None = None
        self.sample: RowSample | None = None
        if self.split is not None and self.n is not None:
            self.roles = self.split.roles(self.n, 0, self.rng)
        elif self.split is not None:
            self.sample = RowSample(self.split.max_rows, self.rng)

    def take(self, block: Block) -> None:
        """Take in a block of rows."""
        outputs = block.outputs
        y = label_indices(block.y, self.classes, outputs.n, outputs.n_classes, first=block.first)
        tune = np.arange(0) if self.roles is None else self.roles.tune
        keep = chosen(tune, block.first, outputs.n)[1]
        true, tuning = summarised(outputs, y, keep, self.scoring)
        self.true.append(true)
        self.tuning.append(tuning)
        self.labels.append(y)
        for name, values in block.row_data.items():
            self.row_data.setdefault(name, []).append(values)
        if self.sample is not None:
            self.sample.offer(outputs, block.first)

    def roles_and_models(self, n: int) -> tuple[Roles, dict[str, FloatArray]]:
        """Return the roles of n rows, and the outputs of those that tune."""
        if self.n is not None and n != self.n:
            raise InvalidInput(f"the batches hold {n} rows, and {self.n} were announced.")
        if self.split is None:
            return no_roles(n), {}
        if self.sample is None:
            assert self.roles is not None  # drawn where the number of rows is known
            models = side_by_side(self.tuning)
            self.tuning.clear()
            return self.roles, models
        if n < 2:
            self.split.roles(n, 0, self.rng)  # says that one row cannot be split
        rows, models = self.sample.smallest(min(self.split.n_units(n), self.split.max_rows))
        rest = np.setdiff1d(np.arange(n), rows, assume_unique=True)
        return Roles(rows, rows, rest), models
