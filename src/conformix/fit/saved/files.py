"""Files: written whole or not at all, read with bounds, nothing executed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.atomic import as_path, write_whole
from conformix.data.files.limits import Limits, parse_size
from conformix.data.files.npy import read_members
from conformix.data.files.opening import opened, size_of
from conformix.errors import InvalidInput
from conformix.fit.saved.folder import MissingArrays, sibling
from conformix.fit.saved.migrations import SCHEMA, migrated

# A model is a few numbers and its calibration scores; more JSON than this is something else.
MAX_JSON_BYTES = 256 * 2**20
# What a model may take where nobody says otherwise.
MAX_MEMORY = "16G"
# Bytes in memory of what stands between two commas or brackets, and of a byte of text.
VALUE_BYTES, TEXT_BYTES = 200, 5


def memory_limits(max_memory: int | str) -> Limits:
    """Return the bounds on the files of a model.

    Examples
    --------
    >>> memory_limits("1G").memory == memory_limits(2**30).memory
    True
    """
    return Limits(parse_size(str(max_memory)))


def write(target: Path, content: bytes, *, durable: bool = False) -> None:
    """Write all of the content, or nothing; on the disk by the end, where it is `durable`."""
    write_whole(target, lambda file: file.write(content), durable=durable)


# What a file calls itself stands first in it.
FIRST_BYTES = 200
_FORMAT = re.compile(rb'\s*\{\s*"format"\s*:\s*"([a-z ]+)"')
# What files call themselves, and what reads each.
READERS = {
    "conformix model": "conformix.load",
    "conformix cross model": "conformix.CrossAverage.load",
    "conformix online model": "conformix.OnlineAverage.load",
    "conformix online regression": "conformix.OnlineRegression.load",
    "conformix regression model": "conformix.RegressionAverage.load",
    "conformix cross regression model": "conformix.CrossConformalRegressor.load",
}


def read_json(source: Path, limits: Limits, kind: str = "conformix model") -> dict[str, Any]:
    """Return the document of a model file of some kind, brought up to the present schema."""
    document = _parsed(source, limits)
    found = document.get("format") if isinstance(document, dict) else None
    if found != kind and isinstance(found, str) and found in READERS:
        raise InvalidInput(f"{source} is a {found}; {READERS[found]} reads it.")
    if found != kind:
        raise InvalidInput(f"{source} is no {kind}.")
    schema = document.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise InvalidInput(
            f"{source} has schema {short(repr(schema))}, and conformix {__version__} reads schemas "
            f"1 to {SCHEMA}; load it with conformix {short(str(document.get('version')))}."
        )
    try:
        return migrated(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(source, error) from None


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return what a model file calls itself in its first line; None where it says nothing there.

    A hint for whoever chooses a reader, which then checks all of the file.

    Examples
    --------
    >>> format_of("nothing.json") is None
    True
    """
    try:
        with opened(as_path(path)) as file:
            start = file.read(FIRST_BYTES)
    except InvalidInput:
        return None  # whoever reads the file says what is wrong with it
    match = _FORMAT.match(start)
    return None if match is None else match[1].decode("ascii")


class DuplicateKey(InvalidInput):
    """An object of JSON that holds one name twice: which of the two is meant, nobody can say."""


def strict_json(content: bytes) -> Any:
    """Return what JSON holds: every name once, every number finite.

    Examples
    --------
    >>> strict_json(b'{"alpha": 0.1, "alpha": 0.2}')
    Traceback (most recent call last):
    conformix.fit.saved.files.DuplicateKey: it holds 'alpha' twice
    """
    return json.loads(
        content, object_pairs_hook=_once_each, parse_constant=_no_number, parse_float=_finite
    )


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateKey(f"it holds {short(repr(twice))} twice")
    return members


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _parsed(source: Path, limits: Limits) -> Any:
    """Return what a JSON file holds, after a look at how much that can be."""
    with opened(source) as file:
        size = size_of(file)
        if size > MAX_JSON_BYTES:
            raise InvalidInput(f"{source} is too large for a model file.")
        content = file.read(size)
    values = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    needed = TEXT_BYTES * len(content) + VALUE_BYTES * values
    limits.check_memory(source, needed, "what it lists")
    try:
        return strict_json(content)
    except DuplicateKey as error:
        raise damaged(source, error) from None
    # No text, no JSON, numbers that nobody wrote, integers of thousands of digits.
    except (ValueError, RecursionError):
        raise InvalidInput(f"{source} is no JSON; expected a model written by save().") from None


def damaged(source: Path, error: Exception) -> InvalidInput:
    """Return the sentence about a model file that made no sense, and where it made none."""
    said = str(error) if isinstance(error, ValueError) else repr(error)
    return InvalidInput(f"{source} is a damaged model file ({short(said).rstrip('.')}).")


def short(said: str, most: int = 200) -> str:
    """Return words that may hold parts of a file, on one line and not too many.

    Examples
    --------
    >>> short("0123456789", most=4)
    '0123...'
    """
    line = " ".join(said.split())
    return line if len(line) <= most else f"{line[:most]}..."


def read_npz(source: Path, document: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the arrays beside a model file, if it has any, checked by their digest."""
    if "npz" not in document:
        return {}
    path = sibling(source, document["npz"])
    try:
        if path is None or not path.is_file():
            raise FileNotFoundError
        file = path.open("rb")
    except FileNotFoundError:
        name = short(str(document["npz"]))
        what = f"{name}, which holds the arrays of the model, is missing"
        raise MissingArrays(str(damaged(source, InvalidInput(what)))) from None
    with file:
        if hashlib.file_digest(file, "sha256").hexdigest() != document.get("npz_sha256"):
            raise InvalidInput(f"{path.name} is not the file that was saved with this model")
        file.seek(0)
        arrays = read_members(file, Path(path.name), limits)
    for array in arrays.values():
        if array.dtype not in (np.float64, np.int64) or not array.flags.c_contiguous:
            raise InvalidInput(f"{path.name} holds an array that is not what save() writes")
    return arrays
