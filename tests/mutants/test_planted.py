"""The list of planted bugs keeps up with the code: every text is there, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformix
from mutants.__main__ import NEAR, SUITE
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
