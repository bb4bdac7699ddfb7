"""From settings and labelled outputs to a fitted predictor: every check, then the right fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix import pipeline
from conformix.arrays import FloatArray, IntArray, as_generator
from conformix.conformal import simple_fraction
from conformix.errors import InvalidInput
from conformix.exact.fit import fit_exact
from conformix.exact.fitted import FullFitted
from conformix.guarantees.order import check_delta
from conformix.inputs import Kind, Outputs, check_groups, check_labels, check_outputs
from conformix.kernels import available_threads
from conformix.normalize import resolve_normalizer
from conformix.pipeline import Fitted, Rule
from conformix.predictor import Predictor, matching
from conformix.scores import Column, score_columns
from conformix.scores.tensor import draw_key, fill_tensor
from conformix.search import resolve_search
from conformix.search.candidates import check_simplex
from conformix.splits import Exact, Split, resolve_split


@dataclass(frozen=True)
class Recipe:
    """All settings of a fit, as the user gave them; see `conformix.ScoreAverage`."""

    scores: Any
    alpha: float
    split: Any
    search: Any
    normalize: Any
    kind: Kind
    weights: Any
    tune_alpha: float | None
    allow_empty: bool
    guarantee: str
    delta: float
    random_state: Any
    threads: int | None

    def fit(self, outputs: Any, y: Any, *, test: Any, groups: Any) -> Predictor:
        """Return the predictor fitted on labelled outputs."""
        self.check()
        labelled = check_outputs(outputs, self.kind)
        labels = check_labels(y, labelled.n, labelled.n_classes)
        models = tuple(labelled.models)
        columns = score_columns(models, self.scores)
        rng = as_generator(self.random_state)
        key = draw_key(rng)
        scores = fill_tensor(labelled, columns, key=key, threads=self.threads)
        parts = check_groups(groups, labelled.n)
        if self.weights is not None:
            fitted: Fitted | FullFitted = self.with_fixed_weights(scores, labels, columns)
        else:
            split = resolve_split(self.split)
            test_scores = self.test_scores(split, test, labelled, columns, key)
            fitted = self.with_search(
                scores, labels, columns, rng=rng, test=test_scores, groups=parts
            )
        return Predictor(
            columns,
            models,
            labelled.n_classes,
            self.kind,
            key,
            self.alpha,
            fitted,
            threads=self.threads,
        )

    def check(self) -> None:
        """Refuse settings that cannot work, whether this fit uses them or not."""
        simple_fraction(self.alpha)
        if self.tune_alpha is not None:
            simple_fraction(self.tune_alpha, "tune_alpha")
        if self.guarantee not in ("marginal", "pac"):
            raise InvalidInput(f'guarantee must be "marginal" or "pac"; got {self.guarantee!r}.')
        check_delta(self.delta)
        available_threads(self.threads)
        resolve_search(self.search)
        altered = {
            "allow_empty=False": not self.allow_empty,
            "tune_alpha": self.tune_alpha is not None,
            'guarantee="pac"': self.guarantee == "pac",
        }
        option = next((name for name, asked in altered.items() if asked), None)
        if option and self.weights is None and isinstance(resolve_split(self.split), Exact):
            raise InvalidInput(
                f'split "exact" selects at alpha by one rule for all rows; {option} does not apply.'
            )

    @property
    def pac_delta(self) -> float | None:
        """Delta where a PAC statement is asked for."""
        return self.delta if self.guarantee == "pac" else None

    def with_search(
        self,
        scores: FloatArray,
        labels: IntArray,
        columns: tuple[Column, ...],
        *,
        rng: np.random.Generator,
        test: FloatArray | None,
        groups: IntArray | None,
    ) -> Fitted | FullFitted:
        """Return the fit whose weights are searched."""
        split = resolve_split(self.split)
        shared: dict[str, Any] = {
            "alpha": self.alpha,
            "search": resolve_search(self.search),
            "normalize": self.normalize,
            "rng": rng,
            "groups": groups,
            "threads": self.threads,
        }
        if isinstance(split, Exact):
            return fit_exact(scores, labels, columns, split=split, **shared)
        shared |= {"tune_alpha": self.tune_alpha, "allow_empty": self.allow_empty}
        shared |= {"test": test, "delta": self.pac_delta}
        return pipeline.fit(scores, labels, columns, split=split, **shared)

    def with_fixed_weights(
        self, scores: FloatArray, labels: IntArray, columns: tuple[Column, ...]
    ) -> Fitted:
        """Return the calibration of given weights on all rows: nothing is left to tune."""
        normalizer = resolve_normalizer(self.normalize, separate=False)
        if normalizer.learns:
            raise InvalidInput(
                f'normalize="{normalizer.name}" learns from tuning rows, and fixed weights leave '
                'none; say normalize="scale", or search the weights.'
            )
        weights = check_simplex(self.weights, len(columns))
        rule = Rule(normalizer.fit(scores, columns), weights, self.allow_empty)
        ledger = pipeline.fixed_ledger(*scores.shape, alpha=self.alpha, delta=self.pac_delta)
        return pipeline.calibrated(
            scores, labels, rule, alpha=self.alpha, ledger=ledger, normalizer=normalizer.name
        )

    def test_scores(
        self, split: Split, test: Any, labelled: Outputs, columns: tuple[Column, ...], key: int
    ) -> FloatArray | None:
        """Return the scores of the test rows where the split uses them."""
        if test is None:
            return None
        checked = check_outputs(test, self.kind, name="test")
        checked = matching(checked, tuple(labelled.models), labelled.n_classes, "test")
        if not split.needs_test:
            return None
        return fill_tensor(checked, columns, key=key, threads=self.threads)
