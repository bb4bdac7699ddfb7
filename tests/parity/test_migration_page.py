"""The migration page runs as it stands, peers included; its last lines compare the sets."""

from __future__ import annotations

import pytest

from docs.pages import DOCS, python_blocks, run_page
from parity.peers import torchcp

for package in ("mapie", "crepes", "torch", "tqdm"):
    pytest.importorskip(package, reason="the peers live in an environment of their own")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_every_peer_has_its_code_and_its_comparison() -> None:
    text = (DOCS / "migration.md").read_text(encoding="utf-8")
    for peer in ("mapie", "torchcp", "crepes"):
        blocks = [code for library, code in python_blocks(text) if library == peer]
        assert len(blocks) >= 2
        assert "assert" in blocks[-1]


def test_the_page_runs() -> None:
    torchcp()
    run_page(DOCS / "migration.md", {"conformix", "mapie", "torchcp", "crepes"})
