"""Mutants: every change that cosmic-ray's operators make to a module, with a name that lasts."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from mutation.trees import PACKAGE, ROOT, code_of

KNOWN = ROOT / ".mutation" / "changes.jsonl"
# Every mutant of these is run.
WHOLE = ["conformal.py", "splits.py", "guarantees/verdict.py", "fit/verdict.py"]
# Of these, which carry promises too, a random sample is.
SAMPLED = [
    "fit/exact*", "fit/rule.py", "fit/predictor.py", "calibration", "estimators/cross*",
    "guarantees", "scores/blend*",
]  # fmt: skip
SAMPLE = 400
FURTHER = {"second sample": 150, "third sample": 150, "fourth sample": 300}


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Parameters
    ----------
    file : str
        Below ``src/conformix``.
    place : str
        The function or class, with dots.
    line, column : int
        Where the change begins.
    operator : str
        Of cosmic-ray.
    occurrence : int
        Which place of the operator in the file.
    before : str
        The line, without the spaces around it.
    twin : int
        Of how many others with the same words before it.
    """

    file: str
    place: str
    line: int
    column: int
    operator: str
    occurrence: int
    before: str
    twin: int

    @property
    def key(self) -> str:
        """A name that survives changes elsewhere in the file."""
        named = (self.file, self.place, self.operator, self.before, str(self.column))
        twin = str(self.twin) if self.twin else ""
        return _digest("\n".join(named) + twin)

    @cached_property
    def text(self) -> str | None:
        """The whole module, changed; None where Python would run the same, or nothing.

        Annotations are never evaluated here (every module postpones them), so a change inside one
        is no change.
        """
        code = code_of(self.file)
        name = f"{_digest(code)} {self.operator} {self.occurrence}"
        known = _known()
        if name not in known:
            text: str | None = mutate_code(code, get_operator(self.operator)(), self.occurrence)
            same = text is None or _meaning(text) in (_right(self.file), None)
            known[name] = None if same else _replaced(code, str(text))
            with KNOWN.open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, known[name]]) + "\n")
        change = known[name]
        return None if change is None else code[: change[0]] + change[2] + code[change[1] :]

    @property
    def row(self) -> dict[str, object]:
        """What is written down of a mutant."""
        return {
            "key": self.key, "file": self.file, "place": self.place, "line": self.line,
            "operator": self.operator, "before": self.before, "after": self.after,
        }  # fmt: skip

    @property
    def after(self) -> str:
        """The changed line."""
        lines, changed = code_of(self.file).splitlines(), (self.text or "").splitlines()
        pairs = zip(lines, changed, strict=False)
        return next((b.strip() for a, b in pairs if a != b), "(gone)")


def places_of(file: str) -> list[Mutant]:
    """Return every place of a module at which an operator has something to change."""
    code = code_of(file)
    lines, places, nodes = code.splitlines(), _places(code), list(ast_nodes(get_ast(code)))
    mutants: list[Mutant] = []
    for operator in operator_names():
        kind = get_operator(operator)
        if kind.arguments():
            continue
        instance = kind()
        alike: Counter[tuple[str, str, int]] = Counter()
        positions = [start for node in nodes for start, _ in instance.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(positions):
            text = lines[line - 1]
            place, shift = places.get(line, ""), column - len(text) + len(text.lstrip())
            words = (place, text.strip(), shift)
            mutants.append(
                Mutant(file, place, line, shift, operator, occurrence, words[1], alike[words])
            )
            alike[words] += 1
    return mutants


def files_of(patterns: list[str]) -> list[str]:
    """Return the modules under patterns, below the package."""
    paths: set[Path] = set()
    for pattern in patterns:
        for path in PACKAGE.glob(pattern):
            paths |= set(path.rglob("*.py")) if path.is_dir() else {path}
    return sorted(str(path.relative_to(PACKAGE)) for path in paths)


def all_of_the_whole() -> list[Mutant]:
    """Return every mutant of the modules that are run whole."""
    return [mutant for file in WHOLE for mutant in places_of(file) if mutant.text is not None]


def sample(skipped: int = 0, size: int = SAMPLE) -> list[Mutant]:
    """Return a random sample: the mutants whose names have the smallest hashes, but for some."""
    files = [file for file in files_of(SAMPLED) if file not in WHOLE]
    places = sorted((p for file in files for p in places_of(file)), key=lambda place: place.key)
    changes = (place for place in places if place.text is not None)
    return list(islice(changes, skipped, skipped + size))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _known() -> dict[str, tuple[int, int, str] | None]:
    """Return the changes that were made before: making them takes longer than all else here."""
    KNOWN.parent.mkdir(parents=True, exist_ok=True)
    KNOWN.touch()
    return dict(json.loads(line) for line in KNOWN.read_text(encoding="utf-8").splitlines())


def _replaced(before: str, after: str) -> tuple[int, int, str]:
    """Return which characters were replaced, and by what."""
    start = _alike(before, after)
    end = _alike(before[:start:-1], after[:start:-1])
    return start, len(before) - end, after[start : len(after) - end]


def _alike(one: str, other: str) -> int:
    """Return how many characters at the beginning are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


@cache
def _right(file: str) -> str | None:
    return _meaning(code_of(file))


class _WithoutAnnotations(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        self.generic_visit(node)
        return node


def _meaning(code: str) -> str | None:
    """Return what Python runs, or None where it cannot."""
    try:
        return ast.dump(_WithoutAnnotations().visit(ast.parse(code)))
    except SyntaxError:
        return None


def _places(code: str) -> dict[int, str]:
    """Return the dotted name of the innermost function or class at every line."""
    names: dict[int, str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                names.update(dict.fromkeys(range(child.lineno, (child.end_lineno or 0) + 1), name))
                visit(child, f"{name}.")
            else:
                visit(child, prefix)

    visit(ast.parse(code), "")
    return names
