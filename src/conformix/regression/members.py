"""What fitted regressors of scikit-learn predict of rows: means with sigmas, or quantiles.

A quantile regressor is one whose loss has a level among its parameters (boosting with
``loss="quantile"``, `QuantileRegressor`, also as the last step of a pipeline), of which a clone is
fitted per level; or one whose `predict` takes ``quantiles=``. Everything else predicts means. Sigma
of a mean is another regressor's prediction of its absolute residual, learnt from residuals **out of
fold**: those of rows that a model was trained on are too small, where it is flexible to nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, check_is_fitted

from conformix.errors import InvalidInput
from conformix.kernels.arrays import FloatArray, IntArray
from conformix.regression.regressed import SAME_LEVEL, Regressed

# No sigma is predicted below this share of the mean absolute residual.
LEAST_SIGMA = 0.1
Fold = tuple[IntArray, IntArray]
"""Rows that train, and rows that are left out."""


def level_parameter(estimator: Any) -> str | None:
    """Return the parameter that holds the level of a quantile regressor; None of any other.

    Examples
    --------
    >>> from sklearn.ensemble import GradientBoostingRegressor
    >>> from sklearn.linear_model import QuantileRegressor, Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> level_parameter(GradientBoostingRegressor(loss="quantile")), level_parameter(Ridge())
    ('alpha', None)
    >>> level_parameter(make_pipeline(QuantileRegressor()))
    'quantileregressor__quantile'
    """
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        inner = level_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    if not hasattr(estimator, "get_params"):
        return None
    params = estimator.get_params(deep=False)
    of_loss = params.get("loss", params.get("objective")) == "quantile"
    if "quantile" in params and ("loss" not in params or of_loss):
        return "quantile"
    return "alpha" if of_loss and "alpha" in params else None


def takes(estimator: Any, option: str) -> bool:
    """Whether `predict` has an option of this name.

    Examples
    --------
    >>> from sklearn.linear_model import BayesianRidge
    >>> takes(BayesianRidge(), "return_std"), takes(BayesianRidge(), "quantiles")
    (True, False)
    """
    try:
        return option in inspect.signature(estimator.predict).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def lone_level(estimator: Any) -> float | None:
    """Return the level of a regressor that predicts one quantile as it is; None of any other.

    Examples
    --------
    >>> from sklearn.linear_model import QuantileRegressor, Ridge
    >>> lone_level(FrozenEstimator(QuantileRegressor(quantile=0.9))), lone_level(Ridge())
    (0.9, None)
    """
    inner = estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator
    level = None if takes(inner, "quantiles") else level_parameter(inner)
    return None if level is None else float(inner.get_params()[level])


def refuse_lone_quantile(estimator: Any, name: str = "") -> None:
    """Refuse a fitted regressor of one quantile, unless that is the median."""
    level = lone_level(estimator)
    if level is not None and abs(level - 0.5) >= SAME_LEVEL:
        raise InvalidInput(
            f"{name or type(estimator).__name__} is fitted for one quantile, at {level:g}, which "
            "is neither a mean nor a median, and scores of quantiles need two; give both models as "
            "conformix.regression.members.QuantileMember((low, high), (0.05, 0.95)), or leave "
            "prefit out, so that one is trained per level."
        )


def is_quantile(estimator: Any) -> bool:
    """Whether a regressor predicts quantiles."""
    return level_parameter(estimator) is not None or takes(estimator, "quantiles")


class Member(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted regressor as intervals need it; a clone of it stays fitted."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Member:
        return self

    def predict(self, X: Any) -> FloatArray:
        """Return one number per row: the mean, or the middle quantile."""
        raise NotImplementedError

    def regressed(self, X: Any) -> Regressed:
        """Return all that is predicted of rows."""
        raise NotImplementedError


def _numbers(values: Any) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


class Sigma(NamedTuple):
    """A fitted regressor of absolute residuals, and the least that it may say."""

    estimator: Any
    least: float

    def __call__(self, X: Any) -> FloatArray:
        """Return the predicted sizes of residuals, (n,)."""
        return np.maximum(_numbers(self.estimator.predict(X)), self.least)


@dataclass(frozen=True, eq=False)
class MeanMember(Member):
    """A regressor of means, perhaps with one of the sizes of its residuals.

    Parameters
    ----------
    estimator : regressor
        Fitted. One whose `predict` has ``return_std`` says sigma itself.
    sigma : Sigma or None
        What says the size of a residual.
    """

    estimator: Any
    sigma: Sigma | None = None

    def predict(self, X: Any) -> FloatArray:
        """Return the means, (n,)."""
        return _numbers(self.estimator.predict(X))

    def regressed(self, X: Any) -> Regressed:
        """Return means and, where they are known, sigmas."""
        if self.sigma is not None:
            return Regressed(mean=self.predict(X), sigma=self.sigma(X))
        if takes(self.estimator, "return_std"):
            mean, std = self.estimator.predict(X, return_std=True)
            return Regressed(mean=_numbers(mean), sigma=_numbers(std))
        return Regressed(mean=self.predict(X))


@dataclass(frozen=True, eq=False)
class QuantileMember(Member):
    """Quantiles of one regressor that takes levels, or of one regressor per level.

    Parameters
    ----------
    estimators : tuple of regressors
        Fitted: one per level, or one alone whose `predict` takes ``quantiles=``.
    levels : tuple of float
        The levels, rising.
    """

    estimators: tuple[Any, ...]
    levels: tuple[float, ...]

    def predict(self, X: Any) -> FloatArray:
        """Return the quantiles (n,) at the level nearest to 1/2."""
        middle = int(np.argmin(np.abs(np.array(self.levels) - 0.5)))
        return self._quantiles(X)[:, middle]  # type: ignore[no-any-return]

    def regressed(self, X: Any) -> Regressed:
        """Return the quantiles at all levels."""
        return Regressed(quantiles=self._quantiles(X), levels=self.levels)

    def _quantiles(self, X: Any) -> FloatArray:
        if takes(self.estimators[0], "quantiles"):
            said = np.asarray(self.estimators[0].predict(X, quantiles=list(self.levels)))
            return said.reshape(len(said), len(self.levels))
        return np.column_stack([_numbers(one.predict(X)) for one in self.estimators])


@dataclass(frozen=True, eq=False)
class StackMember(Member):
    """A non-negative sum of the means of other members, learnt from their means out of fold.

    Parameters
    ----------
    members : mapping of str to MeanMember
        Whose means are added up.
    weights : LinearRegression
        How.
    sigma : Sigma or None
        What says the size of a residual.
    """

    members: Mapping[str, Member]
    weights: Any
    sigma: Sigma | None = None

    def predict(self, X: Any) -> FloatArray:
        """Return the means, (n,)."""
        each = np.column_stack([member.predict(X) for member in self.members.values()])
        return _numbers(self.weights.predict(each))

    def regressed(self, X: Any) -> Regressed:
        """Return means and, where they are known, sigmas."""
        return Regressed(mean=self.predict(X), sigma=None if self.sigma is None else self.sigma(X))


class Learning(NamedTuple):
    """What members learn from: training rows, their folds, and who predicts residuals."""

    X: Any
    y: FloatArray
    folds: Sequence[Fold]
    levels: tuple[float, ...]
    sigma: Any  # "auto", None or a regressor
    seed: int

    def member(self, estimator: Any, params: dict[str, Any]) -> tuple[Member, FloatArray | None]:
        """Return a clone, fitted on all rows, and its means out of fold where these are needed."""
        level = level_parameter(estimator)
        if level is not None:
            fitted = tuple(
                clone(estimator).set_params(**{level: one}).fit(self.X, self.y, **params)
                for one in self.levels
            )
            return QuantileMember(fitted, self.levels), None
        whole = clone(estimator).fit(self.X, self.y, **params)
        if takes(whole, "quantiles"):
            return QuantileMember((whole,), self.levels), None
        held = self.out_of_fold(estimator, params)
        own = takes(whole, "return_std")
        sigma = None if own else self.sizes(estimator, held, params)
        return MeanMember(whole, sigma), held

    def out_of_fold(self, estimator: Any, params: dict[str, Any]) -> FloatArray | None:
        """Return what clones say of rows that did not train them, (n,)."""
        if not self.folds:
            return None
        held = np.empty(len(self.y))
        for train, rest in self.folds:
            some = _check_method_params(self.X, params, indices=train)
            fold = clone(estimator).fit(_safe_indexing(self.X, train), self.y[train], **some)
            held[rest] = _numbers(fold.predict(_safe_indexing(self.X, rest)))
        return held

    def sizes(
        self, estimator: Any, held: FloatArray | None, params: dict[str, Any]
    ) -> Sigma | None:
        """Return a regressor of the absolute residuals of means out of fold."""
        if self.sigma is None or held is None:
            return None
        residuals = np.abs(self.y - held)
        model = self.sigma
        if isinstance(model, str):
            model = self.forest() if is_numeric(self.X) else estimator
        fitted = clone(model).fit(self.X, residuals, **(params if model is estimator else {}))
        return Sigma(fitted, LEAST_SIGMA * float(residuals.mean()))

    def forest(self) -> RandomForestRegressor:
        """Return the regressor of residuals where features are numbers."""
        return RandomForestRegressor(
            100, min_samples_leaf=10, max_features=0.5, random_state=self.seed
        )

    def stack(
        self, members: Mapping[str, Member], held: Mapping[str, FloatArray | None]
    ) -> StackMember | None:
        """Return the stack of the members that have means out of fold; None of one alone."""
        columns = {name: means for name, means in held.items() if means is not None}
        if len(columns) < 2:
            return None
        each = np.column_stack(list(columns.values()))
        weights = LinearRegression(positive=True).fit(each, self.y)
        some = {name: members[name] for name in columns}
        first: Any = next(iter(some.values()))
        said = _numbers(weights.predict(each))
        return StackMember(some, weights, self.sizes(first.estimator, said, {}))


def is_numeric(X: Any) -> bool:
    """Whether features are numbers, column by column.

    Examples
    --------
    >>> is_numeric(np.zeros((2, 2))), is_numeric(np.array([["a"], ["b"]]))
    (True, False)
    """
    values = X if hasattr(X, "dtype") else X[:1].to_numpy()
    return values.dtype.kind in "fiub"


def taken(estimator: Any, levels: tuple[float, ...], name: str = "") -> Member:
    """Return an estimator that is fitted already as a member: as it is, with no sigma learnt.

    A regressor of the median stands for one of a mean.
    """
    if isinstance(estimator, Member):
        return estimator
    check_is_fitted(estimator)
    refuse_lone_quantile(estimator, name)
    if takes(estimator, "quantiles"):
        return QuantileMember((estimator,), levels)
    return MeanMember(estimator)
