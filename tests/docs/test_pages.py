"""The documentation is executed: the Python of every page runs, in order, in one session."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import DOCS, python_blocks, run_page

PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if "_build" not in page.parts and any(python_blocks(page.read_text(encoding="utf-8")))
]


def test_there_are_pages_with_python() -> None:
    assert {"index.md", "migration.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_page(page, {"conformix"})
