"""Prediction sets around scikit-learn classifiers: one or several, on rows apart or in folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch, _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_method_params,
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from conformix.data.labels import all_labels
from conformix.data.outputs import check_groups
from conformix.errors import InvalidInput
from conformix.estimators.average import ScoreAverage
from conformix.estimators.cross import CrossAverage, Fold
from conformix.estimators.params import KnownParameters
from conformix.guarantees import Guarantee, Ledger
from conformix.kernels import elementary
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    RandomState,
    as_generator,
    host_array,
    refuse_masked,
    unmasked,
)
from conformix.scores import score_columns
from conformix.sets import NestedSets, PredictionSets
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


def probabilities(estimator: Any, X: Any, classes: Any) -> FloatArray:
    """Return an estimator's probabilities in the order of `classes`, shape (n, K).

    A class that the estimator never saw has probability 0. A classifier without probabilities is
    taken by the softmax of its decision values.
    """
    if hasattr(estimator, "predict_proba"):
        values: FloatArray = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    else:
        values = softmax(np.asarray(estimator.decision_function(X), dtype=np.float64))
    full = np.zeros((len(values), len(classes)))
    full[:, np.searchsorted(classes, estimator.classes_)] = values
    return full


def softmax(decisions: FloatArray) -> FloatArray:
    """Return decision values as probabilities: any rule by row keeps the guarantee."""
    binary = decisions.ndim == 1
    values = np.column_stack([np.zeros_like(decisions), decisions]) if binary else decisions
    return elementary.softmax(values)


MET_IN_FIT = "classes_ are those met in fit, a label first met later is in no set (see classes=)"


class ConformalClassifier(KnownParameters, ClassifierMixin, _BaseComposition):  # type: ignore[misc]
    """A scikit-learn classifier that also gives prediction sets.

    `fit` trains the estimators on one part of the rows and gives their probabilities on the rest
    to `conformix.ScoreAverage`, which chooses weights and threshold. `predict` stays the label of
    the estimators; `predict_set` gives the sets.

    Parameters
    ----------
    estimators : classifier, or list of (name, classifier); default LogisticRegression()
        Whose probabilities are conformalised. Already fitted ones, trained on other rows than
        these, come in a `FrozenEstimator`; when all are, every row calibrates.
    alpha, scores, split, search, normalize, allow_empty, guarantee, delta, calibration, objective
        As in `conformix.ScoreAverage`, and so are weights, tune_alpha, threads and ensemble.
    calibration_share : float
        Share of the rows (or groups) set aside for calibration.
    random_state : int, Generator or None
        Draws the calibration rows and the split.
    classes : sequence of labels, optional
        All labels that can occur. By default those that `fit` meets, in the labelled rows and in
        fitted estimators: a label first met later is then in no set, and the guarantee, which
        speaks of labels among the classes, says so. A class that the estimators were not trained
        on has probability 0, a score like any other: the guarantee holds for it too.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The class labels, sorted.
    estimators_ : Bunch
        The fitted estimators by name.
    conformal_ : ScoreAverage
        What was fitted on their probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = ConformalClassifier(
    ...     [("nb", GaussianNB()), ("knn", KNeighborsClassifier())],
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
        scores: Any = None,
        split: Any = "vfcp",
        search: Any = "auto",
        normalize: Any = "auto",
        weights: Any = None,
        tune_alpha: float | None = None,
        allow_empty: bool = True,
        guarantee: str = "marginal",
        delta: float = 0.1,
        calibration: Any = "marginal",
        objective: Any = "size",
        calibration_share: float = 0.3,
        random_state: RandomState = None,
        threads: int | None = None,
        ensemble: str | None = None,
        classes: Any = None,
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
        self.objective = objective
        self.calibration_share = calibration_share
        self.random_state = random_state
        self.threads = threads
        self.ensemble = ensemble
        self.classes = classes

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
            Features of the test rows, for the transductive splits; "each" is as in
            `ScoreAverage.fit`.
        groups : array of shape (n,), optional
            Rows of one group stay on one side of every split; as in `ScoreAverage.fit`.
        strata, calibration_weight : arrays with one entry per calibration row, optional
            Group and importance, for ``calibration="group"`` and ``"weighted"``. Where this method
            splits X, they have one entry per row of X.
        **fit_params
            Passed to the estimators' `fit`; arrays with one entry per row are split like X. With
            scikit-learn's metadata routing each estimator gets what it has requested
            (`set_fit_request`), else all get all.
        """
        X, y = self._training_rows(X, y)
        self._average(np.random.default_rng(0))._settings()  # refused before any training
        y_cal = y
        if y_calibration is not None:
            y_cal = column_or_1d(host_array(y_calibration, "y_calibration"))
        self._class_labels(y, y_cal)  # a label too many is refused before the training
        rng = as_generator(self.random_state)
        units = check_groups(groups, len(y))
        train, calibrate = self._rows(_num_samples(X), rng, units, X_calibration)
        params = self._routed(X, fit_params, train)
        self.estimators_ = Bunch()
        for name, estimator in self._named():
            fitted = clone(estimator)
            if len(train):
                fitted = fitted.fit(_safe_indexing(X, train), y[train], **params[name])
            self.estimators_[name] = fitted
        known = [np.asarray(e.classes_) for e in self.estimators_.values()]
        self.classes_ = self._class_labels(y, y_cal, *known)
        X_cal = _safe_indexing(X, calibrate) if X_calibration is None else X_calibration
        y_cal = y[calibrate] if y_calibration is None else y_cal
        rows = slice(None) if X_calibration is not None else calibrate
        self.conformal_ = self._average(rng).fit(
            self._outputs(X_cal),
            y_cal,
            test=X_test if X_test is None or isinstance(X_test, str) else self._outputs(X_test),
            groups=None if units is None or X_calibration is not None else units[calibrate],
            classes=self.classes_,
            strata=None if strata is None else host_array(strata, "strata")[rows],
            sample_weight=None
            if calibration_weight is None
            else host_array(calibration_weight, "calibration_weight")[rows],
        )
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of the estimators' probabilities, shape (n, K)."""
        return np.mean(list(self._checked_outputs(X).values()), axis=0)

    def predict(self, X: Any) -> Any:
        """Return the most probable label of every row, shape (n,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    @overload
    def predict_set(self, X: Any, *, alpha: float | None = None, **rows: Any) -> PredictionSets: ...
    @overload
    def predict_set(self, X: Any, *, alpha: Sequence[float], **rows: Any) -> NestedSets: ...

    def predict_set(
        self, X: Any, *, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> PredictionSets | NestedSets:
        """Return the prediction sets, with the class labels as names.

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        alpha : float or sequence of float, optional
            Another level than the fitted one; several give `NestedSets`.
        **rows
            Given on to `ScoreAverage.predict_set`: what the calibration asks of new rows.
        """
        outputs = self._unnamed_if_single(self._checked_outputs(X))
        return self.conformal_.predict_set(outputs, alpha=alpha, **rows)  # type: ignore[arg-type]

    def predict_pvalues(self, X: Any, *, smoothed: bool = False, **rows: Any) -> FloatArray:
        """Return the conformal p-value of every label, shape (n, K)."""
        outputs = self._unnamed_if_single(self._checked_outputs(X))
        return self.conformal_.predict_pvalues(outputs, smoothed=smoothed, **rows)

    @property
    def guarantee_(self) -> Ledger:
        """What holds for the sets."""
        check_is_fitted(self)
        return self._with_classes(self.conformal_.guarantee_)  # type: ignore[no-any-return]

    def _with_classes(self, promised: Any) -> Any:
        """Return a guarantee that says where the classes come from, unless they were given."""
        return promised if self.classes is not None else promised.assuming(MET_IN_FIT)

    def _class_labels(self, *labels: Any) -> Any:
        """Return the class labels, sorted: those given, or all that are among `labels`."""
        met = np.unique(np.concatenate([np.unique(some) for some in labels]))
        if self.classes is None:
            return met
        return all_labels(self.classes, met)

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

    def get_metadata_routing(self) -> Any:
        """Return who asks for what at `fit`: this classifier, and each of the estimators."""
        # The owner's name before scikit-learn 1.8 or so, the owner since: it is only for reading.
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        fits = MethodMapping().add(caller="fit", callee="fit")
        return router.add(
            method_mapping=fits, **{name or "estimator": e for name, e in self._named()}
        )

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return checked features and labels of `fit`, and note what features look like."""
        X = rows_of(X)
        validate_data(self, X, skip_check_array=True)
        y = _check_y(unmasked(y, "y"), estimator=self)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return X, y

    def _new_rows(self, X: Any) -> Any:
        """Return features for a prediction, checked against those of `fit`."""
        check_is_fitted(self)
        X = rows_of(X)
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
        self, n: int, rng: np.random.Generator, groups: IntArray | None, X_calibration: Any
    ) -> tuple[IntArray, IntArray]:
        """Return the rows that train and the rows that calibrate."""
        every = np.arange(n)
        if X_calibration is not None:
            return every, every[:0]
        if all(isinstance(estimator, FrozenEstimator) for _, estimator in self._named()):
            return every[:0], every
        if n < 4:
            raise InvalidInput(
                f"ConformalClassifier needs at least 4 samples to train and calibrate; got {n} "
                f"sample{'s' if n != 1 else ''}."
            )
        roles = ValidityFirst(1 - self.calibration_share).roles(n, 0, rng, groups)
        return roles.tune, roles.calibrate

    def _outputs(self, X: Any) -> Any:
        return self._unnamed_if_single(self._by_name(X))

    @staticmethod
    def _unnamed_if_single(outputs: dict[str, FloatArray]) -> Any:
        return outputs[""] if set(outputs) == {""} else outputs

    def _checked_outputs(self, X: Any) -> dict[str, FloatArray]:
        return self._by_name(self._new_rows(X))

    def _by_name(self, X: Any) -> dict[str, FloatArray]:
        return {name: probabilities(e, X, self.classes_) for name, e in self.estimators_.items()}


