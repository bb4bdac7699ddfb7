"""The tests have a plan: every folder stands in the table, every long form has a short one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CONTRIBUTING = TESTS.parent / "CONTRIBUTING.md"
ROW = re.compile(r"^\| `tests/([a-z_]+)/` \| (\S.*) \|$", re.MULTILINE)
FILES = sorted(
    path for path in TESTS.rglob("*.py") if "@pytest.mark.long" in path.read_text("utf-8")
)


def folders_in_the_table(page: str) -> list[str]:
    return [folder for folder, _ in ROW.findall(page)]


def test_the_table_names_every_folder_of_tests_once_and_no_other() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("*/*.py")}
    assert sorted(folders_in_the_table(CONTRIBUTING.read_text("utf-8"))) == sorted(folders)


def uses_of_the_marker(tree: ast.AST) -> int:
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return sum(ast.unparse(node).endswith("mark.long") for node in attributes)


def long_forms_without_short(text: str) -> list[str]:
    """Return long tests of a file whose short form is not there, and other uses of the marker."""
    tree, short, long, uses = ast.parse(text), set(), {}, 0
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        marks = [mark for mark in node.decorator_list if uses_of_the_marker(mark)]
        uses += len(marks)
        match marks:
            case []:
                short.add(node.name)
            case [ast.Call(args=[], keywords=[ast.keyword("short", ast.Constant(str() as name))])]:
                long[node.name] = name
            case _:
                long[node.name] = ""
    tests = {name for name in short if name.startswith("test_")}
    wrong = [name for name, twin in long.items() if twin not in tests]
    if uses < uses_of_the_marker(tree):
        wrong.append("a marker that belongs to no function")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_every_long_test_names_a_short_form_in_its_file(path: Path) -> None:
    assert long_forms_without_short(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("def test_a(): ...\n@pytest.mark.long(short='test_a')\ndef test_b(): ...", []),
        ("@pytest.mark.long(short='test_a')\ndef test_b(): ...", ["test_b"]),
        ("@pytest.mark.long(short='test_b')\ndef test_b(): ...", ["test_b"]),
        ("def test_a(): ...\n@pytest.mark.long\ndef test_b(): ...", ["test_b"]),
        ("def test_a(): ...\n@pytest.mark.long('test_a')\ndef test_b(): ...", ["test_b"]),
        ("def helper(): ...\n@pytest.mark.long(short='helper')\ndef test_b(): ...", ["test_b"]),
        ("pytestmark = pytest.mark.long", ["a marker that belongs to no function"]),
    ],
)
def test_a_long_test_without_a_short_form_is_seen(text: str, wrong: list[str]) -> None:
    assert long_forms_without_short(text) == wrong


def test_long_forms_are_there_and_are_left_out_of_a_run() -> None:
    settings = (TESTS.parent / "pyproject.toml").read_text("utf-8")
    assert len(FILES) > 3
    assert "-m 'not long'" in settings
