"""Which tests run the line of a planted bug: a pytest plugin that writes it down.

``pytest -p mutants.noted`` with ``PLANTED_LINES`` set to a folder; see `mutation.lines`.
"""

from __future__ import annotations

from typing import Any

from mutants.planted import BUGS
from mutation.lines import record


def pytest_configure(config: Any) -> None:
    """Record the files that bugs are planted in."""
    record(config, "PLANTED_LINES", lambda: {bug.file for bug in BUGS})
