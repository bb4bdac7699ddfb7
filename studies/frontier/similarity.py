"""Class similarity (Fargion, Dabah & Tirer, arXiv 2511.19359), as outputs alone allow it.

A label is penalised by how unlike it is to the likeliest one: ``p_y - weight * (1 - M_top,y)`` with
tempered probabilities. The authors compare class means of a network's features; here M has the
cosines between the mean log-probabilities of rows, weighted by the probability of the class, over
the tuning rows. Half of the rows tune temperature and weight by set size, the others calibrate.
Several models are their logit ensemble.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.pool import Pool
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.kernels.patterns import patterns
from conformix.scores.ranked import Ranked


@dataclass(frozen=True)
class Similarity:
    """The temperatures and weights that are tried.

    Examples
    --------
    >>> Similarity().weights[0]  # THR is among them
    0.0
    """

    temperatures: tuple[float, ...] = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
    weights: tuple[float, ...] = (0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

    def all_sets(
        self, pool: Pool, rows: IntArray, test: IntArray, cases: Sequence[tuple[int, float]]
    ) -> Iterator[BoolArray]:
        """Yield the sets of test rows by the first n labelled rows, for every (n, alpha)."""
        models = pool.outputs.models
        one = pool if len(models) == 1 else pool.ensembled("logits")
        used = np.concatenate([rows, test])
        ranked = Ranked(next(iter(one.outputs.models.values()))[used], one.outputs.kind)
        logs, y = np.maximum(ranked.log_probs, -30.0), pool.labels[rows]
        probs, unit = ranked.probs, patterns(ranked.log_probs)
        for n, alpha in cases:
            tune, rest = slice(0, n // 2), slice(n // 2, n)
            means = probs[tune].T @ unit[tune]
            means /= np.maximum(np.sqrt((means**2).sum(axis=1, keepdims=True)), 1e-12)
            unlike = 1.0 - means @ means.T
            away = unlike[logs[tune].argmax(axis=1)]
            choices = []
            for t in self.temperatures:
                shares = _tempered(logs[tune], t)
                choices += [(_size(shares - w * away, y[tune], alpha), t, w) for w in self.weights]
            _, t, w = min(choices)
            scores = _tempered(logs, t) - w * unlike[logs.argmax(axis=1)]
            own = scores[np.arange(n // 2, n), y[rest]]
            yield scores[len(rows) :] >= kth_largest(own, conformal_rank(len(own), alpha))


def _tempered(logs: FloatArray, temperature: float) -> FloatArray:
    powers = np.exp((logs - logs.max(axis=1, keepdims=True)) / temperature)
    return powers / powers.sum(axis=1, keepdims=True)


def _size(scores: FloatArray, y: IntArray, alpha: float) -> int:
    own = scores[np.arange(len(y)), y]
    return int(np.count_nonzero(scores >= kth_largest(own, conformal_rank(len(y), alpha))))
