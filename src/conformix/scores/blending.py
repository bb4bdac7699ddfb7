"""The outputs of a blend on the host, computed by threads with rows of their own.

Of one model in one compiled loop that takes some rows through all of it at once
(`conformix.kernels.host.blend`), of several in passes over blocks of rows. The same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from conformix.data.checks import SPARE
from conformix.data.outputs import Outputs
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.blas import run_products
from conformix.kernels.blocks import (
    Buffers,
    Parts,
    entries_at_once,
    row_blocks,
    run_parts,
    threads_for,
)
from conformix.kernels.elementary import cuts
from conformix.kernels.order import falling_labels
from conformix.kernels.patterns import FLOOR, MOST_ZEROS, PATTERN_BITS, SPREAD_FLOOR, shifts_of
from conformix.kernels.twins import loops
from conformix.scores.evidence import LEAST_SPREAD
from conformix.scores.ranked import LOG_TINY, MOST_LABEL_BITS, TINY, ranked_models
from conformix.scores.terms import terms_of

if TYPE_CHECKING:
    from conformix.scores.blend import Blend

T = TypeVar("T")

# Outputs that one of a few threads ranks at once (1 MiB): the cache holds them.
PIECE_ENTRIES = 2**17
# The same beside the scores of the rows that tune, which take most of a fit's memory.
SMALL_PIECE = 3 * 2**13
# Outputs of rows whose sets are made at once: there is room for as many labels (2 MiB).
SETS_ENTRIES = 2**20
NOWHERE = np.empty((0, 0))


class Blending:
    """Outputs of a blend on the host, by threads with blocks of rows of their own.

    Parameters
    ----------
    blend : Blend
        What is computed.
    outputs : Outputs
        Of what; numbers that are not checked yet are checked on the way.
    threads : int
        For the rows.
    chosen : integer array, optional
        Which rows; by default all of them. The numbers of the outputs are checked already.
    """

    def __init__(
        self, blend: Blend, outputs: Outputs, threads: int, chosen: IntArray | None = None
    ) -> None:
        self._blend, self._outputs, self._threads = blend, outputs, threads
        self._chosen, self._n = chosen, outputs.n if chosen is None else len(chosen)
        # For every thread two blocks or more; small ones beside the scores of the rows that tune.
        share = self._n * outputs.n_classes // (2 * threads) if chosen is None else 0
        entries = min(PIECE_ENTRIES, max(share, SMALL_PIECE))
        entries = entries_at_once(entries, self._n, outputs.n_classes, threads)
        self._rows = max(1, entries // outputs.n_classes)
        exact = outputs.arithmetic == "exact"
        together = min(entries, self._n * outputs.n_classes)
        self._terms = terms_of(blend.plain, outputs.n_classes, together) if exact else None
        self._multipliers = {model: one.ready(together) for model, one in blend.of_patterns.items()}
        self._loop: Any = loops("blend", together) if self._terms is not None else None
        self._recipe = None if self._loop is None else self._recipe_of_one(together)
        # Used for block after block: fresh memory costs as much as the work on it.
        some = min(self._rows, self._n)
        self._blended = Buffers((some, outputs.n_classes))
        self._room = Buffers((some, outputs.n_classes + MOST_ZEROS), np.int16)
        self._rooms: SimpleQueue[Any] = SimpleQueue()

    def fill(self, out: FloatArray, places: IntArray | None = None) -> None:
        """Write what the blend gives for all rows: logits or probabilities (`kind_of`).

        To rows of `out` (M, K) that are told, or the first ones.
        """
        values: Any = next(iter(self._outputs.models.values()))
        here = self._recipe is not None and self._outputs.unchecked is None and _is_plain(values)
        if here:
            first = np.arange(self._n)
            rows = first if self._chosen is None else self._chosen
            self._walk(values, rows, out, first if places is None else places, self._threads)
            self._outputs.release_pages()
        elif places is None:
            self._run(lambda rows: self._fill(rows, out[rows]))
        else:

            def put(rows: slice, found: FloatArray) -> None:
                out[places[rows]] = found

            self.map(put)

    def map(self, function: Callable[[slice, FloatArray], T]) -> list[T]:
        """Return what a function says of blocks of rows, and of what the blend gives for them.

        It is asked by the thread that has a block, for as long as that holds what is given.
        """

        def ask(rows: slice) -> T:
            with self._blended.borrow() as held:
                out = held[: rows.stop - rows.start]
                self._fill(rows, out)
                return function(rows, out)

        return self._run(ask)

    def sets(self, lowest: FloatArray, mask: BoolArray) -> IntArray | None:
        """Write to `mask` (n, K) which labels of all rows reach what they have to, (n,).

        Returns these labels, row after row, by falling numbers, equal ones by label; None where no
        loop makes sets. They are those of the numbers that `map` hands on.
        """
        values: Any = next(iter(self._outputs.models.values()))
        here = isinstance(values, np.ndarray) and mask.flags.c_contiguous
        if self._recipe is None or self._chosen is not None or not here or not self._is_seen():
            return None
        several = threads_for(min(values.size, SETS_ENTRIES), self._threads)
        room = self._loop.room_for(several, values.shape[1], self._recipe)
        tolerance: float | None = self._tolerance()
        found: list[IntArray] = []
        for rows in row_blocks(self._n, values.shape[1], SETS_ENTRIES):
            block = _plainly(values[rows]), lowest[rows], mask[rows], room
            labels = None if tolerance is None else self._sets_of(*block, tolerance)
            if labels is None:  # a closer look at the numbers, here and from now on
                tolerance = None
                self._outputs.read(rows)
                labels = self._sets_of(*block, -1.0)
                assert labels is not None
            found.append(labels)
            self._outputs.release_pages()
        return np.concatenate(found)

    def _sets_of(
        self, some: FloatArray, lowest: FloatArray, mask: BoolArray, room: Any, tolerance: float
    ) -> IntArray | None:
        """Return the labels in the sets of some rows; None where the loop does not see them fine.

        With a tolerance below zero they are known to be.
        """
        loop, (n, n_classes), several = self._loop, some.shape, len(room.given)
        parts, places = _parts(n, room, several), np.arange(n)
        sets = loop.sets_of(lowest, mask, parts.n, several)
        how = NOWHERE, places, room, sets, tolerance
        task = loop.blending(some, places, self._recipe, *how)
        run_parts(loop.blend, parts, task)
        counts, width = sets.counts.tolist(), parts.step * n_classes
        if min(counts) < 0:
            return None
        found = [sets.labels[part * width :][:count] for part, count in enumerate(counts)]
        for part in np.unique(np.flatnonzero(task.left) // parts.step).tolist():
            own = slice(part * parts.step, min((part + 1) * parts.step, n))
            numbers = self._left_over(some[own])
            np.greater_equal(numbers, lowest[own, None], out=mask[own])
            found[part] = falling_labels(numbers, mask[own])
        return np.concatenate(found, dtype=np.min_scalar_type(n_classes - 1), casting="unsafe")

    def _left_over(self, values: FloatArray) -> FloatArray:
        """Return the blend of rows whose numbers are so near that their keys hardly differ."""
        (name,), found = self._outputs.models, np.empty(values.shape)
        self._in_passes(replace(self._outputs, models={name: values}, unchecked=None), found)
        return found

    def _is_seen(self) -> bool:
        """Whether a loop can see that numbers are fine: those of other forms are no outputs yet."""
        unchecked = self._outputs.unchecked
        return unchecked is None or unchecked.form in ("probs", "logits")

    def _tolerance(self) -> float:
        """Return how far rows may sum from one for a loop to see that they are fine.

        Less than zero where they are known to be.
        """
        unchecked = self._outputs.unchecked
        if unchecked is None or not unchecked.tolerances:
            return -1.0
        (tolerance,) = unchecked.tolerances.values()
        return 0.0 if unchecked.form == "logits" else tolerance - SPARE

    def _run(self, work: Callable[[slice], T]) -> list[T]:
        def of_thread(rows: slice) -> T:
            answer = work(rows)
            self._outputs.release_pages()
            return answer

        return run_products(of_thread, row_blocks(self._n, 1, self._rows), self._threads)

    def _fill(self, rows: slice, out: FloatArray) -> None:
        outputs = self._outputs
        some = outputs.read(rows) if self._chosen is None else outputs.rows(self._chosen[rows])
        if self._recipe is None:
            self._in_passes(some, out)
            return
        values = _plainly(next(iter(some.models.values()))[:])
        places = np.arange(some.n)
        self._walk(values, places, out, places, 1)

    def _recipe_of_one(self, numbers: int) -> Any:
        """Return what is made of rows as the loop takes it; None where it is of several models.

        Or where some of it is not done by loops.
        """
        blend, outputs, n_classes = self._blend, self._outputs, self._outputs.n_classes
        label_bits = max(1, (n_classes - 1).bit_length())
        if len(outputs.models) > 1 or self._terms is None or label_bits > MOST_LABEL_BITS:
            return None
        factors: Any = np.empty((0, 0), np.int16)
        unit = 0.0
        for multiplier in self._multipliers.values():
            pieces = multiplier.in_units(numbers)
            if len(pieces) != 1:
                return None
            ((factors, unit),) = pieces
        runs = self._terms.runs  # of one model there is one, or none
        kinds, of_terms = runs[0][1:] if runs else (np.empty(0, int), np.empty((0, n_classes + 1)))
        becomes = self._loop.LOGITS if outputs.kind == "logits" else self._loop.PROBS
        evidence = 0.0, 0.0, 0.0, 0.0
        if blend.evidence is not None:
            becomes, evidence = self._loop.EVIDENT, blend.evidence.numbers
        return self._loop.Recipe(
            outputs.kind == "logits", kinds, of_terms, label_bits if self._terms.sorts else 0,
            factors, unit, becomes, evidence, LEAST_SPREAD, (TINY, LOG_TINY), (FLOOR, SPREAD_FLOOR),
            shifts_of(n_classes), 2.0**-PATTERN_BITS, cuts(n_classes),
        )  # fmt: skip

    def _walk(
        self, values: FloatArray, rows: IntArray, out: FloatArray, places: IntArray, threads: int
    ) -> None:
        """Write the blend of some rows of one model to rows of `out`, by a loop."""
        loop, n_classes = self._loop, values.shape[1]
        several = threads_for(len(rows) * n_classes, threads)
        try:
            room = self._rooms.get_nowait()
        except Empty:
            room = loop.room_for(several, n_classes, self._recipe)
        task = loop.blending(values, rows, self._recipe, out, places, room)
        run_parts(loop.blend, _parts(len(rows), room, min(several, len(room.given))), task)
        self._rooms.put(room)
        left = np.flatnonzero(task.left)
        if len(left):
            out[places[left]] = self._left_over(values[rows[left]])

    def _in_passes(self, outputs: Outputs, out: FloatArray) -> None:
        """Write the blend of some outputs, pass by pass, of as many as there is room for."""
        for rows in row_blocks(outputs.n, 1, self._rows):
            self._block_in_passes(outputs.rows(rows), out[rows])

    def _block_in_passes(self, some: Outputs, out: FloatArray) -> None:
        blend, ranked = self._blend, ranked_models(some)
        if self._terms is None:
            out[:] = blend.without_products(ranked)
        else:
            out[:] = 0.0
            self._terms.add(ranked, out)
        with self._room.borrow() as room:
            for model, multiplier in self._multipliers.items():
                multiplier.add(ranked[model].patterns, out, room)
        found = blend.outputs_of(out, blend.spread_of(ranked), some.kind, some.arithmetic)
        if found is not out:
            out[:] = found


def _parts(n: int, room: Any, threads: int) -> Parts:
    """Return the parts of so many rows, each of as many as there is room for."""
    return Parts(-(-n // room.step), room.step, threads)


def _plainly(values: Any) -> FloatArray:
    """Return rows as the loop reads them."""
    found = np.ascontiguousarray(values, dtype=np.float64)
    return found if found.flags.writeable else found.copy()


def _is_plain(values: Any) -> bool:
    """Whether a loop can read rows where they are."""
    return (
        type(values) is np.ndarray
        and values.dtype == np.float64
        and values.flags.c_contiguous
        and values.flags.writeable
    )
