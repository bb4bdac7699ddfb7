"""Splits have plain words, which messages and the first pages use before the paper's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import conformix
from docs.pages import DOCS

PACKAGE = Path(conformix.__file__).parent
PAPERS = re.compile(r"\b[vde][fl]cp\b\+?", re.IGNORECASE)
# "holdout" (vfcp), and the paper's own theorems.
EXPLAINED = re.compile(
    r"(?:holdout|all-rows|batch\+?)\W{1,4}\(?[`\"]*(?:vfcp|efcp|dlcp\+?)|Theorem \d \(\w+\+?\)",
    re.IGNORECASE,
)
# Names of methods as compare prints them, and what is printed after "known:".
METHODS = re.compile(r"[\w-]+:(?:vfcp|efcp|dlcp\+?)")
FIRST_PAGES = (
    "quickstart.md", "concepts.md", "scores.md", "sklearn.md", "conditional.md", "serving.md",
    "report.md", "faq.md", *(f"howto/{page.name}" for page in (DOCS / "howto").glob("*.md")),
)  # fmt: skip


def unexplained(text: str) -> list[str]:
    """The paper's names in a text that no plain word stands before."""
    return PAPERS.findall(METHODS.sub("", EXPLAINED.sub("", text)))


def sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts with spaces in them that are no docstrings: what people are told."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [v.value if isinstance(v, ast.Constant) else "{}" for v in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value if id(node) not in docs else ""
        else:
            continue
        if " " in text.strip():
            yield node.lineno, text


def test_messages_say_the_plain_word_first() -> None:
    found = []
    own = {PACKAGE / "experiments" / name for name in ("paper.py", "demo.py")}  # keys of rows
    for path in sorted({*PACKAGE.rglob("*.py")} - own):
        for line, text in sentences(ast.parse(path.read_text(encoding="utf-8"))):
            found += [f"{path.relative_to(PACKAGE)}:{line}: {text}" for _ in unexplained(text)[:1]]
    assert found == []


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_the_first_pages_say_the_plain_word_first(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    prose = [
        line
        for line in text.splitlines()
        if unexplained(line) and not re.match(r"\| `(?:holdout|batch)`", line)
    ]
    assert prose == []


def test_a_paper_name_alone_is_found() -> None:
    assert unexplained("use split vfcp, or EFCP") == ["vfcp", "EFCP"]
    assert unexplained('say split="holdout" (vfcp); average:efcp; Theorem 1 (VFCP)') == []
