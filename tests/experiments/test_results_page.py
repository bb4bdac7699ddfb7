"""The results page shows what has been produced, and nothing else."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
USED = re.compile(r"\{include\} (\S+)|\]\((results/\S+)\)")
# What `make results` writes, folder by folder.
WRITTEN = {"all": ("table1", "fig2", "fig3", "ratios", "models"), "table1": ("table1",)}


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def rendered(folder: Path) -> str:
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs" / "conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    source = [PAGE.read_text(encoding="utf-8")]
    conf.leave_out_what_has_no_file(SimpleNamespace(srcdir=folder), "results", source)
    return source[0]


def files_of(text: str) -> list[str]:
    return [one or other for one, other in USED.findall(text)]


def test_without_results_the_page_speaks_of_none(tmp_path: Path) -> None:
    text = rendered(tmp_path)
    assert files_of(text) == []
    assert "<!--" not in text
    assert text.startswith("# Results")


def test_a_result_that_is_there_is_shown_and_the_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "results" / "cifar100" / "table1.md"
    file.parent.mkdir(parents=True)
    file.write_text("| a |")
    assert files_of(rendered(tmp_path)) == [
        "results/cifar100/table1.md",
        "results/cifar100/table1.findings.md",
    ]


@pytest.mark.parametrize("file", files_of(PAGE.read_text(encoding="utf-8")))
def test_every_file_of_the_page_is_one_that_make_results_writes(file: str) -> None:
    if file == "results/contact.png" or file.startswith("results/examples/"):
        return
    _, folder, name = file.split("/")
    commands = re.findall(
        r"\$\(REPRODUCE\) (\w+) .*--out docs/results/(\w+)$", makefile(), re.MULTILINE
    )
    what = {target: experiment for experiment, target in commands}
    assert name.split(".")[0] in WRITTEN[what[folder]]


def test_tables_of_examples_are_those_that_make_writes_and_each_is_on_a_page() -> None:
    written = re.findall(r"\$\(call example,(\w+),(\w+)\.py", makefile())
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    shown = re.findall(r"\{include\} results/examples/(\w+)\.md", pages)
    there = [path.stem for path in (ROOT / "docs" / "results" / "examples").glob("*.md")]
    assert sorted(name for name, _ in written) == sorted(shown) == sorted(there)
    assert all((ROOT / "examples" / f"{script}.py").is_file() for _, script in written)
