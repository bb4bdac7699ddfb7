"""The questions that estimators of responses answer in words of their own."""

from __future__ import annotations

from typing import Any

from conformix.errors import InvalidInput
from conformix.estimators.surface import Surface
from conformix.fit.contributions import Contribution, contributions
from conformix.regression.explanation import IntervalExplanation, explain_interval


class ResponseSurface(Surface):
    """What can be asked of every fitted estimator of responses."""

    def explain(  # type: ignore[override]  # no labels to choose from
        self, X: Any, i: int = 0, *, y: Any = None, alpha: float | None = None, **rows: Any
    ) -> IntervalExplanation:
        """Return which scores set the two ends of the interval of a row, and in what shares.

        Parameters
        ----------
        X : like in `predict_interval`
            Rows, or the one row ``X[i : i + 1]``.
        i : int
            Which row.
        y : array of shape (n,), or one response, optional
            The truth, to be placed.
        alpha : float, optional
            Another level than the fitted one.
        **rows
            As in `predict_interval`.

        Returns
        -------
        IntervalExplanation
            Its ``sentence`` says it; its repr has weights, parts and shares of every score beside.
        """
        predictor = self._average_of_scores()._check_fitted()
        if hasattr(predictor, "no_sum_of_parts"):
            raise InvalidInput(predictor.no_sum_of_parts)
        return explain_interval(predictor, self.outputs(X), i, y=y, alpha=alpha, **rows)

    def contributions(self, X: Any, y: Any, *, by: str = "score") -> tuple[Contribution, ...]:
        """Return what each score, or each model, contributes, largest share first.

        Parameters
        ----------
        X, y
            Labelled rows on which widths are measured, best not those of `fit`.
        by : {"score", "model"}
            What is left out together.
        """
        return contributions(self._average_of_scores(), self.outputs(X), y, by=by)
