"""Parameters of an estimator by scikit-learn's conventions, with or without scikit-learn.

Importing scikit-learn takes about a second, more than a small fit and its sets. So estimators are
`sklearn.base.BaseEstimator` where somebody has imported it, before or after this module, and plain
objects of the same behaviour where nobody has.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Self

from conformix.registry import unknown_name


class Alone:
    """The base of estimators while scikit-learn is not there."""


class Params(Alone):
    """`get_params`, `set_params` and a repr that shows what differs from the defaults."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Return an object that is scikit-learn's where that is loaded by now."""
        join_sklearn()
        return super().__new__(cls)

    def __getattr__(self, name: str) -> Any:
        # A property that raises an AttributeError, such as "not fitted yet", ends here as well.
        found = inspect.getattr_static(type(self), name, None)
        if isinstance(found, property) and found.fget is not None:
            return found.fget(self)
        # What only scikit-learn knows of, asked of an object that is older than its import.
        if join_sklearn():
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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


def join_sklearn() -> bool:
    """Make estimators scikit-learn's where that is loaded; whether this changed anything."""
    base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)
    if base is None or issubclass(Params, base):
        return False
    Params.__bases__ = (base,)
    heirs = [Params]
    for heir in heirs:
        heirs += heir.__subclasses__()
        base.__init_subclass__.__func__(heir)  # its requests for metadata, one method each
    return True


def _differs(value: Any, default: Any) -> bool:
    return type(value) is not type(default) or bool(value is not default and value != default)


join_sklearn()
