"""Prediction sets around scikit-learn classifiers: one or several, on rows apart or in folds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, overload

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.metadata_routing import (
    UNUSED,
)
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from conformix.data.labels import all_labels
from conformix.data.outputs import check_groups
from conformix.data.row_data import row_ids
from conformix.errors import InvalidInput
from conformix.estimators.around import Around, RefitWarning, fitted_clones, rows_of
from conformix.estimators.average import ScoreAverage
from conformix.estimators.cross import CrossAverage, Fold
from conformix.estimators.surface import Surface, named_estimators
from conformix.fit.saved import MAX_MEMORY
from conformix.guarantees import Guarantee, Ledger
from conformix.kernels import elementary
from conformix.kernels.arrays import (
    FloatArray,
    IntArray,
    RandomState,
    as_generator,
    host_array,
    unmasked,
)
from conformix.metrics import coverage
from conformix.predictions.sets import NestedSets, PredictionSets
from conformix.scores import score_columns


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


class ConformalClassifier(
    Surface,
    Around,
    ClassifierMixin,  # type: ignore[misc]
    _BaseComposition,  # type: ignore[misc]
):
    """A scikit-learn classifier that also gives prediction sets.

    `fit` trains the estimators on one part of the rows and gives their probabilities on the rest
    to `conformix.ScoreAverage`, which chooses weights and threshold. `predict` stays the label of
    the estimators; `predict_set` gives the sets.

    Parameters
    ----------
    estimators : classifier, list, list of (name, classifier) or mapping by name, optional
        Whose probabilities are conformalised; by default LogisticRegression(). Classifiers of a
        list without names are called after their classes. Already fitted ones, trained on other
        rows than these, come with ``prefit=True`` or in a `FrozenEstimator`; when all are, every
        row calibrates.
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
    prefit : bool, optional
        True takes the estimators as they are, already fitted on other rows, and all rows of `fit`
        calibrate. False trains clones of them. None, the default, trains clones as well, and says
        so (`RefitWarning`) where an estimator was fitted already.
    n_jobs : int or None
        Estimators that are trained at the same time, by joblib; as in scikit-learn.

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

    member: ClassVar[str] = "classifier"

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
        self.objective = objective
        self.calibration_share = calibration_share
        self.random_state = random_state
        self.threads = threads
        self.ensemble = ensemble
        self.classes = classes
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
        self._check_prefit()
        y_cal = y
        if y_calibration is not None:
            y_cal = column_or_1d(host_array(y_calibration, "y_calibration"))
        self._class_labels(y, y_cal)  # a label too many is refused before the training
        rng = as_generator(self.random_state)
        units = check_groups(groups, len(y))
        train, calibrate = self._rows(_num_samples(X), rng, units, X_calibration)
        params = self._routed(X, fit_params, train)
        named = self._named()
        if len(train) and not self.prefit:
            rows = _safe_indexing(X, train)
            jobs = (delayed(fitted_clones)([one], rows, y[train], params) for one in named)
            trained = Parallel(n_jobs=self.n_jobs)(jobs)
            named = [pair for bunch in trained for pair in bunch.items()]
        self.estimators_ = Bunch(**dict(named))
        known = [np.asarray(e.classes_) for e in self.estimators_.values()]
        self.classes_ = self._class_labels(y, y_cal, *known)
        X_cal = _safe_indexing(X, calibrate) if X_calibration is None else X_calibration
        y_cal = y[calibrate] if y_calibration is None else y_cal
        rows = slice(None) if X_calibration is not None else calibrate
        self.conformal_ = self._average(rng).fit(
            self._by_name(X_cal),
            y_cal,
            test=X_test if X_test is None or isinstance(X_test, str) else self._by_name(X_test),
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
        by_name = self.outputs(X)
        return np.mean(list(by_name.values()) if isinstance(by_name, dict) else [by_name], axis=0)

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
        sets = self._predicted(X, alpha=alpha, **rows)
        sets.ids = row_ids(X)
        return sets  # type: ignore[no-any-return]

    def _predicted(self, X: Any, **options: Any) -> Any:
        outputs = self.outputs(X)
        return self._average_of_scores().predict_set(outputs, **options)

    def predict_pvalues(self, X: Any, *, smoothed: bool = False, **rows: Any) -> FloatArray:
        """Return the conformal p-value of every label, shape (n, K).

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        smoothed, **rows
            As in `ScoreAverage.predict_pvalues`.
        """
        return self.conformal_.predict_pvalues(self.outputs(X), smoothed=smoothed, **rows)

    def outputs(self, X: Any) -> Any:
        """Return what the fitted estimators say of rows, in the order of ``classes_``.

        Parameters
        ----------
        X : like in `fit`
            Features of rows.

        Returns
        -------
        float64 array of shape (n, K), or a mapping of such by name
            The probabilities; of a single estimator without a name the array alone.
        """
        return self._by_name(self._new_rows(X))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        estimators: Any,
        *,
        classes: Any = None,
        max_memory: int | str = MAX_MEMORY,
    ) -> Self:
        """Return the classifier that `save` has written, around its fitted estimators.

        Parameters
        ----------
        path : path
            The JSON file.
        estimators : as in the constructor, fitted
            The estimators of the saved classifier (``estimators_``), which you keep as you keep any
            model: others would have scores of another law, and nothing would be promised.
        classes : sequence of labels, optional
            As in the constructor, where they were given there.
        max_memory : int or str
            Bytes that the files may ask for.
        """
        average = ScoreAverage.load(path, max_memory=max_memory)
        shared = set(average.get_params()) & set(cls._get_param_names())
        options = {name: getattr(average, name) for name in shared}
        self = cls(estimators, **options, classes=classes, prefit=True)
        self.estimators_ = Bunch(**dict(self._named()))
        self.conformal_, self.classes_ = average, average.classes_
        self._features_of(self.estimators_.values())
        _check_models(self.estimators_, average.predictor_.models, self.classes_)
        return self

    def _average_of_scores(self) -> Any:
        check_is_fitted(self)
        return self.conformal_

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

    def _training_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return checked features and labels of `fit`, and note what features look like."""
        X = rows_of(X)
        validate_data(self, X, skip_check_array=True)
        y = _check_y(unmasked(y, "y"), estimator=self)
        check_consistent_length(X, y)
        check_classification_targets(y)
        return X, y

    def _default(self) -> Any:
        return LogisticRegression()

    def _average(self, rng: np.random.Generator) -> ScoreAverage:
        names = set(ScoreAverage().get_params()) & set(BaseEstimator.get_params(self, deep=False))
        options = {name: getattr(self, name) for name in names}
        return ScoreAverage(**(options | {"random_state": int(rng.integers(2**31))}))

    def _by_name(self, X: Any, estimators: Bunch | None = None) -> Any:
        """Return what some estimators say of checked rows; of one without a name the array."""
        estimators = self.estimators_ if estimators is None else estimators
        by_name = {name: probabilities(e, X, self.classes_) for name, e in estimators.items()}
        return by_name[""] if set(by_name) == {""} else by_name


class CrossConformalClassifier(ConformalClassifier):
    """A scikit-learn classifier with cross-conformal sets: all rows train and all calibrate.

    The rows are cut into `cv` folds. Per fold the estimators are trained on the other folds, less a
    share that chooses the fold's weights, and score the fold. One score on a scale that learns
    nothing leaves nothing to choose: all the other folds train.

    Parameters
    ----------
    estimators : classifier, list, list of (name, classifier) or mapping by name, optional
        Whose probabilities are conformalised; by default LogisticRegression(). Every fold trains
        clones of them: ``prefit=False`` says so where they were fitted already (`RefitWarning`).
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
        What was fitted on their probabilities; `save` writes it. The estimators are not in that
        file: nobody can save another library's objects without executable formats.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = CrossConformalClassifier(GaussianNB(), cv=5, alpha=0.1, random_state=0).fit(X, y)
    >>> clf.predict_set(X[:3]).shape, clf.guarantee_.kind
    ((3, 3), 'exact')
    """

    # The weights are for the estimators: folds and sets have no use for them.
    __metadata_request__fit: ClassVar = {"sample_weight": UNUSED}

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
        prefit: bool | None = None,
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
        self.prefit = prefit

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        *,
        groups: Any = None,
        strata: Any = None,
        progress: Callable[[int, int], None] | None = None,
        sample_weight: Any = None,
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
        sample_weight : array of shape (n,), optional
            Passed to the `fit` of the estimators, with the rows that train a fold: to all, or with
            metadata routing to those that have requested it.
        """
        X, y = self._training_rows(X, y)
        self._check_prefit()
        if self.prefit:
            raise InvalidInput(
                "prefit=True: the model of a fold must not have seen it, so every fold trains its "
                "own; use ConformalClassifier(prefit=True) for a model that is fitted already."
            )
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
        fit_params = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.fold_estimators_ = []
        for done, estimators in enumerate(self._trained(X, y, by_fold, fit_params), 1):
            self.fold_estimators_.append(estimators)
            if progress is not None:
                progress(done, len(by_fold))
        folds = []
        for estimators, (held, tune, _) in zip(self.fold_estimators_, by_fold, strict=True):
            labelled = [
                (self._by_name(_safe_indexing(X, rows), estimators), y[rows])
                for rows in ((held, tune) if chooses else (held,))
            ]
            fold = Fold(*(part for pair in labelled for part in pair))
            folds.append(
                fold if groups_of_rows is None else fold._replace(strata=groups_of_rows[held])
            )
        cross.set_params(random_state=int(rng.integers(2**31)))
        self.cross_ = cross.fit(folds, classes=self.classes_)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of all fold estimators' probabilities, shape (n, K)."""
        by_fold = self.outputs(X)
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
        return super().predict_set(X, alpha=alpha, strata=strata)

    def predict_pvalues(self, X: Any, *, strata: Any = None) -> FloatArray:  # type: ignore[override]
        """Return the cross-conformal p-value of every label, shape (n, K).

        Parameters
        ----------
        X : like in `fit`
            Features of new rows.
        strata : array of shape (n,), optional
            The group of every row, for ``calibration="group"``.
        """
        return self.cross_.predict_pvalues(self.outputs(X), strata=strata)

    def outputs(self, X: Any) -> list[Any]:
        """Return what the estimators of every fold say of rows: a list, fold after fold.

        Parameters
        ----------
        X : like in `fit`
            Features of rows.

        Returns
        -------
        list of float64 arrays of shape (n, K), or of mappings of such by name
            The probabilities, as `conformix.CrossAverage` takes them.
        """
        X = self._new_rows(X)
        return [self._by_name(X, estimators) for estimators in self.fold_estimators_]

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        estimators: Any,
        *,
        classes: Any = None,
        max_memory: int | str = MAX_MEMORY,
    ) -> Self:
        """Return the classifier that `save` has written, around its fitted estimators.

        Parameters
        ----------
        path : path
            The JSON file.
        estimators : sequence, one entry per fold
            The fitted estimators of every fold (``fold_estimators_``), each as in the constructor.
        classes : sequence of labels, optional
            As in the constructor, where they were given there.
        max_memory : int or str
            Bytes that the files may ask for.
        """
        cross = CrossAverage.load(path, max_memory=max_memory)
        predictor = cross.predictor_
        folds = [Bunch(**dict(named_estimators(one))) for one in estimators]
        if len(folds) != len(predictor.folds):
            raise InvalidInput(
                f"estimators must be those of the {len(predictor.folds)} folds; got {len(folds)}."
            )
        shared = set(cross.get_params()) & set(cls._get_param_names())
        options = {name: getattr(cross, name) for name in shared}
        self = cls([*folds[0].items()], cv=len(folds), **options, classes=classes, prefit=False)
        names = range(predictor.n_classes) if predictor.classes is None else predictor.classes
        self.fold_estimators_, self.cross_, self.classes_ = folds, cross, np.array(names)
        for fold in folds:
            _check_models(fold, predictor.models, self.classes_)
        self._features_of([one for fold in folds for one in fold.values()])
        return self

    def _average_of_scores(self) -> Any:
        check_is_fitted(self)
        return self.cross_

    @property
    def guarantee_(self) -> Guarantee:  # type: ignore[override]
        """What is proven for these folds."""
        check_is_fitted(self)
        return self._with_classes(self.cross_.guarantee_)  # type: ignore[no-any-return]

    def _trained(
        self, X: Any, y: Any, folds: Sequence[tuple[IntArray, ...]], fit_params: dict[str, Any]
    ) -> Iterator[Bunch]:
        """Yield the estimators of every fold, trained outside it, in the order of the folds."""
        params = [self._routed(X, fit_params, train) for _, _, train in folds]
        jobs = (
            delayed(fitted_clones)(self._named(), _safe_indexing(X, train), y[train], own)
            for (_, _, train), own in zip(folds, params, strict=True)
        )
        return Parallel(n_jobs=self.n_jobs, return_as="generator")(jobs)  # type: ignore[no-any-return]


