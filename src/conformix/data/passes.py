"""Batches, pass by pass: a fit reads them as often as it needs, and holds an iterator's if it must.

The first pass notes the labels and what else rows bring along; every later one must show the same
labels, because a loader that shuffles would calibrate with other rows' labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from conformix.data.batches import Batches, from_iterable
from conformix.data.labels import label_indices
from conformix.data.outputs import (
    KIND_OF,
    Form,
    Kind,
    Outputs,
    ReadHere,
    check_outputs,
    matching,
    over_blocks,
)
from conformix.errors import InvalidInput
from conformix.kernels.arrays import IntArray

# Outputs of an iterator that are held where they are needed a second time (1 GiB).
ITERATOR_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Block:
    """A small block of checked rows."""

    outputs: Outputs
    y: Any  # as given, then as indices; None without labels
    row_data: dict[str, Any]
    first: int


def blocks_of(
    batches: Batches, kind: Form, *, labelled: bool = True, name: str = "outputs"
) -> Iterator[Block]:
    """Yield small blocks of checked rows from batches of any size."""
    first = 0
    for batch in batches:
        alone = not labelled and not isinstance(batch, tuple)
        outputs, y, row_data = (batch, None, {}) if alone else _parts(batch)
        checked = check_outputs(outputs, kind, name=name, first=first, later=True).to_host()
        if labelled and (y is None or len(y) != checked.n):
            n_labels = "none" if y is None else f"{len(y)}"
            raise InvalidInput(f"y of a batch must hold {checked.n} labels; got {n_labels}.")
        for rows in checked.blocks():
            data = {name: np.asarray(values)[rows] for name, values in row_data.items()}
            labels = None if y is None or not labelled else y[rows]
            yield Block(checked.read(rows), labels, data, first + rows.start)
        first += checked.n


def _parts(batch: Any) -> tuple[Any, Any, dict[str, Any]]:
    if not isinstance(batch, tuple) or len(batch) not in (2, 3):
        raise InvalidInput(
            "a batch must be a tuple (outputs, y), or (outputs, y, {...}) with strata, "
            f"sample_weight or groups; got {type(batch).__name__}."
        )
    return batch[0], batch[1], batch[2] if len(batch) == 3 else {}


class Passes:
    """Passes over a source of batches; the first goes on where its first rows were read.

    Parameters
    ----------
    source : source of `conformix.data.batches`, iterable or function
        The batches.
    kind : {"probs", "logits"}
        What their outputs are.
    labelled : bool
        Whether rows have labels.
    hold : bool
        Whether to hold what the first pass reads of an iterator, for later ones.
    name : str
        What to call the outputs in errors.

    Examples
    --------
    >>> passes = Passes(iter([([[0.9, 0.1]], [0]), ([[0.3, 0.7]], [1])]), "probs", hold=True)
    >>> passes.survey().tolist()
    [0, 1]
    >>> [block.first for block in passes.blocks()]  # once more, from what is held
    [0, 1]
    """

    def __init__(
        self,
        source: Any,
        kind: Form,
        *,
        labelled: bool = True,
        hold: bool = False,
        name: str = "outputs",
    ) -> None:
        self.batches = from_iterable(source)
        self.kind: Form = kind
        self.labelled, self.name = labelled, name
        self.classes: tuple[Any, ...] | None = None
        self.row_data: dict[str, list[Any]] = {}
        self._held: list[Block] | None = None
        self._labels: IntArray | None = None
        self._n: int | None = None
        begun = self._fresh()
        head = next(begun, None)
        if head is None:
            raise InvalidInput(
                "there are no rows to fit: the batches are empty."
                if labelled
                else f"{name} must hold some rows: its batches are empty."
            )
        self.head = head
        self._begun: Iterator[Block] | None = chain([head], begun)
        if hold:
            self.hold()

    @property
    def again(self) -> bool:
        """Whether there can be another pass."""
        return self.batches.again or self._held is not None

    @property
    def n_known(self) -> int | None:
        """The number of rows, where it is known so far."""
        return self.batches.n if self._n is None else self._n

    @property
    def n(self) -> int:
        """The number of rows, for which they are read where it is not known."""
        if self.n_known is None:
            self.survey()
        return self.n_known  # type: ignore[return-value]

    def hold(self) -> None:
        """Hold what the first pass reads, where there could be no other."""
        if not self.batches.again and self._held is None:
            self._held = []

    def survey(self) -> IntArray:
        """Return the labels of all rows, for which they are read unless they have been."""
        if self._labels is None:
            for _ in self.blocks():
                pass
        return self._labels  # type: ignore[return-value]

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks of rows in one more pass, their labels as indices."""
        begun, self._begun = self._begun, None
        if begun is not None:
            yield from self._first(begun)
        else:
            yield from self._later()

    def _fresh(self) -> Iterator[Block]:
        return blocks_of(self.batches, self.kind, labelled=self.labelled, name=self.name)

    def _checked(self, block: Block) -> Block:
        head = self.head.outputs
        outputs = matching(block.outputs, tuple(head.models), head.n_classes, self.name)
        y = None
        if self.labelled:
            y = label_indices(
                block.y, self.classes, outputs.n, outputs.n_classes, first=block.first
            )
        return replace(block, outputs=outputs, y=y)

    def _first(self, blocks: Iterator[Block]) -> Iterator[Block]:
        labels: list[Any] = []
        held, held_bytes, n = self._held, 0, 0
        for given in blocks:
            block = self._checked(given)
            n += block.outputs.n
            labels.append(block.y)
            for name, values in block.row_data.items():
                self.row_data.setdefault(name, []).append(values)
            if held is not None:
                copies = {m: np.array(v[:]) for m, v in block.outputs.models.items()}
                held.append(replace(block, outputs=replace(block.outputs, models=copies)))
                held_bytes += sum(values.nbytes for values in copies.values())
                self._refuse_beyond(held_bytes)
            yield block
        if self.batches.n is not None and n != self.batches.n:
            raise InvalidInput(f"the batches hold {n} rows, and {self.batches.n} were announced.")
        self._n = n
        self._labels = np.concatenate(labels) if self.labelled else np.empty(0, dtype=np.intp)

    def _refuse_beyond(self, held_bytes: int) -> None:
        if held_bytes > ITERATOR_BYTES:
            raise InvalidInput(
                "these settings need the rows a second time, and an iterator ends: to hold all its "
                f"outputs would take more than {ITERATOR_BYTES / 1e9:.1f} GB; give the batches as "
                "a function that returns an iterator, or a source of conformix.data.batches."
            )

    def _later(self) -> Iterator[Block]:
        if self._held is not None:
            yield from self._held
            return
        if not self.batches.again:
            raise InvalidInput(
                "these settings need the rows a second time, and an iterator ends; give the "
                "batches as a list, a function that returns an iterator, or a source of "
                "conformix.data.batches."
            )
        labels, first = self.survey(), 0
        for given in self._fresh():
            block = self._checked(given)
            n = block.outputs.n
            if self.labelled and not np.array_equal(block.y, labels[first : first + n]):
                break
            first += n
            yield block
        else:
            if first == self._n:
                return
        raise InvalidInput(
            "batches that are read a second time must hold the same rows in the same order, and "
            "these do not: do not shuffle, let a function return a fresh iterator, or give an "
            "iterator."
        )


