"""Around estimators of scikit-learn: one or several, their names, their parameters, their rows.

What a conformal classifier and a conformal regressor share: which estimators there are, by name and
as parameters; what is asked of features; which rows train and which calibrate; and fit parameters,
those by row split like the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import _check_method_params, check_is_fitted, validate_data

from conformix.errors import ConformixWarning, InvalidInput, warn
from conformix.estimators.params import KnownParameters
from conformix.estimators.surface import named_estimators
from conformix.kernels.arrays import IntArray, refuse_masked
from conformix.registry import check_flag
from conformix.splits import ValidityFirst


def rows_of(X: Any) -> Any:
    """Return frames as they are, sparse matrices by rows, anything else as an array of rows."""
    if hasattr(X, "iloc") or hasattr(X, "get_column"):
        return X
    if hasattr(X, "tocsr"):
        return X.tocsr()
    refuse_masked(X, "X")
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InvalidInput(
            f"X must have shape (n, p); got shape {rows.shape}. Reshape your data with "
            "X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample."
        )
    return rows


class RefitWarning(ConformixWarning):
    """An estimator that was fitted already is fitted again, on the training rows.

    Examples
    --------
    >>> import conformix as cx
    >>> issubclass(cx.RefitWarning, cx.ConformixWarning)
    True
    """


def is_fitted(estimator: Any) -> bool:
    """Whether an estimator has learnt something that another fit would lose."""
    if isinstance(estimator, FrozenEstimator) or not get_tags(estimator).requires_fit:
        return False
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


class Around(KnownParameters):
    """An estimator that holds others: theirs are its parameters, and its rows train them."""

    member: ClassVar[str]  # what the estimators are
    estimators: Any
    prefit: bool | None
    calibration_share: float  # of an estimator that sets rows aside
    cv: int  # of one with folds
    tune_share: float

    def _default(self) -> Any:
        """Return the estimator to take where none is given."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of named estimators included."""
        params: dict[str, Any] = super().get_params(deep=deep)  # type: ignore[misc]
        for name, estimator in self._members() if deep else ():
            params[name] = estimator
            inner = estimator.get_params() if hasattr(estimator, "get_params") else {}
            params |= {f"{name}__{key}": value for key, value in inner.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of named estimators included."""
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        members = self._members()
        if any(name in params for name, _ in members):
            named = [(name, params.pop(name, one)) for name, one in members]
            if isinstance(self.estimators, Mapping):
                self.estimators = dict(named)
            elif isinstance(self.estimators[0], tuple):
                self.estimators = named
            else:
                self.estimators = [one for _, one in named]
        return super().set_params(**params)  # type: ignore[misc,no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        inner = [get_tags(estimator).input_tags for _, estimator in self._named()]
        tags.input_tags.sparse = all(tag.sparse for tag in inner)
        tags.input_tags.allow_nan = all(tag.allow_nan for tag in inner)
        return tags

    def get_metadata_routing(self) -> Any:
        """Return who asks for what at `fit`: this estimator, and each of the estimators."""
        # The owner's name before scikit-learn 1.8 or so, the owner since: it is only for reading.
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        fits = MethodMapping().add(caller="fit", callee="fit")
        return router.add(
            method_mapping=fits, **{name or "estimator": e for name, e in self._named()}
        )

    def _new_rows(self, X: Any) -> Any:
        """Return features for a prediction, checked against those of `fit`."""
        check_is_fitted(self)
        X = rows_of(X)
        if hasattr(X, "to_frame") and getattr(X, "ndim", 2) == 1:
            raise InvalidInput(
                f"X must be a table of rows; got one row, a {type(X).__name__} of {len(X)} values: "
                "write X.iloc[[0]] for a frame of one row."
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        return X

    def _routed(
        self, X: Any, fit_params: dict[str, Any], rows: IntArray
    ) -> dict[str, dict[str, Any]]:
        """Return the fit parameters of each estimator, those by row on the training rows."""
        names = [name for name, _ in self._named()]
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", **fit_params)
            by_name = {name: routed[name or "estimator"].fit for name in names}
        else:
            by_name = dict.fromkeys(names, fit_params)
        return {n: _check_method_params(X, params, indices=rows) for n, params in by_name.items()}

    def _named(self) -> list[tuple[str, Any]]:
        if self.estimators is None:
            return [("", self._default())]
        return named_estimators(self.estimators, self.member)

    def _members(self) -> list[tuple[str, Any]]:
        """Return the estimators that have names; none where `fit` will say what is wrong."""
        if not isinstance(self.estimators, list | tuple | Mapping):
            return []
        try:
            return self._named()
        except InvalidInput:
            return []

    def _check_prefit(self) -> None:
        """Say that a fitted estimator is fitted again, unless somebody said so before."""
        if self.prefit is not None:
            check_flag(self.prefit, "prefit")
            return
        names = [name or type(one).__name__ for name, one in self._named() if is_fitted(one)]
        if names:
            warn(
                f"{', '.join(names)}: fitted already, and fitted again on the training rows; say "
                "prefit=True to take it as it is, or prefit=False to have it trained anew.",
                RefitWarning,
            )

    def _features_of(self, estimators: Any) -> None:
        """Take over what the fitted estimators say of the features."""
        for name in ("n_features_in_", "feature_names_in_"):
            value = next((getattr(e, name) for e in estimators if hasattr(e, name)), None)
            if value is not None:
                setattr(self, name, value)

    def _rows(
        self, n: int, rng: np.random.Generator, groups: IntArray | None, X_calibration: Any
    ) -> tuple[IntArray, IntArray]:
        """Return the rows that train and the rows that calibrate."""
        every = np.arange(n)
        if X_calibration is not None:
            return every, every[:0]
        frozen = (isinstance(estimator, FrozenEstimator) for _, estimator in self._named())
        if self.prefit or all(frozen):
            return every[:0], every
        if n < 4:
            raise InvalidInput(
                f"{type(self).__name__} needs at least 4 samples to train and calibrate; got {n} "
                f"sample{'s' if n != 1 else ''}."
            )
        roles = ValidityFirst(1 - self.calibration_share).roles(n, 0, rng, groups)
        return roles.tune, roles.calibrate

    def _fold_rows(
        self, units: IntArray, rng: np.random.Generator, *, tunes: bool
    ) -> list[tuple[IntArray, ...]]:
        """Return the rows of every fold, and of the rest those that tune and those that train."""
        n_units = int(units.max()) + 1
        if isinstance(self.cv, bool) or not isinstance(self.cv, int | np.integer) or self.cv < 2:
            raise InvalidInput(f"cv must be a number of folds, 2 or more; got {self.cv!r}.")
        if not 0 < self.tune_share < 1:
            raise InvalidInput(f"tune_share must lie in (0, 1); got {self.tune_share!r}.")
        if n_units < max(self.cv, 4):
            raise InvalidInput(
                f"{self.cv} folds need at least {max(self.cv, 4)} samples (or groups); got "
                f"{n_units} sample{'s' if n_units != 1 else ''}."
            )
        order = rng.permutation(n_units)
        folds: list[tuple[IntArray, ...]] = []
        for f in range(self.cv):
            held = order[f :: self.cv]
            rest = rng.permutation(np.setdiff1d(order, held))
            n_tune = min(max(round(self.tune_share * len(rest)), 1), len(rest) - 1) if tunes else 0
            split = (held, rest[:n_tune], rest[n_tune:])
            folds.append(tuple(np.flatnonzero(np.isin(units, some)) for some in split))
        return folds


def fitted_clones(
    estimators: list[tuple[str, Any]], X: Any, y: Any, params: dict[str, dict[str, Any]]
) -> Bunch:
    """Return clones of some estimators, fitted on the same rows, each with its parameters."""
    return Bunch(**{name: clone(e).fit(X, y, **params[name]) for name, e in estimators})
