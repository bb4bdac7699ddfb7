"""Parameters of an estimator by scikit-learn's conventions, with or without scikit-learn."""

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
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in self._signature().items()
            if _differs(getattr(self, name), parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _differs(value: Any, default: Any) -> bool:
    return type(value) is not type(default) or bool(value is not default and value != default)
