"""Intervals around regressors of folds (CV+): all rows train, and all calibrate.

With ``s_f(x, y)`` the averaged score of fold f's models, and f(i) the fold of row i, y is ranked
among all n rows: ``1 + #{i : s_f(i)(x, y) <= s_f(i)(x_i, y_i)}`` (lower fits better). It is in when
that exceeds ``alpha (n + 1)``: where it lies in enough of the n intervals
``{y : s_f(i)(x, y) <= s_f(i)(x_i, y_i)}``. These are nested within a fold and not across folds, so
that the y which are in may leave gaps; the interval is their hull. What is proven is that of
`conformix.fit.cross`, whose argument has no need of classes; a hull only covers more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from conformix.conformal import last_rank_out, simple_fraction, warn_if_large
from conformix.data.outputs import check_groups
from conformix.data.row_data import row_ids
from conformix.errors import InvalidInput
from conformix.fit.cross import NEEDS, CrossRows, cross_coverage
from conformix.fit.evaluation import Evaluation, evaluated
from conformix.guarantees import Guarantee
from conformix.guarantees.statement import at_least
from conformix.intervals import Intervals
from conformix.kernels.arrays import BoolArray, FloatArray, RandomState, as_generator
from conformix.registry import check_flag
from conformix.regression.average import RegressionAverage
from conformix.regression.bands import bands, lowest
from conformix.regression.members import Learning
from conformix.regression.predictor import LinePredictor
from conformix.regression.regressed import RegressedOutputs, check_range, check_responses
from conformix.regression.regressor import AroundRegressors
from conformix.regression.rule import LineRule, Range, Responses, clipped
from conformix.regression.scores import regression_columns

# Ends of intervals that are held at once.
AT_ONCE = 2**20


class LineFold(NamedTuple):
    """The average of one fold, and the scores of its rows, which had no part in it."""

    predictor: LinePredictor
    scores: FloatArray  # (n_f,), lower fits better

    @property
    def rule(self) -> LineRule:
        """How scores become one number."""
        return self.predictor.fitted.rule  # type: ignore[no-any-return]

    def ends(self, outputs: RegressedOutputs) -> tuple[FloatArray, FloatArray]:
        """Return the ends (n_f, m) of the intervals of m rows, one for every row of the fold."""
        planes = self.rule.transform(outputs)
        return bands(planes, self.rule.weights, self.scores[:, None])


@dataclass(frozen=True, eq=False)
class CrossLine:
    """The averages of all folds: all that prediction needs.

    Parameters
    ----------
    folds : tuple of LineFold
        One per fold.
    alpha : float
        The level.
    y_range : pair of float or None
        What every response is assumed to lie within.
    allow_empty : bool
        Whether an interval may be empty; else it holds at least a point where folds fit best.
    """

    folds: tuple[LineFold, ...]
    alpha: float
    y_range: Range | None = None
    allow_empty: bool = True

    @property
    def n(self) -> int:
        """Number of calibration rows, over all folds."""
        return sum(len(fold.scores) for fold in self.folds)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is proven for these folds."""
        share = cross_coverage(self.alpha, [len(fold.scores) for fold in self.folds])
        if share <= 0:
            told = Guarantee("none", "the bound says nothing for folds of this size", NEEDS)
        else:
            told = Guarantee("exact", f"P(y in set) >= {at_least(share)}", NEEDS)
        return told.of_responses(self.y_range)

    def check(self, outputs: Sequence[Any]) -> list[RegressedOutputs]:
        """Return what the members of every fold predict of the same rows, checked."""
        return [
            fold.predictor.check(one) for fold, one in zip(self.folds, outputs, strict=True)
        ]  # fmt: skip

    def intervals(self, outputs: Sequence[RegressedOutputs], alpha: float) -> Intervals:
        """Return the intervals of rows at a level."""
        enough = last_rank_out(self.n, alpha)
        m = outputs[0].n
        lower, upper = np.full(m, -np.inf), np.full(m, np.inf)
        step = max(1, AT_ONCE // self.n)
        for start in range(0, m if enough else 0, step):
            rows = slice(start, start + step)
            some = [one.rows(rows) for one in outputs]
            ends = [fold.ends(one) for fold, one in zip(self.folds, some, strict=True)]
            lows, highs = (np.concatenate(side) for side in zip(*ends, strict=True))
            lower[rows], upper[rows] = held_by(lows, highs, enough)
            if not self.allow_empty:
                self._fill(lower[rows], upper[rows], some)
        return Intervals(*clipped(lower, upper, self.y_range, allow_empty=self.allow_empty))

    def _fill(self, lower: FloatArray, upper: FloatArray, some: list[RegressedOutputs]) -> None:
        """Put a point where folds fit best, in the middle of them, into empty intervals."""
        empty = lower > upper
        if empty.any():
            best = [
                lowest(fold.rule.transform(one), fold.rule.weights)[0]
                for fold, one in zip(self.folds, some, strict=True)
            ]
            lower[empty] = upper[empty] = np.median(best, axis=0)[empty]


def held_by(lower: FloatArray, upper: FloatArray, enough: int) -> tuple[FloatArray, FloatArray]:
    """Return the hull (m,) of what at least `enough` of n closed intervals hold, for m rows.

    Parameters
    ----------
    lower, upper : arrays of shape (n, m)
        The ends; an empty interval is ``(inf, -inf)``.
    enough : int
        How many, at least 1.

    Examples
    --------
    >>> held_by(np.array([[0.0], [1.0], [5.0]]), np.array([[2.0], [6.0], [7.0]]), 2)
    (array([1.]), array([6.]))
    """
    n, m = lower.shape
    full = (lower <= upper).sum(axis=0)
    lows, highs = np.sort(lower, axis=0), np.sort(upper, axis=0)  # empty ones at the ends
    found = np.full((2, m), [[np.inf], [-np.inf]])
    count = np.arange(1, n + 1)
    for row in range(m):
        k = int(full[row])
        starts, stops = lows[:k, row], highs[n - k :, row]
        # At the j-th start j intervals have begun, less those that ended before it; of starts that
        # tie the last counts them all, and has their place.
        begun = count[:k] - np.searchsorted(stops, starts, side="left")
        left = np.flatnonzero(begun >= enough)
        if len(left):
            ended = count[:k][::-1] - (k - np.searchsorted(starts, stops, side="right"))
            right = np.flatnonzero(ended >= enough)
            found[:, row] = starts[left[0]], stops[right[-1]]
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class CrossResponses(CrossRows):
    """Labelled responses that had no part in a fit by folds, to be judged by it."""

    def sets(self, alpha: float) -> Any:
        """Return the intervals of these rows at a level."""
        simple_fraction(alpha)
        predictor: Any = self.predictor
        return predictor.intervals(self.outputs, alpha)

    def bare(self, sets: Any) -> Any:
        """Return intervals as measures take them."""
        return sets

    def hits(self, sets: Any) -> BoolArray:
        """Return whether the responses lie in their intervals, (m,)."""
        return sets.contains(self.y)  # type: ignore[no-any-return]


class CrossConformalRegressor(AroundRegressors):
    """A scikit-learn regressor with intervals by CV+: all rows train, and all calibrate.

    The rows are cut into `cv` folds. Per fold the estimators are trained on the other folds, less a
    share that chooses the fold's weights, and score the fold. One score leaves nothing to choose:
    all the other folds train.

    Parameters
    ----------
    estimators : regressor, list, list of (name, regressor) or mapping by name, optional
        As in `conformix.ConformalRegressor`. Every fold trains clones of them.
    cv : int
        Number of folds; the number of rows gives the jackknife+.
    alpha, scores, search, normalize, weights, tune_alpha, allow_empty, y_range, threads
        As in `conformix.RegressionAverage`.
    sigma, stack, levels
        As in `conformix.ConformalRegressor`.
    inner_cv : int
        Folds of the rows that train a fold, by which residuals and the stack are out of fold.
    tune_share : float
        Share of the rows outside a fold that choose its weights and train nothing.
    random_state : int, Generator or None
        Draws the folds.
    n_jobs : int or None
        Estimators of a fold that are trained at the same time, by joblib.
    prefit : bool, optional
        None or False: every fold trains; None says so where an estimator was fitted already
        (`RefitWarning`).

    Attributes
    ----------
    fold_estimators_ : list of Bunch
        The fitted members of every fold, by name.
    cross_ : CrossLine
        What was fitted on their predictions.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(400, 5, noise=10.0, random_state=0)
    >>> reg = CrossConformalRegressor(sigma=None, alpha=0.1, random_state=0).fit(X[:300], y[:300])
    >>> reg.predict_interval(X[300:])
    Intervals(100 intervals, mean width ...)
    >>> print(reg.guarantee_.statement)
    P(y in set) >= 0.7737
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        cv: int = 5,
        alpha: float = 0.1,
        scores: Any = "auto",
        search: Any = "auto",
        normalize: Any = "auto",
        weights: Any = None,
        tune_alpha: Any = None,
        allow_empty: bool = True,
        y_range: Any = None,
        sigma: Any = "auto",
        stack: bool = True,
        levels: Sequence[float] | None = None,
        inner_cv: int = 5,
        tune_share: float = 0.25,
        random_state: RandomState = None,
        threads: int | None = None,
        n_jobs: int | None = None,
        prefit: bool | None = None,
    ) -> None:
        self.estimators = estimators
        self.cv = cv
        self.alpha = alpha
        self.scores = scores
        self.search = search
        self.normalize = normalize
        self.weights = weights
        self.tune_alpha = tune_alpha
        self.allow_empty = allow_empty
        self.y_range = y_range
        self.sigma = sigma
        self.stack = stack
        self.levels = levels
        self.inner_cv = inner_cv
        self.tune_share = tune_share
        self.random_state = random_state
        self.threads = threads
        self.n_jobs = n_jobs
        self.prefit = prefit

    def fit(self, X: Any, y: Any, *, groups: Any = None, **fit_params: Any) -> Self:
        """Train the estimators of every fold and calibrate the intervals.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Responses.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold, and on one side of its tuning split.
        **fit_params
            As in `ConformalRegressor.fit`.
        """
        X, y = self._training_rows(X, y)
        self._check_prefit()
        if self.prefit:
            raise InvalidInput(
                "prefit=True: the model of a fold must not have seen it, so every fold trains its "
                "own; use ConformalRegressor(prefit=True) for a model that is fitted already."
            )
        check_flag(self.allow_empty, "allow_empty")
        levels, y_range = self._levels(), check_range(self.y_range)
        columns = regression_columns(self._foretold(levels, trains=True), self.scores)
        rng = as_generator(self.random_state)
        settings = self._average(0, self.weights)._settings()
        warn_if_large(self.alpha)
        d = len(columns)
        fixed = settings.only_weights(d) if self.weights is None else settings.settled(d)
        tunes = fixed is None  # weights that are fixed look at no row, and leave no scale to learn
        n = _num_samples(X)
        units = check_groups(groups, n)
        if y_range is not None:
            check_responses(y, n, y_range)
        by_row = np.arange(n) if units is None else units
        self.fold_estimators_, folds = [], []
        for held, tune, train in self._fold_rows(by_row, rng, tunes=tunes):
            apart = None if units is None else units[train]
            rows = Learning(
                _safe_indexing(X, train), y[train],
                self._folds(self.inner_cv, len(train), apart, rng), levels, self.sigma,
                int(rng.integers(2**31)),
            )  # fmt: skip
            members = self._members_of(rows, self._routed(X, fit_params, train))
            chosen = tune if tunes else held
            average = self._average(int(rng.integers(2**31)), fixed)
            average.fit(self._by_name(_safe_indexing(X, chosen), members), y[chosen])
            self.fold_estimators_.append(members)
            folds.append(_fold(average, self._by_name(_safe_indexing(X, held), members), y[held]))
        self.cross_ = CrossLine(tuple(folds), float(self.alpha), y_range, self.allow_empty)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return one number per row, shape (n,): the mean over the folds of what each predicts."""
        X = self._new_rows(X)
        each = [self._middle(X, members) for members in self.fold_estimators_]
        return np.mean(each, axis=0)  # type: ignore[no-any-return]

    def predict_interval(self, X: Any, *, alpha: float | None = None) -> Intervals:
        """Return the prediction intervals.

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        alpha : float, optional
            Another level than the fitted one, with the same weights.
        """
        outputs = self.outputs(X)
        level = self.alpha if alpha is None else alpha
        simple_fraction(level)
        found = self.cross_.intervals(self.cross_.check(outputs), level)
        found.ids = row_ids(X)
        return found

    def outputs(self, X: Any) -> list[Any]:
        """Return what the members of every fold predict of rows: a list, fold after fold.

        Parameters
        ----------
        X : like in `fit`
            Features of rows.
        """
        X = self._new_rows(X)
        return [self._by_name(X, members) for members in self.fold_estimators_]

    def evaluate(self, X: Any, y: Any, *, alpha: float | None = None) -> Evaluation:
        """Measure the intervals of labelled rows; no law of the coverage of folds is known.

        Parameters
        ----------
        X, y
            Labelled rows, not used in `fit`.
        alpha : float, optional
            Another level than the fitted one, not chosen by looking at these responses.
        """
        outputs = self.cross_.check(self.outputs(X))
        responses: Any = check_responses(y, outputs[0].n)
        cross: Any = self.cross_
        checked: Any = outputs
        return evaluated(CrossResponses(cross, checked, responses, {}), alpha)

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven for these folds."""
        check_is_fitted(self)
        return self.cross_.guarantee

    def _average(self, seed: int, weights: Any) -> RegressionAverage:
        """Return what chooses the weights of a fold, from rows outside it."""
        shared = ("alpha", "scores", "search", "normalize", "tune_alpha", "threads")
        options = {name: getattr(self, name) for name in shared}
        return RegressionAverage(**options, weights=weights, split="efcp", random_state=seed)


def _fold(average: RegressionAverage, outputs: Any, y: FloatArray) -> LineFold:
    predictor = average.predictor_
    checked = predictor.check(outputs)
    rows = Responses(checked, y, len(predictor.columns))
    rule: LineRule = predictor.fitted.rule  # type: ignore[assignment]
    return LineFold(predictor, -rule.of_true_labels(rows, rows.labels))
