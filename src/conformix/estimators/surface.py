"""The questions that every estimator answers, in one place.

An estimator says what its models make of rows (`outputs`) and what was fitted on that
(`_average_of_scores`); the rest follows. `ScoreAverage`, `CrossAverage`, `OnlineAverage` and
`RegressionAverage` take outputs themselves; the classifiers and regressors of scikit-learn make
them.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

from conformix.errors import InvalidInput
from conformix.fit.contributions import Contribution, contributions
from conformix.fit.evaluation import Evaluation, evaluated
from conformix.fit.explanation import Explanation, explain_numbers
from conformix.registry import WORDS_OF_OTHERS, no_attribute


class Surface:
    """What can be asked of every fitted estimator."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(super(), "__getattr__", None)
        if found is not None and name not in WORDS_OF_OTHERS:
            return found(name)
        # What has the name and raised an AttributeError has said why.
        there = inspect.getattr_static(type(self), name, None)
        if hasattr(type(there), "__get__"):
            return there.__get__(self, type(self))  # type: ignore[union-attr]
        raise no_attribute(f"{type(self).__name__!r} object", name, dir(type(self)))

    def _average_of_scores(self) -> Any:
        """Return what was fitted on outputs: this estimator, or the one that it holds."""
        return self

    def outputs(self, X: Any) -> Any:
        """Return what the models say of rows, as `fit` has calibrated it.

        Parameters
        ----------
        X : like in `fit`
            Rows; outputs themselves are returned as they are.

        Returns
        -------
        array of shape (n, K), mapping of such by model, or a list of these by fold
            What `conformix.ScoreAverage` (folds: `conformix.CrossAverage`) takes.
        """
        return X

    def evaluate(self, X: Any, y: Any, *, alpha: float | None = None, **rows: Any) -> Evaluation:
        """Measure the sets or intervals of labelled rows, and say whether the promise is kept.

        Parameters
        ----------
        X, y
            Labelled rows, not used in `fit`.
        alpha : float, optional
            Another level than the fitted one, not chosen by looking at these labels.
        **rows
            As in `predict_set` or `predict_interval`.

        Returns
        -------
        Evaluation
            A mapping of measures by name, with intervals, the verdict and the drift check.
        """
        average = self._average_of_scores()
        return evaluated(average._labelled(self.outputs(X), y, **rows), alpha)

    def explain(
        self,
        X: Any,
        i: int = 0,
        *,
        y: Any = None,
        top: int = 12,
        alpha: float | None = None,
        **rows: Any,
    ) -> Explanation:
        """Return why the labels of a row are in its set or not: its repr is a table.

        Parameters
        ----------
        X : like in `predict_set`
            Rows, or the one row ``X[i : i + 1]``.
        i : int
            Which row.
        y : array of shape (n,), or one label, optional
            The truth, to be marked.
        top : int
            Labels to show, from the best.
        alpha : float, optional
            Another level than the fitted one.
        **rows
            As in `predict_set`.
        """
        average = self._average_of_scores()
        return explain_numbers(average, self.outputs(X), i, y=y, top=top, alpha=alpha, **rows)

    def contributions(self, X: Any, y: Any, *, by: str = "score") -> tuple[Contribution, ...]:
        """Return what each score, or each model, contributes, largest share first.

        Parameters
        ----------
        X, y
            Labelled rows on which sizes are measured, best not those of `fit`.
        by : {"score", "model"}
            What is left out together.
        """
        average = self._average_of_scores()
        return contributions(average._check_fitted(), self.outputs(X), y, by=by)

    def report(self, X: Any, y: Any, **options: Any) -> Any:
        """Return the report on labelled rows; its ``save(path)`` writes one HTML page.

        Parameters
        ----------
        X, y
            Labelled rows, not used in `fit`.
        **options
            As in `conformix.build_report`: ``alphas``, ``title``, ``class_names`` and more.
        """
        import conformix  # noqa: PLC0415  the table of contents alone looks down to the report

        return conformix.build_report(self._average_of_scores(), self.outputs(X), y, **options)

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write what was fitted on outputs as JSON, never as a pickle.

        Models of other libraries are not in the file: keep them as you keep any model, and give
        them to `load`.

        Parameters
        ----------
        path : path
            Usually ``model.json``; large arrays go to an npz of the same name.
        **options
            As in `ScoreAverage.save`.
        """
        self._average_of_scores().save(path, **options)


def named_estimators(estimators: Any, kind: str = "classifier") -> list[tuple[str, Any]]:
    """Return estimators by name: one alone has none, a list without names gets those of classes.

    Examples
    --------
    >>> named_estimators({"a": 1, "b": 2}), named_estimators(1)
    ([('a', 1), ('b', 2)], [('', 1)])
    """
    if hasattr(estimators, "items") and not hasattr(estimators, "fit"):
        estimators = list(estimators.items())
    if not isinstance(estimators, list | tuple):
        return [("", estimators)]
    if not estimators:
        raise InvalidInput(f"estimators must hold at least one (name, {kind}).")
    pairs = [isinstance(one, tuple) and len(one) == 2 for one in estimators]
    if all(pairs):
        return list(estimators)
    if any(pairs):
        raise InvalidInput(
            f"estimators must all have names, as (name, {kind}), or none of them; got "
            f"{sum(pairs)} of {len(pairs)} with names."
        )
    odd = next((one for one in estimators if not hasattr(one, "fit")), None)
    if odd is not None:
        raise InvalidInput(
            f"estimators must be {kind}s: one, a list, a list of (name, {kind}) or a "
            f"mapping by name; got {odd!r:.60} among them."
        )
    kinds = [type(one).__name__.lower() for one in estimators]
    names = [
        kind if kinds.count(kind) == 1 else f"{kind}-{kinds[: place + 1].count(kind)}"
        for place, kind in enumerate(kinds)
    ]
    return list(zip(names, estimators, strict=True))
