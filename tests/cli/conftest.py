"""Small files in the form that users bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.drawn import write_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of outputs, in which the test runs."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
