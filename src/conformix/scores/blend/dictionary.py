"""What ``scores="auto"`` blends, how strongly it is shrunk, and how many rows it learns from.

Chosen by study on the bundled data sets (docs/frontier.md), not by taste.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from conformix.conformal import rows_needed, simple_fraction
from conformix.kernels.arrays import FloatArray
from conformix.scores.names import Column, parse_score, score_columns

DICTIONARY = ("logp(floor=0.01)", "logp", "logrank", "rank", "thr")
"""The scores of every model: its log-probability with and without a floor, two readings of the
order of its labels, and the probability itself."""

# The scores whose mean over the models, with nothing learnt, is the blend: a logit ensemble.
ANCHOR = parse_score("logp(floor=0.01)")
# Rows of which a blend learns enough, per coefficient and altogether.
ROWS_PER_SCORE = 10
ENOUGH_ROWS = 2000
# Numbers held at once while the coefficients are fitted (256 MiB).
MOST_NUMBERS = 2**25
# Temperatures of the blend among which split "exact" selects.
LADDER = (0.7, 1.0, 1.4)


def dictionary_columns(models: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of the dictionary for some models.

    Examples
    --------
    >>> len(dictionary_columns(("a", "b")))
    10
    """
    return score_columns(models, DICTIONARY)


def prior_of(columns: Sequence[Column]) -> FloatArray:
    """Return where coefficients are drawn to: the mean of the models' log-probabilities, (p,)."""
    n_models = len({column.model for column in columns})
    if all(column.score != ANCHOR for column in columns):
        return np.zeros(len(columns))
    return np.array([float(column.score == ANCHOR) / n_models for column in columns])


def ridge_of(columns: Sequence[Column]) -> float:
    """Return the weight of the squared distance: half the number of models.

    With m models a coefficient is about 1/m, and a spread of ``1 / sqrt(m)`` around the prior lets
    it go to zero or to one.
    """
    return len({column.model for column in columns}) / 2


def plan_rows(
    n: int, alpha: float, n_scores: int, n_classes: int, *, reserved: int | None = None
) -> int:
    """Return how many of n labelled rows the blend learns from; the others calibrate.

    Between a sixth and a third of the rows, more where there are more coefficients, at most what
    a likelihood needs. From there up to three fifths of the rows, until the number that calibrates
    makes ``(rows + 1) * alpha`` a whole number: any other wastes part of alpha by rounding. In any
    case so many rows calibrate that the threshold is finite: where n is no more than these, none is
    left to learn from, and the blend is its prior.

    Parameters
    ----------
    n : int
        Labelled rows.
    alpha : float
        Allowed miscoverage.
    n_scores : int
        Number of coefficients.
    n_classes : int
        K.
    reserved : int, optional
        Rows that a finite threshold takes; by default ``ceil(1/alpha) - 1``.

    Examples
    --------
    >>> plan_rows(1000, 0.01, n_scores=5, n_classes=100)  # 799 calibrate, 800 * .01 = 8
    201
    >>> plan_rows(300, 0.01, n_scores=5, n_classes=100)
    101
    >>> plan_rows(230, 0.01, n_scores=5, n_classes=100)  # 99 waste nothing, 180 would 45 % of alpha
    131
    >>> plan_rows(120, 0.01, n_scores=5, n_classes=100)  # 99 calibrate: no fewer would do
    21
    >>> plan_rows(99, 0.01, n_scores=5, n_classes=100)
    0
    """
    level = simple_fraction(alpha)
    spare = n - (rows_needed(alpha) if reserved is None else reserved)
    if spare <= 0:
        return 0
    affordable = max(MOST_NUMBERS // (n_scores * n_classes), 1)
    wanted = min(max(ROWS_PER_SCORE * n_scores, n / 6), n / 3, ENOUGH_ROWS, affordable)
    least = min(max(math.ceil(wanted), 1), n - 1, spare)
    most = min(max(3 * n // 5, least), spare)
    whole = math.floor(Fraction(n - least + 1) * level)  # alpha times calibration rows plus one
    if whole:
        rest = math.ceil(Fraction(whole) / level) - 1
        if n - most <= rest <= n - least:
            return n - rest
    return least
