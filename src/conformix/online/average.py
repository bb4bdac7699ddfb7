"""Prediction sets on a stream, with a coverage that holds for every sequence of rows.

`OnlineAverage` issues a set for one row at a time and learns the label afterwards: at once, later,
in another order, or never. A controller says which level to ask for next, so that the errors come
out right in the long run (`conformix.online.controllers`); the weights follow the sizes of the last
sets (`conformix.online.weights`). Nothing is assumed about the data: the bounds hold for every
sequence, drifting or adversarial. A stream can be recorded, stopped at any moment and resumed
(`conformix.online.log`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.conformal import conformal_rank, conformity_ranks, kth_largest, simple_fraction
from conformix.data.checks import on_host
from conformix.data.labels import class_names
from conformix.data.outputs import Form, Outputs, check_labels, check_outputs
from conformix.errors import InvalidInput, NotFitted
from conformix.fit.evaluation import Evaluation
from conformix.fit.explanation import Explanation, explanation_of
from conformix.guarantees import Guarantee
from conformix.guarantees.verdict import Law, Verdict
from conformix.kernels import combine
from conformix.kernels.arrays import BoolArray, FloatArray, IntArray, as_generator, host_array
from conformix.metrics import measures, share_interval
from conformix.online.controllers import Ladder, resolve_control, tell
from conformix.online.lasting import LastingStream, Pending
from conformix.online.learning import Learners
from conformix.online.log import Forgotten, Issued, Labelled, Ticket, check_ticket, raw_arrays
from conformix.online.statement import stream_guarantee
from conformix.online.weights import AdaptiveWeights, candidate_grid
from conformix.scores import score_columns
from conformix.scores.scale import Transform, resolve_normalizer
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.sets import NestedSets, PredictionSets

# Sums of scores that learn hold this many windows of rows.
LEARNT_WINDOWS = 20


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened on a stream of T rows.

    Parameters
    ----------
    sets : PredictionSets, or NestedSets of several levels
        The issued sets.
    errors : boolean array of shape (T,), or (T, m) of m levels
        Whether each missed the truth.
    levels : float64 array of the same shape
        The level asked for at each step.
    weights : float64 array of shape (T, d)
        The weights in use at each step.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False]]))
    >>> Trace(sets, np.array([False]), np.array([0.1]), np.array([[1.0]])).coverage
    1.0
    """

    sets: Any
    errors: BoolArray
    levels: FloatArray
    weights: FloatArray

    @property
    def coverage(self) -> Any:
        """Share of the rows whose set held the truth, one number per level."""
        if self.errors.ndim == 2:
            return 1 - self.errors.mean(axis=0)
        return float(1 - self.errors.mean())


