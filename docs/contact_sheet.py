"""Put every figure of docs/results on one sheet: docs/results/contact.png."""

from __future__ import annotations

from pathlib import Path

from conformix.plots import contact_sheet, save_figure

RESULTS = Path(__file__).parent / "results"

if __name__ == "__main__":
    pictures = [path for path in sorted(RESULTS.glob("*/*.png")) if path.stem != "contact"]
    sheet = contact_sheet(pictures, columns=3, named_by_folder=True)
    save_figure(sheet, RESULTS, "contact", formats=("png",))
