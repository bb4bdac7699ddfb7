"""``scores="auto"``, that of 0.1.0, and what is left when a part is taken away.

Scores of rows are computed once for all splits, and what a number of tuning rows teaches once for
all levels. `sets_of` gives the sets that ``ScoreAverage(scores="auto")`` gives with the same tuning
rows (tests/experiments/test_frontier.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, rows_needed, simple_fraction
from conformix.experiments.pool import Pool
from conformix.kernels import elementary
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray
from conformix.scores.blend import (
    DICTIONARY,
    ENOUGH_ROWS,
    LEARNT,
    MOST_EVIDENT_ROWS,
    MOST_NUMBERS,
    can_teach,
    dictionary_columns,
    has_evidence,
    plan_rows,
    prior_of,
    ridge_of,
)
from conformix.scores.evidence import Evidence, fit_evidence, log_spreads, mean_spread
from conformix.scores.learnt import N_PARTS, PatternScore, pattern_sum
from conformix.scores.likelihood import most_likely
from conformix.scores.names import Column
from conformix.scores.ranked import Ranked


@dataclass(frozen=True)
class Blending:
    """A way to blend.

    Parameters
    ----------
    without : tuple of str
        Scores of the dictionary of ``auto`` that are left out.
    old_plan : bool
        Whether as many rows tune as in 0.1.0.
    few : bool
        Whether fewer than sixteen rows teach coefficients, as in 0.1.0.
    share : float, optional
        Of the rows, how many tune before the plan is rounded; by default a third.
    ridge : float
        How many times the ridge of ``auto``.
    apart : bool
        Whether nothing draws the coefficients of different models to each other, as in 0.1.0.
    evidence : bool
        Whether models of many labels have the evidence of their rows.

    Examples
    --------
    >>> AUTO.n_tune(1000, 0.01, n_models=1, n_classes=100)
    401
    >>> BEFORE.n_tune(1000, 0.01, n_models=1, n_classes=100)
    201
    """

    without: tuple[str, ...] = ()
    old_plan: bool = False
    few: bool = False
    share: float | None = None
    ridge: float = 1.0
    apart: bool = False
    evidence: bool = True

    def n_tune(self, n: int, alpha: float, n_models: int, n_classes: int) -> int:
        """Return how many of n labelled rows the blend learns from."""
        if self.old_plan:
            return plan_of_0_1_0(n, alpha, len(DICTIONARY) * n_models, n_classes)
        most = n_models * (len(DICTIONARY) + len(LEARNT) + 1)
        if self.share is not None:
            affordable = max(MOST_NUMBERS // (most * n_classes), 1)
            return _rounded(n, alpha, min(self.share * n, ENOUGH_ROWS, affordable))
        return plan_rows(n, alpha, most, n_classes)


def plan_of_0_1_0(n: int, alpha: float, n_scores: int, n_classes: int) -> int:
    """Return how many of n labelled rows the blend of 0.1.0 learnt from.

    Between a sixth and a third of the rows, ten per score, at most 2,000; then more, until nothing
    of alpha is wasted by rounding (`conformix.scores.blend.plan_rows`).

    Examples
    --------
    >>> [plan_of_0_1_0(n, 0.01, 5, 100) for n in (99, 120, 230, 300, 1000)]
    [0, 21, 131, 101, 201]
    """
    affordable = max(2**25 // (n_scores * n_classes), 1)
    return _rounded(n, alpha, min(max(10 * n_scores, n / 6), n / 3, 2000, affordable))


def _rounded(n: int, alpha: float, wanted: float) -> int:
    """Return how many rows tune where so many are wanted: more, if alpha is wasted otherwise."""
    spare = n - rows_needed(alpha)
    if spare <= 0:
        return 0
    least = min(max(math.ceil(wanted), 1), n - 1, spare)
    most = min(max(3 * n // 5, least), spare)
    whole = math.floor(Fraction(n - least + 1) * simple_fraction(alpha))
    rest = math.ceil(Fraction(whole) / simple_fraction(alpha)) - 1
    return n - rest if whole and n - most <= rest else least


HIGH_FLOOR = "logp(floor=0.1)"
AUTO = Blending()
BEFORE = Blending((*LEARNT, HIGH_FLOOR), old_plan=True, few=True, apart=True, evidence=False)
PARTS = {
    "without evidence": Blending(evidence=False),
    "without likeness": Blending(("likeness",)),
    "without kin": Blending(("kin",)),
    "without likeness and kin": Blending(("likeness", "kin")),
    "without rarity": Blending(("rarity",)),
    "without the high floor": Blending((HIGH_FLOOR,)),
    "without these five": Blending((*LEARNT, HIGH_FLOOR), evidence=False),
    "with models apart": Blending(apart=True),
    "with the tuning rows of 0.1.0": Blending(old_plan=True),
}
# Constants that could have been others; with the parts, what somebody else might have chosen.
OTHERWISE = {
    "a quarter tunes": Blending(share=1 / 4),
    "half tunes": Blending(share=1 / 2),
    "half the ridge": Blending(ridge=0.5),
    "twice the ridge": Blending(ridge=2.0),
    "four times the ridge": Blending(ridge=4.0),
}


@dataclass(frozen=True)
class Rows:
    """What scores that learn see of some rows of a model."""

    probs: FloatArray
    patterns: FloatArray
    spread: FloatArray

    xp: ClassVar[Any] = np
    arithmetic: ClassVar[str] = "exact"
    log: ClassVar[Any] = staticmethod(elementary.log)

    @property
    def n_classes(self) -> int:
        """K."""
        return self.probs.shape[1]

    def take(self, rows: Any) -> Rows:
        """Return some of the rows."""
        return Rows(self.probs[rows], self.patterns[rows], self.spread[rows])


@dataclass
class Blends:
    """The blends of one pool of rows; what they share is kept."""

    pool: Pool
    _taught: dict[bytes, Taught] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """All rows of every model."""
        outputs = self.pool.outputs
        ranked = {m: Ranked(v[:], outputs.kind) for m, v in outputs.models.items()}
        return {
            model: Rows(some.probs, some.patterns, log_spreads(some))
            for model, some in ranked.items()
        }

    def spread(self, rows: IntArray) -> FloatArray:
        """Return what `log_spreads` says of some rows of all models, (m, 1)."""
        return np.asarray(mean_spread([some.spread[rows] for some in self.rows.values()]))

    def taught(self, tune: IntArray) -> Taught:
        """Return what some tuning rows teach; it is kept until `forget`."""
        key = tune.tobytes()
        if key not in self._taught:
            self._taught[key] = Taught(self, tune)
        return self._taught[key]

    def forget(self) -> None:
        """Let go of what the rows of a split have taught."""
        self._taught.clear()

    def n_tune(self, way: Blending, n: int, alpha: float) -> int:
        """Return how many of n labelled rows tune."""
        outputs = self.pool.outputs
        return way.n_tune(n, alpha, len(outputs.models), outputs.n_classes)

    def sets_of(self, way: Blending, labelled: IntArray, test: IntArray, alpha: float) -> BoolArray:
        """Return the sets (m, K) of test rows; the first labelled rows tune, the others calibrate.

        Examples
        --------
        >>> import conformix as cx
        >>> pool = Pool(cx.datasets.load("cifar10"), ["vgg16"])
        >>> sets = Blends(pool).sets_of(AUTO, np.arange(500), np.arange(9000, 9100), 0.05)
        >>> sets.shape
        (100, 10)
        """
        (mask,) = self.all_sets(way, labelled, test, [(len(labelled), alpha)])
        return mask

    def all_sets(
        self, way: Blending, pool: IntArray, test: IntArray, cases: Sequence[tuple[int, float]]
    ) -> Iterator[BoolArray]:
        """Yield the sets of test rows by the first n rows of the pool, for every (n, alpha).

        Cases with the same tuning rows, one after the other, share a fit.
        """
        last = -1
        scores: FloatArray = np.empty((0, 0))
        longest = max(n for n, _ in cases)
        for n, alpha in cases:
            n_tune = self.n_tune(way, n, alpha)
            if n_tune != last:
                taught = self.taught(pool[:n_tune])
                rows = np.concatenate([pool[n_tune:longest], test])
                scores, last = taught.scores(way, rows), n_tune
            rest = pool[n_tune:n]
            own = scores[np.arange(len(rest)), self.pool.labels[rest]]
            yield scores[longest - n_tune :] >= kth_largest(own, conformal_rank(len(rest), alpha))


class Taught:
    """The columns of ``auto`` with what some tuning rows taught them, and these rows' scores."""

    def __init__(self, blends: Blends, tune: IntArray) -> None:
        self._blends, self._tune = blends, tune
        pool = blends.pool
        fixed_only = len(tune) == 0
        listed = list(dictionary_columns(pool.outputs.rows(tune)))
        if fixed_only:
            listed = [column for column in listed if not column.score.learns]
        self.planes = np.empty((len(listed), len(tune), pool.outputs.n_classes))
        fixed = [j for j, column in enumerate(listed) if not column.score.learns]
        tensor = pool.tensor([listed[j] for j in fixed], tune)
        self.planes[fixed] = np.moveaxis(tensor, -1, 0)
        parts = np.arange(len(tune)) % N_PARTS
        seen = {model: rows.take(tune) for model, rows in blends.rows.items()}
        for j, (model, score) in enumerate(listed):
            if score.learns:
                learning: Any = score
                sums = learning.sums(seen[model])
                listed[j] = Column(model, learning.learnt(sums))
                self.planes[j] = learning.left_out(seen[model], sums, parts)
        self.columns = tuple(listed)
        self._coefficients: dict[Blending, tuple[list[Column], FloatArray]] = {}

    def coefficients(self, way: Blending) -> tuple[list[Column], FloatArray]:
        """Return the columns that count, and their coefficients."""
        if way not in self._coefficients:
            self._coefficients[way] = self._most_likely(way)
        return self._coefficients[way]

    def _most_likely(self, way: Blending) -> tuple[list[Column], FloatArray]:
        used = [j for j, c in enumerate(self.columns) if str(c.score) not in way.without]
        columns = [self.columns[j] for j in used]
        prior = prior_of(columns)
        tuning = self._blends.pool.outputs.rows(self._tune)
        if len(self._tune) and (way.few or can_teach(tuning, self.columns)):
            scores = np.moveaxis(self.planes[used], 0, -1)
            labels = self._blends.pool.labels[self._tune]
            ridge = ridge_of(columns, 0.0) if way.apart else ridge_of(columns)
            prior = most_likely(scores, labels, prior, way.ridge * ridge, 1)
        counting = np.flatnonzero(prior)
        return [columns[j] for j in counting], prior[counting]

    def evidence(self, way: Blending) -> Evidence | None:
        """Return the evidence of rows, as the library learns it."""
        pool = self._blends.pool
        n, n_classes = len(self._tune), pool.outputs.n_classes
        if not way.evidence or not has_evidence(len(self._blends.rows), n, n_classes):
            return None
        columns, coefficients = self.coefficients(way)
        some = np.arange(0, n, -(-n // MOST_EVIDENT_ROWS))
        places = {str(column): j for j, column in enumerate(self.columns)}
        z = np.zeros((len(some), n_classes))
        for column, c in zip(columns, coefficients.tolist(), strict=True):
            z += c * self.planes[places[str(column)]][some]
        tuning = self._tune[some]
        return fit_evidence(z, pool.labels[tuning], self._blends.spread(tuning))

    def logits(self, way: Blending, rows: IntArray) -> FloatArray:
        """Return the logits (m, K) of the blend; added up in the order of the library."""
        columns, coefficients = self.coefficients(way)
        pool, of_models = self._blends.pool, self._blends.rows
        total = np.zeros((len(rows), pool.outputs.n_classes))
        products: dict[str, list[tuple[Any, float]]] = {}
        for column, c in zip(columns, coefficients.tolist(), strict=True):
            if isinstance(column.score, PatternScore):
                products.setdefault(column.model, []).append((column.score, c))
            elif column.score.learns:
                total += c * column.score.factors  # type: ignore[attr-defined]
            else:
                total += c * pool.plane(column, rows)
        for model, terms in products.items():
            scores, weights = zip(*terms, strict=True)
            total += pattern_sum(scores, weights)(of_models[model].patterns[rows])
        return total

    def scores(self, way: Blending, rows: IntArray) -> FloatArray:
        """Return what is cut at a threshold: probabilities, or logits with evidence, (m, K)."""
        z, evidence = self.logits(way, rows), self.evidence(way)
        if evidence is None:
            return Ranked(z, "logits").probs
        return np.asarray(evidence.logits(z, self._blends.spread(rows)))
