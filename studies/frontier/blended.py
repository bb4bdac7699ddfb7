"""``scores="auto"`` and its ablations on scores that are computed once for all splits.

`sets_of` gives the sets that ``ScoreAverage(scores="auto")`` gives with the same tuning rows
(tests/experiments/test_frontier.py); only the sorting of the same rows again and again is saved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformix.conformal import conformal_rank, kth_largest
from conformix.experiments.pool import Pool
from conformix.fit.exact.split import FullFitted
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.scores.blend import DICTIONARY, LADDER, most_likely, plan_rows, prior_of, ridge_of
from conformix.scores.scale import Scaled


@dataclass(frozen=True)
class Blending:
    """A way to blend.

    Parameters
    ----------
    scores : tuple of str
        What is blended, of every model.
    share : float or None
        Share of the rows that the blend learns from; None plans it.
    shrink : float
        Times the usual pull towards the mean of the models.
    exact : bool
        Whether the rest calibrates by the exact split, over a ladder of temperatures.
    softmax : bool
        Whether the sums become probabilities, or are compared as they are.
    by_size : bool
        Whether the temperature is the one of the ladder with the smallest sets on the tuning rows.

    Examples
    --------
    >>> Blending(scores=("logp",)).share is None
    True
    """

    scores: tuple[str, ...] = DICTIONARY
    share: float | None = None
    shrink: float = 1.0
    exact: bool = False
    softmax: bool = True
    by_size: bool = False

    def n_tune(self, pool: Pool, rows: int, alpha: float) -> int:
        """Return how many of the rows the blend learns from."""
        if self.share is not None:
            return max(1, round(self.share * rows))
        d = len(self.scores) * len(pool.outputs.models)
        return plan_rows(rows, alpha, d, pool.outputs.n_classes)

    def test_scores(self, pool: Pool, test: IntArray) -> FloatArray:
        """Return the scores (m, K, d) of the test rows, for all fits of one split."""
        return pool.tensor(pool.columns(self.scores), test)

    def sets_of(
        self, pool: Pool, cal: IntArray, test: FloatArray, alpha: float
    ) -> tuple[BoolArray, dict[str, float]]:
        """Return the sets of test rows with scores (m, K, d), and the coefficients.

        The first rows of `cal` tune, the others calibrate.
        """
        n_tune = self.n_tune(pool, len(cal), alpha)
        tune, rest = cal[:n_tune], cal[n_tune:]
        columns = pool.columns(self.scores)
        prior = prior_of(columns)
        if not prior.any():  # without the anchor: the plain log-probabilities
            first = [str(c.score) == self.scores[0] for c in columns]
            prior = np.array(first, dtype=float) / len(pool.outputs.models)
        ridge = self.shrink * ridge_of(columns)
        found = most_likely(pool.tensor(columns, tune), pool.labels[tune], prior, ridge)
        used = np.flatnonzero(found)
        told = {str(columns[j]): float(found[j]) for j in used}
        listed, coefficients = [columns[j] for j in used], found[used]
        own = combine(pool.tensor(listed, rest), coefficients)
        new = _combined(test, used, coefficients)
        if self.exact:
            return _exact_sets(own, pool.labels[rest], new, alpha), told
        if self.softmax:
            heat = 1.0
            if self.by_size:
                seen = combine(pool.tensor(listed, tune), coefficients)
                heat = _by_size(seen, pool.labels[tune], alpha)
            own, new = _softmax(own, heat), _softmax(new, heat)
        true_scores = own[np.arange(len(rest)), pool.labels[rest]]
        return new >= kth_largest(true_scores, conformal_rank(len(rest), alpha)), told


def _combined(test: FloatArray, used: IntArray, coefficients: FloatArray) -> FloatArray:
    """Return `combine` of some of the planes, in its order, without a copy of them."""
    total = np.multiply(test[..., used[0]], coefficients[0])
    for j, coefficient in zip(used[1:], coefficients[1:], strict=True):
        total += test[..., j] * coefficient
    return total


def _softmax(z: FloatArray, temperature: float = 1.0) -> FloatArray:
    scaled = z / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _by_size(z: FloatArray, y: IntArray, alpha: float) -> float:
    """Return the temperature of the ladder with the smallest sets on the tuning rows."""
    k, counts = conformal_rank(len(y), alpha), []
    for temperature in LADDER:
        scores = _softmax(z, temperature)
        counts.append(int((scores >= kth_largest(scores[np.arange(len(y)), y], k)).sum()))
    return LADDER[int(np.argmin(counts))]


def _exact_sets(own: FloatArray, y: IntArray, new: FloatArray, alpha: float) -> BoolArray:
    """Return the sets of the exact split over the ladder of temperatures."""
    ladder = [np.stack([_softmax(z, t) for t in LADDER], axis=-1) for z in (own, new)]
    weights = np.eye(len(LADDER))
    fitted = FullFitted(ladder[0], y, weights, Scaled((1.0,) * len(LADDER)), alpha, threads=1)
    return fitted.member(ladder[1], alpha)


AUTO = Blending()
EXACT = Blending(exact=True)
ABLATIONS = {
    "auto": AUTO,
    "auto, exact": EXACT,
    "log-probabilities alone": Blending(("logp",)),
    "log-probabilities with a floor": Blending(("logp(floor=0.01)",)),
    "log-probabilities and log-ranks": Blending(("logp", "logrank")),
    "without ranks": Blending(("logp(floor=0.01)", "logp", "thr")),
    "a tenth of the rows tunes": Blending(share=0.1),
    "half of the rows tunes": Blending(share=0.5),
    "sums without a softmax": Blending(softmax=False),
    "temperature by set size": Blending(by_size=True),
    "hardly shrunk": Blending(shrink=0.01),
    "shrunk ten times": Blending(shrink=10.0),
}
