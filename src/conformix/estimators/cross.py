"""Cross-conformal sets (CV+, jackknife+): every row trains and every row calibrates.

`CrossAverage` takes the outputs of the fold models; `conformix.CrossConformalClassifier` trains
scikit-learn classifiers as well. Model f was trained without fold f, and so were
its weights and its scale. With ``s_f(x, y)`` its combined score, a label y is in the set of x iff
``#{i : s_f(i)(x_i, y_i) > s_f(i)(x, y)} < (1 - alpha)(n + 1)``, where f(i) is the fold of row i
(Vovk, 2015; Barber et al., 2021; for classes: Romano et al., 2020). One row per fold is the
jackknife+.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from conformix.conformal import ranks_in_set, simple_fraction
from conformix.data.checks import on_host
from conformix.data.outputs import Kind, Outputs, check_labels, check_outputs, matching
from conformix.errors import InvalidInput, NotFitted
from conformix.estimators.params import Params
from conformix.fit.fit import fit_scores
from conformix.fit.rule import Rule
from conformix.fit.settings import Settings, resolve
from conformix.guarantees import LABELS, Guarantee
from conformix.guarantees.statement import at_least
from conformix.kernels.arrays import FloatArray, IntArray, RandomState, as_generator
from conformix.registry import check_flag
from conformix.scores import ScoreLike, score_columns
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.sets import PredictionSets
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

    Examples
    --------
    >>> Fold([[0.2, 0.8]], [1]).tune_y is None
    True
    """

    outputs: Any
    y: Any
    tune_outputs: Any = None
    tune_y: Any = None


def cross_coverage(alpha: float, sizes: Sequence[int]) -> float:
    """Return what cross-conformal sets cover at least, for folds of these sizes.

    ``1 - 2 alpha - min{2(1 - 1/F)/(n/F + 1), (1 - F/n)/(F + 1)}``; the second term needs folds of
    one size and is left out otherwise.

    Examples
    --------
    >>> round(cross_coverage(0.1, [100] * 5), 4)
    0.7842
    >>> cross_coverage(0.1, [1] * 50)  # jackknife+
    0.8
    """
    f, n = len(sizes), int(np.sum(sizes))
    lost = 2 * (1 - 1 / f) / (n / f + 1)
    if len(set(sizes)) == 1:
        lost = min(lost, (1 - f / n) / (f + 1))
    return 1 - 2 * float(simple_fraction(alpha)) - lost


