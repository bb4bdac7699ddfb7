"""Runs tests on changed modules: one process that has loaded what is slow to load, and forks.

Jobs come in on standard input and outcomes go out, a line of JSON each.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

# Third-party modules alone: the package itself must be read anew, changed.
SLOW = [
    "numpy", "numpy.testing", "scipy.stats", "scipy.optimize", "scipy.special", "numba", "pytest",
    "hypothesis", "hypothesis.extra.numpy", "sklearn.linear_model", "sklearn.datasets",
    "sklearn.model_selection", "sklearn.utils.estimator_checks", "pandas", "polars",
]  # fmt: skip
# What is loaded already cannot have its assertions rewritten; the suite makes warnings errors.
RELAXED = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


class Said:
    """The first test that failed."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the first failure, of a fixture too."""
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        """Keep a file that cannot be collected."""
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid}, which cannot start"


def run(tree: Path, tests: list[str], limit: float) -> dict[str, Any]:
    """Return the outcome of some tests in a child process."""
    began = time.perf_counter()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _in_child(tree, tests, writer)
    os.close(writer)
    outcome, failed = "timeout", ""
    while time.perf_counter() - began < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with os.fdopen(reader, encoding="utf-8") as pipe:
                failed = pipe.read()
            code = os.waitstatus_to_exitcode(status)
            # A child that names no test has not killed anything: it could not even begin.
            crashed = "crashed" if code < 0 else "not run"
            outcome = "survived" if code == 0 else "killed" if failed else crashed
            break
        time.sleep(0.01)
    else:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
    return {"outcome": outcome, "test": failed, "seconds": time.perf_counter() - began}


def _in_child(tree: Path, tests: list[str], writer: int) -> None:
    os.setsid()
    os.chdir(tree)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    import pytest

    said = Said()
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header", *RELAXED]
    code = pytest.main([*options, *tests], plugins=[said])
    if code == pytest.ExitCode.USAGE_ERROR:  # a change may rename cases: all cases of the tests
        tests = list(dict.fromkeys(test.partition("[")[0] for test in tests))
        code = pytest.main([*options, *tests], plugins=[said])
        if code == pytest.ExitCode.USAGE_ERROR:
            said.failed = f"{tests[0]}, which cannot start"
    os.write(writer, said.failed.encode())
    os._exit(0 if code == pytest.ExitCode.OK else 1)


def forget_bytecode(path: Path) -> None:
    """Delete what Python keeps of a module: within a second it takes old bytecode for new."""
    for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        kept.unlink()


def main() -> None:
    """Answer jobs until standard input ends."""
    tree = Path(sys.argv[1])
    sys.path[:0] = [str(tree / "src"), str(tree / "tests")]
    for name in SLOW:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        job = json.loads(line)
        path = tree / "src" / "conformix" / job["file"]
        right, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(job["text"], encoding="utf-8")
        forget_bytecode(path)
        try:
            for tests in job["stages"]:
                answer = run(tree, tests, job["limit"])
                if answer["outcome"] != "survived":
                    break
        finally:
            path.write_text(right, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            forget_bytecode(path)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
