"""Copies of the tree in which one module is changed, and the processes that run tests there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from mutation.worker import only_bodies_differ

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "conformix"
# Seconds that the tests of one change may compute.
LIMIT = 40.0


@cache
def code_of(file: str) -> str:
    """Return the text of a module as it was when it was first asked for."""
    return (PACKAGE / file).read_text(encoding="utf-8")


class Changed(Protocol):
    """A module, and its text with a change in it."""

    @property
    def file(self) -> str: ...

    @property
    def text(self) -> str | None: ...


def runs_on_import(mutant: Changed) -> bool:
    """Return whether a change is of what runs on import: these take longest, and come last."""
    return not only_bodies_differ(code_of(mutant.file), str(mutant.text))


class Worker:
    """Processes that run tests on a copy of the tree of their own, one with the tests at hand.

    A copy stays from run to run for what is compiled there.
    """

    def __init__(self, tree: Path, tests: list[str]) -> None:
        for name in ("src", "tests", "examples", "docs", "studies", "benchmarks"):
            shutil.rmtree(tree / name, ignore_errors=True)
            shutil.copytree(ROOT / name, tree / name)
        for name in ("pyproject.toml", "README.md", "ARCHITECTURE.md"):
            shutil.copy2(ROOT / name, tree)
        self.tree = tree
        self.files = sorted({test.partition("::")[0] for test in tests})
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def outcome(
        self, mutant: Changed, stages: list[list[str]], limit: float = LIMIT
    ) -> dict[str, Any]:
        """Return what tests, or all tests of files and folders, say of a mutant."""
        process = self.process("fresh" if runs_on_import(mutant) else "collected")
        assert process.stdin is not None
        assert process.stdout is not None
        job = {"file": mutant.file, "text": mutant.text, "stages": stages, "limit": limit}
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    def process(self, kind: str) -> subprocess.Popen[str]:
        """Return the process of a kind, started where there is none."""
        if kind not in self.processes:
            environment = os.environ | {
                "PYTHONPATH": str(self.tree / "src"),
                "CONFORMIX_DATA": os.environ.get("CONFORMIX_DATA", str(ROOT / "data")),
                "NUMBA_CACHE_DIR": str(self.tree / "compiled"),
                "PYTHONDONTWRITEBYTECODE": "",
            }
            script = self.tree / "tests" / "mutation" / "worker.py"
            self.processes[kind] = subprocess.Popen(
                [sys.executable, str(script), str(self.tree), kind, *self.files],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            )  # fmt: skip
        return self.processes[kind]

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            process.kill()
