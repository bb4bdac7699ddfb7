"""The list of planted bugs keeps up with the code: every text is there, exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

import conformix
from mutants.planted import BUGS, Bug

PACKAGE = Path(conformix.__file__).parent


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_line_to_turn_is_there_once(bug: Bug) -> None:
    assert (PACKAGE / bug.file).read_text(encoding="utf-8").count(bug.right) == 1
    assert bug.right != bug.wrong
