"""Which tests run the line of a planted bug: a pytest plugin that writes it down.

``pytest -p mutants.noted`` with ``PLANTED_LINES`` set to a folder; see `mutation.lines`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mutants.planted import BUGS
from mutation.lines import Recorder


def pytest_configure(config: Any) -> None:
    """Record in the processes that run tests: the workers, or the only one."""
    folder = os.environ.get("PLANTED_LINES")
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if folder and not distributes:
        files = sorted({bug.file for bug in BUGS})
        config.pluginmanager.register(Recorder(Path(folder), files), "planted-lines")
