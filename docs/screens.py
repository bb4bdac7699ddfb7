"""Draw what the commands show on a terminal: docs/images/screens/*.png.

Every command runs on a pseudo-terminal, in a folder with the files of docs/cli.md and the log of
docs/online.md; what it writes is drawn by rich as SVG, and by a headless Chromium as PNG. No
network is used.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).parent
SCREENS = DOCS / "images" / "screens"
WIDTH = 100
TWO = "--models wideresnet_16_4,densenet_bc_100"
COMMANDS = {
    "help": ["conformix --help"],
    "demo": ["conformix demo --out pictures"],
    "fit": ["conformix fit calibration.csv -o model.json --alpha 0.2 --label-column answer"],
    "predict": [
        "conformix predict model.json test.csv",
        "conformix predict model.json test.csv -o sets.csv",
    ],
    "evaluate": ["conformix evaluate model.json test.csv --label-column answer"],
    "info": [
        "conformix info test.csv --label-column answer",
        "conformix info model.json",
    ],
    "compare": [f"conformix compare cifar100 {TWO} --alpha 0.01 --runs 10 --scores thr,rank"],
    "monitor": ["conformix monitor stream --once"],
    "report": [
        "conformix report model.json test.csv --label-column answer -o report.html",
    ],
    "error": [
        "conformix fit calibration.csv -o model.json",
        "conformix evaluate model.json tset.csv",
        "conformix evaluate model.json test.csv --label-column anwser",
        "conformix fit calibration.csv -o model.json --split vcfp --label-column answer",
        "conformix fit calibration.csv -o model.json --alpha 2 --label-column answer",
    ],
}
# Dark on light, and readable in print.
THEME = TerminalTheme(
    (255, 255, 255),
    (33, 37, 41),
    [
        (33, 37, 41), (176, 42, 55), (20, 108, 67), (153, 112, 0),
        (10, 88, 202), (111, 66, 193), (8, 121, 144), (108, 117, 125),
    ],
)  # fmt: skip
FONT_FACE = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)
FONTS = "'DejaVu Sans Mono', 'Liberation Mono', monospace"


def on_a_terminal(command: str, folder: Path) -> str:
    """Return what a command writes to a terminal, errors included, progress left out."""
    words = shlex.split(command)
    words[:1] = [sys.executable, "-m", "conformix.cli"]
    lead, follow = pty.openpty()
    names = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        words, cwd=folder, env=names, stdin=follow, stdout=follow, stderr=subprocess.PIPE
    )
    os.close(follow)
    seen = b""
    while True:
        try:
            piece = os.read(lead, 65536)
        except OSError:  # the other end has gone
            break
        if not piece:
            break
        seen += piece
    os.close(lead)
    errors = process.communicate()[1]
    return (seen.replace(b"\r\n", b"\n") + errors).decode()


def drawn(name: str, commands: list[str], folder: Path) -> str:
    """Return a screen as SVG: the commands, and what each of them showed."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for number, command in enumerate(commands):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(on_a_terminal(command, folder).rstrip()))
    svg = console.export_svg(title=f"conformix {name}", theme=THEME)
    return FONT_FACE.sub("", svg).replace("Fira Code, monospace", FONTS).replace("Fira Code", FONTS)


def as_png(svg: str, path: Path) -> None:
    """Write an SVG as a PNG of the same size."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("screens are drawn by chromium, which is not installed.")
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder) / "screen.html", Path(folder) / "screen.png"
        page.write_text(f"<style>body {{ margin: 0 }}</style>{svg}", encoding="utf-8")
        subprocess.run(
            [
                browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={folder}/profile", f"--screenshot={picture}",
                f"--window-size={int(width) + 1},{int(height) + 24}", page.as_uri(),
            ],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture.read_bytes())


def write_files(folder: Path) -> None:
    """Write the files of docs/cli.md and the log of docs/online.md by running their Python."""
    for name in ("cli", "online"):
        page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        code = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"which of: {', '.join(COMMANDS)}; all if none")
    chosen = parser.parse_args().names or list(COMMANDS)
    with tempfile.TemporaryDirectory() as temporary:
        write_files(Path(temporary))
        # Later screens need the model of this one.
        on_a_terminal(COMMANDS["fit"][0], Path(temporary))
        for one in chosen:
            as_png(drawn(one, COMMANDS[one], Path(temporary)), SCREENS / f"{one}.png")
