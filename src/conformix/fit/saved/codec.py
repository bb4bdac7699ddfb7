"""How values stand in a model file: checked fields, arrays, and strategies by name and options.

A strategy of this library (a split, a search, a goal, a calibration, a scale, what was fitted)
stands in a file by the name that its room gives it and by its fields. `Codec` writes and reads all
of them; nothing here asks what a strategy is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, Literal, NamedTuple

import numpy as np

from conformix.errors import InvalidInput
from conformix.kernels.arrays import to_host

# No number of anything in a model is larger than an int64 holds.
LARGEST = 2**63
# Arrays up to this many numbers stand in the JSON itself.
INLINE = 50_000


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
    >>> check_type(True, "int | None", "predictor.key")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: its predictor.key must be a whole number or null; got True
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


def refuse_unknown(document: dict[str, Any], known: Collection[str], where: str) -> None:
    """Refuse a field that this version does not know.

    Examples
    --------
    >>> refuse_unknown({"alpha": 0.1, "beta": 1}, ["alpha"], "params")
    Traceback (most recent call last):
    conformix.errors.InvalidInput: its params hold 'beta', which this version does not know
    """
    unknown = sorted(set(document) - set(known))
    if unknown:
        raise InvalidInput(f"its {where} hold {unknown[0]!r}, which this version does not know")


class Arrays:
    """Arrays on their way out of and into the JSON: small ones in it, large ones in an npz."""

    def __init__(self, stored: dict[str, Any] | None = None) -> None:
        self.stored: dict[str, Any] = {} if stored is None else stored

    def put(self, values: Any) -> dict[str, Any]:
        """Return the JSON form of an array."""
        array = np.ascontiguousarray(to_host(values))
        document: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
        if array.size <= INLINE:
            return document | {"data": [_number_out(x) for x in array.ravel().tolist()]}
        name = f"array{len(self.stored)}"
        self.stored[name] = array
        return document | {"npz": name}

    def get(self, document: Any, where: str = "arrays") -> Any:
        """Return the array that a JSON form stands for."""
        dtype = field_of(document, "dtype", "str", where)
        shape = field_of(document, "shape", "list", where)
        if dtype not in ("float64", "int64"):
            raise InvalidInput(f"a model file holds float64 and int64 only; got {dtype!r}.")
        if len(shape) > 3 or not all(is_whole(length) and length >= 0 for length in shape):
            raise InvalidInput(f"its {where}.shape is no shape; got {shortened(shape)}")
        if "npz" in document:
            refuse_unknown(document, ("dtype", "shape", "npz"), where)
            name = field_of(document, "npz", "str", where)
            if name not in self.stored:
                raise InvalidInput(f"its {where} is not among the arrays beside the model")
            array = self.stored[name]
            if array.dtype != dtype or list(array.shape) != shape:
                raise InvalidInput("an array of the npz is not of the shape that the model names")
            return array
        refuse_unknown(document, ("dtype", "shape", "data"), where)
        data = field_of(document, "data", "list", where)
        if math.prod(shape) != len(data):
            raise InvalidInput(f"its {where} holds {len(data)} numbers, but its shape is {shape}")
        numbers = [_number_in(x, whole=dtype == "int64") for x in data]
        return np.array(numbers, dtype=dtype).reshape(shape)


def _number_out(value: float) -> Any:
    """Return a number as JSON has it; infinities, which JSON lacks, as text."""
    return value if np.isfinite(value) else repr(value)


def _number_in(value: Any, *, whole: bool) -> float:
    if not whole and value in ("inf", "-inf"):
        return float(value)
    if not (is_whole(value) if whole else is_number(value)):
        kind = "whole numbers of 64 bits" if whole else "numbers"
        raise InvalidInput(f"a model file holds {kind} in its arrays; got {shortened(value)}.")
    return value  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """Return numbers of NumPy as Python's, arrays and tuples as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


class Form(NamedTuple):
    """How one type stands in a file, where that is not by its fields."""

    type: type
    write: Callable[[Any, Arrays], Any]
    read: Callable[..., Any]


