"""Shell sessions of the documentation and the README run and print what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformix.cli.app import COMMANDS
from docs.consoles import run_command, run_sessions
from docs.pages import DOCS, run_page

README = DOCS.parent / "README.md"
SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
# What takes minutes on real data is made small; the words before are run as they stand.
QUICK = "--runs 2 --rows 200 --resolution 4 --workers 1"
SMALLER = {"compare": QUICK, "reproduce": QUICK}


def test_from_a_csv_to_sets_and_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "cli.md"
    monkeypatch.chdir(tmp_path)
    run_page(page, {"conformix"})
    assert run_sessions(page.read_text(encoding="utf-8"), capsys) >= 8


def test_the_page_tells_of_every_command() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"| `conformix {name}` |" in text


def shell_lines(page: Path) -> list[str]:
    """Lines of the ``sh`` blocks of a page that call this command."""
    blocks = SHELL.findall(page.read_text(encoding="utf-8"))
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("conformix ")]


PAGES = [README, *sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)]
# The same command on two pages, into two folders, is one command.
LINES = [
    (name, line)
    for line, name in {
        re.sub(r" --out \S+", "", line): page.name
        for page in reversed(PAGES)
        for line in shell_lines(page)
    }.items()
]


def test_the_readme_shows_the_shell() -> None:
    assert any(name == "README.md" for name, _ in LINES)


# All experiments of the paper at once; `experiments/test_paper.py` runs them in the first tier.
SLOW = [(name, line) for name, line in LINES if " reproduce all " in line]
QUICK = [one for one in LINES if one not in SLOW]


@pytest.mark.parametrize(("page", "line"), QUICK, ids=[f"{name}: {line}" for name, line in QUICK])
def test_a_line_of_shell_on_a_page_runs(
    page: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_line_runs(line, tmp_path, monkeypatch, capsys)


@pytest.mark.long(short="test_a_line_of_shell_on_a_page_runs")
@pytest.mark.parametrize(("page", "line"), SLOW, ids=[f"{name}: {line}" for name, line in SLOW])
def test_a_slow_line_of_shell_on_a_page_runs(
    page: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_line_runs(line, tmp_path, monkeypatch, capsys)


def assert_line_runs(
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from cli.drawn import write_files, write_stream

    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = line.split()[1]
    if command in ("predict", "evaluate", "report"):
        run_command("conformix fit calibration.csv -o model.json", capsys)
    if command == "monitor":
        write_stream(tmp_path)
    code, written = run_command(f"{line} {SMALLER.get(command, '')}", capsys)
    assert code == 0, written
