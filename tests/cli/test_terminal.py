"""What a person on a terminal sees: tables, and progress on the side; a pipe gets neither."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformix.cli import main

pty = pytest.importorskip("pty")


def run(folder: Path, arguments: list[str], *, out: bool, err: bool) -> tuple[str, str]:
    """Run a command with a terminal as its output, its error output, or both apart."""
    ends = {}
    for name, wanted in (("stdout", out), ("stderr", err)):
        ends[name] = pty.openpty() if wanted else os.pipe()
    # A pseudo-terminal gives both ends alike; of a pipe the second one is written to.
    process = subprocess.Popen(
        [sys.executable, "-m", "conformix.cli", *arguments],
        cwd=folder,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        stdout=ends["stdout"][1],
        stderr=ends["stderr"][1],
    )
    texts = []
    for read, write in ends.values():
        os.close(write)
        seen = b""
        while True:
            try:
                piece = os.read(read, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(read)
        texts.append(seen.decode())
    assert process.wait(timeout=60) == 0, texts
    return texts[0], texts[1]


def test_terminals_get_tables_and_progress_and_pipes_get_lines(folder: Path) -> None:
    assert main(["fit", "calibration.csv", "-o", "model.json", "--resolution", "4"]) == 0
    predict = ["predict", "model.json", "new.csv"]
    table, silence = run(folder, predict, out=True, err=False)
    assert "labels, best first" in table
    assert silence == ""
    lines, progress = run(folder, predict, out=False, err=True)
    assert [json.loads(line)["row"] for line in lines.splitlines()] == list(range(50))
    assert "predicting" in progress
