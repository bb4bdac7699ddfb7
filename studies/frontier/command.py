"""What a study of its own is asked with: where its table goes, and how many splits it has."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from studies.frontier.made import FOLDER
from studies.frontier.tables import write_text


def write_study(name: str, about: str, runs: int, table: Callable[[Path, int], str]) -> None:
    """Write the table of a study, asked for in the shell, to ``<folder>/<name>.md``.

    Parameters
    ----------
    name : str
        Of the study.
    about : str
        What ``--help`` says of it.
    runs : int
        Splits, unless others are asked for.
    table : callable
        Returns the table, given a file of rows, from which a killed run goes on, and the splits.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("folder", nargs="?", default="docs/results/frontier")
    parser.add_argument("--runs", type=int, default=runs, help="splits")
    arguments = parser.parse_args()
    target = Path(arguments.folder) / f"{name}.md"
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_text(target, table(FOLDER / f"{name}.jsonl", arguments.runs) + "\n")
    sys.stdout.write(f"{target}\n")