class Codec:
    """One kind of strategy in a file, by its name and its options.

    Parameters
    ----------
    what : str
        The kind, as users call it: ``"search"``. A strategy may hold another one of its kind in a
        field of that name.
    known : mapping of str to type or Form
        The strategies of this library by their names in files.
    spelling : {"pair", "key", "type"}
        ``{"name": name, "options": options}``, ``{name: options}`` or
        ``{"type": name, **options}``.
    resolve : callable, optional
        From what a user gave to a strategy.
    aliases : mapping of str to str, optional
        Other words for names, which no file holds.
    refusal : str, optional
        What is said of a strategy that is not known.

    Examples
    --------
    >>> from conformix.search import GridSearch, LineSearch
    >>> codec = Codec("search", {"line": LineSearch}, "key")
    >>> codec.write(LineSearch(budget=100), Arrays())
    {'line': {'budget': 100, 'starts': 6}}
    >>> codec.read({"line": {"budget": 100, "starts": 6}}, Arrays(), "params.search")
    LineSearch(budget=100, starts=6)
    >>> codec.write(GridSearch(10), Arrays())
    Traceback (most recent call last):
    conformix.errors.InvalidInput: search GridSearch(resolution=10) is not of this library, and ...
    """

    def __init__(
        self,
        what: str,
        known: Mapping[str, Any],
        spelling: Literal["pair", "key", "type"],
        resolve: Callable[[Any], Any] = lambda value: value,
        *,
        aliases: Mapping[str, str] | None = None,
        refusal: str = "{what} {value!r} is not of this library, and cannot be saved.",
    ) -> None:
        self.what = what
        self.spelling = spelling
        self.resolve = resolve
        self.aliases = dict(aliases or {})
        self.refusal = refusal
        self.forms = {
            name: form if isinstance(form, Form) else self._by_fields(form)
            for name, form in known.items()
        }
        self.names = {form.type: name for name, form in self.forms.items()}

    def write(self, value: Any, arrays: Arrays) -> Any:
        """Return a strategy as JSON has it: a user's name for one stays a name, not an alias."""
        if isinstance(value, str):
            return self.aliases.get(value, value)
        value = self.resolve(value)
        name = self.names.get(type(value))
        if name is None:
            raise InvalidInput(self.refusal.format(what=self.what, value=value))
        options = self.forms[name].write(value, arrays)
        if self.spelling == "type":
            return {"type": name} | options
        return {name: options} if self.spelling == "key" else {"name": name, "options": options}

    def read(self, document: Any, arrays: Arrays, where: str, *context: Any) -> Any:
        """Return the strategy that a file holds, its fields checked."""
        if isinstance(document, str):
            self.resolve(document)
            return document
        check_type(document, "dict", where)
        if self.spelling == "key":
            name = next((name for name in document if name in self.forms), next(iter(document), ""))
            refuse_unknown(document, (name,), where)
            options, place = document.get(name), where
        elif self.spelling == "type":
            place = f"{where}.type"
            name, options = field_of(document, "type", "str", where), document
        else:
            place = f"{where}.name"
            refuse_unknown(document, ("name", "options"), where)
            name = field_of(document, "name", "str", where)
            options = field_of(document, "options", "dict", where)
        if name not in self.forms:
            raise InvalidInput(f"its {place} cannot be {shortened(name)}")
        return check_fields(self.forms[name].read(options, arrays, where, *context), where)

    def _by_fields(self, strategy: type) -> Form:
        def write(value: Any, arrays: Arrays) -> dict[str, Any]:
            options = {field.name: getattr(value, field.name) for field in fields(value)}
            return {
                name: self.write(option, arrays) if name == self.what else plain(option)
                for name, option in options.items()
            }

        def read(options: Any, arrays: Arrays, where: str) -> Any:
            check_type(options, "dict", where)
            return strategy(**{
                # JSON has lists where strategies have tuples
                name: self.read(option, arrays, where) if name == self.what
                else tuple(option) if isinstance(option, list) else option
                for name, option in options.items()
            })  # fmt: skip

        return Form(strategy, write, read)
