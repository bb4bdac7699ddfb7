"""Prediction sets around scikit-learn classifiers: one estimator, or several with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from conformix.arrays import FloatArray, IntArray, RandomState, as_generator
from conformix.errors import InvalidInput
from conformix.estimators import ScoreAverage
from conformix.guarantees import Ledger
from conformix.inputs import check_groups
from conformix.sets import PredictionSets
from conformix.splits import ValidityFirst


class ConformalClassifier(ClassifierMixin, _BaseComposition):  # type: ignore[misc]
    """A scikit-learn classifier that also gives prediction sets.

    `fit` trains the estimators on one part of the rows and gives their probabilities on the rest
    to `conformix.ScoreAverage`, which chooses weights and threshold. `predict` stays the label of
    the estimators; `predict_set` gives the sets.

    Parameters
    ----------
    estimators : classifier, or list of (name, classifier); default LogisticRegression()
        Whose probabilities are conformalised. Already fitted ones come in a `FrozenEstimator`;
        when all are, every row calibrates.
    alpha, scores, split, search, normalize, allow_empty, guarantee, delta, threads
        As in `conformix.ScoreAverage`.
    calibration : float
        Share of the rows (or groups) set aside for calibration.
    random_state : int, Generator or None
        Draws the calibration rows and the split.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The class labels.
    estimators_ : Bunch
        The fitted estimators by name.
    conformal_ : ScoreAverage
        What was fitted on their probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = ConformalClassifier(
    ...     [("nb", GaussianNB()), ("lr", LogisticRegression(max_iter=3000))],
    ...     alpha=0.05, random_state=0,
    ... ).fit(X[:1200], y[:1200])
    >>> clf.predict_set(X[1200:])
    PredictionSets(597 sets over 10 classes, mean size 0.93)
    >>> print(clf.guarantee_.kind)
    exact
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        alpha: float = 0.1,
        scores: Any = ("thr", "aps", "rank"),
        split: Any = "vfcp",
        search: Any = "auto",
        normalize: Any = "auto",
        allow_empty: bool = True,
        guarantee: str = "marginal",
        delta: float = 0.1,
        calibration: float = 0.3,
        random_state: RandomState = None,
        threads: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.alpha = alpha
        self.scores = scores
        self.split = split
        self.search = search
        self.normalize = normalize
        self.allow_empty = allow_empty
        self.guarantee = guarantee
        self.delta = delta
        self.calibration = calibration
        self.random_state = random_state
        self.threads = threads

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_calibration: Any = None,
        y_calibration: Any = None,
        X_test: Any = None,
        groups: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Train the estimators and calibrate the sets.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Labels, numbers or text.
        X_calibration, y_calibration : optional
            Calibration rows of your own; then all of X trains.
        X_test : optional
            Features of the test rows, for the transductive splits.
        groups : array of shape (n,), optional
            Rows of one group stay on one side of every split.
        **fit_params
            Passed to the estimators' `fit`; arrays with one entry per row are split like X.
        """
        X = _rows_of(X)
        validate_data(self, X, skip_check_array=True)
        y = _check_y(y, estimator=self)
        check_consistent_length(X, y)
        check_classification_targets(y)
        rng = as_generator(self.random_state)
        parts = check_groups(groups, len(y))
        train, calibrate = self._rows(_num_samples(X), rng, parts, X_calibration)
        params = _check_method_params(X, fit_params, indices=train)
        self.estimators_ = Bunch()
        for name, estimator in self._named():
            fitted = clone(estimator)
            if len(train):
                fitted = fitted.fit(_safe_indexing(X, train), y[train], **params)
            self.estimators_[name] = fitted
        known = [np.asarray(e.classes_) for e in self.estimators_.values()]
        y_own = y if y_calibration is None else column_or_1d(y_calibration)
        self.classes_ = np.unique(np.concatenate([np.unique(y), np.unique(y_own), *known]))
        X_own = _safe_indexing(X, calibrate) if X_calibration is None else X_calibration
        y_own = y[calibrate] if y_calibration is None else y_own
        self.conformal_ = self._average(rng).fit(
            self._outputs(X_own),
            np.searchsorted(self.classes_, y_own),
            test=None if X_test is None else self._outputs(X_test),
            groups=None if parts is None or X_calibration is not None else parts[calibrate],
        )
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of the estimators' probabilities, shape (n, K)."""
        return np.mean(list(self._checked_outputs(X).values()), axis=0)

    def predict(self, X: Any) -> Any:
        """Return the most probable label of every row, shape (n,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_set(self, X: Any, *, alpha: float | None = None) -> PredictionSets:
        """Return the prediction sets, with the class labels as names."""
        outputs = self._checked_outputs(X)
        sets = self.conformal_.predict_set(self._given(outputs), alpha=alpha)
        return PredictionSets(sets.mask, classes=self.classes_.tolist())

    def predict_pvalues(self, X: Any, *, smoothed: bool = False) -> FloatArray:
        """Return the conformal p-value of every label, shape (n, K)."""
        outputs = self._checked_outputs(X)
        return self.conformal_.predict_pvalues(self._given(outputs), smoothed=smoothed)

    @property
    def guarantee_(self) -> Ledger:
        """What holds for the sets."""
        check_is_fitted(self)
        return self.conformal_.guarantee_

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of named estimators included."""
        if isinstance(self.estimators, list):
            return self._get_params("estimators", deep=deep)
        return super().get_params(deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of named estimators included."""
        if isinstance(params.get("estimators", self.estimators), list):
            self._set_params("estimators", **params)
            return self
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = [get_tags(estimator).input_tags for _, estimator in self._named()]
        tags.input_tags.sparse = all(tag.sparse for tag in inner)
        tags.input_tags.allow_nan = all(tag.allow_nan for tag in inner)
        return tags

    def _named(self) -> list[tuple[str, Any]]:
        if self.estimators is None:
            return [("", LogisticRegression())]
        if isinstance(self.estimators, list | tuple):
            if not self.estimators:
                raise InvalidInput("estimators must hold at least one (name, classifier).")
            return list(self.estimators)
        return [("", self.estimators)]

    def _average(self, rng: np.random.Generator) -> ScoreAverage:
        names = set(ScoreAverage().get_params()) & set(BaseEstimator.get_params(self, deep=False))
        options = {name: getattr(self, name) for name in names}
        return ScoreAverage(**(options | {"random_state": int(rng.integers(2**31))}))

    def _rows(
        self, n: int, rng: np.random.Generator, groups: IntArray | None, given: Any
    ) -> tuple[IntArray, IntArray]:
        """Return the rows that train and the rows that calibrate."""
        every = np.arange(n)
        if given is not None:
            return every, every[:0]
        if all(isinstance(estimator, FrozenEstimator) for _, estimator in self._named()):
            return every[:0], every
        if n < 4:
            raise InvalidInput(
                f"ConformalClassifier needs at least 4 samples to train and calibrate; got {n} "
                f"sample{'s' if n != 1 else ''}."
            )
        roles = ValidityFirst(1 - self.calibration).roles(n, 0, rng, groups)
        return roles.tune, roles.calibrate

    def _outputs(self, X: Any) -> Any:
        return self._given({n: self._probabilities(e, X) for n, e in self.estimators_.items()})

    @staticmethod
    def _given(outputs: dict[str, FloatArray]) -> Any:
        """Return a single unnamed model as its array, several as they are."""
        return outputs[""] if set(outputs) == {""} else outputs

    def _checked_outputs(self, X: Any) -> dict[str, FloatArray]:
        check_is_fitted(self)
        X = _rows_of(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return {name: self._probabilities(e, X) for name, e in self.estimators_.items()}

    def _probabilities(self, estimator: Any, X: Any) -> FloatArray:
        """Return an estimator's probabilities in the order of `classes_`, shape (n, K).

        A class that the estimator never saw has probability 0.
        """
        if hasattr(estimator, "predict_proba"):
            own: FloatArray = np.asarray(estimator.predict_proba(X), dtype=np.float64)
        else:
            own = _softmax(np.asarray(estimator.decision_function(X), dtype=np.float64))
        columns = np.searchsorted(self.classes_, estimator.classes_)
        full = np.zeros((len(own), len(self.classes_)))
        full[:, columns] = own
        return full


def _rows_of(X: Any) -> Any:
    """Return frames as they are, sparse matrices by rows, anything else as an array of rows."""
    if hasattr(X, "iloc") or hasattr(X, "get_column"):
        return X
    if hasattr(X, "tocsr"):
        return X.tocsr()
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InvalidInput(
            f"X must have shape (n, p); got shape {rows.shape}. Reshape your data with "
            "X.reshape(-1, 1) for one feature or X.reshape(1, -1) for one sample."
        )
    return rows


def _softmax(decisions: FloatArray) -> FloatArray:
    """Return decision values as probabilities: any rule by row keeps the guarantee."""
    binary = decisions.ndim == 1
    values = np.column_stack([np.zeros_like(decisions), decisions]) if binary else decisions
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def small_sets_scorer(estimator: ConformalClassifier, X: Any, y: Any = None) -> float:
    """Return minus the mean set size: a scorer for `GridSearchCV` and its kin.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ConformalClassifier(alpha=0.2, random_state=0).fit(X, y)
    >>> small_sets_scorer(clf, X) < 0
    True
    """
    return -float(estimator.predict_set(X).sizes.mean())


__all__: Sequence[str] = ["ConformalClassifier", "small_sets_scorer"]
