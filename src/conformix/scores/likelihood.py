"""Coefficients that make labels most likely, under a softmax of scores added up.

``sum_i [log sum_y exp(z_iy) - z_i,y_i] + (c - prior)' R (c - prior)`` is convex in c and minimised
over ``c >= 0``, by Newton steps whose quadratic model is minimised under the constraint by
non-negative least squares. Coefficients are rounded, so that the last bits of a product decide
nothing.
"""

from __future__ import annotations

from copy import copy
from importlib import import_module
from typing import Any

import numpy as np

from conformix.kernels import available_threads, run_blocks
from conformix.kernels.arrays import FloatArray, IntArray, is_tensor, of_labels, to_host
from conformix.kernels.blocks import DEVICE_ENTRIES, Parts, rooms, run_parts, shares
from conformix.kernels.twins import compile_for, loops

STEPS = 40
DIGITS = 6
# Of a last digit: sums in another order move a coefficient by less.
UNSURE = 0.01
# Scores that one thread works on at once at least, the most blocks of rows that they make, and from
# how many scores on it does so in a compiled loop.
LIKELIHOOD_ENTRIES = 2**18
MOST_BLOCKS = 32
COMPILED_NUMBERS = 2**20
# Scores of a part of such a loop, and the most parts; those that are worth a thread.
PART_NUMBERS, MOST_PARTS, THREAD_NUMBERS = 2**14, 64, 2**15
# The first steps are made with one of so many rows, where that leaves so many.
FIRST_ROWS, FEWEST_FIRST = 8, 64
# A slope of the mean over rows that is none: sums in another order differ by less.
LEVEL = 1e-11
# Second derivatives serve once more after a step of which no coefficient moves by so much, if what
# they leave is less than this: a ten-thousandth of the last digit.
SHORT, LEFT = 5e-4, 1e-10
NO_COLUMNS = np.empty(0, dtype=np.intp)


def most_likely(
    scores: Any,
    y: IntArray,
    prior: FloatArray,
    ridge: float | FloatArray,
    threads: int | None = None,
) -> FloatArray:
    """Return the coefficients (p,) that maximise the penalised likelihood of the labels.

    The ridge is R, or the number that all of its diagonal is, with nothing beside it.

    Rounded, so that the order of sums does not matter. Where it might, since a coefficient of
    scores (n, K, p) on a device is next to where rounding turns, those of the host count.
    """
    found = _minimum(Likelihood(scores, y, np.asarray(prior, dtype=np.float64), ridge, threads))
    if is_tensor(scores) and might_round_otherwise(found):
        return most_likely(_planes_on_host(scores), y, prior, ridge, threads)
    return rounded(found)


def rounded(numbers: FloatArray) -> FloatArray:
    """Return coefficients with as many digits as a fit keeps."""
    return np.asarray(np.round(numbers, DIGITS)) + 0.0  # no number is minus zero


def might_round_otherwise(numbers: FloatArray) -> bool:
    """Whether a coefficient is so near to a turn of rounding that a last bit may decide it."""
    units = numbers * 10.0**DIGITS
    return bool((np.abs(units - np.floor(units) - 0.5) < UNSURE).any())


def _planes_on_host(scores: Any) -> FloatArray:
    return np.moveaxis(to_host(scores.movedim(-1, 0)), 0, -1)


def _minimum(problem: Likelihood) -> FloatArray:
    """Return where the problem is smallest, by Newton steps, to about 1e-9.

    The first steps lead from the prior to where the coefficients are about, which every eighth row
    tells as well as all of them; how the slope bends there, too.
    """
    c, curvature = problem.prior.copy(), None
    if problem.n >= FIRST_ROWS * FEWEST_FIRST:
        # Half a unit of log-likelihood is what chance adds to a coefficient; a quarter is near.
        c, curvature = _newton(problem.of_every(FIRST_ROWS), c, 0.25)
        curvature *= FIRST_ROWS
    return _newton(problem, c, 1e-12 * problem.n, curvature)[0]


