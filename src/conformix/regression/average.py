"""`RegressionAverage`: intervals from an average of conformity scores of responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, overload

from conformix.conformal import warn_if_large
from conformix.estimators.kept import Kept
from conformix.estimators.params import Params
from conformix.fit.contributions import Averaged
from conformix.fit.drift import DriftReport
from conformix.guarantees import Ledger, Verdict
from conformix.kernels.arrays import FloatArray, RandomState
from conformix.predictions.intervals import Intervals, NestedIntervals
from conformix.regression.explanation import averaged
from conformix.regression.fit import fit, recalibrated, response_rows
from conformix.regression.predictor import LinePredictor
from conformix.regression.saved import read_regression, write_regression
from conformix.regression.search import WidthResult
from conformix.regression.settings import RegressionSettings, resolve_regression
from conformix.regression.surface import ResponseSurface
from conformix.regression.verdict import LabelledResponses
from conformix.splits import Split


class RegressionAverage(Kept[LinePredictor], ResponseSurface, Params):  # type: ignore[misc]  # the other save takes more
    """Prediction intervals from an average of scores, with the weights that keep them narrow.

    The averaged score of a response y is ``w_1 s_1(x, y) + ... + w_d s_d(x, y)``, lower fits
    better; y is in the interval when it is at most the threshold, the k-th smallest score of the
    calibration responses, ``k = ceil((n+1)(1-alpha))``. Every score is V-shaped in y, so that this
    is one closed interval. The weights minimise the mean width on the tuning rows. Ends are rounded
    outward: a response whose score is at most the threshold, to the last bit, lies in its interval.

    Parameters
    ----------
    scores : "auto", or a sequence of names, `RegressionScore` objects or functions
        What is averaged (`conformix.regression.scores`): of every model all scores that it predicts
        enough for. ``auto`` takes residuals, plain and normalised, and the three scores of
        quantiles. Mixing kinds of scores is what narrows intervals.
    alpha : float
        Allowed miscoverage: how often an interval may miss. Whether that is promised, and of whom,
        follows from `split` and stands in ``guarantee_``.
    split : {"holdout", "exact", "all-rows", "batch", "batch+"} or a split object
        Who may see what, as in `conformix.ScoreAverage`; ``vfcp``, ``efcp``, ``dlcp`` and ``dlcp+``
        are the paper's names for holdout, all-rows, batch and batch+. By name, ``holdout`` tunes on
        40 % of the rows, and on none where there is nothing to choose: with one score all rows
        calibrate.
    search : {"auto", "grid"}, `GridSearch`, an array of weights of shape (m, d), or a function
        How the weights are found. ``auto`` averages the weights of four searches on random two
        thirds of the tuning rows. A function gets ``(objective, rng)`` and returns a `WidthResult`.
    normalize : {"auto", "none"} or array of shape (d,)
        On which scale scores are averaged: ``auto`` divides every score so that its mean spread,
        1/slope, is 1, which needs no responses, from rows that do not calibrate, or under ``exact``
        from all rows and the one to predict alike. Or one divisor per score.
    weights : array of shape (d,) or "equal", optional
        Weights fixed by hand, of scores as they are: no search, and all rows calibrate.
    tune_alpha : float or sequence of float, optional
        Levels whose mean widths are added up while searching; by default alpha/2, alpha, 3/2 alpha
        and 2 alpha, since widths at one level are noisy.
    allow_empty : bool
        Whether an interval may be empty. If not, where the averaged score of a row is lowest is
        always in, by one rule in calibration and prediction, so that the guarantee stays.
    guarantee : {"marginal", "pac"}
        ``pac`` takes a larger order statistic, as in `conformix.ScoreAverage`.
    delta : float
        See `guarantee`.
    calibration : {"marginal", "group", "bins", "weighted"} or an object
        How thresholds are taken from the calibration scores: one for all; one per given group
        (``strata=``); one per bin of difficulty (`PerBin`), whose edges come from tuning rows; or
        with importance weights (``sample_weight=``).
    y_range : pair of float, optional
        What every response is assumed to lie within, by what is known without these rows; intervals
        are cut to it, and the assumption stands in ``guarantee_``.
    random_state : int, Generator or None
        Draws the split and the parts of the search.
    threads : int or None
        Threads of the search; None takes the available cores.

    Attributes
    ----------
    weights_ : float64 array of shape (d,)
        One weight per score.
    threshold_ : float
        A response is in the interval when its averaged score is at most this.
    score_names_ : tuple of str
        Names of the scores, ``model.score`` with several models.
    guarantee_ : Ledger
        What holds for the intervals; ``guarantee_.table()`` is everything that is known.
    search_ : WidthResult or None
        What the search found; its width is minimised, hence optimistic.
    held_out_width_ : float or None
        Mean width on rows that had no part in the search, where there are any.

    Examples
    --------
    >>> import numpy as np
    >>> import conformix as cx
    >>> rng = np.random.default_rng(0)
    >>> mean, sigma = rng.normal(size=2000), rng.uniform(0.5, 2, size=2000)
    >>> y = mean + sigma * rng.normal(size=2000)
    >>> model = cx.Regressed(mean=mean, sigma=sigma)
    >>> cp = cx.RegressionAverage(alpha=0.1, random_state=0).fit(model[:1000], y[:1000])
    >>> intervals = cp.predict_interval(model[1000:])
    >>> intervals
    Intervals(1,000 intervals, mean width ...)
    >>> cp.score_names_, cp.guarantee_.kind
    (('abs', 'norm'), 'exact')
    """

    predictor_: LinePredictor
    _write = staticmethod(write_regression)
    _read = staticmethod(read_regression)

    def __init__(
        self,
        scores: Any = "auto",
        *,
        alpha: float = 0.1,
        split: str | Split = "vfcp",
        search: Any = "auto",
        normalize: Any = "auto",
        weights: Any = None,
        tune_alpha: Any = None,
        allow_empty: bool = True,
        guarantee: str = "marginal",
        delta: float = 0.1,
        calibration: Any = "marginal",
        y_range: Any = None,
        random_state: RandomState = None,
        threads: int | None = None,
    ) -> None:
        self.scores = scores
        self.alpha = alpha
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
        self.random_state = random_state
        self.threads = threads

    def fit(
        self,
        outputs: Any,
        y: Any,
        *,
        test: Any = None,
        groups: Any = None,
        strata: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Choose the weights and the threshold.

        Parameters
        ----------
        outputs : Regressed, array of means (n,), frame, or a mapping or sequence of such
            What one or several models predict of labelled rows that trained none of them.
        y : array of shape (n,)
            The responses.
        test : like `outputs`, optional
            Predictions on the unlabelled test rows; the transductive splits need them.
        groups : array of shape (n,), optional
            Rows of one group (patient, household) stay on one side of the split.
        strata : array of shape (n,), optional
            The group of every row, for ``calibration="group"``.
        sample_weight : array of shape (n,), optional
            The importance of every row, for ``calibration="weighted"``.
        """
        settings = self._settings()
        rows = response_rows(
            outputs, y, settings, test=test, groups=groups, strata=strata,
            sample_weight=sample_weight,
        )  # fmt: skip
        self.predictor_ = fit(rows, settings)
        return self

    @overload
    def predict_interval(
        self, outputs: Any, *, alpha: float | None = None, **rows: Any
    ) -> Intervals: ...
    @overload
    def predict_interval(
        self, outputs: Any, *, alpha: Sequence[float], **rows: Any
    ) -> NestedIntervals: ...

    def predict_interval(
        self, outputs: Any, *, alpha: float | Sequence[float] | None = None, **rows: Any
    ) -> Intervals | NestedIntervals:
        """Return the prediction intervals of new rows.

        Parameters
        ----------
        outputs : like in `fit`
            What the same models predict of new rows.
        alpha : float or sequence of float, optional
            Another level than the fitted one, with the same weights, not chosen by looking at
            calibration or test responses. Several levels give `NestedIntervals`.
        **rows
            ``strata=`` and ``sample_weight=`` of the new rows, where the calibration needs them.
        """
        return self._check_fitted().predict_interval(outputs, alpha, **rows)  # type: ignore[arg-type]

    def verdict(self, outputs: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Verdict:
        """Measure the coverage of labelled rows, and say whether it is less than chance allows.

        Parameters
        ----------
        outputs, y
            Labelled rows, not used in `fit`.
        alpha : float, optional
            Another level than the fitted one.
        **rows
            As in `predict_interval`.
        """
        return self._labelled(outputs, y, **rows).verdict(alpha)

    def check_drift(self, outputs: Any, y: Any, *, level: float = 0.01, **rows: Any) -> DriftReport:
        """Ask whether fresh labelled rows are exchangeable with the calibration rows.

        Parameters
        ----------
        outputs, y
            Fresh labelled rows, not used in `fit`.
        level : float
            Probability of a false alarm, at most.
        **rows
            As in `predict_interval`.
        """
        return self._labelled(outputs, y, **rows).drift(level)

    def recalibrate(self, outputs: Any, y: Any, **rows: Any) -> Self:
        """Keep the weights and take a fresh threshold from fresh labelled rows.

        The guarantee is then exact, whatever the split was, for rows that are exchangeable with
        these, where neither had a part in `fit`.

        Parameters
        ----------
        outputs, y
            Fresh labelled rows, not used in `fit`.
        **rows
            As in `predict_interval`, for these rows.
        """
        self.predictor_ = recalibrated(self._check_fitted(), outputs, y, **rows)
        return self

    @property
    def weights_(self) -> FloatArray:
        """One weight per score, shape (d,); under split "exact" those for reading."""
        return self._check_fitted().fitted.rule.weights  # type: ignore[no-any-return]

    @property
    def threshold_(self) -> Any:
        """The threshold at the fitted alpha: the largest averaged score that is in."""
        predictor = self._check_fitted()
        found = predictor.fitted.threshold(predictor.alpha)
        if isinstance(found, dict):
            return {name: -value for name, value in found.items()}
        return -found

    @property
    def guarantee_(self) -> Ledger:
        """What holds for the intervals."""
        return self._check_fitted().fitted.ledger  # type: ignore[no-any-return]

    @property
    def search_(self) -> WidthResult | None:
        """What the search found, or None where there was nothing to choose."""
        return self._check_fitted().fitted.search  # type: ignore[no-any-return]

    @property
    def held_out_width_(self) -> float | None:
        """Mean width on rows that had no part in the search, or None."""
        return self._check_fitted().fitted.held_out_size  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        predictor: LinePredictor | None = self.__dict__.get("predictor_")
        state = "" if predictor is None else f" [fitted, guarantee {self.guarantee_.kind}]"
        return super().__repr__() + state

    def _settings(self) -> RegressionSettings:
        settings = resolve_regression(**self.get_params())
        warn_if_large(self.alpha)
        return settings

    def _averages(self, outputs: Any, y: Any) -> list[Averaged]:
        return [averaged(self._check_fitted(), outputs, y)]

    def _labelled(self, outputs: Any, y: Any, **rows: Any) -> LabelledResponses:
        return LabelledResponses.of(self._check_fitted(), outputs, y, **rows)