@dataclass(frozen=True, eq=False)
class BatchOutputs(ReadHere):
    """The outputs of rows in batches; see `conformix.data.outputs.Source`."""

    passes: Passes
    # What becomes of the outputs of every block before anything is asked of them, the names of the
    # models then, and what the numbers are.
    through: Callable[[Outputs], Outputs] | None = None
    named: tuple[str, ...] | None = None
    becomes: Kind | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in order."""
        return tuple(self.passes.head.outputs.models) if self.named is None else self.named

    @property
    def n(self) -> int:
        """Number of rows, for which they are read where it is not known."""
        return self.passes.n

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.passes.head.outputs.n_classes

    @property
    def kind(self) -> Kind:
        """What the outputs are."""
        return self.becomes or KIND_OF[self.passes.kind]

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks of rows in one more pass."""
        for block in self.passes.blocks():
            outputs = block.outputs
            yield block if self.through is None else replace(block, outputs=self.through(outputs))

    def map(
        self,
        function: Callable[..., Any],
        rows: IntArray | None = None,
        arrays: tuple[Any, ...] = (),
    ) -> Iterator[tuple[slice, Any]]:
        """Yield what a function says of blocks of rows; see `conformix.data.outputs.Source`."""
        return over_blocks((block.outputs for block in self.blocks()), function, rows, arrays)
