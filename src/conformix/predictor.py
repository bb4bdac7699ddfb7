"""From outputs to sets and p-values, once everything is fitted.

Prediction goes block by block: the scores of a block of rows, their combination, the comparison.
No tensor of all rows is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformix.arrays import FloatArray
from conformix.conformal import simple_fraction, warn_if_trivial
from conformix.errors import InvalidInput
from conformix.exact.fitted import FullFitted
from conformix.inputs import Kind, Outputs, check_outputs
from conformix.pipeline import Fitted
from conformix.scores import Column
from conformix.scores.tensor import fill_tensor
from conformix.scores.uniforms import row_uniforms
from conformix.sets import NestedSets, PredictionSets


@dataclass(frozen=True)
class Predictor:
    """A fitted rule together with what its inputs must look like.

    Parameters
    ----------
    columns : tuple of Column
        Which score of which model every plane holds.
    models : tuple of str
        Names of the models.
    n_classes : int
        K.
    kind : {"probs", "logits"}
        What the outputs are.
    key : int
        Key of the row uniforms of randomised scores.
    alpha : float
        The level of the fit.
    fitted : Fitted or FullFitted
        What was learnt: one rule with its calibration, or the tables of the exact split.
    threads : int or None
        Threads for the scores; None takes the available cores.
    """

    columns: tuple[Column, ...]
    models: tuple[str, ...]
    n_classes: int
    kind: Kind
    key: int
    alpha: float
    fitted: Fitted | FullFitted
    threads: int | None = None

    def check(self, outputs: Any, name: str = "outputs") -> Outputs:
        """Return checked outputs of the fitted models, in the fitted order."""
        return matching(
            check_outputs(outputs, self.kind, name=name), self.models, self.n_classes, name
        )

    def scores(self, outputs: Outputs) -> FloatArray:
        """Return the score tensor (n, K, d) of checked outputs."""
        return fill_tensor(outputs, self.columns, key=self.key, threads=self.threads)

    def blocks(self, outputs: Outputs) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of rows with their scores (rows, K, d)."""
        for rows in outputs.blocks():
            yield rows, self.scores(outputs.rows(rows))

    def predict_set(self, outputs: Any, alpha: float) -> PredictionSets:
        """Return the sets at one level."""
        checked = self.check(outputs)
        mask = np.empty((checked.n, self.n_classes), dtype=bool)
        for rows, scores in self.blocks(checked):
            mask[rows] = self.fitted.member(scores, alpha)
        return PredictionSets(mask)

    def predict_nested(self, outputs: Any, alphas: Sequence[float]) -> NestedSets:
        """Return the sets at several levels, from one pass over the rows."""
        for alpha in alphas:
            simple_fraction(alpha)
        levels = sorted({float(alpha) for alpha in alphas})
        if not levels:
            raise InvalidInput("alpha must hold at least one level; got none.")
        if not isinstance(self.fitted, Fitted):
            raise InvalidInput(
                'sets of split "exact" need not be nested in alpha; predict one level at a time.'
            )
        warn_if_trivial(self.fitted.n, levels[0], self.fitted.ledger.facts.rank)
        checked = self.check(outputs)
        # Thresholds rise with alpha, so a label is in at the levels whose threshold it reaches.
        thresholds = np.array([self.fitted.threshold(alpha) for alpha in levels])
        depth = np.empty((checked.n, self.n_classes), dtype=np.min_scalar_type(len(levels)))
        for rows, scores in self.blocks(checked):
            values = self.fitted.rule.combined(scores)
            depth[rows] = np.searchsorted(thresholds, values, side="right")
        return NestedSets(depth, levels)

    def predict_pvalues(self, outputs: Any, *, smoothed: bool = False) -> FloatArray:
        """Return the p-value of every label, shape (n, K)."""
        checked = self.check(outputs)
        pvalues = np.empty((checked.n, self.n_classes))
        for rows, scores in self.blocks(checked):
            # Another key than the scores', so that the two uniforms are independent.
            key = self.key ^ 0x5DEECE66D
            tau = row_uniforms(checked, rows, key)[:, None] if smoothed else None
            pvalues[rows] = self.fitted.ranks(scores, tau) / (self.fitted.n + 1)
        return pvalues


def matching(new: Outputs, models: tuple[str, ...], n_classes: int, name: str) -> Outputs:
    """Return `new` in the order of the fitted models, or say how it differs from them."""
    if set(new.models) != set(models):
        told = [
            "one array" if set(names) == {""} else sorted(names) for names in (models, new.models)
        ]
        raise InvalidInput(f"{name} must come from the fitted models {told[0]}; got {told[1]}.")
    if new.n_classes != n_classes:
        raise InvalidInput(f"{name} must have the {n_classes} fitted classes; got {new.n_classes}.")
    return Outputs({model: new.models[model] for model in models}, new.kind)
