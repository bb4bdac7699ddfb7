"""Constructor parameters that can be read, set and cloned, by scikit-learn's conventions.

An estimator here stores its arguments in ``__init__`` and does nothing else, so its parameters are
the names in its signature. Where scikit-learn is installed estimators are its `BaseEstimator`;
where it is not, all works but what only scikit-learn asks for (tags, the HTML picture).
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from conformix.registry import unknown_name

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
