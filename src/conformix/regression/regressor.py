"""Prediction intervals around scikit-learn regressors: of means, of quantiles, or of both."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from conformix.conformal import simple_fraction
from conformix.data.outputs import check_groups
from conformix.data.row_data import row_ids
from conformix.errors import InvalidInput, shown
from conformix.estimators.around import Around, rows_of
from conformix.fit.drift import DriftReport
from conformix.fit.saved import MAX_MEMORY
from conformix.guarantees import Ledger, Verdict
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    RandomState,
    as_generator,
    host_array,
    unmasked,
)
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.registry import check_flag
from conformix.regression.average import RegressionAverage
from conformix.regression.members import (
    Fold,
    Learning,
    Member,
    QuantileMember,
    StackMember,
    is_quantile,
    level_parameter,
    refuse_lone_quantile,
    taken,
    takes,
)
from conformix.regression.regressed import SAME_LEVEL, Regressed
from conformix.regression.scores import regression_columns
from conformix.regression.surface import ResponseSurface

STACK = "stack"


class AroundRegressors(
    ResponseSurface,
    Around,
    RegressorMixin,  # type: ignore[misc]
    _BaseComposition,  # type: ignore[misc]
):
    """What learns members from rows, for intervals on rows apart or in folds."""

    member: ClassVar[str] = "regressor"

    alpha: float
    sigma: Any
    stack: bool
    levels: Sequence[float] | None
    n_jobs: int | None

    def _default(self) -> Any:
        return Ridge()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.sigma, "fit"):
            inner = get_tags(self.sigma).input_tags
            tags.input_tags.sparse &= inner.sparse
            tags.input_tags.allow_nan &= inner.allow_nan
        return tags

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, FloatArray]:
        """Return checked features and responses of `fit`, and note what features look like."""
        X = rows_of(X)
        validate_data(self, X, skip_check_array=True)
        y = _check_y(unmasked(y, "y"), y_numeric=True, estimator=self)
        check_consistent_length(X, y)
        return X, np.asarray(y, dtype=np.float64)

    def _levels(self) -> tuple[float, ...]:
        """Return the levels of quantile regressors, rising."""
        if self.levels is None:
            alpha = float(simple_fraction(self.alpha))
            lows = [low for low in (alpha / 2, 2 * alpha) if low < 0.5 - SAME_LEVEL]
            return tuple(sorted({*lows, 0.5, *(1 - low for low in lows)}))
        levels = sorted(float(level) for level in self.levels)
        if len(levels) < 2 or not all(0 < level < 1 for level in levels):
            raise InvalidInput(
                "levels must be at least two numbers strictly between 0 and 1; got "
                f"{shown(self.levels)}."
            )
        return tuple(levels)

    def _foretold(self, levels: tuple[float, ...], *, trains: bool) -> dict[str, Regressed]:
        """Return a row as the members will predict it, so that scores are refused in time."""
        check_flag(self.stack, "stack")
        trains = trains and not self.prefit
        quantiles = Regressed(quantiles=[[0.0] * len(levels)], levels=levels)
        plain, sized = Regressed(mean=[0.0]), Regressed(mean=[0.0], sigma=[1.0])
        learnt = sized if trains and self.sigma is not None else plain
        told, means = {}, 0
        for name, one in self._named():
            if not trains or isinstance(one, FrozenEstimator):
                refuse_lone_quantile(one, name)
            if isinstance(one, QuantileMember):
                told[name] = Regressed(quantiles=[[0.0] * len(one.levels)], levels=one.levels)
            elif (level_parameter(one) is not None and trains) or takes(one, "quantiles"):
                told[name] = quantiles
            elif getattr(one, "sigma", None) is not None and isinstance(one, Member):
                told[name] = sized
            else:
                told[name] = sized if takes(one, "return_std") else learnt
                means += 1
        if trains and self.stack and means > 1:
            told[self._stack_name()] = learnt
        return told

    def _stack_name(self) -> str:
        """Return what the stack is called: a name that no estimator has."""
        name = STACK
        while name in dict(self._named()):
            name += "_"
        return name

    def _folds(
        self, cv: Any, n: int, units: IntArray | None, rng: np.random.Generator
    ) -> list[Fold]:
        """Return the folds of n training rows; none where nothing is learnt out of fold."""
        means = sum(not is_quantile(one) for _, one in self._named())
        if not means or (self.sigma is None and (means < 2 or not self.stack)):
            return []
        check_folds(cv)
        n_units = n if units is None else len(np.unique(units))
        if n_units < 2:
            return []
        cv, seed = min(int(cv), n_units), int(rng.integers(2**31))
        split: Any = KFold(cv, shuffle=True, random_state=seed)
        if units is not None:
            split = GroupKFold(cv, shuffle=True, random_state=seed)
        return list(split.split(np.empty((n, 1)), groups=units))

    def _members_of(self, rows: Learning, params: dict[str, dict[str, Any]]) -> Bunch:
        """Return the fitted members by name, and their stack."""
        named = self._named()
        jobs = (delayed(rows.member)(one, params[name]) for name, one in named)
        found = Parallel(n_jobs=self.n_jobs)(jobs)
        names = [name for name, _ in named]
        members: dict[str, Member] = dict(zip(names, (one for one, _ in found), strict=True))
        held = dict(zip(names, (means for _, means in found), strict=True))
        stack = rows.stack(members, held) if self.stack else None
        if stack is not None:
            members[self._stack_name()] = stack
        return Bunch(**members)

    def _by_name(self, X: Any, members: Bunch) -> Any:
        """Return what members predict of checked rows; of one without a name that alone."""
        by_name = {name: member.regressed(X) for name, member in members.items()}
        return by_name[""] if set(by_name) == {""} else by_name

    def _middle(self, X: Any, members: Bunch) -> FloatArray:
        """Return one number per checked row: the stack's, or the mean over means or medians."""
        stacks = [one for one in members.values() if isinstance(one, StackMember)]
        means = [one for one in members.values() if not isinstance(one, QuantileMember)]
        some = stacks or means or list(members.values())
        return np.mean([one.predict(X) for one in some], axis=0)  # type: ignore[no-any-return]


