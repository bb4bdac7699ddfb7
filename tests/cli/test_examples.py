"""The example in every help text is run, as it stands, among small files."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cli.drawn import write_stream
from conformix.cli import main
from conformix.cli.app import COMMANDS

# What would take minutes is made small; everything else runs as it is shown.
QUICK = ["--runs", "2", "--rows", "200", "--resolution", "4", "--workers", "1"]
SMALLER = {"compare": QUICK, "reproduce": QUICK}
NAMES = list(COMMANDS)


def example_of(command: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The words of the example in a help text, without ``conformix``."""
    assert main([*command.split(), "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("Example: conformix ") == 1
    return shlex.split(text.partition("Example: conformix ")[2])


def test_the_commands_are_those_of_the_design() -> None:
    assert {"demo", "fit", "predict", "evaluate", "compare", "reproduce", "info"} <= set(NAMES)


# What compiles every kernel; `kernels/test_first_use.py` warms up in the first tier.
SLOW = ("warmup",)


@pytest.mark.parametrize("command", [name for name in NAMES if name not in SLOW])
def test_the_example_of_a_help_text_runs(
    command: str,
    folder: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if command == "demo":
        request.getfixturevalue("small_demo")
    assert_example_runs(command, capsys)


@pytest.mark.long(short="test_the_example_of_a_help_text_runs")
@pytest.mark.parametrize("command", SLOW)
def test_the_example_of_a_slow_command_runs(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_example_runs(command, capsys)


def assert_example_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command in ("predict", "evaluate", "info", "report"):
        assert main(example_of("fit", capsys)) == 0
    if command == "monitor":
        write_stream(Path())
    words = example_of(command, capsys)
    assert words[0] == command
    assert main([*words, *SMALLER.get(command, [])]) == 0
    assert capsys.readouterr().out


def test_the_example_of_the_first_help_text_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = example_of("", capsys)
    assert main([*words, *SMALLER.get(words[0], [])]) == 0
