"""The other way to weights, for comparison: those with the smallest sets on the tuning rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.experiments.pool import Pool
from conformix.fit.fit import fit_scores
from conformix.fit.settings import resolve
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
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

    def test_scores(self, pool: Pool, test: IntArray) -> FloatArray:
        """Return the scores (m, K, d) of the test rows, for all fits of one split."""
        return pool.tensor(pool.columns(self.scores), test)

    def sets_of(
        self, pool: Pool, cal: IntArray, test: FloatArray, alpha: float
    ) -> tuple[BoolArray, dict[str, float]]:
        """Return the sets of test rows with scores (m, K, d), and the weights."""
        columns = pool.columns(self.scores)
        settings = resolve(
            alpha=alpha, split=ValidityFirst(self.share), normalize=self.normalize, threads=1
        )
        scores, y = pool.tensor(columns, cal), pool.labels[cal]
        fitted = fit_scores(scores, y, columns, settings, np.random.default_rng(0))
        weights = zip(columns, fitted.rule.weights, strict=True)
        return fitted.member(test, alpha), {str(c): float(w) for c, w in weights if w}
