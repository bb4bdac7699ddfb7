"""Shell sessions of a page: ``$ command`` lines with what they print, run in one folder."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from conformix.cli import main

FENCE = re.compile(r"^```console\n(.*?)^```\s*$", re.DOTALL | re.MULTILINE)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Commands with which a person on a terminal sees a table, and a pipe JSON lines.
TABLES = {"demo", "doctor", "fit", "predict", "evaluate", "info", "compare", "report", "reproduce"}


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Yield every command of the ``console`` blocks of a page with what it shall print."""
    for block in FENCE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            while command.endswith("\\"):
                more, _, printed = printed.partition("\n")
                command = command[:-1] + more
            yield command, printed


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command and return its exit code and what it wrote, errors included.

    Pages show what a person sees on a terminal: tables, unless the command goes into a pipe or
    asks for JSON.
    """
    words = shlex.split(command, comments=True)
    if words[:2] == ["head", "-n"]:
        with Path(words[3]).open(encoding="utf-8") as file:
            return 0, "".join(islice(file, int(words[2])))
    count = None
    if "|" in words:
        assert words[-4:-1] == ["|", "head", "-n"], "pages pipe into head only"
        words, count = words[:-4], int(words[-1])
    assert words[0] == "conformix", command
    on_terminal = count is None and "--json" not in words and words[1] in TABLES
    code = main([*words[1:], *(["--table"] if on_terminal else [])])
    found = capsys.readouterr()
    written = "\n".join(found.out.splitlines()[:count]) + "\n" if count else found.out
    return code, written + found.err


def run_sessions(text: str, capsys: pytest.CaptureFixture[str]) -> int:
    """Run all sessions of a page in order and return how many commands there were."""
    checker, found = doctest.OutputChecker(), list(sessions(text))
    for command, printed in found:
        code, written = run_command(command, capsys)
        # The doctor has found something that makes a fit worthless where a line begins so.
        expected = 1 if printed.startswith("! ") else 2 if "conformix: " in printed else 0
        assert code == expected, written
        # An empty line shows as one in a page.
        wanted = printed.strip("\n") + "\n"
        assert checker.check_output(wanted, written.strip("\n") + "\n", OPTIONS), (
            f"$ {command}\nprinted:\n{written}\nthe page says:\n{printed}"
        )
    return len(found)