class ConformalRegressor(AroundRegressors):
    """A scikit-learn regressor that also gives prediction intervals.

    `fit` trains the estimators on one part of the rows and gives their predictions on the rest to
    `conformix.RegressionAverage`, which chooses weights and threshold. Beside every mean it learns,
    on the training part too, how large its residuals are, from residuals out of fold; of several
    means it makes a stack.

    Parameters
    ----------
    estimators : regressor, list, list of (name, regressor) or mapping by name, optional
        Whose predictions are conformalised; by default Ridge(). Regressors of a list without names
        are called after their classes. Those of quantiles are recognised: boosting with
        ``loss="quantile"`` and `QuantileRegressor`, also at the end of a pipeline, are trained once
        per level; of any whose `predict` takes ``quantiles=`` the levels are asked. Already fitted
        ones, trained on other rows than these, come with ``prefit=True`` or in a `FrozenEstimator`;
        when all are, every row calibrates.
    alpha, scores, split, search, normalize, weights, tune_alpha, allow_empty, guarantee, delta
        As in `conformix.RegressionAverage`, and so are calibration, y_range and threads.
    sigma : "auto", regressor or None
        What learns the size of the residuals of every mean: ``auto`` is a forest of the features,
        or a clone of the estimator itself where these are not numbers; None learns none. An
        estimator whose `predict` has ``return_std`` says it itself.
    stack : bool
        Whether several estimators of means have a non-negative stack beside them, which `predict`
        then returns.
    levels : sequence of float, optional
        Levels of quantile regressors; by default alpha/2, 2 alpha, 1/2, and the mirror images.
    cv : int
        Folds of the training part, by which means and residuals are out of fold.
    calibration_share : float
        Share of the rows (or groups) set aside for calibration.
    random_state : int, Generator or None
        Draws the calibration rows, the folds and the split.
    prefit : bool, optional
        As in `conformix.ConformalClassifier`: True takes the estimators as they are. Nothing trains
        then, so that no sigma is learnt and there is no stack. A fitted model of the median counts
        as one of a mean; of one other quantile it is refused, since scores of quantiles need two:
        ``conformix.regression.members.QuantileMember((low, high), (0.05, 0.95))`` holds both.
    n_jobs : int or None
        Estimators that are trained at the same time, by joblib; as in scikit-learn.

    Attributes
    ----------
    estimators_ : Bunch
        The fitted members by name, each with `predict` and `regressed`; their ``estimator`` (of
        means) or ``estimators`` (of quantiles) are scikit-learn's.
    conformal_ : RegressionAverage
        What was fitted on their predictions.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sklearn.linear_model import QuantileRegressor, Ridge
    >>> X, y = make_regression(1200, 5, noise=10.0, random_state=0)
    >>> reg = ConformalRegressor(
    ...     {"ridge": Ridge(), "quantiles": QuantileRegressor(alpha=0.0)}, alpha=0.1, random_state=0
    ... ).fit(X[:900], y[:900])
    >>> reg.predict_interval(X[900:])
    Intervals(300 intervals, mean width ...)
    >>> reg.conformal_.score_names_[:3], reg.guarantee_.kind
    (('ridge.abs', 'ridge.norm', 'quantiles.cqr(low=0.05)'), 'exact')
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        alpha: float = 0.1,
        scores: Any = "auto",
        split: Any = "vfcp",
        search: Any = "auto",
        normalize: Any = "auto",
        weights: Any = None,
        tune_alpha: Any = None,
        allow_empty: bool = True,
        guarantee: str = "marginal",
        delta: float = 0.1,
        calibration: Any = "marginal",
        y_range: Any = None,
        sigma: Any = "auto",
        stack: bool = True,
        levels: Sequence[float] | None = None,
        cv: int = 5,
        calibration_share: float = 0.4,
        random_state: RandomState = None,
        threads: int | None = None,
        prefit: bool | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.alpha = alpha
        self.scores = scores
        self.split = split
        self.search = search
        self.normalize = normalize
        self.weights = weights
        self.tune_alpha = tune_alpha
        self.allow_empty = allow_empty
        self.guarantee = guarantee
        self.delta = delta
        self.calibration = calibration
        self.y_range = y_range
        self.sigma = sigma
        self.stack = stack
        self.levels = levels
        self.cv = cv
        self.calibration_share = calibration_share
        self.random_state = random_state
        self.threads = threads
        self.prefit = prefit
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_calibration: Any = None,
        y_calibration: Any = None,
        X_test: Any = None,
        groups: Any = None,
        strata: Any = None,
        calibration_weight: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Train the estimators and calibrate the intervals.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Responses.
        X_calibration, y_calibration : optional
            Calibration rows of your own; then all of X trains.
        X_test : optional
            Features of the test rows, for the transductive splits.
        groups : array of shape (n,), optional
            Rows of one group stay on one side of every split, and in one fold of the training part.
        strata, calibration_weight : arrays with one entry per calibration row, optional
            Group and importance, for ``calibration="group"`` and ``"weighted"``. Where this method
            splits X, they have one entry per row of X.
        **fit_params
            Passed to the estimators' `fit`, such as ``sample_weight``; arrays with one entry per
            row are split like X. With scikit-learn's metadata routing each estimator gets what it
            has requested (`set_fit_request`), else all get all.
        """
        X, y = self._training_rows(X, y)
        self._average(np.random.default_rng(0))._settings()  # refused before any training
        self._check_prefit()
        levels = self._levels()
        rng = as_generator(self.random_state)
        units = check_groups(groups, len(y))
        train, calibrate = self._rows(_num_samples(X), rng, units, X_calibration)
        regression_columns(self._foretold(levels, trains=len(train) > 0), self.scores)
        if len(train) and not self.prefit:
            params = self._routed(X, fit_params, train)
            learning = Learning(
                _safe_indexing(X, train), y[train],
                self._folds(self.cv, len(train), None if units is None else units[train], rng),
                levels, self.sigma, int(rng.integers(2**31)),
            )  # fmt: skip
            self.estimators_ = self._members_of(learning, params)
        else:
            self.estimators_ = taken_by_name(dict(self._named()), levels)
        apart = X_calibration is not None
        rows = slice(None) if apart else calibrate
        y_cal = y[calibrate]
        if y_calibration is not None:
            y_cal = column_or_1d(host_array(y_calibration, "y_calibration"))
        self.conformal_ = self._average(rng).fit(
            self._by_name(
                X_calibration if apart else _safe_indexing(X, calibrate), self.estimators_
            ),
            y_cal,
            test=None if X_test is None else self._by_name(X_test, self.estimators_),
            groups=None if units is None or apart else units[calibrate],
            strata=None if strata is None else host_array(strata, "strata")[rows],
            sample_weight=None
            if calibration_weight is None
            else host_array(calibration_weight, "calibration_weight")[rows],
        )
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return one number per row, shape (n,).

        That of the stack where there is one; else the mean over the estimators of means, or over
        the medians where all predict quantiles.
        """
        return self._middle(self._new_rows(X), self.estimators_)

    @overload
    def predict_interval(self, X: Any, *, alpha: float | None = None, **rows: Any) -> Intervals: ...
    @overload
    def predict_interval(
        self, X: Any, *, alpha: Sequence[float], **rows: Any
    ) -> NestedIntervals: ...

    def predict_interval(
        self, X: Any, *, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> Intervals | NestedIntervals:
        """Return the prediction intervals.

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        alpha : float or sequence of float, optional
            Another level than the fitted one; several give `NestedIntervals`.
        **rows
            Given on to `RegressionAverage.predict_interval`: what the calibration asks of new rows.
        """
        found = self._fitted().predict_interval(self.outputs(X), alpha=alpha, **rows)  # type: ignore[arg-type]
        found.ids = row_ids(X)
        return found

    def outputs(self, X: Any) -> Regressed | dict[str, Regressed]:
        """Return what the fitted members predict of rows.

        Parameters
        ----------
        X : like in `fit`
            Features of rows.

        Returns
        -------
        Regressed, or a mapping of such by name
            As `conformix.RegressionAverage` takes it; of a single estimator without a name one
            alone.
        """
        return self._by_name(self._new_rows(X), self.estimators_)  # type: ignore[no-any-return]

    def verdict(self, X: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Verdict:
        """Measure the coverage of labelled rows, and say whether it is less than chance allows.

        Parameters
        ----------
        X, y, alpha, **rows
            As in `evaluate`.
        """
        return self._fitted().verdict(self.outputs(X), y, alpha=alpha, **rows)

    def check_drift(self, X: Any, y: Any, *, level: float = 0.01, **rows: Any) -> DriftReport:
        """Ask whether fresh labelled rows are exchangeable with the calibration rows.

        Parameters
        ----------
        X, y
            Fresh labelled rows, not used in `fit`.
        level : float
            Probability of a false alarm, at most.
        **rows
            As in `predict_interval`.
        """
        return self._fitted().check_drift(self.outputs(X), y, level=level, **rows)

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
        estimators : mapping of str to member
            The ``estimators_`` of the saved regressor, which you keep as you keep any model: others
            would have scores of another law, and nothing would be promised.
        max_memory : int or str
            Bytes that the files may ask for.
        """
        average = RegressionAverage.load(path, max_memory=max_memory)
        shared = set(average.get_params()) & set(cls._get_param_names())
        self = cls(estimators, **{name: getattr(average, name) for name in shared}, prefit=True)
        levels = self._levels()
        self.estimators_ = taken_by_name(dict(self._named()), levels)
        check_names(self.estimators_, average.predictor_.shapes)
        self.conformal_ = average
        self._features_of(_inside(self.estimators_.values()))
        return self

    @property
    def guarantee_(self) -> Ledger:
        """What holds for the intervals."""
        return self._fitted().guarantee_

    def _fitted(self) -> RegressionAverage:
        check_is_fitted(self)
        return self.conformal_

    def _average_of_scores(self) -> RegressionAverage:
        return self._fitted()

    def _average(self, rng: np.random.Generator) -> RegressionAverage:
        own = set(BaseEstimator.get_params(self, deep=False))
        names = set(RegressionAverage().get_params()) & own
        options = {name: getattr(self, name) for name in names}
        return RegressionAverage(**(options | {"random_state": int(rng.integers(2**31))}))


def taken_by_name(estimators: Mapping[str, Any], levels: tuple[float, ...]) -> Bunch:
    """Return estimators that are fitted already as members, by name."""
    return Bunch(**{name: taken(one, levels, name) for name, one in estimators.items()})


def check_names(estimators: Bunch, shapes: Mapping[str, Any]) -> None:
    """Refuse estimators that are not called as those that a file was calibrated with."""
    if set(estimators) != set(shapes):
        raise InvalidInput(
            f"estimators must be called {', '.join(map(repr, shapes))}, as in the saved "
            f"regressor; got {', '.join(map(repr, estimators))}."
        )


def check_folds(cv: Any) -> None:
    """Refuse what is no number of folds."""
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise InvalidInput(f"cv must be a number of folds, 2 or more; got {cv!r}.")


def _inside(members: Any) -> list[Any]:
    """Return the estimators of scikit-learn that members hold."""
    held = [
        getattr(one, "estimators", None) or [getattr(one, "estimator", None)] for one in members
    ]
    return [one for some in held for one in some if one is not None]