def _check_models(estimators: Bunch, models: Sequence[str], classes: Any) -> None:
    """Refuse estimators that are not fitted, or not those that a file was calibrated with."""
    if set(estimators) != set(models):
        raise InvalidInput(
            f"estimators must be called {', '.join(map(repr, models))}, as in the saved "
            f"classifier; got {', '.join(map(repr, estimators))}."
        )
    for estimator in estimators.values():
        check_is_fitted(estimator)
        strange = set(np.asarray(estimator.classes_).tolist()) - set(np.asarray(classes).tolist())
        if strange:
            raise InvalidInput(
                f"estimators must know no other labels than the saved classifier; got "
                f"{min(strange)!r}."
            )


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


def coverage_scorer(estimator: ConformalClassifier, X: Any, y: Any) -> float:
    """Return the share of rows whose label is in the set: a scorer to stand beside the sizes.

    ``scoring={"size": small_sets_scorer, "coverage": coverage_scorer}, refit="size"`` tells both.
    Coverage is promised, so that there is little to choose by it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ConformalClassifier(GaussianNB(), alpha=0.2, random_state=0).fit(X, y)
    >>> 0.5 < coverage_scorer(clf, X, y) <= 1
    True
    """
    return coverage(estimator.predict_set(X), y)


__all__ = [
    "ConformalClassifier",
    "CrossConformalClassifier",
    "RefitWarning",
    "coverage_scorer",
    "small_sets_scorer",
]
