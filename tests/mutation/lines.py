"""Which tests run a line: a pytest plugin that writes it down, and the table read back.

``pytest -p mutation.lines`` with ``MUTATION_LINES`` set to a folder; each process writes a file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

# Tests that read the source as a text notice any change, whether it does harm or not.
READERS = ("tests/architecture/", "tests/mutants/", "tests/mutation/")
PACKAGE = Path(__file__).resolve().parents[2] / "src" / "conformix"


class Recorder:
    """Measures every test as a context of its own."""

    def __init__(self, folder: Path, files: list[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{os.getpid()}.json"
        self.measured = coverage.Coverage(
            data_file=None, include=[str(PACKAGE / file) for file in files]
        )
        self.modules = {
            ".".join(("conformix", *Path(file).with_suffix("").parts)) for file in files
        }
        self.seconds: dict[str, float] = {}
        self.measured.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        """Give lines to the test that runs them, fixtures included."""
        self.forget()
        self.measured.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - began
            self.measured.switch_context("")

    def forget(self) -> None:
        """Empty what functions remember: a test whose answer was known would run no line."""
        for name in self.modules & sys.modules.keys():
            for function in vars(sys.modules[name]).values():
                if hasattr(function, "cache_clear"):
                    function.cache_clear()

    def pytest_sessionfinish(self) -> None:
        """Write lines and times."""
        self.measured.stop()
        data = self.measured.get_data()
        tests: dict[str, dict[int, list[str]]] = {}
        for name in data.measured_files():
            by_line = data.contexts_by_lineno(name)
            tests[str(Path(name).relative_to(PACKAGE))] = by_line
        self.path.write_text(json.dumps({"lines": tests, "seconds": self.seconds}))


def pytest_configure(config: Any) -> None:
    """Record the files that mutants are of."""
    record(config, "MUTATION_LINES", files_of_mutants)


def files_of_mutants() -> set[str]:
    """Return the files, late: to list them takes what writes mutants."""
    from mutation.generated import SAMPLED, WHOLE, files_of

    return {*WHOLE, *files_of(SAMPLED)}


def record(config: Any, folder: str, files: Callable[[], set[str]]) -> None:
    """Record in the processes that run tests, the workers or the only one, what a variable asks."""
    distributes = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if folder in os.environ and not distributes:
        recorder = Recorder(Path(os.environ[folder]), sorted(files()))
        config.pluginmanager.register(recorder, folder.lower())


def read(folder: Path) -> tuple[dict[tuple[str, int], set[str]], dict[str, float]]:
    """Return the tests of every (file, line), and the seconds of every test."""
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    for path in folder.glob("*.json"):
        table = json.loads(path.read_text())
        seconds |= table["seconds"]
        for file, lines in table["lines"].items():
            for line, names in lines.items():
                tests[file, int(line)] |= {
                    name for name in names if name and not name.startswith(READERS)
                }
    return tests, seconds
