"""Files: written whole or not at all, read with bounds, nothing executed."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from conformix import __version__
from conformix.errors import InvalidInput

SCHEMA = 1
# A model is a few numbers and its calibration scores; more JSON than this is something else.
MAX_JSON_BYTES = 256 * 2**20


def write(target: Path, content: bytes) -> None:
    """Write under a temporary name in the same folder, then rename."""
    handle, name = tempfile.mkstemp(dir=target.parent or ".", prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(source: Path) -> dict[str, Any]:
    """Return the document of a model file of a schema that this version knows."""
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
    if document.get("schema") != SCHEMA:
        raise InvalidInput(
            f"{source} has schema {document.get('schema')!r}, and conformix {__version__} reads "
            f"schema {SCHEMA}; load it with conformix {document.get('version')}."
        )
    return document


def read_npz(source: Path, digest: Any) -> dict[str, Any]:
    """Return the arrays beside a model file, if it has any, checked by their digest."""
    if digest is None:
        return {}
    if not source.is_file():
        raise InvalidInput(f"{source}, which holds the arrays of the model, is missing.")
    content = source.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise InvalidInput(f"{source} is not the file that was saved with this model.")
    with np.load(BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
