"""One expert made of many scores, with coefficients that make the true labels most likely.

``z_y = c_1 s_1(x, y) + ... + c_p s_p(x, y)``, and the blend's probabilities are the softmax of z
over the labels of the row. The coefficients are not negative and maximise the likelihood of the
tuning labels, shrunk towards the plain mean of the models' log-probabilities. A set size at
alpha = .01 rests on the few rows at the threshold; a likelihood is a mean over all rows, and finds
good coefficients from a hundred of them. ``scores="auto"`` is this; see docs/frontier.md.

Learning minimises ``sum_i [log sum_y exp(z_iy) - z_i,y_i] + ridge * |c - prior|^2`` over
``c >= 0``, which is convex, by Newton steps whose quadratic model is minimised under the constraint
by non-negative least squares. Coefficients are rounded, so that the last bits of a product decide
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from conformix.conformal import rows_needed, simple_fraction
from conformix.data.outputs import Outputs
from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores.names import Column, parse_score, score_columns
from conformix.scores.ranked import Ranked
from conformix.scores.tensor import fill_tensor

__all__ = ["DICTIONARY", "Blend", "fit_blend", "plan_rows"]


@dataclass(frozen=True, eq=False)
class Blend:
    """Scores added up with coefficients, then made probabilities by a softmax over the labels.

    Parameters
    ----------
    columns : tuple of Column
        Which scores of which models.
    coefficients : float64 array of shape (p,)
        One number per column, none negative.
    name : str
        What the blend is called beside the models.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.data.outputs import check_outputs
    >>> columns = cx.scores.score_columns(("",), ("logp",))
    >>> half = Blend(columns, np.array([0.5]))  # a temperature of 2
    >>> half.over(check_outputs([[0.9, 0.1]])).models["blend"][0:1]
    array([[0.75, 0.25]])
    """

    columns: tuple[Column, ...]
    coefficients: FloatArray
    name: str = "blend"

    def __post_init__(self) -> None:
        numbers = np.asarray(self.coefficients)
        proper = numbers.shape == (len(self.columns),) and bool(np.isfinite(numbers).all())
        if not proper or (numbers < 0).any():
            raise InvalidInput(
                f"a blend of {len(self.columns)} scores needs as many coefficients, finite and "
                "not negative."
            )

    def over(self, outputs: Outputs) -> Outputs:
        """Return the blend of some outputs in their place, computed when rows are asked for."""
        return replace(outputs, models={self.name: Blended(self, outputs)})  # type: ignore[dict-item]

    def logits(self, outputs: Outputs) -> FloatArray:
        """Return ``z`` of all labels of some rows, shape (n, K)."""
        ranked = {model: Ranked(values, outputs.kind) for model, values in outputs.models.items()}
        total = np.zeros((outputs.n, outputs.n_classes))
        for column, coefficient in zip(self.columns, self.coefficients, strict=True):
            if coefficient:
                total += coefficient * column.score(ranked[column.model])
        return total

    def without(self, dropped: Sequence[Column]) -> Blend:
        """Return the blend with the coefficients of some columns at zero."""
        stays = [c not in dropped for c in self.columns]
        return replace(self, coefficients=np.where(stays, self.coefficients, 0.0))


@dataclass(frozen=True, eq=False)
class Blended:
    """Stands in for the (n, K) outputs of the blend; rows are computed when asked for."""

    blend: Blend
    outputs: Outputs

    ndim = 2
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        return self.outputs.n, self.outputs.n_classes

    def __len__(self) -> int:
        return self.outputs.n

    def __getitem__(self, rows: slice) -> FloatArray:
        """Return rows of the blend: logits or probabilities, whichever the outputs are."""
        logits = self.blend.logits(self.outputs.rows(rows).to_host())
        if self.outputs.kind == "logits":
            return logits
        return Ranked(logits, "logits").probs


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
    """Return the columns of the dictionary for some models."""
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
        if n - most <= rest:  # and never more than n - least
            return n - rest
    return least


STEPS = 40
DIGITS = 6


def fit_blend(
    outputs: Outputs,
    y: IntArray,
    columns: Sequence[Column],
    *,
    name: str = "blend",
    threads: int | None = None,
) -> Blend:
    """Return the blend of some scores that makes the labels most likely.

    Parameters
    ----------
    outputs : Outputs
        Checked outputs of the tuning rows.
    y : integer array of shape (n,)
        Their labels.
    columns : sequence of Column
        What is blended.
    name : str
        What to call the blend.
    threads : int or None
        Threads for the scores.

    Examples
    --------
    >>> import conformix as cx
    >>> from conformix.data.outputs import check_outputs
    >>> data = cx.datasets.load("cifar10")
    >>> outputs = check_outputs({"vgg16": data.outputs["vgg16"][:500]}, "logits")
    >>> columns = cx.scores.score_columns(("vgg16",), ("logp", "rank"))
    >>> blend = fit_blend(outputs, data.labels[:500], columns)
    >>> bool(blend.coefficients[0] < 1)  # the network is over-confident
    True
    """
    listed = tuple(columns)
    scores = fill_tensor(outputs, listed, threads=threads)
    coefficients = most_likely(scores, y, prior_of(listed), ridge_of(listed))
    return Blend(listed, coefficients, name)


def most_likely(scores: FloatArray, y: IntArray, prior: FloatArray, ridge: float) -> FloatArray:
    """Return the coefficients (p,) that maximise the penalised likelihood of the labels."""
    problem = Likelihood(scores, y, np.asarray(prior, dtype=np.float64), ridge)
    c = problem.prior.copy()
    value, shares = problem(c)
    for _ in range(STEPS):
        gradient, curvature = problem.derivatives(c, shares)
        step = bounded_step(gradient, curvature, c)
        gain = -float(gradient @ step)
        if gain <= 1e-12 * len(y):
            break
        length = 1.0  # halved until the value falls enough
        while True:
            there = np.maximum(c + length * step, 0.0)
            value_there, shares_there = problem(there)
            if value_there <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        c, value, shares = there, value_there, shares_there
    return np.asarray(np.round(c, DIGITS))


class Likelihood:
    """Minus the log-likelihood of the labels, with the pull towards the prior."""

    def __init__(self, scores: FloatArray, y: IntArray, prior: FloatArray, ridge: float) -> None:
        self.x = np.ascontiguousarray(scores)  # (n, K, p): one matrix product gives all z
        self.of_labels = self.x[np.arange(len(y)), y].sum(axis=0)
        self.prior = prior
        self.ridge = ridge

    def __call__(self, c: FloatArray) -> tuple[float, FloatArray]:
        """Return the value at c, and the probabilities (n, K)."""
        z = self.x @ c
        top = z.max(axis=1, keepdims=True)
        powers = np.exp(z - top)
        sums = powers.sum(axis=1, keepdims=True)
        value = float((top + np.log(sums)).sum() - self.of_labels @ c)
        return value + self.ridge * float(((c - self.prior) ** 2).sum()), powers / sums

    def derivatives(self, c: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the gradient (p,) and the matrix of second derivatives (p, p)."""
        p = len(c)
        means = np.matmul(shares[:, None, :], self.x)[:, 0, :]
        rooted = (self.x * np.sqrt(shares)[..., None]).reshape(-1, p)
        curvature = rooted.T @ rooted - means.T @ means
        # A trace of ridge keeps scores that are constant within rows from dividing by zero.
        curvature[np.diag_indices(p)] += 2 * self.ridge + 1e-9
        pull = 2 * self.ridge * (c - self.prior)
        return means.sum(axis=0) - self.of_labels + pull, curvature


def bounded_step(gradient: FloatArray, curvature: FloatArray, c: FloatArray) -> FloatArray:
    """Return the step d that minimises ``g d + d H d / 2`` with ``c + d >= 0``.

    With ``H = L L'`` and ``u = c + d`` that is non-negative least squares of ``L' u`` against the
    solution b of ``L b = H c - g``.
    """
    from scipy.linalg import solve_triangular  # noqa: PLC0415  scipy loads late
    from scipy.optimize import nnls  # noqa: PLC0415

    lower = np.linalg.cholesky(curvature)
    goal = solve_triangular(lower, curvature @ c - gradient, lower=True)
    reached: FloatArray = nnls(lower.T, goal)[0]
    return reached - c
