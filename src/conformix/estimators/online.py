"""Prediction sets on a stream, with a coverage that holds for every sequence of rows.

`OnlineAverage` issues a set for one row at a time and sees the label afterwards. A controller says
which level to ask for next, so that the errors come out right in the long run: after each set it is
told whether the set **that was issued** missed the truth, and moves the level down after an error,
up otherwise. A level outside (0, 1) means the full or the empty set. Nothing is assumed about the
data: the bounds hold for every sequence, drifting or adversarial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.data.checks import on_host
from conformix.data.outputs import Form, check_labels, check_outputs
from conformix.errors import InvalidInput, NotFitted
from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_most
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, as_generator, host_array
from conformix.kernels.simplex import preference, simplex_grid
from conformix.registry import Registry
from conformix.scores import score_columns
from conformix.scores.scale import Transform, resolve_normalizer
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.sets import PredictionSets


class Controller(Protocol):
    """What the online predictor asks of a controller."""

    @property
    def level(self) -> float:
        """The level to ask for next; it may lie outside (0, 1)."""

    def start(self, alpha: float) -> Controller:
        """Return a fresh controller with the target `alpha`."""

    def update(self, error: bool) -> None:
        """Learn whether the issued set missed the truth."""

    def bound(self, steps: int) -> float:
        """Return a number that ``|errors / steps - alpha|`` cannot exceed."""


@dataclass
class ACI:
    """Adaptive conformal inference (Gibbs & Candes, 2021).

    ``alpha_{t+1} = alpha_t + gamma_t (alpha - err_t)`` with ``gamma_t = gamma t^-decay``. With a
    constant step, ``|mean error - alpha| <= (max(a_1, 1 - a_1) + gamma) / (gamma T)`` for every
    sequence; with a falling one (Angelopoulos et al., 2024) it is ``(1 + 2 gamma)/(gamma_T T)``, by
    summation by parts and levels that stay in ``[-gamma, 1 + gamma]``.

    Parameters
    ----------
    gamma : float
        The step: large adapts fast, small is steady.
    decay : float
        0 for a constant step; between 0 and 1 the level settles on quiet streams.

    Examples
    --------
    >>> control = ACI(gamma=0.1).start(0.2)
    >>> control.update(error=True)
    >>> round(control.level, 3)
    0.12
    >>> round(control.bound(100), 3)
    0.09
    """

    gamma: float = 0.02
    decay: float = 0.0
    alpha: float = field(default=0.1, init=False)
    level: float = field(default=0.1, init=False)
    _steps: int = field(default=0, init=False, repr=False)

    def start(self, alpha: float) -> ACI:
        """Return a fresh controller with the target `alpha`, which is also the first level."""
        if not self.gamma > 0 or not 0 <= self.decay < 1:
            raise InvalidInput(
                "gamma must be positive and decay in [0, 1); got "
                f"gamma={self.gamma!r}, decay={self.decay!r}."
            )
        fresh = ACI(self.gamma, self.decay)
        fresh.alpha = fresh.level = float(simple_fraction(alpha))
        return fresh

    def step(self, t: int) -> float:
        """Return the step after the t-th set, t = 1, 2, ..."""
        return self.gamma * t**-self.decay

    def update(self, error: bool) -> None:
        """Move the level by one step."""
        self._steps += 1
        self.level += self.step(self._steps) * (self.alpha - error)

    def bound(self, steps: int) -> float:
        """Return the deterministic bound after so many steps."""
        room = max(self.alpha, 1 - self.alpha) + self.gamma
        return (room if self.decay == 0 else 1 + 2 * self.gamma) / (self.step(steps) * steps)


@dataclass
class Betting:
    """A level without a step to choose: coin betting by Krichevsky and Trofimov.

    The excess ``g_t = alpha - err_t`` is a coin in [-1, 1]. A bettor of wealth 1 stakes the signed
    share ``(g_1 + ... + g_{t-1}) / t`` of the wealth, and the level is ``alpha`` plus the stake
    (Orabona & Pal, 2016; for conformal sets: Podkopaev et al., 2024). Wealth grows only while the
    level lies in [0, 1], so it stays below ``1 + T``; a bettor with a large sum of coins would be
    richer, hence ``|mean error - alpha| <= sqrt(2 log((1 + T) e sqrt(pi T)) / T)``, always.

    Examples
    --------
    >>> control = Betting().start(0.2)
    >>> control.update(error=True)
    >>> round(control.level, 3)
    -0.2
    >>> round(control.bound(10_000), 3)
    0.055
    """

    alpha: float = field(default=0.1, init=False)
    level: float = field(default=0.1, init=False)
    _wealth: float = field(default=1.0, init=False, repr=False)
    _sum: float = field(default=0.0, init=False, repr=False)
    _steps: int = field(default=0, init=False, repr=False)

    def start(self, alpha: float) -> Betting:
        """Return a fresh controller with the target `alpha`, which is also the first level."""
        fresh = Betting()
        fresh.alpha = fresh.level = float(simple_fraction(alpha))
        return fresh

    def update(self, error: bool) -> None:
        """Pay out the last stake and place the next."""
        coin = self.alpha - error
        self._wealth += coin * (self.level - self.alpha)
        self._sum += coin
        self._steps += 1
        self.level = self.alpha + self._wealth * self._sum / (self._steps + 1)

    def bound(self, steps: int) -> float:
        """Return ``sqrt(2 log((1 + T) e sqrt(pi T)) / T)``."""
        wealth = (1 + steps) * math.e * math.sqrt(math.pi * steps)
        return math.sqrt(2 * math.log(wealth) / steps)


CONTROLLERS: Registry[Controller] = Registry("control", {"aci": ACI(), "betting": Betting()})


def resolve_control(control: Any) -> Controller:
    """Return a controller for its name, or the controller itself.

    Examples
    --------
    >>> resolve_control("betting").level
    0.1
    """
    return CONTROLLERS.resolve(control, needs="update")


RULES = ("leader", "hedge")


class AdaptiveWeights:
    """Weights over a candidate set, chosen by the sizes of the last steps.

    Every candidate is charged the size of the set that it would have issued. Charges are forgotten
    outside a sliding window, so that the weights follow a drift. The choice for step t uses steps
    before t only, so that it never touches the coverage of step t.

    Parameters
    ----------
    candidates : array of shape (M, d)
        Weight vectors.
    window : int
        How many steps are remembered.
    rule : {"leader", "hedge"}
        ``leader``: the candidate with the smallest total size, ties by the order of the grid.
        ``hedge``: the mean of the candidates under exponential weights,
        ``exp(-eta (L_j - min L))`` with ``eta = sqrt(8 log(M) / T) / K``, T the steps remembered.

    Examples
    --------
    >>> weights = AdaptiveWeights(np.array([[1.0, 0.0], [0.0, 1.0]]), window=5)
    >>> weights.charge(np.array([3, 1]), n_classes=10)
    >>> weights.candidates[0], weights.current
    (array([0., 1.]), array([1., 0.]))
    """

    def __init__(self, candidates: FloatArray, window: int, rule: str = "leader") -> None:
        if rule not in RULES:
            raise InvalidInput(f"adapt must be one of {', '.join(RULES)} or None; got {rule!r}.")
        self.candidates = candidates[preference(candidates)]
        self.window, self.rule = window, rule
        self._sizes = np.zeros((window, len(candidates)), dtype=np.int64)
        self._totals = np.zeros(len(candidates), dtype=np.int64)
        self._seen = 0
        self.current: FloatArray = self.candidates[0]

    def charge(self, sizes: Any, n_classes: int) -> None:
        """Add the sizes (M,) that the candidates would have issued, and choose again."""
        place = self._seen % self.window
        self._totals += sizes - self._sizes[place]
        self._sizes[place] = sizes
        self._seen += 1
        if self.rule == "leader":
            self.current = self.candidates[int(np.argmin(self._totals))]
            return
        remembered = min(self._seen, self.window)
        eta = np.sqrt(8 * np.log(max(len(self._totals), 2)) / remembered) / n_classes
        chances = np.exp(-eta * (self._totals - self._totals.min()))
        self.current = (chances / chances.sum()) @ self.candidates


def candidate_grid(candidates: Any, d: int) -> FloatArray:
    """Return candidate weights (M, d): a grid of that resolution, or the given ones."""
    if isinstance(candidates, int | np.integer) and not isinstance(candidates, bool):
        return simplex_grid(d, int(candidates)) / candidates
    from conformix.search.grid import check_candidates  # noqa: PLC0415  one use

    return check_candidates(candidates, d)


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened on a stream of T rows.

    Parameters
    ----------
    sets : PredictionSets
        The issued sets.
    errors : boolean array of shape (T,)
        Whether each missed the truth.
    levels : float64 array of shape (T,)
        The level asked for at each step.
    weights : float64 array of shape (T, d)
        The weights in use at each step.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False]]))
    >>> Trace(sets, np.array([False]), np.array([0.1]), np.array([[1.0]])).coverage
    1.0
    """

    sets: PredictionSets
    errors: BoolArray
    levels: FloatArray
    weights: FloatArray

    @property
    def coverage(self) -> float:
        """Share of the rows whose set held the truth."""
        return float(1 - self.errors.mean())


