"""Maximum likelihood for a blend: a conditional logit with few, non-negative coefficients.

Minimises ``sum_i [log sum_y exp(z_iy) - z_i,y_i] + ridge * |c - prior|^2`` over ``c >= 0``, which
is convex, by Newton steps whose quadratic model is minimised under the constraint by non-negative
least squares. Coefficients are rounded, so that the last bits of a product decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from conformix.data.outputs import Outputs
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.scores.blend.dictionary import prior_of, ridge_of
from conformix.scores.blend.model import Blend
from conformix.scores.names import Column
from conformix.scores.tensor import fill_tensor

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
    found = most_likely(scores, y, prior_of(listed), ridge_of(listed))
    return Blend(listed, found, name)


def most_likely(scores: FloatArray, y: IntArray, prior: FloatArray, ridge: float) -> FloatArray:
    """Return the coefficients (p,) that maximise the penalised likelihood of the labels.

    Parameters
    ----------
    scores : array of shape (n, K, p)
        Scores of all labels.
    y : integer array of shape (n,)
        True labels.
    prior : array of shape (p,)
        Where the coefficients are drawn to.
    ridge : float
        How strongly.

    Examples
    --------
    >>> scores = np.array([[[0.0], [-1.0]], [[-1.0], [0.0]], [[0.0], [-1.0]]])
    >>> most_likely(scores, np.array([0, 1, 1]), np.array([0.0]), 0.0)  # log 2
    array([0.693147])
    """
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
            found, shares_there = problem(there)
            if found <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        c, value, shares = there, found, shares_there
    return np.asarray(np.round(c, DIGITS))


class Likelihood:
    """Minus the log-likelihood of the labels, with the pull towards the prior.

    Parameters
    ----------
    scores, y, prior, ridge
        As in `most_likely`.
    """

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
