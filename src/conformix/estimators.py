"""The estimators: what most users hold in their hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from conformix import pipeline
from conformix.arrays import FloatArray, RandomState, as_generator
from conformix.conformal import conformity_ranks, simple_fraction, warn_if_trivial
from conformix.errors import InvalidInput, NotFitted
from conformix.guarantees import EXACT, Guarantee
from conformix.inputs import Kind, Outputs, check_groups, check_labels, check_outputs
from conformix.params import Params
from conformix.pipeline import Fitted
from conformix.scores import ScoreLike, fill_tensor, resolve_scores, score_names
from conformix.search import resolve_search
from conformix.search.candidates import check_candidates
from conformix.search.result import SearchResult
from conformix.sets import PredictionSets
from conformix.splits import Split, resolve_split


class ScoreAverage(Params):
    """Prediction sets from an average of conformity scores, with the weights that keep them small.

    The combined score of label y is ``w_1 s_1(x, y) + ... + w_d s_d(x, y)``; y is in the set when
    it is at least the threshold, the k-th largest combined score of the true calibration labels,
    ``k = ceil((n+1)(1-alpha))``. The weights minimise the mean set size on the tuning rows.

    Parameters
    ----------
    scores : sequence of names, `Score` objects or functions of probabilities
        What is averaged. With several models, every score of every model.
    alpha : float
        Allowed miscoverage: a set misses the true label with probability at most alpha.
    split : {"vfcp", "efcp", "dlcp", "dlcp+"} or a split object
        Who may see what, and so which guarantee holds. ``ValidityFirst(share=...)`` sets the
        share of the tuning rows.
    search : {"auto", "grid"}, a strategy, or an array of weights of shape (m, d)
        How the weights are found.
    normalize : {"auto", "none"}
        How scores are scaled before they are averaged.
    kind : {"probs", "logits"}
        What the outputs are, in `fit` and in every prediction.
    weights : array of shape (d,), optional
        Weights fixed by hand: no search, all rows calibrate, the guarantee is exact.
    tune_alpha : float, optional
        Level used while searching; by default alpha.
    random_state : int, Generator or None
        Draws the split.
    threads : int or None
        Threads of the search; None takes the available cores.

    Attributes
    ----------
    weights_ : float64 array of shape (d,)
        One weight per score.
    threshold_ : float
        A label is in the set when its combined score is at least this.
    score_names_ : tuple of str
        Names of the scores, ``model.score`` with several models.
    guarantee_ : Guarantee
        What holds for the sets.
    search_ : SearchResult or None
        What the search found; its size is minimised, hence optimistic.
    held_out_size_ : float or None
        Mean set size on rows that had no part in the search, where there are any.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage(("thr", "aps", "rank"), alpha=0.05, kind="logits", random_state=0)
    >>> sets = cp.fit(logits[:2000], y[:2000]).predict_set(logits[2000:])
    >>> sets
    PredictionSets(8,000 sets over 10 classes, mean size 1.0...)
    >>> cp.guarantee_.kind
    'exact'
    """

    def __init__(
        self,
        scores: ScoreLike | Sequence[ScoreLike] = ("thr", "aps", "rank"),
        *,
        alpha: float = 0.1,
        split: str | Split = "vfcp",
        search: Any = "auto",
        normalize: str = "auto",
        kind: Kind = "probs",
        weights: Any = None,
        tune_alpha: float | None = None,
        random_state: RandomState = None,
        threads: int | None = None,
    ) -> None:
        self.scores = scores
        self.alpha = alpha
        self.split = split
        self.search = search
        self.normalize = normalize
        self.kind = kind
        self.weights = weights
        self.tune_alpha = tune_alpha
        self.random_state = random_state
        self.threads = threads

    def fit(self, outputs: Any, y: Any, *, test: Any = None, groups: Any = None) -> Self:
        """Choose the weights and the threshold.

        Parameters
        ----------
        outputs : array of shape (n, K), or a mapping or sequence of such arrays
            Outputs of one or several models on labelled rows that trained none of them.
        y : integer array of shape (n,)
            True class indices.
        test : like `outputs`, optional
            Outputs on the unlabelled test rows; the transductive splits need them.
        groups : array of shape (n,), optional
            Rows of one group (patient, user, document) stay on one side of the split.
        """
        simple_fraction(self.alpha)
        split = resolve_split(self.split)
        labelled = check_outputs(outputs, self.kind)
        labels = check_labels(y, labelled.n, labelled.n_classes)
        parts = check_groups(groups, labelled.n)
        resolved = resolve_scores(self.scores)
        names = score_names(labelled, resolved)
        scores = fill_tensor(labelled, resolved)
        if self.weights is not None:
            weights = self._fixed_weights(len(names))
            true_scores = scores[np.arange(len(labels)), labels]
            fitted = pipeline.calibrated(true_scores, weights, self.alpha)
        else:
            unlabelled = self._test_outputs(split, test, labelled)
            fitted = pipeline.fit(
                scores,
                labels,
                alpha=self.alpha,
                split=split,
                search=resolve_search(self.search),
                rng=as_generator(self.random_state),
                test=None if unlabelled is None else fill_tensor(unlabelled, resolved),
                groups=parts,
                tune_alpha=self.tune_alpha,
                threads=self.threads,
            )
        self._fitted = fitted
        self._resolved_scores = resolved
        self._models = tuple(labelled.models)
        self.n_classes_ = labelled.n_classes
        self.score_names_ = names
        return self

    def predict_set(self, outputs: Any, *, alpha: float | None = None) -> PredictionSets:
        """Return the prediction sets of new rows.

        Parameters
        ----------
        outputs : like in `fit`
            Outputs of the same models on new rows.
        alpha : float, optional
            Another level than the fitted one, with the same weights. It must not be chosen by
            looking at calibration or test labels.
        """
        fitted = self._check_fitted()
        level = self.alpha if alpha is None else alpha
        if alpha is not None:
            warn_if_trivial(len(fitted.calibration), alpha)
        scores = self._score(outputs)
        return PredictionSets(pipeline.predict(scores, fitted.weights, fitted.threshold(level)))

    def predict_pvalues(self, outputs: Any) -> FloatArray:
        """Return the conformal p-value of every label, shape (n, K).

        ``p(x, y) = (1 + #{c_i <= s(x, y)}) / (n + 1)``; the set at level alpha is ``p > alpha``.
        """
        fitted = self._check_fitted()
        combined = pipeline.combine(self._score(outputs), fitted.weights)
        return conformity_ranks(fitted.calibration, combined) / (len(fitted.calibration) + 1)

    def recalibrate(self, outputs: Any, y: Any) -> Self:
        """Keep the weights and take a fresh threshold from fresh labelled rows.

        The rows must not have been used in `fit`: the guarantee is then exact, whatever the
        split was.
        """
        fitted = self._check_fitted()
        fresh = self._same_models(outputs)
        labels = check_labels(y, fresh.n, fresh.n_classes)
        scores = fill_tensor(fresh, self._resolved_scores)
        true_scores = scores[np.arange(fresh.n), labels]
        self._fitted = pipeline.calibrated(true_scores, fitted.weights, self.alpha, EXACT)
        return self

    @property
    def weights_(self) -> FloatArray:
        """One weight per score, shape (d,)."""
        return self._check_fitted().weights

    @property
    def threshold_(self) -> float:
        """The threshold at the fitted alpha."""
        return self._check_fitted().threshold(self.alpha)

    @property
    def guarantee_(self) -> Guarantee:
        """What holds for the sets."""
        return self._check_fitted().guarantee

    @property
    def search_(self) -> SearchResult | None:
        """What the search found, or None where the weights were given or kept."""
        return self._check_fitted().search

    @property
    def held_out_size_(self) -> float | None:
        """Mean set size on rows that had no part in the search, or None."""
        return self._check_fitted().held_out_size

    def _check_fitted(self) -> Fitted:
        fitted: Fitted | None = self.__dict__.get("_fitted")
        if fitted is None:
            name = type(self).__name__
            raise NotFitted(f"this {name} is not fitted yet; call fit(outputs, y) first.")
        return fitted

    def _score(self, outputs: Any) -> FloatArray:
        return fill_tensor(self._same_models(outputs), self._resolved_scores)

    def _same_models(self, outputs: Any, name: str = "outputs") -> Outputs:
        """Return checked outputs of the fitted models, in the fitted order."""
        new = check_outputs(outputs, self.kind, name=name)
        return _matching(new, self._models, self.n_classes_, name)

    def _test_outputs(self, split: Split, test: Any, labelled: Outputs) -> Outputs | None:
        if test is None or not split.needs_test:
            return None
        checked = check_outputs(test, self.kind, name="test")
        return _matching(checked, tuple(labelled.models), labelled.n_classes, "test")

    def _fixed_weights(self, d: int) -> FloatArray:
        if np.ndim(self.weights) != 1 or len(self.weights) != d:
            raise InvalidInput(
                f"weights must hold one number per score, shape ({d},); got shape "
                f"{np.shape(self.weights)}."
            )
        return check_candidates(np.atleast_2d(self.weights), d)[0]


def _matching(new: Outputs, models: tuple[str, ...], n_classes: int, name: str) -> Outputs:
    if set(new.models) != set(models):
        told = [sorted(names) if names != ("",) else "one array" for names in (models, new.models)]
        raise InvalidInput(f"{name} must come from the fitted models {told[0]}; got {told[1]}.")
    if new.n_classes != n_classes:
        raise InvalidInput(f"{name} must have the {n_classes} fitted classes; got {new.n_classes}.")
    return Outputs({model: new.models[model] for model in models}, new.kind)
