"""The pictures of the pages in ``docs/start``: each page is executed, and writes its own.

python docs/starts.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PICTURES = DOCS / "images" / "start"

if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent / "tests"))
    from docs.pages import run_page

    PICTURES.mkdir(exist_ok=True)
    os.chdir(PICTURES)
    for page in sorted((DOCS / "start").glob("*.md")):
        run_page(page, {"conformix"})
