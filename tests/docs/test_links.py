"""No dead link: relative targets of README and the other pages exist, anchors included.

``make docs`` checks the links between pages; this checks what Sphinx does not read.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in page.parts),
]
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for match in LINK.finditer(text):
        path, _, anchor = match["target"].partition("#")
        if "://" in match["target"] or path.startswith("mailto:"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {match['target']}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {match['target']}"
