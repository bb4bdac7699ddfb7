"""The list of planted bugs keeps up with the code: every text is there, exactly once."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import conformix
from mutants.__main__ import NEAR, SUITE, met, outcomes
from mutants.planted import BUGS, Bug

PACKAGE = Path(conformix.__file__).parent
TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_line_to_turn_is_there_once(bug: Bug) -> None:
    assert (PACKAGE / bug.file).read_text(encoding="utf-8").count(bug.right) == 1
    assert bug.right != bug.wrong


@pytest.mark.parametrize(("beginning", "room"), NEAR)
def test_near_rooms_and_the_files_they_are_near_to_are_there(beginning: str, room: str) -> None:
    """A beginning that no file has would keep its room from ever being asked."""
    assert (PACKAGE / beginning).exists()
    assert (TESTS / room).exists()


def test_every_room_that_is_always_asked_is_there() -> None:
    assert all((TESTS / room).is_dir() for room in SUITE)


@pytest.mark.parametrize("test", [f"tests/{SUITE[0]}/test_rank.py::test_some[1]", None])
def test_an_outcome_stands_until_the_bug_its_module_or_its_test_changes(
    tmp_path: Path, test: str | None
) -> None:
    bug, file = BUGS[0], tmp_path / "outcomes.jsonl"
    other = replace(bug, wrong=f"{bug.wrong} ")
    elsewhere = replace(bug, file=next(b.file for b in BUGS if b.file != bug.file))
    line = {"bug": bug.name, "test": test, "met": met(bug, test)}
    file.write_text(json.dumps(line), encoding="utf-8")
    assert outcomes(file, [bug]) == {bug.name: test}
    assert outcomes(file, [other]) == {}
    assert met(elsewhere, test) != met(bug, test) or test is None
    assert met(bug, "tests/scores/test_auto.py::test_some") != met(bug, test)


def test_the_page_says_how_many_are_caught() -> None:
    """Of the whole list, in the last run that was whole."""
    docs = TESTS.parent / "docs"
    with (docs / "results" / "planted.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["planted bug"] for row in rows] == [bug.name for bug in BUGS]
    assert "survived" not in {row["caught by"] for row in rows}
    assert f"All {len(BUGS)} are caught" in (docs / "assurance.md").read_text(encoding="utf-8")
