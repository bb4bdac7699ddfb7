"""`ScoreAverage`: what most users hold in their hands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Self, overload

import numpy as np

from conformix.conformal import warn_if_large
from conformix.data.batches import from_iterable
from conformix.data.checks import is_chunked
from conformix.data.inspection import warn_if_suspect
from conformix.data.outputs import Form
from conformix.data.row_data import NO_DATA
from conformix.errors import InvalidInput
from conformix.estimators.kept import Kept
from conformix.estimators.notice import NOTICE
from conformix.estimators.params import Params, join_sklearn
from conformix.estimators.surface import Surface
from conformix.fit.batches import batch_rows
from conformix.fit.chunks import chunk_rows
from conformix.fit.drift import DriftReport
from conformix.fit.exact import leave_one_out_efcp
from conformix.fit.exact.split import fixed_candidates
from conformix.fit.fit import fit, recalibrated
from conformix.fit.predictor import Predictor
from conformix.fit.rows import array_rows
from conformix.fit.saved import MAX_MEMORY, format_of, read_model, write_model
from conformix.fit.settings import Settings, resolve
from conformix.fit.verdict import LabelledRows
from conformix.guarantees import Ledger, Verdict
from conformix.kernels.arrays import FloatArray, RandomState
from conformix.predictions.sets import NestedSets, PredictionSets
from conformix.scores import ScoreLike
from conformix.scores.blend import Blend
from conformix.search import resolve_objective, resolve_search
from conformix.search.goals import is_mean_size
from conformix.search.objective import SearchResult
from conformix.splits import Split


class ScoreAverage(Kept[Predictor], Surface, Params):  # type: ignore[misc]  # the other save takes more
    """Prediction sets from an average of conformity scores, with the weights that keep them small.

    The combined score of label y is ``w_1 s_1(x, y) + ... + w_d s_d(x, y)``; y is in the set when
    it is at least the threshold, the k-th largest combined score of the true calibration labels,
    ``k = ceil((n+1)(1-alpha))``. The weights minimise the mean set size on the tuning rows.

    Parameters
    ----------
    scores : "auto", "paper", or a sequence of names, `Score` objects or functions, optional
        What is averaged. With several models, every score of every model. ``auto`` blends a
        dictionary of scores of all models by likelihood (`conformix.scores.blend`,
        docs/frontier.md); it goes with split "holdout" (vfcp), the default, and "exact". ``paper``
        is ``("thr", "aps", "rank")``. Left out it is ``auto``; where ``weights``, ``search``,
        ``normalize``, ``objective``, ``tune_alpha``, ``ensemble``, a vote or another split is asked
        for, which are about named scores, it is ``paper``.
    alpha : float
        Allowed miscoverage: how often a set may miss the true label. Whether that is promised, and
        of whom, follows from `split` and stands in ``guarantee_``.
    split : {"holdout", "exact", "all-rows", "batch", "batch+"} or a split object
        Who may see what, and so which guarantee holds; ``vfcp``, ``efcp``, ``dlcp`` and ``dlcp+``
        are the paper's names for holdout, all-rows, batch and batch+. `conformix.choose` says which
        suits how many rows. ``ValidityFirst(share=...)`` sets the share of the tuning rows. By
        name, ``holdout`` spends rows on tuning only where there is
        something to choose or to learn: with one score all rows calibrate.
    search : {"auto", "grid"}, a strategy, or an array of weights of shape (m, d)
        How the weights are found.
    normalize : {"auto", "none", "scale", "ecdf"}, array of shape (d,) or a normaliser
        On which scale scores are averaged. ``auto`` never voids a guarantee: it is ``ecdf``
        where tuning and calibration rows are apart, ``none`` under ``exact``, else ``scale``,
        also for one score, which has the same sets on every scale.
    kind : {"probs", "logits", "logprobs", "shares", "binary"}
        What the outputs are, in `fit` and in every prediction: probabilities that sum to 1; logits,
        where ``-inf`` rules a class out; log-probabilities; numbers from 0 on that are divided by
        the sum of their row (rounded probabilities, per cents, counts); or the probability (n,) of
        class 1 of two.
    weights : array of shape (d,) or "equal", optional
        Weights fixed by hand, or the same for all scores: no search, all rows calibrate, and the
        guarantee is exact if these rows had no part in choosing them.
    tune_alpha : float, optional
        Level used while searching; by default alpha.
    allow_empty : bool
        Whether a set may be empty. If not, the best label of a row is always in, by one rule in
        search, calibration and prediction, so that the guarantee stays. Under split "exact" the
        labels with the largest p-value of a row are always in, and more may be covered.
    guarantee : {"marginal", "pac"}
        ``pac`` takes a larger order statistic, so that coverage is at least ``1 - alpha`` for all
        but a share `delta` of the calibration draws, not only on average over them.
    delta : float
        See `guarantee`.
    calibration : {"marginal", "class", "cluster", "group", "weighted", "vote"} or an object
        How thresholds are taken from the calibration scores (`conformix.calibration`): one for
        all, or one per class, cluster of classes or given group, or with importance weights; or
        one per score, and a vote of the scores.
    random_state : int, Generator or None
        Draws the split.
    objective : str or goal
        What the weights minimise: ``"size"``, ``"singletons"``, ``"class_gap"``,
        ``"size_stratified"``, or a goal of `conformix.search` such as ``CappedSize(5)``.
    threads : int or None
        Threads of the search; None takes the available cores.
    ensemble : {"probs", "logits"}, optional
        Average the probabilities, or the log-probabilities, of several models first, and score the
        mean as one model. By default every model is scored by itself.
    renormalize : bool
        Divide probabilities by the sum of their row, for rows that sum to .99: ``kind="shares"``.

    Attributes
    ----------
    weights_ : float64 array of shape (d,)
        One weight per score.
    threshold_ : float
        A label is in the set when its combined score is at least this.
    score_names_ : tuple of str
        Names of the scores, ``model.score`` with several models.
    guarantee_ : Ledger
        What holds for the sets; ``guarantee_.table()`` is everything that is known.
    search_ : SearchResult or None
        What the search found; its size is minimised, hence optimistic. None where there was
        nothing to choose: weights given by hand, or one score.
    held_out_size_ : float or None
        Mean set size on rows that had no part in the search, where there are any.
    predictor_ : Predictor
        The fitted rule with what its inputs must look like.

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

    predictor_: Predictor
    _write = staticmethod(write_model)
    _read = staticmethod(read_model)

    def __init__(
        self,
        scores: ScoreLike | Sequence[ScoreLike] | None = None,
        *,
        alpha: float = 0.1,
        split: str | Split = "vfcp",
        search: Any = "auto",
        normalize: Any = "auto",
        kind: Form = "probs",
        weights: Any = None,
        tune_alpha: float | None = None,
        allow_empty: bool = True,
        guarantee: str = "marginal",
        delta: float = 0.1,
        calibration: Any = "marginal",
        objective: Any = "size",
        random_state: RandomState = None,
        threads: int | None = None,
        ensemble: str | None = None,
        renormalize: bool = False,
    ) -> None:
        self.scores = scores
        self.alpha = alpha
        self.split = split
        self.search = search
        self.normalize = normalize
        self.kind = kind
        self.weights = weights
        self.tune_alpha = tune_alpha
        self.allow_empty = allow_empty
        self.guarantee = guarantee
        self.delta = delta
        self.calibration = calibration
        self.objective = objective
        self.random_state = random_state
        self.threads = threads
        self.ensemble = ensemble
        self.renormalize = renormalize

    def fit(
        self,
        outputs: Any,
        y: Any,
        *,
        test: Any = None,
        groups: Any = None,
        classes: Any = None,
        strata: Any = None,
        sample_weight: Any = None,
        unlabelled: Any = None,
    ) -> Self:
        """Choose the weights and the threshold.

        Parameters
        ----------
        outputs : array or Dask array of shape (n, K), `TopK`, or a mapping or sequence of such
            Outputs of one or several models on labelled rows that trained none of them.
        y : array of shape (n,)
            True class indices, or class names where `classes` are given.
        test : like `outputs`, a source of `conformix.data.batches`, or "each", optional
            Outputs on the unlabelled test rows; the transductive splits need them. Under "vfcp",
            scores that learn (`likeness`, `kin`, `rarity`, ``scores="auto"``) learn from them and
            from the calibration rows alike, and the guarantee is for these test rows alone.
            With "each" every row that is predicted is such a batch of its own: scores learn from
            it and the calibration rows, and the guarantee is for one row at a time, whichever.
            Prediction then takes a new matrix and a new threshold for every row.
        groups : array of shape (n,), optional
            Rows of one group (patient, user, document) stay on one side of the split. The
            guarantee still speaks of exchangeable rows (docs/guarantees.md has that of groups).
        classes : sequence of length K, optional
            Names of the columns of `outputs`, for the sets. `y` then holds names; beside names
            that are text it may hold integer indices as well.
        strata : array of shape (n,), optional
            The group of every row (text or integers), for ``calibration="group"``.
        sample_weight : array of shape (n,), optional
            The importance of every row, for ``calibration="weighted"``.
        unlabelled : like `outputs`, or a source of `conformix.data.batches`, optional
            Outputs on further rows without labels, for scores that learn. The guarantee stays if
            they are neither rows of this fit nor rows that will be predicted; rows that are found
            among the calibration rows are refused.
        """
        settings = self._settings()
        rows_of = chunk_rows if is_chunked(outputs) else array_rows
        rows: Any = rows_of(
            outputs, y, settings, test=test, groups=groups, classes=classes, strata=strata,
            sample_weight=sample_weight, unlabelled=unlabelled,
        )  # fmt: skip
        if rows_of is array_rows:
            warn_if_suspect(rows.outputs.models, settings.kind)
        self.predictor_ = fit(rows, settings)
        return self

    def fit_batches(
        self, batches: Any, *, classes: Any = None, test: Any = None, unlabelled: Any = None
    ) -> Self:
        """Choose the weights and the threshold from batches of labelled rows.

        Memory is that of the scores of the tuning rows (``ValidityFirst(max_rows=...)``) and of d
        numbers per row. The result is that of `fit` on the same rows where the source knows their
        number; an iterator does not, and another random sample of the rows tunes. What is learnt or
        drawn before rows are scored (``scores="auto"``, scores that learn, groups), or looks at the
        scores of all rows (every split but "holdout"), takes several passes; the result is that of
        `fit`, and an iterator's outputs are held, up to 1 GiB.

        Parameters
        ----------
        batches : source of `conformix.data.batches`, iterable of ``(outputs, y)``, or a function
            Every batch is a tuple; see `conformix.data.batches.Batches`. A function is called
            without arguments and returns an iterable.
        classes : sequence of length K, optional
            Names of the classes, as in `fit`.
        test, unlabelled : like in `fit`, or a source of `conformix.data.batches`, optional
            Rows without labels, as in `fit`; the batches of a source may be outputs alone.
        """
        settings = self._settings()
        rows: Any = batch_rows(batches, settings, classes=classes, test=test, unlabelled=unlabelled)
        self.predictor_ = fit(rows, settings)
        return self

    @overload
    def predict_set(
        self, outputs: Any, *, alpha: float | None = None, **rows: Any
    ) -> PredictionSets: ...
    @overload
    def predict_set(self, outputs: Any, *, alpha: Sequence[float], **rows: Any) -> NestedSets: ...

    def predict_set(
        self, outputs: Any, *, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> PredictionSets | NestedSets:
        """Return the prediction sets of new rows.

        Parameters
        ----------
        outputs : like in `fit`
            Outputs of the same models on new rows.
        alpha : float or sequence of float, optional
            Another level than the fitted one, with the same weights. It must not be chosen by
            looking at calibration or test labels. Several levels give `NestedSets`.
        **rows
            ``strata=`` and ``sample_weight=`` of the new rows, arrays of shape (n,), where the
            calibration needs them.

        Returns
        -------
        PredictionSets or NestedSets
            Of Dask arrays: a Dask array of booleans (n, K) in the same chunks, and of several
            levels a dictionary of such, by level; nothing is computed yet.
        """
        return self._check_fitted().predict_set(outputs, alpha, **rows)  # type: ignore[arg-type]

    def predict_batches(
        self, batches: Any, *, alpha: float | None = None
    ) -> Iterator[PredictionSets]:
        """Yield the prediction sets of every batch, computed when they are asked for.

        Parameters
        ----------
        batches : source of `conformix.data.batches`, or an iterable
            Every batch is ``(outputs, y)`` as in `fit_batches`, whose labels are not looked at, or
            the outputs alone.
        alpha : float, optional
            Another level than the fitted one.
        """
        predictor = self._check_fitted()

        def sets() -> Iterator[PredictionSets]:
            for batch in from_iterable(batches):
                alone = not isinstance(batch, tuple)
                outputs = batch if alone else batch[0]
                brought = {} if alone or len(batch) < 3 else batch[2]
                # Groups say who tunes, and nothing of a set.
                row_data = {name: values for name, values in brought.items() if name != "groups"}
                yield predictor.predict_set(outputs, alpha, **row_data)

        return sets()

    def predict_pvalues(self, outputs: Any, *, smoothed: bool = False, **rows: Any) -> FloatArray:
        """Return the conformal p-value of every label, shape (n, K).

        ``p(x, y) = (1 + #{c_i <= s(x, y)}) / (n + 1)``; the set at level alpha is where p exceeds
        alpha, both as fractions (``1 - 0.9`` is 1/10). With ``guarantee="pac"`` sets hold more.

        Parameters
        ----------
        outputs : like in `fit`
            Outputs of the same models on new rows.
        smoothed : bool
            Break ties by one number per row: the p-value of a true label is then uniform, not
            only valid, over the draw of the key (`random_state`) and of exchangeable rows. The
            number is a hash of the row's outputs, so that rows with equal outputs share it: under
            one key their p-values are equal, and not independent.
        **rows
            As in `predict_set`.

        Returns
        -------
        float64 array of shape (n, K)
            Of Dask arrays a Dask array in the same chunks, not computed yet.
        """
        return self._check_fitted().predict_pvalues(outputs, smoothed=smoothed, **rows)

    def recalibrate(self, outputs: Any, y: Any, **rows: Any) -> Self:
        """Keep the weights and take a fresh threshold from fresh labelled rows.

        The guarantee is then exact, whatever the split was, for rows that are exchangeable with
        these, where neither had a part in `fit`: not as labelled rows, and not as the test batch
        of a transductive split, whose features chose the weights. Nothing is checked here.

        Parameters
        ----------
        outputs, y
            Fresh labelled rows, not used in `fit`.
        **rows
            As in `predict_set`, for these rows.
        """
        self.predictor_ = recalibrated(self._check_fitted(), outputs, y, **rows)
        return self

    def check_drift(self, outputs: Any, y: Any, *, level: float = 0.01) -> DriftReport:
        """Ask whether fresh labelled rows are exchangeable with the calibration rows.

        Where calibration rows chose the weights, scores under equal weights are compared, which
        no row chose; model files of 0.1.0 do not hold these, and their p-value is multiplied by
        the number of weightings. Under split "exact" weights are chosen on all rows alike. Where
        no false-alarm level is known (rows in groups, a scale learnt on calibration rows) the
        call is refused.

        Parameters
        ----------
        outputs, y
            Fresh labelled rows, not used in `fit`.
        level : float
            Probability of a false alarm, at most.
        """
        predictor = self._check_fitted()
        fresh = predictor.check(outputs)
        labels = predictor.labels(y, fresh.n)
        return LabelledRows(predictor, fresh, labels, NO_DATA).drift(level)

    def verdict(self, outputs: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Verdict:
        """Measure the coverage of labelled rows, and say whether it is less than chance allows.

        The law of chance counts the draw of the test rows and of the calibration rows; it is
        named in the answer, and where none is known that is said (docs/guarantees.md).

        Parameters
        ----------
        outputs, y
            Labelled rows, not used in `fit`.
        alpha : float, optional
            Another level than the fitted one, not chosen by looking at these labels.
        **rows
            As in `predict_set`.

        Examples
        --------
        >>> import conformix as cx
        >>> data = cx.datasets.load("cifar10")
        >>> logits, y = data.outputs["vgg16"], data.labels
        >>> cp = cx.ScoreAverage("paper", kind="logits", random_state=0)
        >>> cp = cp.fit(logits[:2000], y[:2000])
        >>> print(cp.verdict(logits[2000:], y[2000:]))
        88.9 % of 8,000 rows are covered and 90 % are promised, which chance allows: so few ...
        """
        return self._labelled(outputs, y, **rows).verdict(alpha)

    def measured_coverage(self, outputs: Any, y: Any) -> float:
        """Return the leave-one-out coverage of EFCP with this model's candidate weights.

        Each of the labelled rows is held out in turn, weights and threshold are chosen on the
        others. On the calibration rows of an EFCP fit it measures what the selection costs, where
        bounds only say that it cannot cost more.

        Parameters
        ----------
        outputs, y
            Labelled rows, usually those of `fit`.
        """
        predictor = self._check_fitted()
        facts = predictor.fitted.ledger.facts
        altered = not predictor.fitted.rule.allow_empty or facts.rank.delta is not None
        altered = altered or facts.calibration != "marginal"
        altered = altered or not is_mean_size(resolve_objective(self.objective))
        if altered or facts.learnt_scale or facts.tune_alpha != facts.alpha:
            raise InvalidInput(
                'measured_coverage is about split "all-rows" (efcp) with one threshold, the '
                "smallest mean size, no PAC rank, no tune_alpha, empty sets allowed, and a scale "
                "that was not learnt on the calibration rows."
            )
        if facts.n_weights == 0:
            raise InvalidInput(
                "measured_coverage selects among candidate weights that are counted, and this "
                'search has none; fit with search="grid" or an array of weights.'
            )
        rows = predictor.check(outputs)
        labels = predictor.labels(y, rows.n)
        weights = fixed_candidates(resolve_search(self.search), len(predictor.columns))
        scores = predictor.fitted.rule.transform(predictor.scores(rows))
        return leave_one_out_efcp(
            scores, labels, weights, alpha=predictor.alpha, threads=self.threads
        )

    @property
    def normalizer_(self) -> str:
        """Name of the normalisation in use: what ``normalize="auto"`` chose."""
        return self._check_fitted().fitted.normalizer

    @property
    def weights_(self) -> FloatArray:
        """One weight per score, shape (d,)."""
        return self._check_fitted().fitted.rule.weights

    @property
    def blend_(self) -> Blend | None:
        """The expert that ``scores="auto"`` made of the models, or None."""
        return self._check_fitted().blend

    @property
    def threshold_(self) -> float:
        """The threshold at the fitted alpha."""
        predictor = self._check_fitted()
        return predictor.fitted.threshold(predictor.alpha)

    @property
    def guarantee_(self) -> Ledger:
        """What holds for the sets."""
        return self._check_fitted().fitted.ledger

    @property
    def search_(self) -> SearchResult | None:
        """What the search found, or None where there was nothing to choose."""
        return self._check_fitted().fitted.search

    @property
    def held_out_size_(self) -> float | None:
        """Mean set size on rows that had no part in the search, or None."""
        return self._check_fitted().fitted.held_out_size

    @property
    def n_classes_(self) -> int:
        """Number of classes, K."""
        return self._check_fitted().n_classes

    @property
    def n_features_in_(self) -> int:
        """Number of columns that outputs must have, K, by scikit-learn's name."""
        return self._check_fitted().n_classes

    @property
    def classes_(self) -> Any:
        """Names of the classes, shape (K,); ``0 .. K-1`` where `fit` was given none."""
        predictor = self._check_fitted()
        return (
            np.arange(predictor.n_classes)
            if predictor.classes is None
            else np.array(predictor.classes)
        )

    def __sklearn_tags__(self) -> Any:
        join_sklearn()
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.required = True
        tags.input_tags.positive_only = getattr(self, "kind", "probs") == "probs"
        return tags

    def __repr__(self) -> str:
        predictor: Predictor | None = self.__dict__.get("predictor_")
        state = "" if predictor is None else f" [fitted, guarantee {self.guarantee_.kind}]"
        return super().__repr__() + state

    def _settings(self) -> Settings:
        """Return the settings as objects; once, say what scores are that were left out."""
        settings = resolve(**self.get_params())
        warn_if_large(self.alpha)
        if self.scores is None and settings.blends:
            NOTICE.tell()
        return settings

    def _labelled(self, outputs: Any, y: Any, **rows: Any) -> LabelledRows:
        return LabelledRows.of(self._check_fitted(), outputs, y, **rows)


def load(path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> ScoreAverage:
    """Return a model written by `ScoreAverage.save`, or by `RegressionAverage.save`.

    A model of responses comes back as a `RegressionAverage`; for type checkers, which cannot know
    what a file holds, say ``RegressionAverage.load``. To predict only, `conformix.load_predictor`
    is lighter: it loads no estimator.

    Parameters
    ----------
    path : path
        The JSON file; a large model has an npz of the same name beside it.
    max_memory : int or str
        Bytes that the files may ask for, as a number or a text such as ``"512M"``.

    Examples
    --------
    >>> import conformix as cx, tempfile
    >>> data = cx.datasets.load("cifar10")
    >>> logits, y = data.outputs["vgg16"], data.labels
    >>> cp = cx.ScoreAverage(alpha=0.1, kind="logits", random_state=0).fit(logits[:500], y[:500])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cp.save(f"{folder}/model.json")
    ...     again = cx.load(f"{folder}/model.json")
    >>> bool((again.predict_set(logits) == cp.predict_set(logits)).all())
    True
    """
    import conformix  # noqa: PLC0415  the table of contents alone looks down to responses

    of_responses = format_of(path) == "conformix regression model"
    kind = conformix.RegressionAverage if of_responses else ScoreAverage
    return kind.load(path, max_memory=max_memory)  # type: ignore[return-value]
