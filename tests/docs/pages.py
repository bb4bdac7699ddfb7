"""Pages whose Python is executed, block by block, in one session per page."""

from __future__ import annotations

import doctest
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# A plain fence is ours; a ``code-block`` with a class belongs to the library of that name.
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.DOTALL | re.MULTILINE
)
CLASS = re.compile(r"^:class:\s*(\w+)\s*\n+", re.MULTILINE)


def python_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield ``(library, code)`` of all Python blocks, those inside of other fences included."""
    for block in FENCE.finditer(text):
        info, body = block["info"].strip(), block["body"]
        if info.split(" ")[0] in {"python", "py", "pycon"}:
            yield "conformix", body
        elif info == "{code-block} python" and (owner := CLASS.search(body)):
            yield owner[1], CLASS.sub("", body, count=1)
        elif len(block["fence"]) > 3:
            yield from python_blocks(body)


def run_page(page: Path, libraries: set[str]) -> None:
    """Execute the blocks of some libraries in order; sessions (``>>>``) as doctests."""
    # Classes look up the module they are defined in.
    module = sys.modules["__page__"] = types.ModuleType("__page__")
    names = module.__dict__
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    blocks = list(python_blocks(page.read_text(encoding="utf-8")))
    for number, (library, block) in enumerate(blocks, start=1):
        if library not in libraries:
            continue
        if block.lstrip().startswith(">>>"):
            session = doctest.DocTestParser().get_doctest(block, names, page.name, page.name, 0)
            outcome = doctest.DocTestRunner(optionflags=options).run(session, clear_globs=False)
            assert outcome.failed == 0, f"{page.name}, block {number}"
            names.update(session.globs)
        else:
            exec(compile(block, f"{page.name}, python block {number}", "exec"), names)