class OnlineAverage(LastingStream):
    """Averaged scores on a stream: the level adapts to errors, the weights to sizes.

    At step t the set holds the labels whose combined score is at least the threshold at level
    ``alpha_t`` among the last `window` labelled rows. ``alpha_t`` comes from `control` and is moved
    by the error of the set that was issued, so the long-run coverage holds for every stream. The
    weights come from `adapt`, by the sizes that the candidates would have had. Scores that learn
    without labels (``likeness``, ``kin``, ``rarity``) learn from every row before its set.

    Labels may come late, in another order, or never: give rows a `ticket`, and their labels by it.
    Several levels give nested sets, and a bound for each.

    Parameters
    ----------
    scores : names or objects
        What is averaged, as in `conformix.ScoreAverage`.
    alpha : float or sequence of float
        The share of errors that is aimed at; of several, the first steers the weights.
    control : {"aci", "betting", "dtaci"} or a controller
        How the level moves; ``betting`` has no step to choose, ``dtaci`` weighs several.
    window : int
        How many of the last labelled rows calibrate, and how many steps the weights remember.
    candidates : int or array of shape (M, d)
        Resolution of the grid of candidate weights, or the candidates.
    adapt : {"leader", "hedge", "fading"} or None
        How the weights follow the sizes; None keeps the first candidate (uniform on a grid).
    normalize : {"none", "scale"} or widths
        On which scale scores are averaged; nothing is learnt from a stream.
    kind : {"probs", "logits"}
        What the outputs are.
    random_state : int, Generator or None
        Key of randomised scores.
    max_pending : int
        How many rows may wait for their labels; the oldest is forgotten beyond that.

    Attributes
    ----------
    level_ : float, or array of shape (m,)
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

    A label that comes late, and one that never does:

    >>> online = OnlineAverage("thr", alpha=0.2)
    >>> for name in ("a", "b", "c"):
    ...     _ = online.predict_set([0.8, 0.2], ticket=name)
    >>> online.update(0, ticket="c"), online.update(0, ticket="a"), online.pending_
    (False, False, ['b'])
    """

    blend = None
    no_report = (
        "a report is about one rule, and that of a stream changes with every label; evaluate(...) "
        "has the measures of a stretch, run(...) its levels and weights, and conformix monitor the "
        "page of a stream that is recorded."
    )

    def __init__(
        self,
        scores: Any = ("thr", "aps", "rank"),
        *,
        alpha: Any = 0.1,
        control: Any = "aci",
        window: int = 500,
        candidates: Any = 10,
        adapt: str | None = "leader",
        normalize: Any = "scale",
        kind: Form = "probs",
        random_state: Any = None,
        max_pending: int = 1000,
    ) -> None:
        self._alphas, self._several = _targets(alpha)
        for name, count in (("window", window), ("max_pending", max_pending)):
            whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
            if not whole or count < 1:
                raise InvalidInput(f"{name} must be a positive number of rows; got {count!r}.")
        self.scores, self.alpha, self.window = scores, alpha, int(window)
        self.candidates, self.adapt, self.normalize, self.kind = candidates, adapt, normalize, kind
        self.max_pending = int(max_pending)
        fresh = resolve_control(control)
        self.control_: Any = Ladder(fresh, self._alphas) if self._several else fresh.start(alpha)
        self._key = draw_key(as_generator(random_state))
        self._shape = None
        self._pending = {}
        self._issued = self._steps = self._filled = self._late = self._forgotten = 0
        self._errors = [0] * len(self._alphas)
        self._log = None
        self._recording = None

    def predict_set(self, outputs: Any, *, ticket: Ticket = None) -> Any:
        """Return the set of the next row, shape (1, K); then call `update` with its label.

        Parameters
        ----------
        outputs : array of shape (K,) or (1, K), or a mapping of such
            Outputs of the models on one row.
        ticket : int or str, optional
            Names the row, so that its label may come after those of later rows, or never. Without
            one the label must come before the next set.

        Returns
        -------
        PredictionSets, or NestedSets of several levels
        """
        ticket = check_ticket(ticket)
        if ticket in self._pending:
            raise InvalidInput(
                "the last set has no label yet; call update(y) first."
                if ticket is None
                else f"the set of ticket {ticket!r} has no label yet; name every row anew."
            )
        checked = self._checked_row(outputs)
        self._begin_log()
        self._learners.add(checked)
        row = self._scaled(checked)[0]
        combined, past = combine(row, self.weights_), self._past()
        levels = self._levels()
        depth = np.zeros(len(row), dtype=np.int64)
        for level in levels:
            depth += combined >= self._threshold_among(past, level)
        pvalues = np.empty(0)
        if getattr(self._controls()[0], "reads_pvalues", False):
            pvalues = conformity_ranks(np.sort(past), combined) / (len(past) + 1)
        waiting = Pending(self._issued, self._steps, row, depth, pvalues)
        if self._log is not None:
            sizes = [int((depth > place).sum()) for place in range(len(levels))]
            raw = raw_arrays(on_host(outputs))
            self._record(Issued(self._issued, ticket, np.array(levels), self.weights_, sizes, raw))
        self._pending[ticket] = waiting
        self._issued += 1
        if len(self._pending) > self.max_pending:
            del self._pending[next(iter(self._pending))]  # not recorded: it follows
            self._forgotten += 1
        self._keep_state()
        if self._several:
            return NestedSets(depth[None, :], self._alphas)
        return PredictionSets(depth[None, :] > 0)

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
        row = self._scaled(self._checked_row(outputs))[0]
        past = np.sort(self._past())
        return conformity_ranks(past, combine(row, self.weights_))[None, :] / (self._filled + 1)

    def evaluate(self, X: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Evaluation:
        """Measure the sets that the next labelled rows would get, one after the other.

        They are run through a copy: this estimator stays where it is in its stream.

        Parameters
        ----------
        X, y
            Outputs and labels of the rows that come next, in their order.
        alpha : float, optional
            Which level, of a stream that has several.
        """
        if rows or (alpha is not None) != self._several:
            raise InvalidInput(
                f"a stream of several levels is measured at one: give alpha, of {self._alphas}."
                if self._several and not rows
                else "a stream has steered its errors to one alpha and asks nothing else of rows; "
                "give outputs and labels alone."
            )
        trace = copy.deepcopy(self).run(X, y)
        target = self._alphas[0] if alpha is None else float(simple_fraction(alpha))
        mask = np.asarray(trace.sets.at(target) if self._several else trace.sets)
        labels = check_labels(y, *mask.shape)
        hits = int(mask[np.arange(len(mask)), labels].sum())
        law = Law(
            "rows of a stream may follow any law; what holds is the bound in guarantee_", None
        )
        asked = float(1 - simple_fraction(target))
        interval = share_interval(hits, len(mask))
        verdict = Verdict(hits / len(mask), len(mask), asked, None, law, interval)
        results = measures(mask, labels, alpha=target)
        return Evaluation(tuple(results), verdict, None, float(target))

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
            Another level than ``level_`` (the first, of several).
        """
        checked = check_outputs(on_host(X), self.kind)
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < checked.n:
            raise InvalidInput(f"i must be a row from 0 to {checked.n - 1}; got {i!r}.")
        if rows:
            raise InvalidInput(f"a stream asks nothing else of rows; got {', '.join(rows)}.")
        one = checked.rows(slice(int(i), int(i) + 1)).models
        values = self._scaled(self._checked_row(one))[0]
        level = self._levels()[0] if alpha is None else float(simple_fraction(alpha))
        threshold = self._threshold_among(self._past(), level)
        truth = None
        if y is not None:
            labels = [y] if np.ndim(y) == 0 else host_array(y, "y")[int(i) : int(i) + 1]
            truth = int(self.labels(labels, 1)[0])
        return explanation_of(
            values, self.weights_, np.full(len(values), threshold),
            combine(values, self.weights_) >= threshold, names=class_names(len(values), None),
            score_names=tuple(map(str, self._learners.columns)), row=int(i), alpha=level,
            truth=truth, top=top,
        )  # fmt: skip

    def weighted_scores(self, outputs: Any) -> list[Any]:
        """Return what is averaged next: the columns, their weights (d,) and scores (n, K, d)."""
        checked = check_outputs(on_host(outputs), self.kind)
        self._check_shape(checked)
        return [(self._learners.columns, self.weights_, self._scaled(checked))]

    def labels(self, y: Any, n: int) -> IntArray:
        """Return true labels of n rows, checked."""
        return check_labels(y, n, self._shape[1])

    def _check_fitted(self) -> OnlineAverage:
        return self

    def update(self, y: Any, *, ticket: Ticket = None) -> Any:
        """Take the label of a row, and return whether its set missed it.

        Parameters
        ----------
        y : int
            The label.
        ticket : int or str, optional
            Of which row; without one, of the last.

        Returns
        -------
        bool, or a boolean array of shape (m,) of several levels
        """
        waiting = self._waiting(ticket)
        row, depth = waiting.scores, waiting.depth
        label = int(check_labels(np.atleast_1d(host_array(y, "y")), 1, len(row))[0])
        errors = [not depth[label] > place for place in range(len(self._alphas))]
        late = max(self._late, self._steps - waiting.labels)
        score = float(combine(row[label], self._plain)) if self._plain is not None else math.nan
        self._record(Labelled(waiting.number, label, tuple(errors), late, score))
        del self._pending[ticket]
        self._late = late
        if self._weights is not None:
            self._charge(self._weights, row)
        pvalue = float(waiting.pvalues[label]) if len(waiting.pvalues) else math.nan
        if self._several:
            self.control_.update(errors, pvalue)
        else:
            tell(self.control_, errors[0], pvalue)
        self._true[self._steps % self.window] = row[label]
        self._steps += 1
        self._filled = min(self._steps, self.window)
        self._errors = [one + error for one, error in zip(self._errors, errors, strict=True)]
        self._keep_state()
        return np.array(errors) if self._several else errors[0]

    def forget(self, ticket: Ticket = None) -> None:
        """Wait no longer for the label of a row: it will never come.

        Nothing moves, and nothing is known of that set: ``guarantee_`` says what this leaves open.

        Parameters
        ----------
        ticket : int or str, optional
            Of which row; without one, of the last.
        """
        waiting = self._waiting(ticket)
        self._record(Forgotten(waiting.number))
        del self._pending[ticket]
        self._forgotten += 1
        self._keep_state()

    def _waiting(self, ticket: Ticket) -> Pending:
        if ticket not in self._pending:
            raise NotFitted(
                "there is no set to judge; call predict_set(outputs) first."
                if ticket is None
                else f"no set of ticket {ticket!r:.60} waits for a label; see pending_."
            )
        return self._pending[ticket]

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
        depth = np.empty((checked.n, checked.n_classes), dtype=np.int64)
        m, weights = len(self._alphas), []
        errors, levels = np.empty((checked.n, m), dtype=bool), np.empty((checked.n, m))
        for t in range(checked.n):
            row = checked.rows(slice(t, t + 1)).models
            levels[t] = self._levels()
            issued = self.predict_set(row[""] if set(row) == {""} else row)
            depth[t] = issued.depth[0] if self._several else issued.mask[0]
            weights.append(self.weights_)
            errors[t] = self.update(labels[t])
        if self._several:
            return Trace(NestedSets(depth, self._alphas), errors, levels, np.array(weights))
        return Trace(PredictionSets(depth > 0), errors[:, 0], levels[:, 0], np.array(weights))

    @property
    def level_(self) -> Any:
        """The level of the next set, one per alpha; outside (0, 1) it is full or empty."""
        return np.array(self._levels()) if self._several else self.control_.level

    @property
    def rows_(self) -> int:
        """How many sets were issued."""
        return self._issued

    @property
    def pending_(self) -> list[Ticket]:
        """Tickets of the rows that wait for their labels, oldest first."""
        return list(self._pending)

    @property
    def weights_(self) -> FloatArray:
        """The weights of the next set."""
        if self._shape is None:
            raise NotFitted("no row was seen yet; call predict_set(outputs) first.")
        return self._fixed if self._weights is None else self._weights.current

    @property
    def guarantee_(self) -> Guarantee:
        """What holds for the errors so far, whatever the stream."""
        return stream_guarantee(
            self._controls(), self._alphas, self._steps, self._errors, late=self._late,
            unlabelled=self._issued - self._steps,
        )  # fmt: skip

    def _controls(self) -> list[Any]:
        return self.control_.controls if self._several else [self.control_]

    def _levels(self) -> list[float]:
        """Return the levels of the next sets, none above a later one."""
        return self.control_.levels if self._several else [self.control_.level]

    def _checked_row(self, outputs: Any) -> Outputs:
        """Return one row, checked; the first row says what there is."""
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
        return checked

    def _scaled(self, checked: Outputs) -> FloatArray:
        """Return the scores (n, K, d) by what has been learnt so far, on their common scale."""
        if self._learners.places and not self._learners.sums:
            raise NotFitted("no row was seen yet; call predict_set(outputs) first.")
        scores = fill_tensor(checked, self._learners.columns, key=self._key, threads=1)
        return self._transform(scores)

    def _check_shape(self, outputs: Outputs) -> None:
        """Take the first row for what there is, and refuse others that differ."""
        if self._shape is None:
            self._begin(tuple(outputs.models), outputs.n_classes)
        if (tuple(outputs.models), outputs.n_classes) != self._shape:
            raise InvalidInput("outputs must have the models and classes of the first row.")

    def _begin(self, models: tuple[str, ...], n_classes: int) -> None:
        columns = score_columns(models, self.scores)
        d = len(columns)
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(f'normalize="{normalizer.name}" learns; a stream needs "scale".')
        self._transform: Transform = normalizer.fit(np.empty((1, n_classes, d)), columns)
        grid = candidate_grid(self.candidates, d)
        adaptive = AdaptiveWeights(grid, self.window, self.adapt or "leader")
        self._fixed = adaptive.current
        self._weights = None if self.adapt is None else adaptive
        self._true = np.empty((self.window, d))  # scores of the true labels, a ring
        self._learners = Learners(columns, n_classes, LEARNT_WINDOWS * self.window)
        still = np.array([not column.score.learns for column in columns], dtype=np.float64)
        self._plain = still / still.sum() if still.any() else None
        self._shape = models, n_classes

    def _past(self) -> FloatArray:
        """Return the combined scores of the window's true labels."""
        return combine(self._true[: self._filled], self.weights_)

    def _threshold_among(self, past: FloatArray, level: float) -> float:
        """Return the threshold at a level: full sets below 0, empty ones from 1 on."""
        if level >= 1:
            return np.inf
        if level <= 0 or not len(past):
            return -np.inf
        return kth_largest(past, conformal_rank(len(past), level))

    def _charge(self, weights: AdaptiveWeights, row: FloatArray) -> None:
        """Charge every candidate the size that it would have had at the nominal level."""
        target = self.alpha[0] if self._several else self.alpha
        n, place = self._filled, self._filled - conformal_rank(self._filled, target)
        if place < 0:
            return
        past = combine(self._true[:n, None, :], weights.candidates)  # (n, M)
        thresholds = np.partition(past, place, axis=0)[place]
        sizes = (combine(row[:, None, :], weights.candidates) >= thresholds).sum(axis=0)
        weights.charge(sizes, len(row))


def _targets(alpha: Any) -> tuple[list[float], bool]:
    """Return the levels that are aimed at, rising, and whether several were named."""
    if not isinstance(alpha, list | tuple | np.ndarray):
        return [float(simple_fraction(alpha))], False
    if not len(alpha):
        raise InvalidInput("alpha must be a number strictly between 0 and 1, or several; got none.")
    return sorted({float(simple_fraction(one)) for one in alpha}), True


__all__ = ["OnlineAverage", "Trace"]
