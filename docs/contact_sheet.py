"""Contact sheets: every figure of the results, every plot of the gallery, every terminal screen.

    python docs/contact_sheet.py

A sheet is made where its pictures are there: ``docs/results`` (make results),
``docs/images/plots`` (make pages) and ``docs/images/screens``.
"""

from __future__ import annotations

from pathlib import Path

from conformix.plots import contact_sheet, save_figure

DOCS = Path(__file__).parent
RESULTS, IMAGES = DOCS / "results", DOCS / "images"

if __name__ == "__main__":
    figures = [path for path in sorted(RESULTS.glob("*/*.png")) if path.stem != "contact"]
    plots = sorted((IMAGES / "plots").glob("*.png"))
    screens = sorted((IMAGES / "screens").glob("*.png"))
    if figures:
        sheet = contact_sheet(figures, columns=3, named_by_folder=True)
        save_figure(sheet, RESULTS, "contact", formats=("png",))
    if plots:
        sheet = contact_sheet(plots, columns=3, width=4.6)
        save_figure(sheet, IMAGES, "contact_plots", formats=("png",))
    if screens:
        sheet = contact_sheet(screens, columns=2, width=6.2)
        save_figure(sheet, IMAGES, "contact_screens", formats=("png",))
