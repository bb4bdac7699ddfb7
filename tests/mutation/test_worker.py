"""A change of behaviour is reported as killed, and what changes nothing as survived."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutation.worker import only_bodies_differ

MODULE = """
from functools import lru_cache

LIMIT = 3


class Rule:
    @property
    def doubled(self):
        return 2 * LIMIT


@lru_cache
def halved(x):
    return x // 2


def unseen(x):
    return x + 1


SIX = halved(12)
"""
TESTS = """
from rule import SIX, Rule, halved


def test_double(): assert Rule().doubled == 6


def test_half(): assert halved(12) == SIX == 6


def test_wrong(): assert halved(8) == 5
"""
# What a session sets aside after collecting is to be found all the same.
FROZEN = "import gc\n\n\ndef pytest_collection_finish(): gc.freeze()\n"
SETTINGS = "[tool.pytest.ini_options]\npythonpath = ['src/conformix']"
# The first fails without any change: it kills nothing.
NAMES = [f"tests/test_rule.py::test_{name}" for name in ("wrong", "double", "half")]
BROKEN, DOUBLE, HALF = NAMES
ENVIRONMENT = {
    "PYTHONPATH": str(Path(__file__).parents[1]),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_PLUGINS": "xdist",
}
# What others need loaded beforehand is not loaded for this tree.
WORKER = "from mutation import worker; worker.SLOW.clear(); worker.main()"


def outcomes(
    tree: Path, kind: str, texts: list[str], tests: list[str] = NAMES
) -> list[dict[str, Any]]:
    """Return what a worker says of texts of the module."""
    files = {
        "src/conformix/rule.py": MODULE, "tests/test_rule.py": TESTS, "pyproject.toml": SETTINGS,
        "tests/conftest.py": FROZEN,
    }  # fmt: skip
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    jobs = (
        {"file": "rule.py", "text": text, "stages": [tests], "limit": 1 if "while" in text else 60}
        for text in texts
    )
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(tree), kind, "tests"],
        input="".join(json.dumps(job) + "\n" for job in jobs), capture_output=True, text=True,
        check=True, timeout=100, env=os.environ | ENVIRONMENT,
    )  # fmt: skip
    assert (tree / "src/conformix/rule.py").read_text() == MODULE
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_file_that_cannot_start_without_the_change_kills_nothing(tmp_path: Path) -> None:
    stuck = tmp_path / "tests" / "test_stuck.py"
    stuck.parent.mkdir()
    stuck.write_text("import nothing_of_this_name")
    texts = [MODULE, changed("LIMIT = 3", "LIMIT = 4")]
    answers = outcomes(tmp_path, "fresh", texts, ["tests/test_stuck.py", *NAMES])
    assert [answer["outcome"] for answer in answers] == ["survived", "killed"]
    assert answers[1]["test"] == DOUBLE
    assert answers[1]["broken"] == [BROKEN, "tests/test_stuck.py"]


def changed(before: str, after: str) -> str:
    assert before in MODULE
    return MODULE.replace(before, after)


def test_changes_in_functions_are_killed_by_the_test_that_sees_them(tmp_path: Path) -> None:
    texts = [
        MODULE,
        changed("2 * LIMIT", "3 * LIMIT"),
        changed("x // 2", "x // 3"),
        changed("x // 2", "2 is x"),
        changed("x + 1", "x - 1"),
        changed("return x // 2", "while True: pass"),
        changed("2 * LIMIT", "__import__('os').abort()"),
        MODULE,
    ]
    answers = outcomes(tmp_path, "collected", texts)
    words = ["killed"] * 3 + ["survived", "timeout", "crashed", "survived"]
    assert [answer["outcome"] for answer in answers] == ["survived", *words]
    assert [answer["test"] for answer in answers[1:3]] == [DOUBLE, HALF]
    assert answers[0]["broken"] == [BROKEN]


def test_changes_that_run_on_import_are_killed_where_the_module_is_read_anew(
    tmp_path: Path,
) -> None:
    texts = [changed("LIMIT = 3", "LIMIT = 4"), changed("import", "impart"), MODULE]
    answers = outcomes(tmp_path, "fresh", texts)
    assert [answer["outcome"] for answer in answers] == ["killed", "killed", "survived"]
    assert answers[0]["test"] == DOUBLE
    assert answers[-1]["broken"] == [BROKEN]


@pytest.mark.parametrize(
    ("before", "after", "inside"),
    [
        ("x // 2", "x // 3", True),
        ("2 * LIMIT", "LIMIT", True),
        ("LIMIT = 3", "LIMIT = 4", False),
        ("@property", "", False),
        ("def halved(x)", "def halved(x=1)", False),
        ("SIX = halved(12)", "SIX = halved(13)", False),
    ],
)
def test_code_is_put_into_functions_only_where_nothing_else_differs(
    before: str, after: str, inside: bool
) -> None:
    assert only_bodies_differ(MODULE, changed(before, after)) == inside


def test_a_function_behind_another_decorator_is_read_anew() -> None:
    text = "@compiled\ndef f(x):\n    return x\n"
    assert not only_bodies_differ(text, text.replace("return x", "return -x"))
