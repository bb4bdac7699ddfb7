"""The methods of `ScoreAverage` for rows that come in batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from conformix.data.batches.sources import from_iterable
from conformix.estimators.base import Readings
from conformix.fit.batches import fit_batches
from conformix.fit.settings import Recipe
from conformix.sets.prediction import PredictionSets


class InBatches(Readings):
    """``fit_batches`` and ``predict_batches``: one batch of rows in memory at a time."""

    def fit_batches(self, batches: Any, *, classes: Any = None) -> Self:
        """Choose the weights and the threshold from batches of labelled rows.

        Memory is that of the scores of the tuning rows (``ValidityFirst(max_rows=...)``) and of d
        numbers per row. The result is that of `fit` on the same rows where the source knows their
        number; an iterator does not, and another random sample of the rows tunes.

        Parameters
        ----------
        batches : source of `conformix.data.batches`, iterable of ``(outputs, y)``, or a function
            Every batch is a tuple; see `conformix.data.batches.Batches`. A function is called
            without arguments and returns an iterator.
        classes : sequence of length K, optional
            Names of the classes, as in `fit`.
        """
        self.predictor_ = fit_batches(Recipe(**self.get_params()), batches, classes=classes)
        return self

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
                more = {} if alone or len(batch) < 3 else batch[2]
                yield predictor.predict_set(outputs, alpha, **more)

        return sets()
