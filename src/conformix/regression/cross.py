"""Intervals around regressors of folds (CV+): all rows train, and all calibrate."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self, overload

import numpy as np
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from conformix.calibration.cuts import Marginal, SinglePlan, laid_down_alike
from conformix.conformal import simple_fraction, warn_if_large
from conformix.data.outputs import check_groups
from conformix.data.row_data import RowData, check_rows, group_names, row_ids
from conformix.errors import InvalidInput
from conformix.estimators.cross import CrossAverage
from conformix.estimators.surface import named_estimators
from conformix.fit.contributions import Averaged
from conformix.fit.cross import check_fold_scheme, rows_of_folds
from conformix.fit.saved import MAX_MEMORY
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, RandomState, as_generator
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.registry import check_flag
from conformix.regression.average import RegressionAverage
from conformix.regression.bins import resolve_regression_calibration
from conformix.regression.explanation import averaged
from conformix.regression.folds import CrossLine, CrossResponses, LineFold, held_by
from conformix.regression.members import Learning
from conformix.regression.regressed import check_range, check_responses
from conformix.regression.regressor import AroundRegressors, _inside, check_names, taken_by_name
from conformix.regression.rule import LineRule, Responses
from conformix.regression.saved_folds import read_folds, write_folds
from conformix.regression.scores import regression_columns

# Settings that stand in a file; the others are about training.
SAVED = (
    "alpha", "scores", "search", "normalize", "weights", "tune_alpha", "allow_empty", "y_range",
    "calibration",
)  # fmt: skip


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
    calibration : {"marginal", "group"} or `conformix.calibration.PerGroup`
        Among which rows a response is ranked: all, or those of its group (``strata=``), of all
        folds. The proven coverage then holds in every group, with its own numbers of rows and
        folds. Bins of difficulty and importance weights are refused: bins would be others in every
        fold, and what is proven counts rows.
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

    no_report = CrossAverage.no_report

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
        calibration: Any = "marginal",
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
        self.calibration = calibration
        self.sigma = sigma
        self.stack = stack
        self.levels = levels
        self.inner_cv = inner_cv
        self.tune_share = tune_share
        self.random_state = random_state
        self.threads = threads
        self.n_jobs = n_jobs
        self.prefit = prefit

    def fit(
        self, X: Any, y: Any, *, groups: Any = None, strata: Any = None, **fit_params: Any
    ) -> Self:
        """Train the estimators of every fold and calibrate the intervals.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Responses.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold, and on one side of its tuning split.
        strata : array of shape (n,), optional
            The group that coverage is promised in, for ``calibration="group"``.
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
        scheme: Any = self._scheme()
        levels, y_range = self._levels(), check_range(self.y_range)
        columns = regression_columns(self._foretold(levels, trains=True), self.scores)
        rng = as_generator(self.random_state)
        settings = self._average(0, self.weights)._settings()
        warn_if_large(self.alpha)
        d = len(columns)
        fixed = settings.only_weights(d) if self.weights is None else settings.settled(d)
        tunes = fixed is None  # weights that are fixed look at no row, and leave no scale to learn
        n = _num_samples(X)
        data = check_rows(strata, None, n, scheme.needs, scheme.name)
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
            outputs = self._by_name(_safe_indexing(X, held), members)
            folds.append(_fold(average, outputs, y[held], data.take(held)))
        plan: Any = SinglePlan()
        if scheme.name != Marginal.name:
            labels, all_data = rows_of_folds(folds)
            plan = laid_down_alike(
                scheme, labels, all_data, group_names(all_data), n_classes=1, alpha=self.alpha,
                rng=rng,
            )  # fmt: skip
        self.cross_ = CrossLine(tuple(folds), float(self.alpha), y_range, self.allow_empty, plan)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return one number per row, shape (n,): the mean over the folds of what each predicts."""
        X = self._new_rows(X)
        each = [self._middle(X, members) for members in self.fold_estimators_]
        return np.mean(each, axis=0)  # type: ignore[no-any-return]

    @overload
    def predict_interval(
        self, X: Any, *, alpha: float | None = None, strata: Any = None
    ) -> Intervals: ...
    @overload
    def predict_interval(
        self, X: Any, *, alpha: Sequence[float], strata: Any = None
    ) -> NestedIntervals: ...

    def predict_interval(
        self, X: Any, *, alpha: float | Sequence[float] | None = None, strata: Any = None
    ) -> Intervals | NestedIntervals:
        """Return the prediction intervals.

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        alpha : float or sequence of float, optional
            Another level than the fitted one, with the same weights; several give
            `NestedIntervals`.
        strata : array of shape (n,), optional
            The group of every row, for ``calibration="group"``.
        """
        cross = self._fitted()
        outputs = cross.check(self.outputs(X))
        data = cross.row_data(outputs[0].n, strata)
        found: Any
        if np.ndim(alpha) == 1:  # type: ignore[arg-type]
            found = cross.nested(outputs, alpha, data)  # type: ignore[arg-type]
        else:
            level: Any = cross.alpha if alpha is None else alpha
            simple_fraction(level)
            found = cross.intervals(outputs, level, data)
        found.ids = row_ids(X)
        return found  # type: ignore[no-any-return]

    def outputs(self, X: Any) -> list[Any]:
        """Return what the members of every fold predict of rows: a list, fold after fold.

        Parameters
        ----------
        X : like in `fit`
            Features of rows.
        """
        X = self._new_rows(X)
        return [self._by_name(X, members) for members in self.fold_estimators_]

    def save(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Write what was fitted on predictions as JSON, never as a pickle.

        The estimators are not in the file: keep ``fold_estimators_`` as you keep any model, and
        give them to `load`.

        Parameters
        ----------
        path : path
            Usually ``model.json``; large arrays go to an npz of the same name.
        """
        write_folds({name: getattr(self, name) for name in SAVED}, self._fitted(), path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        estimators: Any,
        *,
        max_memory: int | str = MAX_MEMORY,
    ) -> Self:
        """Return the regressor that `save` has written, around its fitted estimators.

        Parameters
        ----------
        path : path
            The JSON file.
        estimators : sequence, one entry per fold
            The ``fold_estimators_`` of the saved regressor, which you keep as you keep any model.
        max_memory : int or str
            Bytes that the files may ask for.
        """
        params, cross = read_folds(path, max_memory=max_memory)
        folds = [Bunch(**dict(named_estimators(one, cls.member))) for one in estimators]
        if len(folds) != len(cross.folds):
            raise InvalidInput(
                f"estimators must be those of the {len(cross.folds)} folds; got {len(folds)}."
            )
        self = cls(dict(folds[0]), cv=len(folds), **params, prefit=False)
        levels = self._levels()
        self.fold_estimators_ = [taken_by_name(fold, levels) for fold in folds]
        for fold in self.fold_estimators_:
            check_names(fold, cross.folds[0].predictor.shapes)
        self.cross_ = cross
        self._features_of(_inside(one for fold in self.fold_estimators_ for one in fold.values()))
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven for these folds."""
        return self._fitted().guarantee

    def _fitted(self) -> CrossLine:
        check_is_fitted(self)
        return self.cross_

    def _check_fitted(self) -> CrossLine:
        return self._fitted()

    def _labelled(self, outputs: Any, y: Any, **rows: Any) -> CrossResponses:
        return CrossResponses.of(self._fitted(), outputs, y, **rows)

    def _averages(self, outputs: Any, y: Any) -> list[Averaged]:
        cross = self._fitted()
        return [
            averaged(fold.predictor, one, y)
            for fold, one in zip(cross.folds, cross.check(outputs), strict=True)
        ]

    def _scheme(self) -> Any:
        """Return the calibration, or refuse what no folds could change."""
        scheme = resolve_regression_calibration(self.calibration)
        check_fold_scheme(
            scheme, what="response", average="ConformalRegressor",
            way_out="give bins that are known beforehand as strata, and say calibration=\"group\"",
        )  # fmt: skip
        return scheme

    def _average(self, seed: int, weights: Any) -> RegressionAverage:
        """Return what chooses the weights of a fold, from rows outside it."""
        shared = ("alpha", "scores", "search", "normalize", "tune_alpha", "threads")
        options = {name: getattr(self, name) for name in shared}
        return RegressionAverage(**options, weights=weights, split="efcp", random_state=seed)


def _fold(average: RegressionAverage, outputs: Any, y: FloatArray, data: RowData) -> LineFold:
    predictor = average.predictor_
    checked = predictor.check(outputs)
    rows = Responses(checked, y, len(predictor.columns))
    rule: LineRule = predictor.fitted.rule  # type: ignore[assignment]
    values = rule.of_true_labels(rows, rows.labels)
    order = np.argsort(values, kind="stable")
    return LineFold(predictor, values[order], data.take(order))


__all__ = ["CrossConformalRegressor", "CrossLine", "held_by"]
