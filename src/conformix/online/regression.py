"""Prediction intervals on a stream, with a coverage that holds for every sequence of rows.

The loop is that of every stream (`conformix.online.stream`); an answer is the interval of the
responses that fit as well as the threshold asks for. The window holds the scores of the responses
as they are, turned so that larger fits better, and the scale on which they are averaged is put on
the weights instead: it may follow the stream, and no two scores of a window are on different
scales. It is a power of two, so that it seldom moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels import combine
from conformix.kernels.arrays import FloatArray, IntArray, to_host
from conformix.online.log import Issued, LogShape, Ticket
from conformix.online.saved import INTERVALS, one_row
from conformix.online.stream import LEARNT_WINDOWS, Judged, Stream, Trace
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.regression.bands import bands, widths
from conformix.regression.planes import Planes
from conformix.regression.regressed import (
    Regressed,
    RegressedOutputs,
    Shape,
    check_range,
    check_regressed,
    check_responses,
    matching,
)
from conformix.regression.rule import clipped, span_of
from conformix.regression.scale import (
    LEAST,
    TURN,
    LineScale,
    check_normalize,
    given_scale,
    spreads,
)
from conformix.regression.scores import regression_columns

# Widths are charged as whole numbers, whose sums no order changes: the median of the first widths
# is between so many units and twice as many, and no width counts for more than `MOST`.
UNITS, MOST = 20, 2**40


class IntervalAnswer(NamedTuple):
    """The intervals of a row, with what judging them needs."""

    planes: FloatArray  # (4, d): centre, offset, slope below and above of every score
    ends: FloatArray  # (2, m): lower and upper at every level
    weights: FloatArray  # (d,), as they were played
    past: FloatArray  # (window,), sorted, inf where it was not full; none if no controller asks


class OnlineRegression(Stream):
    """Averaged scores of responses on a stream: the level adapts to errors, the weights to widths.

    At step t the interval holds the responses whose averaged score fits as well as the threshold at
    level ``alpha_t`` among the last `window` responses. Levels, weights, late and missing labels,
    several levels, logs and statements are those of `conformix.OnlineAverage`. A level at or below
    0 has the whole line, one at or above 1 the empty interval, so that the bounds are the same.

    Parameters
    ----------
    scores : "auto", or a sequence of names, `RegressionScore` objects or functions
        What is averaged, as in `conformix.RegressionAverage`.
    alpha : float or sequence of float
        The share of errors that is aimed at; of several, the first steers the weights.
    control : {"aci", "betting", "dtaci"} or a controller
        How the level moves.
    window : int
        How many of the last labelled rows calibrate, and how many steps the weights remember.
    candidates : int or array of shape (M, d)
        Resolution of the grid of candidate weights, or the candidates.
    adapt : {"leader", "fading", "hedge"} or None
        How the weights follow the widths; ``hedge`` needs a `y_range`, for it has to know the
        largest width beforehand.
    normalize : {"auto", "none"} or array of shape (d,)
        On which scale scores are averaged: ``auto`` multiplies every score by the power of two that
        is nearest to its mean spread over the rows so far, which fade; or one divisor per score.
    y_range : pair of float, optional
        What every response lies within, by what is known without these rows; intervals are cut to
        it. A response outside is refused: a full interval would miss it, and no bound would hold.
    max_pending : int
        How many rows may wait for their labels; the oldest is forgotten beyond that.

    Attributes
    ----------
    level_ : float, or array of shape (m,)
        The level of the next interval.
    weights_ : float64 array of shape (d,)
        The weights of the next interval.
    guarantee_ : Guarantee
        The bound after the steps so far.

    Examples
    --------
    >>> import conformix as cx
    >>> rng = np.random.default_rng(0)
    >>> mean, sigma = rng.normal(size=800), rng.uniform(0.5, 2, size=800)
    >>> sigma[400:] *= 3  # of which the model knows nothing
    >>> y = mean + sigma * rng.normal(size=800)
    >>> online = cx.OnlineRegression("abs", alpha=0.1, window=100)
    >>> trace = online.run(mean, y)
    >>> abs(1 - trace.coverage - 0.1) <= online.control_.bound(800)
    True

    One row at a time:

    >>> interval = online.predict_interval(0.5)
    >>> online.update(0.7)
    False
    """

    _noun, _file, _answer_of = "interval", INTERVALS, IntervalAnswer
    _settings = ("alpha", "window", "candidates", "adapt", "normalize", "y_range", "max_pending")

    def __init__(
        self,
        scores: Any = "auto",
        *,
        alpha: Any = 0.1,
        control: Any = "aci",
        window: int = 500,
        candidates: Any = 4,
        adapt: str | None = "leader",
        normalize: Any = "auto",
        y_range: Any = None,
        max_pending: int = 1000,
    ) -> None:
        super().__init__(
            alpha=alpha, control=control, window=window, candidates=candidates, adapt=adapt,
            normalize=normalize, max_pending=max_pending,
        )  # fmt: skip
        self.scores, self.y_range = scores, check_range(y_range)
        self._learns, self._divisors = check_normalize(normalize)
        if adapt == "hedge" and span_of(self.y_range) is None:
            raise InvalidInput(
                'adapt="hedge" has to know the largest width beforehand, and intervals have none; '
                'give a finite y_range, or say "leader" or "fading".'
            )
        self._unit: float | None = None  # that widths are charged in

    def predict_interval(self, outputs: Any, *, ticket: Ticket = None) -> Any:
        """Return the interval of the next row; then call `update` with its response.

        Parameters
        ----------
        outputs : float, Regressed of one row, or a mapping of such
            What the models predict of one row; a number is a mean.
        ticket : int or str, optional
            Names the row, so that its response may come after those of later rows, or never.
            Without one it must come before the next interval.

        Returns
        -------
        Intervals, or NestedIntervals of several levels
        """
        return self._shown([self._issue(outputs, ticket)])

    def run(self, outputs: Any, y: Any) -> Trace:
        """Predict and update along a stream of T rows.

        Parameters
        ----------
        outputs : like in `conformix.RegressionAverage.fit`
            What the models predict, in the order in which the rows come.
        y : array of shape (T,)
            Responses; each is shown after its interval was issued.
        """
        checked = self._matched(check_regressed(outputs))
        truths = check_responses(y, checked.n, self.y_range)
        rows = [checked.rows(slice(t, t + 1)) for t in range(checked.n)]
        return self._ran(list(zip(rows, rows, strict=True)), truths.tolist())

    def _checked_row(self, outputs: Any) -> RegressedOutputs:
        if isinstance(outputs, Mapping):
            outputs = {name: _in_a_row(values) for name, values in outputs.items()}
        checked = check_regressed(_in_a_row(outputs))
        if checked.n != 1:
            raise InvalidInput(f"predict_interval takes one row of a stream; got {checked.n}.")
        return self._matched(checked)

    def _matched(self, outputs: RegressedOutputs) -> RegressedOutputs:
        """Take the first row for what there is, and refuse others that differ."""
        if self._shape is None:
            self._begin({name: Shape.of(model) for name, model in outputs.by_name.items()})
        return matching(outputs, self._shape, "outputs")

    def _begin(self, shapes: dict[str, Shape]) -> None:
        models = {name: one_row(shape) for name, shape in shapes.items()}
        columns = regression_columns(models, self.scores)
        example = spreads(RegressedOutputs(models), columns)
        self._scale = FollowedScale(
            given_scale(columns, self._divisors),
            [one is not None and self._learns for one in example],
            LEARNT_WINDOWS * self.window,
        )
        self._begin_window(len(columns))
        self._met: Any = (None, None)  # a scale, and all candidates as they meet the scores on it
        still = np.array([not learns for learns in self._scale.learns], dtype=np.float64)
        self._plain = still / still.sum() if still.any() else None
        self._shape = shapes

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what can be worked out again."""
        return super().__getstate__() | {"_met": (None, None)}

    @property
    def _columns(self) -> Any:
        return self._scale.columns

    @property
    def _largest(self) -> int:
        """No interval is charged more."""
        span = span_of(self.y_range)
        if span is None or self._unit is None:
            return min(MOST, 2**62 // self.window)
        return math.ceil(span / self._unit)

    def _learn(self, row: RegressedOutputs) -> None:
        self._scale.add(row)

    def _played(self, weights: FloatArray) -> FloatArray:
        factors = self._scale.factors
        if self._weights is None or weights is not self._weights.planes:
            return weights * factors
        if self._met[0] is not factors:
            self._met = factors, weights * factors
        return self._met[1]  # type: ignore[no-any-return]

    def _answered(
        self, row: RegressedOutputs, cuts: Sequence[float], past: FloatArray
    ) -> IntervalAnswer:
        planes, weights = self._scale.planes(row), self._played(self.weights_)
        ends = bands(planes, weights, -np.array(cuts)[:, None])
        lower, upper = clipped(*ends, self.y_range)
        kept = np.empty(0)
        if self._reads_pvalues:
            kept = np.full(self.window, np.inf)
            kept[: len(past)] = np.sort(past)
        parts = np.array([part[0] for part in planes.parts])
        return IntervalAnswer(parts, np.array([lower[:, 0], upper[:, 0]]), weights, kept)

    def _shown(self, answers: Sequence[IntervalAnswer]) -> Any:
        lower, upper = np.array([answer.ends for answer in answers]).transpose(1, 2, 0)
        if self._several:
            return NestedIntervals(lower, upper, self._alphas)
        return Intervals(lower[0], upper[0])

    def _truth(self, y: Any, answer: IntervalAnswer) -> float:
        return float(check_responses(_in_a_row(y), 1, self.y_range)[0])

    def _judged(self, answer: IntervalAnswer, truth: float) -> Judged:
        lower, upper = answer.ends.tolist()
        errors = [not low <= truth <= high for low, high in zip(lower, upper, strict=True)]
        planes = Planes(*answer.planes[:, None, :])
        scores = -planes.scores(np.array([truth]))[0]  # larger fits better, as everywhere else
        pvalue = math.nan
        if len(answer.past):
            below = int(np.searchsorted(answer.past, combine(scores, answer.weights), "right"))
            pvalue = (1 + below) / (1 + int(np.isfinite(answer.past).sum()))
        return Judged(errors, scores, pvalue)

    def _sizes(self, answer: IntervalAnswer, thresholds: FloatArray) -> IntArray:
        """Return the widths under every candidate, in units: one row per candidate."""
        assert self._weights is not None
        candidates = self._played(self._weights.planes)
        centre, *others = answer.planes
        planes = Planes(
            np.broadcast_to(centre, candidates.shape), *(part * candidates for part in others)
        )
        ends = bands(planes, np.ones(planes.d), -thresholds)
        found = widths(*ends, self.y_range)
        if self._unit is None:
            known = found[np.isfinite(found) & (found > 0)]
            if not len(known):
                return np.where(np.isinf(found), MOST, 0)
            self._unit = math.ldexp(1.0, math.frexp(float(np.median(known)))[1] - 1 - UNITS)
        most = min(MOST, 2**62 // self.window)
        return np.minimum(found / self._unit, most).astype(np.int64)  # type: ignore[no-any-return]

    def _told(self, answer: IntervalAnswer) -> FloatArray:
        return answer.ends.ravel()

    def _raw(self, outputs: Any, row: RegressedOutputs) -> dict[str, Any]:
        return row.models

    def _replayed(self, step: Issued) -> Any:
        models = {}
        for name, shape in self._shape.items():
            numbers, parts, start = step.outputs[name], {}, 0
            for part in shape.has:
                width = len(shape.levels) if part == "quantiles" else 1
                parts[part] = numbers[:, start : start + width]
                start += width
            models[name] = Regressed(**parts, levels=shape.levels or None)
        return self._told(self._issue(RegressedOutputs(models), step.ticket))

    def _log_shape(self) -> LogShape:
        columns = tuple(
            sum(len(shape.levels) if part == "quantiles" else 1 for part in shape.has)
            for shape in self._shape.values()
        )
        d = len(self._columns)
        return LogShape(len(self._alphas), d, tuple(self._shape), None, columns)

    def _own_state(self) -> dict[str, Any]:
        return {
            "models": self._shape, "spreads": self._scale.sums, "counted": self._scale.n,
            "unit": self._unit,
        }  # fmt: skip

    def _begin_from(self, state: dict[str, Any]) -> None:
        self._begin(state["models"])

    def _recall(self, state: dict[str, Any]) -> None:
        self._unit = state["unit"]
        self._scale.recall(state["spreads"], state["counted"])

    @property
    def _assumes(self) -> str:
        ends = self.y_range
        return "" if ends is None else f"responses within [{ends[0]:g}, {ends[1]:g}]"

    def _described(self) -> dict[str, str]:
        ends = self.y_range
        return {"responses": "any" if ends is None else f"{ends[0]:g} to {ends[1]:g}"}


class FollowedScale:
    """The scale of scores of responses, as it follows the spreads of the rows of a stream.

    Parameters
    ----------
    given : LineScale
        Its columns; and the scale of those that learn nothing.
    learns : sequence of bool
        Which scores have a spread that is learnt.
    memory : int
        Rows in the sums, at most; then all of them are halved.
    """

    def __init__(self, given: LineScale, learns: Sequence[bool], memory: int) -> None:
        self.columns, self.learns, self.memory = given.columns, tuple(learns), memory
        self.n, self.sums = 0, np.zeros(len(learns))
        self._given = np.array(given.means)
        self.factors: FloatArray = self._given  # (d,), by which weights are multiplied
        self._floored = LineScale(self.columns, (1.0,) * len(learns), (0.0,) * len(learns))

    def add(self, row: RegressedOutputs) -> None:
        """Count the spreads of a row in."""
        if not any(self.learns):
            return
        for j, spread in enumerate(spreads(row, self.columns)):
            if self.learns[j] and spread is not None:
                self.sums[j] += float(spread[0])
        self.n += 1
        if self.n > self.memory:
            self.n, self.sums = self.n // 2, self.sums / 2
        self._follow()

    def recall(self, sums: FloatArray, n: int) -> None:
        """Take over the sums of a stream that goes on."""
        if sums.shape != self.sums.shape:
            raise InvalidInput("its online.spreads are not one number per score")
        self.sums, self.n = np.array(sums), n
        if n:
            self._follow()

    def planes(self, row: RegressedOutputs) -> Planes:
        """Return the scores of a row as they are; no spread counts for less than its floor."""
        return self._floored(row)

    def _follow(self) -> None:
        parts, exponents = np.frexp(self.sums / self.n)
        nearest = np.ldexp(1.0, np.where(parts >= TURN, exponents, exponents - 1))
        known = np.array(self.learns) & (self.sums > 0)
        factors = np.where(known, nearest, self._given)
        if not np.array_equal(factors, self.factors):
            self.factors = factors
        floors = tuple(np.where(known, LEAST * factors, 0.0).tolist())
        if floors != self._floored.floors:
            self._floored = LineScale(self.columns, self._floored.means, floors)


def _in_a_row(values: Any) -> Any:
    """Return one number as a row of one, anything else as it is."""
    alone = isinstance(values, int | float | np.number) or getattr(values, "ndim", None) == 0
    return np.reshape(to_host(values), (1,)) if alone else values


__all__ = ["OnlineRegression"]
