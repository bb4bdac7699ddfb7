"""``scores="auto"`` under ``split="exact"``, as the library does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import conformix as cx
from conformix.experiments.pool import Pool
from conformix.kernels.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class Exactly:
    """Calibration rows select among three temperatures of the blend.

    Examples
    --------
    >>> Exactly().seed
    0
    """

    seed: int = 0

    def all_sets(
        self, pool: Pool, rows: IntArray, test: IntArray, cases: Sequence[tuple[int, float]]
    ) -> Iterator[BoolArray]:
        """Yield the sets of test rows by the first n labelled rows, for every (n, alpha)."""
        models = {name: values[:] for name, values in pool.outputs.models.items()}
        there = {name: values[test] for name, values in models.items()}
        for n, alpha in cases:
            some = rows[:n]
            cp = cx.ScoreAverage(
                "auto", alpha=alpha, split="exact", kind=pool.outputs.kind, threads=1,
                random_state=self.seed,
            )  # fmt: skip
            cp.fit({name: values[some] for name, values in models.items()}, pool.labels[some])
            yield cp.predict_set(there).mask
