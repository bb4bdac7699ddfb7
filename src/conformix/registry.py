"""Names resolve in one place, and a wrong name gets help; so do settings that are yes or no.

Every argument that takes a name also takes the object that the name stands for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from inspect import signature
from types import FunctionType
from typing import Any, Generic, TypeVar

import numpy as np

from conformix.errors import InvalidInput, shown

T = TypeVar("T")


def unknown_name(
    kind: str,
    name: object,
    known: list[str],
    *,
    aliases: Mapping[str, str] | None = None,
    elsewhere: Mapping[str, str] | None = None,
) -> InvalidInput:
    """Return the error for a name that is not among the `known` ones, nor an alias of one.

    `elsewhere` says what other libraries' words are called here.
    """
    plain = {target: alias for alias, target in (aliases or {}).items()}
    theirs = (elsewhere or {}).get(str(name).lower().replace("-", "_"))
    near = difflib.get_close_matches(str(name), [*plain.values(), *known], n=1)
    close = near if theirs is None else [theirs]
    hint = f" did you mean {close[0]!r}?" if close else ""
    listed = [f"{plain[one]} ({one})" if one in plain else one for one in known]
    return InvalidInput(f"unknown {kind} {shown(name)};{hint} known: {', '.join(listed)}.")


# Classes, methods and functions of other libraries, and what to say here.
WORDS_OF_OTHERS = {
    "SplitConformalClassifier": "ConformalClassifier",
    "MapieClassifier": "ConformalClassifier",
    "WrapClassifier": "ConformalClassifier",
    "SplitPredictor": "ScoreAverage",
    "ClassConditionalPredictor": 'ScoreAverage(calibration="class")',
    "ClusteredPredictor": 'ScoreAverage(calibration="cluster")',
    "conformalize": "fit",
    "calibrate": "fit, or recalibrate on fresh rows",
    "calculate_threshold": "fit",
    "predict_with_logits": "predict_set",
    "predict_sets": "predict_set",
    "predict_p": "predict_pvalues",
    "classification_coverage_score": "coverage",
    "classification_mean_width_score": "mean_size",
    "coverage_rate": "coverage",
    "average_size": "mean_size",
    "CovGap": "class_coverage_gap",
    "SSCV": "size_stratified_violation",
    "LAC": "Thr",
    "APS": "Aps",
    "RAPS": "Raps",
    "SAPS": "Saps",
    "TOPK": "Rank",
}


def no_attribute(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module or an object does not have, with help.

    Examples
    --------
    >>> print(no_attribute("module 'conformix.metrics'", "coverage_rate", ["coverage"]))
    module 'conformix.metrics' has no attribute 'coverage_rate'; here it is coverage.
    """
    sentence = f"{owner} has no attribute {name!r}"
    theirs, names = WORDS_OF_OTHERS.get(name, ""), {*known}
    if theirs.partition("(")[0].partition(",")[0] in names:
        return AttributeError(f"{sentence}; here it is {theirs}.")
    return AttributeError(sentence)


def check_flag(value: Any, name: str) -> bool:
    """Return a setting that is yes or no; text such as "no" would count as yes."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False; got {shown(value)}.")
    return bool(value)


def takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many arguments; what does not say is believed."""
    method = type(function).__call__ if callable(function) else None
    if isinstance(method, FunctionType):  # what holds for one object of a class holds for all
        return _method_takes(method, 1 + count)
    return _takes(function, count)


def _takes(function: Any, count: int) -> bool:
    try:
        signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # built-in functions may have no signature
        return True
    return True


_method_takes = lru_cache(maxsize=64)(_takes)


def check_flags(settings: Any) -> Any:
    """Return an object of settings if all its fields that are declared yes or no are so."""
    kind: Any = type(settings)
    for name in _flags_of(kind):
        check_flag(getattr(settings, name), name)
    return settings


@lru_cache(maxsize=256)  # asked whenever a score is made
def _flags_of(kind: type) -> tuple[str, ...]:
    """Return the fields of a class of settings that are declared yes or no."""
    listed = fields(kind) if is_dataclass(kind) else ()
    return tuple(field.name for field in listed if field.type in ("bool", bool))


class Registry(Generic[T]):
    """A table from names to objects of one kind.

    An alias is another word for a name; a word from `elsewhere` is not understood, but answered.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, T],
        *,
        aliases: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self._entries = dict(entries)
        self.aliases = dict(aliases or {})
        self.elsewhere = dict(elsewhere or {})

    def __getitem__(self, name: str) -> T:
        return self._entries[self.name(name)]

    def name(self, word: str) -> str:
        """Return the one name of what a name or an alias stands for; files hold no other."""
        try:
            found = self.aliases.get(word, word)
            if found in self._entries:
                return found
        except TypeError:
            pass
        raise unknown_name(
            self.kind, word, self.names(), aliases=self.aliases, elsewhere=self.elsewhere
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def resolve(self, choice: Any, *, needs: str) -> T:
        """Return what a name stands for, or the object itself, told by a method that it has."""
        if isinstance(choice, str):
            return self[choice]
        if isinstance(choice, type) or not hasattr(choice, needs):
            known = ", ".join(self)
            raise InvalidInput(
                f"{self.kind} must be {known} or an object with {needs}(); got {shown(choice)}."
            )
        return check_flags(choice)  # type: ignore[no-any-return]

    def names(self) -> list[str]:
        """Return the known names, sorted."""
        return sorted(self._entries)
