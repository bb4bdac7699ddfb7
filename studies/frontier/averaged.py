"""The other way to weights, for comparison: those with the smallest sets on the tuning rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conformix.experiments.pool import Pool
from conformix.fit.fit import fit_scores
from conformix.fit.settings import resolve
from conformix.kernels.arrays import BoolArray, IntArray
from conformix.splits import ValidityFirst


@dataclass(frozen=True)
class Averaging:
    """Weights searched by set size under VFCP, as the paper has it.

    Parameters
    ----------
    scores : tuple of str
        What is averaged, of every model.
    normalize : str
        On which scale.
    share : float
        Share of the rows that tune.

    Examples
    --------
    >>> Averaging(("thr", "aps", "rank")).normalize
    'ecdf'
    """

    scores: tuple[str, ...]
    normalize: str = "ecdf"
    share: float = 0.5

    def all_sets(
        self, pool: Pool, rows: IntArray, test: IntArray, cases: Sequence[tuple[int, float]]
    ) -> Iterator[BoolArray]:
        """Yield the sets of test rows by the first n labelled rows, for every (n, alpha)."""
        columns = pool.columns(self.scores)
        scores = pool.tensor(columns, test)
        for n, alpha in cases:
            settings = resolve(
                alpha=alpha, split=ValidityFirst(self.share), normalize=self.normalize, threads=1
            )
            labelled = rows[:n]
            tensor, y = pool.tensor(columns, labelled), pool.labels[labelled]
            fitted = fit_scores(tensor, y, columns, settings, np.random.default_rng(0))
            yield fitted.member(scores, alpha)
