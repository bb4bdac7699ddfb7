"""The one door to the terminal: everything that a command writes goes through here.

Texts from files and arguments (names of files, classes and models, versions, rows of results) have
what steers a terminal written out (`conformix.errors.visible`). The only line breaks are those
between the lines that are written. A test keeps other writers out.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

from conformix.errors import visible


def write_line(text: str = "") -> None:
    """Write one line of text to the output."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def write_aside(text: str) -> None:
    """Write one line of text beside the output: errors and warnings."""
    sys.stderr.write(visible(text) + "\n")


def write_json(record: dict[str, Any]) -> None:
    """Write one record as a line of JSON; numbers that JSON lacks are null."""
    # JSON writes all but ASCII as escapes, and lets one control character of ASCII through.
    line = json.dumps(_plain(record), allow_nan=False).replace("\x7f", "\\u007f")
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