def _newton(
    problem: Likelihood, c: FloatArray, enough: float, curvature: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return where Newton steps from c lead until one gains no more than `enough`.

    And the second derivatives of the last step. Given ones serve for the first step, and those of a
    short step for the next one, too.
    """
    known = np.ones(len(c), dtype=bool)  # whose second derivatives are known
    own, last = curvature is None, np.inf  # whether they are those at c; how long the last step was
    value, gradient, second = problem(c, None if own else NO_COLUMNS)
    curvature = second if curvature is None else curvature
    for _ in range(STEPS):
        free = (c > 0) | (gradient < -LEVEL * problem.n)  # not held at zero
        if problem.by_columns and (free & ~known).any():
            value, gradient, curvature = problem(c, np.flatnonzero(free))
            known, own = free, True
        step = np.zeros(len(c))
        step[free] = bounded_step(gradient[free], curvature[free][:, free], c[free])
        gain, longest = -float(gradient @ step), float(np.abs(step).max())
        if gain <= enough:
            # So near, a whole step squares the distance. By second derivatives from where the last
            # step began it leaves as much as the square of this step over that one.
            if own or longest**2 <= LEFT * last:
                return np.maximum(c + step, 0.0), curvature
            value, gradient, curvature = problem(c, np.flatnonzero(free))
            known, own = free if problem.by_columns else known, True
            continue
        sure, own = own, not (own and longest < SHORT)
        length = 1.0  # halved until the value falls enough
        while True:
            there = np.maximum(c + length * step, 0.0)
            # What a step by second derivatives from here leaves at zero is held there, as a rule.
            asked = (there > 0 if sure else free) & own
            found = problem(there, np.flatnonzero(asked))
            if found[0] <= value - 1e-4 * length * gain or length < 1e-6:
                break
            length /= 2
        c, (value, gradient, second), last = there, found, length * longest
        if own:
            curvature, known = second, asked if problem.by_columns else known
    return c, curvature


class Likelihood:
    """Minus the log-likelihood of the labels, with the pull towards the prior."""

    def __init__(
        self,
        scores: Any,
        y: IntArray,
        prior: FloatArray,
        ridge: float | FloatArray,
        threads: int | None = None,
    ) -> None:
        self.n, self.prior = len(y), prior
        self.ridge = ridge * np.eye(len(prior)) if np.ndim(ridge) == 0 else np.asarray(ridge)
        # A trace of ridge keeps scores that are constant within rows from dividing by zero.
        self._trace = 1e-9 * np.eye(len(prior))
        self.by_columns = False  # whether second derivatives of some columns are had sooner
        self._of_rows, self._every = of_labels(scores, y), 1
        self.of_labels = self._of_rows.sum(axis=0)
        self._on_device: Any = None
        self._loop: Any = None
        self._room: Any = None  # in which the loop adds up
        self.planes: Any  # (p, n, K)
        if is_tensor(scores):
            self.planes, self._threads, self._entries = scores.movedim(-1, 0), 1, DEVICE_ENTRIES
            self._on_device = import_module("conformix.kernels.device.likelihood").likelihood
            return
        self.planes = np.moveaxis(scores, -1, 0)
        self._threads, self._entries = available_threads(threads), LIKELIHOOD_ENTRIES
        compile_for(self.planes.size)
        # Of few numbers the likelihood is had before the loop is compiled.
        many = self.planes.size >= COMPILED_NUMBERS and self.planes.flags.c_contiguous
        if many:
            self._loop = loops("likelihood", self.planes.size)
        self.by_columns = self._loop is not None

    def of_every(self, distance: int) -> Likelihood:
        """Return the likelihood of some rows, one of so many, with as weak a pull."""
        some = copy(self)
        some._every, some.by_columns, some._room = distance, False, None
        some.n, some.ridge = len(self._of_rows[::distance]), self.ridge / distance
        some.of_labels = self._of_rows[::distance].sum(axis=0)
        return some

    def __call__(
        self, c: FloatArray, columns: IntArray | None = None
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the value at c, the gradient (p,) and the second derivatives (p, p).

        Of the latter those of all columns or, where they are had sooner, of some; others hold
        nothing of use. Blocks of rows are added up in their order, whatever the number of threads.
        """
        p, _, n_classes = self.planes.shape
        value, first, second = 0.0, np.zeros(p), np.zeros((p, p))
        columns = columns if self.by_columns and columns is not None else np.arange(p)
        if self._loop is not None:
            value, first, second = self._added_up(c, columns)
        else:
            n_blocks = min(-(-self.n * n_classes * p // self._entries), MOST_BLOCKS)
            blocks = [
                slice(rows.start * self._every, rows.stop * self._every, self._every)
                for rows in shares(self.n, max(n_blocks, 1))
            ]
            for part in run_blocks(lambda rows: self._of_block(rows, c), blocks, self._threads):
                value += part[0]
                first += part[1]
                second += part[2]
        second += 2 * self.ridge + self._trace
        away = c - self.prior
        pull = self.ridge @ away
        value += float(away @ pull) - float(self.of_labels @ c)
        return value, first - self.of_labels + 2 * pull, second

    def _added_up(self, c: FloatArray, columns: IntArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the sums over rows, by the compiled loop."""
        p, _, n_classes = self.planes.shape
        if self._room is None:
            self._room = self._room_for_parts()
        parts, (value, first, second), room = self._room
        sums, planes = (value, first, second), self.planes.reshape(p, -1)
        task = self._loop.Rows(planes, n_classes, self._every, c, columns, *sums, *room, parts.step)
        run_parts(self._loop.likelihood, parts, task)
        lower = np.add.reduce(second[:, :p])
        both = lower + lower.T  # the triangle that is not added up is zero
        both.flat[:: p + 1] = lower.flat[:: p + 1]
        return float(np.add.reduce(value)), np.add.reduce(first[:, :p]), both

    def _room_for_parts(self) -> tuple[Parts, tuple[FloatArray, ...], Any]:
        """Return the parts of the loop, where their sums go, and room for those who add them up."""
        p, _, n_classes = self.planes.shape
        step = -(-self.n // min(-(-self.n * n_classes * p // PART_NUMBERS), MOST_PARTS))
        # Threads that find little to do keep the others waiting.
        several = max(1, min(self._threads, self.n * n_classes * p // THREAD_NUMBERS))
        parts = Parts(-(-self.n // step), step, several)
        sums = np.empty(parts.n), rooms(parts.n, p), rooms(parts.n, p, p)
        return parts, sums, self._loop.room_for(several, p, n_classes, self._every)

    def _of_block(self, rows: slice, c: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        if self._on_device is not None:
            return self._on_device(self.planes[:, rows], c)  # type: ignore[no-any-return]
        block = np.ascontiguousarray(self.planes[:, rows])
        z = np.tensordot(c, block, 1)
        top = z.max(axis=1, keepdims=True)
        shares = np.exp(z - top)
        sums = shares.sum(axis=1, keepdims=True)
        value = float((top + np.log(sums)).sum())
        shares /= sums
        weighted = block * shares
        means = weighted.sum(axis=2)  # (p, rows)
        p = len(block)
        second = weighted.reshape(p, -1) @ block.reshape(p, -1).T - means @ means.T
        return value, means.sum(axis=1), second


def bounded_step(gradient: FloatArray, curvature: FloatArray, c: FloatArray) -> FloatArray:
    """Return the step d that minimises ``g d + d H d / 2`` with ``c + d >= 0``.

    Where the minimum without the bound keeps it, that is the one. Else, with ``H = L L'`` and
    ``u = c + d``, it is non-negative least squares of ``L' u`` against the solution b of ``L b =
    H c - g``.
    """
    slope = curvature @ c - gradient
    without: FloatArray = np.linalg.solve(curvature, slope)
    if (without >= 0).all():
        return without - c
    from scipy.optimize import nnls  # noqa: PLC0415  scipy loads late

    lower = np.linalg.cholesky(curvature)
    goal = np.linalg.solve(lower, slope)
    reached: FloatArray = nnls(lower.T, goal)[0]
    return reached - c
