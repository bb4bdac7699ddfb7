"""The fields of a model file, each of the type that it must have; a refusal names the field."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from conformix.errors import InvalidInput

# No number of anything in a model is larger than an int64 holds.
LARGEST = 2**63


def is_whole(value: Any) -> bool:
    """Return whether a value of JSON is an integer that an int64 holds."""
    return type(value) is int and -LARGEST <= value < LARGEST


def is_number(value: Any) -> bool:
    """Return whether a value of JSON is a finite number."""
    return is_whole(value) or (type(value) is float and math.isfinite(value))


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (is_whole, "a whole number"),
    "float": (is_number, "a finite number"),
    "bool": (lambda value: type(value) is bool, "true or false"),
    "str": (lambda value: type(value) is str, "text"),
    "list": (lambda value: type(value) is list, "a list"),
    "dict": (lambda value: type(value) is dict, "an object"),
    "None": (lambda value: value is None, "null"),
}


def check_type(value: Any, types: str, where: str) -> Any:
    """Return a value of JSON if it is of one of the types, written as in an annotation.

    Examples
    --------
    >>> check_type(3, "int | None", "predictor.key")
    3
    >>> check_type(True, "int", "predictor.key")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: its predictor.key must be a whole number; got True
    """
    allowed = [_TYPES[name] for name in types.split(" | ")]
    if not any(test(value) for test, _ in allowed):
        what = " or ".join(words for _, words in allowed)
        raise InvalidInput(f"its {where} must be {what}; got {shortened(value)}")
    return value


def shortened(value: Any) -> str:
    """Return a value of a file for a sentence; a number of a million digits is not written out."""
    if type(value) is int and not -LARGEST <= value < LARGEST:
        return "an integer beyond 64 bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def field_of(record: Any, name: str, types: str, where: str) -> Any:
    """Return a field of an object of JSON, checked.

    Examples
    --------
    >>> field_of({"kind": "probs"}, "kind", "str", "predictor")
    'probs'
    >>> field_of({}, "kind", "str", "predictor")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: its predictor has no 'kind'
    """
    check_type(record, "dict", where)
    if name not in record:
        raise InvalidInput(f"its {where} has no {name!r}")
    return check_type(record[name], types, f"{where}.{name}")


def check_fields(record: Any, where: str) -> Any:
    """Return a dataclass if its fields, read from JSON, are what their annotations say.

    Fields of other types than numbers, texts and flags are checked by whoever knows them.

    Examples
    --------
    >>> from conformix.search import GridSearch
    >>> check_fields(GridSearch("fine"), "params.search")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: its params.search.resolution must be a whole number or null; ...
    """
    for field in fields(record):
        if set(str(field.type).split(" | ")) <= set(_TYPES):
            check_type(getattr(record, field.name), str(field.type), f"{where}.{field.name}")
    return record
