"""Every cell of ours in the feature table names a test, and the test is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "features.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith("|---")
]
HEAD, CELLS = ROWS[0], ROWS[1:]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def test_the_table_has_the_peers_beside_us() -> None:
    assert HEAD == ["feature", "MAPIE", "TorchCP", "crepes", "puncc", "conformix", "shown by"]
    assert all(len(row) == len(HEAD) for row in CELLS)
    assert len(CELLS) > 30


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", CELLS, ids=lambda row: row[0])
def test_a_feature_of_ours_names_a_test_that_exists(row: list[str]) -> None:
    *_, ours, shown = row
    if ours == "**no**":
        assert shown == ""
        return
    file, name = NAMED.fullmatch(shown).groups()
    assert name in functions_of(file)
