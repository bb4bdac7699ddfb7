"""Small files in the form that users bring."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.drawn import write_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of outputs, in which the test runs."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo fit and measure on 400 rows each."""
    from conformix.experiments import demo

    whole = demo.Demo.load()
    rows = np.arange(400)
    monkeypatch.setattr(
        demo.Demo,
        "load",
        lambda choices: demo.Demo(whole.logits, whole.y, rows, rows + 400, choices),
    )