class OnlineAverage:
    """Averaged scores on a stream: the level adapts to errors, the weights to sizes.

    At step t the set holds the labels whose combined score is at least the threshold at level
    ``alpha_t`` among the last `window` labelled rows. ``alpha_t`` comes from `control` and is moved
    by the error of the set that was issued, so the long-run coverage holds for every stream. The
    weights come from `adapt`, by the sizes that the candidates would have had.

    Parameters
    ----------
    scores : names or objects
        What is averaged, as in `conformix.ScoreAverage`.
    alpha : float
        The share of errors that is aimed at.
    control : {"aci", "betting"} or a controller
        How the level moves; ``betting`` has no step to choose.
    window : int
        How many of the last labelled rows calibrate, and how many steps the weights remember.
    candidates : int or array of shape (M, d)
        Resolution of the grid of candidate weights, or the candidates.
    adapt : {"leader", "hedge"} or None
        How the weights follow the sizes; None keeps the first candidate (uniform on a grid).
    normalize : {"none", "scale"} or widths
        On which scale scores are averaged; nothing is learnt from a stream.
    kind : {"probs", "logits"}
        What the outputs are.
    random_state : int, Generator or None
        Key of randomised scores.

    Attributes
    ----------
    level_ : float
        The level of the next set.
    weights_ : float64 array of shape (d,)
        The weights of the next set.
    guarantee_ : Guarantee
        The bound after the steps so far.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> online = OnlineAverage(alpha=0.1, kind="logits", window=200)
    >>> trace = online.run(data.outputs["vgg16"][:1000], data.labels[:1000])
    >>> abs(1 - trace.coverage - 0.1) <= online.control_.bound(1000)
    True
    """

    def __init__(
        self,
        scores: Any = ("thr", "aps", "rank"),
        *,
        alpha: float = 0.1,
        control: Any = "aci",
        window: int = 500,
        candidates: Any = 10,
        adapt: str | None = "leader",
        normalize: Any = "scale",
        kind: Form = "probs",
        random_state: Any = None,
    ) -> None:
        simple_fraction(alpha)
        if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < 1:
            raise InvalidInput(f"window must be a positive number of rows; got {window!r}.")
        self.scores, self.alpha, self.window = scores, alpha, int(window)
        self.candidates, self.adapt, self.normalize, self.kind = candidates, adapt, normalize, kind
        self.control_: Controller = resolve_control(control).start(alpha)
        self._key = draw_key(as_generator(random_state))
        self._columns: Any = None
        self._pending: tuple[FloatArray, BoolArray] | None = None
        self._steps = self._errors = self._filled = 0

    def predict_set(self, outputs: Any) -> PredictionSets:
        """Return the set of the next row, shape (1, K); then call `update` with its label.

        Parameters
        ----------
        outputs : array of shape (K,) or (1, K), or a mapping of such
            Outputs of the models on one row.
        """
        if self._pending is not None:
            raise InvalidInput("the last set has no label yet; call update(y) first.")
        scores = self._row_scores(outputs)
        row = self._transform(scores)[0]
        self._pending = row, self._member(row)
        return PredictionSets(self._pending[1][None, :])

    def update(self, y: Any) -> bool:
        """Take the label of the last row, and return whether its set missed it."""
        if self._pending is None:
            raise NotFitted("there is no set to judge; call predict_set(outputs) first.")
        row, issued = self._pending
        label = int(check_labels(np.atleast_1d(host_array(y, "y")), 1, len(row))[0])
        self._pending = None
        error = not issued[label]
        if self._weights is not None:
            self._charge(self._weights, row)
        self.control_.update(error)
        self._true[self._steps % self.window] = row[label]
        self._steps += 1
        self._filled = min(self._steps, self.window)
        self._errors += error
        return error

    def run(self, outputs: Any, y: Any) -> Trace:
        """Predict and update along a stream of T labelled rows.

        Parameters
        ----------
        outputs : array of shape (T, K), or a mapping of such
            Outputs in the order in which the rows come.
        y : integer array of shape (T,)
            Labels; each is shown after its set was issued.
        """
        outputs = on_host(outputs)
        checked = check_outputs(outputs, self.kind)
        labels = check_labels(y, checked.n, checked.n_classes)
        mask = np.empty((checked.n, checked.n_classes), dtype=bool)
        errors, levels, weights = np.empty(checked.n, dtype=bool), np.empty(checked.n), []
        for t in range(checked.n):
            row = checked.rows(slice(t, t + 1)).models
            mask[t] = self.predict_set(row[""] if set(row) == {""} else row).mask[0]
            levels[t] = self.level_
            weights.append(self.weights_)
            errors[t] = self.update(labels[t])
        return Trace(PredictionSets(mask), errors, levels, np.array(weights))

    @property
    def level_(self) -> float:
        """The level of the next set; outside (0, 1) it is full or empty."""
        return self.control_.level

    @property
    def weights_(self) -> FloatArray:
        """The weights of the next set."""
        if self._columns is None:
            raise NotFitted("no row was seen yet; call predict_set(outputs) first.")
        return self._fixed if self._weights is None else self._weights.current

    @property
    def guarantee_(self) -> Guarantee:
        """What holds for the errors so far, whatever the stream."""
        if not self._steps:
            return Guarantee("none", "no step was made yet", "no assumption")
        bound, share = self.control_.bound(self._steps), self._errors / self._steps
        statement = (
            f"|share of errors - {self.alpha:g}| <= {at_most(bound)} after {self._steps:,} steps; "
            f"it is {share:.4f}"
        )
        needs = f"any sequence of rows, drifting or adversarial; {LABELS}"
        return Guarantee("exact", statement, needs)

    def _row_scores(self, outputs: Any) -> FloatArray:
        """Return the scores (1, K, d) of one row; the first row says what there is."""
        outputs = on_host(outputs)
        several = isinstance(outputs, Mapping)
        try:
            one = (
                {name: np.atleast_2d(values) for name, values in outputs.items()}
                if several
                else np.atleast_2d(outputs)
            )
        except ValueError:
            raise InvalidInput("outputs must be one row of numbers; got a ragged one.") from None
        checked = check_outputs(one, self.kind)
        if checked.n != 1:
            raise InvalidInput(f"predict_set takes one row of a stream; got {checked.n}.")
        if self._columns is None:
            self._begin(tuple(checked.models), checked.n_classes)
        if (tuple(checked.models), checked.n_classes) != self._shape:
            raise InvalidInput("outputs must have the models and classes of the first row.")
        return fill_tensor(checked, self._columns, key=self._key, threads=1)

    def _begin(self, models: tuple[str, ...], n_classes: int) -> None:
        self._columns, self._shape = score_columns(models, self.scores), (models, n_classes)
        d = len(self._columns)
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(f'normalize="{normalizer.name}" learns; a stream needs "scale".')
        self._transform: Transform = normalizer.fit(np.empty((1, n_classes, d)), self._columns)
        grid = candidate_grid(self.candidates, d)
        adaptive = AdaptiveWeights(grid, self.window, self.adapt or "leader")
        self._fixed = adaptive.current
        self._weights = None if self.adapt is None else adaptive
        self._true = np.empty((self.window, d))  # scores of the true labels, a ring

    def _threshold(self, weights: FloatArray) -> float:
        """Return the threshold at the present level: full sets below 0, empty ones from 1 on."""
        if self.level_ >= 1:
            return np.inf
        if self.level_ <= 0 or not self._filled:
            return -np.inf
        k = conformal_rank(self._filled, self.level_)
        return kth_largest(combine(self._true[: self._filled], weights), k)

    def _member(self, row: FloatArray) -> BoolArray:
        return combine(row, self.weights_) >= self._threshold(self.weights_)

    def _charge(self, weights: AdaptiveWeights, row: FloatArray) -> None:
        """Charge every candidate the size that it would have had at the nominal level."""
        n, place = self._filled, self._filled - conformal_rank(self._filled, self.alpha)
        if place < 0:
            return
        past = combine(self._true[:n, None, :], weights.candidates)  # (n, M)
        thresholds = np.partition(past, place, axis=0)[place]
        sizes = (combine(row[:, None, :], weights.candidates) >= thresholds).sum(axis=0)
        weights.charge(sizes, len(row))


__all__ = [
    "ACI",
    "CONTROLLERS",
    "AdaptiveWeights",
    "Betting",
    "OnlineAverage",
    "Trace",
    "resolve_control",
]
