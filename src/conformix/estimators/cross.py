"""Cross-conformal sets (CV+, jackknife+): every row trains and every row calibrates.

`CrossAverage` takes the outputs of the fold models; `conformix.CrossConformalClassifier` trains
scikit-learn classifiers as well. Model f was trained without fold f, and so were
its weights and its scale. With ``s_f(x, y)`` its combined score, a label y is in the set of x iff
``#{i : s_f(i)(x_i, y_i) > s_f(i)(x, y)} < (1 - alpha)(n + 1)``, where f(i) is the fold of row i
(Vovk, 2015; Barber et al., 2021; for classes: Romano et al., 2020). One row per fold is the
jackknife+. With a threshold per class or group, i runs over the n rows of the label's own one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from conformix.calibration.cuts import Marginal, Plan, SinglePlan, laid_down_alike
from conformix.conformal import simple_fraction, warn_if_large
from conformix.data.checks import on_host
from conformix.data.labels import check_classes
from conformix.data.outputs import Form, check_outputs
from conformix.data.row_data import check_rows, group_names, row_ids
from conformix.errors import InvalidInput, NotFitted
from conformix.estimators.params import Params
from conformix.estimators.surface import Surface
from conformix.fit.cross import (
    CrossPredictor,
    CrossRows,
    FoldRule,
    cell_coverage,
    check_fold_scheme,
    cross_coverage,
    rows_of_folds,
)
from conformix.fit.fit import fit_scores
from conformix.fit.rule import Rule
from conformix.fit.saved import MAX_MEMORY
from conformix.fit.saved.cross import read_cross, write_cross
from conformix.fit.settings import Settings, resolve
from conformix.guarantees import Guarantee
from conformix.kernels.arrays import FloatArray, RandomState, as_generator
from conformix.kernels.combine import RankLimits
from conformix.predictions.sets import PredictionSets
from conformix.registry import check_flag
from conformix.scores import ScoreLike, score_columns
from conformix.scores.tensor import draw_key
from conformix.splits import EfficiencyFirst


class Fold(NamedTuple):
    """What the model of one fold says.

    Parameters
    ----------
    outputs : array of shape (n_f, K), or a mapping or sequence of such
        Its outputs on the rows of the fold, which it was not trained on.
    y : integer array of shape (n_f,)
        Their labels.
    tune_outputs : like `outputs`, optional
        Its outputs on rows **outside** the fold that choose the fold's weights and scale; rows that
        it was not trained on choose better.
    tune_y : integer array, optional
        Their labels.
    strata : array of shape (n_f,), optional
        The group of every row of the fold, for ``calibration="group"``.

    Examples
    --------
    >>> Fold([[0.2, 0.8]], [1]).tune_y is None
    True
    """

    outputs: Any
    y: Any
    tune_outputs: Any = None
    tune_y: Any = None
    strata: Any = None


class CrossAverage(Surface, Params):
    """Cross-conformal sets from an average of scores, with weights per fold.

    Parameters
    ----------
    scores, alpha, search, normalize, kind, allow_empty, random_state, threads
        As in `conformix.ScoreAverage`; scores have names here, by default those of the paper.
        ``normalize="auto"`` is ``ecdf`` where a fold has rows to
        tune on; one score needs none.
    weights : array of shape (d,), optional
        Weights fixed by hand: no fold needs rows to tune on.
    calibration : {"marginal", "class", "group", "rc3p"} or an object of `conformix.calibration`
        Among which rows a label is ranked: all, or those of its class, given cluster or group, of
        all folds. The proven coverage then holds in every one of these, with its own numbers of
        rows and folds (`conformix.fit.cross`). Rare ones are counted with the candidate.

    Attributes
    ----------
    weights_ : float64 array of shape (F, d)
        The weights of every fold.
    predictor_ : CrossPredictor
        What was fitted.
    guarantee_ : Guarantee
        The proven coverage for these folds; usual coverage is near ``1 - alpha``.

    Examples
    --------
    >>> import conformix as cx
    >>> data = cx.datasets.load("cifar10")
    >>> P, y = data.outputs["vgg16"], data.labels  # one model for all folds: it saw none of them
    >>> folds = [Fold(P[a:a+200], y[a:a+200], P[1000:1500], y[1000:1500]) for a in (0, 200, 400)]
    >>> cross = CrossAverage(alpha=0.1, kind="logits").fit(folds)
    >>> cross.predict_set([P[2000:3000]] * 3)
    PredictionSets(1,000 sets over 10 classes, mean size 0.9...)
    >>> print(cross.guarantee_.statement)
    P(y in set) >= 0.7933
    """

    no_report = (
        "a report compares weights at one threshold and judges coverage by its law, and folds have "
        "weights of their own, no common threshold and no known law; evaluate(...) has the "
        "measures."
    )

    def __init__(
        self,
        scores: ScoreLike | Sequence[ScoreLike] = ("thr", "aps", "rank"),
        *,
        alpha: float = 0.1,
        search: Any = "auto",
        normalize: Any = "auto",
        kind: Form = "probs",
        weights: Any = None,
        allow_empty: bool = True,
        random_state: RandomState = None,
        threads: int | None = None,
        calibration: Any = "marginal",
    ) -> None:
        self.scores = scores
        self.alpha = alpha
        self.search = search
        self.normalize = normalize
        self.kind = kind
        self.weights = weights
        self.allow_empty = allow_empty
        self.random_state = random_state
        self.threads = threads
        self.calibration = calibration

    def fit(self, folds: Sequence[Fold], *, classes: Any = None) -> Self:
        """Choose the weights of every fold and score its rows.

        Parameters
        ----------
        folds : sequence of Fold
            At least two; every row belongs to one of them.
        classes : sequence of length K, optional
            Names of the columns of the outputs, for the sets; labels of folds may then be names.
        """
        if len(folds) < 2:
            raise InvalidInput(f"cross-conformal sets need at least 2 folds; got {len(folds)}.")
        settings = self._checked()
        rng = as_generator(self.random_state)
        first = check_outputs(on_host(Fold(*folds[0]).outputs), self.kind)
        models = tuple(first.models)
        blank = CrossPredictor(
            score_columns(models, self.scores), models, first.n_classes, self.kind, draw_key(rng),
            self.alpha, (), SinglePlan(), self.threads,
            classes=check_classes(classes, first.n_classes),
        )  # fmt: skip
        rules = [
            self._fold_rule(blank, Fold(*fold), number, settings, rng)
            for number, fold in enumerate(folds)
        ]
        plan = self._plan(settings, rules, first.n_classes, rng)
        self.predictor_ = replace(blank, folds=tuple(rules), plan=plan)
        return self

    def _checked(self) -> Settings:
        """Return the settings, or refuse what no folds could change."""
        simple_fraction(self.alpha)
        check_flag(self.allow_empty, "allow_empty")
        settings = self._settings()
        check_fold_scheme(
            settings.calibration, what="label", average="ScoreAverage",
            way_out='give the clusters, or say calibration="class"',
        )  # fmt: skip
        warn_if_large(self.alpha)
        return settings

    @property
    def rules_(self) -> tuple[Rule, ...]:
        """The rule of every fold."""
        return tuple(fold.rule for fold in self._check_fitted().folds)

    @property
    def calibration_(self) -> tuple[FloatArray, ...]:
        """Combined true-label scores of the rows of every fold, rising."""
        return tuple(fold.values for fold in self._check_fitted().folds)

    @property
    def n_classes_(self) -> int:
        """Number of classes, K."""
        return self._check_fitted().n_classes

    @property
    def weights_(self) -> FloatArray:
        """The weights of every fold, shape (F, d)."""
        return np.array([rule.weights for rule in self.rules_])

    @property
    def n_(self) -> int:
        """Number of calibration rows, over all folds."""
        return sum(len(values) for values in self.calibration_)

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven for these folds."""
        return self._check_fitted().guarantee

    def predict_set(
        self, outputs: Sequence[Any], *, alpha: float | None = None, strata: Any = None
    ) -> PredictionSets:
        """Return the sets of new rows.

        Parameters
        ----------
        outputs : sequence of F arrays of shape (m, K), or of mappings
            Outputs of each of the fold models on the new rows, in the order of the folds.
        alpha : float, optional
            Another level than the fitted one, with the same weights.
        strata : array of shape (m,), optional
            The group of every row, for ``calibration="group"``.
        """
        predictor = self._check_fitted()
        level = predictor.alpha if alpha is None else alpha
        simple_fraction(level)
        member = predictor.member(outputs, level, strata=strata)
        return PredictionSets(member, predictor.classes, ids=row_ids(outputs))

    def predict_pvalues(self, outputs: Sequence[Any], *, strata: Any = None) -> FloatArray:
        """Return the cross-conformal p-values ``(1 + #{i : s_i <= s}) / (n + 1)``, shape (m, K).

        Twice these are valid p-values, up to the small term of the guarantee.

        Parameters
        ----------
        outputs, strata
            As in `predict_set`.
        """
        ranks, among = self._check_fitted().ranks(outputs, strata=strata)
        return ranks / (among + 1)

    def save(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Write what predicts from outputs as JSON (`CrossAverage.load`), never as a pickle.

        The fold models are not in the file: keep them as you keep any model.

        Parameters
        ----------
        path : path
            Usually ``model.json``; large arrays go to an npz of the same name.
        """
        write_cross(self.get_params(), self._check_fitted(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_memory: int | str = MAX_MEMORY) -> Self:
        """Return what `save` has written.

        Parameters
        ----------
        path : path
            The JSON file.
        max_memory : int or str
            Bytes that the files may ask for, as a number or a text such as ``"512M"``.

        Examples
        --------
        >>> import tempfile
        >>> folds = [Fold([[0.7, 0.3], [0.4, 0.6]], [0, 1]), Fold([[0.2, 0.8]], [1])]
        >>> cross = CrossAverage("thr", weights=[1.0], alpha=0.4).fit(folds)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cross.save(f"{folder}/cross.json")
        ...     again = CrossAverage.load(f"{folder}/cross.json")
        >>> again.predict_set([[[0.1, 0.9]], [[0.2, 0.8]]]).labels(0)
        [1]
        """
        params, predictor = read_cross(path, max_memory=max_memory)
        model = cls(**params)
        model.predictor_ = predictor
        return model

    def _fold_rule(
        self,
        blank: CrossPredictor,
        fold: Fold,
        number: int,
        settings: Settings,
        rng: np.random.Generator,
    ) -> FoldRule:
        """Return the rule of one fold with its rows, in the order of their scores."""
        checked = blank.check(fold.outputs, f"outputs of fold {number}")
        y = blank.labels(fold.y, checked.n, f"y of fold {number}")
        scheme = settings.calibration
        data = check_rows(fold.strata, None, checked.n, scheme.needs, scheme.name)
        rule = self._rule(blank, fold, number, settings, rng)
        values = rule.of_true_labels(blank.scores(checked), y)
        order = np.argsort(values, kind="stable")
        return FoldRule(rule, values[order], y[order], data.take(order))

    def _plan(
        self,
        settings: Settings,
        rules: Sequence[FoldRule],
        n_classes: int,
        rng: np.random.Generator,
    ) -> Plan:
        """Return the cells, counted over the rows of all folds and the candidate alike."""
        if settings.calibration.name == Marginal.name:
            return SinglePlan()
        y, data = rows_of_folds(rules)
        return laid_down_alike(
            settings.calibration, y, data, group_names(data), n_classes=n_classes,
            alpha=self.alpha, rng=rng,
        )  # fmt: skip

    def _rule(
        self,
        blank: CrossPredictor,
        fold: Fold,
        number: int,
        settings: Settings,
        rng: np.random.Generator,
    ) -> Rule:
        """Return the rule of one fold, from rows outside it."""
        columns, scheme = blank.columns, settings.calibration
        d = len(columns)
        weights = self._fixed_weights(d)
        ranked = hasattr(scheme, "limits")
        if weights is not None and not ranked:
            normalizer = settings.normalizer(separate=False)
            if normalizer.learns:
                raise InvalidInput(
                    f'normalize="{normalizer.name}" learns from tuning rows, and fixed weights '
                    'leave none; say normalize="scale", or search the weights.'
                )
            one = np.empty((1, blank.n_classes, d))
            return Rule(normalizer.fit(one, columns), weights, self.allow_empty)
        if fold.tune_outputs is None or fold.tune_y is None:
            what, otherwise = ("ranks", "") if ranked else ("weights", ", or fix weights=...")
            raise InvalidInput(
                f"fold {number} has no rows to choose {what} on; give tune_outputs and tune_y from "
                f"outside the fold{otherwise}"
            )
        tune = blank.check(fold.tune_outputs, f"tune_outputs of fold {number}")
        y = blank.labels(fold.tune_y, tune.n, f"tune_y of fold {number}")
        scale = settings.normalizer(separate=True)  # the fold stays out of what is learnt here
        scores = blank.scores(tune)
        # Of the calibration only what the weights are searched with matters outside the fold.
        searched = scheme if scheme.tune and not ranked else Marginal()
        how = replace(settings, scale=scale, calibration=searched)
        rule: Rule = fit_scores(scores, y, columns, how, rng).rule
        if not ranked:
            return rule
        ranks, width = replace(rule, allow_empty=True).true_ranks(scores, y)
        depths = scheme.limits(ranks, y, blank.n_classes, self.alpha)  # type: ignore[attr-defined]
        return replace(rule, limits=RankLimits(depths, width + 1))

    def _tunes(self, d: int) -> bool:
        """Whether a fold needs rows outside it to choose weights, or ranks, on."""
        return self._fixed_weights(d) is None or hasattr(self._settings().calibration, "limits")

    def _fixed_weights(self, d: int) -> FloatArray | None:
        """Return the weights (d,) that no row has to choose, given or the only ones; or None."""
        settings = self._settings()
        return settings.only_weights(d) if self.weights is None else settings.settled(d)

    def _settings(self) -> Settings:
        return resolve(
            self.scores, alpha=self.alpha, split=EfficiencyFirst(), search=self.search,
            normalize=self.normalize, kind=self.kind, weights=self.weights,
            allow_empty=self.allow_empty, threads=self.threads, calibration=self.calibration,
        )  # fmt: skip

    def _labelled(self, outputs: Any, y: Any, **rows: Any) -> CrossRows:
        return CrossRows.of(self._check_fitted(), outputs, y, **rows)

    def _check_fitted(self) -> CrossPredictor:
        predictor: CrossPredictor | None = self.__dict__.get("predictor_")
        if predictor is None:
            raise NotFitted("this CrossAverage is not fitted yet; call fit(folds) first.")
        return predictor


__all__ = ["CrossAverage", "Fold", "cell_coverage", "cross_coverage"]
