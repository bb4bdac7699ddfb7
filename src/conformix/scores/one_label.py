"""The scores of one label per row, the true one: all that a calibration row is asked for.

Scores are functions of sorted rows, and permuting the labels of a row permutes its scores bit for
bit. So the score of a label is that of its place in the sorted row. Numbers alone are sorted, in
the precision that they come in, instead of numbers with their labels; and what a sorted row says is
looked up at one place, instead of being put back into the order of the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from conformix.data.outputs import Arithmetic, Kind, Outputs
from conformix.kernels import available_threads, run_blocks
from conformix.kernels.arrays import FloatArray, IntArray, of_labels
from conformix.kernels.blocks import row_blocks
from conformix.scores.names import SCORES, Column
from conformix.scores.ranked import Ranked
from conformix.scores.tensor import CACHE_ENTRIES, fill_tensor, uniforms_of


class OneLabel:
    """What a score asks of `Ranked`, for one label of every row; arrays have shape (n, 1)."""

    xp = np

    def __init__(
        self,
        block: FloatArray,
        y: IntArray,
        kind: Kind = "probs",
        u: FloatArray | None = None,
        arithmetic: Arithmetic = "exact",
    ) -> None:
        # NumPy 2.4 with AVX-512 sorts half precision wrongly where 0.0 and -0.0 meet.
        half = block.dtype == np.float16
        rising = np.sort(block.astype(np.float32) if half else block, axis=1)
        self.rows = Ranked.of_sorted(rising, kind, u, arithmetic)
        values = block[np.arange(len(y)), y][:, None]
        # Of several equal numbers any place will do: all of them score alike.
        self.places: IntArray = np.count_nonzero(rising < values, axis=1)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return self.rows.n_classes

    @property
    def u(self) -> FloatArray:
        """One number in [0, 1) per row."""
        return self.rows.u

    def at(self, temperature: float) -> OneLabel:
        """Return the same labels with ``p_y^(1/T)``, renormalised; order and ties are shared."""
        if temperature == 1:
            return self
        tempered = object.__new__(OneLabel)
        tempered.rows, tempered.places = self.rows.at(temperature), self.places
        tempered.__dict__["_ends"] = self._ends
        return tempered

    @property
    def probs(self) -> FloatArray:
        """The probability of the label."""
        return self._label_column(self.rows.probs)

    @property
    def log_probs(self) -> FloatArray:
        """Its logarithm, floored."""
        return self._label_column(self.rows.log_probs)

    @property
    def logits(self) -> FloatArray:
        """The raw logit of the label."""
        return self._label_column(self.rows.logits)

    @property
    def log_sum_exp(self) -> FloatArray:
        """``log sum exp z`` of the row."""
        return self.rows.log_sum_exp

    @property
    def entropy(self) -> FloatArray:
        """The entropy of the row."""
        return self.rows.entropy

    @property
    def top(self) -> FloatArray:
        """The largest probability of the row."""
        return self.rows.top

    @property
    def runner_up(self) -> FloatArray:
        """The second largest probability of the row."""
        return self.rows.runner_up

    @cached_property
    def _ends(self) -> tuple[IntArray, IntArray]:
        """First and last sorted position of the label's tie group, (n, 1) each."""
        rising = self.rows.probs
        fresh = np.ones(rising.shape, dtype=bool)
        fresh[:, 1:] = rising[:, 1:] != rising[:, :-1]
        starts = np.append(np.flatnonzero(fresh), rising.size)  # of all tie groups of the block
        rows = np.arange(0, rising.size, self.n_classes)
        group = np.searchsorted(starts, rows + self.places, side="right")
        return (starts[group - 1] - rows)[:, None], (starts[group] - 1 - rows)[:, None]

    @property
    def below(self) -> IntArray:
        """``#{y' : p_y' < p_y}``."""
        return self._ends[0]

    def log(self, values: FloatArray) -> FloatArray:
        """Return the logarithm of some numbers."""
        return self.rows.log(values)

    @property
    def log_ranks(self) -> FloatArray:
        """The logarithm of the rank from the top."""
        return self.log(self.rank.astype(np.float64))

    @property
    def rank(self) -> IntArray:
        """Rank from the top, ``1 + #{y' : p_y' > p_y}``."""
        return self.n_classes - self._ends[1]

    @cached_property
    def mass_up_to(self) -> FloatArray:
        """Mass of the labels no likelier than y, added from the smallest up."""
        mass = np.cumsum(self.rows.probs, axis=1)
        return np.take_along_axis(mass, self._ends[1], axis=1)

    def _label_column(self, values: FloatArray) -> FloatArray:
        return np.take_along_axis(values, self.places[:, None], axis=1)


def true_label_scores(
    outputs: Outputs,
    y: IntArray,
    columns: Sequence[Column],
    *,
    key: int = 0,
    threads: int | None = None,
) -> FloatArray:
    """Return ``of_labels(fill_tensor(outputs, columns, key=key), y)``, bit for bit, sooner.

    Scores of the user's own may look at which label is which: they are computed for all labels.
    """
    symmetric = {SCORES[name] for name in SCORES}
    if outputs.on_device or any(type(column.score) not in symmetric for column in columns):
        whole = fill_tensor(outputs, columns, key=key, threads=threads)
        return of_labels(whole, y)  # type: ignore[no-any-return]
    scores = np.empty((outputs.n, len(columns)))

    def fill(rows: slice) -> None:
        uniforms = uniforms_of(outputs, rows, columns, key)
        ranked: dict[str, Any] = {
            model: OneLabel(values[rows], y[rows], outputs.kind, uniforms, outputs.arithmetic)
            for model, values in outputs.models.items()
        }
        for j, column in enumerate(columns):
            scores[rows, j] = column.score(ranked[column.model])[:, 0]

    blocks = row_blocks(outputs.n, outputs.n_classes, CACHE_ENTRIES)
    run_blocks(fill, blocks, available_threads(threads))
    return scores
