"""``conformix demo``: averaged scores on real outputs, as a table and a picture."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from conformix.cli.options import Json, Scores, Seed, listed
from conformix.cli.output import (
    wants_json,
    working,
    write_json,
    write_line,
    write_table,
)

EXAMPLE = "conformix demo --out demo"


def demo(
    *,
    out: Annotated[Path, typer.Option(help="Folder of the picture.")] = Path("demo"),
    alpha: Annotated[
        float | None, typer.Option(help="Allowed miscoverage; by default 0.05 and 0.01.")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Under which splits scores are averaged, by commas.")
    ] = "vfcp,efcp,dlcp,dlcp+",
    scores: Scores = "paper",
    seed: Seed = 0,
    as_json: Json = None,
) -> None:
    """Averaged scores on CIFAR-100, and a picture."""
    from conformix.experiments.demo import Choices, Demo, table  # noqa: PLC0415  loads scipy

    alphas = Choices.alphas if alpha is None else (alpha,)
    case = Demo.load(Choices(alphas, listed(scores), listed(split), seed))
    json_lines = wants_json(as_json)
    if not json_lines:
        write_line(case.title)
    for level in alphas:
        with working(f"alpha = {level:g}"):
            rows = list(case.rows(level))
        if json_lines:
            for row in rows:
                write_json(asdict(row))
        else:
            write_line()
            write_table(table(f"alpha = {level:g} (asked for: coverage {1 - level:g})", rows))
    with working("drawing"):
        picture = str(case.draw(out))
    if json_lines:
        write_json({"picture": picture})
    else:
        write_line()
        write_line(f"set size over the weights of {', '.join(case.choices.scores)}: {picture}")
