"""True-label scores that stay with the workers; what a rule makes of them comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformix.data.workers.tree import brought, fold
from conformix.fit.chunks import packed, unpacked
from conformix.fit.scored import Combination, merged, rising
from conformix.kernels.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ChunkScores:
    """True-label scores (n, d) in chunks of rows; see `conformix.fit.scored.TrueScores`.

    Of every row one number comes back, never d.

    Parameters
    ----------
    parts : tuple of dask Delayed
        The scores (r, d) of every chunk, kept by the workers.
    sizes : tuple of int
        Rows of every chunk.
    rows : integer array, optional
        Which rows these are, rising; by default all.
    """

    parts: tuple[Any, ...]
    sizes: tuple[int, ...]
    rows: IntArray | None = None

    def __len__(self) -> int:
        return sum(self.sizes) if self.rows is None else len(self.rows)

    def take(self, rows: IntArray) -> ChunkScores:
        """Return those of some rows, whose numbers rise."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def combined(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, in the order of the rows."""
        return np.concatenate(brought(*self._each(_combined, combine)))

    def rising(self, combine: Combination) -> FloatArray:
        """Return what `combine` makes of them, sorted by the workers: runs, merged in a tree."""
        from dask import delayed  # noqa: PLC0415  there already

        runs = self._each(_run, combine)
        (found,) = brought(fold(runs, delayed(merged, pure=False)))
        return found  # type: ignore[no-any-return]

    def _each(self, work: Callable[..., FloatArray], combine: Combination) -> list[Any]:
        """Return the tasks ``work(combine, scores, chosen)`` of all chunks."""
        from dask import delayed  # noqa: PLC0415

        task = delayed(work, pure=False)
        shared = delayed(combine, pure=False, traverse=False)
        chosen: list[Any] = [None] * len(self.parts)
        if self.rows is not None:
            chosen = packed(self.rows, sum(self.sizes), self.sizes)
        return [task(shared, *one) for one in zip(self.parts, chosen, strict=True)]


def _combined(combine: Combination, scores: FloatArray, chosen: Any) -> FloatArray:
    """Return the numbers of the chosen rows of a chunk, given by their bits."""
    own = scores if chosen is None else scores[unpacked(chosen, len(scores))]
    return combine(own)


def _run(combine: Combination, scores: FloatArray, chosen: Any) -> FloatArray:
    return rising(_combined(combine, scores, chosen))
