"""Which scores set the two ends of an interval, and in what shares.

At an end the averaged score ``w_1 s_1(y) + ... + w_d s_d(y)`` is the threshold, and near it every
score is a straight line. Were score j to ask for a little more there, the end would move by
``w_j slope_j / sum_k w_k slope_k`` of what it would move by under score j alone: its **share**. A
slope is that outwards, so that a score whose centre lies beyond the end has a negative one: it
pulls the end its way. Shares add up to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conformix.conformal import conformal_rank, kth_largest, simple_fraction
from conformix.data.row_data import RowData
from conformix.errors import InvalidInput
from conformix.fit.contributions import Averaged
from conformix.kernels.arrays import FloatArray, is_tensor, to_host
from conformix.regression.bands import widths
from conformix.regression.planes import Planes
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import Regressed, RegressedOutputs, check_responses
from conformix.regression.rule import LineRule
from conformix.tables import Table

# Scores that a sentence names; shares below the least are among the others.
MOST_NAMED, LEAST_SHARE = 3, 0.005


@dataclass(frozen=True, eq=False)
class IntervalExplanation:
    """Why the interval of one row ends where it does; its repr is a sentence and a table.

    Parameters
    ----------
    row : int
        Which row.
    lower, upper : float
        The ends of its interval, as predicted.
    score_names : tuple of str
        Names of the d scores.
    weights : array of shape (2, d)
        Of the lower and the upper end; one row twice except under split ``"exact"``, where every
        end may have weights of its own.
    parts : array of shape (2, d)
        ``w_j s_j`` at the ends; they add up to the thresholds.
    shares : array of shape (2, d)
        ``w_j slope_j / sum_k w_k slope_k``, slopes outwards: how much of what a score asks for is
        passed on to the end. They add up to 1; NaN where no score sets an end.
    thresholds : array of shape (2,)
        What the averaged score may reach.
    why : pair of str
        What sets each end where scores do not; empty where they do.
    y : float or None
        The response, where it is known.
    alpha : float
        The level.

    Examples
    --------
    >>> import conformix as cx
    >>> model = cx.Regressed(mean=[0.0, 0.0, 0.0, 1.0], sigma=[1.0, 2.0, 1.0, 1.0])
    >>> cp = cx.RegressionAverage(("abs", "norm"), alpha=0.4, weights=[0.5, 0.5])
    >>> cp.fit(model, [1.0, -2.0, 0.5, 3.0]).explain(model, 1).sentence
    'Row 1: from -2 to 2 at alpha = 0.4; abs (67 %) and norm (33 %) set both ends.'
    """

    row: int
    lower: float
    upper: float
    score_names: tuple[str, ...]
    weights: FloatArray
    parts: FloatArray
    shares: FloatArray
    thresholds: FloatArray
    why: tuple[str, str]
    y: float | None
    alpha: float

    @property
    def sentence(self) -> str:
        """What sets the ends, in one sentence."""
        first = f"Row {self.row}: "
        if self.lower > self.upper:
            nowhere = "the averaged score is nowhere as low as its threshold"
            return f"{first}empty at alpha = {self.alpha:g}, since {nowhere}.{self._truth()}"
        ends = f"from {self.lower:.4g} to {self.upper:.4g} at alpha = {self.alpha:g}"
        told = [self._set_by(end) for end in (0, 1)]
        if told[0] == told[1] and not any(self.why):
            setting = f"{told[0]} set{'s' if ' and ' not in told[0] else ''} both ends"
        else:
            named = zip(("lower", "upper"), told, self.why, strict=True)
            setting = ", ".join(
                f"the {side} end {why or f'is set by {by}'}" for side, by, why in named
            )
        return f"{first}{ends}; {setting}.{self._truth()}"

    def _set_by(self, end: int) -> str:
        shares = self.shares[end]
        if self.why[end] or np.isnan(shares).any():
            return ""
        order = np.argsort(-np.abs(shares), kind="stable")
        named = [j for j in order if abs(shares[j]) >= LEAST_SHARE][:MOST_NAMED]
        told = [f"{self.score_names[j]} ({100 * shares[j]:.0f} %)" for j in named]
        rest = float(shares.sum() - shares[named].sum())
        if abs(rest) >= LEAST_SHARE:
            told.append(f"{len(shares) - len(named)} others ({100 * rest:.0f} %)")
        return " and ".join([", ".join(told[:-1]), told[-1]]) if len(told) > 1 else told[0]

    def _truth(self) -> str:
        if self.y is None:
            return ""
        place = "inside"
        if self.lower > self.upper:
            place = "outside, as every number does"
        elif self.y < self.lower:
            place = f"{self.lower - self.y:.4g} below the lower end"
        elif self.y > self.upper:
            place = f"{self.y - self.upper:.4g} above the upper end"
        return f" The response, {self.y:.4g}, lies {place}."

    def table(self) -> Table:
        """Return weight, part and share of every score at both ends, for a terminal or a page."""
        rows = tuple(
            (name, *(
                f"{value:.4g}"
                for end in (0, 1)
                for value in (self.weights[end, j], self.parts[end, j], self.shares[end, j])
            ))
            for j, name in enumerate(self.score_names)
        )  # fmt: skip
        sums = (
            "sum",
            *(
                f"{value:.4g}"
                for end in (0, 1)
                for value in (
                    self.weights[end].sum(), self.parts[end].sum(), self.shares[end].sum(),
                )
            ),
        )  # fmt: skip
        sides = [
            f"{what}, {side}" for side in ("lower", "upper") for what in ("weight", "part", "share")
        ]
        return Table(self.sentence, ("score", *sides), (*rows, sums))

    def __repr__(self) -> str:
        return self.table().text()


def in_host_memory(outputs: RegressedOutputs) -> RegressedOutputs:
    """Return what models predict as arrays: words and pages are made of these."""

    def moved(model: Regressed) -> Regressed:
        parts = {part: getattr(model, part) for part in model.has}
        if not any(map(is_tensor, parts.values())):
            return model
        levels = {} if model.levels is None else {"levels": model.levels}
        return Regressed(**{part: to_host(values) for part, values in parts.items()}, **levels)

    return RegressedOutputs({name: moved(model) for name, model in outputs.by_name.items()})


class End(NamedTuple):
    """One end of the interval of a row under some weights, before it is cut to a range."""

    weights: FloatArray
    threshold: float
    at: float
    planes: Planes
    floored: bool  # whether only a point was let in that the threshold leaves out


def explain_interval(
    predictor: LinePredictor,
    outputs: Any,
    i: int = 0,
    *,
    y: Any = None,
    alpha: float | None = None,
    **rows: Any,
) -> IntervalExplanation:
    """Return which scores set the ends of the interval of row i.

    Parameters
    ----------
    predictor : LinePredictor
        What was fitted.
    outputs : like in ``predict_interval``
        What the models predict of rows.
    i : int
        Which row.
    y : array of shape (n,), or one response, optional
        The truth, to be placed.
    alpha : float, optional
        Another level than the fitted one.
    **rows
        As in ``predict_interval``.
    """
    checked = in_host_memory(predictor.check(outputs))
    if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < checked.n:
        raise InvalidInput(f"i must be a row from 0 to {checked.n - 1}; got {i!r}.")
    level = float(simple_fraction(predictor.alpha if alpha is None else alpha))
    data = predictor.row_data(checked, **rows).take(slice(int(i), int(i) + 1))
    one = checked.rows(np.array([int(i)]))
    made = predictor.predict_at(one, level, data)
    lower, upper = made[0]
    pair = _ends(predictor, one, level, data)
    names = tuple(str(column) for column in predictor.columns)
    d, empty = len(names), lower > upper
    weights, parts, shares = np.empty((3, 2, d))
    thresholds, why = np.empty(2), ["", ""]
    for side, (end, told) in enumerate(zip(pair, (lower, upper), strict=True)):
        weights[side], thresholds[side] = end.weights, end.threshold
        why[side] = "" if empty else _instead(end, told, side)
        parts[side], shares[side] = np.nan, np.nan
        if np.isfinite(told):
            parts[side] = (end.weights * end.planes.scores(np.array([told])))[0]
        if not empty and not why[side]:
            shares[side] = end_shares(end.planes, end.weights, np.array([told]), side)[0]
    truth = None
    if y is not None:
        one_number = np.ndim(y) == 0
        truth = float(check_responses([y] if one_number else y, 1 if one_number else checked.n)[
            0 if one_number else int(i)
        ])  # fmt: skip
    return IntervalExplanation(
        int(i), float(lower), float(upper), names, weights, parts, shares, thresholds,
        (why[0], why[1]), truth, level,
    )  # fmt: skip


def _instead(end: End, told: float, side: int) -> str:
    """Return what sets an end where scores do not; nothing where they do."""
    if np.isinf(told):
        return "is none"
    if told != end.at:
        return "is that of y_range"
    return "is where the average is lowest" if end.floored else ""


def _ends(
    predictor: LinePredictor, one: RegressedOutputs, alpha: float, data: RowData
) -> tuple[End, End]:
    """Return the lower and the upper end of one row, with the weights that set each."""
    rules = list(_rules(predictor, one, alpha, data))
    ends = np.array([rule.intervals(planes, -cut) for rule, cut, planes in rules])[:, :, 0]

    def end(side: int) -> End:
        place = int(np.argmax(ends[:, 1]) if side else np.argmin(ends[:, 0]))
        rule, threshold, planes = rules[place]
        floored = not rule.allow_empty and _lowest(rule, planes) > threshold
        return End(rule.weights, threshold, float(ends[place, side]), planes, floored)

    return end(0), end(1)


def _lowest(rule: LineRule, planes: Planes) -> float:
    knots = planes.centre[0]
    return float(min(planes.combined(rule.weights, np.array([knot]))[0] for knot in knots))


def _rules(
    predictor: LinePredictor, one: RegressedOutputs, alpha: float, data: RowData
) -> Iterator[tuple[LineRule, float, Planes]]:
    """Yield the rules that have a say in the interval of a row, with its threshold and planes.

    One, or under split "exact" all whose weights some response selects.
    """
    fitted = predictor.fitted
    if fitted.nested:
        threshold = -float(np.asarray(fitted.at(alpha, data)).reshape(-1)[0])
        yield fitted.rule, threshold, fitted.rule.transform(one)
        return
    for scale, _ in fitted.scales(one):
        planes = scale(one)
        for i in np.flatnonzero(fitted.hull(scale, alpha).survivors(planes)[0]):
            cuts = fitted.cuts_under(fitted.weights[i], scale)
            threshold = -float(np.asarray(cuts.at(alpha, conformal_rank, data)).reshape(-1)[0])
            yield LineRule(scale, fitted.weights[i], fitted.allow_empty), threshold, planes


def end_shares(planes: Planes, weights: FloatArray, at: FloatArray, side: int) -> FloatArray:
    """Return the shares (n, d) of every score in ends (n,): of lower (0) or upper (1) ones.

    Examples
    --------
    >>> planes = Planes([[0.0, 9.0]], [[0.0, 0.0]], [[1.0, 1.0]], [[3.0, 1.0]])
    >>> end_shares(planes, np.array([0.5, 0.5]), np.array([5.0]), 1)  # the second pulls upwards
    array([[ 1.5, -0.5]])
    """
    ends = at[:, None]
    if side:
        slopes = np.where(ends >= planes.centre, planes.above, -planes.below)
    else:
        slopes = np.where(ends <= planes.centre, planes.below, -planes.above)
    pull = weights * slopes
    total = pull.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, pull / total, np.nan)


def averaged(predictor: LinePredictor, outputs: Any, y: Any) -> Averaged:
    """Return what an average of responses is made of, for `conformix.contributions`.

    The influence of a score is the mean of its shares in the ends of these rows.
    """
    checked = in_host_memory(predictor.check(outputs))
    responses = check_responses(y, checked.n)
    rule: LineRule = predictor.fitted.rule
    planes = rule.transform(checked)

    def ends(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        own = LineRule(rule.transform, weights, rule.allow_empty)
        values = own.of_planes(planes, responses)
        threshold = kth_largest(values, conformal_rank(len(values), predictor.alpha))
        return own.intervals(planes, threshold, predictor.y_range)

    def mean_width(weights: FloatArray) -> float:
        return float(widths(*ends(weights)).mean())

    both = [
        end_shares(planes.rows(np.isfinite(at)), rule.weights, at[np.isfinite(at)], side)
        for side, at in enumerate(ends(rule.weights))
    ]
    shares = np.concatenate(both)
    known = shares[~np.isnan(shares).any(axis=1)]
    influence = known.mean(axis=0) if len(known) else np.zeros(planes.d)
    return Averaged(predictor.columns, rule.weights, influence, mean_width, "intervals")
