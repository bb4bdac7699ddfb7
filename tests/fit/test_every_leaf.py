"""Whatever one value of a model file is changed to: refused in one sentence, or harmless.

A sample of all changes; ``cd tests && python -m fit.leaves`` tries every one.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fit.leaves import changes, faults
from fit.models import RECIPES


@pytest.mark.parametrize("name", RECIPES)
def test_a_changed_value_is_refused_or_harmless(name: str, tmp_path: Path) -> None:
    some = random.Random(name).sample(changes(name), 30)
    assert faults(name, some, tmp_path / "m.json") == []
