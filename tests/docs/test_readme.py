"""The README is executed: its Python blocks run, in order, in one session."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks import at_a_glance

README = Path(__file__).parents[2] / "README.md"
FENCE = re.compile(r"^```(?:python|py|pycon)\b[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def python_blocks() -> list[str]:
    return FENCE.findall(README.read_text(encoding="utf-8"))


def test_the_readme_has_python_to_run() -> None:
    assert python_blocks()


@pytest.mark.skipif(not python_blocks(), reason="reported by the test above")
def test_the_python_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of plain code; a block that shows a session (``>>>``) is run by `doctest`."""
    import doctest

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__readme__"}
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for number, block in enumerate(python_blocks(), start=1):
        if block.lstrip().startswith(">>>"):
            session = doctest.DocTestParser().get_doctest(block, names, "README", "README.md", 0)
            outcome = doctest.DocTestRunner(optionflags=options).run(session, clear_globs=False)
            assert outcome.failed == 0, capsys.readouterr().out
            names.update(session.globs)
        else:
            exec(compile(block, f"README.md, python block {number}", "exec"), names)


def test_the_readme_names_the_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def test_the_first_block_is_five_lines_with_their_output() -> None:
    lines = python_blocks()[0].strip().splitlines()
    assert sum(line.startswith(">>>") for line in lines) == 5
    assert len(lines) == 6  # and what the last one prints, which the test above compares


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 8_000


def test_it_tells_of_an_installation_that_works_from_a_clone() -> None:
    text = README.read_text(encoding="utf-8")
    assert "pip install ." in text
    assert "pip install conformix" not in text
    extras = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))
    known = extras["project"]["optional-dependencies"]
    for page in (README, *(README.parent / "docs").rglob("*.md")):
        for named in re.findall(r"pip install '\.\[([\w,]+)\]'", page.read_text(encoding="utf-8")):
            assert set(named.split(",")) <= set(known), page.name


def test_the_table_at_a_glance_is_that_of_the_committed_rows() -> None:
    shown = README.read_text("utf-8").split(at_a_glance.BEGIN)[1].split(at_a_glance.END)[0]
    assert shown.strip() == at_a_glance.table(at_a_glance.read_rows())


def test_every_line_of_that_table_is_a_mean_over_as_many_halves_as_the_page_says() -> None:
    rows = at_a_glance.read_rows()
    halves = {(row["method"], row["alpha"]): set() for row in rows}
    for row in rows:
        halves[row["method"], row["alpha"]].add(row["half"])
    told = int(re.search(r"means over (\d+) random halves", README.read_text("utf-8"))[1])
    assert {len(some) for some in halves.values()} == {told}
