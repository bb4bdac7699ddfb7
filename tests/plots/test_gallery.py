"""The gallery page: every picture comes from a committed example, and the example runs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = runpy.run_path(str(REPOSITORY / "examples" / "plots.py"))
NAMES = {draw.__name__ for draw in EXAMPLE["GALLERY"]}
PAGE = (REPOSITORY / "docs" / "plots.md").read_text(encoding="utf-8")


def test_the_page_shows_every_picture_of_the_example_and_no_other() -> None:
    assert set(re.findall(r"images/plots/(\w+)\.png", PAGE)) == NAMES
    assert {p.stem for p in (REPOSITORY / "docs/images/plots").glob("*.png")} == NAMES


def test_the_contact_sheet_is_there() -> None:
    assert (REPOSITORY / "docs/images/contact_plots.png").is_file()


def test_the_example_writes_its_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ["weights_of_two", "set_sizes", "coverage_by_size", "explain", "explain_votes"]
    EXAMPLE["main"](["--out", str(tmp_path), "--only", *some])
    assert sorted(path.stem for path in tmp_path.glob("*.png")) == sorted(some)
    assert len(capsys.readouterr().out.splitlines()) == len(some)
