"""Prediction sets on a stream: one row at a time, the label afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.data.checks import on_host
from conformix.data.outputs import Kind, check_labels, check_outputs
from conformix.errors import InvalidInput, NotFitted
from conformix.estimators.online.adapt import AdaptiveWeights, candidate_grid
from conformix.estimators.online.control import Controller, resolve_control
from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_most
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, as_generator, host_array
from conformix.scores import score_columns
from conformix.scores.scale import Transform, resolve_normalizer
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.sets import PredictionSets


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
        kind: Kind = "probs",
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
        told = (
            f"|share of errors - {self.alpha:g}| <= {at_most(bound)} after {self._steps:,} steps; "
            f"it is {share:.4f}"
        )
        needs = f"any sequence of rows, drifting or adversarial; {LABELS}"
        return Guarantee("exact", told, needs)

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
