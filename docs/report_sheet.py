"""Put the report on one sheet, light and dark, wide and narrow, and printed.

Writes docs/images/report_contact.png. Needs chromium, and the development group of the project.
"""

from __future__ import annotations

import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont, ImageOps
from playwright.sync_api import sync_playwright

from conformix.report import compare_report

TARGET = Path(__file__).parent / "images" / "report_contact.png"
COMMAND = (
    "conformix compare banking77 --models logreg_word --alpha 0.05 --share 0.5 --runs 20 "
    "--report report.html"
)
HEIGHT, GAP, TITLE = 1300, 32, 42
PAPER, INK = "#e9e7e1", "#1b1e21"
# Title, width of the screen, colours, medium, where the picture begins, its share of the scale.
SHOTS: tuple[tuple[str, int, str, str, str, float], ...] = (
    ("wide, light", 1280, "light", "screen", "body", 0.62),
    ("wide, dark", 1280, "dark", "screen", "#weights", 0.62),
    ("narrow, light", 360, "light", "screen", "body", 0.8),
    ("narrow, dark", 360, "dark", "screen", "#weights", 0.8),
    ("printed", 720, "light", "print", "body", 0.72),
)


def picture(browser: Any, page_file: Path, shot: tuple[str, int, str, str, str, float]) -> Any:
    """Return a screenshot of one part of the page, scaled for the sheet."""
    _, width, scheme, medium, start, scale = shot
    height = round(HEIGHT / scale)
    page = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=2
    )
    page.goto(page_file.as_uri())
    page.emulate_media(media=medium)
    if medium == "print":
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_timeout(400)
    page.evaluate("for (const fold of document.querySelectorAll('.fold')) fold.open = true")
    page.wait_for_timeout(200)
    page.evaluate("where => document.querySelector(where).scrollIntoView()", start)
    page.wait_for_timeout(200)
    raw = page.screenshot()
    page.close()
    size = (round(width * scale), HEIGHT)
    shot_image = Image.open(BytesIO(raw)).convert("RGB").resize(size, Image.Resampling.LANCZOS)
    # A screen shows no margins of the paper.
    return (
        ImageOps.expand(shot_image, GAP, "white").crop((0, 0, size[0] + 2 * GAP, HEIGHT))
        if medium == "print"
        else shot_image
    )


def sheet(pictures: dict[str, Any]) -> Any:
    """Return all pictures side by side, each under its title."""
    width = sum(one.width + GAP for one in pictures.values()) + GAP
    whole = Image.new("RGB", (width, HEIGHT + TITLE + 2 * GAP), PAPER)
    draw = ImageDraw.Draw(whole)
    x = GAP
    for title, one in pictures.items():
        draw.text((x, GAP), title, fill=INK, font=ImageFont.load_default(24))
        whole.paste(one, (x, GAP + TITLE))
        x += one.width + GAP
    return whole


if __name__ == "__main__":
    made = compare_report(
        "banking77", models=["logreg_word"], alpha=0.05, share=0.5, runs=20,
        given={"command": COMMAND},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        file = made.report.save(Path(folder) / "report.html")
        chromium = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        found = {shot[0]: picture(chromium, file, shot) for shot in SHOTS}
        chromium.close()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    # Fewer shades than an eye can tell apart make a smaller file.
    shades = [min(4 * round(shade / 4), 255) for shade in range(256)]
    sheet(found).point(shades * 3).save(TARGET, optimize=True)
