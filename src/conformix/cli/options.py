"""Options that several commands share, with one help text each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SCALES = "Scale of averages: none, scale, ecdf or auto"

Json = Annotated[
    bool | None,
    typer.Option("--json/--table", help="JSON lines or tables; by default JSON in a pipe."),
]
ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="Written by conformix fit.")]
Alpha = Annotated[float, typer.Option(help="Allowed miscoverage.")]
OtherAlpha = Annotated[
    float | None, typer.Option(help="Another level than the model's, chosen beforehand.")
]
Split = Annotated[str, typer.Option(help="Who may see what: vfcp, efcp, dlcp, dlcp+ or exact.")]
Scores = Annotated[str, typer.Option(help="What is averaged, by commas; auto leaves it to us.")]
Seed = Annotated[int, typer.Option(help="Root of all randomness.")]
Models = Annotated[str, typer.Option(help="Which models of a file, by commas; by default all.")]
Workers = Annotated[int | None, typer.Option(help="Processes; by default one per core.")]
Dask = Annotated[
    str | None, typer.Option(help="Run on a Dask cluster: its tcp:// address, or local.")
]
Rows = Annotated[int | None, typer.Option(help="Draw so many rows instead of taking all.")]
Resolution = Annotated[
    int | None, typer.Option(help="Of the weight grid; by default what suits the scores.")
]
Normalize = Annotated[str, typer.Option(help=f"{SCALES}.")]
Kind = Annotated[str, typer.Option(help="What a file holds: auto, probs or logits.")]
OutFolder = Annotated[
    Path | None, typer.Option(help="Folder that keeps the rows; a killed run goes on.")
]


def listed(text: str) -> tuple[str, ...]:
    """Return the parts of a list by commas; commas in brackets and in quotes belong to a part.

    Examples
    --------
    >>> listed("thr, raps(penalty=0.1, k_reg=2)")
    ('thr', 'raps(penalty=0.1, k_reg=2)')
    >>> listed('"a, b".thr, c.thr')
    ('a, b.thr', 'c.thr')
    """
    parts, depth, quoted = [""], 0, False
    for character in text:
        # A part that begins with a quote is quoted; quotes further on are those of an option.
        if character == '"' and (quoted or not parts[-1].strip()):
            quoted = not quoted
            continue
        if not quoted:
            depth = max(depth + (character == "(") - (character == ")"), 0)
        if character == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts if part.strip())
