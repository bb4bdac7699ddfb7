"""Files: written whole or not at all, read with bounds, nothing executed."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from conformix import __version__
from conformix.atomic import write_whole
from conformix.errors import InvalidInput
from conformix.storage.folder import MissingArrays, sibling
from conformix.storage.migrations import SCHEMA, migrated

# A model is a few numbers and its calibration scores; more JSON than this is something else.
MAX_JSON_BYTES = 256 * 2**20
MAX_NPZ_BYTES = 16 * 2**30
# Deflate shrinks at most 1,032 times; more than this together with many bytes is no data.
MAX_RATIO, SMALL = 200, 64 * 2**20


def write(target: Path, content: bytes) -> None:
    """Write all of the content, or nothing."""
    write_whole(target, lambda file: file.write(content))


def read_json(source: Path) -> dict[str, Any]:
    """Return the document of a model file, brought up to the present schema."""
    if not source.is_file():
        raise InvalidInput(f"{source} does not exist or is no file.")
    if source.stat().st_size > MAX_JSON_BYTES:
        raise InvalidInput(f"{source} is too large for a model file.")
    try:
        document = strict_json(source.read_bytes())
    except DuplicateKey as error:
        raise damaged(source, error) from None
    except (ValueError, RecursionError):  # no text, no JSON, numbers that nobody wrote
        raise InvalidInput(f"{source} is no JSON; expected a model written by save().") from None
    if not isinstance(document, dict) or document.get("format") != "conformix model":
        raise InvalidInput(f"{source} is no conformix model.")
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


class DuplicateKey(InvalidInput):
    """An object of JSON that holds one name twice: which of the two is meant, nobody can say."""


def strict_json(content: bytes) -> Any:
    """Return what JSON holds: every name once, every number finite.

    Examples
    --------
    >>> strict_json(b'{"alpha": 0.1, "alpha": 0.2}')
    Traceback (most recent call last):
    conformix.storage.files.DuplicateKey: it holds 'alpha' twice
    """
    return json.loads(
        content, object_pairs_hook=_once_each, parse_constant=_no_number, parse_float=_finite
    )


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateKey(f"it holds {short(repr(twice))} twice")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


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


def read_npz(source: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays beside a model file, if it has any, checked by their digest."""
    if "npz" not in document:
        return {}
    path = sibling(source, document["npz"])
    try:
        if path is None or not path.is_file():
            raise FileNotFoundError
        content = path.read_bytes()
    except FileNotFoundError:
        name = short(str(document["npz"]))
        what = f"{name}, which holds the arrays of the model, is missing"
        raise MissingArrays(str(damaged(source, InvalidInput(what)))) from None
    if hashlib.sha256(content).hexdigest() != document.get("npz_sha256"):
        raise InvalidInput(f"{path.name} is not the file that was saved with this model")
    try:
        with zipfile.ZipFile(BytesIO(content)) as packed:
            unpacked = sum(item.file_size for item in packed.infolist())
            if unpacked > min(MAX_NPZ_BYTES, max(SMALL, MAX_RATIO * len(content))):
                raise InvalidInput(f"{path.name} unpacks to more than a model can hold")
            return {item.filename.removesuffix(".npy"): _array(packed, item)
                    for item in packed.infolist()}  # fmt: skip
    # Damage that keeps its digest was made on purpose, and shows in many ways.
    except (
        zipfile.BadZipFile, zlib.error, struct.error, TokenError, SyntaxError, ValueError, EOFError,
        OSError, NotImplementedError, RuntimeError, LookupError,
    ) as error:  # fmt: skip
        raise InvalidInput(f"{path.name} cannot be read: {short(str(error))}") from None


def _array(packed: zipfile.ZipFile, item: zipfile.ZipInfo) -> Any:
    """Return one array, whose header is believed only as far as its bytes reach."""
    with packed.open(item) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("an array of an unknown version")
        shape, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
        if in_columns or dtype not in (np.float64, np.int64):
            raise ValueError("an array that is not what save() writes")
        content = bytearray(file.read())
        return np.frombuffer(content, dtype).reshape(shape)