class CrossConformalClassifier(ConformalClassifier):
    """A scikit-learn classifier with cross-conformal sets: all rows train and all calibrate.

    The rows are cut into `cv` folds. Per fold the estimators are trained on the other folds, less a
    share that chooses the fold's weights, and score the fold. One score on a scale that learns
    nothing leaves nothing to choose: all the other folds train.

    Parameters
    ----------
    estimators : classifier, or list of (name, classifier); default LogisticRegression()
        Whose probabilities are conformalised.
    cv : int
        Number of folds; the number of rows gives the jackknife+.
    alpha, scores, search, normalize, allow_empty, threads
        As in `conformix.ScoreAverage`; scores have names here, by default those of the paper.
    calibration : {"marginal", "class", "group", "rc3p"} or an object of `conformix.calibration`
        Among which rows a label is ranked, see `conformix.CrossAverage`.
    tune_share : float
        Share of the rows outside a fold that choose its weights and train nothing.
    random_state : int, Generator or None
        Draws the folds.
    classes : sequence of labels, optional
        All labels that can occur; as in `conformix.ConformalClassifier`.
    n_jobs : int or None
        Folds that are trained at the same time, by joblib; as in scikit-learn. The sets are those
        of one after the other, where the estimators have a random state of their own.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The class labels, sorted.
    fold_estimators_ : list of Bunch
        The fitted estimators of every fold, by name.
    cross_ : CrossAverage
        What was fitted on their probabilities; ``cross_.save`` writes it. The estimators are not in
        that file: nobody can save another library's objects without executable formats.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = CrossConformalClassifier(GaussianNB(), cv=5, alpha=0.1, random_state=0).fit(X, y)
    >>> clf.predict_set(X[:3]).shape, clf.guarantee_.kind
    ((3, 3), 'exact')
    """

    def __init__(
        self,
        estimators: Any = None,
        *,
        cv: int = 5,
        alpha: float = 0.1,
        scores: Any = ("thr", "aps", "rank"),
        search: Any = "auto",
        normalize: Any = "auto",
        allow_empty: bool = True,
        tune_share: float = 0.25,
        random_state: RandomState = None,
        threads: int | None = None,
        classes: Any = None,
        calibration: Any = "marginal",
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.cv = cv
        self.alpha = alpha
        self.scores = scores
        self.search = search
        self.normalize = normalize
        self.allow_empty = allow_empty
        self.tune_share = tune_share
        self.random_state = random_state
        self.threads = threads
        self.classes = classes
        self.calibration = calibration
        self.n_jobs = n_jobs

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        strata: Any = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Train the estimators of every fold and calibrate the sets.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Labels, numbers or text.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold, and on one side of its tuning split.
        strata : array of shape (n,), optional
            The group that coverage is promised in, for ``calibration="group"``.
        progress : callable, optional
            ``progress(done, total)`` is called after every fold that is trained.
        """
        X, y = self._training_rows(X, y)
        self.classes_ = self._class_labels(y)
        rng = as_generator(self.random_state)
        n = _num_samples(X)
        units = check_groups(groups, n)
        shared = (
            "alpha", "scores", "search", "normalize", "allow_empty", "threads", "calibration",
        )  # fmt: skip
        cross = CrossAverage(**{name: getattr(self, name) for name in shared})
        d = len(score_columns(tuple(name for name, _ in self._named()), self.scores))
        cross._checked()  # refused before any training
        chooses = cross._tunes(d)
        units = np.arange(n) if units is None else units
        by_fold = self._fold_rows(units, rng, tunes=chooses)
        groups_of_rows = None if strata is None else host_array(strata, "strata")
        if groups_of_rows is not None and groups_of_rows.shape != (n,):
            raise InvalidInput(
                f"strata must hold one value per row, shape ({n},); got shape "
                f"{groups_of_rows.shape}."
            )
        self.fold_estimators_ = []
        for done, estimators in enumerate(self._trained(X, y, by_fold), 1):
            self.fold_estimators_.append(estimators)
            if progress is not None:
                progress(done, len(by_fold))
        folds = []
        for estimators, (held, tune, _) in zip(self.fold_estimators_, by_fold, strict=True):
            labelled = [
                (
                    self._fold_outputs(estimators, _safe_indexing(X, rows)),
                    np.searchsorted(self.classes_, y[rows]),
                )
                for rows in ((held, tune) if chooses else (held,))
            ]
            fold = Fold(*(part for pair in labelled for part in pair))
            folds.append(
                fold if groups_of_rows is None else fold._replace(strata=groups_of_rows[held])
            )
        self.cross_ = cross.set_params(random_state=int(rng.integers(2**31))).fit(folds)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of all fold estimators' probabilities, shape (n, K)."""
        by_fold = self._checked_folds(X)
        single = [p for one in by_fold for p in (one.values() if isinstance(one, dict) else [one])]
        return np.mean(single, axis=0)

    def predict_set(  # type: ignore[override]
        self, X: Any, *, alpha: float | None = None, strata: Any = None
    ) -> PredictionSets:
        """Return the prediction sets, with the class labels as names.

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        alpha : float, optional
            Another level than the fitted one.
        strata : array of shape (n,), optional
            The group of every row, for ``calibration="group"``.
        """
        sets = self.cross_.predict_set(self._checked_folds(X), alpha=alpha, strata=strata)
        return PredictionSets(sets.mask, self.classes_.tolist())

    def predict_pvalues(self, X: Any, *, strata: Any = None) -> FloatArray:  # type: ignore[override]
        """Return the cross-conformal p-value of every label, shape (n, K)."""
        return self.cross_.predict_pvalues(self._checked_folds(X), strata=strata)

    @property
    def guarantee_(self) -> Guarantee:  # type: ignore[override]
        """What is proven for these folds."""
        check_is_fitted(self)
        return self._with_classes(self.cross_.guarantee_)  # type: ignore[no-any-return]

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

    def _trained(self, X: Any, y: Any, folds: Sequence[tuple[IntArray, ...]]) -> Iterator[Bunch]:
        """Yield the estimators of every fold, trained outside it, in the order of the folds."""
        jobs = (
            delayed(_train)(self._named(), _safe_indexing(X, train), y[train])
            for _, _, train in folds
        )
        return Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)  # type: ignore[no-any-return]

    def _fold_outputs(self, estimators: Bunch, X: Any) -> Any:
        return self._unnamed_if_single(
            {name: probabilities(e, X, self.classes_) for name, e in estimators.items()}
        )

    def _checked_folds(self, X: Any) -> list[Any]:
        X = self._new_rows(X)
        return [self._fold_outputs(estimators, X) for estimators in self.fold_estimators_]


def _train(estimators: list[tuple[str, Any]], X: Any, y: Any) -> Bunch:
    """Return the estimators of one fold, fitted."""
    return Bunch(**{name: clone(estimator).fit(X, y) for name, estimator in estimators})


def small_sets_scorer(estimator: ConformalClassifier, X: Any, y: Any = None) -> float:
    """Return minus the mean set size: a scorer for `GridSearchCV` and its kin.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ConformalClassifier(GaussianNB(), alpha=0.2, random_state=0).fit(X, y)
    >>> small_sets_scorer(clf, X) < 0
    True
    """
    return -float(estimator.predict_set(X).sizes.mean())


__all__ = ["ConformalClassifier", "CrossConformalClassifier", "small_sets_scorer"]
