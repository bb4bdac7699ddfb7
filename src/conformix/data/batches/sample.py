"""A random sample of rows that come by once, their number not known beforehand."""

from __future__ import annotations

import numpy as np

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import FloatArray, IntArray


class RowSample:
    """The rows with the smallest of uniform numbers, one drawn per row: a uniform sample.

    The numbers follow the order of the rows, so that the sample does not depend on how the rows
    are cut into batches. A row that another one displaces leaves its place to it: memory is that
    of `size` rows.

    Parameters
    ----------
    size : int
        How many rows are held at most.
    rng : Generator
        Where the numbers come from.

    Examples
    --------
    >>> sample = RowSample(2, np.random.default_rng(0))
    >>> for first in (0, 3):
    ...     sample.offer(Outputs({"": np.arange(first, first + 3.0)[:, None]}, "logits"), first)
    >>> rows, models = sample.smallest(2)
    >>> bool((models[""][:, 0] == rows).all()), len(rows)
    (True, 2)
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size = size
        self.rng = rng
        self.numbers = np.empty(0)
        self.rows: IntArray = np.empty(0, dtype=np.int64)
        self.models: dict[str, FloatArray] = {}

    def offer(self, outputs: Outputs, first: int) -> None:
        """Let a block of rows take part, whose first row has the number `first`."""
        self._widen(outputs)
        drawn = self.rng.random(outputs.n)
        free = min(self.size - len(self.numbers), outputs.n)
        self._append(outputs, first, drawn, free)
        later = np.arange(free, outputs.n)
        if not len(later):
            return
        all_numbers = np.concatenate([self.numbers, drawn[later]])
        winners = np.zeros(len(all_numbers), dtype=bool)
        winners[np.argpartition(all_numbers, self.size - 1)[: self.size]] = True
        places = np.flatnonzero(~winners[: self.size])
        fresh = later[winners[self.size :]]
        self.numbers[places], self.rows[places] = drawn[fresh], first + fresh
        for name, values in outputs.models.items():
            self.models[name][places] = values[fresh]

    def _widen(self, outputs: Outputs) -> None:
        """Hold rows in a type that holds those of a block too, exactly."""
        for name, room in self.models.items():
            wide = np.promote_types(room.dtype, outputs.models[name].dtype)
            self.models[name] = room.astype(wide, copy=False)

    def _append(self, outputs: Outputs, first: int, drawn: FloatArray, n: int) -> None:
        """Take the first n rows of a block into free places."""
        held = len(self.numbers)
        self.numbers = np.concatenate([self.numbers, drawn[:n]])
        self.rows = np.concatenate([self.rows, np.arange(first, first + n)])
        for name, values in outputs.models.items():
            room = self.models.get(name)
            if room is None or len(room) < held + n:
                # Twice the room whenever it is too small, so that growing stays cheap.
                wanted = min(self.size, max(held + n, 2 * held))
                wider = np.empty((wanted, values.shape[1]), dtype=values.dtype)
                if room is not None:
                    wider[:held] = room[:held]
                self.models[name] = wider
            self.models[name][held : held + n] = values[:n]

    def smallest(self, n: int) -> tuple[IntArray, dict[str, FloatArray]]:
        """Return n of the rows held, those with the smallest numbers: rising, with outputs."""
        chosen = np.argsort(self.numbers, kind="stable")[:n]
        places = chosen[np.argsort(self.rows[chosen])]
        return self.rows[places], {name: room[places] for name, room in self.models.items()}
