"""Prediction sets on a stream, with a coverage that holds for every sequence of rows.

`OnlineAverage` issues a set for one row at a time and learns the label afterwards: at once, later,
in another order, or never. Nothing is assumed about the data: the bounds hold for every sequence,
drifting or adversarial. The loop is that of every stream (`conformix.online.stream`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import conformity_ranks, simple_fraction
from conformix.data.checks import on_host
from conformix.data.labels import class_names
from conformix.data.outputs import (
    Form,
    Outputs,
    check_labels,
    check_outputs,
    check_row_like,
)
from conformix.errors import InvalidInput, NotFitted
from conformix.estimators.surface import Surface
from conformix.fit.explanation import Explanation, explanation_of
from conformix.guarantees import LABELS
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray, as_generator, host_array
from conformix.online.learning import Learners
from conformix.online.log import Issued, LogShape, Ticket, raw_arrays
from conformix.online.saved import SETS
from conformix.online.stream import LEARNT_WINDOWS, Judged, Stream, Trace
from conformix.predictions.sets import NestedSets, PredictionSets
from conformix.scores import score_columns
from conformix.scores.scale import Transform, resolve_normalizer
from conformix.scores.tensor import draw_key, fill_tensor


class SetAnswer(NamedTuple):
    """The set of a row, with what judging it needs."""

    scores: FloatArray  # (K, d)
    depth: IntArray  # (K,), at how many levels a label is in
    pvalues: FloatArray  # (K,), or none where no controller asks


class OnlineAverage(Stream, Surface):  # type: ignore[misc]  # a file holds no options
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
    _noun, _file, _answer_of = "set", SETS, SetAnswer
    _settings = ("alpha", "window", "candidates", "adapt", "normalize", "kind", "max_pending")
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
        super().__init__(
            alpha=alpha, control=control, window=window, candidates=candidates, adapt=adapt,
            normalize=normalize, max_pending=max_pending,
        )  # fmt: skip
        self.scores, self.kind = scores, kind
        self._key = draw_key(as_generator(random_state))
        self._like: Any = None  # length and type of the last row that was looked at in full

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
        return self._shown([self._issue(outputs, ticket)])

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
        return conformity_ranks(past, combine(row, self.weights_))[None, :] / (len(past) + 1)

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
        rows = [checked.rows(slice(t, t + 1)) for t in range(checked.n)]
        each = [row.models[""] if set(row.models) == {""} else row.models for row in rows]
        self._check_shape(checked)
        return self._ran(list(zip(each, rows, strict=True)), labels.tolist())

    def _checked_row(self, outputs: Any) -> Outputs:
        """Return one row, checked; the first row says what there is."""
        if self._like is not None:
            alike = check_row_like(outputs, self._like, self.kind)
            if alike is not None:
                return alike
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
        values: Any = checked.models.get("")
        if type(values) is np.ndarray:
            self._like = checked.n_classes, values.dtype
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
        if isinstance(self.scores, str) and self.scores == "auto":
            raise InvalidInput(
                'scores="auto" stands alone, and goes with ScoreAverage and ConformalClassifier: '
                "it fits a blend to all outputs of labelled rows, of which a stream keeps those of "
                "the true label, and all of them would take K times the memory; name the scores, "
                'such as ("thr", "likeness").'
            )
        columns = score_columns(models, self.scores)
        d = len(columns)
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(f'normalize="{normalizer.name}" learns; a stream needs "scale".')
        self._transform: Transform = normalizer.fit(np.empty((1, n_classes, d)), columns)
        self._begin_window(d)
        self._learners = Learners(columns, n_classes, LEARNT_WINDOWS * self.window)
        still = np.array([not column.score.learns for column in columns], dtype=np.float64)
        self._plain = still / still.sum() if still.any() else None
        self._shape = models, n_classes

    @property
    def _columns(self) -> Any:
        return self._learners.columns

    @property
    def _largest(self) -> int:
        """No set has more labels."""
        return int(self._shape[1])

    def _learn(self, row: Outputs) -> None:
        self._learners.add(row)

    def _answered(self, row: Outputs, cuts: Sequence[float], past: FloatArray) -> SetAnswer:
        scores = self._scaled(row)[0]
        combined = combine(scores, self.weights_)
        depth = np.zeros(len(scores), dtype=np.int64)
        for cut in cuts:
            depth += combined >= cut
        pvalues = np.empty(0)
        if self._reads_pvalues:
            pvalues = conformity_ranks(np.sort(past), combined) / (len(past) + 1)
        return SetAnswer(scores, depth, pvalues)

    def _shown(self, answers: Sequence[SetAnswer]) -> Any:
        depth = np.array([answer.depth for answer in answers])
        return NestedSets(depth, self._alphas) if self._several else PredictionSets(depth > 0)

    def _truth(self, y: Any, answer: SetAnswer) -> int:
        if type(y) in (int, np.int64) and 0 <= y < len(answer.scores):
            return int(y)
        return int(check_labels(np.atleast_1d(host_array(y, "y")), 1, len(answer.scores))[0])

    def _judged(self, answer: SetAnswer, truth: int) -> Judged:
        errors = [not answer.depth[truth] > place for place in range(len(self._alphas))]
        pvalue = float(answer.pvalues[truth]) if len(answer.pvalues) else np.nan
        return Judged(errors, answer.scores[truth], pvalue)

    def _sizes(self, answer: SetAnswer, thresholds: FloatArray) -> IntArray:
        assert self._weights is not None
        combined = combine(answer.scores[:, None, :], self._weights.planes)
        return (combined >= thresholds).sum(axis=0)  # type: ignore[no-any-return]

    def _told(self, answer: SetAnswer) -> Any:
        return [int((answer.depth > place).sum()) for place in range(len(self._alphas))]

    def _raw(self, outputs: Any, row: Outputs) -> dict[str, Any]:
        return raw_arrays(on_host(outputs))

    def _bare(self, answers: Any) -> Any:
        return np.asarray(answers)

    def _own_state(self) -> dict[str, Any]:
        models, n_classes = self._shape
        return {
            "models": models, "n_classes": n_classes, "key": int(self._key),
            "sums": self._learners.sums, "due": self._learners.due,
        }  # fmt: skip

    def _recall(self, state: dict[str, Any]) -> None:
        self._key = state["key"]
        self._learners.recall(state["sums"], state["due"], begun=state["issued"] > 0)

    def _begin_from(self, state: dict[str, Any]) -> None:
        self._begin(state["models"], state["n_classes"])

    def _replayed(self, step: Issued) -> Any:
        row = step.outputs[""] if set(step.outputs) == {""} else step.outputs
        return self._told(self._issue(row, step.ticket))

    def _log_shape(self) -> LogShape:
        models, n_classes = self._shape
        return LogShape(len(self._alphas), len(self._columns), models, n_classes)

    @property
    def _assumes(self) -> str:
        return LABELS

    def _described(self) -> dict[str, str]:
        """Return what else a page says about the stream."""
        return {"classes": f"{self._shape[1]:,}"}


__all__ = ["OnlineAverage", "Trace"]
