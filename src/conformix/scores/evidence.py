"""How much a row says at all: one number for all its labels, which a blend adds to them.

A likelihood of labels given rows cannot see a constant of a row. A threshold that all rows share
does: which labels it lets in depends on how the numbers of one row lie to those of another. Let q
be the blend's probabilities and sd(x) the standard deviation over the labels of a model's
log-probabilities, floored at -60. The score of a label is

    log q_y(x) + e(x),    e(x) = a log(sd(x) + 0.001) + b log max_k q_k(x),

where the first logarithm is the mean over the models, cut off at the smallest and largest of the
rows that taught it: nothing is known of rows beyond these.

Let t be the number that a twentieth of the true labels of the tuning rows T have a smaller q than.
With ``u = exp(e + constant)``, a and b minimise

    sum_T log(1 + t / (u q_y)) + t sum_T sum_k log(1 + u q_k / t),

which is convex, with a ridge on them in units of a standard deviation over rows. Over all functions
u of a row and a label it would be smallest where ``u q_k`` is the probability of the label k,
whatever t is; labels next to t count most.

The exponentials of these scores add up to exp(e) over the labels of a row: they are logits with the
blend's probabilities, and the score `conformix.scores.Logit` reads them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels import elementary
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, of_labels, to_device, to_host
from conformix.kernels.blocks import (
    DEVICE_ENTRIES,
    parts_of_rows,
    row_blocks,
    run_blocks,
    run_parts,
    threads_for,
)
from conformix.kernels.patterns import CACHE_ENTRIES, spreads
from conformix.kernels.twins import loops
from conformix.scores.likelihood import might_round_otherwise, rounded

# What is added to a standard deviation: rows whose labels are all alike have a logarithm.
LEAST_SPREAD = 0.001
# Where tuning rows hardly differ, a row that does must not be lifted beyond all measure.
LEAST_UNIT = 0.05
# Of the true labels, how many lie below the level around which labels count most.
LEVEL = 0.05
# On both coefficients; a trace of it on the constant keeps the minimum finite.
RIDGE = np.array([1.0, 1.0, 1e-6])
STEPS = 40
# Odds and factors of rows beyond e to this power are alike: their products stay finite.
FARTHEST = 300.0


@dataclass(frozen=True)
class Evidence:
    """What is added to the log-probabilities of a blend, row by row.

    Parameters
    ----------
    spread : float
        Coefficient of the logarithm of the spread of the models' log-probabilities.
    top : float
        Coefficient of the logarithm of the blend's largest probability.
    narrowest, widest : float
        Where the logarithm of the spread is cut off.

    Examples
    --------
    >>> from conformix.scores.ranked import Ranked
    >>> model = Ranked(np.array([[0.9, 0.1], [0.5, 0.5]]))
    >>> evidence = Evidence(spread=0.0, top=1.0, narrowest=-1.0, widest=1.0)
    >>> evidence.logits(model.log_probs, log_spreads(model)).round(2)
    array([[-0.21, -2.41],
           [-1.39, -1.39]])
    """

    spread: float
    top: float
    narrowest: float
    widest: float

    def __post_init__(self) -> None:
        finite = bool(np.isfinite([self.spread, self.top, self.narrowest, self.widest]).all())
        if not finite or self.narrowest > self.widest:
            raise InvalidInput(
                "the evidence of a blend has two coefficients and two bounds, which are finite and "
                "rise."
            )

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """Coefficients and bounds, as loops take them."""
        return self.spread, self.top, self.narrowest, self.widest

    def logits(
        self,
        z: Any,
        spread: Any,
        out: FloatArray | None = None,
        known: Totals | None = None,
    ) -> Any:
        """Return ``log softmax(z) + e`` (n, K) of logits z and what `log_spreads` says, (n, 1).

        On the host in `out`, where that is given, which may be z. What is `known` of the logits is
        not computed again.
        """
        loop = None if is_tensor(z) or known is not None else loops("terms", z.size)
        if loop is not None and z.flags.c_contiguous and z.dtype == np.float64:
            out = np.empty_like(z) if out is None else out
            loop.evident(z, spread, self.numbers, elementary.cuts(z.shape[1]), out)
            return out
        top, total = totals_of(z) if known is None else known
        lift = self.spread * spread.clip(self.narrowest, self.widest) + self.top * (top - total)
        if out is None:
            return (z - total) + lift
        np.subtract(z, total, out=out)
        return np.add(out, lift, out=out)


def log_spreads(*models: Any) -> Any:
    """Return ``log(sd + 0.001)`` (n, 1) of the log-probabilities of ranked rows of models.

    The mean over the models, added up in their order: one number whoever computes it.

    Examples
    --------
    >>> from conformix.scores.ranked import Ranked
    >>> log_spreads(Ranked(np.array([[0.5, 0.5], [0.9, 0.1]]))).round(2)
    array([[-6.91],
           [ 0.09]])
    """
    return mean_spread([model.log(spreads(model.log_probs) + LEAST_SPREAD) for model in models])


def mean_spread(spreads: Sequence[Any]) -> Any:
    """Return the mean over models of what each says of rows, (n, 1)."""
    first, *others = spreads
    return sum(others, first) / len(spreads)


class Totals(NamedTuple):
    """What rows of logits come to, where these are."""

    tops: Any  # (n, 1) the largest
    sums: Any  # (n, 1) ``log sum exp``

    def rows(self, rows: slice) -> Totals:
        """Return the same of some rows."""
        return Totals(self.tops[rows], self.sums[rows])


def totals_of(z: Any) -> Totals:
    """Return what rows of logits (n, K) come to."""
    if is_tensor(z):
        from conformix.kernels.device.elementary import log_sum_exp  # noqa: PLC0415  for tensors

        return Totals(z.amax(dim=1, keepdim=True), log_sum_exp(z))
    return Totals(z.max(axis=1, keepdims=True), elementary.log_sum_exp(z))


def fit_evidence(
    z: Any,
    y: IntArray,
    spread: FloatArray,
    threads: int | None = 1,
    known: Totals | None = None,
) -> Evidence:
    """Return the evidence of tuning rows, by their labels.

    Parameters
    ----------
    z : array or tensor of shape (n, K)
        Logits of the blend, of every row by matrices that the row had no part in.
    y : integer array of shape (n,)
        True labels.
    spread : float64 array of shape (n, 1)
        What `log_spreads` says of the rows.
    threads : int or None
        For the rows, on the host.
    known : Totals, optional
        What the logits come to; else it is computed.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.scores.ranked import Ranked
    >>> data = cx.datasets.load("cifar10")
    >>> model = Ranked(data.outputs["vgg16"][:500], "logits")
    >>> fit_evidence(model.log_probs, data.labels[:500], log_spreads(model)).top < 0
    True
    """
    odds = Odds(z, y, threads, known)
    numbers = np.concatenate([spread, odds.log_tops], axis=1)
    units = np.maximum(numbers.std(axis=0) + 1e-6, LEAST_UNIT)
    features = np.column_stack([(numbers - numbers.mean(axis=0)) / units, np.ones(len(y))])
    found = _minimum(odds, features)[:2] / units
    if is_tensor(z) and might_round_otherwise(found):
        return fit_evidence(to_host(z), y, spread, threads)
    slope, largest = rounded(found).tolist()
    return Evidence(slope, largest, float(spread.min()), float(spread.max()))


class Odds:
    """``q_k / t`` of all labels of tuning rows, where their logits z (n, K) are.

    Attributes
    ----------
    level : float
        t.
    log_tops : float64 array of shape (n, 1)
        The logarithm of the largest q of every row.
    """

    def __init__(
        self, z: Any, y: IntArray, threads: int | None = 1, known: Totals | None = None
    ) -> None:
        here = not is_tensor(z)
        z = np.ascontiguousarray(z) if here else z  # loops read it more than once
        self._loop = loops("likelihood", z.size) if here else None
        self._threads = threads_for(z.size, threads) if here else 1
        entries = CACHE_ENTRIES if here else DEVICE_ENTRIES
        self._blocks = list(row_blocks(len(z), int(z.shape[1]), entries))
        tops, totals = self._totals(z) if known is None else known
        self.log_tops = tops - totals
        own = of_labels(z, y) - totals[:, 0]
        log_level = float(np.sort(own)[int(LEVEL * (len(own) + 1))])
        self.level = float(np.exp(log_level))
        self._own = np.exp(np.minimum(own - log_level, FARTHEST))
        self._of_labels: Any = np.empty(z.shape) if here else z.new_empty(z.shape)
        loop = loops("terms", z.size) if here else None
        if loop is not None:
            parts = parts_of_rows(len(z), z.shape[1], threads)
            room = self._of_labels, loop.lines_for(parts.threads)
            task = loop.TakingOdds(z, totals, log_level, FARTHEST, *room, parts.step)
            run_parts(loop.odds_into, parts, task)
            return

        def fill(rows: slice) -> None:
            total = to_device(totals[rows], z)
            log_odds = ((z[rows] - total) - log_level).clip(max=FARTHEST)
            self._of_labels[rows] = elementary.exp(log_odds) if here else log_odds.exp_()

        run_blocks(fill, self._blocks, self._threads)

    def _totals(self, z: Any) -> Totals:
        """Return what rows of logits come to, on the host."""
        tops, totals = np.empty((len(z), 1)), np.empty((len(z), 1))

        def look_at(rows: slice) -> None:
            tops[rows], totals[rows] = map(to_host, totals_of(z[rows]))

        run_blocks(look_at, self._blocks, self._threads)
        return Totals(tops, totals)

    def slopes(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first and second derivatives (n,) of every row's loss by ``r = log u``."""
        u = np.exp(r.clip(-FARTHEST, FARTHEST))
        true = 1 / (1 + u * self._own)  # of log(1 + 1 / (u o)), minus its derivative
        first, second = self._sums(u)
        return self.level * first - true, self.level * second + true * (1 - true)

    def _sums(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums (n,) over labels of ``v = u o / (1 + u o)``, and of ``v (1 - v)``."""
        first, second = np.empty(len(u)), np.empty(len(u))
        if self._loop is not None:
            n, n_classes = self._of_labels.shape
            parts = parts_of_rows(n, n_classes, self._threads)
            task = self._loop.SummingOdds(self._of_labels, u, first, second, parts.step)
            run_parts(self._loop.logistic_sums, parts, task)
            return first, second

        def add_up(rows: slice) -> None:
            odds = self._of_labels[rows] * to_device(u[rows], self._of_labels)[:, None]
            values = odds / (1 + odds)
            first[rows], second[rows] = (
                to_host(values.sum(1)),
                to_host((values / (1 + odds)).sum(1)),
            )

        run_blocks(add_up, self._blocks, self._threads)
        return first, second


def _minimum(odds: Odds, features: FloatArray) -> FloatArray:
    """Return the c with the smallest loss at ``r = features c``, by Newton steps.

    Along a step the loss is convex: it is halved until the slope there is no steeper than it was.
    """

    def at(c: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = odds.slopes(features @ c)
        return first @ features + 2 * RIDGE * c, (features.T * second) @ features + 2 * np.diag(
            RIDGE
        )

    c = np.zeros(features.shape[1])
    slope, curvature = at(c)
    for _ in range(STEPS):
        step = np.linalg.solve(curvature, -slope)
        before, length = float(slope @ step), 1.0
        while True:
            there = c + length * step
            found = at(there)
            if abs(float(found[0] @ step)) <= 0.9 * abs(before) or length < 1e-6:
                break
            length /= 2
        c, (slope, curvature) = there, found
        if np.abs(step).max() < 1e-9:
            break
    return c
