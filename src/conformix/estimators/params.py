"""Parameters of an estimator by scikit-learn's conventions, with or without scikit-learn.

Importing scikit-learn takes about a second, more than a small fit and its sets. So estimators are
`sklearn.base.BaseEstimator` where somebody has imported it, before or after this module, and plain
objects of the same behaviour where nobody has.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any, Self

from conformix.errors import UnknownParameter
from conformix.registry import unknown_name

_LEVEL = "alpha, the share of misses: 95 % coverage is alpha=0.05"
# What other libraries call them, and what to say here.
ELSEWHERE = {
    "confidence_level": _LEVEL,
    "confidence": _LEVEL,
    "coverage": _LEVEL,
    "significance": "alpha",
    "conformity_score": "scores",
    "conformity_scores": "scores",
    "score_function": "scores",
    "score": "scores",
    "method": "scores",
    "estimator": "estimators",
    "model": "estimators",
    "seed": "random_state",
    "n_jobs": "threads",
    "score_type": 'kind="logits" where outputs are to go through a softmax',
    "temperature": 'scores="thr(temperature=2)"',
    "randomized": 'scores="aps(randomized=True)"',
}


class Alone:
    """The base of estimators while scikit-learn is not there."""


class Params(Alone):
    """`get_params`, `set_params` and a repr that shows what differs from the defaults."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Return an object that is scikit-learn's where that is loaded by now."""
        refuse_unknown_parameters(cls, given)
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
        estimator: Any = cls
        listed = dict(_parameters(estimator))
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


class KnownParameters:
    """For estimators of scikit-learn: a parameter by another library's name gets help."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Return an object, if it has all that it is given."""
        refuse_unknown_parameters(cls, given)
        return super().__new__(cls)


@cache
def _parameters(estimator: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of the constructor of a class, which take longer to find than a fit."""
    return inspect.signature(estimator.__init__).parameters  # type: ignore[misc]


def refuse_unknown_parameters(estimator: type, given: dict[str, Any]) -> None:
    """Refuse a parameter that an estimator does not have, and name the one that is meant."""
    known = _parameters(estimator)
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        return
    wrong = next((name for name in given if name not in known), None)
    if wrong is None:
        return
    names = [name for name in known if name != "self"]
    close = difflib.get_close_matches(wrong, names, n=1)
    theirs = ELSEWHERE.get(wrong)
    if theirs is not None and theirs.partition("=")[0].partition(",")[0] in names:
        hint = f"say {theirs}"
    else:
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names)}"
    end = "" if hint.endswith("?") else "."
    raise UnknownParameter(f"{estimator.__name__} has no parameter {wrong!r}; {hint}{end}")


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
