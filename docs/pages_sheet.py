"""Put the main pages of the documentation on one sheet: docs/images/contact_pages.png.

Run after ``make docs``; needs chromium, and the development group of the project.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from conformix.plots import contact_sheet, save_figure

DOCS = Path(__file__).parent
PAGES = (
    "index", "quickstart", "cli", "concepts", "howto/several_models", "conditional", "frontier",
    "results", "features", "migration", "plots", "api/top",
)  # fmt: skip


def main() -> None:
    """Take the pictures and put them on the sheet."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        pictures = []
        for name in PAGES:
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.goto((DOCS / "_build" / "html" / f"{name}.html").as_uri())
            pictures.append(Path(folder) / f"{name.replace('/', '_')}.png")
            page.screenshot(path=pictures[-1])
            page.close()
        browser.close()
        sheet = contact_sheet(pictures, columns=4, width=4.6)
        save_figure(sheet, DOCS / "images", "contact_pages", formats=("png",))


if __name__ == "__main__":
    main()
