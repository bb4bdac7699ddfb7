"""What all estimators share: parameters by scikit-learn's conventions, and views of the fit."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np

from conformix.errors import NotFitted
from conformix.fit.predictor import Predictor
from conformix.guarantees import Ledger
from conformix.kernels.arrays import FloatArray
from conformix.registry import unknown_name
from conformix.scores.blend.model import Blend
from conformix.search.objective import SearchResult

try:
    from sklearn.base import BaseEstimator
except ImportError:
    BaseEstimator = object


class Params(BaseEstimator):  # type: ignore[misc]
    """`get_params`, `set_params` and a repr that shows what differs from the defaults."""

    @classmethod
    def _signature(cls) -> dict[str, inspect.Parameter]:
        listed = dict(inspect.signature(cls.__init__).parameters)
        listed.pop("self")
        return listed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor parameters by name."""
        return {name: getattr(self, name) for name in self._signature()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name and return the object."""
        known = list(self._signature())
        for name, value in params.items():
            if name not in known:
                raise unknown_name(f"parameter of {type(self).__name__}", name, known)
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        told = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in self._signature().items()
            if _differs(getattr(self, name), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(told)})"


def _differs(value: Any, default: Any) -> bool:
    return type(value) is not type(default) or bool(value is not default and value != default)


class Readings(Params):
    """Read-only views of ``predictor_``, and one sentence where there is none yet."""

    predictor_: Predictor

    @property
    def score_names_(self) -> tuple[str, ...]:
        """Names of the scores, ``model.score`` with several models."""
        return tuple(str(column) for column in self._check_fitted().columns)

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
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.positive_only = getattr(self, "kind", "probs") == "probs"
        return tags

    def __repr__(self) -> str:
        predictor: Predictor | None = self.__dict__.get("predictor_")
        told = "" if predictor is None else f" [fitted, guarantee {self.guarantee_.kind}]"
        return super().__repr__() + told

    def _check_fitted(self) -> Predictor:
        predictor: Predictor | None = self.__dict__.get("predictor_")
        if predictor is None:
            name = type(self).__name__
            raise NotFitted(f"this {name} is not fitted yet; call fit(outputs, y) first.")
        return predictor
