"""Files: written whole or not at all, read with bounds, nothing executed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.atomic import write_whole
from conformix.errors import InvalidInput
from conformix.storage.migrations import SCHEMA, migrated

# A model is a few numbers and its calibration scores; more JSON than this is something else.
MAX_JSON_BYTES = 256 * 2**20
MAX_NPZ_BYTES = 16 * 2**30


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
        document = json.loads(source.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InvalidInput(f"{source} is no JSON; expected a model written by save().") from None
    if not isinstance(document, dict) or document.get("format") != "conformix model":
        raise InvalidInput(f"{source} is no conformix model.")
    schema = document.get("schema")
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise InvalidInput(
            f"{source} has schema {schema!r}, and conformix {__version__} reads schemas 1 to "
            f"{SCHEMA}; load it with conformix {document.get('version')}."
        )
    try:
        return migrated(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{source} is a damaged model file ({error!r}).") from None


def beside(source: Path) -> Path | None:
    """Return the npz that an existing model file names, if there is one."""
    try:
        name = json.loads(source.read_bytes()).get("npz")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return _sibling(source, name)


def _sibling(source: Path, name: Any) -> Path | None:
    """Return the file of that name beside the model: only one that belongs to it by name."""
    own = isinstance(name, str) and name.startswith(f"{source.name}.") and name.endswith(".npz")
    return source.with_name(name) if own and Path(name).name == name else None


def read_npz(source: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays beside a model file, if it has any, checked by their digest."""
    if "npz" not in document:
        return {}
    path = _sibling(source, document["npz"])
    if path is None or not path.is_file():
        raise InvalidInput(f"{document['npz']}, which holds the arrays of the model, is missing")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != document.get("npz_sha256"):
        raise InvalidInput(f"{path.name} is not the file that was saved with this model")
    try:
        with zipfile.ZipFile(BytesIO(content)) as packed:
            if sum(item.file_size for item in packed.infolist()) > MAX_NPZ_BYTES:
                raise InvalidInput(f"{path.name} unpacks to more than a model can hold")
        with np.load(BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise InvalidInput(f"{path.name} cannot be read: {error}") from None
