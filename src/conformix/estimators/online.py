"""Prediction sets on a stream, with a coverage that holds for every sequence of rows.

`OnlineAverage` issues a set for one row at a time and sees the label afterwards. A controller says
which level to ask for next, so that the errors come out right in the long run: after each set it is
told whether the set **that was issued** missed the truth, and moves the level down after an error,
up otherwise. A level outside (0, 1) means the full or the empty set. Nothing is assumed about the
data: the bounds hold for every sequence, drifting or adversarial.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self

import numpy as np

from conformix.conformal import conformal_rank, conformity_ranks, kth_largest, simple_fraction
from conformix.data.checks import on_host
from conformix.data.labels import class_names
from conformix.data.outputs import Form, Outputs, check_labels, check_outputs
from conformix.errors import InvalidInput, NotFitted
from conformix.estimators.surface import Surface
from conformix.fit.evaluation import Evaluation
from conformix.fit.explanation import Explanation, explanation_of
from conformix.fit.saved import MAX_MEMORY
from conformix.fit.saved.online import read_online, write_online
from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_most
from conformix.guarantees.verdict import Law, Verdict
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, as_generator, host_array
from conformix.kernels.simplex import preference, simplex_grid
from conformix.metrics import measures, share_interval
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
        self._choose(n_classes)

    def recall(self, sizes: Any, charged: int, n_classes: int) -> None:
        """Take over the charges of the last steps, as they stand in the ring, and choose again."""
        if sizes.shape[1:] != self._totals.shape:
            raise InvalidInput(
                f"sizes must be those of the {len(self._totals)} candidates; got {sizes.shape}."
            )
        self._sizes[: len(sizes)] = sizes
        self._totals, self._seen = self._sizes.sum(axis=0), charged
        if charged:
            self._choose(n_classes)

    def _choose(self, n_classes: int) -> None:
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


class OnlineAverage(Surface):
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

    blend = None
    no_report = (
        "a report is about one rule, and that of a stream changes with every label; evaluate(...) "
        "has the measures of a stretch, run(...) its levels and weights."
    )

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

    def predict_pvalues(self, outputs: Any) -> FloatArray:
        """Return the p-values of the next row, shape (1, K); nothing is issued, no label asked for.

        ``p(y) = (1 + #{true-label scores of the window <= s(y)}) / (n + 1)`` under the present
        weights; the set of the row is where p exceeds ``level_``. What holds on a stream is the
        share of errors (``guarantee_``): a p-value promises nothing of a single row.

        Parameters
        ----------
        outputs : like in `predict_set`
            Outputs of the models on one row.
        """
        row = self._transform(self._row_scores(outputs))[0]
        past = np.sort(combine(self._true[: self._filled], self.weights_))
        return conformity_ranks(past, combine(row, self.weights_))[None, :] / (self._filled + 1)

    def evaluate(self, X: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Evaluation:
        """Measure the sets that the next labelled rows would get, one after the other.

        They are run through a copy: this estimator stays where it is in its stream.

        Parameters
        ----------
        X, y
            Outputs and labels of the rows that come next, in their order.
        alpha : None
            The level is that of the stream.
        """
        if alpha is not None or rows:
            raise InvalidInput(
                "a stream has steered its errors to one alpha and asks nothing else of rows; give "
                "outputs and labels alone."
            )
        trace = copy.deepcopy(self).run(X, y)
        mask = np.asarray(trace.sets)
        labels = check_labels(y, *mask.shape)
        hits = int(len(mask) - trace.errors.sum())
        law = Law(
            "rows of a stream may follow any law; what holds is the bound in guarantee_", None
        )
        asked = float(1 - simple_fraction(self.alpha))
        interval = share_interval(hits, len(mask))
        verdict = Verdict(hits / len(mask), len(mask), asked, None, law, interval)
        results = measures(mask, labels, alpha=self.alpha)
        return Evaluation(tuple(results), verdict, None, float(self.alpha))

    def explain(
        self,
        X: Any,
        i: int = 0,
        *,
        y: Any = None,
        top: int = 12,
        alpha: float | None = None,
        **rows: Any,
    ) -> Explanation:
        """Return why the labels of a row would be in the next set or not.

        Parameters
        ----------
        X : array of shape (n, K), or a mapping of such
            Outputs of the models on rows.
        i : int
            Which row.
        y : array of shape (n,), or one label, optional
            The truth, to be marked.
        top : int
            Labels to show, from the best.
        alpha : float, optional
            Another level than ``level_``.
        """
        checked = check_outputs(on_host(X), self.kind)
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < checked.n:
            raise InvalidInput(f"i must be a row from 0 to {checked.n - 1}; got {i!r}.")
        if rows:
            raise InvalidInput(f"a stream asks nothing else of rows; got {', '.join(rows)}.")
        one = checked.rows(slice(int(i), int(i) + 1)).models
        values = self._transform(self._row_scores(one))[0]
        level = self.level_ if alpha is None else float(simple_fraction(alpha))
        threshold = self._threshold(self.weights_, level)
        truth = None
        if y is not None:
            labels = [y] if np.ndim(y) == 0 else host_array(y, "y")[int(i) : int(i) + 1]
            truth = int(self.labels(labels, 1)[0])
        return explanation_of(
            values, self.weights_, np.full(len(values), threshold),
            combine(values, self.weights_) >= threshold, names=class_names(len(values), None),
            score_names=tuple(map(str, self._columns)), row=int(i), alpha=level, truth=truth,
            top=top,
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Write where the stream stands as JSON (`OnlineAverage.load`), never as a pickle.

        Parameters
        ----------
        path : path
            Usually ``stream.json``; large arrays go to an npz of the same name.
        """
        if self._pending is not None:
            raise InvalidInput("the last set has no label yet; call update(y) before save.")
        if not self._steps:
            raise NotFitted("no row was seen yet; there is nothing to save.")
        kind = type(self.control_)
        name = next((one for one in CONTROLLERS if type(CONTROLLERS[one]) is kind), None)
        if name is None:
            raise InvalidInput(
                f"control {self.control_!r} is of your own, which no file can hold; pickle the "
                "estimator yourself."
            )
        adaptive = AdaptiveWeights(self._fixed[None], 1) if self._weights is None else self._weights
        charged = 0 if self._weights is None else adaptive._seen
        names = ("alpha", "window", "candidates", "adapt", "normalize", "kind")
        write_online(
            {
                **{one: getattr(self, one) for one in names},
                "columns": self._columns, "models": self._shape[0], "n_classes": self._shape[1],
                "key": int(self._key), "steps": self._steps, "errors": int(self._errors),
                "control": name, "state": _state(self.control_), "charged": charged,
                "true": self._true[: self._filled],
                "sizes": adaptive._sizes[: min(charged, self.window)],
            },
            path,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> Self:
        """Return what `save` has written; its next set is that of the stream that was saved.

        Parameters
        ----------
        path : path
            The JSON file.
        max_memory : int or str
            Bytes that the files may ask for, as a number or a text such as ``"512M"``.

        Examples
        --------
        >>> import tempfile
        >>> online = OnlineAverage("thr", alpha=0.4)
        >>> _ = online.run([[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], [0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     online.save(f"{folder}/stream.json")
        ...     again = OnlineAverage.load(f"{folder}/stream.json")
        >>> again.level_ == online.level_, again.predict_set([0.1, 0.9]).labels(0)
        (True, [1])
        """
        state = read_online(path, max_memory=max_memory)
        names = ("scores", "alpha", "window", "candidates", "adapt", "normalize", "kind")
        self = cls(**{name: state[name] for name in names}, control=state["control"])
        self._begin(state["models"], state["n_classes"])
        self._key, self._steps, self._errors = state["key"], state["steps"], state["errors"]
        self._filled = len(state["true"])
        if set(state["state"]) != set(_state(self.control_)):
            raise InvalidInput(f"{path} is damaged: its online.state is not one of its control.")
        vars(self.control_).update(state["state"])
        if state["true"].shape[1] != len(self._columns):
            raise InvalidInput(f"{path} is damaged: its online.true are not one number per score.")
        self._true[: self._filled] = state["true"]
        if self._weights is not None:
            self._weights.recall(state["sizes"], state["charged"], state["n_classes"])
        return self

    def weighted_scores(self, outputs: Any) -> list[Any]:
        """Return what is averaged next: the columns, their weights (d,) and scores (n, K, d)."""
        checked = check_outputs(on_host(outputs), self.kind)
        self._check_shape(checked)
        scores = fill_tensor(checked, self._columns, key=self._key, threads=1)
        return [(self._columns, self.weights_, self._transform(scores))]

    def labels(self, y: Any, n: int) -> IntArray:
        """Return true labels of n rows, checked."""
        return check_labels(y, n, self._shape[1])

    def _check_fitted(self) -> OnlineAverage:
        return self

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
        self._check_shape(checked)
        return fill_tensor(checked, self._columns, key=self._key, threads=1)

    def _check_shape(self, outputs: Outputs) -> None:
        """Take the first row for what there is, and refuse others that differ."""
        if self._columns is None:
            self._begin(tuple(outputs.models), outputs.n_classes)
        if (tuple(outputs.models), outputs.n_classes) != self._shape:
            raise InvalidInput("outputs must have the models and classes of the first row.")

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

    def _threshold(self, weights: FloatArray, level: float) -> float:
        """Return the threshold at a level: full sets below 0, empty ones from 1 on."""
        if level >= 1:
            return np.inf
        if level <= 0 or not self._filled:
            return -np.inf
        k = conformal_rank(self._filled, level)
        return kth_largest(combine(self._true[: self._filled], weights), k)

    def _member(self, row: FloatArray) -> BoolArray:
        return combine(row, self.weights_) >= self._threshold(self.weights_, self.level_)

    def _charge(self, weights: AdaptiveWeights, row: FloatArray) -> None:
        """Charge every candidate the size that it would have had at the nominal level."""
        n, place = self._filled, self._filled - conformal_rank(self._filled, self.alpha)
        if place < 0:
            return
        past = combine(self._true[:n, None, :], weights.candidates)  # (n, M)
        thresholds = np.partition(past, place, axis=0)[place]
        sizes = (combine(row[:, None, :], weights.candidates) >= thresholds).sum(axis=0)
        weights.charge(sizes, len(row))


def _state(control: Any) -> dict[str, Any]:
    """Return where a controller of this library stands."""
    return {one.name: getattr(control, one.name) for one in fields(control)}


__all__ = [
    "ACI",
    "CONTROLLERS",
    "AdaptiveWeights",
    "Betting",
    "OnlineAverage",
    "Trace",
    "resolve_control",
]
