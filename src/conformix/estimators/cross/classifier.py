"""Cross-conformal sets around scikit-learn classifiers: CV+ with weights per fold."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import Bunch, _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from conformix.data.outputs import check_groups
from conformix.errors import InvalidInput
from conformix.estimators.classifier import ConformalClassifier, probabilities
from conformix.estimators.cross.folds import CrossAverage, Fold
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, IntArray, RandomState, as_generator
from conformix.sets import PredictionSets


class CrossConformalClassifier(ConformalClassifier):
    """A scikit-learn classifier with cross-conformal sets: all rows train and all calibrate.

    The rows are cut into `cv` folds. Per fold the estimators are trained on the other folds, less a
    share that chooses the fold's weights, and score the fold.

    Parameters
    ----------
    estimators : classifier, or list of (name, classifier); default LogisticRegression()
        Whose probabilities are conformalised.
    cv : int
        Number of folds; the number of rows gives the jackknife+.
    alpha, scores, search, normalize, allow_empty, threads
        As in `conformix.ScoreAverage`.
    tune_share : float
        Share of the rows outside a fold that choose its weights and train nothing.
    random_state : int, Generator or None
        Draws the folds.
    classes : sequence of labels, optional
        All labels that can occur; as in `conformix.ConformalClassifier`.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The class labels, sorted.
    fold_estimators_ : list of Bunch
        The fitted estimators of every fold, by name.
    cross_ : CrossAverage
        What was fitted on their probabilities.

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

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:  # type: ignore[override]
        """Train the estimators of every fold and calibrate the sets.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n, p)
            Features.
        y : array-like of shape (n,)
            Labels, numbers or text.
        groups : array of shape (n,), optional
            Rows of one group stay in one fold, and on one side of its tuning split.
        """
        X, y = self._training_rows(X, y)
        self.classes_ = self._class_labels(y)
        rng = as_generator(self.random_state)
        n = _num_samples(X)
        units = check_groups(groups, n)
        self.fold_estimators_ = []
        folds = []
        for held, tune, train in self._parts(np.arange(n) if units is None else units, rng):
            own = Bunch()
            for name, estimator in self._named():
                own[name] = clone(estimator).fit(_safe_indexing(X, train), y[train])
            self.fold_estimators_.append(own)
            said = [
                (self._of(own, _safe_indexing(X, rows)), np.searchsorted(self.classes_, y[rows]))
                for rows in (held, tune)
            ]
            folds.append(Fold(*said[0], *said[1]))
        shared = ("alpha", "scores", "search", "normalize", "allow_empty", "threads")
        options = {name: getattr(self, name) for name in shared}
        seed = int(rng.integers(2**31))
        self.cross_ = CrossAverage(**options, random_state=seed).fit(folds)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the mean of all fold estimators' probabilities, shape (n, K)."""
        said = self._checked_folds(X)
        single = [p for own in said for p in (own.values() if isinstance(own, dict) else [own])]
        return np.mean(single, axis=0)

    def predict_set(  # type: ignore[override]
        self, X: Any, *, alpha: float | None = None
    ) -> PredictionSets:
        """Return the prediction sets, with the class labels as names."""
        sets = self.cross_.predict_set(self._checked_folds(X), alpha=alpha)
        return PredictionSets(sets.mask, self.classes_.tolist())

    def predict_pvalues(self, X: Any) -> FloatArray:  # type: ignore[override]
        """Return the cross-conformal p-value of every label, shape (n, K)."""
        return self.cross_.predict_pvalues(self._checked_folds(X))

    @property
    def guarantee_(self) -> Guarantee:  # type: ignore[override]
        """What is proven for these folds."""
        check_is_fitted(self)
        return self._with_classes(self.cross_.guarantee_)  # type: ignore[no-any-return]

    def _parts(
        self, units: IntArray, rng: np.random.Generator
    ) -> list[tuple[IntArray, IntArray, IntArray]]:
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
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        for f in range(self.cv):
            held = order[f :: self.cv]
            rest = rng.permutation(np.setdiff1d(order, held))
            n_tune = min(max(round(self.tune_share * len(rest)), 1), len(rest) - 1)
            split = (held, rest[:n_tune], rest[n_tune:])
            held_rows, tune, train = (np.flatnonzero(np.isin(units, some)) for some in split)
            parts.append((held_rows, tune, train))
        return parts

    def _of(self, estimators: Bunch, X: Any) -> Any:
        """Return what the estimators of one fold say about some rows."""
        said = {name: probabilities(e, X, self.classes_) for name, e in estimators.items()}
        return self._given(said)

    def _checked_folds(self, X: Any) -> list[Any]:
        X = self._new_rows(X)
        return [self._of(own, X) for own in self.fold_estimators_]