class CrossAverage(Params):
    """Cross-conformal sets from an average of scores, with weights per fold.

    Parameters
    ----------
    scores, alpha, search, normalize, kind, allow_empty, random_state, threads
        As in `conformix.ScoreAverage`. ``normalize="auto"`` is ``ecdf`` where a fold has rows to
        tune on; one score needs none.
    weights : array of shape (d,), optional
        Weights fixed by hand: no fold needs rows to tune on.

    Attributes
    ----------
    weights_ : float64 array of shape (F, d)
        The weights of every fold.
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

    def __init__(
        self,
        scores: ScoreLike | Sequence[ScoreLike] = ("thr", "aps", "rank"),
        *,
        alpha: float = 0.1,
        search: Any = "auto",
        normalize: Any = "auto",
        kind: Kind = "probs",
        weights: Any = None,
        allow_empty: bool = True,
        random_state: RandomState = None,
        threads: int | None = None,
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

    def fit(self, folds: Sequence[Fold]) -> Self:
        """Choose the weights of every fold and score its rows.

        Parameters
        ----------
        folds : sequence of Fold
            At least two; every row belongs to one of them.
        """
        simple_fraction(self.alpha)
        check_flag(self.allow_empty, "allow_empty")
        if len(folds) < 2:
            raise InvalidInput(f"cross-conformal sets need at least 2 folds; got {len(folds)}.")
        rng = as_generator(self.random_state)
        self._key = draw_key(rng)
        first = check_outputs(on_host(folds[0].outputs), self.kind)
        self._models, self.n_classes_ = tuple(first.models), first.n_classes
        self._columns = score_columns(self._models, self.scores)
        rules, calibration = [], []
        for number, fold in enumerate(folds):
            checked = self._check(fold.outputs, f"outputs of fold {number}")
            y = check_labels(fold.y, checked.n, self.n_classes_, name=f"y of fold {number}")
            rule = self._rule(Fold(*fold), number, rng)
            rules.append(rule)
            calibration.append(np.sort(rule.of_true_labels(self._scores(checked), y)))
        self.rules_, self.calibration_ = tuple(rules), tuple(calibration)
        return self

    @property
    def weights_(self) -> FloatArray:
        """The weights of every fold, shape (F, d)."""
        self._check_fitted()
        return np.array([rule.weights for rule in self.rules_])

    @property
    def n_(self) -> int:
        """Number of calibration rows, over all folds."""
        self._check_fitted()
        return sum(len(values) for values in self.calibration_)

    @property
    def guarantee_(self) -> Guarantee:
        """What is proven for these folds."""
        self._check_fitted()
        share = cross_coverage(self.alpha, [len(values) for values in self.calibration_])
        needs = (
            "exchangeable rows; model, weights and scale of a fold chosen without it, by one "
            f"procedure that does not depend on the order of rows; {LABELS}"
        )
        if share <= 0:
            return Guarantee("none", "the bound says nothing for folds of this size", needs)
        return Guarantee("exact", f"P(y in set) >= {at_least(share)}", needs)

    def predict_set(self, outputs: Sequence[Any], *, alpha: float | None = None) -> PredictionSets:
        """Return the sets of new rows.

        Parameters
        ----------
        outputs : sequence of F arrays of shape (m, K), or of mappings
            Outputs of each of the fold models on the new rows, in the order of the folds.
        alpha : float, optional
            Another level than the fitted one, with the same weights.
        """
        level = self.alpha if alpha is None else alpha
        simple_fraction(level)
        # #{> s} < (1 - alpha)(n + 1) is 1 + #{<= s} > alpha (n + 1).
        return PredictionSets(ranks_in_set(self._ranks(outputs), self.n_, level))

    def predict_pvalues(self, outputs: Sequence[Any]) -> FloatArray:
        """Return the cross-conformal p-values ``(1 + #{i : s_i <= s}) / (n + 1)``, shape (m, K).

        Twice these are valid p-values, up to the small term of the guarantee.
        """
        return self._ranks(outputs) / (self.n_ + 1)

    def _ranks(self, outputs: Sequence[Any]) -> IntArray:
        """Return ``1 + #{i : s_f(i)(x_i, y_i) <= s_f(i)(x, y)}``, shape (m, K)."""
        self._check_fitted()
        if len(outputs) != len(self.rules_):
            raise InvalidInput(
                f"outputs must come from the {len(self.rules_)} fold models; got {len(outputs)}."
            )
        total: Any = 1
        n = None
        for number, fold_outputs in enumerate(outputs):
            checked = self._check(fold_outputs, f"outputs of fold {number}")
            n = checked.n if n is None else n
            if checked.n != n:
                raise InvalidInput(
                    f"outputs of all folds must be of the same rows; fold {number} has "
                    f"{checked.n} rows and fold 0 has {n}."
                )
            values = np.concatenate(
                [
                    self.rules_[number].combined(self._scores(checked.rows(rows)))
                    for rows in checked.blocks()
                ]
            )
            total = total + np.searchsorted(self.calibration_[number], values, side="right")
        return np.asarray(total)

    def _rule(self, fold: Fold, number: int, rng: np.random.Generator) -> Rule:
        """Return the rule of one fold, from rows outside it."""
        settings = self._settings()
        d = len(self._columns)
        weights = self._fixed_weights(d)
        if weights is not None:
            normalizer = settings.normalizer(separate=False)
            if normalizer.learns:
                raise InvalidInput(
                    f'normalize="{normalizer.name}" learns from tuning rows, and fixed weights '
                    'leave none; say normalize="scale", or search the weights.'
                )
            one = np.empty((1, self.n_classes_, d))
            return Rule(normalizer.fit(one, self._columns), weights, self.allow_empty)
        if fold.tune_outputs is None or fold.tune_y is None:
            raise InvalidInput(
                f"fold {number} has no rows to choose weights on; give tune_outputs and tune_y "
                "from outside the fold, or fix weights=..."
            )
        tune = self._check(fold.tune_outputs, f"tune_outputs of fold {number}")
        y = check_labels(fold.tune_y, tune.n, self.n_classes_, name=f"tune_y of fold {number}")
        scale = settings.normalizer(separate=True)  # the fold stays out of what is learnt here
        scores = self._scores(tune)
        fitted = fit_scores(scores, y, self._columns, replace(settings, scale=scale), rng)
        return fitted.rule  # type: ignore[no-any-return]

    def _fixed_weights(self, d: int) -> FloatArray | None:
        """Return the weights (d,) that no row has to choose, given or the only ones; or None."""
        settings = self._settings()
        return settings.only_weights(d) if self.weights is None else settings.settled(d)

    def _settings(self) -> Settings:
        return resolve(
            self.scores, alpha=self.alpha, split=EfficiencyFirst(), search=self.search,
            normalize=self.normalize, kind=self.kind, weights=self.weights,
            allow_empty=self.allow_empty, threads=self.threads,
        )  # fmt: skip

    def _check(self, outputs: Any, name: str) -> Outputs:
        checked = check_outputs(on_host(outputs), self.kind, name=name)
        return matching(checked, self._models, self.n_classes_, name)

    def _scores(self, outputs: Outputs) -> FloatArray:
        return fill_tensor(outputs, self._columns, key=self._key, threads=self.threads)

    def _check_fitted(self) -> None:
        if "rules_" not in self.__dict__:
            raise NotFitted("this CrossAverage is not fitted yet; call fit(folds) first.")


__all__ = ["CrossAverage", "Fold", "cross_coverage"]
