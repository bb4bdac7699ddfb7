"""Hosted runs call what a clone calls: targets of the Makefile, on every supported Python."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = [path.read_text(encoding="utf-8") for path in WORKFLOWS]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", TEXTS, ids=[path.name for path in WORKFLOWS])
def test_a_workflow_calls_targets_of_the_makefile_and_says_that_it_is_untried(text: str) -> None:
    assert text.startswith("# Untried")
    calls = re.findall(r"run: make ([^\n]+)", text)
    assert calls
    for call in calls:
        words = re.sub(r'\w+=("[^"]*"|\S+)', "", call).split()
        assert words
        assert all(re.search(rf"^{word}:", MAKEFILE, re.MULTILINE) for word in words), call
        for what in re.findall(r'WHAT="([^"]*)"', call):
            names = [f"{words[0]}-{one}" for one in what.split()]
            assert all(re.search(rf"^{name}:", MAKEFILE, re.MULTILINE) for name in names), call


def test_every_supported_python_is_tested_on_every_system() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [line.rpartition(" :: ")[2] for line in project["classifiers"]]
    pythons = [one for one in named if re.fullmatch(r"3\.\d+", one)]
    (test,) = [text for path, text in zip(WORKFLOWS, TEXTS, strict=True) if path.stem == "test"]
    tested = re.findall(r'"(3\.\d+)"', re.search(r"^ *python: \[(.+)\]$", test, re.MULTILINE)[1])
    assert len(pythons) >= 3
    assert set(pythons) <= set(tested)
    for system in ("ubuntu-latest", "ubuntu-24.04-arm", "macos-latest", "windows-latest"):
        assert system in test
